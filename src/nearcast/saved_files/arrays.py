"""The arrays of a saved folder, each checked against its bounds before a kernel follows what it holds.

A kernel does not look where an offset or a number leads. So whoever opens a folder checks, with a few passes of NumPy,
that lists begin and end within what they list, and that numbers name something that is there. Then damage that no
checksum was asked about may give other answers, but cannot lead out of an array or around in circles.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearcast._saved import load_array, mapped
from nearcast.errors import IncompatibleStore
from nearcast.saved_files.contents import damaged

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


class SavedArrays:
    """Opens the .npy files of one folder by name, and says which of them is damaged.

    `prefix` stands before every name, as in `rows.slot.npy`.
    """

    def __init__(self, folder: str | PathLike[str], prefix: str = ""):
        self.folder, self._prefix = Path(folder), prefix

    def named(self, prefix: str) -> SavedArrays:
        """Return the arrays whose names begin so."""
        return SavedArrays(self.folder, f"{self._prefix}{prefix}")

    def path(self, name: str) -> Path:
        """Return the file of an array."""
        return self.folder / f"{self._prefix}{name}.npy"

    def mapped(self, name: str, dtype: DTypeLike, *row: int) -> NDArray[Any]:
        """Map an array of this type, its rows of this shape."""
        return mapped(self.path(name), dtype, *row)

    def loaded(self, name: str, dtype: DTypeLike) -> NDArray[Any]:
        """Read a one-dimensional array of this type."""
        return load_array(self.path(name), dtype)

    def damaged(self, name: str, why: str) -> IncompatibleStore:
        """Return the error for one array."""
        return damaged(str(self.path(name)), why)

    def check(self, name: str, holds: Any, why: str) -> None:
        """Raise unless something holds."""
        if not holds:
            raise self.damaged(name, why)

    def length(self, name: str, array: NDArray[Any], n: int) -> None:
        """Check how many rows an array has."""
        self.check(name, len(array) == n, f"it has {len(array):,} rows where {n:,} are expected")

    def starts(self, name: str, start: NDArray[Any], n_lists: int, n_values: int) -> None:
        """Check the starts of lists: one more than there are lists, never falling, from 0 to the number of values."""
        self.length(name, start, n_lists + 1)
        fits = start[0] == 0 and start[-1] == n_values and (start[1:] >= start[:-1]).all()
        self.check(name, fits, "its offsets do not fit what they point into")

    def within(self, name: str, array: NDArray[Any], low: float, high: float) -> None:
        """Check that all values lie from `low` up to `high`, that one included; NaN lies nowhere."""
        if array.size:
            fits = (
                bool((array >= low).all() and (array <= high).all())
                if array.dtype.kind == "f"
                else (array.min() >= low and array.max() <= high)
            )
            self.check(name, fits, f"it holds values outside of {low:g} to {high:g}")

    def numbers(self, name: str, array: NDArray[Any], n: int, *, least: int = 0) -> None:
        """Check that all values are numbers of n things: from `least` up to n - 1."""
        self.within(name, array, least, n - 1)
