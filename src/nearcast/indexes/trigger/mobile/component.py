"""The component of a trigger index that holds subscriptions which have moved: no merge is ever due for it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast import _arrow
from nearcast._jit import direct
from nearcast.columns import HeldSubscription, Subscriptions
from nearcast.geo import ANYWHERE, BOX, CIRCLE, Regions
from nearcast.indexes.trigger.mobile.lists import CELL, COUNT, N_ENTRIES, N_HEADS, N_LISTS
from nearcast.indexes.trigger.mobile.rows import (
    CODE_DEAD,
    CODE_USED,
    N_LIVE,
    N_ROWS,
    MobileRows,
    MobileScratch,
    NewRows,
    drop_slots,
    enter_rows,
    place_rows,
)
from nearcast.indexes.trigger.mobile.search import search_mobile
from nearcast.indexes.trigger.places import cells_of_boxes, cut_space
from nearcast.indexes.trigger.reach import WILDCARD
from nearcast.indexes.trigger.rows import SCORE_COLUMNS, TriggerRows, mark_rest, rarest_terms, take_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.shared.undo import UndoLog
    from nearcast.indexes.trigger.places import Places
    from nearcast.indexes.trigger.scratch import TriggerBatch, TriggerScratch

#: A component makes all its arrays, and the rows and regions that are placed.
_place_rows = direct(place_rows)
_NONE = -1
#: The number that marks the slots of this component.
MOBILE = 253
_NO_POLYGONS = np.empty(0, object)
_NO_CIRCLE = np.full((1, 3), np.nan)
_LEAST_ROWS = 64
#: Cells have this share of the rows that those of segments have: lists in no order have no blocks to be skipped.
_FINER = 2
#: Up to so many cells' worth of rows space is not cut: a message then asks one cell only.
_SMALL = 4
#: A few, where space is not cut: more entries than any list has.
_ALL = 1 << 40
#: Space is cut anew when a cell has so many times the entries that it should have.
_CROWDED = 8


class _RowRegions(NamedTuple):
    """The rectangles and circles of some rows, which are to be given them; a circle is NaN where there is none."""

    part: NDArray[np.float64]
    circle: NDArray[np.float64]


class MobileComponent:
    """Rows of boolean subscriptions with boxes and circles, in lists by (term, cell) that change in place.

    Whatever changes notes first, in the undo log, the call that puts rows back; arrays that grow need no note. Space is
    cut by what is there, and cut anew when there is twice as much of it, or a cell is crowded.
    """

    number = MOBILE
    geometry = _NO_POLYGONS
    has_scored = False

    def __init__(self, *, leaf_rows: int, few: int, is_earth: bool):
        self._leaf_rows, self._few, self._is_earth = max(1, leaf_rows // _FINER), few, is_earth
        self.held = self._room_for(_LEAST_ROWS, 0, 0, np.empty((0, 4)))
        self._scratch = MobileScratch.new()
        #: How many rows there were when space was cut, and how many moved since somebody looked at how full cells are.
        self._n_when_cut = self._n_moved = 0

    def _room_for(self, n: int, n_slots: int, n_code: int, part: NDArray[np.float64]) -> MobileRows:
        """Return no rows, with room for so many; these rectangles say how space is cut."""
        is_small = len(part) <= _SMALL * self._leaf_rows
        places = cut_space(part[:0] if is_small else part, self._leaf_rows)
        few = _ALL if is_small else self._few
        return MobileRows.room_for(n, n_slots, n_code, places, few, is_earth=self._is_earth)

    # What is held

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return int(self.held.tally[N_LIVE])

    @property
    def places(self) -> Places:
        """Return the cells."""
        return self.held.places

    @property
    def n_cells(self) -> int:
        """Return the number of cells, the one that is everywhere included."""
        return len(self.places.origin)

    @property
    def nbytes(self) -> int:
        """Return the memory taken by all arrays."""
        tables: list[Any] = [self.held, self.held.lists, self.held.places]
        return sum(column.nbytes for table in tables for column in table if isinstance(column, np.ndarray))

    @property
    def n_entries(self) -> int:
        """Return the number of entries in all lists."""
        return int(self.held.lists.tally[N_ENTRIES])

    @property
    def n_lists(self) -> int:
        """Return the number of lists."""
        return int(self.held.lists.tally[N_LISTS])

    def search(
        self,
        batch: TriggerBatch,
        first: int,
        last: int,
        owner: NDArray[np.uint8],
        scratch: TriggerScratch,
        start: NDArray[np.int64],
    ) -> int:
        """Run `search_mobile`; all rows belong to slots that this component owns."""
        return int(search_mobile(self.held, batch, first, last, scratch, start))

    def search_scored(self, batch: TriggerBatch, owner: NDArray[np.uint8], scratch: TriggerScratch) -> bool:
        """Find nothing: there are no scored rows."""
        return True

    def rows_of_slots(self, slots: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the rows of these slots, slot by slot."""
        return self._rows_and_owners(slots)[0]

    def _rows_and_owners(self, slots: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of these slots, slot by slot, and of each row which of the slots it belongs to."""
        held = self.held
        row, of = held.first_row[slots].astype(np.int64), np.arange(len(slots))
        rows, owners = [], []
        while len(row):
            is_row = row != _NONE
            if not is_row.all():
                row, of = row[is_row], of[is_row]
            rows.append(row)
            owners.append(of)
            row = held.next_row[row].astype(np.int64)
            if (row == _NONE).all():
                break
        if len(rows) == 1:
            return rows[0], owners[0]
        if not rows:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        every, owner = np.concatenate(rows), np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        return every[order], owner[order]

    def live_rows(self, owner: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return all rows."""
        return np.flatnonzero(self.held.slot[: self.held.tally[N_ROWS]] != _NONE)

    def taken(self, keep: NDArray[np.int64]) -> TriggerRows:
        """Return these rows, packed."""
        held = self.held
        first, last = held.code_first[keep].astype(np.int64), held.code_last[keep].astype(np.int64)
        code_start = np.zeros(len(keep) + 1, np.int64)
        np.cumsum(last - first, out=code_start[1:])
        code = held.code[np.repeat(first - code_start[:-1], last - first) + np.arange(code_start[-1])]
        shape = np.full(len(keep), _NONE, np.int32)
        circles = np.flatnonzero(held.shape[keep] >= 0)
        shape[circles] = 2 * np.arange(len(circles))
        return TriggerRows(
            slot=held.slot[keep],
            code_start=code_start,
            code=code,
            part=held.part[keep],
            shape=shape,
            clause=held.clause[keep],
            side=held.side[keep],
            circle=held.circle[keep[circles]],
            score=np.empty((0, SCORE_COLUMNS)),
        )

    def subscriptions(self, slots: NDArray[np.int32]) -> Subscriptions | None:
        """Return what these slots hold, if each has one row; else None."""
        held, n = self.held, len(slots)
        if n == 1:
            return self._subscription(slots)
        row = held.first_row[slots].astype(np.int64)
        if (row == _NONE).any() or (held.next_row[row] != _NONE).any():
            return None
        rows = self.taken(row)
        kind = np.where(rows.shape >= 0, CIRCLE, np.where(np.isneginf(rows.part[:, 0]), ANYWHERE, BOX))
        shape = np.where(rows.shape >= 0, rows.shape // 2, _NONE).astype(np.int32)
        starts = np.arange(n + 1)
        regions = Regions(kind.astype(np.uint8), starts, rows.part, shape, rows.circle, _NO_POLYGONS)
        return Subscriptions.of(starts, rows.code_start, rows.code, regions, ids=_arrow.numbers(slots))

    def _subscription(self, slots: NDArray[np.int32]) -> Subscriptions | None:
        """Do for one slot what `subscriptions` does, without what only pays for many."""
        held = self.held
        row = held.first_row.item(slots.item())
        if row == _NONE or held.next_row[row] != _NONE:
            return None
        code = held.code[held.code_first.item(row) : held.code_last.item(row)].copy()
        part = held.part[row : row + 1].copy()
        if held.shape[row] >= 0:
            regions = Regions.of_one_part(CIRCLE, part, circle=held.circle[row : row + 1].copy())
        else:
            regions = Regions.of_one_part(ANYWHERE if part[0, 0] == -np.inf else BOX, part)
        return HeldSubscription.at(slots, code, regions)

    def triggers(self, rows: NDArray[np.int64]) -> list[int]:
        """Return the triggers of these rows."""
        terms: list[int] = self.held.term[rows].tolist()
        return terms

    # Changes

    def move(self, slots: NDArray[np.int32], regions: Regions, popularity: NDArray[np.int32], undo: UndoLog) -> None:
        """Give slots that are here other regions, none of them a polygon."""
        if len(slots) == 1 and self._has_moved(int(slots[0]), regions, undo):
            return
        rows, owner = self._rows_and_owners(slots)
        held, is_circle = self.held, regions.kind == CIRCLE
        n_parts = np.diff(regions.part_start)
        is_same = (held.sides[rows] == n_parts[owner]) & ((held.shape[rows] >= 0) == is_circle[owner])
        self._n_moved += len(slots)
        if is_same.all():
            self._place(rows, owner, regions, undo)
            self._cut_again_if_due(undo)
            return
        other = np.zeros(len(slots), np.bool_)
        other[owner[~is_same]] = True
        kept = ~other[owner]
        self._place(rows[kept], owner[kept], regions, undo)
        again = np.flatnonzero(other)
        clauses = self.taken(rows[~kept])
        self.drop(slots[again], undo)
        self.enter(slots[again], clauses, regions.take(again), popularity, undo)

    def _has_moved(self, slot: int, regions: Regions, undo: UndoLog) -> bool:
        """Move one slot of one row, without what only pays for many; False if it is not so simple."""
        held = self.held
        row = held.first_row.item(slot)
        if row == _NONE or held.next_row.item(row) != _NONE or len(regions.part) != 1:
            return False
        was_circle, is_circle = held.shape.item(row) >= 0, len(regions.circle) == 1
        if was_circle != is_circle or held.sides.item(row) != 1:
            return False
        rows, part = np.array([row]), held.part[row : row + 1].copy()
        undo.call(
            self._put_regions, rows, _RowRegions(part, held.circle[row : row + 1].copy() if was_circle else _NO_CIRCLE)
        )
        self._put_regions(rows, _RowRegions(regions.part, regions.circle if is_circle else _NO_CIRCLE))
        self._n_moved += 1
        if self._n_moved >= self.n_rows:
            self._cut_again_if_due(undo)
        return True

    def _place(self, rows: NDArray[np.int64], owner: NDArray[np.int64], regions: Regions, undo: UndoLog) -> None:
        """Give rows the rectangle and the circle of their slots; these have as many rectangles as before."""
        held = self.held
        side = regions.part_start[owner] + held.side[rows]
        before = _RowRegions(held.part[rows], self._circles(rows))
        undo.call(self._put_regions, rows, before)
        self._put_regions(rows, _RowRegions(regions.part[side], _circles_of(regions, owner)))

    def _circles(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        held, found = self.held, np.full((len(rows), 3), np.nan)
        is_circle = held.shape[rows] >= 0
        found[is_circle] = held.circle[rows[is_circle]]
        return found

    def _put_regions(self, rows: NDArray[np.int64], regions: _RowRegions) -> None:
        part, circle = (np.ascontiguousarray(column, np.float64) for column in regions)
        done = 0
        while (done := _place_rows(self.held, rows, part, circle, done, self._scratch)) < len(rows):
            self.held = self.held.with_more_lists()

    def enter(
        self,
        slots: NDArray[np.int32],
        old: TriggerRows,
        regions: Regions,
        popularity: NDArray[np.int32],
        undo: UndoLog,
    ) -> None:
        """Take slots in that are not here, with the clauses of the rows they have elsewhere, and these regions."""
        rows, sides = _with_regions(old, slots, regions)
        self._enter(slots, _with_triggers(rows, sides, popularity), undo)

    def take_in(
        self, slots: NDArray[np.int32], rows: TriggerRows, popularity: NDArray[np.int32], undo: UndoLog
    ) -> None:
        """Take slots in that are not here, ascending, as all the rows they have elsewhere."""
        circle = np.full((len(rows.slot), 3), np.nan)
        is_circle = rows.shape >= 0
        circle[is_circle] = rows.circle[rows.shape[is_circle] // 2]
        owner = np.searchsorted(slots, rows.slot)
        sides = np.bincount(owner[rows.clause == 0], minlength=len(slots))[owner].astype(np.uint8)
        self._enter(slots, _with_triggers(rows._replace(circle=circle), sides, popularity), undo)

    def _enter(self, slots: NDArray[np.int32], new: NewRows, undo: UndoLog) -> None:
        undo.call(self._drop, slots)
        self._put_rows(slots, new)
        self._cut_again_if_due(undo)

    def drop(self, slots: NDArray[np.int32], undo: UndoLog) -> None:
        """Forget slots that are here."""
        undo.call(self._put_back, slots, self._saved(self.rows_of_slots(slots)))
        self._drop(slots)

    def _saved(self, rows: NDArray[np.int64]) -> NewRows:
        """Return rows in the form in which they are entered again."""
        held, packed = self.held, self.taken(rows)
        return NewRows(
            slot=packed.slot,
            code_start=packed.code_start,
            code=packed.code,
            term=held.term[rows],
            signature=held.signature[rows],
            part=packed.part,
            circle=self._circles(rows),
            clause=packed.clause,
            side=packed.side,
            sides=held.sides[rows],
        )

    def _put_back(self, slots: NDArray[np.int32], rows: NewRows) -> None:
        """Enter the rows of slots again, whether or not they are here; may be called again."""
        self._drop(slots)
        self._put_rows(slots, rows)

    def _drop(self, slots: NDArray[np.int32]) -> None:
        self.held = self.held.with_slots(int(slots.max(initial=-1)) + 1)
        drop_slots(self.held, slots)

    def _put_rows(self, slots: NDArray[np.int32], rows: NewRows) -> None:
        self.held = self.held.with_slots(int(slots.max(initial=-1)) + 1)
        has_circles = bool((rows.circle[:, 2] >= 0.0).any())
        self.held = self.held.with_room(len(rows.slot), len(rows.code), has_circles=has_circles)
        self.held = self.held.with_terms(int(rows.term.max(initial=-1)) + 1)
        crowd, done = self._crowd(rows.term), 0
        while (done := enter_rows(self.held, rows, crowd, done, self._scratch)) < len(rows.slot):
            self.held = self.held.with_more_lists()

    def _crowd(self, terms: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return how many rows have the trigger of each new row, the new ones included."""
        distinct, place, count = np.unique(terms, return_inverse=True, return_counts=True)
        crowd: NDArray[np.int64] = (self.held.term_rows[distinct - WILDCARD] + count)[place]
        return crowd

    def renumber(self, owner: NDArray[np.uint8], number_of: NDArray[np.int32], undo: UndoLog) -> None:
        """Give every row the new number of its slot."""
        held = self.held
        old = np.flatnonzero(held.first_row != _NONE)
        slot = np.where(held.slot == _NONE, _NONE, number_of[held.slot]).astype(np.int32)
        first_row = np.full(int(number_of.max(initial=-1)) + 1, _NONE, np.int32)
        first_row[number_of[old]] = held.first_row[old]
        undo.attributes(self, "held")
        self.held = held._replace(slot=slot, first_row=first_row)

    # Upkeep

    def _cut_again_if_due(self, undo: UndoLog) -> None:
        """Build everything anew where there are twice as many rows, most code is unused, or a cell is crowded."""
        tally = self.held.tally
        has_grown = self.n_rows > 2 * self._n_when_cut and self.n_rows > _SMALL * self._leaf_rows
        is_waste = 2 * tally[CODE_DEAD] > tally[CODE_USED] > 8 * _LEAST_ROWS
        if not has_grown and not is_waste and not self._is_crowded():
            return
        undo.attributes(self, "held", "_n_when_cut", "_n_moved")
        self.held = self._built_anew()
        self._n_when_cut, self._n_moved = self.n_rows, 0

    def _is_crowded(self) -> bool:
        """Tell whether a cell has far too many entries; looked at when as many rows have moved as there are."""
        if self._n_moved < self.n_rows or self.n_rows <= _CROWDED * self._leaf_rows:
            return False
        self._n_moved = 0
        head = self.held.lists.head[: self.held.lists.tally[N_HEADS]]
        count = np.bincount(head[:, CELL], weights=head[:, COUNT])
        return bool(count[1:].max(initial=0) > _CROWDED * self._leaf_rows)

    def _built_anew(self) -> MobileRows:
        """Return the same rows in new arrays, with space cut by where they are.

        They are entered cell by cell and term by term: what a message looks at then lies side by side.
        """
        held, rows = self.held, self.live_rows(np.empty(0, np.uint8))
        fresh, n, n_code = copy.copy(self), len(rows), int((held.code_last[rows] - held.code_first[rows]).sum())
        fresh.held = self._room_for(n + n // 4, len(held.first_row), n_code * 5 // 4, held.part[rows])
        cell = np.empty(n, np.int32)
        cells_of_boxes(fresh.held.places, held.part[rows], cell)
        saved = self._saved(rows[np.lexsort((held.term[rows], cell))])
        fresh._put_rows(saved.slot, saved)
        return fresh.held


def _circles_of(regions: Regions, owner: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the circle of each row, NaN where its region is none."""
    found = np.full((len(owner), 3), np.nan)
    if len(regions.circle):
        is_circle = regions.kind[owner] == CIRCLE
        found[is_circle] = regions.circle[regions.shape[owner[is_circle]]]
    return found


def _with_regions(
    old: TriggerRows, slots: NDArray[np.int32], regions: Regions
) -> tuple[TriggerRows, NDArray[np.uint8]]:
    """Return the clauses of rows with every rectangle of other regions, and how many of these each slot has."""
    clauses = np.flatnonzero(old.side == 0)
    by_slot = np.argsort(slots)
    owner = by_slot[np.searchsorted(slots, old.slot[clauses], sorter=by_slot)]
    n_parts = np.diff(regions.part_start)[owner]
    nth = np.repeat(np.arange(len(clauses)), n_parts)
    side = np.arange(len(nth)) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
    circle = _circles_of(regions, owner[nth])
    rows = take_rows(old, clauses[nth])._replace(
        part=np.ascontiguousarray(regions.part[regions.part_start[owner[nth]] + side]),
        shape=np.where(circle[:, 2] >= 0.0, 2 * np.arange(len(nth)), _NONE).astype(np.int32),
        side=side.astype(np.uint8),
        circle=circle,
    )
    return rows, n_parts[nth].astype(np.uint8)


def _with_triggers(rows: TriggerRows, sides: NDArray[np.uint8], popularity: NDArray[np.int32]) -> NewRows:
    """Return rows with their triggers; `rows` have a circle each, NaN for none."""
    n = len(rows.slot)
    term, signature = np.empty(n, np.int32), np.empty(n, np.uint64)
    rarest_terms(rows.code_start, rows.code, popularity, term, signature)
    mark_rest(rows, term, signature)
    return NewRows(
        slot=rows.slot,
        code_start=rows.code_start,
        code=rows.code,
        term=term,
        signature=signature,
        part=rows.part,
        circle=rows.circle,
        clause=rows.clause,
        side=rows.side,
        sides=sides,
    )
