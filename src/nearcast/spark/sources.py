"""The input of a stream as one DataFrame: paths of files, rows of other sources as JSON, beats of the clock.

Files are listed by Spark and read by our own readers, so that every format and every bad row is treated as in
`nearcast match`. Rows of a DataFrame or of Kafka are bytes of JSON, one object a row: a record may hold anything, and
whoever reads it rejects it (`row_reader`). Imports pyspark when called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearcast.errors import InvalidInput, NearcastError
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.kafka_topics import KafkaOptions, KafkaTopic, is_topic, without_connector
from nearcast.pipeline.store.places import local_root, spark_url
from nearcast.pipeline.store.store import Store
from nearcast.spark.session import check_opens, qualified

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from nearcast.pipeline.worker.source_reader import Kind

#: The columns of every source: what a row is, where it stands, and either a file or the row itself.
COLUMNS = ("kind", "source", "position", "path", "length", "arrived", "row")
CLOCK = "clock"


def folder_frame(
    spark: SparkSession, folder: str, kind: Kind, files_per_batch: int | None, *, lists_always: bool = False
) -> DataFrame:
    """Return the files of a folder as a stream of paths; names that begin with a dot or underscore are passed over.

    A file that has gone since it was listed has no row: `listed_files` tells it. With `lists_always` no batch is made
    of what an earlier listing found: one that is not full has all there is.
    """
    from pyspark.sql import functions as F  # noqa: N812

    reader = spark.readStream.format("binaryFile").option("recursiveFileLookup", "true")
    reader = reader.option("ignoreMissingFiles", "true")
    if files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", files_per_batch)
    if lists_always:
        reader = reader.option("maxCachedFiles", 0)
    frame = reader.schema("path string, modificationTime timestamp, length long, content binary").load(folder)
    return frame.select(
        F.lit(kind).alias("kind"),
        F.lit(None).cast("string").alias("source"),
        F.lit(0).cast("long").alias("position"),
        F.col("path"),
        F.col("length"),
        F.col("modificationTime").alias("arrived"),
        F.lit(None).cast("binary").alias("row"),
    )


def rows_frame(frame: DataFrame, kind: Kind) -> DataFrame:
    """Return the rows of any streaming DataFrame as JSON; their order is that of a column `seq`, else Spark's own.

    Without `seq` they have no position: Spark numbers no rows of a stream, so that whoever reads them does. Nor do they
    say when they arrived. Spark writes the time of a batch into the code that it generates for it, as a number: it
    would be other code in each batch, compiled anew.
    """
    from pyspark.sql import functions as F  # noqa: N812

    names = [name for name in frame.columns if name != "seq"]
    position = F.lit(None).cast("long")
    if "seq" in frame.columns:
        position = F.coalesce(F.col("seq").cast("long"), F.lit(-1))
    # Spark's own form of times has milliseconds only.
    forms = {
        "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
        "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    }
    return frame.select(
        F.lit(kind).alias("kind"),
        F.lit(kind).alias("source"),
        position.alias("position"),
        F.lit(None).cast("string").alias("path"),
        F.lit(0).cast("long").alias("length"),
        F.lit(None).cast("timestamp").alias("arrived"),
        F.to_json(F.struct(*[F.col(f"`{name}`") for name in names]), forms).cast("binary").alias("row"),
    )


def kafka_frame(
    spark: SparkSession, topic: KafkaTopic, kind: Kind, rows_per_batch: int | None, options: KafkaOptions
) -> DataFrame:
    """Return the records of a topic, whose values are JSON objects; their order is that of partition and offset."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F  # noqa: N812

    reader = spark.readStream.format("kafka").options(**options.for_reading(topic, rows_per_batch))
    try:
        frame = reader.load()
    except AnalysisException as error:
        if "data source" not in str(error).lower():
            raise
        raise without_connector(topic) from None
    # What `format_string("%s/%05d")` gives, at less than half its price: that parses the pattern for every record.
    number = F.col("partition").cast("string")
    padded = F.when(F.col("partition") < 10**5, F.lpad(number, 5, "0")).otherwise(number)
    return frame.select(
        F.lit(kind).alias("kind"),
        F.concat(F.col("topic"), F.lit("/"), padded).alias("source"),
        F.col("offset").alias("position"),
        F.lit(None).cast("string").alias("path"),
        F.lit(0).cast("long").alias("length"),
        F.col("timestamp").alias("arrived"),
        F.col("value").alias("row"),
    )


