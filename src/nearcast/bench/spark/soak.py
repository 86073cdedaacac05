"""A soak: messages and changes of subscriptions arrive for long, and the memory of every process is watched.

Of Python processes the private memory counts, of Spark's JVM what is live after a collection: it fills its heap before
it frees anything. Beside them stand the files of the state, which is the stream's half of the checkpoint.
"""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast import _arrow
from nearcast._saved import replace_file
from nearcast.bench.encoding import learned
from nearcast.bench.growth import growth_of
from nearcast.bench.spark.processes import ROLES, private, resident
from nearcast.tables import space_of
from nearcast.text import Analyzer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nearcast.bench.data.workloads import Workload
    from nearcast.bench.timing import Say
    from nearcast.spark.stream import Stream
    from nearcast.window import Window

#: Messages and changes that arrive each second, half of these new subscriptions and half taken back.
MESSAGES_PER_S, CHANGES_PER_S = 500, 50
#: Seconds between two samples at least, and how many there are at most.
SAMPLE_EVERY_S, SAMPLES = 2.0, 240
#: What must not grow.
SIZES = (*(f"{role}_mb" for role in ROLES), "state_mb", "state_files")
#: The share of the soak that warms up and says nothing about growth.
WARM_SHARE = 1 / 3
_POINTS = 12

Sample = dict[str, Any]


class Soak:
    """Files that arrive in two folders, and the stream that reads them."""

    def __init__(self, workload: Workload, folder: Path, window: Window | None, space: str | None):
        self._workload, self._folder, self._window = workload, folder, window
        names = [*workload.subscriptions.column_names, *workload.messages.column_names]
        self._space = space_of(names, space)
        for name in ("messages", "changes"):
            (folder / name).mkdir()
        self._n_files = self._n_messages = self._n_changes = 0

    def run(self, spark: SparkSession, seconds: float, *, plan: str, partitions: int, say: Say) -> list[Sample]:
        """Return what was seen every few seconds: the time, resident MB by role, and what was done by then."""
        from nearcast.spark.stream import stream

        done = {"batches": 0, "messages_done": 0, "changes_done": 0, "deliveries": 0}

        def on_batch(progress: Any) -> None:
            report = progress.report
            done["batches"] += 1
            done["messages_done"] += report.messages
            done["changes_done"] += report.changes
            done["deliveries"] += report.deliveries

        vocabulary = learned(self._workload.messages, self._space, Analyzer()).snapshot()
        running = stream(
            self._folder / "messages",
            self._workload.subscriptions,
            out=self._folder / "out",
            checkpoint=self._folder / "K",
            changes=self._folder / "changes",
            window=self._window,
            plan=plan,
            partitions=partitions,
            vocabulary=vocabulary,
            space=self._space,
            sample=self._workload.messages.slice(0, 20_000),
            spark=spark,
            on_batch=on_batch,
        )
        stopped = Event()
        feeder = Thread(target=self._feed, args=(stopped,), name="nearcast soak", daemon=True)
        feeder.start()
        try:
            return self._watched(spark, running, seconds, done, say)
        finally:
            stopped.set()
            feeder.join()
            running.stop()

    def _watched(
        self, spark: SparkSession, running: Stream, seconds: float, done: dict[str, int], say: Say
    ) -> list[Sample]:
        """Return the samples; an interrupt ends the soak, and what was seen until then counts."""
        samples: list[Sample] = []
        began, every = time.monotonic(), max(SAMPLE_EVERY_S, seconds / SAMPLES)
        try:
            while (since := time.monotonic() - began) < seconds:
                if running.wait(min(every, seconds - since)):
                    break
                taken = {**_memory(spark), **_files_below(self._folder / "K" / "nearcast")}
                samples.append({"seconds": round(time.monotonic() - began, 1), **taken, **done, **self._given()})
                say(told(samples[-1]))
        except KeyboardInterrupt:
            pass  # whatever is said now would raise it again
        return samples

    def _given(self) -> dict[str, int]:
        return {"messages_given": self._n_messages, "changes_given": self._n_changes}

    def _feed(self, stopped: Event) -> None:
        while not stopped.wait(1.0):
            self._put("messages", self._messages())
            self._put("changes", self._changes())

    def _messages(self) -> pa.Table:
        table = _part(self._workload.messages, self._n_messages, MESSAGES_PER_S)
        ids = [f"soak {self._n_messages + row}" for row in range(MESSAGES_PER_S)]
        self._n_messages += MESSAGES_PER_S
        return table.set_column(table.column_names.index("id"), "id", _arrow.strings(ids))

    def _changes(self) -> pa.Table:
        """Return the next changes: half of these subscriptions are removed, the others are stored again.

        In the next round it is the other way about: who was removed is stored, and nobody is removed twice.
        """
        half, of = CHANGES_PER_S // 2, self._workload.subscriptions
        table, turn = _part(of, self._n_changes, 2 * half), self._n_changes // of.num_rows % 2
        self._n_changes += 2 * half
        ops = ["unsubscribe", "subscribe"] if turn == 0 else ["subscribe", "unsubscribe"]
        return table.append_column("op", _arrow.strings(np.repeat(ops, half).tolist()))

    def _put(self, folder: str, table: pa.Table) -> None:
        path = self._folder / folder / f"{self._n_files:08d}.parquet"
        self._n_files += 1
        hidden = path.with_name(f".{path.name}")
        pq.write_table(table, hidden)
        os.replace(hidden, path)


