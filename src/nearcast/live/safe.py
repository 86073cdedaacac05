"""Safe distances: how far a region may be carried by its centre before it touches, or leaves, a message's place.

All are lower bounds. Circles: a place that lies d from the centre changes sides only if the centre goes |d - radius|
(triangle inequality, on the sphere too). Boxes keep their width and height in coordinates. They part from a place they
touch if one side does, and come to touch one if both do; on the earth the shift that this takes, in degrees, is a
stretch of a meridian or the way to another meridian. A margin far above what rounding can do is taken off.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel, inlined, kernel
from nearcast.columns import WITHIN
from nearcast.geo import BOX, CIRCLE, EARTH_RADIUS_M, place_distance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.geo import Regions, Space

#: The safe distance where no message has the words.
NOTHING_NEAR = np.inf
#: Rounding moves coordinates and distances by some 1e-16 of their size; distances on the earth by nanometres.
_MARGIN_M, _RELATIVE_MARGIN = 1e-6, 1e-12
#: Degrees beyond rounding of a full turn.
_FULL_CIRCLE, _ALMOST_CIRCLE = 360.0 + 1e-9, 360.0 - 1e-9


def is_carried(subscriptions: Subscriptions) -> NDArray[np.bool_]:
    """Tell which subscriptions have a region that a point carries along, and for which a bound is known."""
    kind = subscriptions.regions.kind
    carried: NDArray[np.bool_] = (subscriptions.kind == WITHIN) & ((kind == BOX) | (kind == CIRCLE))
    return carried


def change_distances(
    regions: Regions, rows: NDArray[np.int64], box: NDArray[np.float64], space: Space
) -> NDArray[np.float64]:
    """Return for each pair (rows[i], box[i]) how far the region may go before it touches the place, or leaves it.

    The regions are boxes and circles.
    """
    safe = np.empty(len(rows))
    columns = (regions.kind, regions.part_start, regions.part, regions.shape, regions.circle)
    _fill_distances(space.is_earth, *columns, rows, box, safe)
    return safe


@kernel
def _fill_distances(is_earth, kind, part_start, part, shape, circle, rows, box, safe):
    for i in range(rows.size):
        safe[i] = change_distance(is_earth, kind, part_start, part, shape, circle, rows[i], box, i)


@inlined
def change_distance(is_earth, kind, part_start, part, shape, circle, row, box, message):
    """Return how far the box or circle `row` may go before it touches the place `message`, or leaves it."""
    if kind[row] == CIRCLE:
        at = shape[row]
        return circle_change(
            is_earth, circle[at, 0], circle[at, 1], circle[at, 2],
            box[message, 0], box[message, 1], box[message, 2], box[message, 3],
        )  # fmt: skip
    first, last = part_start[row], part_start[row + 1] - 1
    return box_change(
        is_earth, part[first, 0], part[first, 1], part[last, 2], part[last, 3],
        box[message, 0], box[message, 1], box[message, 2], box[message, 3],
    )  # fmt: skip


@hot_kernel
def circle_change(is_earth, x, y, radius, x_min, y_min, x_max, y_max):
    """Return how far the centre of a circle may go before the circle touches a place, or leaves it."""
    distance = place_distance(is_earth, x, y, x_min, y_min, x_max, y_max)
    size = distance + radius
    if not is_earth:
        size += abs(x) + abs(y) + max(abs(x_min), abs(x_max)) + max(abs(y_min), abs(y_max))
    return _rounded(is_earth, abs(distance - radius), size)


@inlined
def _rounded(is_earth, bound, size):
    """Return a bound less what rounding may do to values of this size; not below 0."""
    margin = _RELATIVE_MARGIN * size + (_MARGIN_M if is_earth else 0.0)
    return max(bound - margin, 0.0) if margin < np.inf else 0.0


@hot_kernel
def box_change(is_earth, x_min, y_min, x_max, y_max, m_x_min, m_y_min, m_x_max, m_y_max):
    """Return how far the centre of a box may go before the box touches a place, or leaves it.

    Either may cross the dateline (`x_max` < `x_min`).
    """
    y_gap = max(m_y_min - y_max, y_min - m_y_max)
    if not is_earth:
        x_gap = max(m_x_min - x_max, x_min - m_x_max)
        size = max(abs(x_min), abs(x_max)) + max(abs(y_min), abs(y_max))
        size += max(abs(m_x_min), abs(m_x_max)) + max(abs(m_y_min), abs(m_y_max))
        if x_gap > 0.0 or y_gap > 0.0:
            return _rounded(False, math.hypot(max(x_gap, 0.0), max(y_gap, 0.0)), size)
        return _rounded(False, min(-x_gap, -y_gap), size)
    x_gap = _longitude_gap(x_min, x_max, m_x_min, m_x_max)
    latitude = 0.5 * (y_min + y_max)
    to_x, to_y = _to_meridian(latitude, abs(x_gap)), EARTH_RADIUS_M * math.radians(abs(y_gap))
    if x_gap > 0.0 and y_gap > 0.0:
        bound = max(to_x, to_y)
    elif x_gap > 0.0:
        bound = to_x
    elif y_gap > 0.0:
        bound = to_y
    else:
        bound = min(to_x, to_y)
    return _rounded(True, bound, EARTH_RADIUS_M)


@inlined
def inner_change(is_earth, x_min, y_min, x_max, y_max, cell):
    """Return how far the centre of a box, which does not cross the dateline, may go before it leaves a point of `cell`.

    The box holds all of the cell, a rectangle.
    """
    x_depth, y_depth = min(cell[0] - x_min, x_max - cell[2]), min(cell[1] - y_min, y_max - cell[3])
    if not is_earth:
        size = max(abs(x_min), abs(x_max)) + max(abs(y_min), abs(y_max))
        return _rounded(False, min(x_depth, y_depth), size)
    to_x = _to_meridian(0.5 * (y_min + y_max), x_depth)
    return _rounded(True, min(to_x, EARTH_RADIUS_M * math.radians(y_depth)), EARTH_RADIUS_M)


@inlined
def _longitude_gap(west, east, m_west, m_east):
    """Return by how many degrees two ranges of longitude are apart; if they overlap, less than 0: how deep they do.

    The depth of one that goes all the way round is infinite: no shift parts it from anything.
    """
    width = east - west
    if width < 0.0:
        width += 360.0
    m_width = m_east - m_west
    if m_width < 0.0:
        m_width += 360.0
    if width >= 360.0 or m_width >= 360.0:
        return -np.inf
    # From the east side of one eastward to the west side of the other, and the same on the other side.
    behind = (m_west - west) % 360.0 - width
    before = (west - m_west) % 360.0 - m_width
    if behind > 0.0 and before > 0.0:
        return min(behind, before)
    # They part when a shift brings one behind the other, if there is room for both on the circle.
    if width + m_width > _FULL_CIRCLE:
        return -np.inf
    to_west = (m_east - west) % 360.0
    to_east = (east - m_west) % 360.0
    # Sides that meet may have passed each other by a rounding, which all but a full turn stands for.
    return 0.0 if max(to_west, to_east) > _ALMOST_CIRCLE else -min(to_west, to_east)


@inlined
def _to_meridian(latitude, degrees):
    """Return the metres to the nearest place whose longitude differs by so many degrees; infinite for no such place."""
    if degrees > 180.0:
        return np.inf
    if degrees >= 90.0:
        return EARTH_RADIUS_M * math.radians(90.0 - abs(latitude))
    return EARTH_RADIUS_M * math.asin(math.sin(math.radians(degrees)) * math.cos(math.radians(latitude)))
