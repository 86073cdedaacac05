"""An ordered trie of words: a node for every beginning of an atom's words, in one order of all words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.shared.atoms import Atoms

#: Columns of a node: the root of its quadtree or -1, and a bit for the word of each child.
TREE, BITS = 0, 1
#: Columns of a slot of the table of children: -1 if nothing is there.
_PARENT, _WORD, _CHILD = 0, 1, 2
_FIRST_SIZE = 16


class TrieArrays(NamedTuple):
    """A trie as kernels read it."""

    rank: NDArray[np.int32]
    nodes: NDArray[np.int32]
    slots: NDArray[np.int32]


class Trie:
    """Nodes, and one hash table from a node and a word to a child; at most 7 of 10 slots are taken. The root is node 0.

    `rank` is the place of each word in the order; words beyond it come last, by number.
    """

    def __init__(self, rank: NDArray[np.int32]):
        self.rank = rank
        self.nodes = np.array([[-1, 0]], np.int32)
        self.slots = np.full((_FIRST_SIZE, 3), -1, np.int32)
        self._n = 1

    def __len__(self) -> int:
        return self._n

    @property
    def arrays(self) -> TrieArrays:
        """Return the arrays as they are at present."""
        return TrieArrays(self.rank, self.nodes, self.slots)

    def nodes_of(self, atoms: Atoms, chosen: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the node at the end of the words of each atom, made if there is none."""
        node = np.empty(len(chosen), np.int32)
        word = np.empty(int(atoms.n_words[chosen].max(initial=0)), np.int32)
        done = 0
        while True:
            done, self._n = _walk(self.nodes, self.slots, self._n, self.rank, atoms, chosen, done, word, node)
            if done == len(chosen):
                return node
            self._enlarge(len(word))

    def trim(self) -> None:
        """Free the spare room behind the nodes."""
        self.nodes = self.nodes[: self._n].copy()

    def _enlarge(self, n: int) -> None:
        needed = self._n + n
        if needed > len(self.nodes):
            nodes = np.empty((needed + needed // 2, 2), np.int32)
            nodes[: self._n] = self.nodes[: self._n]
            self.nodes = nodes
        if 10 * needed > 7 * len(self.slots):
            slots = np.full((2 * needed + _FIRST_SIZE, 3), -1, np.int32)
            _enter_again(self.slots, slots)
            self.slots = slots

    @property
    def nbytes(self) -> int:
        """Return the size of nodes, table and order."""
        return self.nodes.nbytes + self.slots.nbytes + self.rank.nbytes


@inlined
def rank_of(rank, word):
    """Return the place of a word in the order."""
    return rank[word] if word < rank.size else word


@inlined
def sort_by_rank(rank, word, n):
    """Bring the first n words into their order."""
    for i in range(1, n):
        moved, j = word[i], i
        while j > 0 and rank_of(rank, word[j - 1]) > rank_of(rank, moved):
            word[j] = word[j - 1]
            j -= 1
        word[j] = moved


@inlined
def child_bit(word):
    """Return which of the 31 bits of a node says that it may have a child of this word."""
    return ((np.int64(word) * 2654435769) >> 20) % 31


@inlined
def slot_of(slots, node, word):
    """Return the slot of a node's child, or the one it would be put into."""
    mixed = (node * 2654435769 + word * 2246822519) & 0xFFFF_FFFF
    at = (mixed * slots.shape[0]) >> 32
    while slots[at, _PARENT] >= 0 and (slots[at, _PARENT] != node or slots[at, _WORD] != word):
        at = at + 1 if at + 1 < slots.shape[0] else 0
    return at


@inlined
def child_of(slots, node, word):
    """Return the child of a node for a word, -1 if there is none."""
    return slots[slot_of(slots, np.int64(node), np.int64(word)), _CHILD]


@kernel
def _walk(nodes, slots, n_nodes, rank, atoms, chosen, done, word, found):
    """Write the nodes of the atoms from `done` on; return the first there is no room for, and the number of nodes."""
    for k in range(done, chosen.size):
        first, n = atoms.code_start[chosen[k]], atoms.n_words[chosen[k]]
        if n_nodes + n > nodes.shape[0] or 10 * (n_nodes + n) > 7 * slots.shape[0]:
            return k, n_nodes
        for i in range(n):
            word[i] = atoms.code[first + i]
        sort_by_rank(rank, word, n)
        node = 0
        for i in range(n):
            at = slot_of(slots, np.int64(node), np.int64(word[i]))
            if slots[at, _PARENT] < 0:
                slots[at, _PARENT], slots[at, _WORD], slots[at, _CHILD] = node, word[i], n_nodes
                nodes[node, BITS] |= 1 << child_bit(word[i])
                nodes[n_nodes, TREE], nodes[n_nodes, BITS] = -1, 0
                n_nodes += 1
            node = slots[at, _CHILD]
        found[k] = node
    return chosen.size, n_nodes


@hot_kernel
def _enter_again(slots, larger):
    for k in range(slots.shape[0]):
        if slots[k, _PARENT] >= 0:
            at = slot_of(larger, np.int64(slots[k, _PARENT]), np.int64(slots[k, _WORD]))
            for c in range(3):
                larger[at, c] = slots[k, c]
