"""The index `rq-tree`: words first, then a quadtree for each word.

The keyword-first counterpart of the IQ-Tree that the AP-Tree paper (Wang, Zhang, Zhang, Lin, Wang: VLDB Journal 2015,
section 5.1.1) builds to compare itself with: a ranked-key inverted list puts every atom under its least frequent word,
and the atoms of each word are in a quadtree, for which the cost model of the IQ-Tree is used. A message walks through
the trees of its words, along the cells it touches, and looks at the lists there.

What the paper leaves open was decided as for `iq-tree` (see there), with these differences:

- The trees have one frame and one expected distribution of messages, but each is divided for itself, where its own list
  overflows: a rare word has a single list.
- The cost of a cell takes the word into account: it is the chance that a message has it, times the cell's share.

Time: for each word of a message the cells it touches, at most `depth` + 1 of them for a point, and the lengths of their
lists. Space: 28 bytes for each cell an atom is in, 24 for each node, 20 for each word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.indexes import register
from nearcast.indexes.papers.quad.cells import LENGTH
from nearcast.indexes.papers.quad.entries import lacking, search_list
from nearcast.indexes.papers.quad.index import QUAD_OPTIONS
from nearcast.indexes.papers.quad.walk import begin_walk, empty_area, empty_stack, steps_of_place, walk_on
from nearcast.indexes.papers.quad.words import WORDLESS, RankedKeyIndex
from nearcast.indexes.shared.boolean_index import LOOKED_AT, VERIFIED, BooleanBatch, FoundAtoms, finish_message
from nearcast.indexes.shared.kernel_message import begin_message
from nearcast.indexes.shared.predicates import message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray


@register(
    "rq-tree",
    kinds=("within",),
    paper="AP-Tree (VLDB Journal 2015), section 5.1.1: RQ-Tree, ranked keys with a quadtree each",
    options=QUAD_OPTIONS,
)
class RqTreeIndex(RankedKeyIndex):
    """An inverted list with every subscription under its rarest word, each list in a quadtree.

    >>> from nearcast.geo import Space
    >>> len(RqTreeIndex(Space.plane()))
    0
    """

    def _begin(self) -> None:
        self._root_of = np.full(self._n_weights + 1, -1, np.int32)

    def _roots(self, key: NDArray[np.int32]) -> NDArray[np.int32]:
        if self._n_weights >= len(self._root_of):
            more = np.full(self._n_weights + 1 - len(self._root_of) + len(self._root_of) // 4, -1, np.int32)
            self._root_of = np.concatenate([self._root_of, more])
        new = np.unique(key[self._root_of[key] < 0])
        self._root_of[new] = self._trees.new_roots(len(new))
        return self._root_of[key]

    def _search(self, batch: BooleanBatch, first: int, found: FoundAtoms) -> int:
        arrays = self._root_of, self._trees.nodes, self._entries.arrays, self._traffic
        return int(_search_trees(*arrays, self._atoms, batch, first, found, empty_area(), empty_stack()))

    def _bytes(self) -> int:
        return super()._bytes() + self._root_of.nbytes


@hot_kernel
def _search_trees(root_of, nodes, entries, traffic, atoms, batch, first, found, area, stack):
    """Search the messages from `first` on; return the first that is not done."""
    at = found.end[first - 1] if first > 0 else 0
    for message in range(first, found.end.size):
        looked_at, verified = found.tally[LOOKED_AT], found.tally[VERIFIED]
        n_words = begin_message(batch, message)
        n_places = message_parts(batch.box, message, batch.place)
        steps_of_place(traffic, batch.place, n_places, area)
        lacks = lacking(batch, n_words)
        for w in range(-1, n_words):
            key = batch.word[w] + 1 if w >= 0 else WORDLESS
            root = root_of[key] if key < root_of.size else -1
            for p in range(n_places if root >= 0 else 0):
                depth = begin_walk(root, stack)
                while depth > 0:
                    depth -= 1
                    node = stack[depth, 0]
                    looked_at += nodes[node, LENGTH]
                    at, verified = search_list(
                        entries, nodes, node, lacks, p, n_places, atoms, batch, message, found, at, verified
                    )
                    depth = walk_on(nodes, area, p, stack, depth)
        if not finish_message(batch, message, n_words, found, at, looked_at, verified):
            return message
    return found.end.size
