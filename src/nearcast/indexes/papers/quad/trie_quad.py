"""The index `trie-quad`: an ordered trie of words first, then a quadtree for each set of words.

Trie-Qd of the AP-Tree paper (Wang, Zhang, Zhang, Lin, Wang: VLDB Journal 2015, section 5.1.2): the ordered keyword trie
of Hmedeh et al. holds the subscriptions, and those with the same words are divided by a quadtree. A message goes down
the trie along its own words in their order; wherever it comes to, all words hold, and the quadtree there says whose
rectangle does.

What the paper leaves open was decided so:

- Words are in decreasing order of frequency, as the paper sorts them elsewhere, counted in the subscriptions there were
  when the index was built; it is built again when as many have come as there were. Words that came later come last.
- Quadtrees are those of `rq-tree`, with their cost model: how likely a message looks at one is the product of the
  chances of its words.
- A node of the trie has 31 bits that say which words its children may have, so that most words are not looked up.
- A node that no atom needs any more stays until the index is built again.

Time: the beginnings of word sets that the words of a message make up, times its words, and the cells and lists of the
quadtrees there. Space: for each atom 20 bytes for each cell it is in, 24 for each node of a quadtree; for each
beginning of a word set 8 and in the table 17 to 24; 20 for each word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel, inlined, kernel
from nearcast.indexes import register
from nearcast.indexes.papers.quad.cells import FIRST, LENGTH
from nearcast.indexes.papers.quad.entries import ATOM, in_reach
from nearcast.indexes.papers.quad.index import QUAD_OPTIONS, QuadIndex
from nearcast.indexes.papers.quad.trie import BITS, TREE, Trie, child_bit, child_of, sort_by_rank
from nearcast.indexes.papers.quad.walk import begin_walk, empty_area, empty_stack, steps_of_place, walk_on
from nearcast.indexes.shared.atoms import box_holds
from nearcast.indexes.shared.boolean_index import LOOKED_AT, VERIFIED, BooleanBatch, FoundAtoms, finish_message, keep
from nearcast.indexes.shared.kernel_message import begin_message
from nearcast.indexes.shared.predicates import message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray


@register(
    "trie-quad",
    kinds=("within",),
    paper="AP-Tree (VLDB Journal 2015), section 5.1.2: Trie-Qd, an ordered keyword trie with quadtrees",
    options=QUAD_OPTIONS,
)
class TrieQuadIndex(QuadIndex):
    """An ordered trie of words, with a quadtree for the subscriptions of each set of words.

    >>> from nearcast.geo import Space
    >>> len(TrieQuadIndex(Space.plane()))
    0
    """

    _WIDTH = 5

    def _begin(self) -> None:
        rank = np.empty(len(self._count), np.int32)
        rank[np.argsort(-self._count, kind="stable")] = np.arange(len(rank))
        self._trie = Trie(rank)

    def _keys(self, atoms: NDArray[np.int32]) -> NDArray[np.int32]:
        return self._trie.nodes_of(self._atoms, atoms)

    def _chances(self, atoms: NDArray[np.int32], key: NDArray[np.int32]) -> NDArray[np.float64]:
        chance = np.empty(len(atoms))
        _products(self._atoms, atoms, self._traffic.chance, 1 / (self._n_counted + 1), chance)
        return chance

    def _roots(self, key: NDArray[np.int32]) -> NDArray[np.int32]:
        new = np.unique(key[self._trie.nodes[key, TREE] < 0])
        self._trie.nodes[new, TREE] = self._trees.new_roots(len(new))
        return np.ascontiguousarray(self._trie.nodes[key, TREE])

    def _lay_out(self, node: NDArray[np.int32], key: NDArray[np.int32]) -> None:
        super()._lay_out(node, key)
        self._trie.trim()

    def _search(self, batch: BooleanBatch, first: int, found: FoundAtoms) -> int:
        way = np.empty((len(batch.word) + 1, 3), np.int32)
        arrays = self._trie.arrays, self._trees.nodes, self._entries.arrays, self._traffic
        return int(_search_trie(*arrays, self._atoms, batch, first, found, empty_area(), empty_stack(), way))

    def _bytes(self) -> int:
        return super()._bytes() + self._trie.nbytes


@kernel
def _products(atoms, chosen, chance, unknown, out):
    """Write how likely a message has all words of each atom, if they come independently."""
    for k in range(chosen.size):
        first, product = atoms.code_start[chosen[k]], 1.0
        for i in range(first, first + atoms.n_words[chosen[k]]):
            key = atoms.code[i] + 1
            product *= chance[key] if key < chance.size else unknown
        out[k] = product


@inlined
def _search_tree(nodes, root, entries, atoms, batch, message, p, n_places, area, stack, found, at):
    """Look at the lists of a quadtree that part p of a message touches.

    Return how many atoms have been found until now, and how many entries were looked at and verified here.
    """
    looked_at, verified = 0, 0
    depth = begin_walk(root, stack)
    while depth > 0:
        depth -= 1
        k = stack[depth, 0]
        looked_at += nodes[k, LENGTH]
        for i in range(nodes[k, FIRST], nodes[k, FIRST] + nodes[k, LENGTH]):
            if in_reach(entries.box, i, batch.place, p):
                verified += 1
                if box_holds(atoms, entries.number[i, ATOM], batch.place, n_places):
                    at = keep(atoms, entries.number[i, ATOM], batch, message, n_places, found, at)
        depth = walk_on(nodes, area, p, stack, depth)
    return at, looked_at, verified


@hot_kernel
def _search_trie(trie, nodes, entries, traffic, atoms, batch, first, found, area, stack, way):
    """Search the messages from `first` on; return the first that is not done.

    `way[d]` is the node of the trie at depth d and the next word to try there; `way[w, 2]` the bit of word w.
    """
    at = found.end[first - 1] if first > 0 else 0
    for message in range(first, found.end.size):
        looked_at, verified = found.tally[LOOKED_AT], found.tally[VERIFIED]
        n_words = begin_message(batch, message)
        n_places = message_parts(batch.box, message, batch.place)
        steps_of_place(traffic, batch.place, n_places, area)
        sort_by_rank(trie.rank, batch.word, n_words)
        for w in range(n_words):
            way[w, 2] = child_bit(batch.word[w])
        way[0, 0], way[0, 1] = 0, 0
        length, is_new = 0, True
        while length >= 0:
            node = way[length, 0]
            for p in range(n_places if is_new and trie.nodes[node, TREE] >= 0 else 0):
                root = trie.nodes[node, TREE]
                at, seen, tried = _search_tree(
                    nodes, root, entries, atoms, batch, message, p, n_places, area, stack, found, at
                )
                looked_at, verified = looked_at + seen, verified + tried
            w = way[length, 1]
            while w < n_words and (trie.nodes[node, BITS] >> way[w, 2]) & 1 == 0:
                w += 1
            is_new = False
            if w == n_words:
                length -= 1
                continue
            way[length, 1] = w + 1
            child = child_of(trie.slots, node, batch.word[w])
            if child >= 0:
                length, is_new = length + 1, True
                way[length, 0], way[length, 1] = child, w + 1
        if not finish_message(batch, message, n_words, found, at, looked_at, verified):
            return message
    return found.end.size
