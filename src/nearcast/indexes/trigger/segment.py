"""An immutable piece of the trigger index: (cell, term) → triggers, in flat arrays that any process can map."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import kernel, step
from nearcast.indexes.trigger.places import (
    EVERYWHERE,
    STEPS,
    Places,
    cell_of,
    cells_of,
    cut_space,
    empty_stack,
    rectangle_word,
    smaller_fields,
    step_of,
)
from nearcast.indexes.trigger.rows import Rows, count_terms, rarest_terms, take_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The term of triggers that need no word: region-only and NOT-only clauses.
WILDCARD = -2
_VACANT = -1
#: A trigger that touches more cells than this is kept once, in the cell that is everywhere.
MOST_CELLS = 4
#: Segments of up to this many cells' worth of rows are not cut by place.
_SMALL = 4
#: Entries whose rectangles are bounded together, so that a long list can be skipped through.
BLOCK = 16


class Segment(NamedTuple):
    """Triggers by cell and term.

    Cell c owns the hash table `table[table_start[c]:table_start[c + 1]]` of (term, first, last): the triggers of
    that term in that cell are the entries first to last, neighbours in space side by side. Entry e has a rectangle
    (`rectangle_word`, in steps of the cell's grid), the signature of the other terms its row requires, and the row.
    `block[b]` bounds entries 16·b to 16·b + 15. `by_slot` orders the rows by slot. `earth` is one flag: are circles
    measured on the sphere?
    """

    places: Places
    table_start: NDArray[np.int64]
    table: NDArray[np.int32]
    rectangle: NDArray[np.uint64]
    signature: NDArray[np.uint64]
    row: NDArray[np.int32]
    block: NDArray[np.uint64]
    rows: Rows
    by_slot: NDArray[np.int32]
    earth: NDArray[np.uint8]


def build_segment(rows: Rows, *, is_earth: bool, leaf_rows: int, few: int) -> Segment:
    """Lay out rows as a segment; about a microsecond per row."""
    if len(rows.slot) <= _SMALL * leaf_rows:
        few = len(rows.slot)  # a small segment is not cut at all: blocks suffice, and a message asks one table only
    places = cut_space(rows.part, leaf_rows)
    rows = take_rows(rows, _spatial_order(places, rows.part))
    n = len(rows.slot)
    n_terms = int(rows.code.max(initial=-1)) + 1
    count = np.zeros(n_terms + 1, np.int32)
    count_terms(rows.code, count)
    trigger, signature = np.empty(n, np.int32), np.empty(n, np.uint64)
    rarest_terms(rows.code_start, rows.code, count, trigger, signature)
    triggers_of = np.bincount(trigger - WILDCARD, minlength=n_terms - WILDCARD)
    cell, entry_row = np.empty(MOST_CELLS * n, np.int32), np.empty(MOST_CELLS * n, np.int32)
    n_entries = _spread(places, rows.part, trigger, triggers_of, few, empty_stack(), cell, entry_row)
    order = _by_cell_and_term(cell[:n_entries], trigger[entry_row[:n_entries]] - WILDCARD, n_terms - WILDCARD)
    cell, entry_row = cell[order], entry_row[order]
    table_start, table = _make_tables(cell, trigger[entry_row], len(places.origin))
    rectangle = np.empty(n_entries, np.uint64)
    _pack_rectangles(places, rows.part, cell, entry_row, rectangle)
    block = np.empty(-(-n_entries // BLOCK), np.uint64)
    _bound_blocks(rectangle, block)
    by_slot = np.argsort(rows.slot, kind="stable").astype(np.int32)
    earth = np.array([is_earth], np.uint8)
    return Segment(places, table_start, table, rectangle, signature[entry_row], entry_row, block, rows, by_slot, earth)


def _spatial_order(places: Places, part: NDArray[np.float64]) -> NDArray[np.int64]:
    key = np.empty(len(part), np.int64)
    _spatial_keys(places, part, key)
    return np.argsort(key, kind="stable")


@kernel
def _spatial_keys(places, part, key):
    """Number rows along a curve: by the cell of their centre, then by the interleaved bits of its grid steps."""
    for row in range(key.size):
        if not (np.isfinite(part[row, 0]) and np.isfinite(part[row, 2])):
            key[row] = -1
            continue
        x, y = part[row, 0] / 2 + part[row, 2] / 2, part[row, 1] / 2 + part[row, 3] / 2
        cell = cell_of(places, x, y)
        sx = step_of(x, places.origin[cell, 0], places.scale[cell, 0])
        sy = step_of(y, places.origin[cell, 1], places.scale[cell, 1])
        bits = 0
        for bit in range(15):
            bits |= (((sx >> bit) & 1) << (2 * bit)) | (((sy >> bit) & 1) << (2 * bit + 1))
        key[row] = (np.int64(cell) << 30) | bits


@kernel
def _spread(places, part, trigger, triggers_of, few, stack, cell, entry_row):
    """Write an entry for each cell a row touches; rare terms and wide rows get one, everywhere. Return the count."""
    found = np.empty(MOST_CELLS, np.int32)
    n = 0
    for row in range(trigger.size):
        touched = MOST_CELLS + 1
        if triggers_of[trigger[row] - WILDCARD] > few:
            touched = cells_of(places, part[row, 0], part[row, 1], part[row, 2], part[row, 3], stack, found)
        if touched > MOST_CELLS:
            found[0] = EVERYWHERE
            touched = 1
        for i in range(touched):
            cell[n], entry_row[n] = found[i], row
            n += 1
    return n


def _by_cell_and_term(cell: NDArray[np.int32], term: NDArray[np.int32], n_terms: int) -> NDArray[np.int32]:
    """Return the stable order by (cell, term): two counting sorts, the less important key first."""
    first, second = np.empty(len(cell), np.int32), np.empty(len(cell), np.int32)
    _counting_sort(term.astype(np.int32), np.arange(len(cell), dtype=np.int32), np.zeros(n_terms + 1, np.int64), first)
    _counting_sort(cell, first, np.zeros(int(cell.max(initial=0)) + 2, np.int64), second)
    return second


@kernel
def _counting_sort(key, source, start, out):
    """Write `source` to `out` in stable order of `key[source]`; `start` is zeroed room for one more than the keys."""
    for i in range(key.size):
        start[key[i] + 1] += 1
    for k in range(1, start.size):
        start[k] += start[k - 1]
    for i in range(source.size):
        k = key[source[i]]
        out[start[k]] = source[i]
        start[k] += 1


def _make_tables(
    cell: NDArray[np.int32], term: NDArray[np.int32], n_cells: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    new_list = np.ones(len(cell), bool)
    new_list[1:] = (cell[1:] != cell[:-1]) | (term[1:] != term[:-1])
    first = np.flatnonzero(new_list)
    last = np.append(first[1:], len(cell))
    lists = np.bincount(cell[first], minlength=n_cells)
    # A third of the places stays vacant, one at least: that is what ends a search for an absent term.
    table_start = np.zeros(n_cells + 1, np.int64)
    np.cumsum(lists + lists // 2 + 1, out=table_start[1:])
    table = np.full((table_start[-1], 3), _VACANT, np.int32)
    _fill_tables(cell[first], term[first], first.astype(np.int32), last.astype(np.int32), table_start, table)
    return table_start, table


@kernel
def _fill_tables(cell, term, first, last, table_start, table):
    for i in range(cell.size):
        at = find_list(table_start, table, cell[i], term[i])
        table[at, 0], table[at, 1], table[at, 2] = term[i], first[i], last[i]


@step
def find_list(table_start, table, cell, term):
    """Return the place of a term in its cell's table, or the vacant place where it would stand."""
    begin = table_start[cell]
    size = table_start[cell + 1] - begin
    at = ((((np.int64(term) + 2) * 2654435769) & 0xFFFFFFFF) * size) >> 32
    while table[begin + at, 0] != term and table[begin + at, 0] != _VACANT:
        at += 1
        if at == size:
            at = 0
    return begin + at


@kernel
def _pack_rectangles(places, part, cell, entry_row, rectangle):
    for e in range(cell.size):
        row = entry_row[e]
        rectangle[e] = rectangle_word(places, cell[e], part[row, 0], part[row, 1], part[row, 2], part[row, 3])


@kernel
def _bound_blocks(rectangle, block):
    for b in range(block.size):
        bound = rectangle[b * BLOCK]
        for e in range(b * BLOCK + 1, min((b + 1) * BLOCK, rectangle.size)):
            bound = smaller_fields(bound, rectangle[e])
        block[b] = bound


assert STEPS < 1 << 15
