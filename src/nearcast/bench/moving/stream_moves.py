"""Times moves on Spark beside a hub: a stream of changes in files, a batch of moves a trigger, over the same files.

All subscriptions move at each timestamp, and each timestamp is a batch; the first ones warm up. Before them come many
small batches, in which Spark's JVM compiles what every batch does: in the first ones the compiler takes a good part of
all CPU time. Both ways read the files, move, and write what that delivers as Parquet. The hub comes first and once
more at the end, and the better of the two counts. No figure is reported unless both deliver as much, batch by batch.
"""

from __future__ import annotations

import gc
import os
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.bench.aims import Aim
from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.moving.aims import AimRows, AimsRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from nearcast.bench.data.moving import MovingWorkload
    from nearcast.bench.timing import Say
    from nearcast.hub import Hub
    from nearcast.spark.batch_progress import BatchProgress

QUESTION = "How many subscriptions a second can move on Spark, beside a hub on the same files?"
#: Batches of all subscriptions that warm up, and batches that are measured.
_WARM, _MEASURED = 2, 3
#: Small batches before them, of which the first has all messages.
SMALL_BATCHES = 100
#: How many subscriptions move in each: some of those that move again in the first timestamp, to the same places.
_MOVES_PER_SMALL_BATCH = 10


@dataclass(frozen=True)
class MoveFiles:
    """Files of a stream of moves: a folder of messages, one of changes, and the files of changes by batch.

    The batches from `first_measured` on are measured.
    """

    messages: Path
    changes: Path
    batches: list[list[Path]]
    first_measured: int


@dataclass(frozen=True)
class MoveTimes:
    """Seconds and deliveries of each measured batch, and the CPU seconds of all of them."""

    seconds: list[float]
    deliveries: list[int]
    cpu_s: float


def run_stream_moves(
    request: AimsRequest, folder: Path, slots: int, start: Callable[[], SparkSession], say: Say, tell: Say
) -> dict[str, Any]:
    """Return the report of a run; `start` gives the session, which runs so many tasks at once."""
    from nearcast.bench.report import machine

    say("preparing the workload")
    setting = replace(request.setting, mobility=1.0, timestamps=_WARM + _MEASURED)
    workload = request.files.workload(setting)
    about = dict(request.files.about)
    files = _written(workload, folder, slots)
    before = _by_hub(workload, request, files, folder / "hub.parquet", say)
    say("starting Spark")
    streamed = _by_stream(workload, request, files, folder, slots, start(), say)
    _must_equal(before, streamed)
    again = _by_hub(workload, request, files, folder / "again.parquet", say)
    best = min(before, again, key=lambda each: sum(each.seconds))
    n, rows = setting.subscriptions * _MEASURED, AimRows(tell)
    hub_rate, stream_rate = (n / max(sum(each.seconds), 1e-9) for each in (best, streamed))
    rows.add("hub: files of moves to files of deliveries, by the clock", round(hub_rate), "moves/s")
    rows.add(f"stream: the same with {slots} slots, by the clock", round(stream_rate), "moves/s")
    rows.add("stream by hub", round(stream_rate / hub_rate, 3), "", Aim.at_least(0.5))
    rows.add("hub, CPU", round(best.cpu_s * 1e6 / n, 2), "µs/move")
    rows.add("stream, CPU of all processes", round(streamed.cpu_s * 1e6 / n, 2), "µs/move")
    rows.add("deliveries of the measured batches", sum(streamed.deliveries), "")
    checked = f"stream and hub deliver as many changes in each of {_MEASURED} batches"
    more = {"index": request.index, "batch": setting.subscriptions, "checked": checked, "command": request.command}
    return {"workload": {"question": QUESTION, **about, **more}, "machine": machine(), "results": rows.rows}


