"""Times the stream from a topic of Kafka, beside what the broker and Spark's connector take by themselves."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from nearcast import _arrow
from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.spark.batch_steps import CHANGES, as_changes
from nearcast.bench.spark.stream import trigger_seconds
from nearcast.errors import InvalidInput
from nearcast.pipeline.kafka_topics import KafkaOptions, KafkaTopic, without_connector
from nearcast.spark.failures import in_one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from nearcast.bench.spark.data import StreamWorkload
    from nearcast.bench.timing import Say
    from nearcast.pipeline.driver.batch_report import Report
    from nearcast.spark.batch_progress import BatchProgress

#: Batches of changes: the first warms up, and in the next few a new stream still becomes faster.
CHANGE_BATCHES = 9


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

    A second topic, whose name ends in `-changes`, is filled with changes afterwards. Topics that are not there are
    made. `deliveries` are those of all these messages, into files of Parquet. `InvalidInput` if a topic holds records.
    """
    changes = KafkaTopic(topic.servers, f"{topic.name}-changes")
    for each in (topic, changes):
        _must_be_empty(spark, each, partitions)
    say("topic: filling it")
    for files in (given.warming, given.measured):
        _fill(spark, [path for paths in files for path in paths], topic)
    say("topic: reading it with Spark alone")
    alone = _alone(spark, topic)
    run = partial(_stream, spark, given, topic, changes, folder, batch=batch, plan=plan, partitions=partitions, say=say)
    reports, triggers = run()
    found = sum(report.deliveries for report in reports)
    if found != deliveries:
        raise AnswersDiffer(
            f"files deliver {deliveries:,}, the topic {found:,}: figures are withheld; report this with the command and"
            " its seed"
        )
    say("topic: filling that of changes")
    _fill(spark, [_changes_file(given, folder, batch)], changes)
    alone_with_changes = _alone(spark, changes)
    later, later_triggers = run(batch=min(batch, CHANGES))
    measured = reports[min(len(given.warming), len(reports) - 1) :]
    seconds = sum(triggers[report.batch] for report in measured)
    row = {"batches": len(measured), "deliveries": sum(report.deliveries for report in measured)}
    row |= _rates("messages", sum(report.messages for report in measured), seconds, alone)
    changed = later[min(1, len(later) - 1) :]
    changing_s = sum(later_triggers[report.batch] for report in changed)
    row |= _rates("changes", sum(report.changes for report in changed), changing_s, alone_with_changes, "changes_")
    return row


class _AloneReading(NamedTuple):
    """Seconds in which Spark alone reads all records of a topic, and how many these are."""

    seconds: float
    records: int


def _rates(what: str, n: int, seconds: float, alone: _AloneReading, prefix: str = "") -> dict[str, Any]:
    """Return the rate of a stream over n records, and that without what reading them alone takes."""
    broker_s = alone.seconds * n / alone.records
    return {
        what: n,
        f"{prefix}seconds": round(seconds, 3),
        f"{what}_per_s": round(n / seconds, 1),
        f"{prefix}broker_s": round(broker_s, 3),
        f"broker_{what}_per_s": round(alone.records / alone.seconds, 1),
        f"{what}_per_s_without_broker": round(n / max(seconds - broker_s, 1e-9), 1),
    }


def _alone(spark: SparkSession, topic: KafkaTopic) -> _AloneReading:
    n = _count(spark, topic)  # and the connector is loaded
    return _AloneReading(min(_reading_s(spark, topic) for _ in range(2)), n)


def _must_be_empty(spark: SparkSession, topic: KafkaTopic, partitions: int) -> None:
    """Make a topic that is not there; `InvalidInput` if it holds records."""
    _records(spark, topic)  # which tells of a connector that is missing
    _make(spark, topic, partitions)
    before = _count(spark, topic)
    if before:
        raise InvalidInput(f"{topic} holds {before:,} records; give a topic without any, which is filled here")


def _make(spark: SparkSession, topic: KafkaTopic, partitions: int) -> None:
    """Make a topic unless it is there, by the client that the connector brings."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    java: Any = spark.sparkContext._jvm
    settings = java.java.util.Properties()
    settings.setProperty("bootstrap.servers", topic.servers)
    admin = java.org.apache.kafka.clients.admin.AdminClient.create(settings)
    try:
        if not admin.listTopics().names().get().contains(topic.name):
            made = java.java.util.ArrayList()
            made.add(java.org.apache.kafka.clients.admin.NewTopic(topic.name, partitions, 1))
            admin.createTopics(made).all().get()
    except Py4JError as error:
        raise in_one_line(error, f"making {topic}")  # noqa: B904 - it has its cause
    finally:
        admin.close()


def _changes_file(given: StreamWorkload, folder: Path, batch: int) -> Path:
    """Write rows that subscribe under new ids, a batch to warm up and those to measure."""
    rows = given.subscriptions
    wanted = np.arange(CHANGE_BATCHES * min(batch, CHANGES)) % rows.num_rows
    path = folder / "changes.parquet"
    pq.write_table(as_changes(rows.take(_arrow.numbers(wanted)), 0), path)
    return path


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
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    records = _records(spark, topic)
    try:
        return int(records.count())
    except (Py4JError, PySparkException) as error:
        raise in_one_line(error, f"reading {topic}")  # noqa: B904 - it has its cause


def _fill(spark: SparkSession, paths: list[Path], topic: KafkaTopic) -> None:
    """Write the rows of files as JSON."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = spark.read.parquet(*map(str, paths))
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
    changes: KafkaTopic,
    folder: Path,
    *,
    batch: int,
    plan: str,
    partitions: int,
    say: Say,
) -> tuple[list[Report], dict[int, float]]:
    """Take what topics hold now through a stream; return the reports of batches, and the seconds of their triggers."""
    from nearcast.spark.stream import stream

    reports: list[Report] = []

    def note(progress: BatchProgress) -> None:
        reports.append(progress.report)
        say(f"topic: batch {progress.report.batch + 1}")

    say("topic: stream")
    running = stream(
        str(topic),
        given.subscriptions,
        out=folder / "out",
        checkpoint=folder / "K",
        changes=str(changes),
        plan=plan,
        partitions=partitions,
        vocabulary=given.vocabulary,
        space=given.space,
        sample=given.sample,
        once=True,
        at_once=batch,
        spark=spark,
        on_batch=note,
    )
    return reports, trigger_seconds(running)
