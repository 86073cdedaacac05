"""Columns of equal length that grow at the end and are dropped at the front, whose memory goes back to the system."""

from __future__ import annotations

import math
import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAST_CAPACITY = 64
#: Bytes from which on an array has pages of its own; and of which so many are given back at once.
_LARGE = 1 << 20


class ColumnQueue:
    """Arrays by name, of which the positions `first` to `end` are in use; positions are numbered for good.

    Place p is at `p - base` of every array. An array may be longer than what is in use, and moves when it grows. What
    a large one has before `first` and behind `end` takes no memory: a queue that slides has written all of it once.
    """

    def __init__(self, first: int = 0, /, **empty: NDArray[Any]):
        self.base = self.first = self.end = first
        self.arrays = dict(empty)
        #: The pages of large arrays, and how many bytes at the front of each were given back.
        self._pages: dict[str, mmap.mmap] = {}
        self._given_back: dict[str, int] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return the part of one array that is in use."""
        return self.arrays[name][self.first - self.base : self.end - self.base]

    def part(self, name: str, first: int, end: int) -> NDArray[Any]:
        """Return the positions `first` to `end` of one array."""
        return self.arrays[name][first - self.base : end - self.base]

    def extend(self, n: int) -> None:
        """Add n positions of any content."""
        if self.end + n - self.base > len(next(iter(self.arrays.values()))):
            self._make_room(n)
        self.end += n

    def add(self, **values: NDArray[Any]) -> None:
        """Add positions with these values, one array of equal length for each name."""
        n = len(next(iter(values.values())))
        self.extend(n)
        for name, new in values.items():
            self.part(name, self.end - n, self.end)[:] = new

    def cut(self, end: int) -> None:
        """Forget the positions from `end` on."""
        self.end = end

    def drop(self, first: int) -> None:
        """Forget the positions before `first`: what is read there from now on is anything."""
        self.first = first
        for name, pages in self._pages.items():
            done = self._given_back.get(name, 0)
            end = _whole_pages((first - self.base) * _row_bytes(self.arrays[name]))
            if end - done >= _LARGE:
                pages.madvise(mmap.MADV_DONTNEED, done, end - done)
                self._given_back[name] = end

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays, of large ones those in use."""
        return sum(
            (self.end - self.base) * _row_bytes(array) - self._given_back.get(name, 0)
            if name in self._pages
            else array.nbytes
            for name, array in self.arrays.items()
        )

    def _make_room(self, n: int) -> None:
        """Move what is in use to the front, of larger arrays unless half of these is free; all of it or nothing."""
        used, behind = self.end - self.first, self.end - self.base
        capacity = max(2 * (used + n), _LEAST_CAPACITY)
        arrays, all_pages, moved = dict(self.arrays), dict(self._pages), []
        for name, old in self.arrays.items():
            new = old
            if 2 * (used + n) > len(old):
                new, pages = _allocated((capacity, *old.shape[1:]), old.dtype)
                all_pages.pop(name, None)
                if pages is not None:
                    all_pages[name] = pages
            else:
                moved.append(name)
            # The part in use is at most half, so where it moves within one array it does not overlap itself.
            new[:used] = old[self.first - self.base : self.end - self.base]
            arrays[name] = new
        # In one step: all or nothing.
        self.__dict__.update(arrays=arrays, base=self.first, _pages=all_pages, _given_back={})
        for name in moved:
            self._give_back_behind(name, used, behind)

    def _give_back_behind(self, name: str, used: int, behind: int) -> None:
        """Give back the pages from the position `used` on, of an array that was written up to `behind`."""
        if name in self._pages:
            row = _row_bytes(self.arrays[name])
            first = _whole_pages(used * row + mmap.PAGESIZE - 1)
            end = _whole_pages(behind * row)
            if end - first >= _LARGE:
                self._pages[name].madvise(mmap.MADV_DONTNEED, first, end - first)


def _row_bytes(array: NDArray[Any]) -> int:
    return array.itemsize * math.prod(array.shape[1:])


def _whole_pages(n_bytes: int) -> int:
    return n_bytes - n_bytes % mmap.PAGESIZE


def _allocated(shape: tuple[int, ...], kind: np.dtype[Any]) -> tuple[NDArray[Any], mmap.mmap | None]:
    """Return an array of any content; a large one with the pages it lies in, where the system takes such back."""
    size = kind.itemsize * math.prod(shape)
    if size < _LARGE or not hasattr(mmap, "MADV_DONTNEED"):
        return np.empty(shape, kind), None
    # Private: a process that is forked off must not write into ours.
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, kind).reshape(shape), pages
