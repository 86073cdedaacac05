"""The search for mobile rows: the lists of a message's terms in its cells, filtered and verified as in a segment."""

from __future__ import annotations

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.shared.predicates import boxes_overlap, clause_holds, message_parts
from nearcast.indexes.trigger.mobile.lists import COUNT, FIRST, NONE, list_of
from nearcast.indexes.trigger.places import EVERYWHERE, GUARD, ONE_STEP, cell_of, cells_of, message_word
from nearcast.indexes.trigger.reach import WILDCARD
from nearcast.indexes.trigger.scratch import (
    FOUND,
    LOOKED_AT,
    MARKED,
    VERIFIED,
    WAITING,
    end_message,
    set_marks,
    tally_now,
)
from nearcast.indexes.trigger.search import touches_shape
from nearcast.indexes.trigger.segment import MOST_CELLS

#: Entries that are filtered between two looks at how many wait.
_STRETCH = WAITING // 2


@hot_kernel
def search_mobile(rows, batch, first, last, scratch, start):
    """Search messages `batch.order[first:last]`, as `search_segment` does; all rows there are count."""
    start[first] = scratch.tally[FOUND]
    for i in range(first, last):
        before = tally_now(scratch)
        fits = True
        for part in range(message_parts(batch.box, batch.order[i], scratch.parts)):
            fits = fits and _search_part(rows, batch, i, part, scratch)
        if not end_message(batch, i, fits, before, scratch, start):
            return i
    return last


@inlined
def _search_part(rows, batch, i, part, scratch):
    """Search every cell one rectangle of a message touches."""
    x_min, y_min, x_max, y_max = scratch.parts[part]
    n_cells = 1
    if x_min == x_max and y_min == y_max:
        scratch.cells[0] = cell_of(rows.places, x_min, y_min)
    else:
        n_cells = cells_of(rows.places, x_min, y_min, x_max, y_max, scratch.stack, scratch.cells)
    fits = _search_cell(rows, EVERYWHERE, batch, i, part, scratch)
    for c in range(n_cells):
        fits = fits and _search_cell(rows, scratch.cells[c], batch, i, part, scratch)
    return fits


@inlined
def _search_cell(rows, cell, batch, i, part, scratch):
    """Look up the wildcard and each term of the message in one cell."""
    x_min, y_min, x_max, y_max = scratch.parts[part]
    word = message_word(rows.places, cell, x_min, y_min, x_max, y_max)
    for j in range(batch.distinct_start[i] - 1, batch.distinct_start[i + 1]):
        term = WILDCARD if j < batch.distinct_start[i] else batch.distinct[j]
        each = list_of(rows.lists, term, cell)
        if each != NONE and not _search_list(rows, each, word, term != WILDCARD, batch, i, part, scratch):
            return False
    return True


@inlined
def _search_list(rows, each, word, is_term, batch, i, part, scratch):
    """Filter one list of entries, of a term or the wildcard, by signature and rectangle and verify what is left."""
    lists, waiting, n = rows.lists, scratch.waiting, 0
    other = ~batch.bits[i]
    e = np.int64(lists.head[each, FIRST])
    last = e + lists.head[each, COUNT]
    scratch.tally[LOOKED_AT] += last - e
    while e < last:
        stop = min(last, e + _STRETCH)
        # Each entry is written and the cursor moves only on a hit: no branch to mispredict.
        for k in range(e, stop):
            waiting[n] = k
            n += ((lists.signature[k] & other) == np.uint64(0)) & (((word - lists.rectangle[k]) & GUARD) == GUARD)
        e = stop
        if n >= WAITING - _STRETCH:
            if not _verify(rows, n, word, is_term, batch, i, part, scratch):
                return False
            n = 0
    return n == 0 or _verify(rows, n, word, is_term, batch, i, part, scratch)


@inlined
def _verify(rows, n, word, is_term, batch, i, part, scratch):
    """Check the waiting entries in full and write the slots of those that hold; False when room ran out."""
    lists, tally, found = rows.lists, scratch.tally, scratch.found
    if tally[FOUND] + n > found.size:
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
        row = lists.link[entry] // MOST_CELLS
        if ((word - lists.rectangle[entry] - ONE_STEP) & GUARD) != GUARD and not boxes_overlap(
            rows.part, row, x_min, y_min, x_max, y_max
        ):
            continue
        is_all = is_term and lists.signature[entry] == np.uint64(0)
        if is_all or (
            clause_holds(
                rows.code, rows.code_first[row], rows.code_last[row], batch.terms, m_first, m_last, scratch.has
            )
            and touches_shape(rows, row, rows.earth, message, x_min, y_min, x_max, y_max, scratch)
        ):
            found[at] = rows.slot[row]
            at += 1
    tally[FOUND] = at
    return True
