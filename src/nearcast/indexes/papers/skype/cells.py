"""Leaf cells of a quadtree over the places of subscriptions: the cell of each, and its rectangle."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space

#: Cells are not cut more often than this, however many subscriptions share a place.
MOST_CUTS = 40


class LeafCells(NamedTuple):
    """The leaf cells that are not empty: cell c is the rectangle `box[c]` and has `order[start[c]:start[c + 1]]`."""

    box: NDArray[np.float64]
    start: NDArray[np.int64]
    order: NDArray[np.int64]


def whole_space(point: NDArray[np.float64], space: Space) -> NDArray[np.float64]:
    """Return the rectangle to cut: the earth, or what holds all points of a plane."""
    if space.is_earth or not len(point):
        return np.array([-180.0, -90.0, 180.0, 90.0])
    return np.hstack([point.min(axis=0), point.max(axis=0)])


def leaf_cells(point: NDArray[np.float64], space: Space, leaf: int) -> LeafCells:
    """Cut the space in four, again and again, until no cell has more than `leaf` points (Section 5.1.2)."""
    n = len(point)
    order, spare = np.arange(n), np.empty(n, np.int64)
    box, start = np.empty((n, 4)), np.zeros(n + 1, np.int64)
    n_cells = _cut_cells(point, whole_space(point, space), leaf, order, spare, box, start) if n else 0
    return LeafCells(box[:n_cells].copy(), start[: n_cells + 1].copy(), order)


@kernel
def _cut_cells(point, root, leaf, order, spare, box, start):
    """Bring `order` into the order of cells and write their rectangles and starts; return how many there are.

    A point on a cut belongs to the upper cell; a cell's rectangle holds its own points, borders included.
    """
    # A cell waiting to be cut: its rectangle, how often it has been cut, and its part of `order`.
    waiting = np.empty((4 * MOST_CUTS + 4, 4))
    part = np.empty((4 * MOST_CUTS + 4, 3), np.int64)
    waiting[0, :] = root
    part[0, 0], part[0, 1], part[0, 2] = 0, point.shape[0], 0
    n_waiting, n_cells = 1, 0
    begin = np.empty(5, np.int64)
    while n_waiting > 0:
        n_waiting -= 1
        x0, y0, x1, y1 = (
            waiting[n_waiting, 0],
            waiting[n_waiting, 1],
            waiting[n_waiting, 2],
            waiting[n_waiting, 3],
        )
        first, last, cuts = part[n_waiting, 0], part[n_waiting, 1], part[n_waiting, 2]
        x, y = x0 / 2.0 + x1 / 2.0, y0 / 2.0 + y1 / 2.0
        is_small = not (x0 < x and x < x1) and not (y0 < y and y < y1)
        if last - first <= leaf or cuts >= MOST_CUTS or is_small:
            box[n_cells, 0], box[n_cells, 1], box[n_cells, 2], box[n_cells, 3] = x0, y0, x1, y1
            start[n_cells], start[n_cells + 1] = first, last
            n_cells += 1
            continue
        begin[:] = 0
        for i in range(first, last):
            p = order[i]
            begin[1 + 2 * (point[p, 1] >= y) + (point[p, 0] >= x)] += 1
        begin[0] = first
        for k in range(4):
            begin[k + 1] += begin[k]
        for i in range(first, last):
            spare[i] = order[i]
        for k in range(4):
            at = begin[k]
            for i in range(first, last):
                p = spare[i]
                if 2 * (point[p, 1] >= y) + (point[p, 0] >= x) == k:
                    order[at] = p
                    at += 1
        # The last one put to wait is the first one cut: cells come out in the order of their members.
        for k in range(3, -1, -1):
            if begin[k + 1] > begin[k]:
                waiting[n_waiting, 0], waiting[n_waiting, 2] = (x, x1) if k % 2 else (x0, x)
                waiting[n_waiting, 1], waiting[n_waiting, 3] = (y, y1) if k >= 2 else (y0, y)
                part[n_waiting, 0], part[n_waiting, 1], part[n_waiting, 2] = begin[k], begin[k + 1], cuts + 1
                n_waiting += 1
    return n_cells
