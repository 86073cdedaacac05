"""The indexes `rt-tree` and `rt+-tree`: nodes are passed over by place or by token, what is left is verified.

Sections 3 and 4 of the Rt-tree paper (Li, Wang, Wang, Feng: KDD 2013). Every node of an R-tree has a set of tokens. In
`rt-tree` these are all words of the subscriptions below; in `rt+-tree` each subscription gives one word, its
representative token, chosen by `order` (see `order`). A message goes down from the root to every node that passes two
filters: the node's rectangle touches its place, and the node has a token that is one of its words. The subscriptions
in the leaves it reaches are the candidates, which are verified: the place first, then in `rt+-tree` the representative
token, of which the paper counts one for each entry of a leaf too, and the words last.

What differs from the paper, and what it leaves open:

- Overlap is of intervals, borders included: the paper's test for a vertex inside misses rectangles that cross.
- A node's tokens lie sorted in an array, with how many subscriptions below give each, so that the last one that goes
  takes the token with it. A message looks up each of its words by bisection, or, if the node has few tokens, looks
  these up among its own words, for which there is a table: the smaller side pays, where the paper's hash tables make
  the message pay. Words of a candidate are looked up in that table too, not by bisection.
- A subscription without a word that must be there, such as NOT spam, gives its nodes a token that every message has.
- If the root is a leaf it is filtered like any other leaf; otherwise the root is not filtered.
- Frequencies are counted when the index is built; it is built again when as many have come as there were.

Time: the nodes that pass, times their entries and the smaller of what a node and the message have; then the candidates.
Space: 40 bytes for each atom in the tree, 8 for each token of a node, of which a word of a subscription makes at most
one on each level; in `rt+-tree` 4 for the representative of each atom, and what the order has learnt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes import register
from nearcast.indexes.papers.rt_tree.order import checked_order
from nearcast.indexes.papers.rt_tree.token_tree import ALL, TokenTreeIndex
from nearcast.indexes.shared.atoms import words_hold
from nearcast.indexes.shared.boolean_index import LOOKED_AT, VERIFIED, BooleanBatch, FoundAtoms, finish_message, keep
from nearcast.indexes.shared.dynamic_rtree import ROOT, entry_touches
from nearcast.indexes.shared.kernel_message import begin_message
from nearcast.indexes.shared.node_tokens import NO_WORD, shared_pairs
from nearcast.indexes.shared.predicates import message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.geo import Space


class FilterScratch(NamedTuple):
    """Scratch arrays for one message: the queue of nodes whose token set intersects its words.

    `representative` is the representative token of each atom; it is empty in `rt-tree`.
    """

    nodes: NDArray[np.int32]
    shared: NDArray[np.int64]
    representative: NDArray[np.int32]


class _FilterIndex(TokenTreeIndex):
    """A tree of which the nodes that pass both filters are searched."""

    _representative = np.empty(0, np.int32)

    def _search(self, batch: BooleanBatch, first: int, found: FoundAtoms) -> int:
        n_nodes = len(self._tree.arrays.level)
        scratch = FilterScratch(np.empty(n_nodes, np.int32), np.empty(2, np.int64), self._representative)
        return int(_search_nodes(self._tree.arrays, self._tokens.arrays, self._atoms, batch, first, found, scratch))

    def candidates(self, messages: Messages, row: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the nodes that pass the filters for a message, and the slots in the leaves among them, ascending."""
        with self._lock:
            self._undo.roll_back()
            self._bring_up_to_date()
            batch = self._batch(messages.for_kernels(), np.array([row], np.int32))
            tree = self._tree.arrays
            scratch = FilterScratch(np.empty(len(tree.level), np.int32), np.empty(2, np.int64), self._representative)
            n_words = begin_message(batch, 0)
            n_places = message_parts(batch.box, 0, batch.place)
            n, _ = _candidate_nodes(tree, self._tokens.arrays, batch, n_words, n_places, scratch)
            nodes = scratch.nodes[:n]
            atoms, _ = self._tree.items_below(nodes[tree.level[nodes] == 0])
            return nodes, np.unique(self._slot_of[self._atoms.row[atoms]])


