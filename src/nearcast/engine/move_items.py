"""Cuts a table of moves into items: batches of rows in order, in which every subscription moves once.

Rows that cannot be carried out are left out and kept as faults, with their reasons. Batches are made one by one, each
for the state that the one before has left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.columns import NO_TIME, datetime_of
from nearcast.engine.expiry import are_alive
from nearcast.engine.items import Advance, Move
from nearcast.engine.known_moves import KnownMove
from nearcast.engine.move_columns import place_rows
from nearcast.engine.move_times import late_reports, next_event, slides_window, why_late_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nearcast.engine.moves import Fault
    from nearcast.engine.state import State
    from nearcast.tables import Rejected
    from nearcast.tables.moves import Moves
    from nearcast.tables.time_limits import MaxAhead

#: Rows that are searched first for the end of an item.
_FIRST_BLOCK = 64


class MoveItems:
    """Iterates over a table of moves as items for a state, to be applied one after the other as they come."""

    def __init__(self, state: State, moves: Moves, max_ahead: MaxAhead | None = None):
        assert moves.time is not None
        self._state, self._moves, self._times, self._max_ahead = state, moves, moves.time, max_ahead
        self._faults: list[Fault] = []

    def __iter__(self) -> Iterator[Move | Advance]:
        first, state = 0, self._state
        slots, n_known = state.ids.slots(self._moves.ids), len(state.ids)
        previous = _previous(slots)
        while first < len(slots):
            if len(state.ids) != n_known:  # some have expired
                slots, n_known = state.ids.slots(self._moves.ids), len(state.ids)
            last = self._end(first, previous)
            item = self._item(np.arange(first, last), slots[first:last])
            if item is not None and item.times is not None and len(item.ids) == 1:
                yield from filter(None, [clock_item(state, int(item.times[0]))])
            if item is not None:
                yield item
            first = last

    def _end(self, first: int, previous: NDArray[np.int64]) -> int:
        """Return the end of the longest run of rows from `first` on that one item can hold.

        A row that takes event time to where the clock changes answers is an item by itself.
        """
        event = None if self._state.live is None else next_event(self._state)
        if event is not None and self._times[first] >= event:
            return first + 1
        begin, size = first, _FIRST_BLOCK
        while begin < len(previous):  # blocks that double: a short run must not look at all rows that are left
            ends = previous[begin : begin + size] >= first
            if event is not None:
                ends |= self._times[begin : begin + size] >= event
            if ends.any():
                return begin + int(np.argmax(ends))
            begin, size = begin + size, 2 * size
        return len(previous)

    def _item(self, rows: NDArray[np.int64], slots: NDArray[np.int32]) -> Move | None:
        """Return the item of rows whose slots differ, without those that cannot be carried out."""
        good = slots >= 0
        self._refuse(rows[~good], "id", "there is no such subscription; leave it out")
        return self._placed(rows[good], slots[good]) if good.any() else None

    def _placed(self, rows: NDArray[np.int64], slots: NDArray[np.int32]) -> Move | None:
        """Return the item of known ids, without those that come at a wrong time or cannot go to their place."""
        moves = self._moves if len(rows) == len(self._moves) else self._moves.take(rows)
        held, reports, points = self._state.index.subscriptions(slots), self._state.movers.of(slots), moves.points()
        placement, faults = place_rows(self._state, slots, held, reports, points, moves.regions, moves.written)
        faults = self._with_untimely(faults, rows, slots)
        if faults:
            self._faults += [(int(rows[row]), field, reason) for row, field, reason in faults]
            good = np.setdiff1d(np.arange(len(rows)), [row for row, _, _ in faults])
            moves, slots, held = moves.take(good), slots[good], held.take(good)
            placement, reports, points = placement.take(good), reports[good], points[good]
        if not len(slots):
            return None
        times = moves.time if moves.time is not None and (moves.time != NO_TIME).any() else None
        known = KnownMove(slots, held, placement, reports)
        return Move(ids=moves.ids, regions=moves.regions, points=points, times=times, known=known)

    def _with_untimely(self, faults: list[Fault], rows: NDArray[np.int64], slots: NDArray[np.int32]) -> list[Fault]:
        """Return the faults of places and of times, one for a row."""
        times = self._times[rows]
        is_placed = np.ones(len(rows), np.bool_)
        is_placed[[row for row, _, _ in faults]] = False
        untimely = dict(untimely_reports(self._state, slots, times, self._max_ahead, is_placed))
        others = [fault for fault in faults if fault[0] not in untimely]
        return [*others, *((row, "time", reason) for row, reason in untimely.items())]

    def _refuse(self, rows: NDArray[np.int64], field: str, reason: str) -> None:
        self._faults += [(row, field, reason) for row in rows.tolist()]

    def report(self, rejected: Rejected, source: str) -> None:
        """Add the rows that were left out to `rejected`."""
        assert self._moves.number is not None
        for row, field, reason in sorted(self._faults):
            rejected.add(source, int(self._moves.number[row]), self._moves.ids[row].as_py(), field, reason)


def clock_item(state: State, time: int) -> Advance | None:
    """Return what is to be applied before a report of this time: the clock, where it slides a window; else None."""
    return Advance(time) if slides_window(state, time) else None


def untimely_reports(
    state: State,
    slots: NDArray[np.int32],
    times: NDArray[np.int64],
    max_ahead: MaxAhead | None,
    is_placed: NDArray[np.bool_] | None = None,
) -> list[tuple[int, str]]:
    """Return which reports are late, come from the future or after the end of their subscription, and why.

    Those that are not `is_placed` are refused anyway: they do not move event time, and no future is measured by them.
    """
    late = np.flatnonzero(late_reports(state, slots, times)).tolist()
    found = {row: why_late_report(state, int(slots[row]), int(times[row])) for row in late}
    if max_ahead is not None:
        placed = times if is_placed is None else np.where(is_placed, times, NO_TIME)
        found = _from_future(state, placed, max_ahead) | found
    if state.live is not None and times.max(initial=NO_TIME) >= state.next_expiry:
        over = np.flatnonzero(~are_alive(state, slots, times)).tolist()
        found = {row: why_after_end(int(times[row])) for row in over} | found
    return sorted(found.items())


def _from_future(state: State, times: NDArray[np.int64], max_ahead: MaxAhead) -> dict[int, str]:
    """Return the reports that lie too far ahead, with the reason; without a lifetime none of them moves event time."""
    if state.live is not None:
        return dict(max_ahead.refused(times, state.now))
    if state.now == NO_TIME:
        return {}
    ahead = np.flatnonzero(max_ahead.ahead_of(times, state.now)).tolist()
    return {row: max_ahead.why(int(times[row]), state.now) for row in ahead}


def why_after_end(time: int) -> str:
    """Return why a report is refused that comes after the end of its subscription."""
    return f"time is {datetime_of(time)}, when the subscription has expired already; leave it out"


def _previous(slots: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return for each row the last row before it with the same slot, -1 if there is none."""
    order = np.argsort(slots, kind="stable")
    previous = np.full(len(slots), -1, np.int64)
    same = (slots[order[1:]] == slots[order[:-1]]) & (slots[order[1:]] >= 0)
    previous[order[1:][same]] = order[:-1][same]
    return previous
