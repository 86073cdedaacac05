"""Bulk loads a dynamic R-tree by sort-tile-recursive (Leutenegger, Lopez, Edgington: ICDE 1997).

Leaves are as few as can be, and so are levels. The nodes in between have as many entries as the root then, or as few as
they may have: a root of two entries would be a level that tells nothing apart. All nodes of a level are filled evenly.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.indexes.shared.dynamic_rtree.arrays import FAR, ROOT, DynamicRTreeArrays, new_tree

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _EntryLevel(NamedTuple):
    """Nodes of a level: the entries of all of them in order, and where those of each begin."""

    entry: NDArray[np.int64]
    box: NDArray[np.float64]
    start: NDArray[np.int64]


def packed(
    items: NDArray[np.int32], box: NDArray[np.float64], n_items: int, least: int, most: int
) -> DynamicRTreeArrays:
    """Return a tree of these items, whose numbers are below `n_items`."""
    levels = _levels(items, box, least, most)
    tree = new_tree(sum(len(level.start) - 1 for level in levels), n_items, least, most)
    first = 0
    for height, level in enumerate(levels):
        sizes = np.diff(level.start)
        node = np.repeat(np.arange(first, first + len(sizes)), sizes)
        slot = np.arange(len(level.entry)) - np.repeat(level.start[:-1], sizes)
        tree.entry[node, slot] = level.entry
        tree.box[node, slot] = level.box
        own = slice(first, first + len(sizes))
        tree.n_entries[own], tree.level[own] = sizes, height
        (tree.parent if height else tree.leaf_of)[level.entry] = node
        first += len(sizes)
    tree.state[ROOT] = first - 1
    return tree


def _levels(items: NDArray[np.int32], box: NDArray[np.float64], least: int, most: int) -> list[_EntryLevel]:
    entries, first, levels, fan_out = items.astype(np.int64), 0, list[_EntryLevel](), most
    while True:
        n_nodes = max(-(-len(entries) // most), len(entries) // fan_out, 1)
        start = np.arange(n_nodes + 1) * len(entries) // n_nodes
        order = _tiled(box, start)
        levels.append(_EntryLevel(entries[order], box[order], start))
        if n_nodes == 1:
            return levels
        if len(levels) == 1:
            fan_out = max(_even_fan_out(n_nodes, most), least)
        box = _around(levels[-1].box, start[:-1])
        entries = np.arange(first, first + n_nodes)
        first += n_nodes


def _even_fan_out(n_leaves: int, most: int) -> int:
    """Return how many entries nodes have if all levels above the leaves have as many, and are as few as can be."""
    n_levels = 1
    while most**n_levels < n_leaves:
        n_levels += 1
    return int(min(math.ceil(n_leaves ** (1 / n_levels)), most))


def _tiled(box: NDArray[np.float64], start: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return an order of rectangles in which those between two starts lie close together."""
    n_nodes = len(start) - 1
    n_slabs = math.ceil(math.sqrt(n_nodes))
    slab_start = start[np.arange(n_slabs + 1) * n_nodes // n_slabs].tolist()
    order, up = np.argsort(_middle(box, 0), kind="stable"), _middle(box, 1)
    for first, last in pairwise(slab_start):
        slab = order[first:last]
        order[first:last] = slab[np.argsort(up[slab], kind="stable")]
    return order


def _middle(box: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Return the middles of rectangles; those without an end come last, among themselves."""
    low, high = box[:, axis], box[:, axis + 2]
    middle: NDArray[np.float64] = np.clip(low, -FAR, FAR) + np.clip(high, -FAR, FAR)
    middle[np.isinf(low) & np.isinf(high)] = np.inf
    return middle


def _around(box: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    low = np.minimum.reduceat(box[:, :2], starts, axis=0)
    return np.hstack([low, np.maximum.reduceat(box[:, 2:], starts, axis=0)])
