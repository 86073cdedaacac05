"""Where deliveries go: files exactly once, Kafka and the user's function at least once, console and memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nearcast.errors import InvalidInput
from nearcast.geo.shapes import shorten
from nearcast.pipeline.kafka_topics import KafkaOptions, KafkaTopic, is_topic
from nearcast.pipeline.sinks.after_commit import AfterCommitSink, CallableSink, ConsoleSink, MemorySink
from nearcast.pipeline.sinks.base import Output, Sink, Stager
from nearcast.pipeline.sinks.files import FileFormat, FileSink, PartFolders, RejectedSink
from nearcast.pipeline.sinks.kafka import KafkaSink
from nearcast.pipeline.store.places import is_uri
from nearcast.pipeline.store.store import Store

__all__ = [
    "AfterCommitSink",
    "CallableSink",
    "ConsoleSink",
    "FileSink",
    "KafkaSink",
    "MemorySink",
    "Output",
    "PartFolders",
    "RejectedSink",
    "Sink",
    "Stager",
    "sink_of",
]


def sink_of(
    spec: str | Path | Sink | Callable[[Any, int], object],
    store: Store,
    kafka: KafkaOptions | None = None,
    *,
    delivery_ids: bool = False,
    folders: PartFolders = "one",
) -> Sink:
    """Return the sink that is meant; `store`, that of the stream, holds what sinks that are no files are handed.

    `delivery_ids` adds that column to Parquet files and tables in memory; all others have it. `folders` says how part
    files are put into folders; other sinks have none.

    "console", "memory", "kafka://host:port/topic", a function of the deliveries and the number of the batch, or else
    a folder of part files: JSON lines if its name ends in .jsonl or .ndjson, else Parquet.
    """
    if isinstance(spec, Sink):
        return spec
    if callable(spec):
        return CallableSink(spec, store)
    if not isinstance(spec, str | Path):
        raise InvalidInput(
            f'out is {shorten(spec)}; expected a folder, kafka://host:port/topic, "console", "memory" or a function',
            field="out",
        )
    given = str(spec)
    if given == "console":
        return ConsoleSink(store)
    if given == "memory":
        return MemorySink(store, delivery_ids=delivery_ids)
    if is_topic(given):
        return KafkaSink(KafkaTopic.of(given), store, KafkaOptions() if kafka is None else kafka)
    return _files(given, delivery_ids, folders)


def _files(given: str, delivery_ids: bool, folders: PartFolders) -> FileSink:
    extension = Path(given).suffix.lower()
    if extension in (".csv", ".json", ".geojson", ".gz"):
        raise InvalidInput(f"{given}: a stream writes a folder of .parquet or .jsonl parts; name it like that")
    if not is_uri(given) and Path(given).is_file():
        raise InvalidInput(f"{given} is a file; a stream writes a folder of parts, choose another name")
    format_: FileFormat = "jsonl" if extension in (".jsonl", ".ndjson") else "parquet"
    return FileSink(given, format_, delivery_ids=delivery_ids, folders=folders)
