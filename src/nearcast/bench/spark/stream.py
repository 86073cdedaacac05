"""Runs a stream over prepared files, and measures each of its batches."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast.bench.spark.data import TINY_WARM
from nearcast.bench.spark.processes import cpu_seconds, private_of_workers
from nearcast.pipeline.store.store import batch_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nearcast.bench.spark.data import Batch, StreamWorkload
    from nearcast.bench.timing import Say
    from nearcast.pipeline.driver.batch_report import Report
    from nearcast.pipeline.driver.pipeline import Pipeline
    from nearcast.spark.batch_progress import BatchProgress
    from nearcast.spark.stream import Stream


@dataclass
class StreamRecording:
    """Measurements of a stream, batch by batch; CPU seconds are cumulative, by role."""

    reports: list[Report] = field(default_factory=list)
    cpu: list[dict[str, float]] = field(default_factory=list)
    segment_bytes: list[int] = field(default_factory=list)
    private: list[int] = field(default_factory=list)
    triggers: dict[int, float] = field(default_factory=dict)
    replication: float = 1.0
    snapshot_bytes: int = 0
    delivery_bytes: int = 0


class _Arrivals(NamedTuple):
    """Files that a stream works off before others come: a line about them, and the batches, by kind."""

    title: str
    messages: list[Batch]
    changes: list[Batch]


def _arrivals(given: StreamWorkload) -> list[_Arrivals]:
    """Return what comes one after the other: a stream that takes messages and changes at once has no order for them."""
    measured = _Arrivals("stream", [*given.warming, *given.measured, *given.tiny], [])
    if not given.joining:
        return [_Arrivals("stream", given.filling_batches + measured.messages, [])]
    return [
        _Arrivals("stream: filling the window", given.filling_batches, []),
        _Arrivals("stream: searching the window", [], given.joining),
        measured,
    ]


def run_stream(
    spark: SparkSession, given: StreamWorkload, folder: Path, *, plan: str, partitions: int, say: Say
) -> StreamRecording:
    """Take all batches through Structured Streaming, one after the other, in as many queries as there are arrivals."""
    recording = StreamRecording()
    last_measured = given.n_before + len(given.measured) - 1
    total = given.n_before + len(given.measured) + len(given.tiny)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", total + 10)
    say("stream: storing subscriptions")
    folders = {kind: folder / kind for kind in ("messages", "changes")}
    for each in folders.values():
        each.mkdir(parents=True)
    for arrivals in _arrivals(given):
        for kind, place in folders.items():
            for path in (path for batch in getattr(arrivals, kind) for path in batch):
                os.link(path, place / path.name)
        running = _Running(recording, last_measured, partial(_say_batch, say, arrivals.title, total))
        running.begin(spark, given, folder, folders, plan, partitions)
        recording.triggers |= trigger_seconds(running.stream)
    pipeline = running.stream.pipeline
    recording.replication = replication(pipeline)
    manifest = pipeline.state.manifest
    recording.snapshot_bytes = sum(manifest.sizes[entry.snapshot] for entry in manifest.partitions)
    recording.delivery_bytes = sum(path.stat().st_size for path in (folder / "out").glob("part-*"))
    return recording


def _say_batch(say: Say, title: str, total: int, batch: int) -> None:
    say(f"{title}, batch {batch + 1} of {total}")


class _Running:
    """A query over what has arrived, each batch of which is noted."""

    stream: Stream

    def __init__(self, recording: StreamRecording, last_measured: int, say_batch: Callable[[int], None]):
        self._recording, self._last_measured, self._say_batch = recording, last_measured, say_batch
        self._is_there = Event()

    def begin(
        self,
        spark: SparkSession,
        given: StreamWorkload,
        folder: Path,
        folders: dict[str, Path],
        plan: str,
        partitions: int,
    ) -> None:
        """Start the query, or go on from where the one before ended."""
        from nearcast.spark.stream import stream

        self.stream = stream(
            folders["messages"],
            given.first,
            out=folder / "out",
            checkpoint=folder / "K",
            changes=folders["changes"] if given.joining else None,
            window=given.window,
            window_mode=given.window_mode,
            plan=plan,
            partitions=partitions,
            vocabulary=given.vocabulary,
            space=given.space,
            sample=given.sample,
            once=True,
            at_once=given.files_per_batch,
            spark=spark,
            on_batch=self._note,
        )
        self._is_there.set()

    def _note(self, progress: BatchProgress) -> None:
        self._is_there.wait()
        recording, report = self._recording, progress.report
        recording.reports.append(report)
        recording.cpu.append(cpu_seconds())
        recording.segment_bytes.append(_segment_bytes(self.stream.pipeline))
        if report.batch == self._last_measured:
            recording.private = private_of_workers()
        self._say_batch(report.batch)


def trigger_seconds(running: Stream) -> dict[int, float]:
    """Wait for the end of a stream; return the seconds of each batch's trigger, and raise what a hook raised."""
    running.wait()
    if running.hook_error is not None:
        raise running.hook_error
    assert running.query is not None
    progresses = [each for each in running.query.recentProgress if "addBatch" in each["durationMs"]]
    return {each["batchId"]: each["durationMs"]["triggerExecution"] / 1e3 for each in progresses}


