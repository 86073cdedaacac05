"""Times the stream from a topic of Kafka, beside what the broker and Spark's connector take by themselves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.spark.stream import trigger_seconds
from nearcast.errors import InvalidInput
from nearcast.pipeline.kafka_topics import KafkaOptions, KafkaTopic, without_connector
from nearcast.spark.failures import in_one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from nearcast.bench.spark.data import StreamWorkload
    from nearcast.bench.timing import Say
    from nearcast.pipeline.driver.batch_report import Report


def run_topic(
    spark: SparkSession,
    given: StreamWorkload,
    topic: KafkaTopic,
    folder: Path,
    *,
    batch: int,
    plan: str,
    partitions: int,
    deliveries: int,
    say: Say,
) -> dict[str, Any]:
    """Fill a topic with the messages that warm up and those that are measured; return what reading and matching take.

    `deliveries` are those of all these messages, into files of Parquet. `InvalidInput` if the topic holds records.
    """
    before = _count(spark, topic)
    if before:
        raise InvalidInput(f"{topic} holds {before:,} records; give a topic without any, which is filled here")
    say("topic: filling it")
    _fill(spark, given, topic)
    say("topic: reading it with Spark alone")
    n_sent = _count(spark, topic)  # and the connector is loaded
    alone_s = min(_reading_s(spark, topic) for _ in range(2))
    reports, triggers = _stream(spark, given, topic, folder, batch=batch, plan=plan, partitions=partitions, say=say)
    found = sum(report.deliveries for report in reports)
    if found != deliveries:
        raise AnswersDiffer(
            f"files deliver {deliveries:,}, the topic {found:,}: figures are withheld; report this with the command and"
            " its seed"
        )
    first = min(len(given.warming), len(reports) - 1)
    measured = reports[first:]
    messages = sum(report.messages for report in measured)
    seconds = sum(triggers[report.batch] for report in measured)
    broker_s = alone_s * messages / n_sent
    return {
        "batches": len(measured),
        "messages": messages,
        "deliveries": sum(report.deliveries for report in measured),
        "seconds": round(seconds, 3),
        "messages_per_s": round(messages / seconds, 1),
        "broker_s": round(broker_s, 3),
        "broker_messages_per_s": round(n_sent / alone_s, 1),
        "messages_per_s_without_broker": round(messages / max(seconds - broker_s, 1e-9), 1),
    }


def _records(spark: SparkSession, topic: KafkaTopic) -> DataFrame:
    """Return the records that a topic holds now."""
    from pyspark.errors import AnalysisException

    reader = spark.read.format("kafka").options(**KafkaOptions().for_reading(topic, None))
    try:
        return reader.load()
    except AnalysisException as error:
        if "data source" not in str(error).lower():
            raise
        raise without_connector(topic) from None


def _count(spark: SparkSession, topic: KafkaTopic) -> int:
    """Return how many records a topic holds; `NearcastError` in one line where it cannot be read."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    records = _records(spark, topic)
    try:
        return int(records.count())
    except (Py4JError, PySparkException) as error:
        raise in_one_line(error, f"reading {topic}")  # noqa: B904 - it has its cause


def _fill(spark: SparkSession, given: StreamWorkload, topic: KafkaTopic) -> None:
    """Write messages as JSON, first those that warm up."""
    from pyspark.sql import functions as F  # noqa: N812

    for batches in (given.warming, given.measured):
        rows = spark.read.parquet(*(str(path) for files in batches for path in files))
        values = rows.select(F.to_json(F.struct("*")).alias("value"))
        values.write.format("kafka").options(**KafkaOptions().for_writing(topic)).save()


def _reading_s(spark: SparkSession, topic: KafkaTopic) -> float:
    began = time.perf_counter()
    _records(spark, topic).select("value").write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def _stream(
    spark: SparkSession,
    given: StreamWorkload,
    topic: KafkaTopic,
    folder: Path,
    *,
    batch: int,
    plan: str,
    partitions: int,
    say: Say,
) -> tuple[list[Report], dict[int, float]]:
    """Take the topic through a stream to its end; return the reports of batches, and the seconds of their triggers."""
    from nearcast.spark.stream import stream

    reports: list[Report] = []
    say("topic: stream")
    running = stream(
        str(topic),
        given.subscriptions,
        out=folder / "out",
        checkpoint=folder / "K",
        plan=plan,
        partitions=partitions,
        vocabulary=given.vocabulary,
        space=given.space,
        sample=given.sample,
        once=True,
        at_once=batch,
        spark=spark,
        on_batch=lambda progress: reports.append(progress.report),
    )
    return reports, trigger_seconds(running)
