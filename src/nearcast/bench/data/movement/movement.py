"""`Movement`: reports of places by objects that move, timestamp by timestamp."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.data.places import Floats
    from nearcast.geo import Space
    from nearcast.geo.space import Bounds

#: When made-up movement begins, in microseconds.
BEGIN = 1_800_000_000_000_000
#: The seconds between two timestamps in the AP-Tree paper.
INTERVAL_S = 30.0


class Reports(NamedTuple):
    """Reports of places, a row each, in order of time; an object may report more than once."""

    objects: NDArray[np.int32]
    places: Floats
    times: NDArray[np.int64]


class Movement(NamedTuple):
    """Places of `n` objects: where they are at the time `begin`, and what they report at timestamps after it.

    Timestamp t ends at `times[t]` and has the reports `start[t]` to `start[t + 1]`. An object that does not report has
    stood still, as far as anybody knows. `bounds` is the box of the map, (x_min, y_min, x_max, y_max); all times are
    microseconds.
    """

    name: str
    space: Space
    bounds: Bounds
    begin: int
    first: Floats
    times: NDArray[np.int64]
    start: NDArray[np.int64]
    reports: Reports

    @property
    def n_objects(self) -> int:
        """How many objects there are."""
        return len(self.first)

    @property
    def extent(self) -> Floats:
        """The width and height of the map."""
        x_min, y_min, x_max, y_max = self.bounds
        return np.array([x_max - x_min, y_max - y_min])

    def at(self, timestamp: int) -> Reports:
        """Return the reports of a timestamp, without a copy."""
        rows = slice(self.start[timestamp], self.start[timestamp + 1])
        objects, places, times = self.reports
        return Reports(objects[rows], places[rows], times[rows])

    def dense(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the places (timestamps, n, 2) at the ends of all timestamps, and who has reported in each."""
        places = np.empty((len(self.times), *self.first.shape))
        has_reported = np.zeros(places.shape[:2], np.bool_)
        now = self.first.copy()
        for timestamp in range(len(self.times)):
            objects, at, _ = self.at(timestamp)
            now[objects] = at  # of an object that reports twice the last place stays
            has_reported[timestamp, objects] = True
            places[timestamp] = now
        return places, has_reported


def timestamps_after(begin: int, n: int, interval_s: float) -> NDArray[np.int64]:
    """Return the ends of `n` timestamps."""
    return begin + (np.arange(1, n + 1) * (interval_s * 1e6)).astype(np.int64)
