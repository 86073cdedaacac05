"""An R-tree whose nodes have tokens of the atoms below them: what Rt, Rt+ and Rt++ share, and how it changes.

The three differ in which words of an atom are tokens of the nodes above it: all of them, the first, or on each level
the next. Nodes that are split get their tokens anew from the atoms below; every other node on the way of an atom that
comes, goes or moves is told of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nearcast.indexes.papers.rt_tree.order import AtomWords, TokenOrder
from nearcast.indexes.shared.boolean_index import BooleanIndex
from nearcast.indexes.shared.dynamic_rtree import SPLIT, DissolvedNode, DynamicRTree, checked_entries
from nearcast.indexes.shared.node_tokens import NO_RECTS, NodeTokens, Triples, outwards, summed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space

ALL = 1 << 40


class TokenTreeIndex(BooleanIndex):
    """An R-tree with tokens; a subclass says which words of an atom they are (`_span`), and searches."""

    #: Whether a node keeps the atoms of each token in a list, or only counts them.
    _keeps_lists: ClassVar[bool] = False
    #: Whether the tokens of a node depend on the number of levels above it.
    _goes_by_level: ClassVar[bool] = False

    def __init__(self, space: Space, *, min_entries: int, max_entries: int, order: str, **options: Any):
        super().__init__(space, **checked_entries(self.info.name, min_entries, max_entries), **options)
        self._tree = DynamicRTree(min_entries, max_entries)
        self._tokens = NodeTokens(keeps_items=self._keeps_lists)
        self._order = TokenOrder(order)

    @abstractmethod
    def _span(self, level: int) -> tuple[int, int]:
        """Return the number of the first word of an atom that is a token of nodes on a level, and of how many."""

    def _items(self, level: int, atoms: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the list entries of atoms on a level."""
        return atoms

    def _build(self, atoms: NDArray[np.int32]) -> None:
        self._order.learn(self._atoms, atoms, self._n_weights)
        self._tree.pack(atoms, self._atoms.box[atoms], len(self._store))
        self._fill()

    def _insert_atoms(self, atoms: NDArray[np.int32]) -> None:
        n_levels = self._tree.n_levels
        self._tree.insert(atoms, self._atoms.box[atoms], len(self._store))
        self._catch_up([(atoms, 0)], n_levels)

    def _remove_atoms(self, atoms: NDArray[np.int32]) -> None:
        n_levels = self._tree.n_levels
        words = self._order.words_of(self._atoms, atoms)
        for level, nodes in enumerate(self._tree.above(atoms)):
            self._tokens.remove(self._triples(level, nodes, atoms, words))
        dissolved = self._tree.remove(atoms)
        for each in dissolved:
            self._forget(each)
        self._tree.reinsert(dissolved)
        self._tokens.at_least(len(self._tree.arrays.level))  # a root may be new since
        if self._tree.n_levels:
            self._tokens.clear(np.array([self._tree.root], np.int32))
        self._catch_up([(each.items, each.level) for each in dissolved], n_levels)

    def _bytes(self) -> int:
        return self._tree.nbytes + self._tokens.nbytes + self._order.nbytes

    # Tokens

    def _forget(self, dissolved: DissolvedNode) -> None:
        """Take what was below a dissolved node from the nodes above it."""
        atoms = dissolved.items
        words = self._order.words_of(self._atoms, atoms)
        for up, node in enumerate(dissolved.above, dissolved.level + 1):
            nodes = np.full(len(atoms), node, np.int32)
            self._tokens.remove(self._triples(up, nodes, atoms, words))
        self._tokens.clear(np.array([dissolved.node], np.int32))

    def _catch_up(self, moved: list[tuple[NDArray[np.int32], int]], n_levels: int) -> None:
        """Give nodes the tokens of atoms that have come to them, and to the nodes above them from a level on.

        `n_levels` is how many there were before.
        """
        split = self._tree.changed(SPLIT)
        self._tokens.at_least(len(self._tree.arrays.level))
        if self._tokens.is_wasteful or (self._goes_by_level and n_levels != self._tree.n_levels):
            self._fill()
            return
        is_split = np.zeros(len(self._tree.arrays.level), bool)
        is_split[split] = True
        for atoms, lowest in moved:
            words = self._order.words_of(self._atoms, atoms)
            for level, nodes in enumerate(self._tree.above(atoms)):
                at = np.flatnonzero(~is_split[nodes])
                if level >= lowest and len(at):
                    self._tokens.add(self._triples(level, nodes[at], atoms[at], _taken(words, at)))
        self._tokens.clear(split)
        for level in range(max(self._tree.n_levels, 1)):
            nodes = split[self._tree.arrays.level[split] == level]
            if len(nodes):
                self._tokens.refill(self._triples_below(nodes))

    def _triples_below(self, nodes: NDArray[np.int32]) -> Triples:
        """Return the tokens of nodes of one level."""
        atoms, at = self._tree.items_below(nodes)
        words = self._order.words_of(self._atoms, atoms)
        return self._triples(int(self._tree.arrays.level[nodes[0]]), nodes[at], atoms, words)

    def _triples(self, level: int, nodes: NDArray[np.int32], atoms: NDArray[np.int32], words: AtomWords) -> Triples:
        """Return the tokens that nodes of a level have of atoms, one node for each atom."""
        skipped, n_most = self._span(level)
        first = words.start[:-1] + skipped
        n = np.clip(words.start[1:] - first, 0, n_most)
        at = np.repeat(np.arange(len(atoms)), n)
        token = words.token[np.arange(len(at)) + np.repeat(first - (np.cumsum(n) - n), n)]
        if not self._keeps_lists:
            return Triples(nodes[at], token, np.ones(len(at), np.int32), NO_RECTS)
        atom = atoms[at]
        return Triples(nodes[at], token, self._items(level, atom), outwards(self._atoms.box[atom]))

    def _fill(self) -> None:
        """Give all nodes their tokens."""
        self._tree.forget_changes()
        parts = self._lists_by_level() if self._keeps_lists else self._counts_by_level()
        self._tokens.fill(parts, len(self._tree.arrays.level))

    def _lists_by_level(self) -> Iterator[Triples]:
        atoms, _ = self._tree.items_below(np.array([self._tree.root], np.int32))
        words = self._order.words_of(self._atoms, atoms)
        for level, nodes in enumerate(self._tree.above(atoms)):
            yield self._triples(level, nodes, atoms, words)

    def _counts_by_level(self) -> Iterator[Triples]:
        """Count in the leaves, then upwards in what has been counted."""
        levels = self._tree.nodes_by_level()
        triples = self._triples_below(levels[0])
        for _ in levels[:-1]:
            triples = summed(triples)
            yield triples
            triples = triples._replace(node=self._tree.arrays.parent[triples.node])
        if len(levels) == 1:
            yield triples


def _taken(words: AtomWords, at: NDArray[np.int64]) -> AtomWords:
    """Return the words of some of the atoms."""
    first, n = words.start[:-1][at], np.diff(words.start)[at]
    start = np.append(0, np.cumsum(n))
    return AtomWords(start, words.token[np.arange(start[-1]) + np.repeat(first - start[:-1], n)])
