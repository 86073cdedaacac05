"""The components that hold top-k rows: lists of triggers that keep their layout, and a delta that grows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast._saved import save_array
from nearcast.indexes.trigger.components import arrays_of
from nearcast.indexes.trigger.thresholds.bounds import (
    BLOCK,
    BUNDLE,
    GROUP,
    new_entries,
    raise_table,
    rounded_up,
    stepped,
    threshold_as_entry,
)
from nearcast.indexes.trigger.thresholds.frame import FIELDS, HALF, frame_around, set_place, steepness
from nearcast.indexes.trigger.thresholds.layout import ThresholdLists, list_of, signature_bit
from nearcast.indexes.trigger.thresholds.rows import (
    DEAD,
    FIRST,
    LAST,
    MAX_DISTANCE,
    TEXT_WEIGHT,
    THRESHOLD,
    ThresholdRows,
    X,
    Y,
    take_rows,
)
from nearcast.indexes.trigger.thresholds.scoring import score_candidates
from nearcast.indexes.trigger.thresholds.scratch import (
    WAITING,
    ThresholdBatch,
    ThresholdScratch,
    with_more_candidates,
    with_room_for_hits,
)
from nearcast.indexes.trigger.thresholds.search import collect_candidates, search_delta

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.shared.undo import UndoLog

#: Where messages have more candidates than this, fewer are searched for at a time.
MOST_CANDIDATES = 1 << 20


@dataclass(eq=False)
class ThresholdSegment:
    """Rows with their lists of triggers. Nothing in it changes its place; thresholds change, and rows die.

    While it is being merged into another, `changed` collects the rows to which something happens. `n_learned` counts
    rows that were laid out without a threshold and have got one since.
    """

    number: int
    rows: ThresholdRows
    lists: ThresholdLists
    n_dead: int = 0
    changed: list[NDArray[np.int64]] | None = None
    n_learned: int = 0

    @property
    def n_rows(self) -> int:
        """Return the number of rows, dead ones included."""
        return len(self.rows.slot)

    def search(self, batch: ThresholdBatch, first: int, last: int, scratch: ThresholdScratch) -> ThresholdScratch:
        """Write what the messages first to last concern to the hits; return the scratch space, or a larger one."""
        before = scratch.tally.copy()
        if not collect_candidates(self.lists, batch, first, last, scratch):
            scratch.tally[:] = before
            if len(scratch.candidate) < MOST_CANDIDATES or last - first == 1:
                return self.search(batch, first, last, with_more_candidates(scratch, 0))
            middle = (first + last) // 2
            return self.search(batch, middle, last, self.search(batch, first, middle, scratch))
        scratch = with_room_for_hits(scratch, int(scratch.tally[WAITING]))
        score_candidates(self.rows, batch, first, last, scratch)
        return scratch

    def set_thresholds(self, rows: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Set the thresholds of rows."""
        if self.changed is not None:
            self.changed.append(rows)
        self.n_learned += int(np.count_nonzero((self.rows.record[rows, THRESHOLD] <= 0.0) & (values > 0.0)))
        _set_in_lists(self.rows, self.lists, rows, values)

    def kill(self, rows: NDArray[np.int64], undo: UndoLog) -> None:
        """Make these rows count no longer."""
        _kill(self, rows, undo)

    def taken_changes(self) -> list[NDArray[np.int64]]:
        """Return the rows that have changed since the last call, and collect from here on."""
        changed, self.changed = self.changed or [], []
        return changed

    def live_rows(self) -> NDArray[np.int64]:
        """Return the rows that count."""
        return np.flatnonzero(self.rows.slot >= 0)

    def taken(self, keep: NDArray[np.int64]) -> ThresholdRows:
        """Return these rows, packed."""
        return take_rows(self.rows, keep)

    @property
    def n_bytes(self) -> int:
        """Return the size of all arrays."""
        return sum(array.nbytes for held in (self.rows, self.lists) for array in arrays_of(held).values())

    def save(self, folder: Path) -> None:
        """Write every array as a file of its own; dead rows, which somebody has left, without their places.

        Bundles are made anew from their blocks, which takes no longer than reading them.
        """
        folder.mkdir(parents=True)
        rows, lists = self._without_left_places()
        for name, array in (arrays_of(rows, "rows.") | arrays_of(lists, "lists.")).items():
            if not name.startswith(("lists.bundles.", "lists.first_bundle")):
                save_array(folder / f"{name}.npy", array)

    def _without_left_places(self) -> tuple[ThresholdRows, ThresholdLists]:
        """Return rows and lists with dead rows at (0, 0), and their triggers in a corner of their blocks."""
        rows, lists, is_dead = self.rows, self.lists, self.rows.slot == DEAD
        if not is_dead.any():
            return rows, lists
        record = rows.record.copy()
        record[is_dead, X : Y + 1] = 0.0
        of_dead = np.repeat(is_dead, (rows.record[:, LAST] - rows.record[:, FIRST]).astype(np.int64))
        corner = {name: getattr(lists.entries, name).copy() for name in ("x", "y", "z")}
        for column in corner.values():
            column[lists.trigger[of_dead]] = 0
        return rows._replace(record=record), lists._replace(entries=lists.entries._replace(**corner))


