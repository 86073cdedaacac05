"""The nodes of one or many quadtrees over the same frame, in one array."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.indexes.papers.quad.cells import CHILD, FIRST, LIMIT, MOST_CELLS, PARENT, assign
from nearcast.indexes.papers.quad.growth import grow_trees, make_children
from nearcast.indexes.papers.quad.traffic import DEEPEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.papers.quad.traffic import Traffic

#: The cell of every root: level, x, y.
WHOLE_FRAME = np.zeros(3, np.int64)


class QuadItems(NamedTuple):
    """Atoms as a quadtree sees them: steps of the rectangle, the key of the list and how likely that is looked at."""

    steps: NDArray[np.int32]
    key: NDArray[np.int32]
    chance: NDArray[np.float64]


class QuadTrees:
    """Quadtrees whose cells are divided when a list has more than `leaf` entries to gain, to the level `depth`.

    `nodes` has a row for each node: the first of its four children or -1, and three numbers for whoever keeps lists
    there. `cold` has the parent or -1, and the length of a list from which on dividing is thought about.
    """

    def __init__(self, leaf: int, depth: int, update: float):
        self.leaf, self.depth, self.update = leaf, depth, update
        self.nodes, self.cold = np.empty((0, 4), np.int32), np.empty((0, 2), np.int32)
        self._n = 0
        self._free: list[int] = []

    def __len__(self) -> int:
        return self._n - 4 * len(self._free)

    def new_roots(self, n: int) -> NDArray[np.int32]:
        """Return nodes that are trees of their own."""
        first = self._n
        self._room_for(n)
        self._n += n
        self.nodes[first : self._n] = (-1, 0, 0, 0)
        self.cold[first : self._n] = (-1, self.leaf)
        return np.arange(first, self._n, dtype=np.int32)

    def grow(self, start: NDArray[np.int32], items: QuadItems, traffic: Traffic) -> None:
        """Divide the trees for items that will come: item i into the tree `start[i]`, neighbours into the same one."""
        change = np.flatnonzero(np.diff(start)) + 1
        first = np.concatenate([np.zeros(min(1, len(start)), np.int64), change])
        root_start = np.append(first, len(start))
        grown = grow_trees(
            self.nodes,
            self.cold,
            self._n,
            start[first],
            root_start,
            *items,
            traffic,
            self.update,
            self.leaf,
            self.depth,
        )
        self._n = int(grown[2])
        self.nodes, self.cold = (np.ascontiguousarray(rows[: self._n]) for rows in grown[:2])

    def leave_as_they_are(self, node: NDArray[np.int32], key: NDArray[np.int32]) -> None:
        """Think about dividing a grown cell again only when a list is twice as long; entries ascend by node and key."""
        begin = np.flatnonzero(np.append(True, (np.diff(node) != 0) | (np.diff(key) != 0)))[: len(node)]
        length = np.diff(np.append(begin, len(node)))
        is_long = length > self.leaf
        longest = np.zeros(len(self.cold), np.int64)
        np.maximum.at(longest, node[begin[is_long]], 2 * length[is_long])
        self.cold[:, LIMIT] = np.maximum(self.cold[:, LIMIT], longest)

    def assigned(
        self, start: NDArray[np.int32], cell: NDArray[np.int64], items: QuadItems, traffic: Traffic
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return nodes and items: where each item costs least, from the node `start[i]`, this cell of its tree, on."""
        room = np.zeros((DEEPEST + 2, 5), np.int64), np.zeros(DEEPEST + 2), np.empty(MOST_CELLS, np.int32)
        node, item = np.empty((2, 2 * len(start) + MOST_CELLS), np.int32)
        parts, done = [], 0
        while done < len(start):
            done, n = assign(
                self.nodes, start, cell, items.steps, items.chance, traffic, self.update, done, room, node, item
            )
            parts.append((node[:n].copy(), item[:n].copy()))
        nothing = np.empty(0, np.int32)
        return (
            np.concatenate([nothing, *(part[0] for part in parts)]),
            np.concatenate([nothing, *(part[1] for part in parts)]),
        )

    def cell(self, node: int) -> NDArray[np.int64]:
        """Return level, x and y of a node."""
        (cell,) = self.cells(np.array([node], np.int32))
        return np.asarray(cell, np.int64)

    def cells(self, node: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return level, x and y of each node."""
        cell = np.empty((len(node), 3), np.int64)
        _fill_cells(self.nodes, self.cold, node, cell)
        return cell

    def without_lists(self) -> QuadTrees:
        """Return a copy of the trees, with the same nodes and nothing in them."""
        trees = QuadTrees(self.leaf, self.depth, self.update)
        trees.nodes, trees.cold = self.nodes.copy(), self.cold.copy()
        trees.nodes[:, FIRST:] = 0
        trees._n, trees._free = self._n, list(self._free)
        return trees

    def divide(self, node: int) -> None:
        """Give a leaf four empty children."""
        if not self._free:
            self._room_for(4)
            self._free.append(self._n)
            self._n += 4
        make_children(self.nodes, self.cold, node, self._free.pop(), self.leaf)

    def join(self, node: int) -> None:
        """Take a node's four children away, which are empty leaves."""
        child = int(self.nodes[node, CHILD])
        self.cold[child : child + 4, PARENT] = -1
        self._free.append(child)
        self.nodes[node, CHILD] = -1
        self.cold[node, LIMIT] = self.leaf

    @property
    def nbytes(self) -> int:
        """Return the size of the nodes."""
        return self.nodes.nbytes + self.cold.nbytes

    def _room_for(self, n: int) -> None:
        if self._n + n > len(self.nodes):
            size = self._n + n + (self._n + n) // 4 if self._n else n
            for name in ("nodes", "cold"):
                old = getattr(self, name)
                rows = np.empty((size, old.shape[1]), np.int32)
                rows[: self._n] = old[: self._n]
                setattr(self, name, rows)


@hot_kernel
def _fill_cells(nodes, cold, node, cell):
    for i in range(node.size):
        at, level, x, y = np.int64(node[i]), 0, 0, 0
        while cold[at, PARENT] >= 0:
            parent = np.int64(cold[at, PARENT])
            quarter = at - nodes[parent, CHILD]
            x, y = x | (quarter % 2) << level, y | (quarter // 2) << level
            level, at = level + 1, parent
        cell[i, 0], cell[i, 1], cell[i, 2] = level, x, y
