"""The walk of a subscription that moves, down an AP+-Tree: which messages may begin or cease to match (Algorithm 6).

One descent follows the words of a clause, and the old and the new rectangle at once. In every cell it tells the four
cases apart: both rectangles cut the cell alike, only the old one cuts it, both do but otherwise, only the new one does.
Cells of the first case are left out with all that is below them. So the leaves of the old place need not be known by a
list for each subscription, which every split and rebuild would have to rewrite, and every list on the way, that of an
inner node too, is read once.

What is found are candidates: whoever asks verifies them with the whole regions. Rectangles around circles and polygons
say nothing of what is inside, so for these no cell is of the first case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.columns import WITHIN
from nearcast.geo import ANYWHERE, BOX
from nearcast.indexes.papers.ap_plus_tree.filing import LEAST, ROUNDING, copy_member
from nearcast.indexes.papers.ap_plus_tree.layout import COUNT_HELD, FIRST_HELD, NO_RANK
from nearcast.indexes.papers.ap_tree.layout import (
    AUX,
    COUNT,
    FIRST,
    KEYWORD,
    KIND,
    LEAF,
    NO_CHILD,
    ROOM,
    ROOT,
    cut_index,
    line_index,
    offset_of,
)
from nearcast.indexes.papers.ap_tree.order import insert_ascending

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The four cases of Algorithm 6. They are places in a tally of cells, which also has the candidates that were read.
CUT_ALIKE, ONLY_OLD, CUT_OTHERWISE, ONLY_NEW, READ = range(5)
#: A cell that neither rectangle touches.
NEITHER = -1
#: Rows of rectangles: those of a move, and the one around both.
OLD, NEW, AROUND = range(3)


class TreeWalkScratch(NamedTuple):
    """Scratch arrays for one clause: the ranks of its words, its rectangles, the stack of lists with their cells.

    `cell` is the one under consideration; `span` are the columns and rows that each rectangle touches.
    """

    rank: NDArray[np.int32]
    rectangle: NDArray[np.float64]
    stack: NDArray[np.int64]
    bounds: NDArray[np.float64]
    cell: NDArray[np.float64]
    span: NDArray[np.int64]

    @classmethod
    def new(cls, most_words: int, n_slots: int) -> TreeWalkScratch:
        """Return scratch for clauses of so many words in a tree of so many slots."""
        return cls(
            rank=np.empty(most_words + 1, np.int32),
            rectangle=np.empty((3, 4)),
            stack=np.empty(n_slots + 1, np.int64),
            bounds=np.empty((n_slots + 1, 4)),
            cell=np.empty(4),
            span=np.empty((2, 4), np.int64),
        )


class CandidateMessages(NamedTuple):
    """Pairs of a query and a message that may change: rows of the queries, and of the table of messages.

    `tally` counts the cells of each of the four cases, and the candidates, repeats included.
    """

    query: NDArray[np.int64]
    row: NDArray[np.int64]
    tally: NDArray[np.int64]


@hot_kernel
def find_candidates(tree, lists, table, rank_of_word, queries, before, after, dropped, first, scratch, found):
    """Find candidates for the queries of kind `within` from `first` on; return (next query, how many were found).

    It stops before a query that `found` has no room for. Candidates with `expires` <= `dropped` are taken out of their
    lists instead; others go when their list is full.
    """
    n = 0
    for query in range(first, queries.kind.size):
        n_before = n
        if queries.kind[query] == WITHIN:
            for clause in range(queries.clause_start[query], queries.clause_start[query + 1]):
                n_words = _write_words(queries, clause, rank_of_word, scratch.rank)
                if n_words >= 0:
                    n = _walk_parts(tree, lists, table, query, n_words, before, after, dropped, scratch, found, n)
        if n > found.row.size:
            return query, n_before
    return queries.kind.size, n


@inlined
def _write_words(queries, clause, rank_of_word, ranks):
    """Write the ranks of the words that a clause needs, ascending; return how many, or -1 if no message has one."""
    n = 0
    for i in range(queries.code_start[clause], queries.code_start[clause + 1]):
        word = queries.code[i]
        if word < 0:
            break
        if word >= rank_of_word.size:
            return -1
        insert_ascending(ranks, 0, n, rank_of_word[word])
        n += 1
    return n


@inlined
def _walk_parts(tree, lists, table, query, n_words, before, after, dropped, scratch, found, n):
    """Walk with the old and the new rectangle at once, or with each by itself where a region has several."""
    n_old = before.part_start[query + 1] - before.part_start[query]
    n_new = after.part_start[query + 1] - after.part_start[query]
    if n_old == 1 and n_new == 1:
        write_rectangle(before, before.part_start[query], scratch.rectangle, OLD)
        write_rectangle(after, after.part_start[query], scratch.rectangle, NEW)
        skips_alike = is_its_box(before, query) and is_its_box(after, query)
        return _walk(tree, lists, table, query, n_words, skips_alike, dropped, scratch, found, n)
    for part in range(before.part_start[query], before.part_start[query + 1]):
        write_rectangle(before, part, scratch.rectangle, OLD)
        write_nowhere(scratch.rectangle, NEW)
        n = _walk(tree, lists, table, query, n_words, False, dropped, scratch, found, n)
    for part in range(after.part_start[query], after.part_start[query + 1]):
        write_nowhere(scratch.rectangle, OLD)
        write_rectangle(after, part, scratch.rectangle, NEW)
        n = _walk(tree, lists, table, query, n_words, False, dropped, scratch, found, n)
    return n


@inlined
def is_its_box(places, query):
    """Tell whether a region is the rectangle around it."""
    return places.kind[query] == BOX or places.kind[query] == ANYWHERE


@inlined
def write_rectangle(places, part, rectangle, which):
    """Write a part of a region as the old or the new rectangle."""
    for k in range(4):
        rectangle[which, k] = places.part[part, k]


@inlined
def write_nowhere(rectangle, which):
    """Write a rectangle that touches nothing."""
    for k in range(2):
        rectangle[which, k], rectangle[which, k + 2] = np.inf, -np.inf


@inlined
def write_around(rectangle):
    """Write the rectangle around the old and the new one."""
    for k in range(2):
        rectangle[AROUND, k] = min(rectangle[OLD, k], rectangle[NEW, k])
        rectangle[AROUND, k + 2] = max(rectangle[OLD, k + 2], rectangle[NEW, k + 2])


@inlined
def _walk(tree, lists, table, query, n_words, skips_alike, dropped, scratch, found, n):
    """Read the lists that the words of a clause and two rectangles lead to; return how many candidates there are."""
    stack, bounds, cell = scratch.stack, scratch.bounds, scratch.cell
    stack[0], depth = 0, 1
    write_around(scratch.rectangle)
    for k in range(2):
        bounds[0, k], bounds[0, k + 2] = -np.inf, np.inf
        cell[k], cell[k + 2] = -np.inf, np.inf
    if case_of(scratch.rectangle, cell, skips_alike) <= CUT_ALIKE:
        return n
    while depth > 0:
        depth -= 1
        at = stack[depth]
        n = read_list(lists, table, at, query, scratch.rectangle, skips_alike, dropped, found, n)
        node = tree.child[at - 1] if at > 0 else ROOT
        if node == NO_CHILD or tree.node[node, KIND] == LEAF:
            continue
        if tree.node[node, KIND] == KEYWORD:
            stack[depth] = _cut_of(tree, node, n_words, scratch.rank) + 1
            depth += 1
        else:
            depth = _push_cells(tree, node, skips_alike, scratch, found.tally, depth)
    return n


@inlined
def read_list(lists, table, at, query, rectangle, skips_alike, dropped, found, n):
    """Note the messages of a list that may change as candidates, and take out those of them that are dropped."""
    held, member, point = lists.held, lists.member, lists.point
    first = held[at, FIRST_HELD]
    i, end = first, first + held[at, COUNT_HELD]
    found.tally[READ] += end - first
    while i < end:
        row = member[i]
        x, y = np.float64(point[i, 0]), np.float64(point[i, 1])
        if is_away(x, y, rectangle) or not may_change(x, y, table.box, row, rectangle, skips_alike):
            i += 1
        elif table.expires[row] > dropped:
            if n < found.row.size:
                found.query[n], found.row[n] = query, row
            n += 1
            i += 1
        else:
            end -= 1
            copy_member(lists, end, i)
            lists.copies[row] -= 1
    held[at, COUNT_HELD] = end - first
    return n


@inlined
def is_away(x, y, rectangle):
    """Tell whether a point, rounded, is outside the rectangle around both; what is no point is not.

    One jump for all four sides: that most are away is soon known to the processor, on which side is not.
    """
    spare_x, spare_y = abs(x) * ROUNDING + LEAST, abs(y) * ROUNDING + LEAST
    beside = (x + spare_x < rectangle[AROUND, 0]) | (x - spare_x > rectangle[AROUND, 2])
    return beside | (y + spare_y < rectangle[AROUND, 1]) | (y - spare_y > rectangle[AROUND, 3])


@inlined
def may_change(x, y, box, row, rectangle, is_exact):
    """Tell whether a message may touch one of two regions only, by their rectangles, which may be all of them."""
    low_x, low_y, high_x, high_y = x, y, x, y
    spare_x, spare_y = abs(x) * ROUNDING + LEAST, abs(y) * ROUNDING + LEAST
    if x != x:
        if box[row, 0] > box[row, 2]:
            return True  # over the dateline
        low_x, low_y, high_x, high_y = box[row, 0], box[row, 1], box[row, 2], box[row, 3]
        spare_x, spare_y = 0.0, 0.0
    touches_any, touches_all = False, is_exact
    for which in range(2):
        touches_any = touches_any or (
            low_x - spare_x <= rectangle[which, 2]
            and high_x + spare_x >= rectangle[which, 0]
            and low_y - spare_y <= rectangle[which, 3]
            and high_y + spare_y >= rectangle[which, 1]
        )
        touches_all = touches_all and (
            low_x + spare_x <= rectangle[which, 2]
            and high_x - spare_x >= rectangle[which, 0]
            and low_y + spare_y <= rectangle[which, 3]
            and high_y - spare_y >= rectangle[which, 1]
        )
    return touches_any and not touches_all


@inlined
def _cut_of(tree, node, n_words, ranks):
    """Return the slot of the cut that the next word of a clause falls into, that of the dummy cut if there is none."""
    row, offset = tree.node[node], offset_of(tree, node)
    if offset < n_words and ranks[offset] != NO_RANK:
        k = cut_index(tree, row[AUX], row[COUNT], ranks[offset])
        if k < row[COUNT] and tree.cut[row[AUX] + k, 0] <= ranks[offset]:
            return row[FIRST] + k
    return row[FIRST] + row[COUNT]


@inlined
def _push_cells(tree, node, skips_alike, scratch, tally, depth):
    """Put the cells on the stack in which something may change, in place of their node at `depth`."""
    row, span, own = tree.node[node], scratch.span, depth
    columns, rows, line = row[COUNT], row[ROOM], row[AUX]
    outer = (scratch.bounds[own, 0], scratch.bounds[own, 1], scratch.bounds[own, 2], scratch.bounds[own, 3])
    for which in range(2):
        for k in range(0, 4, 2):
            span[which, k] = line_index(tree, line, columns - 1, scratch.rectangle[which, k])
            span[which, k + 1] = line_index(tree, line + columns - 1, rows - 1, scratch.rectangle[which, k + 1])
        if scratch.rectangle[which, 0] > scratch.rectangle[which, 2]:
            span[which, 2] = span[which, 0] - 1
    for which in range(2):
        for i in range(span[which, 0], span[which, 2] + 1):
            for j in range(span[which, 1], span[which, 3] + 1):
                if which == NEW and span[0, 0] <= i <= span[0, 2] and span[0, 1] <= j <= span[0, 3]:
                    continue
                _write_cell(tree, line, columns, rows, i, j, outer, scratch.cell)
                case = case_of(scratch.rectangle, scratch.cell, skips_alike)
                if case == NEITHER:
                    continue
                tally[case] += 1
                if case != CUT_ALIKE:
                    scratch.stack[depth] = row[FIRST] + i * rows + j + 1
                    for k in range(4):
                        scratch.bounds[depth, k] = scratch.cell[k]
                    depth += 1
    return depth


@inlined
def _write_cell(tree, line, columns, rows, i, j, outer, cell):
    """Write the bounds of a cell: its strips, as far as they lie in the cell around; a line belongs to what follows."""
    y_line = line + columns - 1
    cell[0] = tree.line[line + i - 1] if i > 0 else outer[0]
    cell[1] = tree.line[y_line + j - 1] if j > 0 else outer[1]
    cell[2] = np.nextafter(tree.line[line + i], -np.inf) if i < columns - 1 else outer[2]
    cell[3] = np.nextafter(tree.line[y_line + j], -np.inf) if j < rows - 1 else outer[3]


@inlined
def case_of(rectangle, cell, skips_alike):
    """Return which of the four cases a cell is, or that neither rectangle touches it.

    Where cells that are cut alike may hold a change, both rectangles together count as cutting it otherwise.
    """
    touches_old = touches_new = is_alike = True
    for k in range(2):
        old_low, old_high = max(rectangle[OLD, k], cell[k]), min(rectangle[OLD, k + 2], cell[k + 2])
        new_low, new_high = max(rectangle[NEW, k], cell[k]), min(rectangle[NEW, k + 2], cell[k + 2])
        touches_old = touches_old and old_low <= old_high
        touches_new = touches_new and new_low <= new_high
        is_alike = is_alike and old_low == new_low and old_high == new_high
    if touches_old and touches_new:
        return CUT_ALIKE if is_alike and skips_alike else CUT_OTHERWISE
    if touches_old:
        return ONLY_OLD
    return ONLY_NEW if touches_new else NEITHER
