"""Entries of atoms in lists, with all that the first test needs side by side.

An entry is a row of 32-bit numbers: the rectangle as floats rounded outwards, the atom, and, where words are not known
to hold, a signature of the words other than the one it is listed under, 31 bits each. A list is three neighbours of a
row of 32-bit numbers, the row of a node or of a table: where it begins, its length and its room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined, kernel
from nearcast.indexes.papers.quad.cells import FIRST, LENGTH, ROOM
from nearcast.indexes.shared.boolean_index import verify
from nearcast.indexes.shared.filters import outwards

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.shared.atoms import Atoms

#: Columns of an entry behind its rectangle.
ATOM, LOW_BITS, HIGH_BITS = 4, 5, 6
_FIRST_ROOM = 2


class EntryArrays(NamedTuple):
    """Entries, and the same memory read as floats."""

    number: NDArray[np.int32]
    box: NDArray[np.float32]


class EntryLists:
    """Lists of entries in one array. A list without room moves to the end of the array, with twice as much."""

    def __init__(self, width: int):
        self.arrays = _arrays(np.empty((0, width), np.int32))
        self._used = 0

    def lay_out(self, entry: NDArray[np.int32], item: NDArray[np.int32] | NDArray[np.int64]) -> None:
        """Take entries of these items, in this order, for all there are."""
        self.arrays = _arrays(np.ascontiguousarray(entry[item]))
        self._used = len(item)

    def add(self, lists: NDArray[np.int32], list_of: NDArray[np.int32], entry: NDArray[np.int32]) -> None:
        """Put entry i at the end of the list in row `list_of[i]` of `lists`."""
        done = 0
        while True:
            done, self._used = _add(self.arrays.number, lists, list_of, entry, done, self._used)
            if done == len(entry):
                return
            needed = self._used + 2 * int(lists[list_of[done], ROOM]) + _FIRST_ROOM
            more = np.empty((needed + needed // 4, entry.shape[1]), np.int32)
            more[: self._used] = self.arrays.number[: self._used]
            self.arrays = _arrays(more)

    def renumber(self, number: NDArray[np.int32]) -> None:
        """Give every atom the number that `number` has for it; room that no list uses may hold anything."""
        atom = self.arrays.number[: self._used, ATOM]
        atom[:] = number[np.clip(atom, 0, len(number) - 1)]

    @property
    def nbytes(self) -> int:
        """Return the size of all entries, room included."""
        return self.arrays.number.nbytes


def _arrays(number: NDArray[np.int32]) -> EntryArrays:
    return EntryArrays(number, number.view(np.float32))


def entry_rows(columns: Atoms, atoms: NDArray[np.int32], key: NDArray[np.int32], width: int) -> NDArray[np.int32]:
    """Return the entry of each atom, listed under `key`, with a signature if it is wide enough for one."""
    entry = np.zeros((len(atoms), width), np.int32)
    entry[:, :ATOM] = outwards(columns.box[atoms]).view(np.int32)
    entry[:, ATOM] = atoms
    if width > ATOM + 1:
        sign(columns, atoms, key, entry)
    return entry


@inlined
def word_bit(term):
    """Return which of the 62 bits of a signature is a term's."""
    return ((np.int64(term) * 2654435769) >> 20) % 62


@kernel
def sign(atoms, chosen, key, entry):
    """Write a bit for every word of the chosen atoms but the one it is listed under, `key` - 1."""
    for k in range(chosen.size):
        first, low, high = atoms.code_start[chosen[k]], 0, 0
        for i in range(first, first + atoms.n_words[chosen[k]]):
            if atoms.code[i] != key[k] - 1:
                bit = word_bit(atoms.code[i])
                if bit < 31:
                    low |= 1 << bit
                else:
                    high |= 1 << (bit - 31)
        entry[k, LOW_BITS], entry[k, HIGH_BITS] = low, high


@inlined
def lacking(batch, n_words):
    """Return the bits, low and high ones, that no word of a message has: an entry with one of them is none of its."""
    low, high = 0, 0
    for w in range(n_words):
        bit = word_bit(batch.word[w])
        if bit < 31:
            low |= 1 << bit
        else:
            high |= 1 << (bit - 31)
    return low ^ 0x7FFF_FFFF, high ^ 0x7FFF_FFFF


@inlined
def in_reach(box, i, place, p):
    """Tell whether the rectangle of entry i touches part p of a message's place."""
    return (
        (box[i, 0] <= place[p, 2])
        & (box[i, 2] >= place[p, 0])
        & (box[i, 1] <= place[p, 3])
        & (box[i, 3] >= place[p, 1])
    )


@inlined
def search_list(entries, lists, k, lacks, p, n_places, atoms, batch, message, found, at, verified):
    """Look at the list in row k of `lists` for a message that `lacks` these bits; return atoms found and verified."""
    low, high = lacks
    first = lists[k, FIRST]
    for i in range(first, first + lists[k, LENGTH]):
        foreign = (entries.number[i, LOW_BITS] & low) | (entries.number[i, HIGH_BITS] & high)
        if (foreign == 0) & in_reach(entries.box, i, batch.place, p):
            verified += 1
            at = verify(atoms, entries.number[i, ATOM], batch, message, n_places, found, at)
    return at, verified


@hot_kernel
def _add(number, lists, list_of, entry, done, used):
    """Add the entries from `done` on; return the first one there is no room for, or their number, and the room used."""
    for i in range(done, list_of.size):
        k = list_of[i]
        n = lists[k, LENGTH]
        if n == lists[k, ROOM]:
            room = max(2 * n, _FIRST_ROOM)
            if used + room > number.shape[0]:
                return i, used
            first = lists[k, FIRST]
            for j in range(n):
                for c in range(number.shape[1]):
                    number[used + j, c] = number[first + j, c]
            lists[k, FIRST], lists[k, ROOM] = used, room
            used += room
        for c in range(number.shape[1]):
            number[lists[k, FIRST] + n, c] = entry[i, c]
        lists[k, LENGTH] = n + 1
    return list_of.size, used


@inlined
def take_out(number, lists, k, atom):
    """Take an atom's entry out of the list in row k, where the last one takes its place; tell whether it was there."""
    first = lists[k, FIRST]
    last = first + lists[k, LENGTH] - 1
    for i in range(first, last + 1):
        if number[i, ATOM] == atom:
            for c in range(number.shape[1]):
                number[i, c] = number[last, c]
            lists[k, LENGTH] -= 1
            return True
    return False
