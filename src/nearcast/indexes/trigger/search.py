"""The search for boolean rows of a segment: term lists of the cells that a message touches, filtered and verified."""

from __future__ import annotations

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.geo import circle_holds
from nearcast.indexes.shared.predicates import boxes_overlap, clause_holds, message_parts
from nearcast.indexes.trigger.places import EVERYWHERE, GUARD, ONE_STEP, cell_of, cells_of, message_word
from nearcast.indexes.trigger.reach import WILDCARD
from nearcast.indexes.trigger.scratch import (
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
from nearcast.indexes.trigger.segment import BLOCK
from nearcast.indexes.trigger.sieve import lets_through
from nearcast.indexes.trigger.tables import find_list


@hot_kernel
def search_segment(segment, sieve, batch, first, last, owner, number, scratch, start):
    """Search messages `batch.order[first:last]`; return the first one left undone because room ran out.

    Slots found for the i-th of them are `scratch.found[start[i]:start[i + 1]]`, unsorted, possibly repeated. A row
    counts only while `owner[slot] == number`, that is, while this segment holds the slot's present version.
    """
    start[first] = scratch.tally[FOUND]
    for i in range(first, last):
        before = tally_now(scratch)
        fits = True
        for part in range(message_parts(batch.box, batch.order[i], scratch.parts)):
            fits = fits and _search_part(segment, sieve, batch, i, part, owner, number, scratch)
        if not end_message(batch, i, fits, before, scratch, start):
            return i
    return last


@inlined
def _search_part(segment, sieve, batch, i, part, owner, number, scratch):
    """Search every cell one rectangle of a message touches."""
    x_min, y_min, x_max, y_max = scratch.parts[part]
    n_cells = 1
    if x_min == x_max and y_min == y_max:
        scratch.cells[0] = cell_of(segment.places, x_min, y_min)
    else:
        n_cells = cells_of(segment.places, x_min, y_min, x_max, y_max, scratch.stack, scratch.cells)
    everywhere = message_word(segment.places, EVERYWHERE, x_min, y_min, x_max, y_max)
    fits = _search_cell(segment, sieve, everywhere, EVERYWHERE, batch, i, part, owner, number, scratch)
    for c in range(n_cells):
        cell = scratch.cells[c]
        fits = fits and _search_cell(segment, sieve, everywhere, cell, batch, i, part, owner, number, scratch)
    return fits


@inlined
def _search_cell(segment, sieve, everywhere, cell, batch, i, part, owner, number, scratch):
    """Look up the wildcard and each term of the message in one cell, unless the sieve rules it out."""
    if segment.table_start[cell + 1] - segment.table_start[cell] <= 1:
        return True
    x_min, y_min, x_max, y_max = scratch.parts[part]
    word = message_word(segment.places, cell, x_min, y_min, x_max, y_max)
    for j in range(batch.distinct_start[i] - 1, batch.distinct_start[i + 1]):
        term = WILDCARD if j < batch.distinct_start[i] else batch.distinct[j]
        if not lets_through(sieve, term, everywhere):
            continue
        at = find_list(segment.table_start, segment.table, cell, term)
        if segment.table[at, 0] != term:
            continue
        first, last = segment.table[at, 1], segment.table[at, 2]
        if not _search_list(segment, first, last, word, term != WILDCARD, batch, i, part, owner, number, scratch):
            return False
    return True


@inlined
def _search_list(segment, first, last, word, is_term, batch, i, part, owner, number, scratch):
    """Filter one list of entries, of a term or the wildcard, by signature and rectangle and verify what is left."""
    waiting, n, e = scratch.waiting, 0, first
    other = ~batch.bits[i]
    while e < last:
        stop = min(last, (e // BLOCK + 1) * BLOCK)
        if stop - e == BLOCK and ((word - segment.block[e // BLOCK]) & GUARD) != GUARD:
            scratch.tally[LOOKED_AT] += 1
            e = stop
            continue
        scratch.tally[LOOKED_AT] += stop - e
        # Each entry is written and the cursor moves only on a hit: no branch to mispredict.
        for k in range(e, stop):
            waiting[n] = k
            n += ((segment.signature[k] & other) == np.uint64(0)) & (((word - segment.rectangle[k]) & GUARD) == GUARD)
        e = stop
        if n > WAITING - BLOCK:
            if not _verify(segment, n, word, is_term, batch, i, part, owner, number, scratch):
                return False
            n = 0
    return n == 0 or _verify(segment, n, word, is_term, batch, i, part, owner, number, scratch)


@inlined
def touches_shape(rows, row, earth, message, x_min, y_min, x_max, y_max, scratch):
    """Tell whether a row's circle holds a rectangle of the message; a polygon is noted as pending instead."""
    shape = rows.shape[row]
    if shape < 0:
        return True
    if shape % 2 == 1:
        at = scratch.tally[PENDING]
        scratch.pending[at, 0], scratch.pending[at, 1] = message, row
        scratch.tally[PENDING] = at + 1
        return False
    circle, c = rows.circle, shape // 2
    return circle_holds(earth[0] == 1, circle[c, 0], circle[c, 1], circle[c, 2], x_min, y_min, x_max, y_max)


@inlined
def _verify(segment, n, word, is_term, batch, i, part, owner, number, scratch):
    """Check the waiting entries in full and write the slots of those that hold; False when room ran out.

    An entry of a term without a bit in its signature needs no more than that term and its rectangle.
    """
    rows, tally, found = segment.rows, scratch.tally, scratch.found
    if tally[FOUND] + n > found.size or tally[PENDING] + n > scratch.pending.shape[0]:
        return False
    tally[VERIFIED] += n
    if not tally[MARKED]:
        set_marks(batch, i, scratch, 1)
    message = batch.order[i]
    x_min, y_min, x_max, y_max = scratch.parts[part]
    m_first, m_last = batch.term_start[message], batch.term_start[message + 1]
    at = tally[FOUND]
    for k in range(n):
        entry = scratch.waiting[k]
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
                rows.code, rows.code_start[row], rows.code_start[row + 1], batch.terms, m_first, m_last, scratch.has
            )
            and touches_shape(rows, row, segment.earth, message, x_min, y_min, x_max, y_max, scratch)
        ):
            found[at] = slot
            at += 1
    tally[FOUND] = at
    return True
