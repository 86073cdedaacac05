"""Lists of entries by cell and word, in flat arrays: space first or words first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.papers.quad.entries import EntryArrays, EntryLists, take_out
from nearcast.indexes.papers.quad.tables import CellTables, list_at

if TYPE_CHECKING:
    from numpy.typing import NDArray


class GridArrays(NamedTuple):
    """The lists as kernels read them: `owners[i]` has a hash table in `slots`, whose rows are lists of entries.

    Space first, owners are cells and the keys of their tables words; words first, it is the reverse.
    """

    is_space_first: bool
    owners: NDArray[np.int32]
    slots: NDArray[np.int32]
    entries: EntryArrays


class GridLists:
    """Lists of entries by cell and key of a word, which grow and shrink; `width` numbers an entry."""

    def __init__(self, width: int, *, is_space_first: bool):
        self._is_space_first = is_space_first
        self._owners = np.zeros((1, 4), np.int32)
        self._tables, self._entries = CellTables(), EntryLists(width)

    @property
    def arrays(self) -> GridArrays:
        """Return the lists as kernels read them."""
        return GridArrays(self._is_space_first, self._owners, self._tables.slots, self._entries.arrays)

    def lay_out(
        self, cell: NDArray[np.int32], word: NDArray[np.int32], entry: NDArray[np.int32], item: NDArray[np.int64]
    ) -> None:
        """Take these entries for all there are: `entry[item[i]]` in the list of `cell[i]` and `word[i]`."""
        owner, key = self._ranked(cell, word)
        order = np.lexsort((key, owner))
        owner, key = np.ascontiguousarray(owner[order]), np.ascontiguousarray(key[order])
        self._owners = np.zeros((int(owner.max(initial=0)) + 1, 4), np.int32)
        self._tables.lay_out(self._owners, owner, key)
        self._entries.lay_out(entry, item[order])

    def add(self, cell: NDArray[np.int32], word: NDArray[np.int32], entry: NDArray[np.int32]) -> None:
        """Put `entry[i]` at the end of the list of `cell[i]` and `word[i]`."""
        owner, key = self._ranked(cell, word)
        n = int(owner.max(initial=0)) + 1
        if n > len(self._owners):
            more = np.zeros((n + n // 4 - len(self._owners), 4), np.int32)
            self._owners = np.concatenate([self._owners, more])
        list_of = self._tables.lists(self._owners, owner, key)
        self._entries.add(self._tables.slots, list_of, entry)

    def remove(self, cell: NDArray[np.int32], word: NDArray[np.int32], atom: NDArray[np.int32]) -> None:
        """Take the entry of `atom[i]` out of the list of `cell[i]` and `word[i]`."""
        _take_out_of_lists(
            self._owners, self._tables.slots, self._entries.arrays.number, *self._ranked(cell, word), atom
        )

    @property
    def nbytes(self) -> int:
        """Return the size of all arrays, room included."""
        return self._owners.nbytes + self._tables.slots.nbytes + self._entries.nbytes

    def _ranked(self, cell: NDArray[np.int32], word: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return what comes first, and what comes second."""
        return (cell, word) if self._is_space_first else (word, cell)


@inlined
def grid_list(lists, cell, word):
    """Return the row of `slots` that has the list of a cell and a word, -1 if there is none."""
    owner, key = (cell, word) if lists.is_space_first else (word, cell)
    if owner >= lists.owners.shape[0]:
        return np.int64(-1)
    return list_at(lists.owners, lists.slots, owner, key)


@hot_kernel
def _take_out_of_lists(owners, slots, number, owner, key, atom):
    for i in range(atom.size):
        k = list_at(owners, slots, owner[i], key[i])
        if k >= 0:
            take_out(number, slots, k, atom[i])
