"""The benchmark of the stream: one run against the local engine, over the same subscriptions and the same files.

Without a window the local engine comes first and once more at the end, and the better of the two counts: so the ratio
does not gain from other work on the machine. No figure is reported unless both deliver as much, batch by batch.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.spark.local_engine import LocalResult, local_hub, run_locally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nearcast.bench.request import BenchRequest
    from nearcast.bench.spark.data import StreamWorkload
    from nearcast.bench.spark.stream import StreamRecording
    from nearcast.bench.timing import Say

QUESTION = "How fast is the stream on Spark beside the local engine, on the same files?"


def run_spark(
    given: StreamWorkload,
    folder: Path,
    request: BenchRequest,
    start: Callable[[], SparkSession],
    say: Say,
) -> dict[str, Any]:
    """Return the results: `local`, `stream`, `match` (none for top-k), `topic` and `steps`, each a row of figures.

    `start` gives the session. For top-k subscriptions the local engine is a hub on one core.
    """
    from nearcast.bench.spark.batch_steps import steps_of
    from nearcast.bench.spark.stream import figures, run_stream

    is_topk = given.window is not None
    threads = 1 if is_topk else request.threads
    before = _locally(given, folder, threads, say)
    say("starting Spark")
    spark = start()
    recording = run_stream(spark, given, folder / "stream", plan=request.plan, partitions=request.partitions, say=say)
    row = figures(given, recording)
    chosen = recording.reports[given.n_before : given.n_before + len(given.measured)]
    _must_equal(before.deliveries, [report.deliveries for report in chosen])
    results: dict[str, Any] = {}
    if not is_topk:
        results["match"] = _matched(spark, given, folder, sum(before.deliveries), say)
    if request.topic is not None:
        results["topic"] = _from_topic(spark, given, request, folder / "topic", recording, say)
    # Filling a large window again would take longer than all the rest.
    again = before if is_topk else _locally(given, folder, threads, say)
    best = min(before, again, key=lambda each: each.seconds)
    local = _local_row(given, best, threads)
    row["ratio"] = round(row["messages_per_s"] / local["messages_per_s"], 3)
    if "match" in results:
        results["match"]["ratio"] = round(results["match"]["messages_per_s"] / local["messages_per_s"], 3)
    if request.with_steps:
        say("timing the steps of a batch in this process")
        results["steps"] = steps_of(given, folder / "steps", plan=request.plan, partitions=request.partitions)
    return {"local": local, "stream": row, **results}


def _from_topic(
    spark: SparkSession,
    given: StreamWorkload,
    request: BenchRequest,
    folder: Path,
    recording: StreamRecording,
    say: Say,
) -> dict[str, Any]:
    """Time the stream from a topic, over the messages of all batches but the tiny ones."""
    from nearcast.bench.spark.topic import run_topic
    from nearcast.pipeline.kafka_topics import KafkaTopic

    assert request.topic is not None
    reports = recording.reports[: given.n_before + len(given.measured)]
    return run_topic(
        spark,
        given,
        KafkaTopic.of(request.topic),
        folder,
        batch=request.batch,
        plan=request.plan,
        partitions=request.partitions,
        deliveries=sum(report.deliveries for report in reports),
        say=say,
    )


def _locally(given: StreamWorkload, folder: Path, threads: int, say: Say) -> LocalResult:
    say("local engine: storing subscriptions")
    hub = local_hub(given)
    say(f"local engine: {given.n_measured:,} messages")
    is_topk = given.window is not None
    result = run_locally(hub, given.measured, folder / "local.parquet", threads, is_topk=is_topk)
    del hub
    gc.collect()
    return result


def _local_row(given: StreamWorkload, result: LocalResult, threads: int) -> dict[str, Any]:
    return {
        "threads": threads,
        "messages": given.n_measured,
        "deliveries": sum(result.deliveries),
        "seconds": round(result.seconds, 3),
        "messages_per_s": round(given.n_measured / result.seconds, 1),
        "cpu_us_per_message": round(result.cpu_s * 1e6 / given.n_measured, 3),
    }


def _must_equal(local: list[int], stream: list[int]) -> None:
    for batch, (one, other) in enumerate(zip(local, stream, strict=True)):
        if one != other:
            raise AnswersDiffer(
                f"the local engine delivers {one:,} in measured batch {batch}, the stream {other:,}: figures are"
                " withheld; report this with the command and its seed"
            )


def _matched(spark: SparkSession, given: StreamWorkload, folder: Path, expected: int, say: Say) -> dict[str, Any]:
    """Match all measured messages at once, as `match --engine spark` does; storing subscriptions does not count."""
    from nearcast.files import read_table
    from nearcast.pipeline.file_match import FileMatch
    from nearcast.pipeline.settings import PipelineSettings
    from nearcast.spark.runner import SparkRunner
    from nearcast.tables import Rejected

    steps: list[tuple[str, float]] = []

    def note(title: str, _: int | None) -> None:
        steps.append((title, time.perf_counter()))
        say(f"batch match: {title}")

    place = folder / "match"
    place.mkdir()
    run = FileMatch(PipelineSettings(given.space), SparkRunner(spark), place, note)
    began = time.perf_counter()
    tables = (read_table(path) for batch in given.measured for path in batch)
    _, counts = run.run(given.subscriptions, tables, given.vocabulary, Rejected(), suffix=".parquet")
    ended = time.perf_counter()
    if counts["deliveries"] != expected:
        raise AnswersDiffer(
            f"the local engine delivers {expected:,}, the batch match {counts['deliveries']:,}: figures are withheld;"
            " report this with the command and its seed"
        )
    at = dict(steps)
    storing = at["matching messages"] - at["storing subscriptions"]
    seconds = ended - began - storing
    return {
        "messages": counts["messages"],
        "deliveries": counts["deliveries"],
        "seconds": round(seconds, 3),
        "messages_per_s": round(counts["messages"] / seconds, 1),
        "matching_s": round(ended - at["matching messages"], 3),
        "storing_s": round(storing, 3),
    }