def clock_frame(spark: SparkSession) -> DataFrame:
    """Return a beat every second; its time comes from the source's offset, so that a re-run sees the same one."""
    from pyspark.sql import functions as F  # noqa: N812

    frame = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    return frame.select(
        F.lit(CLOCK).alias("kind"),
        F.lit(None).cast("string").alias("source"),
        F.unix_micros("timestamp").alias("position"),
        F.lit(None).cast("string").alias("path"),
        F.lit(0).cast("long").alias("length"),
        F.col("timestamp").alias("arrived"),
        F.lit(None).cast("binary").alias("row"),
    )


def source_frame(
    spark: SparkSession,
    given: Any,
    kind: Kind,
    at_once: int | None,
    kafka: KafkaOptions | None = None,
    *,
    lists_always: bool = False,
) -> DataFrame:
    """Return a folder, a topic `kafka://host/topic` or a streaming DataFrame as the stream reads it.

    A folder elsewhere is listed by Spark and read by nearcast, so both must be able to open it.
    """
    if not isinstance(given, (str, Path)):
        if not getattr(given, "isStreaming", False):
            raise InvalidInput(f"{kind} is no stream; give a folder, kafka://host/topic or a streaming DataFrame")
        return rows_frame(given, kind)
    text = str(given)
    if is_topic(text):
        return kafka_frame(spark, KafkaTopic.of(text), kind, at_once, KafkaOptions() if kafka is None else kafka)
    path = local_root(text)
    if path is not None:
        if not Path(path).is_dir():
            raise InvalidInput(f"{text}: there is no such folder; a stream reads a folder that files arrive in")
    else:
        Store(text).list()  # it can be opened and listed here, or says why not
        check_opens(spark, text)
    return folder_frame(spark, spark_url(text), kind, at_once, lists_always=lists_always)


@dataclass(frozen=True)
class InputFolders:
    """The folders that files arrive in, by kind of input, as Spark begins the paths of their files.

    `are_all_files` tells that no other input has files: a path in none of the folders is then an error.
    `has_rows` and `has_clock` tell whether there are rows beside, of topics or DataFrames, and beats of the clock.
    """

    roots: Mapping[str, str]
    are_all_files: bool = True
    has_rows: bool = False
    has_clock: bool = False

    @classmethod
    def of(cls, spark: SparkSession, folders: Mapping[str, str], **others: bool) -> InputFolders:
        """Return folders under the names Spark has for them: links stay, what a URI leaves out is there."""
        return cls({kind: local_path(qualified(spark, each)) for kind, each in folders.items()}, **others)

    @property
    def tell_all(self) -> bool:
        """Whether the paths of files alone tell what came: all are of this host, and of one kind by their folder."""
        roots = [f"{root.rstrip('/')}/" for root in self.roots.values()]
        if self.has_rows or self.has_clock or not all(root.startswith("/") for root in roots):
            return False
        return not any(one is not other and one.startswith(other) for one in roots for other in roots)

    def name_of(self, path: str, kind: str) -> str:
        """Return the path of a file relative to the folder of its kind; as it is if it lies elsewhere."""
        return path if kind not in self.roots else path.removeprefix(self.roots[kind].rstrip("/") + "/")

    def sources_of(self, paths: Iterable[str]) -> list[BatchSource]:
        """Return files known by their paths alone as sources that are gone; the deepest folder tells their kind."""
        found = []
        for path in paths:
            inside = [(len(root), kind) for kind, root in self.roots.items() if self.name_of(path, kind) != path]
            if inside:
                kind = max(inside)[1]
                name = self.name_of(path, kind)
                found.append(BatchSource("changes" if kind == "changes" else "messages", name, path, is_gone=True))
            elif self.are_all_files:
                raise NearcastError(
                    f"{path} was listed by Spark and gave no row, and lies in none of the folders"
                    f" {', '.join(sorted(self.roots.values()))}: it would be lost; call the folder as Spark calls it"
                )
            # Else it is a file of a DataFrame, whose rows are not ours to read.
        return found


def local_path(path: str) -> str:
    """Return the path of a file as Spark names it, `file:/…` or `file:///…`, unescaped; any other as it is."""
    return re.sub("/+", "/", path.removeprefix("file:")) if path.startswith("file:") else path
