"""A common frame for the places of a component: three small numbers each, and one distance for earth and plane.

A place is a point in space: (x, y, 0) on the plane, a point of the unit sphere on the earth. A frame moves and scales
the places of a component into a box around the origin that reaches from -1 to 1 at most, so that float32 serves.
The straight distance d between two points of the sphere is less than the way along it, which is at least
d · (1 + d²/24 + 3d⁴/640): the first terms of 2·asin(d/2). Nothing here overestimates a distance by more than `SLACK`
and what a float32 loses.
"""

from __future__ import annotations

import math

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.geo.space import EARTH_RADIUS_M

#: Fields of a frame: the centre, half the sides of the box, the scale, the two factors that bend a straight distance,
#: and the unit of distances.
CENTRE, HALF, SCALE, BEND, UNIT = 0, 3, 6, 7, 9
FIELDS = 10
#: Fields of the view of a message from a frame: where it is, how far beyond the box (squared), and its own extent.
BEYOND, REACH = 3, 4
VIEW = 5

#: Added to the extent of every message, in the frame: more than rounding places to float32 can do to a distance.
SLACK = 2e-6
_LEAST_EARTH_SCALE = 1e-6
_FARTHEST = 1e9
_STEEPEST = 1e15
_EVERYWHERE = 1e30


@inlined
def _set_point(is_earth, x, y, point):
    """Write the point in space of a place."""
    if is_earth:
        lon, lat = math.radians(x), math.radians(y)
        point[0] = math.cos(lat) * math.cos(lon)
        point[1] = math.cos(lat) * math.sin(lon)
        point[2] = math.sin(lat)
    else:
        point[0], point[1], point[2] = x, y, 0.0


@kernel
def frame_around(is_earth, places, margin):
    """Return a frame around places (x, y in the first columns), with this much room on all sides, by half a side."""
    low, high, point = np.full(3, np.inf), np.full(3, -np.inf), np.empty(3)
    for i in range(places.shape[0]):
        _set_point(is_earth, places[i, 0], places[i, 1], point)
        for axis in range(3):
            low[axis], high[axis] = min(low[axis], point[axis]), max(high[axis], point[axis])
    frame = np.zeros(FIELDS)
    scale = 0.0
    for axis in range(3):
        if places.shape[0] > 0:
            frame[CENTRE + axis] = low[axis] / 2.0 + high[axis] / 2.0
            frame[HALF + axis] = max(high[axis] - frame[CENTRE + axis], frame[CENTRE + axis] - low[axis])
        frame[HALF + axis] *= 1.0 + margin
        scale = max(scale, frame[HALF + axis])
    if is_earth:
        scale = max(scale, _LEAST_EARTH_SCALE)
        frame[BEND], frame[BEND + 1] = scale**2 / 24.0, 3.0 * scale**4 / 640.0
    elif scale == 0.0:
        scale = 1.0
    for axis in range(3):
        frame[HALF + axis] /= scale
    frame[SCALE] = scale
    frame[UNIT] = EARTH_RADIUS_M if is_earth else 1.0
    return frame


@inlined
def set_place(is_earth, frame, x, y, point):
    """Write where a place is in the frame; tell whether that is inside its box."""
    _set_point(is_earth, x, y, point)
    inside = True
    for axis in range(3):
        point[axis] = (point[axis] - frame[CENTRE + axis]) / frame[SCALE]
        inside = inside and abs(point[axis]) <= frame[HALF + axis]
    return inside


@inlined
def steepness(frame, max_distance):
    """Return how fast nearness falls with the distance in the frame, never too fast."""
    return min(_STEEPEST, frame[SCALE] * (frame[UNIT] / float(max_distance)))


@inlined
def set_view(is_earth, frame, box, message, view):
    """Write where a message is in the frame: a point of its box and what lies beyond it, with a radius around both.

    A point outside the box is at least as far from any point inside as the hypotenuse over the way to the box and the
    way within it. `view` has float64; all of it fits float32.
    """
    x_min, y_min, x_max, y_max = box[message, 0], box[message, 1], box[message, 2], box[message, 3]
    x, y = x_min, y_min
    radius = 0.0
    if x_min != x_max or y_min != y_max:
        if is_earth:
            width = float(x_max - x_min) if x_max >= x_min else float(x_max - x_min) + 360.0
            x, y = x_min + width / 2.0, y_min / 2.0 + y_max / 2.0
            lowest = 0.0 if y_min <= 0.0 <= y_max else min(abs(y_min), abs(y_max))
            along = math.radians(width / 2.0) * math.cos(math.radians(lowest))
            radius = 1.000001 * (along + math.radians(float(y_max - y_min) / 2.0)) + 1e-9
        else:
            x, y = x_min / 2.0 + x_max / 2.0, y_min / 2.0 + y_max / 2.0
            radius = 1.000001 * math.hypot(max(x_max - x, x - x_min), max(y_max - y, y - y_min))
    set_place(is_earth, frame, x, y, view)
    beyond = 0.0
    for axis in range(3):
        half = frame[HALF + axis]
        inside = min(max(view[axis], -half), half)
        away = min(abs(float(view[axis]) - float(inside)), _FARTHEST)
        beyond += away * away
        view[axis] = inside
    reach = float(radius) / float(frame[SCALE]) + SLACK
    view[BEYOND] = beyond
    view[REACH] = reach if reach < 1e6 else _EVERYWHERE
