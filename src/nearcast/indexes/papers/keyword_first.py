"""The index `keyword-first`: words alone decide what is looked at, a baseline of the Rt-tree paper.

The ranked-key inverted list of Yan and Garcia-Molina, as the Rt-tree paper (Li, Wang, Wang, Feng: KDD 2013, section
2.2) takes it for its keyword-first method: every atom is in one list, that of its rarest word. A message reads the
lists of its words, and whatever it finds there is verified, its words first and its place last.

What the paper leaves open was decided so:

- How rare a word is, is counted in the subscriptions there were when the index was built; it is built again when as
  many have come as there were. Words that came later are rarer than all others.
- An atom without a word that must be there, such as NOT spam, is in a list of its own that every message reads.

Time: the lengths of the lists of the message's words. Space: 4 bytes for each atom, 16 for each word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel, kernel
from nearcast.indexes import register
from nearcast.indexes.shared.atoms import box_holds, words_hold
from nearcast.indexes.shared.boolean_index import (
    LOOKED_AT,
    VERIFIED,
    BooleanBatch,
    BooleanIndex,
    FoundAtoms,
    finish_message,
    keep,
)
from nearcast.indexes.shared.kernel_message import begin_message
from nearcast.indexes.shared.number_lists import NumberLists
from nearcast.indexes.shared.predicates import message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.indexes.shared.atoms import Atoms

#: The list of atoms without a word; term t has the list t + 1.
_WORDLESS = 0


@register(
    "keyword-first",
    kinds=("within",),
    paper="Rt-tree (KDD 2013), section 2.2: keyword-first, after Yan and Garcia-Molina (ranked keys)",
    options={},
)
class KeywordFirstIndex(BooleanIndex):
    """An inverted list with every subscription under its rarest word.

    >>> from nearcast.geo import Space
    >>> len(KeywordFirstIndex(Space.plane()))
    0
    """

    def __init__(self, space: Space):
        super().__init__(space)
        self._count = np.zeros(0, np.int64)
        self._lists = NumberLists(1)

    def _build(self, atoms: NDArray[np.int32]) -> None:
        self._count = np.zeros(self._n_weights, np.int64)
        count_words(self._atoms, atoms, self._count)
        self._lists = NumberLists.of(self._list_of(atoms), atoms, self._n_weights + 1)

    def _insert_atoms(self, atoms: NDArray[np.int32]) -> None:
        self._lists.at_least(self._n_weights + 1)
        self._lists.add(self._list_of(atoms), atoms)

    def _remove_atoms(self, atoms: NDArray[np.int32]) -> None:
        self._lists.remove(self._list_of(atoms), atoms)

    def _search(self, batch: BooleanBatch, first: int, found: FoundAtoms) -> int:
        return int(_search_lists(self._lists.arrays, self._atoms, batch, first, found))

    def _bytes(self) -> int:
        return self._lists.nbytes + self._count.nbytes

    def _list_of(self, atoms: NDArray[np.int32]) -> NDArray[np.int32]:
        return rarest_words(self._atoms, atoms, self._count) + np.int32(1)


@kernel
def count_words(atoms, chosen, count):
    """Count in how many of the chosen atoms each word is needed."""
    for atom in chosen:
        first = atoms.code_start[atom]
        for i in range(first, first + atoms.n_words[atom]):
            count[atoms.code[i]] += 1


def rarest_words(atoms: Atoms, chosen: NDArray[np.int32], count: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the word of each chosen atom that counts least, of equals the lowest; -1 where there is none."""
    rarest = np.empty(len(chosen), np.int32)
    _write_rarest(atoms, chosen, count, rarest)
    return rarest


@kernel
def _write_rarest(atoms, chosen, count, rarest):
    """Write the rarest word of each chosen atom; a word beyond `count` counts nothing."""
    for k in range(chosen.size):
        first = atoms.code_start[chosen[k]]
        best, least = -1, 0
        for i in range(first, first + atoms.n_words[chosen[k]]):
            term = atoms.code[i]
            n = count[term] if term < count.size else 0
            if best < 0 or n < least:
                best, least = term, n
        rarest[k] = best


@hot_kernel
def _search_lists(lists, atoms, batch, first, found):
    """Search the messages from `first` on; return the first that is not done."""
    at = found.end[first - 1] if first > 0 else 0
    for message in range(first, found.end.size):
        looked_at, verified = found.tally[LOOKED_AT], found.tally[VERIFIED]
        n_words = begin_message(batch, message)
        n_places = message_parts(batch.box, message, batch.place)
        for w in range(-1, n_words):
            k = batch.word[w] + 1 if w >= 0 else _WORDLESS
            if k >= lists.first.size:
                continue
            begin = lists.first[k]
            looked_at += lists.length[k]
            for i in range(begin, begin + lists.length[k]):
                atom = lists.item[i]
                if words_hold(atoms, atom, batch.has):
                    verified += 1
                    if box_holds(atoms, atom, batch.place, n_places):
                        at = keep(atoms, atom, batch, message, n_places, found, at)
        if not finish_message(batch, message, n_words, found, at, looked_at, verified):
            return message
    return found.end.size
