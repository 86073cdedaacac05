"""Which regions a rectangle touches, and where in it they are, judged by the rectangles that cover them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Regions

Bounds = tuple[float, float, float, float]


def touching_rectangles(regions: Regions, box: Bounds) -> NDArray[np.int64]:
    """Return the rows with a part that touches a box, which crosses the dateline where x_max < x_min; not ANYWHERE."""
    total = _counted(_is_touched(regions, box))
    rows: NDArray[np.int64] = np.flatnonzero(total[regions.part_start[1:]] > total[regions.part_start[:-1]])
    return rows


def centres_in_box(regions: Regions, box: Bounds) -> NDArray[np.float64]:
    """Return x and y of the middle of what lies inside a box, of each row that touches it; not ANYWHERE.

    In a box across the dateline x goes on beyond 180.
    """
    rows, is_touched = touching_rectangles(regions, box), _is_touched(regions, box)
    if not len(rows):
        return np.empty((0, 2))
    x_min, y_min, x_max, y_max = box
    low, high = regions.part[is_touched, :2], regions.part[is_touched, 2:]
    if x_max < x_min:
        beyond = np.where(high[:, 0] < x_min, 360.0, 0.0)[:, None] * (1.0, 0.0)
        low, high, x_max = low + beyond, high + beyond, x_max + 360.0
    low, high = (np.clip(each, (x_min, y_min), (x_max, y_max)) for each in (low, high))
    first = _counted(is_touched)[regions.part_start[rows]]
    middle: NDArray[np.float64] = (np.minimum.reduceat(low, first) + np.maximum.reduceat(high, first)) / 2
    return middle


def _is_touched(regions: Regions, box: Bounds) -> NDArray[np.bool_]:
    """Tell of each part whether it touches a box; those of ANYWHERE, which have no end, do not."""
    x_min, y_min, x_max, y_max = box
    part = regions.part
    is_right, is_left = part[:, 2] >= x_min, part[:, 0] <= x_max
    is_beside = is_right & is_left if x_min <= x_max else is_right | is_left
    found: NDArray[np.bool_] = is_beside & (part[:, 3] >= y_min) & (part[:, 1] <= y_max) & np.isfinite(part[:, 0])
    return found


def _counted(is_touched: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many parts before each are touched."""
    return np.append(0, np.cumsum(is_touched))
