"""The benchmark of the stream: one run against the local engine, over the same subscriptions and the same files.

Without a window the local engine comes first and once more at the end, and the better of the two counts: so the ratio
does not gain from other work on the machine. No figure is reported unless both deliver as much, batch by batch.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import replace
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

    `start` gives the session. The local engine is a hub on as many cores as the stream has. Of several window modes the
    first is that of `stream`, another one of `stream_` and its name.
    """
    from nearcast.bench.spark.batch_steps import steps_of
    from nearcast.bench.spark.stream import figures

    is_topk = given.window is not None
    before = _locally(given, folder, request.threads, say)
    say("starting Spark")
    spark = start()
    recording = _streamed(spark, given, folder / "stream", request, before, say)
    streams = {"stream": figures(given, recording)}
    for mode in request.window_modes[1:]:
        other = replace(given, window_mode=mode)
        again = _streamed(spark, other, folder / f"stream-{mode}", request, before, say)
        streams[f"stream_{mode}"] = figures(other, again)
    results: dict[str, Any] = {}
    if not is_topk and request.with_match:
        results["match"] = _matched(spark, given, folder, sum(before.deliveries), say)
    if request.topic is not None:
        results["topic"] = _from_topic(spark, given, request, folder / "topic", recording, say)
    # Filling a large window again, or storing subscriptions that a stream's memory is measured with, takes too long.
    is_repeated = not is_topk and request.with_match
    again_locally = _locally(given, folder, request.threads, say) if is_repeated else before
    local = _local_row(given, min(before, again_locally, key=lambda each: each.seconds), request.threads)
    for row in (*streams.values(), *(results[name] for name in ("match",) if name in results)):
        row["ratio"] = round(row["messages_per_s"] / local["messages_per_s"], 3)
    if request.with_steps:
        say("timing the steps of a batch in this process")
        results["steps"] = steps_of(given, folder / "steps", plan=request.plan, partitions=request.partitions)
    return {"local": local, **streams, **results}


def _streamed(
    spark: SparkSession, given: StreamWorkload, folder: Path, request: BenchRequest, local: LocalResult, say: Say
) -> StreamRecording:
    """Run the stream; its measured batches must deliver as much as those of the local engine."""
    from nearcast.bench.spark.stream import run_stream

    recording = run_stream(spark, given, folder, plan=request.plan, partitions=request.partitions, say=say)
    chosen = recording.reports[given.n_before : given.n_before + len(given.measured)]
    _must_equal(local.deliveries, [report.deliveries for report in chosen])
    return recording


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
    hub = local_hub(given, say)
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
