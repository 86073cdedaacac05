"""An immutable piece of the trigger index: (cell, term) → triggers, in flat arrays that any process can map."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import kernel
from nearcast.indexes.trigger.discs import Discs, build_discs, plan_discs
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
from nearcast.indexes.trigger.reach import WILDCARD
from nearcast.indexes.trigger.rows import SCORED, TriggerRows, count_terms, mark_rest, rarest_terms, take_rows
from nearcast.indexes.trigger.tables import by_cell_and_term, make_tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: A trigger that touches more cells than this is kept once, in the cell that is everywhere.
MOST_CELLS = 4
#: Segments of up to this many cells' worth of rows are not cut by place.
_SMALL = 4
#: How many cells' worth of scored rows are a group: every list that a message looks up there costs some tests.
_GROUP_LEAVES = 4
#: How many times `few` discs are few.
_FEW_DISCS = 16
#: Entries whose rectangles are bounded together, so that a long list can be skipped through.
BLOCK = 16


class TriggerSegment(NamedTuple):
    """Triggers by cell and term.

    Cell c owns the hash table `table[table_start[c]:table_start[c + 1]]` of (term, first, last): the triggers of
    that term in that cell are the entries first to last, neighbours in space side by side. Entry e has a rectangle
    (`rectangle_word`, in steps of the cell's grid), the signature of the other terms its row requires, and the row.
    `block[b]` bounds entries 16·b to 16·b + 15. `by_slot` orders the rows by slot. `earth` is one flag: are circles
    measured on the sphere? All this is for boolean rows; the triggers of scored rows are `discs`.
    """

    places: Places
    table_start: NDArray[np.int64]
    table: NDArray[np.int32]
    rectangle: NDArray[np.uint64]
    signature: NDArray[np.uint64]
    row: NDArray[np.int32]
    block: NDArray[np.uint64]
    rows: TriggerRows
    by_slot: NDArray[np.int32]
    earth: NDArray[np.uint8]
    discs: Discs


def build_segment(
    rows: TriggerRows, weight: NDArray[np.float64], *, is_earth: bool, leaf_rows: int, few: int
) -> TriggerSegment:
    """Lay out rows as a segment; about a microsecond per boolean row, two to three per scored one."""
    if len(rows.slot) <= _SMALL * leaf_rows:
        few = len(rows.slot)  # a small segment is not cut at all: blocks suffice, and a message asks one table only
    boolean = np.flatnonzero(rows.shape > SCORED)
    n = len(boolean)
    places = cut_space(rows.part[boolean], leaf_rows)
    layout, scored_order = plan_discs(rows, weight, _GROUP_LEAVES * leaf_rows)
    rows = take_rows(rows, np.append(boolean[_spatial_order(places, rows.part[boolean])], scored_order))
    n_terms = int(rows.code.max(initial=-1)) + 1
    count = np.zeros(n_terms + 1, np.int32)
    count_terms(rows.code, count)
    trigger, signature = np.empty(n, np.int32), np.empty(n, np.uint64)
    rarest_terms(rows.code_start, rows.code, count, trigger, signature)
    mark_rest(rows, trigger, signature)
    triggers_of = np.bincount(trigger - WILDCARD, minlength=n_terms - WILDCARD)
    cell, entry_row = np.empty(MOST_CELLS * n, np.int32), np.empty(MOST_CELLS * n, np.int32)
    n_entries = _spread(places, rows.part, trigger, triggers_of, few, empty_stack(), cell, entry_row)
    order = by_cell_and_term(cell[:n_entries], trigger[entry_row[:n_entries]] - WILDCARD, n_terms - WILDCARD)
    cell, entry_row = cell[order], entry_row[order]
    table_start, table = make_tables(cell, trigger[entry_row], len(places.origin))
    rectangle = np.empty(n_entries, np.uint64)
    _pack_rectangles(places, rows.part, cell, entry_row, rectangle)
    block = np.empty(-(-n_entries // BLOCK), np.uint64)
    _bound_blocks(rectangle, block)
    by_slot = np.argsort(rows.slot, kind="stable").astype(np.int32)
    earth = np.array([is_earth], np.uint8)
    discs = build_discs(rows, layout, scored_order, is_earth=is_earth, few=few * _FEW_DISCS)
    return TriggerSegment(
        places=places,
        table_start=table_start,
        table=table,
        rectangle=rectangle,
        signature=signature[entry_row],
        row=entry_row,
        block=block,
        rows=rows,
        by_slot=by_slot,
        earth=earth,
        discs=discs,
    )


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
