"""The quadtree of `ciq`, down to its leaves, and the cells that cover the space for one subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import kernel
from nearcast.indexes.papers.skype.cells import MOST_CUTS, whole_space

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space

NO_CHILD = -1


class CiqTree(NamedTuple):
    """Node i is the rectangle `box[i]`, cut at `cut[i]` into the four nodes from `child[i]` on; -1 in leaves.

    On a plane the outermost nodes go on for ever: together the leaves hold every place there is.
    """

    box: NDArray[np.float64]
    cut: NDArray[np.float64]
    child: NDArray[np.int32]


def build_tree(point: NDArray[np.float64], space: Space, leaf: int) -> CiqTree:
    """Cut the space in four, again and again, until no leaf has more than `leaf` points."""
    root = whole_space(point, space)
    box, cut, child = _cut_nodes(point, root, leaf)
    if not space.is_earth:
        for side, beyond in enumerate((-np.inf, -np.inf, np.inf, np.inf)):
            box[box[:, side] == root[side], side] = beyond
    return CiqTree(box, cut, child)


@kernel
def _cut_nodes(point, root, leaf):
    n = point.shape[0]
    order, spare = np.arange(n), np.empty(n, np.int64)
    room = 64
    box, cut = np.zeros((room, 4)), np.zeros((room, 2))
    child = np.full(room, NO_CHILD, np.int32)
    part = np.zeros((room, 3), np.int64)  # from where to where its points are in `order`, and how often it was cut
    box[0, :] = root
    part[0, 1] = n
    n_nodes, node = 1, 0
    begin = np.empty(5, np.int64)
    while node < n_nodes:
        first, last, cuts = part[node, 0], part[node, 1], part[node, 2]
        x0, y0, x1, y1 = box[node, 0], box[node, 1], box[node, 2], box[node, 3]
        x, y = x0 / 2.0 + x1 / 2.0, y0 / 2.0 + y1 / 2.0
        is_small = not (x0 < x and x < x1) and not (y0 < y and y < y1)
        if last - first <= leaf or cuts >= MOST_CUTS or is_small:
            node += 1
            continue
        if n_nodes + 4 > room:
            room *= 2
            wider = np.zeros((room, 4))
            wider[:n_nodes] = box[:n_nodes]
            more_cuts = np.zeros((room, 2))
            more_cuts[:n_nodes] = cut[:n_nodes]
            more_children = np.full(room, NO_CHILD, np.int32)
            more_children[:n_nodes] = child[:n_nodes]
            more_parts = np.zeros((room, 3), np.int64)
            more_parts[:n_nodes] = part[:n_nodes]
            box, cut, child, part = wider, more_cuts, more_children, more_parts
        begin[:] = 0
        for i in range(first, last):
            p = order[i]
            spare[i] = p
            begin[1 + 2 * (point[p, 1] >= y) + (point[p, 0] >= x)] += 1
        begin[0] = first
        for k in range(4):
            begin[k + 1] += begin[k]
            at = begin[k]
            for i in range(first, last):
                p = spare[i]
                if 2 * (point[p, 1] >= y) + (point[p, 0] >= x) == k:
                    order[at] = p
                    at += 1
            new = n_nodes + k
            box[new, 0], box[new, 2] = (x, x1) if k % 2 else (x0, x)
            box[new, 1], box[new, 3] = (y, y1) if k >= 2 else (y0, y)
            part[new, 0], part[new, 1], part[new, 2] = begin[k], begin[k + 1], cuts + 1
        cut[node, 0], cut[node, 1], child[node] = x, y, n_nodes
        n_nodes += 4
        node += 1
    return box[:n_nodes].copy(), cut[:n_nodes].copy(), child[:n_nodes].copy()


@kernel
def count_covers(tree, point, most, n_covers):
    """Write how many cells cover the space for each point, at most `most`."""
    for i in range(point.shape[0]):
        node, n = 0, 1
        while n + 3 <= most and tree.child[node] != NO_CHILD:
            up, right = point[i, 1] >= tree.cut[node, 1], point[i, 0] >= tree.cut[node, 0]
            node = tree.child[node] + 2 * up + right
            n += 3
        n_covers[i] = n


@kernel
def place_covers(tree, point, start, node_of):
    """Write the cells that cover the space for each point: what the way down to it leaves aside, and where it ends."""
    for i in range(point.shape[0]):
        node, at = 0, start[i]
        while at + 1 < start[i + 1]:
            up, right = point[i, 1] >= tree.cut[node, 1], point[i, 0] >= tree.cut[node, 0]
            here = tree.child[node] + 2 * up + right
            for k in range(4):
                if tree.child[node] + k != here:
                    node_of[at] = tree.child[node] + k
                    at += 1
            node = here
        node_of[at] = node