@inlined
def _set_in_list(lists, term, at, threshold):
    """Set the threshold of one trigger, and see to the tables of its block and bundle."""
    before = lists.entries.threshold[at]
    lists.entries.threshold[at] = threshold
    number = list_of(lists, term)
    if lists.first_block[number] == lists.first_block[number + 1]:
        return
    block = lists.first_block[number] + (at - lists.start[number]) // BLOCK
    if threshold < before:
        raise_table(lists.entries, lists.blocks, block, at)
        if lists.first_bundle[number] < lists.first_bundle[number + 1]:
            bundle = lists.first_bundle[number] + (block - lists.first_block[number]) // BUNDLE
            raise_table(lists.entries, lists.bundles, bundle, at)
    elif threshold > before and lists.blocks.stale[block] < 255:
        lists.blocks.stale[block] += 1


@inlined
def set_row(rows, lists, row, value):
    """Set the threshold of one row and of its triggers."""
    rows.record[row, THRESHOLD] = value
    threshold = threshold_as_entry(value)
    for i in range(int(rows.record[row, FIRST]), int(rows.record[row, LAST])):
        _set_in_list(lists, rows.term[i], lists.trigger[i], threshold)


@hot_kernel
def _set_in_lists(rows, lists, which, values):
    for i in range(which.size):
        set_row(rows, lists, which[i], values[i])


def copy_changes(
    old: ThresholdSegment, changed: list[NDArray[np.int64]], kept: NDArray[np.int64], new: ThresholdSegment, first: int
) -> int:
    """Let those rows of `new` be as the changed ones of `old` are now; return how many there are.

    The rows of `new` from `first` on were made of the rows `kept` of `old`. The kernel is called for no rows as well:
    so every merge compiles it, and not the first one during which something changes.
    """
    rows = np.unique(np.concatenate([np.empty(0, np.int64), *changed]))
    _copy_rows(old.rows, rows, new.rows, new.lists, first + np.searchsorted(kept, rows))
    return len(rows)


@hot_kernel
def _copy_rows(old, changed, rows, lists, new):
    for i in range(changed.size):
        rows.slot[new[i]] = old.slot[changed[i]]
        set_row(rows, lists, new[i], old.record[changed[i], THRESHOLD])


def note_thresholds(component: Component, rows: NDArray[np.int64], undo: UndoLog) -> None:
    """Note the thresholds of rows; tables of bounds that were raised for others stay so, which costs no answer."""
    undo.call(component.set_thresholds, rows, component.rows.record[rows, THRESHOLD])


def _kill(component: Component, rows: NDArray[np.int64], undo: UndoLog) -> None:
    """Make rows of a component count no longer."""
    note_thresholds(component, rows, undo)
    undo.items(component.rows.slot, rows)
    undo.attributes(component, "n_dead")
    component.n_dead += len(rows)
    component.rows.slot[rows] = DEAD
    component.set_thresholds(rows, np.full(len(rows), np.inf))


