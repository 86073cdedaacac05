"""Subscriptions on their way from rows into partitions, file by file: no process need hold all of them.

`encode_subscriptions` makes a file of columns of some rows, `place_share` cuts such a file by partitions, as a plan
says, and `tasks.build_partition` builds a partition of the pieces for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast import _arrow
from nearcast.pipeline.batch.changes import read_changes
from nearcast.pipeline.batch.router import NamedKeys
from nearcast.pipeline.driver.directory import described
from nearcast.pipeline.store import pickles
from nearcast.pipeline.worker.partition_keys import PLACED_BELOW
from nearcast.pipeline.worker.share import Share, SharePart
from nearcast.pipeline.worker.tasks import SHARE
from nearcast.plans import open_plan
from nearcast.tables import Rejected, RejectedRow
from nearcast.tables.names import ROW_COLUMN
from nearcast.text import Vocabulary
from nearcast.text.weights import TermWeights

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from nearcast.pipeline.settings import PipelineSettings
    from nearcast.pipeline.store.store import Store


@dataclass(frozen=True)
class RowsToPlace:
    """Rows of a table of subscriptions, the `first` and `n` in all: in memory, or in a file of a store."""

    first: int
    n: int
    table: pa.Table | None = None
    store: Store | None = None
    name: str = ""

    def read(self) -> pa.Table:
        """Return the rows with their numbers."""
        table = self.table
        if table is None:
            assert self.store is not None
            path = self.store.local(self.name)
            table = pq.read_table(path, partitioning=None) if path.suffix == ".parquet" else _read_arrow(path)
        if ROW_COLUMN in table.column_names:
            return table
        return table.append_column(ROW_COLUMN, _arrow.numbers(np.arange(self.first, self.first + self.n)))

    def put(self, store: Store, batch: int) -> RowsToPlace:
        """Put rows in memory into a file, for a task to read them."""
        table = self.read()

        def write(path: Path) -> None:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)

        name = store.put_summed(store.unique("rows", batch, suffix=".arrow"), write).name
        return replace(self, table=None, store=store, name=name)


def _read_arrow(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


@dataclass(frozen=True)
class EncodeRowsTask:
    """Task: encode rows of subscriptions; a plan is learned from every so many of them."""

    store: Store
    settings: PipelineSettings
    batch: int
    source: str
    rows: RowsToPlace
    every: int


@dataclass(frozen=True)
class EncodedRows:
    """A file of encoded subscriptions, their ids and what a directory says of them, and the rows that are bad."""

    part: SharePart
    ids: pa.Array
    #: The numbers of the rows in their source.
    row: NDArray[np.int64]
    described: dict[str, NDArray[Any]]
    rejected: list[RejectedRow]

    def __len__(self) -> int:
        return len(self.ids)


def encode_subscriptions(task: EncodeRowsTask) -> EncodedRows:
    """Read rows and write the good ones as a share; ids may repeat: others may have them, too."""
    rejected = Rejected()
    table = task.rows.read()
    changes = read_changes(
        table, task.settings, source=task.source, rejected=rejected, only_subscribe=True, may_repeat=True
    )
    n = len(changes)
    number = task.rows.first + np.arange(n)
    share = Share(changes.subscriptions, number, np.zeros(n, np.int32), None, np.zeros(n))
    name = pickles.put(task.store, "shares", task.batch, None, share)
    columns = described(share.subscriptions.subscriptions)
    return EncodedRows(share.part(name, task.every), changes.ids, changes.row, columns, list(rejected))


@dataclass(frozen=True)
class PlaceTask:
    """Task: place the subscriptions of a share by a plan, and cut it by partitions.

    With `rows` only these are taken, and numbered through from `first_number` on; else all, under the numbers they
    have.
    """

    store: Store
    batch: int
    plan: str
    vocabulary: str
    share: str
    rows: NDArray[np.int64] | None = None
    first_number: int = 0


@dataclass(frozen=True)
class PlacedShare:
    """Where the subscriptions of a share went, the keys that bring them their messages, and the pieces of it.

    `pieces` are files by partition; a partition that holds nothing of it has none.
    """

    number: NDArray[np.int64]
    home: NDArray[np.int32]
    copies: NDArray[np.uint64]
    keys: NamedKeys
    pieces: dict[int, str]


def place_share(task: PlaceTask) -> PlacedShare:
    """Place a share and write the pieces of it."""
    store = task.store
    share = _read_share(store.local(task.share))
    if task.rows is not None:
        share = replace(share.take(task.rows), number=task.first_number + np.arange(len(task.rows)))
    plan = open_plan(store.local(task.plan))
    columns = share.subscriptions.into(plan.words)
    weights = TermWeights(plan.words, Vocabulary.open(store.local(task.vocabulary))).of_table(plan.words, 0)
    placement = plan.place(columns, share.number, weights, PLACED_BELOW * share.thresholds)
    placed = share.placed_by(placement)
    pieces = {}
    for partition in range(plan.partitions):
        piece = placed.of_partition(partition)
        if len(piece):
            piece = replace(piece, subscriptions=piece.subscriptions.with_used_words())
            pieces[partition] = pickles.put(store, "shares", task.batch, partition, piece)
    copies = np.zeros(len(share), np.uint64) if placement.copies is None else placement.copies
    return PlacedShare(share.number, placement.home, copies, NamedKeys.of(placement.keys, plan), pieces)


def _read_share(path: Path) -> Share:
    """Return the share in a file, or in the folder of an export."""
    share = pickles.read(path / SHARE if path.is_dir() else path)
    assert isinstance(share, Share)
    return share
