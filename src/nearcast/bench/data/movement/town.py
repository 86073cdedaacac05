"""A made-up town: streets in a grid, a little out of line, with some of them missing."""

from __future__ import annotations

import numpy as np

from nearcast.bench.data.movement.roads import RoadNet, connected
from nearcast.bench.data.places import KM_PER_DEGREE, PLANE_SIDE
from nearcast.geo import Space

#: Streets in each direction, how far crossings lie off the grid, and how many blocks lack a street.
STREETS = 40
_JITTER, _MISSING = 0.25, 0.1
#: The south-west corner of the town on the earth, which is 10 km wide.
_CORNER, _SIDE_KM = (8.0, 53.0), 10.0


def grid_town(space: str, seed: int, streets: int = STREETS) -> RoadNet:
    """Return the streets of a town on a plane of `PLANE_SIDE`, or of ten kilometres on the earth."""
    rng = np.random.default_rng([seed, streets])
    column, row = np.meshgrid(np.arange(streets), np.arange(streets))
    grid = np.column_stack([column.ravel(), row.ravel()]) + rng.uniform(-_JITTER, _JITTER, (streets**2, 2))
    share = (grid + _JITTER) / (streets - 1 + 2 * _JITTER)
    number = np.arange(streets**2, dtype=np.int32).reshape(streets, streets)
    a = np.concatenate([number[:, :-1].ravel(), number[:-1, :].ravel()])
    b = np.concatenate([number[:, 1:].ravel(), number[1:, :].ravel()])
    kept = rng.random(len(a)) >= _MISSING
    a, b = a[kept], b[kept]
    steps = share[a] - share[b]
    if space == "plane":
        length = np.hypot(*(steps * PLANE_SIDE).T)
        return connected("town", Space.plane(), share * PLANE_SIDE, (a, b), length)
    length = np.hypot(*(steps * _SIDE_KM * 1000).T)
    height = _SIDE_KM / KM_PER_DEGREE
    degrees = share * (height / np.cos(np.radians(_CORNER[1])), height) + _CORNER
    return connected("town", Space.earth(), degrees, (a, b), length)
