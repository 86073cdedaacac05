"""Inserts an entry into a dynamic R-tree: descends to a leaf, and splits every node that is too full.

The way down is Guttman's (SIGMOD 1984): the child whose area grows least, of equals the smallest. A split is that of
the R*-tree (SIGMOD 1990) made simple: entries in the order of their middles, by x and by y, are cut where the two
parts overlap least; of equals where their areas are least, then where the parts are most alike in number.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.shared.dynamic_rtree.arrays import (
    LEAST,
    N_FREE,
    NOBODY,
    ROOT,
    SPLIT,
    area,
    bounds,
    fit,
    nearer,
    new_node,
    put,
)

#: Rectangles around the first entries in order, and around the last.
_AHEAD, _BEHIND = 0, 1


@hot_kernel
def insert_entries(tree, entries, box, level, done):
    """Put entries from `done` on into nodes of a level; return the first for which free nodes may not suffice.

    At an empty root, the root takes that level.
    """
    for i in range(done, entries.size):
        root = tree.state[ROOT]
        if tree.state[N_FREE] < tree.level[root] + 2:
            return i
        if tree.n_entries[root] == 0:
            tree.level[root] = level
        node = root
        while tree.level[node] > level:
            node = tree.entry[node, _best_child(tree, node, box[i, 0], box[i, 1], box[i, 2], box[i, 3])]
        put(tree, node, entries[i], box[i, 0], box[i, 1], box[i, 2], box[i, 3])
        _split_upwards(tree, node)
    return entries.size


@inlined
def _best_child(tree, node, x_min, y_min, x_max, y_max):
    """Return the slot of the child that grows least."""
    best, least, smallest = 0, np.inf, np.inf
    box = tree.box
    for slot in range(tree.n_entries[node]):
        now = area(box[node, slot, 0], box[node, slot, 1], box[node, slot, 2], box[node, slot, 3])
        then = area(
            min(box[node, slot, 0], x_min),
            min(box[node, slot, 1], y_min),
            max(box[node, slot, 2], x_max),
            max(box[node, slot, 3], y_max),
        )
        if then - now < least or (then - now == least and now < smallest):
            best, least, smallest = slot, then - now, now
    return best


@inlined
def _split_upwards(tree, node):
    """From a node that has grown upwards, split what is too full and draw rectangles anew."""
    while True:
        sibling = NOBODY
        if tree.n_entries[node] == tree.entry.shape[1]:
            sibling = _split(tree, node)
        if node == tree.state[ROOT]:
            if sibling == NOBODY:
                return
            root = new_node(tree, tree.level[node] + 1)
            tree.state[ROOT] = root
            x_min, y_min, x_max, y_max = bounds(tree, node)
            put(tree, root, node, x_min, y_min, x_max, y_max)
        parent = fit(tree, node)
        if sibling != NOBODY:
            x_min, y_min, x_max, y_max = bounds(tree, sibling)
            put(tree, parent, sibling, x_min, y_min, x_max, y_max)
        node = parent


@hot_kernel
def _split(tree, node):
    """Move some entries of a node to a new one, which is returned."""
    n, least = tree.n_entries[node], tree.state[LEAST]
    best_axis, best_cut, best_overlap, best_area = 0, n // 2, np.inf, np.inf
    for axis in range(2):
        _sort_entries(tree, node, axis)
        _draw_around(tree, node)
        for cut in range(least, n - least + 1):
            overlap, total = _price_of_cut(tree, cut)
            is_more_even = abs(2 * cut - n) < abs(2 * best_cut - n)
            if overlap < best_overlap or (
                overlap == best_overlap and (total < best_area or (total == best_area and is_more_even))
            ):
                best_axis, best_cut, best_overlap, best_area = axis, cut, overlap, total
    _sort_entries(tree, node, best_axis)
    return _move_behind(tree, node, best_cut)


@hot_kernel
def _sort_entries(tree, node, axis):
    """Write the slots of a node in the order of their middles."""
    order, middle = tree.order, tree.middle
    for slot in range(tree.n_entries[node]):
        key = nearer(tree.box[node, slot, axis]) + nearer(tree.box[node, slot, axis + 2])
        at = slot
        while at > 0 and middle[at - 1] > key:
            order[at], middle[at] = order[at - 1], middle[at - 1]
            at -= 1
        order[at], middle[at] = slot, key


@hot_kernel
def _draw_around(tree, node):
    """Write, for every cut of the order, the rectangle around what is ahead of it and around what is behind."""
    n, around = tree.n_entries[node], tree.around
    for side in (_AHEAD, _BEHIND):
        x_min, y_min, x_max, y_max = np.inf, np.inf, -np.inf, -np.inf
        for i in range(n):
            at = i if side == _AHEAD else n - 1 - i
            slot = tree.order[at]
            x_min, y_min = min(x_min, tree.box[node, slot, 0]), min(y_min, tree.box[node, slot, 1])
            x_max, y_max = max(x_max, tree.box[node, slot, 2]), max(y_max, tree.box[node, slot, 3])
            around[side, at, 0], around[side, at, 1] = x_min, y_min
            around[side, at, 2], around[side, at, 3] = x_max, y_max


@inlined
def _price_of_cut(tree, cut):
    """Return how much the parts before and behind a cut overlap, and their areas in all."""
    one, other = tree.around[_AHEAD, cut - 1], tree.around[_BEHIND, cut]
    across = nearer(min(one[2], other[2])) - nearer(max(one[0], other[0]))
    up = nearer(min(one[3], other[3])) - nearer(max(one[1], other[1]))
    overlap = across * up if across > 0.0 and up > 0.0 else 0.0
    return overlap, area(one[0], one[1], one[2], one[3]) + area(other[0], other[1], other[2], other[3])


@inlined
def _move_behind(tree, node, cut):
    """Keep the first `cut` entries in order and move the others to a new node, which is returned."""
    n = tree.n_entries[node]
    for at in range(n):
        slot = tree.order[at]
        tree.spare_entry[at] = tree.entry[node, slot]
        for k in range(4):
            tree.spare_box[at, k] = tree.box[node, slot, k]
    sibling = new_node(tree, tree.level[node])
    tree.n_entries[node] = 0
    for at in range(n):
        to = node if at < cut else sibling
        box = tree.spare_box
        put(tree, to, tree.spare_entry[at], box[at, 0], box[at, 1], box[at, 2], box[at, 3])
    tree.is_changed[node] |= SPLIT
    tree.is_changed[sibling] |= SPLIT
    return sibling
