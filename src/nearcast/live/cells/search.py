"""The search of `cells`: for each subscription, the messages that are relevant at one of two places only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined, prefetch
from nearcast.columns import SIMILAR, WITHIN
from nearcast.geo import BOX, POLYGON
from nearcast.live.cells.found import AFTER, BEFORE, note
from nearcast.live.cells.frame import BITS, N_CLASSES, NO_CELL, UNSURE, write_finest_cell
from nearcast.live.cells.queries import NOWHERE
from nearcast.live.cells.scored import is_cell_settled, is_settled, is_sure_of, try_found, try_score
from nearcast.live.cells.segments import CLASS_FIRST, POSITION, WORDS_OF_LINE, all_postings, postings_of
from nearcast.live.cells.triggers import clause_trigger, order_words, reach, sure_reach
from nearcast.live.cells.verify import holds_any_before, holds_clause, touches_place
from nearcast.live.cells.walk import (
    EITHER,
    FEW,
    FEW_BY_KEY,
    FEW_SCORED,
    FIRST,
    LAST,
    LEVEL,
    VERY_FEW,
    VERY_FEW_BY_KEY,
    VERY_FEW_SCORED,
    WalkScratch,
    are_apart,
    end_of_class,
    holds_cell,
    is_cut_otherwise,
    is_one_box,
    may_be_within,
    may_touch,
    parts_touch,
    push,
    push_cells,
    push_children,
    where_by_key,
    write_cell,
    write_discs,
    write_parts,
    write_windows,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


#: So many messages at most wait until they are tested together.
_WAITING = 256


class SearchScratch(NamedTuple):
    """Scratch of a search: of a walk, the words of a scored row with their lists, and the messages that wait.

    These wait as positions, then as rows of the table.
    """

    walk: WalkScratch
    order: NDArray[np.int64]
    number: NDArray[np.int64]
    length: NDArray[np.int64]
    waiting: NDArray[np.int64]
    where: NDArray[np.int64]

    @classmethod
    def new(cls, most_words: int) -> SearchScratch:
        """Return scratch for rows of up to so many words."""
        words = (np.empty(most_words + 1, np.int64) for _ in range(3))
        return cls(WalkScratch.new(), *words, *(np.empty(_WAITING, np.int64) for _ in range(2)))


@hot_kernel
def search_rows(table, segments, tail, queries, before, after, dropped, is_earth, order, next_row, scratch, found):
    """Find the messages of the rows `order[next_row:]`; return (next row in order, how many were found).

    It stops before a row that `found` has no room for. `tail` is (first, last) of the rows in no segment. Messages
    with `expires` <= `dropped` do not count.
    """
    n = 0
    for i in range(next_row, order.size):
        row = order[i]
        if queries.kind[row] == WITHIN or queries.kind[row] == SIMILAR:
            now = max(queries.now[row], dropped)
            n_before = n
            for at in range(segments.segment.shape[0]):
                n = _search_segment(table, segments, at, queries, before, after, row, now, is_earth, scratch, n, found)
            for message in range(tail[0], tail[1]):
                n = try_message(table, message, queries, before, after, row, now, is_earth, scratch.walk, n, found)
            if n > found.row.size:
                return i, n_before
    return order.size, n


@inlined
def _search_segment(table, segments, at, queries, before, after, row, now, is_earth, scratch, n, found):
    """Find the messages of one segment; return how many there are by now, which may be more than there is room for."""
    is_scored = queries.kind[row] == SIMILAR
    # Regions that lie apart have nothing in common: each is walked by itself, from a small cell on.
    first_side, last_side = EITHER, EITHER
    if not is_scored and are_apart(before, after, row):
        first_side, last_side = BEFORE, AFTER
    first_trigger, n_triggers, n_words = queries.clause_start[row], 0, 0
    if not is_scored and segments.segment[at, CLASS_FIRST + 1] > 0:  # there are points
        write_windows(segments, at, before, after, row, scratch.walk)
    if is_scored:
        n_words = order_words(queries, row, segments, at, scratch.order, scratch.number, scratch.length)
        first_trigger, n_triggers = 0, n_words + 1
    else:
        n_triggers = queries.clause_start[row + 1] - first_trigger
    for trigger in range(first_trigger, first_trigger + n_triggers):
        radius, sure = np.inf, -1.0
        if is_scored:
            radius = reach(queries, row, scratch.order, trigger, n_words)
            if radius < 0.0:
                break
            if before.kind[row] != NOWHERE:
                # What is farther from both places than anything is near to has the same score at both.
                radius = min(radius, queries.max_distance[row])
                sure = sure_reach(queries, row, scratch.order, trigger, n_words, is_earth)
                if sure == np.inf:
                    continue  # whatever has the word is relevant wherever it lies
            if trigger == n_words:
                postings = all_postings(segments, at)
            else:
                postings = postings_of(segments, at, scratch.number[trigger])
        else:
            postings = clause_trigger(queries, trigger, segments, at)
        for side in range(first_side, last_side + 1):
            n = _walk(
                table, segments, at, postings, radius, sure, trigger, n_words, side,
                queries, before, after, row, now, is_earth, scratch, n, found,
            )  # fmt: skip
    return n


@inlined
def _walk(
    table, segments, at, postings, radius, sure, trigger, n_words, side,
    queries, before, after, row, now, is_earth, scratch, n, found,
):  # fmt: skip
    """Go down the cells of one list, class by class, and try the messages that remain.

    With a `side` only what is relevant at that place is looked for.
    """
    stack, walk = scratch.walk.stack, scratch.walk
    few, very_few = _few(queries, after, row)
    first = postings.first
    for kind in range(N_CLASSES):
        # Keys lie side by side for messages that do; the columns of the table do not.
        is_by_key = kind == 0 and not (queries.kind[row] == SIMILAR and is_earth)
        end = end_of_class(segments, at, kind, postings, first)
        depth = 0
        is_cut = end - first > few and kind != NO_CELL
        if is_cut and _has_bounds(queries, before, after, row, radius, side, is_earth, walk):
            depth = push_cells(segments, at, kind, postings, first, end, walk)
        elif end > first:
            depth = push(stack, 0, 0, 0, 0, 0, first, end)
        first, n_waiting = end, 0
        while depth > 0 or n_waiting > 0:
            n_left = stack[depth - 1, LAST] - stack[depth - 1, FIRST] if depth > 0 else _WAITING
            if n_waiting > 0 and n_waiting + n_left > _WAITING:
                n = _try_waiting(
                    table, segments, at, n_waiting, is_by_key, radius, sure, trigger, n_words, side,
                    queries, before, after, row, now, is_earth, scratch, n, found,
                )  # fmt: skip
                n_waiting = 0
                continue
            depth -= 1
            if kind != NO_CELL and n_left > very_few:
                write_cell(segments, at, kind, stack, depth, is_earth, walk)
                if not _matters(queries, before, after, row, radius, sure, side, is_earth, walk):
                    continue
                if n_left > few and stack[depth, LEVEL] < BITS:
                    depth = push_children(segments, at, kind, postings, stack, depth)
                    continue
            begin = stack[depth, FIRST]
            upto = min(begin + _WAITING, stack[depth, LAST])
            n_waiting = _let_wait(segments, at, postings, begin, upto, is_by_key, n_waiting, scratch.waiting)
            if upto < stack[depth, LAST]:  # the rest of what is not divided any more
                stack[depth, FIRST] = upto
                depth += 1
    return n


@inlined
def _few(queries, after, row):
    """Return up to how many postings of a cell it is not divided further, and not even compared with the regions."""
    if queries.kind[row] == SIMILAR:
        return FEW_SCORED, VERY_FEW_SCORED
    return (FEW_BY_KEY, VERY_FEW_BY_KEY) if after.kind[row] == BOX else (FEW, VERY_FEW)


@inlined
def _let_wait(segments, at, postings, begin, end, is_by_key, n_waiting, waiting):
    """Let the messages of some postings wait, and ask for what is read of them first; return how many wait."""
    for i in range(begin, end):
        position = segments.segment[at, POSITION] + (i if postings.is_all else segments.posting[i])
        waiting[n_waiting] = position
        if is_by_key:
            prefetch(segments.key, position)
        n_waiting += 1
    return n_waiting


@inlined
def _try_waiting(
    table, segments, at, n_waiting, is_by_key, radius, sure, trigger, n_words, side,
    queries, before, after, row, now, is_earth, scratch, n, found,
):  # fmt: skip
    """Test the messages that wait, all of them at each step: what the next one reads is asked for in the one before."""
    waiting, n_left = scratch.waiting, 0
    is_scored = queries.kind[row] == SIMILAR
    reads_words = is_scored or queries.code_start[trigger + 1] - queries.code_start[trigger] != 1
    for i in range(n_waiting):
        position, where = waiting[i], UNSURE
        if is_by_key and not is_scored:
            where = where_by_key(scratch.walk.window, segments.key[position], side)
        elif is_by_key:
            write_finest_cell(segments.frame, at, segments.key[position], scratch.walk.cell)
            where = 0 if is_cell_settled(scratch.walk.cell, radius, sure, before, after, row) else UNSURE
        waiting[n_left], scratch.where[n_left] = position, where
        if where != 0:
            prefetch(segments.row, position)
            n_left += 1
    for i in range(n_left):
        message = np.int64(segments.row[waiting[i]])
        waiting[i] = message
        prefetch(table.expires, message)
        if scratch.where[i] == UNSURE:
            prefetch(table.box, 4 * message)
        if reads_words:
            prefetch(table.term_start, message)
    n_waiting, n_left = n_left, 0
    for i in range(n_waiting):
        message = waiting[i]
        waiting[n_left], scratch.where[n_left] = message, scratch.where[i]
        is_over = table.expires[message] <= now
        if is_over or (is_scored and is_settled(table, message, radius, sure, before, after, row, is_earth)):
            continue
        if reads_words:
            prefetch(table.term, table.term_start[message])
            prefetch(table.term, table.term_start[message] + WORDS_OF_LINE)
        n_left += 1
    for i in range(n_left):
        n = _try(
            table, waiting[i], scratch.where[i], radius, sure, trigger, n_words, side,
            queries, before, after, row, is_earth, scratch, n, found,
        )  # fmt: skip
    return n


@inlined
def _has_bounds(queries, before, after, row, radius, side, is_earth, walk):
    """Write a small rectangle around all that can matter, and tell whether there is one."""
    if queries.kind[row] == SIMILAR:
        return write_discs(is_earth, before, after, row, radius, walk.rectangle)
    return write_parts(before, after, row, side, walk.rectangle)


@inlined
def _matters(queries, before, after, row, radius, sure, side, is_earth, walk):
    """Tell whether the cell at hand may hold a message that is relevant at one of the places only, or at that side."""
    if queries.kind[row] == SIMILAR:
        is_near = may_be_within(is_earth, before, row, radius, walk.rectangle)
        if not is_near and not may_be_within(is_earth, after, row, radius, walk.rectangle):
            return False
        return not (
            is_sure_of(is_earth, before, row, sure, walk.cell) and is_sure_of(is_earth, after, row, sure, walk.cell)
        )
    if side != EITHER:
        return _touches(is_earth, before, row, walk) if side == BEFORE else _touches(is_earth, after, row, walk)
    if is_one_box(before, row) and is_one_box(after, row):
        return is_cut_otherwise(before, after, row, walk.rectangle)
    if not (_touches(is_earth, before, row, walk) or _touches(is_earth, after, row, walk)):
        return False
    return not (holds_cell(is_earth, before, row, walk.cell) and holds_cell(is_earth, after, row, walk.cell))


@inlined
def _touches(is_earth, places, row, walk):
    """Tell whether a region may touch a message of the cell at hand; on the earth, whether the boxes around it do.

    To measure how far a cell is on the earth takes longer than to look at what it holds.
    """
    return parts_touch(places, row, walk.rectangle) if is_earth else may_touch(is_earth, places, row, walk.rectangle)


@inlined
def _try(
    table, message, where, radius, sure, trigger, n_words, side,
    queries, before, after, row, is_earth, scratch, n, found,
):  # fmt: skip
    """Test a live message that a trigger has found, unless an earlier trigger of the row has it as well.

    Its key may have told already `where` it is touched.
    """
    if queries.kind[row] == SIMILAR:
        return try_found(
            table, message, radius, sure, trigger, n_words,
            queries, before, after, row, is_earth, scratch.order, n, found,
        )  # fmt: skip
    if where == UNSURE:
        where = touched(table, message, before, after, row, side, is_earth, scratch.walk.place)
    if where == 0:
        return n
    first, last = queries.code_start[trigger], queries.code_start[trigger + 1]
    # A clause of one word has it by its list.
    if last - first != 1 and not holds_clause(queries.code, first, last, table, message):
        return n
    if holds_any_before(queries, row, trigger, table, message):
        return n
    return note(row, message, where, 1.0, n, found)


@inlined
def try_message(table, message, queries, before, after, row, now, is_earth, walk, n, found):
    """Test a message of which nothing is known, such as one in no segment."""
    if table.expires[message] <= now:
        return n
    if queries.kind[row] == SIMILAR:
        return try_score(table, message, queries, before, after, row, is_earth, n, found)
    where = touched(table, message, before, after, row, EITHER, is_earth, walk.place)
    if where == 0 or not holds_any_before(queries, row, queries.clause_start[row + 1], table, message):
        return n
    return note(row, message, where, 1.0, n, found)


@inlined
def touched(table, message, before, after, row, side, is_earth, place):
    """Return at which places a region touches a message, 0 also where it does so at both: nothing changes then.

    With a `side`, 0 also where it does not touch it there. A polygon at both may still be told apart by its edges.
    """
    where = 0
    if touches_place(is_earth, before, row, table, message, place):
        where |= BEFORE
    if side != EITHER and (where == BEFORE) != (side == BEFORE):
        return 0
    if touches_place(is_earth, after, row, table, message, place):
        where |= AFTER
    if where == BEFORE | AFTER and before.kind[row] != POLYGON and after.kind[row] != POLYGON:
        return 0
    return where
