"""A workload as files that a stream reads: those that warm up, those that are measured, and tiny ones after them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast import _arrow
from nearcast.bench.encoding import learned
from nearcast.errors import InvalidInput
from nearcast.tables import space_of
from nearcast.text import Analyzer, Vocabulary

if TYPE_CHECKING:
    from nearcast.bench.data.workloads import Workload
    from nearcast.geo import Space
    from nearcast.spark.stream_options import WindowMode
    from nearcast.window import Window

#: Batches of full size before the measured ones; messages of a tiny batch, tiny batches to warm up and to measure.
WARM_BATCHES, TINY, TINY_WARM, TINY_MEASURED = 2, 10, 5, 15
#: Messages that a plan is learned from.
SAMPLE = 20_000
#: Where the window comes first: subscriptions that a stream begins with, those of a batch that come when the window is
#: full, and messages of a batch that fill it, at most.
FIRST, JOINED, FILLED = 2_000, 50_000, 100_000
#: There a stream counts what thresholds need in batches of this number and its doubles, and may place all subscriptions
#: again behind it: that goes before anything is measured.
_COUNTED, _WARM_WINDOW = 8, 4

#: The folder of changes, in that of messages: a stream does not look into it.
CHANGES = ".changes"

Batch = list[Path]


@dataclass(frozen=True)
class StreamWorkload:
    """Subscriptions, and batches of files with messages in the order they come in.

    `filling` fills the window of top-k subscriptions; without one it is empty. `first` are the subscriptions that there
    are before any message, and `joining` are changes that bring the others once the window is full.
    """

    kind: str
    space: Space
    subscriptions: pa.Table
    vocabulary: Vocabulary
    window: Window | None
    folder: Path
    sample: pa.Table
    filling: list[Path]
    warming: list[Batch]
    measured: list[Batch]
    tiny: list[Batch]
    files_per_batch: int
    n_measured: int
    first: pa.Table
    joining: list[Batch]
    window_mode: WindowMode = "shared"

    @property
    def n_before(self) -> int:
        """Return the number of the first batch that is measured."""
        return len(self.filling) // self.files_per_batch + len(self.joining) + len(self.warming)

    @property
    def filling_batches(self) -> list[Batch]:
        """Return what fills the window, batch by batch."""
        return [
            self.filling[at : at + self.files_per_batch] for at in range(0, len(self.filling), self.files_per_batch)
        ]


def stream_workload(
    workload: Workload,
    folder: Path,
    *,
    kind: str,
    batch: int,
    files_per_batch: int,
    window: Window | None = None,
    n_before: int = 0,
    n_warm_up: int = 0,
    n_tiny: int | None = None,
    space: str | None = None,
    window_first: bool = False,
) -> StreamWorkload:
    """Write the messages of a workload into a folder that a stream reads, batch by batch.

    With a window the first `n_before` messages fill it, `n_warm_up` warm up and the others are measured; without one
    all are measured, and some of them warm up beforehand. `n_tiny` tiny batches are measured, 15 unless given.
    With `window_first` nearly all subscriptions come behind what fills the window, as changes: they find their answers
    by one join, where messages that come one after the other would change them a hundred times.
    """
    messages = workload.messages
    found = space_of([*workload.subscriptions.column_names, *messages.column_names], space)
    if window is not None and messages.num_rows <= n_before + n_warm_up:
        raise InvalidInput(f"{messages.num_rows:,} messages leave none to measure; give more, or a shorter --window")
    scored = kind != "within"
    vocabulary = learned(messages, found, Analyzer()).snapshot() if scored else Vocabulary().snapshot()
    writer = _Writer(folder, files_per_batch)
    measured = messages.slice(n_before + n_warm_up)
    order = _window_first(workload.subscriptions, n_before) if window_first else None
    warming = messages.slice(n_before, n_warm_up) if window is not None else _repeated(measured, WARM_BATCHES * batch)
    return StreamWorkload(
        kind=kind,
        space=found,
        subscriptions=workload.subscriptions,
        vocabulary=vocabulary,
        window=window,
        folder=folder,
        sample=messages.take(
            _arrow.numbers(np.linspace(0, messages.num_rows - 1, min(SAMPLE, messages.num_rows)).astype(int))
        ),
        # In this order: Spark takes the files in the order they were written.
        filling=[
            path
            for each in writer.batches(messages.slice(0, n_before), batch if order is None else order.filled)
            for path in each
        ],
        warming=list(writer.batches(warming, batch)),
        measured=list(writer.batches(measured, batch)),
        tiny=list(writer.batches(_renamed(_repeated(measured, TINY * (TINY_WARM + (n_tiny or TINY_MEASURED)))), TINY)),
        files_per_batch=files_per_batch,
        n_measured=measured.num_rows,
        first=workload.subscriptions if order is None else order.first,
        joining=[] if order is None else list(_Writer(folder / CHANGES, files_per_batch).batches(order.others, JOINED)),
    )


def window_warm_up(batch: int) -> int:
    """Return how many messages warm up where the window comes first, unless something is said."""
    return _WARM_WINDOW * batch


class _WindowFirst(NamedTuple):
    """The subscriptions that come before the window is filled, changes that bring the others, messages a batch."""

    first: pa.Table
    others: pa.Table
    filled: int


def _window_first(subscriptions: pa.Table, n_before: int) -> _WindowFirst:
    """Divide subscriptions; the first ones are drawn evenly, for a plan to be learned from.

    The window is filled in as many batches as let the next one be counted in.
    """
    n = subscriptions.num_rows
    is_first = np.zeros(n, np.bool_)
    is_first[np.linspace(0, n - 1, min(FIRST, n)).astype(int)] = True
    others = subscriptions.take(_arrow.numbers(np.flatnonzero(~is_first)))
    n_joins = -(-others.num_rows // JOINED)
    counted = _COUNTED
    while counted < n_joins + -(-n_before // FILLED):
        counted *= 2
    return _WindowFirst(
        subscriptions.take(_arrow.numbers(np.flatnonzero(is_first))),
        others.append_column("op", _arrow.strings(["subscribe"] * others.num_rows)),
        -(-n_before // max(counted - n_joins, 1)),
    )


class _Writer:
    """Writes files whose times of modification say in which order they came: that is how Spark takes them."""

    def __init__(self, folder: Path, files_per_batch: int):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._files, self._n = folder, files_per_batch, 0
        self._first_time = time.time() - 86_400

    def batches(self, messages: pa.Table, rows: int) -> Iterator[Batch]:
        """Write messages in batches of so many rows, each batch in the same number of files."""
        for first in range(0, messages.num_rows, rows):
            part = messages.slice(first, rows)
            ends = np.linspace(0, part.num_rows, self._files + 1).astype(int).tolist()
            yield [self._write(part.slice(low, high - low)) for low, high in pairwise(ends)]

    def _write(self, rows: pa.Table) -> Path:
        path = self._folder / f"{self._n:06d}.parquet"
        pq.write_table(rows, path)
        stamp = self._first_time + self._n * 0.1
        os.utime(path, (stamp, stamp))
        self._n += 1
        return path


def _repeated(messages: pa.Table, rows: int) -> pa.Table:
    return messages.take(_arrow.numbers(np.arange(rows) % messages.num_rows))


def _renamed(messages: pa.Table) -> pa.Table:
    """Return messages under ids of their own."""
    at = messages.column_names.index("id")
    if pa.types.is_integer(messages.schema.field("id").type):
        ids: pa.Array = _arrow.numbers(np.arange(messages.num_rows, dtype=np.int64) - (1 << 62))
    else:
        ids = _arrow.strings([f"tiny {row}" for row in range(messages.num_rows)])
    return messages.set_column(at, "id", ids)
