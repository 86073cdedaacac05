"""The index `ir-tree`: an R-tree with an inverted file at every node, the rival of the Rt-tree paper.

The IR-tree (Cong, Jensen, Wu: PVLDB 2009) is made for the opposite question, which places have the words of a query.
The Rt-tree paper (Li, Wang, Wang, Feng: KDD 2013) takes it for subscriptions in one sentence of section 2.2, "by
traversing tree based indexes and pruning tree nodes using textual and spatial information", and finds it slower than
an R-tree alone: inverted files are large, and many nodes are gone through in vain. What it does not say was decided so:

- The file of a leaf lists, for each word of its subscriptions, those that need it; the file of any other node lists,
  for each word below it, the children that have it. These are the postings of the IR-tree without their weights.
- A message reads the lists of its words in every node it goes through. In a leaf it counts: a subscription that is in
  as many of these lists as it has words has them all, and its place is tested last. Further up, children that are in
  any of the lists and that the message touches are gone to: a child that is in none cannot hold an answer, while one
  that is in some may. The file cannot tell more, as it does not say whose words they are.
- A subscription without a word that must be there, such as NOT spam, is listed under a word that every message has.
- Lists are gone through as a message and a node share words: see `rt-tree`. Nodes that get or lose an entry have their
  file made anew, and tell the node above which words are new or gone.

Time: the lists of the message's words in all nodes it touches that have one of them. Space: 40 bytes for each atom in
the tree, 4 for each word of an atom and for each word of a child, 16 for each word of a node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.indexes import register
from nearcast.indexes.shared.boolean_index import (
    LOOKED_AT,
    VERIFIED,
    BooleanBatch,
    BooleanIndex,
    FoundAtoms,
    finish_message,
    keep,
)
from nearcast.indexes.shared.dynamic_rtree import ENTRIES, ROOT, DynamicRTree, checked_entries, entry_touches
from nearcast.indexes.shared.kernel_message import begin_message
from nearcast.indexes.shared.node_tokens import (
    COUNT,
    FIRST,
    NO_RECTS,
    NO_WORD,
    NodeTokens,
    Triples,
    shared_pairs,
    summed,
)
from nearcast.indexes.shared.predicates import message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space


class IrTreeScratch(NamedTuple):
    """Scratch arrays for one message: the stack of nodes, the words shared with a node, and hits by entry.

    `times` is by slot of the node, 0 between nodes.
    """

    stack: NDArray[np.int32]
    shared: NDArray[np.int64]
    times: NDArray[np.int32]


@register(
    "ir-tree",
    kinds=("within",),
    paper="Rt-tree (KDD 2013), section 2.2: IR-tree (PVLDB 2009), extended to subscriptions",
    options={"min_entries": 25, "max_entries": 50},
)
class IrTreeIndex(BooleanIndex):
    """An R-tree with an inverted file at every node.

    >>> from nearcast.geo import Space
    >>> len(IrTreeIndex(Space.plane()))
    0
    """

    def __init__(self, space: Space, *, min_entries: int = 25, max_entries: int = 50):
        super().__init__(space, **checked_entries(self.info.name, min_entries, max_entries))
        self._tree = DynamicRTree(min_entries, max_entries)
        self._files = NodeTokens(keeps_items=True)

    def _build(self, atoms: NDArray[np.int32]) -> None:
        self._tree.pack(atoms, self._atoms.box[atoms], len(self._store))
        self._fill()

    def _insert_atoms(self, atoms: NDArray[np.int32]) -> None:
        self._tree.insert(atoms, self._atoms.box[atoms], len(self._store))
        self._catch_up()

    def _remove_atoms(self, atoms: NDArray[np.int32]) -> None:
        dissolved = self._tree.remove(atoms)
        self._files.clear(np.array([each.node for each in dissolved], np.int32))
        shortened = self._tree.reinsert(dissolved)
        self._files.at_least(len(self._tree.arrays.level))
        self._files.clear(shortened)
        self._catch_up()

    def _search(self, batch: BooleanBatch, first: int, found: FoundAtoms) -> int:
        tree, room = self._tree.arrays, self._tree.arrays.entry.shape[1]
        stack = np.empty(self._tree.n_levels * room + 1, np.int32)
        scratch = IrTreeScratch(stack, np.empty(len(batch.word) + 1, np.int64), np.zeros(room, np.int32))
        return int(_search_files(tree, self._files.arrays, self._atoms, batch, first, found, scratch))

    def _bytes(self) -> int:
        return self._tree.nbytes + self._files.nbytes

    # The inverted files: their items are slots of the node.

    def _fill(self) -> None:
        """Make all files."""
        self._tree.forget_changes()
        self._files.fill(self._files_by_level(), len(self._tree.arrays.level))

    def _files_by_level(self) -> Iterator[Triples]:
        levels = self._tree.nodes_by_level()
        file = self._leaf_files(levels[0])
        yield file
        for nodes in levels[1:]:
            slot_of = np.empty(len(self._tree.arrays.level), np.int32)
            children, at = self._tree.entries_of(nodes)
            slot_of[children] = _slots(at)
            below = summed(file)
            file = Triples(self._tree.arrays.parent[below.node], below.token, slot_of[below.node], NO_RECTS)
            yield file

    def _leaf_files(self, leaves: NDArray[np.int32]) -> Triples:
        atoms, at = self._tree.entries_of(leaves)
        n = self._atoms.n_words[atoms]
        which = np.repeat(np.arange(len(atoms)), np.maximum(n, 1))
        token = np.full(len(which), NO_WORD, np.int32)
        has_word = n[which] > 0
        code = np.arange(has_word.sum()) + np.repeat(self._atoms.code_start[atoms] - (np.cumsum(n) - n), n)
        token[has_word] = self._atoms.code[code]
        return Triples(leaves[at][which], token, _slots(at)[which], NO_RECTS)

    def _inner_files(self, nodes: NDArray[np.int32]) -> Triples:
        children, at = self._tree.entries_of(nodes)
        token, which = self._files.tokens_of(children)
        return Triples(nodes[at][which], token, _slots(at)[which], NO_RECTS)

    def _catch_up(self) -> None:
        """Make the files of nodes anew that have other entries, and tell the nodes above which words came and went."""
        changed = self._tree.changed(ENTRIES)
        self._files.at_least(len(self._tree.arrays.level))
        if self._files.is_wasteful:
            self._fill()
            return
        is_changed = np.zeros(len(self._tree.arrays.level), bool)
        is_changed[changed] = True
        came = gone = np.empty(0, np.int64)
        for level in range(self._tree.n_levels + 1):
            came, gone = self._tell(self._above(came, is_changed), self._above(gone, is_changed))
            nodes = changed[self._tree.arrays.level[changed] == level]
            before = self._pairs_of(nodes)
            self._files.clear(nodes)
            self._files.refill(self._inner_files(nodes) if level else self._leaf_files(nodes))
            after = self._pairs_of(nodes)
            came = np.append(came, np.setdiff1d(after, before))
            gone = np.append(gone, np.setdiff1d(before, after))

    def _tell(self, came: Triples, gone: Triples) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Enter words of children that came and take out those that went; return which are new, and which are gone."""
        is_new = ~self._files.holds(came)
        self._files.add(came)
        self._files.remove(gone)
        is_gone = ~self._files.holds(gone)
        return np.unique(_keys(came)[is_new]), np.unique(_keys(gone)[is_gone])

    def _above(self, keys: NDArray[np.int64], is_changed: NDArray[np.bool_]) -> Triples:
        """Return what the words of nodes are to their parents, as far as these are not made anew."""
        node = (keys >> 32).astype(np.int32)
        parent = self._tree.arrays.parent[node]
        told = np.flatnonzero((node != self._tree.root) & ~is_changed[parent])
        node, parent = node[told], parent[told]
        slot = (self._tree.arrays.entry[parent] == node[:, None]).argmax(axis=1).astype(np.int32)
        return Triples(parent, (keys[told] & 0xFFFFFFFF).astype(np.int32) + np.int32(NO_WORD), slot, NO_RECTS)

    def _pairs_of(self, nodes: NDArray[np.int32]) -> NDArray[np.int64]:
        token, at = self._files.tokens_of(nodes)
        return _keys(Triples(nodes[at], token, token, NO_RECTS))


