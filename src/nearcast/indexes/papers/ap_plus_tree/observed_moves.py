"""Velocities and update intervals of subscriptions, taken from the places that they report, by slot.

Reports come without a time. A timestamp is what the paper means by it: a subscription reports at most once in it. So
one ends when a subscription reports for the second time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.indexes.papers.ap_tree.moving import Motion, no_motion
from nearcast.indexes.shared.growable_columns import GrowableColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Regions, Space

_NEVER = -1


class ObservedMoves:
    """The last place of each subscription, when it was reported, and what follows from two of them.

    Nothing here changes an answer, so a change of the index that is undone leaves it as it is.
    """

    def __init__(self, space: Space):
        self._is_earth = space.is_earth
        self.timestamp = 0
        self._n_messages = 0
        self._columns = {
            "place": GrowableColumn(np.empty((0, 2))),
            "velocity": GrowableColumn(np.empty((0, 2))),
            "interval": GrowableColumn(np.empty(0)),
            "reported": GrowableColumn(np.empty(0, np.int64)),
        }

    @property
    def nbytes(self) -> int:
        """The bytes of all columns."""
        return sum(column.array.nbytes for column in self._columns.values())

    def see_messages(self, n: int) -> None:
        """Count messages."""
        self._n_messages += n

    def note(self, slots: NDArray[np.int32], regions: Regions) -> None:
        """Note where subscriptions are, new ones and those that have moved."""
        is_new = slots >= len(self._columns["place"])
        centres = _centres(regions)
        self._fit(int(slots.max(initial=-1)) + 1)  # each column by itself: one that was cut short is made up for here
        self._begin(slots[is_new], centres[is_new])
        self._report(slots[~is_new], centres[~is_new])

    def _begin(self, slots: NDArray[np.int32], centres: NDArray[np.float64]) -> None:
        """Note where new subscriptions are."""
        place, velocity, interval, reported = self._arrays()
        place[slots], velocity[slots], interval[slots], reported[slots] = centres, 0.0, 0.0, _NEVER

    def _report(self, slots: NDArray[np.int32], centres: NDArray[np.float64]) -> None:
        """Note where subscriptions have moved to, each once; a velocity is that since the last report."""
        place, velocity, interval, reported = self._arrays()
        if (reported[slots] == self.timestamp).any():
            self.timestamp += 1
        since = np.maximum(self.timestamp - reported[slots], 1)
        is_first = reported[slots] == _NEVER
        way = centres - place[slots]
        if self._is_earth:
            way[:, 0] = (way[:, 0] + 180.0) % 360.0 - 180.0
        velocity[slots] = np.where(np.isfinite(way), way, 0.0) / np.where(is_first, 1, since)[:, None]
        known = interval[slots]
        interval[slots] = np.where(is_first, 1.0, np.where(known > 0.0, 0.5 * (known + since), since))
        place[slots], reported[slots] = centres, self.timestamp

    def renumber(self, old: NDArray[np.int64]) -> None:
        """Give the slots new numbers, 0 upwards in the order of these."""
        self._fit(int(old.max(initial=-1)) + 1)
        self._columns = {name: GrowableColumn(column.values[old]) for name, column in self._columns.items()}

    def motion(self, slot_of: NDArray[np.int32], n_slots: int, threshold: float) -> Motion:
        """Return the motion of all slots, for a cost model; none where nothing ever moved."""
        self._fit(n_slots)
        _, velocity, interval, _ = self._arrays()
        if not interval.any():
            return no_motion()
        messages = np.array([self._n_messages / (self.timestamp + 1)])
        return Motion(slot_of, velocity, interval, messages, threshold)

    def _arrays(self) -> list[NDArray]:
        return [column.values for column in self._columns.values()]

    def _fit(self, n: int) -> None:
        for name, column in self._columns.items():
            if (more := n - len(column)) > 0:
                fill = {
                    "place": np.full((more, 2), np.nan),
                    "velocity": np.zeros((more, 2)),
                    "interval": np.zeros(more),
                }
                column.extend(fill.get(name, np.full(more, _NEVER)))


def _centres(regions: Regions) -> NDArray[np.float64]:
    """Return the centre of the first rectangle of each region, not a number where that has no end."""
    part = regions.part[regions.part_start[:-1]]
    with np.errstate(invalid="ignore"):
        return part[:, :2] / 2 + part[:, 2:] / 2
