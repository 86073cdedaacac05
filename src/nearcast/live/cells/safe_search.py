"""The safe distance of a subscription: branch and bound over the cells of its lists, the most promising cell first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.geo import CIRCLE
from nearcast.live.cells.frame import BITS, N_CLASSES, NO_CELL
from nearcast.live.cells.segments import POSITION
from nearcast.live.cells.triggers import clause_trigger
from nearcast.live.cells.verify import holds_any_before
from nearcast.live.cells.walk import (
    FEW,
    FIRST,
    LAST,
    LEVEL,
    WalkScratch,
    end_of_class,
    farthest,
    holds_cell,
    may_touch,
    push,
    push_children,
    write_cell,
)
from nearcast.live.safe import change_distance, inner_change

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SafeScratch(NamedTuple):
    """Scratch of a search: that of a walk, and a lower bound for each cell on its stack."""

    walk: WalkScratch
    bound: NDArray[np.float64]

    @classmethod
    def new(cls) -> SafeScratch:
        """Return scratch for one thread."""
        walk = WalkScratch.new()
        return cls(walk, np.empty(len(walk.stack)))


@hot_kernel
def search_safe(table, segments, tail, queries, places, dropped, is_earth, scratch, safe):
    """Lower `safe` of every row, unless it is 0, to the least distance at which a message with its words changes."""
    for row in range(queries.kind.size):
        if safe[row] == 0.0:
            continue
        now, best = max(queries.now[row], dropped), safe[row]
        for message in range(tail[0], tail[1]):
            best = _tried(table, message, queries, places, row, now, is_earth, best)
        for at in range(segments.segment.shape[0]):
            for clause in range(queries.clause_start[row], queries.clause_start[row + 1]):
                postings = clause_trigger(queries, clause, segments, at)
                best = _walk_list(table, segments, at, postings, queries, places, row, now, is_earth, scratch, best)
        safe[row] = best


@inlined
def _tried(table, message, queries, places, row, now, is_earth, best):
    """Return the lesser of `best` and the distance at which one message changes, if it has the words."""
    if table.expires[message] <= now:
        return best
    distance = change_distance(
        is_earth, places.kind, places.part_start, places.part, places.shape, places.circle, row, table.box, message
    )
    if distance >= best or not holds_any_before(queries, row, queries.clause_start[row + 1], table, message):
        return best
    return distance


@inlined
def _walk_list(table, segments, at, postings, queries, places, row, now, is_earth, scratch, best):
    """Go down the cells of one list, class by class; return the least distance found, or `best`."""
    stack, first = scratch.walk.stack, postings.first
    for kind in range(N_CLASSES):
        end = end_of_class(segments, at, kind, postings, first)
        depth = 0
        if end > first:
            depth = push(stack, 0, 0, 0, 0, 0, first, end)
            scratch.bound[0] = 0.0
        first = end
        while depth > 0:
            depth -= 1
            if scratch.bound[depth] >= best:
                continue
            is_few = stack[depth, LAST] - stack[depth, FIRST] <= FEW
            if kind != NO_CELL and not is_few and stack[depth, LEVEL] < BITS:
                depth = _branch(segments, at, postings, kind, places, row, is_earth, scratch, depth)
                continue
            for i in range(stack[depth, FIRST], stack[depth, LAST]):
                position = i if postings.is_all else segments.posting[i]
                message = np.int64(segments.row[segments.segment[at, POSITION] + position])
                best = _tried(table, message, queries, places, row, now, is_earth, best)
    return best


@inlined
def _branch(segments, at, postings, kind, places, row, is_earth, scratch, depth):
    """Replace the topmost cell by its parts, that of the least bound on top; return the depth."""
    stack, bound = scratch.walk.stack, scratch.bound
    top = push_children(segments, at, kind, postings, stack, depth)
    for i in range(depth, top):
        write_cell(segments, at, kind, stack, i, is_earth, scratch.walk)
        bound[i] = _least_change(is_earth, places, row, scratch.walk)
        k = i
        while k > depth and bound[k - 1] < bound[k]:
            bound[k - 1], bound[k] = bound[k], bound[k - 1]
            for c in range(stack.shape[1]):
                stack[k - 1, c], stack[k, c] = stack[k, c], stack[k - 1, c]
            k -= 1
    return top


@inlined
def _least_change(is_earth, places, row, walk):
    """Return a distance within which no message of the cell at hand comes to touch the region, or leaves it."""
    cell, part = walk.cell, places.part
    if not may_touch(is_earth, places, row, walk.rectangle):
        for k in range(4):
            walk.place[0, k] = walk.rectangle[k]
        return change_distance(
            is_earth, places.kind, places.part_start, part, places.shape, places.circle, row, walk.place, 0
        )
    if not holds_cell(is_earth, places, row, cell):
        return 0.0
    if places.kind[row] == CIRCLE:
        at = places.shape[row]
        return max(places.circle[at, 2] - farthest(is_earth, places.circle[at, 0], places.circle[at, 1], cell), 0.0)
    for p in range(places.part_start[row], places.part_start[row + 1]):
        if part[p, 0] <= cell[0] and part[p, 2] >= cell[2]:
            return inner_change(is_earth, part[p, 0], part[p, 1], part[p, 2], part[p, 3], cell)
    return 0.0