def _written(workload: MovingWorkload, folder: Path, per_batch: int) -> MoveFiles:
    """Write messages and moves; times of modification say in which order files came, as Spark takes them."""
    messages, changes = folder / "messages", folder / "changes"
    messages.mkdir()
    changes.mkdir()
    stamp, batches = time.time() - 86_400, list[list[Path]]()
    pq.write_table(workload.messages_before(), messages / "all.parquet")
    for at, moves in enumerate(_batches(workload)):
        moves = moves.add_column(0, "op", pa.array(["move"] * moves.num_rows))
        ends = np.linspace(0, moves.num_rows, per_batch + 1).astype(int).tolist()
        batches.append([changes / f"{at:03d}-{part:02d}.parquet" for part in range(per_batch)])
        for path, (first, last) in zip(batches[-1], pairwise(ends), strict=True):
            pq.write_table(moves.slice(first, last - first), path)
            stamp += 0.1
            os.utime(path, (stamp, stamp))
    return MoveFiles(messages, changes, batches, len(batches) - _MEASURED)


def _batches(workload: MovingWorkload) -> Iterator[pa.Table]:
    """Yield the moves of all batches in order, the small ones first."""
    first = workload.moves_at(0)
    for at in range(SMALL_BATCHES):
        begin = at * _MOVES_PER_SMALL_BATCH % max(1, first.num_rows - _MOVES_PER_SMALL_BATCH)
        yield first.slice(begin, _MOVES_PER_SMALL_BATCH)
    for at in range(len(workload.movement.times)):
        yield workload.moves_at(at)


def _by_hub(workload: MovingWorkload, request: AimsRequest, files: MoveFiles, out: Path, say: Say) -> MoveTimes:
    """Take a hub through all batches, and time the measured ones."""
    from nearcast.files import DeliveryWriter, read_table
    from nearcast.hub import Hub

    say("hub: storing subscriptions and messages")
    hub = Hub(workload.movement.space, index=request.index, lifetime="expires")
    hub.subscribe_many(workload.subscriptions)
    hub.publish_many(workload.messages_before())
    seconds, deliveries, cpu_s = [], [], 0.0
    with DeliveryWriter(out) as writer:
        for at, batch in enumerate(files.batches):
            say(f"hub: batch {at + 1} of {len(files.batches)}")
            cpu, began = time.process_time(), time.perf_counter()
            n = sum(_moved(hub, read_table(path).drop_columns(["op"]), writer) for path in batch)
            if at >= files.first_measured:
                seconds.append(time.perf_counter() - began)
                cpu_s += time.process_time() - cpu
                deliveries.append(n)
    hub.close()
    del hub
    gc.collect()
    return MoveTimes(seconds, deliveries, cpu_s)


def _moved(hub: Hub, moves: pa.Table, writer: Any) -> int:
    """Move a table, write what that delivers, and return how much it is."""
    told = hub.move_many(moves)
    for rows in told.tables(dictionaries=True):
        writer.write(rows)
    return len(told)


def _by_stream(
    workload: MovingWorkload,
    request: AimsRequest,
    files: MoveFiles,
    folder: Path,
    slots: int,
    spark: SparkSession,
    say: Say,
) -> MoveTimes:
    """Take a stream through all batches; times are those of Spark's triggers."""
    from nearcast.bench.spark.processes import cpu_seconds
    from nearcast.bench.spark.stream import trigger_seconds
    from nearcast.spark.stream import stream

    deliveries, cpu = list[int](), list[float]()

    def on_batch(progress: BatchProgress) -> None:
        deliveries.append(progress.report.deliveries)
        cpu.append(cpu_seconds()["all"])
        say(f"stream: batch {len(deliveries)} of {len(files.batches)}")

    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", len(files.batches) + 10)
    running = stream(
        files.messages,
        workload.subscriptions,
        changes=files.changes,
        out=folder / "out",
        checkpoint=folder / "K",
        lifetime="expires",
        partitions=slots,
        space=workload.movement.space,
        index=request.index,
        once=True,
        at_once=slots,
        spark=spark,
        on_batch=on_batch,
    )
    triggers = trigger_seconds(running)
    chosen, first = sorted(triggers)[files.first_measured :], files.first_measured
    return MoveTimes([triggers[at] for at in chosen], deliveries[first:], cpu[-1] - cpu[first - 1])


def _must_equal(hub: MoveTimes, streamed: MoveTimes) -> None:
    if hub.deliveries != streamed.deliveries:
        raise AnswersDiffer(
            f"the hub delivers {hub.deliveries} in the measured batches, the stream {streamed.deliveries}: figures are"
            " withheld; report this with the command and its seed"
        )
