"""The class that owns the arrays of a dynamic R-tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.errors import UnknownIndex
from nearcast.indexes.shared.dynamic_rtree.arrays import FREE, N_FREE, NOBODY, ROOT
from nearcast.indexes.shared.dynamic_rtree.insertion import insert_entries
from nearcast.indexes.shared.dynamic_rtree.packing import packed
from nearcast.indexes.shared.dynamic_rtree.removal import detach, remove_items, shorten

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Nodes that are made at least when there are too few.
_FEW = 16
_BY_NODE = ("n_entries", "level", "parent", "entry", "box", "is_changed")


def checked_entries(name: str, min_entries: int, max_entries: int) -> dict[str, int]:
    """Return the options of an R-tree; raise `UnknownIndex` for numbers that no node can be split with."""
    if not 1 <= min_entries <= max_entries // 2:
        raise UnknownIndex(
            f"options of the index {name!r}: min_entries is at least 1 and at most half of max_entries, "
            f"not {min_entries} with max_entries={max_entries}"
        )
    return {"min_entries": min_entries, "max_entries": max_entries}


class DissolvedNode(NamedTuple):
    """A node with too few entries that was taken out of the tree: its level, what it had, and the items below it.

    `above` are the nodes that were above it, without the root.
    """

    node: int
    level: int
    above: list[int]
    entries: NDArray[np.int32]
    box: NDArray[np.float64]
    items: NDArray[np.int32]


class DynamicRTree:
    """An R-tree over numbered items; `arrays` is what kernels read."""

    def __init__(self, min_entries: int, max_entries: int) -> None:
        self._least, self._most = min_entries, max_entries
        self.arrays = packed(np.empty(0, np.int32), np.empty((0, 4)), 0, min_entries, max_entries)

    def pack(self, items: NDArray[np.int32], box: NDArray[np.float64], n_items: int) -> None:
        """Hold these items and no others; their numbers are below `n_items`."""
        self.arrays = packed(items, box, n_items, self._least, self._most)

    @property
    def root(self) -> int:
        """Return the node that is above all others."""
        return int(self.arrays.state[ROOT])

    @property
    def n_levels(self) -> int:
        """Return the level of the root: how many levels of nodes are below it."""
        return int(self.arrays.level[self.root])

    # Changes

    def insert(self, items: NDArray[np.int32], box: NDArray[np.float64], n_items: int) -> None:
        """Add new items, whose numbers are below `n_items`."""
        missing = n_items - len(self.arrays.leaf_of)
        if missing > 0:
            more = np.full(max(missing, len(self.arrays.leaf_of) // 4), NOBODY, np.int32)
            self.arrays = self.arrays._replace(leaf_of=np.concatenate([self.arrays.leaf_of, more]))
        self.insert_entries(items, box, 0)

    def insert_entries(self, entries: NDArray[np.int32], box: NDArray[np.float64], level: int) -> None:
        """Put entries, items or nodes, into nodes of a level."""
        done = int(insert_entries(self.arrays, entries, box, level, 0))
        while done < len(entries):
            self._make_nodes()
            done = int(insert_entries(self.arrays, entries, box, level, done))

    def remove(self, items: NDArray[np.int32]) -> list[DissolvedNode]:
        """Take out items, and all nodes that have too few entries then; `reinsert` what these had."""
        leaves = np.unique(self.arrays.leaf_of[items])
        remove_items(self.arrays, items)
        waiting, dissolved = leaves, list[DissolvedNode]()
        while len(waiting):
            parents = list[int]()
            for node in waiting[(self.arrays.n_entries[waiting] < self._least) & (waiting != self.root)].tolist():
                dissolved.append(self._dissolved(node))
                parents.append(int(detach(self.arrays, node)))
            waiting = np.unique(np.array(parents, np.int32))
        return dissolved

    def reinsert(self, dissolved: list[DissolvedNode]) -> NDArray[np.int32]:
        """Put in again what nodes had that were dissolved, and take away roots with one child, which are returned."""
        for each in sorted(dissolved, key=lambda each: -each.level):
            self.insert_entries(each.entries, each.box, each.level)
        gone, root, tree = list[int](), self.root, self.arrays
        while tree.level[root] > 0 and tree.n_entries[root] == 1:
            gone.append(root)
            root = int(tree.entry[root, 0])
        shorten(tree)
        return np.array(gone, np.int32)

    def _dissolved(self, node: int) -> DissolvedNode:
        n, tree, above = int(self.arrays.n_entries[node]), self.arrays, list[int]()
        parent = int(tree.parent[node])
        while parent != self.root:
            above.append(parent)
            parent = int(tree.parent[parent])
        items, _ = self.items_below(np.array([node], np.int32))
        had, box = tree.entry[node, :n].copy(), tree.box[node, :n].copy()
        return DissolvedNode(node, int(tree.level[node]), above, had, box, items)

    def _make_nodes(self) -> None:
        n = len(self.arrays.level)
        more = max(n // 4, self.n_levels + _FEW)
        grown = {}
        for name in _BY_NODE:
            old = getattr(self.arrays, name)
            grown[name] = np.concatenate([old, np.zeros((more, *old.shape[1:]), old.dtype)])
        grown["parent"][n:] = np.arange(n + 1, n + more + 1)
        grown["parent"][-1] = self.arrays.state[FREE]
        self.arrays = self.arrays._replace(**grown)
        self.arrays.state[FREE] = n
        self.arrays.state[N_FREE] += more

    # What is where

    def changed(self, bit: int) -> NDArray[np.int32]:
        """Return the nodes of which `is_changed` has this bit, and forget all changes."""
        nodes = np.flatnonzero(self.arrays.is_changed & bit).astype(np.int32)
        self.arrays.is_changed[:] = 0
        return nodes

    def forget_changes(self) -> None:
        """Take the tree as it is for unchanged."""
        self.arrays.is_changed[:] = 0

    def nodes_by_level(self) -> list[NDArray[np.int32]]:
        """Return all nodes, leaves first, the root last."""
        levels = [np.array([self.root], np.int32)]
        while self.arrays.level[levels[-1][0]] > 0:
            levels.append(self.entries_of(levels[-1])[0])
        return levels[::-1]

    def entries_of(self, nodes: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the entries of nodes end to end, and for each which of the nodes has it."""
        n = self.arrays.n_entries[nodes]
        at = np.repeat(np.arange(len(nodes)), n)
        slot = np.arange(len(at)) - np.repeat(np.cumsum(n) - n, n)
        return self.arrays.entry[nodes[at], slot], at

    def items_below(self, nodes: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the items below nodes of one level, and for each which of the nodes is above it."""
        above = np.arange(len(nodes))
        while len(nodes) and self.arrays.level[nodes[0]] > 0:
            nodes, at = self.entries_of(nodes)
            above = above[at]
        items, at = self.entries_of(nodes)
        return items, above[at]

    def above(self, items: NDArray[np.int32]) -> list[NDArray[np.int32]]:
        """Return the nodes above items level by level, leaves first, without the root unless it is a leaf."""
        nodes = self.arrays.leaf_of[items]
        levels = [nodes]
        for _ in range(1, self.n_levels):
            nodes = self.arrays.parent[nodes]
            levels.append(nodes)
        return levels

    @property
    def nbytes(self) -> int:
        """Return the size of all arrays."""
        return sum(array.nbytes for array in self.arrays)
