"""Lists of numbers that grow and shrink, all in one array."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIRST_ROOM = 4


class ListArrays(NamedTuple):
    """List k is `item[first[k]:first[k] + length[k]]`, and has room for `room[k]`."""

    first: NDArray[np.int64]
    length: NDArray[np.int32]
    room: NDArray[np.int32]
    item: NDArray[np.int32]


class NumberLists:
    """Numbered lists of numbers in any order. A list without room moves to the end of the array, with twice as much."""

    def __init__(self, n_lists: int) -> None:
        nothing = np.zeros(n_lists, np.int32)
        self.arrays = ListArrays(np.zeros(n_lists, np.int64), nothing, nothing.copy(), np.empty(0, np.int32))
        self._used = 0

    @classmethod
    def of(cls, list_of: NDArray[np.int32], items: NDArray[np.int32], n_lists: int) -> NumberLists:
        """Return lists in which item i is in the list `list_of[i]`, those of a list in the order given."""
        lists = cls(n_lists)
        length = np.bincount(list_of, minlength=n_lists)
        first = np.cumsum(length) - length
        laid_out = np.empty(len(items), np.int32)
        _lay_out(list_of, items, first.copy(), laid_out)
        lists.arrays = ListArrays(first, length.astype(np.int32), length.astype(np.int32), laid_out)
        lists._used = len(items)
        return lists

    def __len__(self) -> int:
        return len(self.arrays.first)

    def at_least(self, n_lists: int) -> None:
        """Make sure that there are so many lists; new ones are empty."""
        if n_lists > len(self):
            more = max(n_lists, len(self) + len(self) // 2) - len(self)
            first, length, room, item = self.arrays
            nothing = np.zeros(more, np.int32)
            first = np.concatenate([first, np.zeros(more, np.int64)])
            self.arrays = ListArrays(first, np.concatenate([length, nothing]), np.concatenate([room, nothing]), item)

    def add(self, list_of: NDArray[np.int32], items: NDArray[np.int32]) -> None:
        """Put item i at the end of list `list_of[i]`."""
        done = 0
        while True:
            done, self._used = _add(self.arrays, list_of, items, done, self._used)
            if done == len(items):
                return
            needed = self._used + 2 * int(self.arrays.room[list_of[done]]) + _FIRST_ROOM
            item = np.empty(needed + needed // 4, np.int32)
            item[: self._used] = self.arrays.item[: self._used]
            self.arrays = self.arrays._replace(item=item)

    def remove(self, list_of: NDArray[np.int32], items: NDArray[np.int32]) -> None:
        """Take item i out of list `list_of[i]`, where the last one takes its place."""
        _remove(self.arrays, list_of, items)

    @property
    def nbytes(self) -> int:
        """Return the size of all arrays, room included."""
        return sum(array.nbytes for array in self.arrays)


@kernel
def _lay_out(list_of, items, at, laid_out):
    for i in range(items.size):
        laid_out[at[list_of[i]]] = items[i]
        at[list_of[i]] += 1


@hot_kernel
def _add(arrays, list_of, items, done, used):
    """Add the items from `done` on; return the first one there is no room for, or their number, and the room used."""
    for i in range(done, items.size):
        k = list_of[i]
        n = arrays.length[k]
        if n == arrays.room[k]:
            room = max(2 * n, _FIRST_ROOM)
            if used + room > arrays.item.size:
                return i, used
            first = arrays.first[k]
            for j in range(n):
                arrays.item[used + j] = arrays.item[first + j]
            arrays.first[k], arrays.room[k] = used, room
            used += room
        arrays.item[arrays.first[k] + n] = items[i]
        arrays.length[k] = n + 1
    return items.size, used


@hot_kernel
def _remove(arrays, list_of, items):
    for i in range(items.size):
        k = list_of[i]
        at, last = arrays.first[k], arrays.first[k] + arrays.length[k] - 1
        while at < last and arrays.item[at] != items[i]:
            at += 1
        if at <= last and arrays.item[at] == items[i]:
            arrays.item[at] = arrays.item[last]
            arrays.length[k] -= 1