class ThresholdDelta:
    """At most `capacity` rows that are all looked at; each has one entry, with all of its words in the signature."""

    def __init__(self, number: int, capacity: int, *, is_earth: bool):
        self.number, self.capacity, self.n_rows, self.n_dead = number, capacity, 0, 0
        self.rows = ThresholdRows(
            np.full(capacity, DEAD, np.int32),
            np.zeros((capacity, 8)),
            np.zeros(capacity, np.int32),
            np.empty(4 * capacity, np.int32),
        )
        self._entries = new_entries(capacity)
        self._frame: NDArray[np.float64] = np.zeros(FIELDS)
        self._is_earth = is_earth

    def has_room(self, n_rows: int) -> bool:
        """Tell whether so many more rows fit."""
        return self.n_rows + n_rows <= self.capacity

    def append(self, rows: ThresholdRows, undo: UndoLog) -> NDArray[np.int64]:
        """Add rows; return their numbers here."""
        first, last = self.n_rows, self.n_rows + len(rows.slot)
        mine = self.rows
        undo.call(self._enter_all)
        undo.attributes(self, "rows", "n_rows", "_frame")
        used = int(mine.record[first - 1, LAST]) if first else 0
        if used + len(rows.term) > len(mine.term):
            self.rows = mine = mine._replace(term=np.append(mine.term, np.empty(used + len(rows.term), np.int32)))
        mine.term[used : used + len(rows.term)] = rows.term
        mine.slot[first:last], mine.k[first:last] = rows.slot, rows.k
        mine.record[first:last] = rows.record
        mine.record[first:last, FIRST : LAST + 1] += used
        self.n_rows = last
        if first == 0 or not _enter(self._is_earth, mine, first, last, self._frame, self._entries, np.empty(3)):
            self._frame = frame_around(self._is_earth, mine.record[:last], 0.5)
            self._enter_all()
        return np.arange(first, last, dtype=np.int64)

    def _enter_all(self) -> None:
        """Write the entries of all rows there are, by the present frame."""
        _enter(self._is_earth, self.rows, 0, self.n_rows, self._frame, self._entries, np.empty(3))

    def search(self, batch: ThresholdBatch, first: int, last: int, scratch: ThresholdScratch) -> ThresholdScratch:
        """Write the rows of the delta that the messages first to last concern to the hits; return the scratch space."""
        n = self.n_rows
        if n + GROUP > len(scratch.candidate):
            scratch = with_more_candidates(scratch, n + GROUP)
        while (first := search_delta(self.rows, self._entries, n, self._frame, batch, first, last, scratch)) < last:
            scratch = with_room_for_hits(scratch, n)
        return scratch

    def set_thresholds(self, rows: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Set the thresholds of rows."""
        self.rows.record[rows, THRESHOLD] = values
        _set_in_delta(self._entries, rows, values)

    def kill(self, rows: NDArray[np.int64], undo: UndoLog) -> None:
        """Make these rows count no longer."""
        _kill(self, rows, undo)

    def live_rows(self) -> NDArray[np.int64]:
        """Return the rows that count."""
        return np.flatnonzero(self.rows.slot[: self.n_rows] >= 0)

    def taken(self, keep: NDArray[np.int64]) -> ThresholdRows:
        """Return these rows, packed."""
        filled = self.rows._replace(record=self.rows.record[: self.n_rows])
        return take_rows(filled, keep)

    @property
    def n_bytes(self) -> int:
        """Return the size of all arrays."""
        return sum(array.nbytes for array in (*self.rows, *self._entries))


@hot_kernel
def _enter(is_earth, rows, first, last, frame, entries, point):
    """Write the entries of rows; False if one is outside the frame."""
    fits = True
    for row in range(first, last):
        record = rows.record[row]
        fits = set_place(is_earth, frame, record[X], record[Y], point) and fits
        entries.x[row] = stepped(point[0], -frame[HALF], frame[HALF])
        entries.y[row] = stepped(point[1], -frame[HALF + 1], frame[HALF + 1])
        entries.z[row] = stepped(point[2], -frame[HALF + 2], frame[HALF + 2])
        bits = np.uint32(0)
        for i in range(int(record[FIRST]), int(record[LAST])):
            bits |= signature_bit(rows.term[i])
        entries.signature[row] = bits
        entries.rest[row] = rounded_up(record[TEXT_WEIGHT])
        entries.place[row] = rounded_up(1.0 - record[TEXT_WEIGHT])
        entries.threshold[row] = threshold_as_entry(record[THRESHOLD])
        entries.steep[row] = steepness(frame, record[MAX_DISTANCE])
        entries.row[row] = row
    return fits


@hot_kernel
def _set_in_delta(entries, which, values):
    for i in range(which.size):
        entries.threshold[which[i]] = threshold_as_entry(values[i])


Component = ThresholdSegment | ThresholdDelta
