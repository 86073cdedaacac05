"""The order of places in space: along a Hilbert curve, so that neighbours in the order are neighbours in space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space

#: Bits of each coordinate; twice as many make a key.
_BITS = 31
_EARTH = (-180.0, -90.0, 180.0, 90.0)


def hilbert_keys(space: Space, box: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return where on the curve the middle of each place lies.

    The curve fills the bounds of the space; a plane without bounds is taken on the scale of floating-point numbers.
    """
    bounds = _EARTH if space.is_earth else space.bounds
    x, y = box[:, 0] / 2 + box[:, 2] / 2, box[:, 1] / 2 + box[:, 3] / 2
    if bounds is None:
        cells = _float_cells(x), _float_cells(y)
    else:
        cells = _even_cells(x, bounds[0], bounds[2]), _even_cells(y, bounds[1], bounds[3])
    key = np.empty(len(box), np.int64)
    _fill_keys(*cells, key)
    return key


def _even_cells(value: NDArray[np.float64], low: float, high: float) -> NDArray[np.int64]:
    share = (np.clip(value, low, high) - low) / (high - low)
    return (share * ((1 << _BITS) - 1)).astype(np.int64)


def _float_cells(value: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the leading bits of numbers, in the order of the numbers."""
    bits = (value + 0.0).view(np.int64)
    ordered = bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
    return (ordered >> (64 - _BITS)) + (1 << (_BITS - 1))


@hot_kernel
def _fill_keys(x_cell, y_cell, key):
    """Write the distance along the curve to each cell (Hilbert's curve as in Warren, Hacker's Delight)."""
    for i in range(key.size):
        x, y = x_cell[i], y_cell[i]
        along = 0
        for bit in range(_BITS - 1, -1, -1):
            side = 1 << bit
            right, upper = (x >> bit) & 1, (y >> bit) & 1
            along = (along << 2) | ((3 * right) ^ upper)
            x, y = x & (side - 1), y & (side - 1)
            if upper == 0:
                if right == 1:
                    x, y = side - 1 - x, side - 1 - y
                x, y = y, x
        key[i] = along
