"""Which rows of a segment does a message satisfy? The kernels on the way of every message."""

from __future__ import annotations

import numpy as np

from nearcast._jit import hot_kernel, step
from nearcast.geo import circle_holds
from nearcast.indexes.shared.predicates import boxes_overlap, clause_holds, message_parts
from nearcast.indexes.trigger.places import EVERYWHERE, GUARD, ONE_STEP, cell_of, cells_of, message_word
from nearcast.indexes.trigger.reach import WILDCARD
from nearcast.indexes.trigger.segment import BLOCK
from nearcast.indexes.trigger.tables import find_list
from nearcast.indexes.trigger.work import (
    FOUND,
    LOOKED_AT,
    MARKED,
    PENDING,
    VERIFIED,
    WAITING,
    end_message,
    set_marks,
    tally_now,
)


@hot_kernel
def search_segment(segment, batch, first, last, owner, number, work, start):
    """Search messages `batch.order[first:last]`; return the first one left undone because room ran out.

    Slots found for the i-th of them are `work.found[start[i]:start[i + 1]]`, unsorted, possibly repeated. A row
    counts only while `owner[slot] == number`, that is, while this segment holds the slot's present version.
    """
    start[first] = work.tally[FOUND]
    for i in range(first, last):
        before = tally_now(work)
        fits = True
        for part in range(message_parts(batch.box, batch.order[i], work.parts)):
            fits = fits and _search_part(segment, batch, i, part, owner, number, work)
        if not end_message(batch, i, fits, before, work, start):
            return i
    return last


@step
def _search_part(segment, batch, i, part, owner, number, work):
    """Search every cell one rectangle of a message touches."""
    x_min, y_min, x_max, y_max = work.parts[part]
    n_cells = 1
    if x_min == x_max and y_min == y_max:
        work.cells[0] = cell_of(segment.places, x_min, y_min)
    else:
        n_cells = cells_of(segment.places, x_min, y_min, x_max, y_max, work.stack, work.cells)
    fits = _search_cell(segment, EVERYWHERE, batch, i, part, owner, number, work)
    for c in range(n_cells):
        fits = fits and _search_cell(segment, work.cells[c], batch, i, part, owner, number, work)
    return fits


@step
def _search_cell(segment, cell, batch, i, part, owner, number, work):
    """Look up the wildcard and each term of the message in one cell."""
    if segment.table_start[cell + 1] - segment.table_start[cell] <= 1:
        return True
    x_min, y_min, x_max, y_max = work.parts[part]
    word = message_word(segment.places, cell, x_min, y_min, x_max, y_max)
    for j in range(batch.distinct_start[i] - 1, batch.distinct_start[i + 1]):
        term = WILDCARD if j < batch.distinct_start[i] else batch.distinct[j]
        at = find_list(segment.table_start, segment.table, cell, term)
        if segment.table[at, 0] != term:
            continue
        first, last = segment.table[at, 1], segment.table[at, 2]
        if not _search_list(segment, first, last, word, term != WILDCARD, batch, i, part, owner, number, work):
            return False
    return True


@step
def _search_list(segment, first, last, word, is_term, batch, i, part, owner, number, work):
    """Filter one list of entries, of a term or the wildcard, by signature and rectangle and verify what is left."""
    waiting, n, e = work.waiting, 0, first
    other = ~batch.bits[i]
    while e < last:
        stop = min(last, (e // BLOCK + 1) * BLOCK)
        if stop - e == BLOCK and ((word - segment.block[e // BLOCK]) & GUARD) != GUARD:
            work.tally[LOOKED_AT] += 1
            e = stop
            continue
        work.tally[LOOKED_AT] += stop - e
        # Each entry is written and the cursor moves only on a hit: no branch to mispredict.
        for k in range(e, stop):
            waiting[n] = k
            n += ((segment.signature[k] & other) == np.uint64(0)) & (((word - segment.rectangle[k]) & GUARD) == GUARD)
        e = stop
        if n > WAITING - BLOCK:
            if not _verify(segment, n, word, is_term, batch, i, part, owner, number, work):
                return False
            n = 0
    return n == 0 or _verify(segment, n, word, is_term, batch, i, part, owner, number, work)


@step
def touches_shape(rows, row, earth, message, x_min, y_min, x_max, y_max, work):
    """Tell whether a row's circle holds a rectangle of the message; a polygon is noted as pending instead."""
    shape = rows.shape[row]
    if shape < 0:
        return True
    if shape % 2 == 1:
        at = work.tally[PENDING]
        work.pending[at, 0], work.pending[at, 1] = message, row
        work.tally[PENDING] = at + 1
        return False
    circle, c = rows.circle, shape // 2
    return circle_holds(earth[0] == 1, circle[c, 0], circle[c, 1], circle[c, 2], x_min, y_min, x_max, y_max)


@step
def _verify(segment, n, word, is_term, batch, i, part, owner, number, work):
    """Check the waiting entries in full and write the slots of those that hold; False when room ran out.

    An entry of a term without a bit in its signature needs no more than that term and its rectangle.
    """
    rows, tally, found = segment.rows, work.tally, work.found
    if tally[FOUND] + n > found.size or tally[PENDING] + n > work.pending.shape[0]:
        return False
    tally[VERIFIED] += n
    if not tally[MARKED]:
        set_marks(batch, i, work, 1)
    message = batch.order[i]
    x_min, y_min, x_max, y_max = work.parts[part]
    m_first, m_last = batch.term_start[message], batch.term_start[message + 1]
    at = tally[FOUND]
    for k in range(n):
        entry = work.waiting[k]
        row = segment.row[entry]
        slot = rows.slot[row]
        if owner[slot] != number:
            continue
        if ((word - segment.rectangle[entry] - ONE_STEP) & GUARD) != GUARD and not boxes_overlap(
            rows.part, row, x_min, y_min, x_max, y_max
        ):
            continue
        is_all = is_term and segment.signature[entry] == np.uint64(0)
        if is_all or (
            clause_holds(
                rows.code, rows.code_start[row], rows.code_start[row + 1], batch.terms, m_first, m_last, work.has
            )
            and touches_shape(rows, row, segment.earth, message, x_min, y_min, x_max, y_max, work)
        ):
            found[at] = slot
            at += 1
    tally[FOUND] = at
    return True
