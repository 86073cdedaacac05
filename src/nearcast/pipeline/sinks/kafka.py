"""The sink into a topic of Kafka: Spark reads staged lines and its connector sends them. Imports pyspark when used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nearcast.errors import NearcastError
from nearcast.pipeline.kafka_topics import KafkaOptions, KafkaTopic, without_connector
from nearcast.pipeline.sinks.after_commit import AfterCommitSink
from nearcast.pipeline.sinks.base import Output
from nearcast.pipeline.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class KafkaSink(AfterCommitSink):
    """A topic of Kafka, at least once: the key is the `subscription_id`, the value the delivery as a line of JSON.

    One task sends all rows of a subscription, in order, and they share a partition of the topic.
    """

    def __init__(self, topic: KafkaTopic, store: Store, options: KafkaOptions):
        super().__init__(str(topic), store, ".jsonl")
        self.topic, self.options = topic, options

    def check(self) -> None:
        """Refuse a session without the connector."""
        from pyspark.errors import AnalysisException, IllegalArgumentException

        try:
            _session().read.format("kafka").load()
        except IllegalArgumentException:
            return  # the connector is there and misses the options
        except AnalysisException:
            raise without_connector(self.topic) from None

    def send(self, batch: int, outputs: Sequence[Output]) -> None:
        """Have Spark send the staged lines; NearcastError in one line, without secrets, where it cannot."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        writer = self.records(outputs).write.format("kafka").options(**self.options.for_writing(self.topic))
        try:
            writer.save()
        except (PySparkException, Py4JError) as error:
            reason = self.options.without_secrets(_root_cause(str(error)))
            raise NearcastError(
                f"{self.topic}: batch {batch} is committed and could not be sent: {reason}; the next start sends it"
            ) from None

    def records(self, outputs: Sequence[Output]) -> DataFrame:
        """Return what is sent, key and value: all rows of a subscription in one partition, in order.

        Staged files are read in pieces, and a subscription that was removed and came back within the batch is in two
        files. So rows are sorted by step and, within a step, by their place in the file.
        """
        from pyspark.sql import functions as F  # noqa: N812

        lines = _session().read.text([self.stager.store.url(each["staged"]) for each in outputs])
        placed = lines.select(
            F.get_json_object("value", "$.subscription_id").alias("key"),
            "value",
            F.get_json_object("value", "$.step").cast("long").alias("step"),
            F.col("_metadata.file_block_start").alias("piece"),
            F.monotonically_increasing_id().alias("row"),
        )
        return placed.repartition("key").sortWithinPartitions("step", "piece", "row").select("key", "value")


def _root_cause(text: str) -> str:
    """Return the line of the last cause in a stack of Java, without the class of the exception."""
    lines = [line.strip() for line in text.splitlines()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    shown = causes[-1] if causes else next((line for line in lines if line), "no reason")
    name, _, says = shown.partition(": ")
    return (says if says and "." in name and " " not in name else shown)[:300].rstrip(".")


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()