def _segment_bytes(pipeline: Pipeline) -> int:
    manifest = pipeline.state.manifest
    return sum(manifest.sizes[name] for name in manifest.recent if batch_of(name) == manifest.batch)


def replication(pipeline: Pipeline) -> float:
    """Return how many copies there are of a subscription, on the average."""
    copies = pipeline.state.directory.copies
    if not len(copies) or not pipeline.state.router.plan.has_copies:
        return 1.0
    return float(np.bitwise_count(copies).sum() / len(copies))


def figures(given: StreamWorkload, recording: StreamRecording) -> dict[str, Any]:
    """Return the figures of the measured batches and of the tiny ones."""
    first, n = given.n_before, len(given.measured)
    chosen = range(first, first + n)
    reports = [recording.reports[batch] for batch in chosen]
    messages = sum(report.messages for report in reports)
    tuples = sum(report.tuples for report in reports)
    seconds = [recording.triggers[batch] for batch in chosen]
    in_pipeline = sum(report.seconds for report in reports)
    cpu = {role: recording.cpu[first + n - 1][role] - recording.cpu[first - 1][role] for role in recording.cpu[0]}
    load = np.array([[each["seconds"] for each in report.load] for report in reports]).sum(axis=0)
    routed = np.array([[each["messages"] for each in report.load] for report in reports]).sum(axis=0)
    tiny = [recording.triggers[batch] for batch in sorted(recording.triggers) if batch >= first + n + TINY_WARM]
    return {
        "batches": n,
        "messages": messages,
        "deliveries": sum(report.deliveries for report in reports),
        "seconds": round(sum(seconds), 3),
        "messages_per_s": round(messages / sum(seconds), 1),
        "batch_s_median": round(median(seconds), 3),
        "batch_s_max": round(max(seconds), 3),
        "pipeline_s": round(in_pipeline, 3),
        "busiest_s": round(float(load.max()), 3),
        **{f"cpu_{role}_s": round(value, 2) for role, value in cpu.items()},
        "cpu_us_per_message": round(cpu["all"] * 1e6 / messages, 3),
        "cpu_us_per_tuple": round(cpu["all"] * 1e6 / max(tuples, 1), 3),
        "tuples_per_message": round(tuples / messages, 3),
        "replication": round(recording.replication, 3),
        "balance_seconds": round(float(load.max() / load.mean()), 3),
        "balance_messages": round(float(routed.max() / max(routed.mean(), 1e-9)), 3),
        "segment_bytes_per_message": round(sum(recording.segment_bytes[batch] for batch in chosen) / messages, 1),
        "delivery_bytes_per_row": round(
            recording.delivery_bytes / max(sum(r.deliveries for r in recording.reports), 1), 2
        ),
        "snapshot_bytes_per_subscription": round(recording.snapshot_bytes / max(given.subscriptions.num_rows, 1), 1),
        "tiny_batch_ms": round(median(tiny) * 1e3, 1),
        "tiny_batch_ms_max": round(max(tiny) * 1e3, 1),
        "tiny_batch_ms_late": round(median(tiny[-max(len(tiny) // 3, 1) :]) * 1e3, 1),
        "tiny_batches": len(tiny),
        "worker_private_mb": [round(each / 1e6, 1) for each in recording.private],
    }
