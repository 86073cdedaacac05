"""The search of `cells`: for each subscription, the messages that are relevant at one of two places only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.columns import SIMILAR, WITHIN
from nearcast.geo import POLYGON
from nearcast.live.cells.frame import BITS, N_CLASSES, NO_CELL
from nearcast.live.cells.queries import NOWHERE
from nearcast.live.cells.segments import CLASS_FIRST, N_POSITIONS, POSITION
from nearcast.live.cells.triggers import clause_trigger, order_words, reach
from nearcast.live.cells.verify import (
    distance_at,
    has_word,
    holds_any_before,
    holds_clause,
    score_within,
    text_of_message,
    touches_place,
)
from nearcast.live.cells.walk import (
    FEW,
    FEW_SCORED,
    FIRST,
    LAST,
    LEVEL,
    VERY_FEW,
    VERY_FEW_SCORED,
    WalkScratch,
    are_apart,
    first_position,
    holds_cell,
    is_beyond,
    is_cut_otherwise,
    is_one_box,
    is_within,
    may_be_within,
    may_touch,
    parts_touch,
    push,
    push_cells,
    push_children,
    write_cell,
    write_discs,
    write_parts,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bits of `FoundMessages.where`: relevant before, relevant after; of a polygon, that the boxes around it touch.
BEFORE, AFTER = 1, 2
#: Of a walk: what is looked for is relevant at one of the two places, whichever.
EITHER = 0


class FoundMessages(NamedTuple):
    """Messages found, in no order within a row: the row of the query, that of the message, where, and the score.

    The score is that at the one place where a message is relevant.
    """

    query: NDArray[np.int64]
    row: NDArray[np.int64]
    where: NDArray[np.uint8]
    score: NDArray[np.float64]

    @classmethod
    def room_for(cls, n: int) -> FoundMessages:
        """Return columns for n messages."""
        return cls(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.uint8), np.empty(n))

    def first(self, n: int) -> FoundMessages:
        """Return the first n."""
        return FoundMessages(self.query[:n], self.row[:n], self.where[:n], self.score[:n])


class SearchScratch(NamedTuple):
    """Scratch of a search: of a walk, and the words of a scored row with their lists."""

    walk: WalkScratch
    order: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    @classmethod
    def new(cls, most_words: int) -> SearchScratch:
        """Return scratch for rows of up to so many words."""
        return cls(WalkScratch.new(), *(np.empty(most_words + 1, np.int64) for _ in range(3)))


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
    if is_scored:
        n_words = order_words(queries, row, segments, at, scratch.order, scratch.low, scratch.high)
        first_trigger, n_triggers = 0, n_words + 1
    else:
        n_triggers = queries.clause_start[row + 1] - first_trigger
    for trigger in range(first_trigger, first_trigger + n_triggers):
        radius = np.inf
        if is_scored:
            radius = reach(queries, row, scratch.order, trigger, n_words)
            if radius < 0.0:
                break
            if before.kind[row] != NOWHERE:
                # What is farther from both places than anything is near to has the same score at both.
                radius = min(radius, queries.max_distance[row])
            is_all = trigger == n_words
            first = 0 if is_all else scratch.low[trigger]
            last = segments.segment[at, N_POSITIONS] if is_all else scratch.high[trigger]
        else:
            first, last, is_all = clause_trigger(queries, trigger, segments, at)
        for side in range(first_side, last_side + 1):
            n = _walk(
                table, segments, at, first, last, is_all, radius, trigger, side,
                queries, before, after, row, now, is_earth, scratch, n, found,
            )  # fmt: skip
    return n


@inlined
def _walk(
    table, segments, at, first, last, is_all, radius, trigger, side,
    queries, before, after, row, now, is_earth, scratch, n, found,
):  # fmt: skip
    """Go down the cells of one list, class by class, and try the messages that remain.

    With a `side` only what is relevant at that place is looked for.
    """
    stack, walk = scratch.walk.stack, scratch.walk
    few, very_few = FEW, VERY_FEW
    if queries.kind[row] == SIMILAR:
        few, very_few = FEW_SCORED, VERY_FEW_SCORED
    for kind in range(N_CLASSES):
        position = segments.segment[at, CLASS_FIRST + kind + 1]
        end = first_position(segments, is_all, first, last, position)
        depth = 0
        is_cut = end - first > few and kind != NO_CELL
        if is_cut and _has_bounds(queries, before, after, row, radius, side, is_earth, walk):
            depth = push_cells(segments, at, kind, is_all, first, end, walk)
        elif end > first:
            depth = push(stack, 0, 0, 0, 0, 0, first, end)
        first = end
        while depth > 0:
            depth -= 1
            n_left = stack[depth, LAST] - stack[depth, FIRST]
            if kind != NO_CELL and n_left > very_few:
                write_cell(segments, at, kind, stack, depth, is_earth, walk)
                if not _matters(queries, before, after, row, radius, side, is_earth, walk):
                    continue
                if n_left > few and stack[depth, LEVEL] < BITS:
                    depth = push_children(segments, at, kind, is_all, stack, depth)
                    continue
            for i in range(stack[depth, FIRST], stack[depth, LAST]):
                position = i if is_all else segments.posting[i]
                message = np.int64(segments.row[segments.segment[at, POSITION] + position])
                n = _try(
                    table, message, radius, trigger, side,
                    queries, before, after, row, now, is_earth, scratch, n, found,
                )  # fmt: skip
    return n


@inlined
def _has_bounds(queries, before, after, row, radius, side, is_earth, walk):
    """Write a small rectangle around all that can matter, and tell whether there is one."""
    if queries.kind[row] == SIMILAR:
        return write_discs(is_earth, before, after, row, radius, walk.rectangle)
    return write_parts(before, after, row, side, walk.rectangle)


@inlined
def _matters(queries, before, after, row, radius, side, is_earth, walk):
    """Tell whether the cell at hand may hold a message that is relevant at one of the places only, or at that side."""
    if queries.kind[row] == SIMILAR:
        return may_be_within(is_earth, before, row, radius, walk.rectangle) or may_be_within(
            is_earth, after, row, radius, walk.rectangle
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
    table, message, radius, trigger, side, queries, before, after, row, now, is_earth, scratch, n, found,
):  # fmt: skip
    """Test a message that a trigger has found, unless an earlier trigger of the row has it as well."""
    if queries.kind[row] == SIMILAR:
        if not is_earth and _is_out_of_reach(table, message, radius, before, after, row):
            return n
        away, ahead = _distances(table, message, before, after, row, is_earth)
        if not is_within(is_earth, min(away, ahead), radius) or table.expires[message] <= now:
            return n
        for k in range(min(trigger, queries.word_start[row + 1] - queries.word_start[row])):
            if has_word(table, message, queries.word[scratch.order[k]]):
                return n
        return _try_score(table, message, away, ahead, queries, before, row, n, found)
    where = touched(table, message, before, after, row, side, is_earth, scratch.walk.place)
    if where == 0 or table.expires[message] <= now:
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
        away, ahead = _distances(table, message, before, after, row, is_earth)
        return _try_score(table, message, away, ahead, queries, before, row, n, found)
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


@inlined
def _is_out_of_reach(table, message, radius, before, after, row):
    """Tell whether a message on a plane lies beyond the radius of both places of a scored row."""
    box = table.box
    for places in (before, after):
        at = places.part_start[row]
        if places.kind[row] != NOWHERE and not is_beyond(
            places.part[at, 0],
            places.part[at, 1],
            radius,
            box[message, 0],
            box[message, 1],
            box[message, 2],
            box[message, 3],
        ):
            return False
    return True


@inlined
def _distances(table, message, before, after, row, is_earth):
    """Return how far a message is from the two places of a scored row, infinite from nowhere."""
    away = np.inf
    if before.kind[row] != NOWHERE:
        away = distance_at(is_earth, before, row, table, message)
    return away, distance_at(is_earth, after, row, table, message)


@inlined
def _try_score(table, message, away, ahead, queries, before, row, n, found):
    """Score a message at both distances, and note it where it reaches the threshold at one of them only."""
    text = text_of_message(queries, row, table, message)
    here, was = 0.0, before.kind[row] != NOWHERE
    if was:
        here = score_within(queries, row, text, away)
        was = here >= queries.threshold[row]
    there = score_within(queries, row, text, ahead)
    now_is = there >= queries.threshold[row]
    if was == now_is:
        return n
    return note(row, message, AFTER if now_is else BEFORE, there if now_is else here, n, found)


@inlined
def note(row, message, where, score, n, found):
    """Write what was found, if there is room; return how many there are."""
    if n < found.row.size:
        found.query[n], found.row[n], found.where[n], found.score[n] = row, message, where, score
    return n + 1
