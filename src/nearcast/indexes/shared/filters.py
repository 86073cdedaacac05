"""Cheap filters of index entries: rectangles in single precision, rounded outwards, and 64-bit word signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray


def outwards(box: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return rectangles in half the room that hold the given ones."""
    with np.errstate(over="ignore"):
        rect = box.astype(np.float32)
        low, high = rect[:, :2], rect[:, 2:]
        np.nextafter(low, np.float32(-np.inf), out=low, where=low > box[:, :2])
        np.nextafter(high, np.float32(np.inf), out=high, where=high < box[:, 2:])
    return rect


def inwards(box: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the corners of rectangles in half the room, each moved inside if at all; a point may be turned around."""
    return np.ascontiguousarray(outwards(box[:, [2, 3, 0, 1]])[:, [2, 3, 0, 1]])


@inlined
def term_bit(term):
    """Return the bit of a word in a signature of 64; who needs a word whose bit a message lacks does not want it."""
    return np.uint64(1) << np.uint64(((np.int64(term) * 2654435769) >> 26) & 63)
