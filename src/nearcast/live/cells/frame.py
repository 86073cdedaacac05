"""The grid of a segment: its frame, the Morton keys of places in it, and the rectangles of quadtree cells.

A cell of level L is one of 4^L equal parts of the frame, and the keys of its places are one range. Rectangles are a
finest cell wider than the places in them, on every side: far more than rounding can do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel, inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bits of each coordinate in a key, which is as many levels of cells.
BITS = 24
#: Frames are at least this wide, by the size of their coordinates: finest cells are far above the rounding of these.
_LEAST_WIDTH = 1e-6
#: Columns of a frame: where it begins, and the sides of its finest cells.
X, Y, SIDE_X, SIDE_Y = 0, 1, 2, 3
#: The bits of a key that tell the column, and those that tell the line: either of them compare as the numbers do.
_COLUMN_BITS, _LINE_BITS = 0x5555555555555555, 0x2AAAAAAAAAAAAAAA
#: What `side_of_window` returns.
INSIDE, OUTSIDE, UNSURE = 1, 0, -1
#: Classes of messages by extent: points, boxes up to these shares of the frame, and those that no cell holds. A box is
#: filed by its corner of the least x and y.
SHARES = (0.0, 2.0**-12, 2.0**-8, 2.0**-4)
N_CLASSES = 5
NO_CELL = 4


def frame_of(box: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the frame of some places, as (x, y, width and height of a finest cell); infinite where it is too wide."""
    x, y = box[:, 0], box[:, 1]  # one by one: along both at once takes ten times as long
    low, high = np.array([x.min(), y.min()]), np.array([x.max(), y.max()])
    with np.errstate(over="ignore"):
        width = np.maximum(high - low, _LEAST_WIDTH * np.maximum(np.abs(low), 1.0))
    return np.concatenate([low, width / (1 << BITS)])


@hot_kernel
def fill_keys(box, frame, key, kind):
    """Write the key and the class of every place."""
    width, height = frame[SIDE_X] * (1 << BITS), frame[SIDE_Y] * (1 << BITS)
    for i in range(key.size):
        x_extent, y_extent = box[i, 2] - box[i, 0], box[i, 3] - box[i, 1]
        key[i], kind[i] = 0, NO_CELL
        if x_extent < 0.0 or not (width < np.inf and height < np.inf):
            continue
        for k in range(NO_CELL):
            if x_extent <= SHARES[k] * width and y_extent <= SHARES[k] * height:
                column = _column(box[i, 0], frame[X], frame[SIDE_X])
                key[i] = key_of(column, _column(box[i, 1], frame[Y], frame[SIDE_Y]))
                kind[i] = k
                break


@inlined
def key_of(column, line):
    """Return the key of a finest cell."""
    return _spread_bits(column) | (_spread_bits(line) << 1)


@inlined
def _column(x, first, side):
    """Return the number of the finest cells' column, or line, that x lies in."""
    return np.int64(min(max((x - first) / side, 0.0), (1 << BITS) - 1.0))


@inlined
def _spread_bits(value):
    """Return the bits of a number below 2^24 with a zero between each two."""
    value = (value | (value << 16)) & 0x0000FFFF0000FFFF
    value = (value | (value << 8)) & 0x00FF00FF00FF00FF
    value = (value | (value << 4)) & 0x0F0F0F0F0F0F0F0F
    value = (value | (value << 2)) & 0x3333333333333333
    return (value | (value << 1)) & 0x5555555555555555


@inlined
def _gather_bits(value):
    """Return every second bit of a number from the lowest on, side by side: what `_spread_bits` has spread."""
    value &= 0x5555555555555555
    value = (value | (value >> 1)) & 0x3333333333333333
    value = (value | (value >> 2)) & 0x0F0F0F0F0F0F0F0F
    value = (value | (value >> 4)) & 0x00FF00FF00FF00FF
    value = (value | (value >> 8)) & 0x0000FFFF0000FFFF
    return (value | (value >> 16)) & 0x00000000FFFFFFFF


@inlined
def write_finest_cell(frame, at, key, rectangle):
    """Write the rectangle of the finest cell with a key on a plane, wide enough for the points in it."""
    write_rectangle(frame, at, _gather_bits(key), _gather_bits(key >> 1), BITS, False, rectangle)


@inlined
def write_columns(frame, at, kind, rectangle, columns):
    """Write the first and last column and line of the finest cells in which a box of a class that touches may begin."""
    for axis in range(2):
        side = frame[at, SIDE_X + axis]
        first = rectangle[axis] - extent(frame, at, kind, axis) - side
        columns[axis] = _column(first, frame[at, axis], side)
        columns[2 + axis] = _column(rectangle[2 + axis] + side, frame[at, axis], side)


@inlined
def write_window(frame, at, rectangle, is_exact, window, k):
    """Write how the keys of points tell on which side of a rectangle these lie: bounds of columns and lines, in bits.

    Points beyond the first four bounds are outside. Those within the others are inside, if the rectangle `is_exact`.
    """
    for axis in range(2):
        side, first = frame[at, SIDE_X + axis], frame[at, axis]
        low, high = rectangle[axis], rectangle[2 + axis]
        window[k, 2 * axis] = _spread_bits(_column(low - side, first, side)) << axis
        window[k, 2 * axis + 1] = _spread_bits(_column(high + side, first, side)) << axis
        last = _column(high - side, first, side) - 1
        window[k, 4 + 2 * axis] = _spread_bits(_column(low + side, first, side) + 1) << axis
        window[k, 5 + 2 * axis] = _spread_bits(last) << axis if is_exact and last >= 0 else -1


@inlined
def write_same_side(window, k, is_outside):
    """Write bounds for a window to which all points are outside, or unsure."""
    for i in range(8):
        window[k, i] = -1
    if not is_outside:
        window[k, 1], window[k, 3] = _COLUMN_BITS, _LINE_BITS


@inlined
def side_of_window(window, k, key):
    """Tell on which side of a window's rectangle the point with a key lies, if the key tells."""
    column, line = key & _COLUMN_BITS, key & _LINE_BITS
    if column < window[k, 0] or column > window[k, 1] or line < window[k, 2] or line > window[k, 3]:
        return OUTSIDE
    if column >= window[k, 4] and column <= window[k, 5] and line >= window[k, 6] and line <= window[k, 7]:
        return INSIDE
    return UNSURE


@inlined
def write_rectangle(frame, at, column, line, level, is_earth, rectangle):
    """Write the rectangle of the cell of this level whose first finest cell is (column, line)."""
    n = 1 << (BITS - level)
    side_x, side_y = frame[at, SIDE_X], frame[at, SIDE_Y]
    rectangle[0] = frame[at, X] + (column - 1) * side_x
    rectangle[1] = frame[at, Y] + (line - 1) * side_y
    rectangle[2] = frame[at, X] + (column + n + 1) * side_x
    rectangle[3] = frame[at, Y] + (line + n + 1) * side_y
    if is_earth:
        keep_on_earth(rectangle)


@inlined
def keep_on_earth(rectangle):
    """Cut a rectangle where the coordinates of the earth end."""
    rectangle[0], rectangle[2] = max(rectangle[0], -180.0), min(rectangle[2], 180.0)
    rectangle[1], rectangle[3] = max(rectangle[1], -90.0), min(rectangle[3], 90.0)


@inlined
def extent(frame, at, kind, axis):
    """Return how far boxes of a class reach beyond their cell along an axis, 0 for x and 1 for y."""
    return SHARES[kind] * frame[at, SIDE_X + axis] * (1 << BITS)
