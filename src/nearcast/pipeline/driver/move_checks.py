"""Which moves cannot be made: of subscriptions that nobody knows, late ones, and those that a region cannot follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.columns import NO_TIME, WITHIN
from nearcast.engine.move_columns import are_points
from nearcast.engine.move_times import why_late
from nearcast.engine.moves import NOWHERE, POLYGON_STAYS, does_not_fit
from nearcast.geo import ANYWHERE, BOX, POLYGON

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.pipeline.driver.directory import Directory
    from nearcast.tables.moves import Moves

_NEEDS_POINT = "it is scored by the distance to a point; move it to a point"

#: By row: the field that is wrong, and the reason.
Faults = dict[int, tuple[str, str]]


def faults_of_moves(
    directory: Directory, space: Space, places: NDArray[np.int64], moves: Moves, time: NDArray[np.int64]
) -> Faults:
    """Return what is wrong with moves of subscriptions at these places, all of which exist, reported at these times."""
    return _late(directory, places, time) | _misplaced(directory, space, places, moves)


def _late(directory: Directory, places: NDArray[np.int64], time: NDArray[np.int64]) -> Faults:
    """Return the reports that are older than the last of their subscription."""
    reported = directory.reported[places]
    late = np.flatnonzero((time != NO_TIME) & (time < reported)).tolist()
    return {row: ("time", why_late(int(time[row]), int(reported[row]))) for row in late}


def _misplaced(directory: Directory, space: Space, places: NDArray[np.int64], moves: Moves) -> Faults:
    """Return the moves that a kind of subscription or a shape of region cannot make."""
    is_within, shape, height = directory.kind[places] == WITHIN, directory.shape[places], directory.height[places]
    carried = is_within & moves.is_point
    no_point = ~is_within & ~moves.is_point & ~are_points(moves.regions)
    found = dict.fromkeys(np.flatnonzero(no_point).tolist(), ("place", _NEEDS_POINT))
    found |= dict.fromkeys(np.flatnonzero(carried & (shape == ANYWHERE)).tolist(), ("region", NOWHERE))
    found |= dict.fromkeys(np.flatnonzero(carried & (shape == POLYGON)).tolist(), ("region", POLYGON_STAYS))
    if space.is_earth:
        y = moves.point[:, 1]
        tall = carried & (shape == BOX) & ((y - height / 2 < -90.0) | (y + height / 2 > 90.0))
        found |= {
            row: ("lat", does_not_fit(float(height[row]), float(y[row]))) for row in np.flatnonzero(tall).tolist()
        }
    return found