def _memory(spark: SparkSession) -> Sample:
    """Return the MB of each role that count, and those that are resident."""
    java: Any = spark.sparkContext._jvm
    java.java.lang.System.gc()
    memory = java.java.lang.management.ManagementFactory.getMemoryMXBean()
    live = memory.getHeapMemoryUsage().getUsed() + memory.getNonHeapMemoryUsage().getUsed()
    sizes = private() | {"jvm": live}
    found = {f"{role}_mb": round(size / 1e6, 1) for role, size in sizes.items()}
    return found | {f"{role}_resident_mb": round(size / 1e6, 1) for role, size in resident().items()}


def _files_below(folder: Path) -> Sample:
    """Return how many files there are below a folder, and their MB; those that go meanwhile are left out."""
    n = size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += (Path(parent) / name).stat().st_size
                n += 1
    return {"state_mb": round(size / 1e6, 2), "state_files": n}


def told(sample: Sample) -> str:
    """Return a sample as a line."""
    memory = ", ".join(f"{role} {sample[f'{role}_mb']:,.0f} MB" for role in ROLES)
    state = f"state {sample['state_mb']:,.1f} MB in {sample['state_files']:,} files"
    done = f"{sample['batches']:,} batches, {sample['messages_done']:,} of {sample['messages_given']:,} messages"
    return f"soak: {sample['seconds']:,.0f} s, {memory}, {state}, {done}"


def _part(table: pa.Table, first: int, rows: int) -> pa.Table:
    return table.take(_arrow.numbers((first + np.arange(rows)) % table.num_rows))


def summary(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the growth of each role's memory in MB an hour after the warm-up, and whether that is flat."""
    found: dict[str, Any] = {"samples": len(samples), **(samples[-1] if samples else {})}
    growth = growth_of(samples, SIZES, WARM_SHARE)
    if growth is None:
        return found | {"is_flat": None, "verdict": "too short to tell"}
    found |= {**growth.per_hour, "is_flat": not growth.grown}
    rates = [f"{_named(name)} {found[f'{name}_per_hour']:+,.1f}{_unit(name)}/h" for name in SIZES]
    grown = ", ".join(_named(name) for name in growth.grown)
    verdict = f"{grown} grew" if grown else "nothing grew"
    return found | {"verdict": f"{verdict} ({', '.join(rates)} after the first third)"}


def _named(size: str) -> str:
    return "files of the state" if size == "state_files" else size.removesuffix("_mb")


def _unit(size: str) -> str:
    return " MB" if size.endswith("_mb") else ""


def draw_soak(samples: Sequence[Sample], report: dict[str, Any], out: Path) -> list[Path]:
    """Write spark-soak.csv, with every sample, and spark-soak.png, with a dozen of them."""
    from nearcast.bench.figures.figure import Figure, Panel, Point, Series
    from nearcast.bench.figures.plot import draw

    picture, table = out / "spark-soak.png", out / "spark-soak.csv"
    replace_file(table, lambda path: _write(samples, path))
    chosen = [samples[at] for at in np.unique(np.linspace(0, len(samples) - 1, _POINTS).astype(int)).tolist()]
    rows = [
        {"x": round(each["seconds"]), "series": role, "mb": each[f"{role}_mb"]} for each in chosen for role in ROLES
    ]
    series = [Series(role, role) for role in ROLES]
    title, panels = "Memory of a stream with changes", [Panel("mb", "MB, private or live")]
    figure = Figure("soak", "soak", title, "seconds", [Point(0)], series, panels, lambda *_: iter(()))
    on, about = report["machine"], report["workload"]
    pace = f"{MESSAGES_PER_S} messages and {CHANGES_PER_S} changes a second"
    note = f"{about['subscriptions']:,} subscriptions, {pace}; {on['cores']} cores"
    replace_file(picture, lambda path: draw(figure, rows, note, path))
    return [picture, table]


def _write(samples: Sequence[Sample], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(samples[0]))
        writer.writeheader()
        writer.writerows(samples)