def _slots(at: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the slot of each entry, entries of a node being beside each other."""
    _, first, n = np.unique(at, return_index=True, return_counts=True)
    return (np.arange(len(at)) - np.repeat(first, n)).astype(np.int32)


def _keys(triples: Triples) -> NDArray[np.int64]:
    """Return nodes and tokens as one number each."""
    return (triples.node.astype(np.int64) << 32) | (triples.token - NO_WORD)


@hot_kernel
def _search_files(tree, files, atoms, batch, first, found, scratch):
    """Search the messages from `first` on; return the first that is not done."""
    at = found.end[first - 1] if first > 0 else 0
    for message in range(first, found.end.size):
        looked_at, verified = found.tally[LOOKED_AT], found.tally[VERIFIED]
        n_words = begin_message(batch, message)
        n_places = message_parts(batch.box, message, batch.place)
        scratch.stack[0], n_waiting = tree.state[ROOT], 1
        while n_waiting > 0:
            n_waiting -= 1
            node = scratch.stack[n_waiting]
            is_leaf = tree.level[node] == 0
            for s in range(shared_pairs(files, node, batch, n_words, scratch.shared.size, scratch.shared)):
                begin = files.list[scratch.shared[s], FIRST]
                end = begin + files.list[scratch.shared[s], COUNT]
                looked_at += end - begin
                for i in range(begin, end):
                    scratch.times[files.item[i]] += 1
            for slot in range(tree.n_entries[node]):
                times, scratch.times[slot] = scratch.times[slot], 0
                entry = tree.entry[node, slot]
                if times == 0 or (is_leaf and times < atoms.n_words[entry]):
                    continue
                if not is_leaf:
                    if entry_touches(tree.box, node, slot, batch.place, n_places):
                        scratch.stack[n_waiting] = entry
                        n_waiting += 1
                else:
                    verified += 1
                    if entry_touches(tree.box, node, slot, batch.place, n_places):
                        at = keep(atoms, entry, batch, message, n_places, found, at)
        if not finish_message(batch, message, n_words, found, at, looked_at, verified):
            return message
    return found.end.size
