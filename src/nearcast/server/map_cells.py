"""Points counted by the cells of a grid in the projection of web maps, as tiles cut it, bounded in number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Bounds = tuple[float, float, float, float]
#: A cell is a tile of this many zooms further in: 64 of the 256 pixels of a tile.
_FINER = 2
_MOST_CELLS = 1024
_FINEST = 30
#: Where the projection ends.
_POLE = 85.051128


def cell_counts(points: NDArray[np.float64], box: Bounds, zoom: int | None) -> list[list[float]]:
    """Return west, south, east, north and count of each cell that has points; the counts add up to all of them.

    `points` are lon and lat inside a box, with lon beyond 180 where it crosses the dateline. Without a zoom, or where
    there would be too many, cells are as fine as they may be.
    """
    level = _level(box, zoom)
    n_across = 1 << level
    column, row = (np.floor(each * n_across).astype(np.int64) for each in _unit(points[:, 0], points[:, 1]))
    cells, counts = np.unique(np.column_stack([column, np.clip(row, 0, n_across - 1)]), axis=0, return_counts=True)
    west, north = _degrees(cells[:, 0] / n_across, cells[:, 1] / n_across)
    east, south = _degrees((cells[:, 0] + 1) / n_across, (cells[:, 1] + 1) / n_across)
    places = np.round(np.column_stack([west, south, east, north]), 6).tolist()
    return [[*place, count] for place, count in zip(places, counts.tolist(), strict=True)]


def _level(box: Bounds, zoom: int | None) -> int:
    """Return the level of tiles that cells are: the finest that is wanted and has not too many in the box."""
    west, south, east, north = box
    x, y = _unit(np.array([west, east if west <= east else east + 360.0]), np.array([north, south]))
    level = _FINEST if zoom is None else min(zoom + _FINER, _FINEST)
    while level and math.prod(np.diff(np.floor(each * (1 << level)))[0] + 1 for each in (x, y)) > _MOST_CELLS:
        level -= 1
    return level


def _unit(lon: NDArray[np.float64], lat: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return places in the projection: 0 to 1 from west to east, and from north to south."""
    angle = np.radians(np.clip(lat, -_POLE, _POLE))
    return (lon + 180.0) / 360.0, 0.5 - np.arctanh(np.sin(angle)) / (2 * np.pi)


def _degrees(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lon and lat of places in the projection."""
    return x * 360.0 - 180.0, np.degrees(np.arctan(np.sinh(np.pi * (1 - 2 * y))))
