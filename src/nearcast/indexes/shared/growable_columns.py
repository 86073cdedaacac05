"""Columns that grow at their end, in time that does not depend on how long they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class GrowableColumn:
    """A column that grows at its end; the first values that come are taken as they are, without a copy."""

    def __init__(self, array: NDArray[Any]):
        self.array = array
        self._n = len(array)

    def __len__(self) -> int:
        return self._n

    @property
    def values(self) -> NDArray[Any]:
        """Return the values there are; writing to them writes to the column."""
        return self.array[: self._n]

    def cut(self, n: int) -> None:
        """Forget the values from the n-th on."""
        self._n = min(n, self._n)

    def extend(self, values: NDArray[Any]) -> None:
        """Add values of the same type behind the last."""
        if not self._n:
            self.array, self._n = np.require(values, requirements=["C", "W"]), len(values)
            return
        n = self._n + len(values)
        if n > len(self.array):
            room = np.empty((n + n // 4, *self.array.shape[1:]), self.array.dtype)
            room[: self._n] = self.array[: self._n]
            self.array = room
        self.array[self._n : n] = values
        self._n = n

    def extend_starts(self, starts: NDArray[np.int64], base: int) -> None:
        """Add the list starts of another column, whose first list begins at `base`."""
        if self._n == 1 and base == 0 and starts[0] == 0:
            self._n = 0
            self.extend(starts)
        else:
            self.extend(starts[1:] - starts[0] + base)
