"""Mobile rows: entering them into lists by (term, cell), moving their rectangles, dropping them.

A move that leaves a row in its cells writes its rectangle; another one takes it off its lists and puts it on others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.shared.predicates import NO_SHAPE
from nearcast.indexes.trigger.mobile.lists import (
    CELL,
    N_HEADS,
    N_PLACES,
    NONE,
    CellLists,
    append_entry,
    longer,
    places_needed,
    places_to_shrink,
    remove_entry,
)
from nearcast.indexes.trigger.places import EVERYWHERE, Places, cells_of, empty_stack, rectangle_word
from nearcast.indexes.trigger.reach import WILDCARD
from nearcast.indexes.trigger.segment import MOST_CELLS

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Fields of `MobileRows.tally`: rows there ever were, the first unused one, rows there are, and how much of `code` was
#: ever used and is not used any more.
N_ROWS, FREE_ROW, N_LIVE, CODE_USED, CODE_DEAD = range(5)
_TALLY_FIELDS = 5
#: Places that the arena gets in addition at least; a large one gets a quarter more.
_MORE_PLACES = 64


class MobileRows(NamedTuple):
    """Rows of subscriptions in flat arrays, those of a slot chained, and the lists they are entered in.

    The rows of a slot are `first_row[slot]`, `next_row` of that, and so on until NONE. Row r needs the clause
    `code[code_first[r]:code_last[r]]` and the rectangle `part[r]`; its trigger is `term[r]`. `shape[r]` is -1, or 2·r
    where `circle[r]` is its region. `clause`, `side` and how many `sides` its slot has are as in `TriggerRows`. An
    unused row has the slot -1 and is chained with others.

    Its k-th entry is pointed to by link 4·r + k of `lists`, and belongs to the list `list_of[r, k]`, for k below
    `n_cells[r]`. `term_rows[term - WILDCARD]` is how many rows have a trigger. Up to `few` are entered in the cell that
    is everywhere, as in a segment; those that were few when they came leave it when they move.
    """

    slot: NDArray[np.int32]
    next_row: NDArray[np.int32]
    first_row: NDArray[np.int32]
    code_first: NDArray[np.int32]
    code_last: NDArray[np.int32]
    code: NDArray[np.int32]
    term: NDArray[np.int32]
    signature: NDArray[np.uint64]
    part: NDArray[np.float64]
    shape: NDArray[np.int32]
    circle: NDArray[np.float64]
    clause: NDArray[np.uint16]
    side: NDArray[np.uint8]
    sides: NDArray[np.uint8]
    list_of: NDArray[np.int32]
    n_cells: NDArray[np.uint8]
    term_rows: NDArray[np.int32]
    lists: CellLists
    places: Places
    few: NDArray[np.int64]
    earth: NDArray[np.uint8]
    tally: NDArray[np.int64]

    @classmethod
    def room_for(cls, n: int, n_slots: int, n_code: int, places: Places, few: int, *, is_earth: bool) -> MobileRows:
        """Return no rows, with room for so many, for slots and for the codes of clauses."""
        tally = np.zeros(_TALLY_FIELDS, np.int64)
        tally[FREE_ROW] = NONE
        return cls(
            slot=np.full(n, NONE, np.int32),
            next_row=np.zeros(n, np.int32),
            first_row=np.full(n_slots, NONE, np.int32),
            code_first=np.zeros(n, np.int32),
            code_last=np.zeros(n, np.int32),
            code=np.zeros(n_code, np.int32),
            term=np.zeros(n, np.int32),
            signature=np.zeros(n, np.uint64),
            part=np.zeros((n, 4)),
            shape=np.zeros(n, np.int32),
            circle=np.zeros((0, 3)),
            clause=np.zeros(n, np.uint16),
            side=np.zeros(n, np.uint8),
            sides=np.zeros(n, np.uint8),
            list_of=np.zeros((n, MOST_CELLS), np.int32),
            n_cells=np.zeros(n, np.uint8),
            term_rows=np.zeros(1, np.int32),
            lists=CellLists.room_for(n, 2 * n, MOST_CELLS * n, len(places.origin)),
            places=places,
            few=np.array([few]),
            earth=np.array([is_earth], np.uint8),
            tally=tally,
        )

    def with_slots(self, n_slots: int) -> MobileRows:
        """Return the same rows with room for so many slots."""
        n = len(self.first_row)
        if n_slots <= n:
            return self
        first_row = longer(self.first_row, n_slots)
        first_row[n:] = NONE
        return self._replace(first_row=first_row)

    def with_terms(self, n_terms: int) -> MobileRows:
        """Return the same rows with room for the terms below this as triggers."""
        if n_terms - WILDCARD <= len(self.term_rows):
            return self
        term_rows = longer(self.term_rows, n_terms - WILDCARD)
        return self._replace(term_rows=term_rows, lists=self.lists.with_terms(len(term_rows) + WILDCARD))

    def with_room(self, n_rows: int, n_code: int, *, has_circles: bool) -> MobileRows:
        """Return the same rows with room for so many more, with codes of this length in all."""
        n, grown = len(self.slot), self
        if (needed := int(self.tally[N_LIVE]) + n_rows) > n:
            slot = longer(self.slot, needed)
            slot[n:] = NONE
            same: dict[str, Any] = {"slot": slot} | {name: longer(getattr(self, name), len(slot)) for name in _BY_ROW}
            lists = self.lists.with_room(0, 0, MOST_CELLS * len(slot))
            grown = self._replace(**same, lists=lists)
        if has_circles or len(self.circle):
            grown = grown._replace(circle=longer(grown.circle, len(grown.slot)))
        return grown._replace(code=longer(self.code, int(self.tally[CODE_USED]) + n_code))

    def with_more_lists(self) -> MobileRows:
        """Return the same rows with more room: for lists where it lacks for these, else for entries."""
        lists, n_lists = self.lists, int(self.lists.tally[N_HEADS]) + MOST_CELLS
        if n_lists > len(lists.head):
            return self._replace(lists=lists.with_room(n_lists, 0, 0))
        return self._replace(lists=lists.with_room(0, len(lists.link) + _MORE_PLACES, 0))


#: Columns by row, `slot` and `circle` apart.
_BY_ROW = (
    *("next_row", "code_first", "code_last", "term", "signature", "part", "shape", "clause", "side", "sides"),
    *("list_of", "n_cells"),
)


class NewRows(NamedTuple):
    """Rows to be entered: as in `TriggerRows`, with triggers, and a circle of NaN where there is none."""

    slot: NDArray[np.int32]
    code_start: NDArray[np.int64]
    code: NDArray[np.int32]
    term: NDArray[np.int32]
    signature: NDArray[np.uint64]
    part: NDArray[np.float64]
    circle: NDArray[np.float64]
    clause: NDArray[np.uint16]
    side: NDArray[np.uint8]
    sides: NDArray[np.uint8]


class MobileScratch(NamedTuple):
    """Scratch of a change: the stack of a walk down the tree of cells, and the cells found."""

    stack: NDArray[np.int32]
    cells: NDArray[np.int32]

    @classmethod
    def new(cls) -> MobileScratch:
        """Return scratch for one thread."""
        return cls(empty_stack(), np.zeros(MOST_CELLS, np.int32))


@hot_kernel
def enter_rows(rows, new, crowd, first, scratch):
    """Enter new rows from `first` on; return the first one left because there is no room for its entries.

    `crowd` is how many rows have the trigger of each once all are entered.
    """
    tally = rows.tally
    for i in range(first, new.slot.size):
        x_min, y_min, x_max, y_max = new.part[i, 0], new.part[i, 1], new.part[i, 2], new.part[i, 3]
        n_cells = _cells_for(rows, crowd[i], x_min, y_min, x_max, y_max, scratch)
        if not _has_room(rows, new.term[i], n_cells, 0, scratch):
            return i
        row = tally[FREE_ROW]
        if row != NONE:
            tally[FREE_ROW] = rows.next_row[row]
        else:
            row = tally[N_ROWS]
            tally[N_ROWS] = row + 1
        tally[N_LIVE] += 1
        _write_row(rows, row, new, i)
        _put_on_lists(rows, row, n_cells, scratch)
    return new.slot.size


@inlined
def _write_row(rows, row, new, i):
    tally, slot = rows.tally, new.slot[i]
    rows.slot[row] = slot
    rows.next_row[row] = rows.first_row[slot]
    rows.first_row[slot] = row
    used = tally[CODE_USED]
    rows.code_first[row] = used
    for k in range(new.code_start[i], new.code_start[i + 1]):
        rows.code[used] = new.code[k]
        used += 1
    rows.code_last[row] = used
    tally[CODE_USED] = used
    rows.term[row], rows.signature[row] = new.term[i], new.signature[i]
    rows.term_rows[new.term[i] - WILDCARD] += 1
    rows.clause[row], rows.side[row], rows.sides[row] = new.clause[i], new.side[i], new.sides[i]
    _write_region(rows, row, new.part, new.circle, i)


@inlined
def _write_region(rows, row, part, circle, i):
    for k in range(4):
        rows.part[row, k] = part[i, k]
    rows.shape[row] = NO_SHAPE
    if circle[i, 2] >= 0.0:
        rows.shape[row] = 2 * row
        for k in range(3):
            rows.circle[row, k] = circle[i, k]


@hot_kernel
def place_rows(rows, which, part, circle, first, scratch):
    """Give the rows `which` from `first` on other regions; return the first one left because there is no room."""
    for i in range(first, which.size):
        row = np.int64(which[i])
        x_min, y_min, x_max, y_max = part[i, 0], part[i, 1], part[i, 2], part[i, 3]
        n_cells = _cells_after(rows, row, x_min, y_min, x_max, y_max, scratch)
        if _are_its_cells(rows, row, n_cells, scratch):
            for k in range(n_cells):
                place = rows.lists.at[row * MOST_CELLS + k]
                rows.lists.rectangle[place] = rectangle_word(rows.places, scratch.cells[k], x_min, y_min, x_max, y_max)
            _write_region(rows, row, part, circle, i)
            continue
        if not _has_room(rows, rows.term[row], n_cells, _places_to_leave(rows, row), scratch):
            return i
        _take_off_lists(rows, row)
        _write_region(rows, row, part, circle, i)
        _put_on_lists(rows, row, n_cells, scratch)
    return which.size


@hot_kernel
def drop_slots(rows, slots):
    """Drop all rows of these slots, those that have any."""
    tally = rows.tally
    for i in range(slots.size):
        row = np.int64(rows.first_row[slots[i]])
        rows.first_row[slots[i]] = NONE
        while row != NONE:
            following = np.int64(rows.next_row[row])
            _take_off_lists(rows, row)
            tally[CODE_DEAD] += rows.code_last[row] - rows.code_first[row]
            rows.term_rows[rows.term[row] - WILDCARD] -= 1
            rows.slot[row] = NONE
            rows.next_row[row] = tally[FREE_ROW]
            tally[FREE_ROW] = row
            tally[N_LIVE] -= 1
            row = following


@inlined
def _cells_for(rows, crowd, x_min, y_min, x_max, y_max, scratch):
    """Write the cells that a row is entered in whose trigger so many rows have; return how many."""
    if crowd <= rows.few[0]:
        scratch.cells[0] = EVERYWHERE
        return 1
    return _cells_at(rows, x_min, y_min, x_max, y_max, scratch)


@inlined
def _cells_at(rows, x_min, y_min, x_max, y_max, scratch):
    """Write the cells that a rectangle touches, or the one that is everywhere if these are too many."""
    n_cells = cells_of(rows.places, x_min, y_min, x_max, y_max, scratch.stack, scratch.cells)
    if n_cells > MOST_CELLS:
        scratch.cells[0] = EVERYWHERE
        n_cells = 1
    return n_cells


@inlined
def _cells_after(rows, row, x_min, y_min, x_max, y_max, scratch):
    """Write the cells that a row is entered in when it goes to another rectangle: as few changes as can be."""
    mine = np.int64(rows.list_of[row, 0])
    if rows.lists.head[mine, CELL] == EVERYWHERE and rows.term_rows[rows.term[row] - WILDCARD] <= rows.few[0]:
        scratch.cells[0] = EVERYWHERE
        return 1
    return _cells_at(rows, x_min, y_min, x_max, y_max, scratch)


@inlined
def _are_its_cells(rows, row, n_cells, scratch):
    """Tell whether a row is entered in just these cells; a tree gives cells in one order."""
    if rows.n_cells[row] != n_cells:
        return False
    for k in range(n_cells):
        if rows.lists.head[rows.list_of[row, k], CELL] != scratch.cells[k]:
            return False
    return True


@inlined
def _places_to_leave(rows, row):
    """Return how many new places of the arena it may take to take a row off its lists."""
    needed = 0
    for k in range(rows.n_cells[row]):
        needed += places_to_shrink(rows.lists, np.int64(rows.list_of[row, k]))
    return needed


@inlined
def _has_room(rows, term, n_cells, needed, scratch):
    """Tell whether there is room for one more entry in each of the cells, beside so many places needed before."""
    lists = rows.lists
    for k in range(n_cells):
        needed += places_needed(lists, term, scratch.cells[k])
    return lists.tally[N_PLACES] + needed <= lists.link.size and lists.tally[N_HEADS] + n_cells <= lists.head.shape[0]


@inlined
def _put_on_lists(rows, row, n_cells, scratch):
    part, term = rows.part, rows.term[row]
    for k in range(n_cells):
        cell = scratch.cells[k]
        word = rectangle_word(rows.places, cell, part[row, 0], part[row, 1], part[row, 2], part[row, 3])
        link = row * MOST_CELLS + k
        rows.list_of[row, k] = append_entry(rows.lists, term, cell, word, rows.signature[row], link)
    rows.n_cells[row] = n_cells


@inlined
def _take_off_lists(rows, row):
    for k in range(rows.n_cells[row]):
        remove_entry(rows.lists, np.int64(rows.list_of[row, k]), np.int64(rows.lists.at[row * MOST_CELLS + k]))
    rows.n_cells[row] = 0
