"""Changes of subscriptions: read from tables by workers, then numbered and assigned to partitions by the driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast.columns import NO_TIME
from nearcast.geo.shapes import shorten
from nearcast.pipeline.batch.packed_columns import PackedState
from nearcast.pipeline.batch.portable_subscriptions import PortableSubscriptions
from nearcast.tables import Rejected, read_subscriptions
from nearcast.tables.cells import TableRows
from nearcast.tables.moves import Moves, read_moves
from nearcast.tables.names import ROW_COLUMN
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.pipeline.settings import PipelineSettings

SUBSCRIBE, UNSUBSCRIBE, MOVE = 0, 1, 2
OPS = ("subscribe", "unsubscribe", "move")
#: Up to so many possible numbers for each that comes, repeats are looked for in a table of all.
_FEW_EACH = 16


@dataclass(frozen=True)
class SourceChanges(PackedState):
    """The subscribe, unsubscribe and move rows of one source, in its order.

    `at` is the row of each in `subscriptions` or in `moves`, whichever its `op` needs. `row` is its number in `source`.
    """

    source: str
    op: NDArray[np.uint8]
    ids: pa.Array
    time: NDArray[np.int64]
    row: NDArray[np.int64]
    at: NDArray[np.int64]
    subscriptions: PortableSubscriptions
    moves: Moves

    def __len__(self) -> int:
        return len(self.op)


def read_changes(
    table: pa.Table,
    settings: PipelineSettings,
    *,
    source: str,
    rejected: Rejected,
    only_subscribe: bool = False,
    may_repeat: bool | None = None,
) -> SourceChanges:
    """Return the good rows of a table of changes, in order; the others are added to `rejected`.

    With `only_subscribe` the table is one of subscriptions, without a column `op`, and of rows with the same id the
    first good one is taken, unless they `may_repeat`.
    """
    rows = TableRows(table, source, 0)
    if not only_subscribe:
        rows.require("op")
    op = np.full(len(rows), SUBSCRIBE) if only_subscribe else _ops(rows)
    ids, time = rows.ids(), rows.times("time")
    rows.report(rejected, ids)
    is_good = ~rows.faults.is_bad
    # Rows are numbered by their place in this table while others read them: what they reject is found again by it.
    numbers = rows.numbers
    table = _numbered(table)
    found = Rejected()
    words = WordTable()
    wanted = {code: np.flatnonzero(is_good & (op == code)) for code in (SUBSCRIBE, UNSUBSCRIBE, MOVE)}
    subscriptions = read_subscriptions(
        _rows_of(table, wanted[SUBSCRIBE]),
        settings.space,
        words,
        settings.analyzer,
        source=source,
        max_distance=settings.max_distance,
        has_window=settings.window is not None,
        may_repeat=not only_subscribe if may_repeat is None else may_repeat,
        rejected=found,
    )
    moves = read_moves(_rows_of(table, wanted[MOVE]), settings.space, source=source, rejected=found)
    for each in found:
        is_good[each.row] = False
        rejected.add(source, int(numbers[each.row]), each.id, each.field, each.reason)
    at = np.full(len(rows), -1, np.int64)
    for code in (SUBSCRIBE, MOVE):
        left = wanted[code][is_good[wanted[code]]]
        at[left] = np.arange(len(left))
    good = np.flatnonzero(is_good)
    kept = ids if len(good) == len(ids) else ids.take(_arrow.numbers(good))
    carried = PortableSubscriptions.of(subscriptions, words)
    return SourceChanges(
        source=source,
        op=op[good].astype(np.uint8),
        ids=kept,
        time=time[good],
        row=numbers[good],
        at=at[good],
        subscriptions=carried,
        # Without what stands in the other columns: it would be written, sent and read with each batch.
        moves=Moves(pa.nulls(len(moves)), moves.is_point, moves.point, moves.regions),
    )


def _ops(rows: TableRows) -> NDArray[np.int64]:
    if not len(rows):
        return np.empty(0, np.int64)
    column = rows.texts("op")
    op = _arrow.array_of(pc.index_in(column.cast(pa.string()), _arrow.strings(OPS)), null=-1)
    rows.faults.add_where(
        op < 0, "op", lambda row: f"op is {shorten(column[row].as_py())}; expected one of {', '.join(OPS)}"
    )
    return op


def _rows_of(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """Return ascending rows of a table, without a copy where these are all or none."""
    if len(rows) in (0, table.num_rows):
        return table.slice(0, len(rows))
    return table.take(_arrow.numbers(rows))


def _numbered(table: pa.Table) -> pa.Table:
    numbers = _arrow.numbers(np.arange(table.num_rows))
    if ROW_COLUMN in table.column_names:
        return table.set_column(table.column_names.index(ROW_COLUMN), ROW_COLUMN, numbers)
    return table.append_column(ROW_COLUMN, numbers)


@dataclass(frozen=True)
class BatchChanges(PackedState):
    """The changes of one batch in order, each with the number of its subscription and the partitions it goes to.

    `position` is the place of each among all changes and messages of the batch, `step` the number of its step, `time`
    its own, `clock` event time at it, and `is_tick` tells that it moved event time there. `number` is the registration:
    a subscription keeps it while it is replaced or moved. `home` is the partition that owns it; bit p of `copies` tells
    that partition p holds it from now on, and of `held` that it did before. `at` is as in `SourceChanges`, for
    `subscriptions` and `moves` of the whole batch.
    """

    op: NDArray[np.uint8]
    ids: pa.Array
    position: NDArray[np.int64]
    step: NDArray[np.int64]
    time: NDArray[np.int64]
    clock: NDArray[np.int64]
    is_tick: NDArray[np.bool_]
    number: NDArray[np.int64]
    home: NDArray[np.int32]
    copies: NDArray[np.uint64] | None
    held: NDArray[np.uint64] | None
    at: NDArray[np.int64]
    subscriptions: PortableSubscriptions
    moves: Moves

    def __len__(self) -> int:
        return len(self.op)

    def has_copy(self, rows: NDArray[np.int64], partition: int) -> NDArray[np.bool_]:
        """Tell after which of these changes a partition holds the subscription, as its home or as a copy."""
        held: NDArray[np.bool_] = self.home[rows] == partition
        if self.copies is not None:
            held = (self.copies[rows] & np.uint64(1 << partition)) != 0
        return held

    def of_partition(self, partition: int) -> NDArray[np.int64]:
        """Return the changes of subscriptions that a partition holds before or after them."""
        concerned = self.home == partition
        if self.copies is not None and self.held is not None:
            bit = np.uint64(1 << partition)
            concerned = concerned | ((self.copies & bit) != 0) | ((self.held & bit) != 0)
        return np.flatnonzero(concerned)

    def with_subscriptions_of(self, rows: NDArray[np.int64]) -> BatchChanges:
        """Return all changes, of whose subscriptions only those of these rows, which are all a partition reads."""
        own = rows[self.op[rows] == SUBSCRIBE]
        at = np.where(self.op == SUBSCRIBE, -1, self.at)
        at[own] = np.arange(len(own))
        return replace(self, at=at, subscriptions=self.subscriptions.take(self.at[own]).with_used_words())


def own_changes(changes: BatchChanges | None, partition: int) -> tuple[BatchChanges | None, NDArray[np.int64]]:
    """Return changes with the subscriptions of one partition, and the rows of that partition among them."""
    if changes is None:
        return None, np.empty(0, np.int64)
    mine = changes.of_partition(partition)
    return (changes if len(mine) == len(changes) else changes.with_subscriptions_of(mine)), mine


def groups_of(
    changes: BatchChanges | None, mine: NDArray[np.int64], position: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """Split changes into groups that can be applied at once: of one kind, no id twice, no message in between.

    Moves bring their own clocks; others of a group come at one event time.
    """
    if changes is None or not len(mine):
        return []
    op, clock = changes.op[mine], changes.clock[mine]
    before = np.searchsorted(position, changes.position[mine])
    time = np.where(op == MOVE, NO_TIME, clock)
    differs = (op[1:] != op[:-1]) | (before[1:] != before[:-1]) | (time[1:] != time[:-1])
    ends = np.append(1 + np.flatnonzero(differs), len(mine)).tolist()
    latest = _latest_repeats(changes.number[mine])
    starts: list[int] = []
    first = 0
    for end in ends:
        while first < end:
            starts.append(first)
            first = min(end, int(np.searchsorted(latest, first)))
    return np.split(mine, starts[1:])


def codes_of(ids: pa.Array) -> NDArray[np.int64]:
    """Number the ids of a column from 0 on: rows with the same id have the same number."""
    return _arrow.array_of(ids.dictionary_encode().indices).astype(np.int64)


def runs_without_repeats(codes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of a column in order, in the longest runs in which no number comes twice; -1 may."""
    latest = _latest_repeats(codes)
    first = 0
    while first < len(codes):
        last = int(np.searchsorted(latest, first))
        yield np.arange(first, last)
        first = last


