"""Columns of equal length that grow at the end and are dropped at the front."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAST_CAPACITY = 64


class ColumnQueue:
    """Arrays by name, of which the positions `first` to `end` are in use; positions are numbered for good.

    Place p is at `p - base` of every array. An array may be longer than what is in use, and moves when it grows.
    """

    def __init__(self, first: int = 0, /, **empty: NDArray[Any]):
        self.base = self.first = self.end = first
        self.arrays = dict(empty)

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
        """Forget the positions before `first`."""
        self.first = first

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def _make_room(self, n: int) -> None:
        """Move what is in use to the front, of larger arrays unless half of these is free; all of it or nothing."""
        used = self.end - self.first
        capacity = max(2 * (used + n), _LEAST_CAPACITY)
        arrays: dict[str, NDArray[Any]] = {}
        for name, old in self.arrays.items():
            new = old
            if 2 * (used + n) > len(old):
                new = np.empty((capacity, *old.shape[1:]), old.dtype)
            # The part in use is at most half, so where it moves within one array it does not overlap itself.
            new[:used] = old[self.first - self.base : self.end - self.base]
            arrays[name] = new
        self.__dict__.update(arrays=arrays, base=self.first)  # in one step: both or neither
