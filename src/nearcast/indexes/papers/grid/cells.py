"""The cells of a grid that rectangles touch.

A grid has n × n equal cells over a frame (`quad.traffic`), numbered row by row. What lies outside of the frame counts
to the cells at its border. The column of a coordinate never decreases with it, which is all that exactness needs: two
rectangles that share a point share its cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.papers.quad.traffic import DEEPEST, step_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.papers.quad.traffic import Traffic

#: A rectangle that touches more cells than this is kept in one cell apart, number n², which everybody looks at.
MOST_CELLS = 256


@inlined
def column_of(value, axis, frame, n):
    """Return the column of a coordinate x (axis 0), or the line of y (axis 1)."""
    return (step_of(value, axis, frame) * n) >> DEEPEST


@hot_kernel
def fill_areas(frame, n, box, area):
    """Write the columns and lines of the corners of every rectangle."""
    for i in range(box.shape[0]):
        for k in range(4):
            area[i, k] = column_of(box[i, k], k % 2, frame, n)


def areas_of(frame: Traffic, n: int, box: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the first column and line of every rectangle, and the last ones."""
    area = np.empty((len(box), 4), np.int32)
    fill_areas(frame, n, np.ascontiguousarray(box), area)
    return area


def touched_cells(frame: Traffic, n: int, box: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return (cell, rectangle) for all cells in which each rectangle is kept, by rectangle."""
    area = areas_of(frame, n, box).astype(np.int64)
    width = area[:, 2] - area[:, 0] + 1
    count = width * (area[:, 3] - area[:, 1] + 1)
    is_wide = count > MOST_CELLS
    count[is_wide] = 1
    item = np.repeat(np.arange(len(box)), count)
    nth = np.arange(len(item)) - np.repeat(np.cumsum(count) - count, count)
    cell = (area[item, 1] + nth // width[item]) * n + area[item, 0] + nth % width[item]
    cell[is_wide[item]] = n * n
    return cell.astype(np.int32), item
