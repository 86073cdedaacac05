"""Streets of a living town: a planar graph, a grid a little out of line with some of its edges missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearcast.demo.city import degrees

#: Crossings from west to east and from south to north, and metres between two of them.
COLUMNS, ROWS, BLOCK_M = 22, 16, 330.0
_JITTER, _MISSING = 0.22, 0.12
#: How far the land goes on behind the last street.
_SHORE_M = 500.0

Place = tuple[float, float]


@dataclass(frozen=True)
class Streets:
    """Crossings as longitude and latitude, and for each of them those that a street leads to."""

    crossings: list[Place]
    neighbours: list[list[int]]

    def geojson(self) -> dict[str, Any]:
        """Return the land of the town and its streets, as a page draws them under all else."""
        lines = [
            [self.crossings[a], self.crossings[b]] for a, ends in enumerate(self.neighbours) for b in ends if a < b
        ]
        shapes = [
            {"type": "Polygon", "coordinates": [_shore()]},
            {"type": "MultiLineString", "coordinates": lines},
        ]
        features = [{"type": "Feature", "properties": {}, "geometry": each} for each in shapes]
        return {"type": "FeatureCollection", "features": features}


def grid_streets(rng: np.random.Generator) -> Streets:
    """Return a town around the centre of Larkhaven; every crossing has at least two ways to go on."""
    number = np.arange(COLUMNS * ROWS).reshape(ROWS, COLUMNS)
    row, column = np.divmod(number.ravel(), COLUMNS)
    off = rng.uniform(-_JITTER, _JITTER, (2, number.size))
    lon, lat = degrees((column - (COLUMNS - 1) / 2 + off[0]) * BLOCK_M, (row - (ROWS - 1) / 2 + off[1]) * BLOCK_M)
    a = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    b = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    neighbours: list[list[int]] = [[] for _ in range(number.size)]
    for one, other in zip(a.tolist(), b.tolist(), strict=True):
        neighbours[one].append(other)
        neighbours[other].append(one)
    for edge in np.flatnonzero(rng.random(len(a)) < _MISSING).tolist():
        one, other = int(a[edge]), int(b[edge])
        if min(len(neighbours[one]), len(neighbours[other])) > 2:
            neighbours[one].remove(other)
            neighbours[other].remove(one)
    return Streets(list(zip(lon.tolist(), lat.tolist(), strict=True)), neighbours)


def _shore() -> list[Place]:
    """Return the outline of the land: an oblong with round, uneven corners."""
    turn = np.linspace(0, 2 * np.pi, 97)
    wide, tall = COLUMNS * BLOCK_M / 2 + _SHORE_M, ROWS * BLOCK_M / 2 + _SHORE_M
    wobble = 1 + 0.02 * np.sin(5 * turn) + 0.015 * np.cos(9 * turn)
    east, north = (np.sign(each) * np.abs(each) ** 0.35 * wobble for each in (np.cos(turn), np.sin(turn)))
    lon, lat = degrees(east * wide, north * tall)
    ring = list(zip(lon.tolist(), lat.tolist(), strict=True))
    return [*ring[:-1], ring[0]]
