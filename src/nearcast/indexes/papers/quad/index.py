"""What the quadtree indexes share: atoms are assigned to cells by cost, cells divide and join again."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.errors import UnknownIndex
from nearcast.indexes.papers.keyword_first import count_words
from nearcast.indexes.papers.quad.cells import CHILD, FIRST, LENGTH, LIMIT, PARENT, ROOM
from nearcast.indexes.papers.quad.entries import ATOM, EntryLists, entry_rows, take_out
from nearcast.indexes.papers.quad.growth import overflows
from nearcast.indexes.papers.quad.tables import list_at
from nearcast.indexes.papers.quad.traffic import DEEPEST, sampled, steps_of, traffic_of
from nearcast.indexes.papers.quad.tree import WHOLE_FRAME, QuadItems, QuadTrees
from nearcast.indexes.papers.quad.walk import begin_walk, empty_stack, walk_on
from nearcast.indexes.shared.boolean_index import BooleanIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.geo import Space

#: The options of every quadtree index, as its constructor has them.
QUAD_OPTIONS = {"leaf": 32, "depth": 12, "update": 1e-6}
_NO_SLOTS = np.empty((0, 4), np.int32)


class QuadIndex(BooleanIndex):
    """Keeps atoms in cells of quadtrees, in each cell under a key. An index says what keys, trees and lists are:

    - `_begin()`: there is nothing any more.
    - `_keys(atoms)`, `_chances(atoms, key)`: the key of each atom, and how likely a message looks at it.
    - `_roots(key)`: the tree of each key, made if there is none.

    A node has one list, unless an index overrides what is said of lists.
    """

    _WIDTH = 7

    def __init__(self, space: Space, leaf: int = 32, depth: int = 12, update: float = 1e-6):
        name = self.info.name
        if not 1 <= leaf < 2**31:
            raise UnknownIndex(f"option leaf of the index {name!r} is at least 1 and fits 31 bits, not {leaf}")
        if not 0 <= depth <= DEEPEST:
            raise UnknownIndex(f"option depth of the index {name!r} is from 0 to {DEEPEST}, not {depth}")
        if not 0 < update < np.inf:
            raise UnknownIndex(f"option update of the index {name!r} is a positive number, not {update}")
        super().__init__(space, leaf=leaf, depth=depth, update=update)
        self._trees = QuadTrees(leaf, depth, update)
        self._entries = EntryLists(self._WIDTH)
        self._count = np.zeros(0, np.int64)
        self._n_counted = 0
        self._learned: Messages | None = None
        self._traffic = traffic_of(np.empty((0, 4)), np.empty(0), None)
        self._begin()

    def learn(self, messages: Messages) -> None:
        """Expect messages like these, and build anew for them at the next search; they are not saved with the index.

        Of many, an even sample is kept.
        """
        with self._lock:
            self._undo.roll_back()
            self._learned = sampled(messages)
            self._is_built = False

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _keys(self, atoms: NDArray[np.int32]) -> NDArray[np.int32]: ...

    @abstractmethod
    def _chances(self, atoms: NDArray[np.int32], key: NDArray[np.int32]) -> NDArray[np.float64]: ...

    @abstractmethod
    def _roots(self, key: NDArray[np.int32]) -> NDArray[np.int32]: ...

    def _lay_out(self, node: NDArray[np.int32], key: NDArray[np.int32]) -> None:
        """Make the lists of entries in this order, ascending by node and key; here the one list of every node."""
        nodes = self._trees.nodes
        length = np.bincount(node, minlength=len(nodes))
        nodes[:, FIRST] = np.cumsum(length) - length
        nodes[:, LENGTH] = nodes[:, ROOM] = length

    @property
    def _lists(self) -> NDArray[np.int32]:
        return self._trees.nodes

    @property
    def _slots(self) -> NDArray[np.int32]:
        return _NO_SLOTS

    def _lists_for(self, node: NDArray[np.int32], key: NDArray[np.int32]) -> NDArray[np.int32]:
        return node

    def _lists_of(self, node: int) -> NDArray[np.int32]:
        """Return the rows of the lists of a cell."""
        return np.array([node], np.int32)

    def _drop_lists(self, node: int) -> None:
        """Leave a cell without lists."""
        self._trees.nodes[node, FIRST:] = 0

    # Build, insert, remove

    def _build(self, atoms: NDArray[np.int32]) -> None:
        columns = self._atoms
        self._count, self._n_counted = np.zeros(self._n_weights, np.int64), len(atoms)
        count_words(columns, atoms, self._count)
        self._traffic = traffic_of(columns.box[atoms], self._count / max(1, len(atoms)), self._learned)
        trees = self._trees = QuadTrees(**{name: self._options[name] for name in ("leaf", "depth", "update")})
        self._begin()
        key = self._keys(atoms)
        order = np.argsort(key, kind="stable")
        atoms, key = atoms[order], key[order]
        items, start = self._items(atoms, key), self._roots(key)
        trees.grow(start, items, self._traffic)
        node, item = trees.assigned(start, WHOLE_FRAME, items, self._traffic)
        order = np.argsort(node, kind="stable")
        node, item = node[order], item[order]
        self._entries = EntryLists(self._WIDTH)
        self._entries.lay_out(self._entry_rows(atoms, key), item)
        self._lay_out(node, key[item])
        trees.leave_as_they_are(node, key[item])

    def _insert_atoms(self, atoms: NDArray[np.int32]) -> None:
        key = self._keys(atoms)
        items, start = self._items(atoms, key), self._roots(key)
        node, item = self._trees.assigned(start, WHOLE_FRAME, items, self._traffic)
        self._divide(self._add(node, key[item], self._entry_rows(atoms, key)[item]))

    def _remove_atoms(self, atoms: NDArray[np.int32]) -> None:
        key = self._keys(atoms)
        emptied = np.empty(len(atoms) + 1024, np.int32)
        n = _take_out_of_cells(
            self._trees.nodes,
            self._slots,
            self._lists,
            self._entries.arrays.number,
            self._roots(key),
            self._steps(atoms),
            key,
            atoms,
            empty_stack(),
            emptied,
        )
        for node in np.unique(emptied[:n]):
            self._join_above(int(node))

    def _add(self, node: NDArray[np.int32], key: NDArray[np.int32], entry: NDArray[np.int32]) -> NDArray[np.int32]:
        """Put entries into cells; return the leaves with a list that is too long now."""
        list_of = self._lists_for(node, key)
        self._entries.add(self._lists, list_of, entry)
        nodes, cold = self._trees.nodes, self._trees.cold
        too_long = (self._lists[list_of, LENGTH] > cold[node, LIMIT]) & (nodes[node, CHILD] < 0)
        return np.unique(node[too_long])

    def _divide(self, too_long: NDArray[np.int32]) -> None:
        """Divide leaves whose lists overflow, and their children; ask the others again when a list is twice as long."""
        trees, todo = self._trees, list(map(int, too_long))
        while todo:
            node = todo.pop()
            key, entry = self._held_in([node])
            items, cell = self._items(entry[:, ATOM], key), trees.cell(node)
            if cell[0] >= trees.depth or not overflows(
                items.steps, key, items.chance, cell, self._traffic, trees.update, trees.leaf
            ):
                trees.cold[node, LIMIT] = 2 * int(self._lists[self._lists_of(node), LENGTH].max())
                continue
            self._drop_lists(node)
            trees.divide(node)
            to, item = trees.assigned(np.full(len(key), node, np.int32), cell, items, self._traffic)
            todo += map(int, self._add(to, key[item], entry[item]))

    def _join_above(self, node: int) -> None:
        """Join four leaves again, and those above, while their lists have half of what a leaf may have."""
        trees = self._trees
        while (parent := int(trees.cold[node, PARENT])) >= 0:
            children = np.arange(4) + trees.nodes[parent, CHILD]
            if (trees.nodes[children, CHILD] >= 0).any():
                return
            longest = max(self._lists[self._lists_of(int(child)), LENGTH].max(initial=0) for child in children)
            if longest > trees.leaf // 2:
                return
            key, entry = self._held_in(list(map(int, children)))
            _, once = np.unique(entry[:, ATOM], return_index=True)
            key, entry = key[once], entry[once]
            if len(key) and np.unique(key, return_counts=True)[1].max() > trees.leaf // 2:
                return
            for child in children:
                self._drop_lists(int(child))
            trees.join(parent)
            self._add(np.full(len(key), parent, np.int32), key, entry)
            node = parent

    def _held_in(self, nodes: list[int]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return key and entry of everything in these cells, ascending by key."""
        lists, number = self._lists, self._entries.arrays.number
        rows = np.concatenate([self._lists_of(node) for node in nodes])
        first, length = lists[rows, FIRST].astype(np.int64), lists[rows, LENGTH]
        entry = number[np.arange(length.sum()) + np.repeat(first - (np.cumsum(length) - length), length)]
        key = self._keys(np.ascontiguousarray(entry[:, ATOM]))
        order = np.argsort(key, kind="stable")
        return key[order], np.ascontiguousarray(entry[order])

    # What is told of an atom

    def _items(self, atoms: NDArray[np.int32], key: NDArray[np.int32]) -> QuadItems:
        atoms = np.ascontiguousarray(atoms)
        return QuadItems(self._steps(atoms), key, self._chances(atoms, key))

    def _steps(self, atoms: NDArray[np.int32]) -> NDArray[np.int32]:
        steps = np.empty((len(atoms), 4), np.int32)
        steps_of(self._traffic, self._atoms.box[atoms], steps)
        return steps

    def _entry_rows(self, atoms: NDArray[np.int32], key: NDArray[np.int32]) -> NDArray[np.int32]:
        return entry_rows(self._atoms, atoms, key, self._WIDTH)

    def _bytes(self) -> int:
        traffic = self._traffic.share.nbytes + self._traffic.chance.nbytes
        return self._trees.nbytes + self._entries.nbytes + self._count.nbytes + traffic


@hot_kernel
def _take_out_of_cells(nodes, slots, lists, number, start, steps, key, atom, stack, emptied):
    """Take atoms out of the cells they are in; write those with a list that is empty now, return how many.

    The cells of an atom cover its rectangle, so every way down through cells it touches ends where it is found.
    """
    n = 0
    for i in range(atom.size):
        depth = begin_walk(start[i], stack)
        while depth > 0:
            depth -= 1
            node = stack[depth, 0]
            k = list_at(nodes, slots, node, key[i])
            if k >= 0 and take_out(number, lists, k, atom[i]):
                if lists[k, LENGTH] == 0 and n < emptied.size:
                    emptied[n] = node
                    n += 1
                continue
            depth = walk_on(nodes, steps, i, stack, depth)
    return n