@register(
    "rt-tree",
    kinds=("within",),
    paper="Rt-tree (KDD 2013), section 3",
    options={"min_entries": 25, "max_entries": 50},
)
class RtTreeIndex(_FilterIndex):
    """An R-tree whose nodes have all words of the subscriptions below.

    >>> from nearcast.geo import Space
    >>> len(RtTreeIndex(Space.plane()))
    0
    """

    def __init__(self, space: Space, *, min_entries: int = 25, max_entries: int = 50):
        super().__init__(space, min_entries=min_entries, max_entries=max_entries, order="random")

    def _span(self, level: int) -> tuple[int, int]:
        return 0, ALL


@register(
    "rt+-tree",
    kinds=("within",),
    paper="Rt-tree (KDD 2013), section 4",
    options={"min_entries": 25, "max_entries": 50, "order": "locality"},
)
class RtPlusTreeIndex(_FilterIndex):
    """An R-tree whose nodes have one word of each subscription below, the first in `order`.

    >>> from nearcast.geo import Space
    >>> len(RtPlusTreeIndex(Space.plane(), order="df"))
    0
    """

    def __init__(self, space: Space, *, min_entries: int = 25, max_entries: int = 50, order: str = "locality"):
        options = checked_order(self.info.name, order)
        super().__init__(space, min_entries=min_entries, max_entries=max_entries, **options)
        self._options |= options

    def _build(self, atoms: NDArray[np.int32]) -> None:
        super()._build(atoms)
        self._representative = np.full(len(self._store), NO_WORD, np.int32)
        self._represent(atoms)

    def _insert_atoms(self, atoms: NDArray[np.int32]) -> None:
        super()._insert_atoms(atoms)
        missing = len(self._store) - len(self._representative)
        if missing > 0:
            more = np.full(missing + len(self._representative) // 4, NO_WORD, np.int32)
            self._representative = np.append(self._representative, more)
        self._represent(atoms)

    def _represent(self, atoms: NDArray[np.int32]) -> None:
        words = self._order.words_of(self._atoms, atoms)
        self._representative[atoms] = words.token[words.start[:-1]]

    def _bytes(self) -> int:
        return super()._bytes() + self._representative.nbytes

    def _span(self, level: int) -> tuple[int, int]:
        return 0, 1


@hot_kernel
def _candidate_nodes(tree, tokens, batch, n_words, n_places, scratch):
    """Write the nodes that pass both filters, level by level; return how many, and how many entries were looked at.

    A root that is not a leaf is not written.
    """
    root, nodes = tree.state[ROOT], scratch.nodes
    if tree.level[root] == 0:
        nodes[0] = root
        return shared_pairs(tokens, root, batch, n_words, 1, scratch.shared), 0
    n, at, looked_at, node = 0, 0, 0, root
    while tree.level[node] > 0:
        looked_at += tree.n_entries[node]
        for slot in range(tree.n_entries[node]):
            if entry_touches(tree.box, node, slot, batch.place, n_places):
                child = tree.entry[node, slot]
                if shared_pairs(tokens, child, batch, n_words, 1, scratch.shared) > 0:
                    nodes[n] = child
                    n += 1
        if at == n:
            break
        node = nodes[at]
        at += 1
    return n, looked_at


@hot_kernel
def _search_nodes(tree, tokens, atoms, batch, first, found, scratch):
    """Search the messages from `first` on; return the first that is not done."""
    at = found.end[first - 1] if first > 0 else 0
    for message in range(first, found.end.size):
        n_words = begin_message(batch, message)
        n_places = message_parts(batch.box, message, batch.place)
        n, looked_at = _candidate_nodes(tree, tokens, batch, n_words, n_places, scratch)
        looked_at, verified = found.tally[LOOKED_AT] + looked_at, found.tally[VERIFIED]
        for i in range(n - 1, -1, -1):
            node = scratch.nodes[i]
            if tree.level[node] > 0:
                break
            looked_at += tree.n_entries[node]
            for slot in range(tree.n_entries[node]):
                if entry_touches(tree.box, node, slot, batch.place, n_places):
                    atom = tree.entry[node, slot]
                    if _is_represented(scratch.representative, atom, batch.has):
                        verified += 1
                        if words_hold(atoms, atom, batch.has):
                            at = keep(atoms, atom, batch, message, n_places, found, at)
        if not finish_message(batch, message, n_words, found, at, looked_at, verified):
            return message
    return found.end.size


@inlined
def _is_represented(representative, atom, has):
    """Tell whether a message has the representative of an atom, where there is one."""
    if representative.size == 0:
        return True
    token = representative[atom]
    return token == NO_WORD or has[token] == 1
