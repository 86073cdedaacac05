"""Cuts a table of moves into items: batches of rows in order, in which every subscription moves once.

Rows that cannot be carried out are left out and kept as faults, with their reasons. Batches are made one by one, each
for the state that the one before has left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.columns import NO_TIME
from nearcast.engine.items import Move
from nearcast.engine.moves import KnownMove, MovePlaces, late_reports, place_rows, why_late_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nearcast.engine.moves import Fault
    from nearcast.engine.state import State
    from nearcast.tables import Rejected
    from nearcast.tables.moves import Moves


class MoveItems:
    """Iterates over a table of moves as items for a state, to be applied one after the other as they come."""

    def __init__(self, state: State, moves: Moves):
        assert moves.time is not None
        self._state, self._moves, self._times = state, moves, moves.time
        self._faults: list[Fault] = []

    def __iter__(self) -> Iterator[Move]:
        first, slots = 0, self._slots()
        previous = _previous(slots)
        while first < len(slots):
            last = self._end(first, previous)
            item = self._item(np.arange(first, last), slots[first:last])
            if item is not None:
                yield item
            first = last

    def _slots(self) -> NDArray[np.int32]:
        return self._state.ids.slots(self._moves.ids)

    def _end(self, first: int, previous: NDArray[np.int64]) -> int:
        """Return the end of the longest run of rows from `first` on that one item can hold."""
        again = np.flatnonzero(previous[first:] >= first)
        return first + int(again[0]) if len(again) else len(previous)

    def _item(self, rows: NDArray[np.int64], slots: NDArray[np.int32]) -> Move | None:
        """Return the item of rows whose slots differ, without those that cannot be carried out."""
        good = slots >= 0
        self._refuse(rows[~good], "id", "there is no such subscription; leave it out")
        rows, slots = rows[good], slots[good]
        late = late_reports(self._state, slots, self._times[rows])
        for row, slot in zip(rows[late].tolist(), slots[late].tolist(), strict=True):
            self._faults.append((row, "time", why_late_report(self._state, slot, int(self._times[row]))))
        rows, slots = rows[~late], slots[~late]
        if not len(rows):
            return None
        return self._placed(rows, slots)

    def _placed(self, rows: NDArray[np.int64], slots: NDArray[np.int32]) -> Move | None:
        """Return the item of rows that come in time, without those that cannot go to their place."""
        moves, held = self._moves.take(rows), self._state.index.subscriptions(slots)
        placement, faults = place_rows(self._state, slots, held, moves.points(), moves.regions)
        if faults:
            self._faults += [(int(rows[row]), field, reason) for row, field, reason in faults]
            good = np.setdiff1d(np.arange(len(rows)), [row for row, _, _ in faults])
            moves, slots, held = moves.take(good), slots[good], held.take(good)
            placement = _taken(placement, good)
        if not len(slots):
            return None
        times = moves.time if moves.time is not None and (moves.time != NO_TIME).any() else None
        known = KnownMove(slots, held, placement)
        return Move(ids=moves.ids, regions=moves.regions, points=moves.points(), times=times, known=known)

    def _refuse(self, rows: NDArray[np.int64], field: str, reason: str) -> None:
        self._faults += [(row, field, reason) for row in rows.tolist()]

    def report(self, rejected: Rejected, source: str) -> None:
        """Add the rows that were left out to `rejected`."""
        assert self._moves.number is not None
        for row, field, reason in sorted(self._faults):
            rejected.add(source, int(self._moves.number[row]), self._moves.ids[row].as_py(), field, reason)


def _taken(placement: MovePlaces, rows: NDArray[np.int64]) -> MovePlaces:
    texts = {at: placement.texts[row] for at, row in enumerate(rows.tolist()) if row in placement.texts}
    return MovePlaces(placement.regions.take(rows), placement.extents[rows], texts)


def _previous(slots: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return for each row the last row before it with the same slot, -1 if there is none."""
    order = np.argsort(slots, kind="stable")
    previous = np.full(len(slots), -1, np.int64)
    same = (slots[order[1:]] == slots[order[:-1]]) & (slots[order[1:]] >= 0)
    previous[order[1:][same]] = order[:-1][same]
    return previous