def _latest_repeats(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return by row the last row whose number comes again up to this row, -1 for none; a run begun later has none."""
    if len(codes) < 2 or _are_distinct(codes):
        return np.full(len(codes), -1, np.int64)
    order = np.argsort(codes, kind="stable")
    previous = np.full(len(codes), -1, np.int64)
    same = (codes[order[1:]] == codes[order[:-1]]) & (codes[order[1:]] >= 0)
    previous[order[1:][same]] = order[:-1][same]
    return np.maximum.accumulate(previous)


def _are_distinct(codes: NDArray[np.int64]) -> bool:
    """Tell whether no number comes twice, -1 excepted, without sorting; False also where that would take much room."""
    codes = codes[codes >= 0]
    n = int(codes.max(initial=-1)) + 1
    if n > _FEW_EACH * len(codes):
        return False
    last = np.empty(n, np.int64)
    rows = np.arange(len(codes))
    last[codes] = rows
    return bool((last[codes] == rows).all())


class ChangeGroup(NamedTuple):
    """Changes of a partition that are applied at once, none where event time alone moves; `row` is where they stand."""

    row: int
    rows: NDArray[np.int64]
    is_tick: bool = False


def groups_at_ticks(
    changes: BatchChanges | None, mine: NDArray[np.int64], position: NDArray[np.int64], ticks: NDArray[np.int64]
) -> list[ChangeGroup]:
    """Return groups of changes in order; one begins at each of these reports, of any partition, that move time."""
    groups = groups_of(changes, mine, position)
    if not len(ticks):
        return [ChangeGroup(int(rows[0]), rows) for rows in groups]
    parts = [part for rows in groups for part in np.split(rows, np.searchsorted(rows, ticks)) if len(part)]
    found = {row: ChangeGroup(row, np.empty(0, np.int64), is_tick=True) for row in ticks.tolist()}
    found |= {int(rows[0]): ChangeGroup(int(rows[0]), rows, int(rows[0]) in found) for rows in parts}
    return [found[row] for row in sorted(found)]
