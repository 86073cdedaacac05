"""Decides when a quadtree cell is divided: a list has too many entries that may be cheaper below."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.indexes.papers.quad.cells import CHILD, FIRST, LENGTH, LIMIT, PARENT, ROOM, touches
from nearcast.indexes.papers.quad.traffic import DEEPEST, share_of


@inlined
def could_gain(steps, i, level, x, y, chance, traffic, update):
    """Tell whether an item of a cell may be cheaper below it, were there cells as small as it takes.

    Its looks could come down to those of messages in its rectangle, if these are spread evenly over the cell, but it
    would have an entry in each quarter it touches.
    """
    shift = DEEPEST - level
    x_min, x_max = max(steps[i, 0], x << shift), min(steps[i, 2], ((x + 1) << shift) - 1)
    y_min, y_max = max(steps[i, 1], y << shift), min(steps[i, 3], ((y + 1) << shift) - 1)
    covered = (x_max - x_min + 1.0) * (y_max - y_min + 1.0) / (1 << (2 * shift))
    half = shift - 1
    quarters = ((x_max >> half) - (x_min >> half) + 1) * ((y_max >> half) - (y_min >> half) + 1)
    gain = chance * share_of(traffic, level, x, y) * (1.0 - covered)
    return gain > update * (quarters * (level + 2) - (level + 1))


@kernel
def overflows(steps, key, chance, cell, traffic, update, leaf):
    """Tell whether a list of a cell has more than `leaf` items that could gain; items are ascending by key."""
    n = 0
    for i in range(key.size):
        if i > 0 and key[i] != key[i - 1]:
            n = 0
        if could_gain(steps, i, cell[0], cell[1], cell[2], chance[i], traffic, update):
            n += 1
        if n > leaf:
            return True
    return False


@kernel
def make_children(nodes, cold, node, first, leaf):
    """Give a node four empty children from the node `first` on."""
    nodes[node, CHILD] = first
    for k in range(first, first + 4):
        nodes[k, CHILD], nodes[k, FIRST], nodes[k, LENGTH], nodes[k, ROOM] = -1, 0, 0, 0
        cold[k, PARENT], cold[k, LIMIT] = node, leaf


@kernel
def grow_trees(nodes, cold, n_nodes, root, root_start, steps, key, chance, traffic, update, leaf, depth):
    """Divide cells as long as a list in them overflows; return the nodes, their seldom read columns, and their number.

    Tree t has the node `root[t]` and the items from `root_start[t]` on, ascending by key.
    """
    work = np.empty(1024, np.int32)
    todo = np.empty((4 * DEEPEST + 4, 6), np.int64)  # node, level, x, y, first and last of its items in `work`
    for t in range(root.size):
        n = root_start[t + 1] - root_start[t]
        if n <= leaf:
            continue
        work = _with_room(work, n)
        for i in range(n):
            work[i] = root_start[t] + i
        todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3], todo[0, 4], todo[0, 5] = root[t], 0, 0, 0, 0, n
        n_todo = 1
        while n_todo > 0:
            n_todo -= 1
            level, x, y, first = todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3], todo[n_todo, 4]
            last = _leave_behind(work, first, todo[n_todo, 5], steps, key, chance, level, x, y, traffic, update, leaf)
            if last == first or level >= depth:
                continue
            if n_nodes + 4 > nodes.shape[0]:
                nodes, cold = _with_rows(nodes), _with_rows(cold)
            make_children(nodes, cold, todo[n_todo, 0], n_nodes, leaf)
            work = _with_room(work, last + 4 * (last - first))
            n_todo = _hand_down(work, first, last, steps, n_nodes, level + 1, 2 * x, 2 * y, todo, n_todo)
            n_nodes += 4
    return nodes, cold, n_nodes


@kernel
def _leave_behind(work, first, last, steps, key, chance, level, x, y, traffic, update, leaf):
    """Move the items that could gain below a cell to the front; return where they end, `first` if no list overflows."""
    to, same, longest = first, 0, 0
    for at in range(first, last):
        i = work[at]
        if could_gain(steps, i, level, x, y, chance[i], traffic, update):
            same = same + 1 if to > first and key[work[to - 1]] == key[i] else 1
            longest = max(longest, same)
            work[to] = i
            to += 1
    return to if longest > leaf else first


@kernel
def _hand_down(work, first, last, steps, child, level, x, y, todo, n_todo):
    """Write the items of a cell once more for each quarter they touch; return the number of cells to do."""
    end = last
    for quarter in range(4):
        begin, cell_x, cell_y = end, x + quarter % 2, y + quarter // 2
        for at in range(first, last):
            if touches(steps, work[at], level, cell_x, cell_y):
                work[end] = work[at]
                end += 1
        todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2] = child + quarter, level, cell_x
        todo[n_todo, 3], todo[n_todo, 4], todo[n_todo, 5] = cell_y, begin, end
        n_todo += 1
    return n_todo


@kernel
def _with_room(work, n):
    if n <= work.size:
        return work
    more = np.empty(2 * n, np.int32)
    for i in range(work.size):
        more[i] = work[i]
    return more


@kernel
def _with_rows(rows):
    more = np.empty((2 * rows.shape[0] + 4, rows.shape[1]), np.int32)
    for i in range(rows.shape[0]):
        for c in range(rows.shape[1]):
            more[i, c] = rows[i, c]
    return more
