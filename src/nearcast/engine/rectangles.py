"""Which regions a rectangle touches, judged by the rectangles that cover them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.geo import ANYWHERE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Regions


def touching_rectangles(regions: Regions, box: tuple[float, float, float, float]) -> NDArray[np.int64]:
    """Return the rows with a part that touches a box, which crosses the dateline where x_max < x_min; not ANYWHERE."""
    x_min, y_min, x_max, y_max = box
    part = regions.part
    is_right, is_left = part[:, 2] >= x_min, part[:, 0] <= x_max
    is_beside = is_right & is_left if x_min <= x_max else is_right | is_left
    is_touched = is_beside & (part[:, 3] >= y_min) & (part[:, 1] <= y_max)
    total = np.append(0, np.cumsum(is_touched))
    found = total[regions.part_start[1:]] > total[regions.part_start[:-1]]
    rows: NDArray[np.int64] = np.flatnonzero(found & (regions.kind != ANYWHERE))
    return rows
