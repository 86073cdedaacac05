"""The index `iq-tree`: a quadtree first, then an inverted file in each of its cells.

The IQ-Tree (Chen, Cong, Cao: SIGMOD 2013), as the AP-Tree paper describes and measures it (Wang, Zhang, Zhang, Lin,
Wang: VLDB Journal 2015, sections 3.1 and 5.1.1): a quadtree; every subscription is attached to one or several of its
cells by a cost model that balances matching and updates and looks at the distribution of subscriptions and messages;
a ranked-key inverted file in each cell, in which a subscription is in the one list of its least frequent word. A
message goes through the cells it touches, reads the lists of its words, and verifies what it finds. As in that paper,
costs are numbers of verifications, not of disk pages.

What the AP-Tree paper does not say was decided so:

- The cost of an atom in a cell (`quad.cells` has the formula) is how likely a message touches the cell and has the
  word, the two taken as independent, and `update` times the length of the way to the cell. The cells of an atom are the
  set of least cost that covers its rectangle, among the cells there are when it comes, unless that has more than 256;
  later only what is in a cell that is divided is assigned anew, and what is in four that are joined goes up.
- The distribution comes from the messages of `learn`, else from the subscriptions: where they are and what they ask
  for. How rare a word is, is counted in the subscriptions there were when the index was built; it is built again when
  as many have come as there were. Words that came later are rarer than all others.
- A leaf is divided when one of its lists has more than `leaf` entries that smaller cells may make cheaper, down to the
  level `depth`; four leaves with at most half as many in each list are joined when one of their lists gets empty.
- An atom without a word that must be there, such as NOT spam, is under a word that every message has.
- The frame is around most rectangles; what is outside counts to the cells at its border.
- An entry has the rectangle and a signature of the other words beside it, so that most are dismissed without a look at
  the atom. The levels at which a word has lists are known, so that it is not looked up at others.

Time: the cells a message touches, at most `depth` + 1 for a point, times its words, and the lengths of the lists found.
Space: 28 bytes for each cell an atom is in, 21 to 43 for each list, 24 for each cell, 20 for each word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel, kernel
from nearcast.indexes import register
from nearcast.indexes.papers.quad.cells import LENGTH, PARENT
from nearcast.indexes.papers.quad.entries import lacking, search_list
from nearcast.indexes.papers.quad.index import QUAD_OPTIONS
from nearcast.indexes.papers.quad.tables import CellTables, list_at
from nearcast.indexes.papers.quad.walk import begin_walk, empty_area, empty_stack, steps_of_place, walk_on
from nearcast.indexes.papers.quad.words import WORDLESS, RankedKeyIndex
from nearcast.indexes.shared.boolean_index import LOOKED_AT, VERIFIED, BooleanBatch, FoundAtoms, finish_message
from nearcast.indexes.shared.kernel_message import begin_message
from nearcast.indexes.shared.predicates import message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray


@register(
    "iq-tree",
    kinds=("within",),
    paper="IQ-Tree (SIGMOD 2013), as the AP-Tree paper (VLDB Journal 2015), sections 3.1 and 5.1.1, describes it",
    options=QUAD_OPTIONS,
)
class IqTreeIndex(RankedKeyIndex):
    """A quadtree with an inverted file in each cell, every subscription under its rarest word.

    >>> from nearcast.geo import Space
    >>> len(IqTreeIndex(Space.plane()))
    0
    """

    def _begin(self) -> None:
        self._trees.new_roots(1)
        self._tables = CellTables()
        self._levels = np.zeros(self._n_weights + 1, np.int32)

    def _roots(self, key: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.zeros(len(key), np.int32)

    def _lay_out(self, node: NDArray[np.int32], key: NDArray[np.int32]) -> None:
        self._tables.lay_out(self._trees.nodes, node, key)
        _mark_levels(self._trees.cold, node, key, self._levels)

    @property
    def _lists(self) -> NDArray[np.int32]:
        return self._tables.slots

    @property
    def _slots(self) -> NDArray[np.int32]:
        return self._tables.slots

    def _lists_for(self, node: NDArray[np.int32], key: NDArray[np.int32]) -> NDArray[np.int32]:
        if self._n_weights >= len(self._levels):
            more = np.zeros(self._n_weights + 1 - len(self._levels) + len(self._levels) // 4, np.int32)
            self._levels = np.concatenate([self._levels, more])
        _mark_levels(self._trees.cold, node, key, self._levels)
        return self._tables.lists(self._trees.nodes, node, key)

    def _lists_of(self, node: int) -> NDArray[np.int32]:
        return self._tables.lists_of(self._trees.nodes, node)

    def _drop_lists(self, node: int) -> None:
        self._tables.drop(self._trees.nodes, node)

    def _search(self, batch: BooleanBatch, first: int, found: FoundAtoms) -> int:
        arrays = self._levels, self._trees.nodes, self._tables.slots, self._entries.arrays, self._traffic
        return int(_search_cells(*arrays, self._atoms, batch, first, found, empty_area(), empty_stack()))

    def _bytes(self) -> int:
        return super()._bytes() + self._tables.slots.nbytes + self._levels.nbytes


@kernel
def _mark_levels(cold, node, key, levels):
    """Set the bit of the level of each node in the number of its key."""
    for i in range(node.size):
        level, above = 0, cold[node[i], PARENT]
        while above >= 0:
            level, above = level + 1, cold[above, PARENT]
        levels[key[i]] |= 1 << level


@hot_kernel
def _search_cells(levels, nodes, slots, entries, traffic, atoms, batch, first, found, area, stack):
    """Search the messages from `first` on; return the first that is not done."""
    at = found.end[first - 1] if first > 0 else 0
    for message in range(first, found.end.size):
        looked_at, verified = found.tally[LOOKED_AT], found.tally[VERIFIED]
        n_words = begin_message(batch, message)
        n_places = message_parts(batch.box, message, batch.place)
        steps_of_place(traffic, batch.place, n_places, area)
        lacks = lacking(batch, n_words)
        for p in range(n_places):
            depth = begin_walk(0, stack)
            while depth > 0:
                depth -= 1
                node, level = stack[depth, 0], stack[depth, 1]
                for w in range(-1, n_words):
                    key = batch.word[w] + 1 if w >= 0 else WORDLESS
                    if key >= levels.size or (levels[key] >> level) & 1 == 0:
                        continue
                    k = list_at(nodes, slots, node, key)
                    if k >= 0:
                        looked_at += slots[k, LENGTH]
                        at, verified = search_list(
                            entries, slots, k, lacks, p, n_places, atoms, batch, message, found, at, verified
                        )
                depth = walk_on(nodes, area, p, stack, depth)
        if not finish_message(batch, message, n_words, found, at, looked_at, verified):
            return message
    return found.end.size
