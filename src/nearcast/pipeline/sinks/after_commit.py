"""Sinks that hand a batch over after it was committed: at least once, or as best they can."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from nearcast.errors import NotSupported
from nearcast.pipeline.sinks.base import Output, Sink, Stager, in_order
from nearcast.pipeline.store.store import Store
from nearcast.tables.names import DELIVERY_SCHEMA

_FOLDER = "staged"
_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"


class KafkaSink(Sink):
    """A topic of Kafka, at least once: the key is the `delivery_id`, the value the delivery as a line of JSON."""

    def __init__(self, servers: str, topic: str, store: Store):
        self.servers, self.topic = servers, topic
        self.name = f"kafka://{servers}/{topic}"
        self.stager = Stager(store, _FOLDER, ".jsonl")

    def check(self) -> None:
        """Refuse a session without the connector."""
        from pyspark.errors import AnalysisException, IllegalArgumentException

        try:
            _session().read.format("kafka").load()
        except IllegalArgumentException:
            return  # the connector is there and misses the options
        except AnalysisException:
            raise NotSupported(
                f"{self.name}: this Spark has no connector for Kafka; start it with spark.jars.packages set to"
                f" {_CONNECTOR}, or name the jars of an installed one"
            ) from None

    def publish(self, batch: int, outputs: Sequence[Output]) -> None:
        """Have Spark send the staged lines."""
        if outputs:
            options = {"kafka.bootstrap.servers": self.servers, "topic": self.topic}
            self.records(outputs).write.format("kafka").options(**options).save()

    def records(self, outputs: Sequence[Output]) -> Any:
        """Return a DataFrame of what is sent: key and value."""
        from pyspark.sql import functions as F  # noqa: N812

        lines = _session().read.text([self.stager.store.url(each["staged"]) for each in in_order(outputs)])
        return lines.select(F.get_json_object(lines["value"], "$.delivery_id").alias("key"), "value")


class CallableSink(Sink):
    """The user's function of the deliveries and the number of the batch, at least once; not for an empty batch.

    It gets a DataFrame where a Spark session is running, else an Arrow table.
    """

    def __init__(self, function: Callable[[Any, int], object], store: Store):
        self.function = function
        self.name = "function"
        self.stager = Stager(store, _FOLDER, ".parquet")

    def publish(self, batch: int, outputs: Sequence[Output]) -> None:
        """Call the function."""
        if not outputs:
            return
        session = _session_or_none()
        if session is None:
            self.function(_table(self.stager.store, outputs), batch)
        else:
            paths = [self.stager.store.url(each["staged"]) for each in in_order(outputs)]
            self.function(session.read.parquet(*paths), batch)


class ConsoleSink(Sink):
    """Deliveries on stdout, as lines of JSON."""

    def __init__(self, store: Store):
        self.name = "console"
        self.stager = Stager(store, _FOLDER, ".jsonl")

    def publish(self, batch: int, outputs: Sequence[Output]) -> None:
        """Print the staged lines."""
        for output in in_order(outputs):
            sys.stdout.write(self.stager.store.read_bytes(output["staged"]).decode())
        sys.stdout.flush()


class MemorySink(Sink):
    """Deliveries in the memory of the driver: `tables`, one for each batch that delivered something."""

    def __init__(self, store: Store):
        self.name = "memory"
        self.stager = Stager(store, _FOLDER, ".parquet")
        self.tables: list[pa.Table] = []

    def publish(self, batch: int, outputs: Sequence[Output]) -> None:
        """Read the staged rows."""
        if outputs:
            self.tables.append(_table(self.stager.store, outputs))

    def to_table(self) -> pa.Table:
        """Return all deliveries so far as one table."""
        return pa.concat_tables(self.tables or [DELIVERY_SCHEMA.empty_table()], promote_options="permissive")


def _table(store: Store, outputs: Sequence[Output]) -> pa.Table:
    from pyarrow import parquet

    tables = [parquet.read_table(store.local(each["staged"]), partitioning=None) for each in in_order(outputs)]
    return pa.concat_tables(tables, promote_options="permissive")


def _session_or_none() -> Any:
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _session() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()
