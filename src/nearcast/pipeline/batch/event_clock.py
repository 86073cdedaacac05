"""Event time through a batch: the largest time of what was accepted so far.

Messages move it, and with a lifetime reports of places do. Whether a report is accepted depends on event time in turn,
so that the clock is asked run by run, in the order of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.columns import NO_TIME

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.pipeline.batch.order import AheadLimit, BatchOrder


class ReportTimes(NamedTuple):
    """What the clock says of reports, by row.

    `clock` is event time at each, its own time included where that counts; `is_tick` tells whether it moved event time,
    `is_ahead` that it comes from the future, and `is_over` that its subscription has expired by then.
    """

    clock: NDArray[np.int64]
    is_tick: NDArray[np.bool_]
    is_ahead: NDArray[np.bool_]
    is_over: NDArray[np.bool_]

    @classmethod
    def of(cls, n: int, now: int) -> ReportTimes:
        """Return n rows at this event time, of which nothing is said."""
        return cls(np.full(n, now), np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n, np.bool_))

    def part(self, first: int) -> ReportTimes:
        """Return the rows from `first` on, which may be written to."""
        return ReportTimes(self.clock[first:], self.is_tick[first:], self.is_ahead[first:], self.is_over[first:])


class EventClock:
    """A cursor over the messages of a batch that accumulates event time, asked at ascending positions.

    `message_clock` is event time at each message that was passed, and `ahead` tells which of them come from the future:
    these do not move it.
    """

    def __init__(self, order: BatchOrder, now: int, limit: AheadLimit | None, *, reports_move: bool):
        self.now = now
        self.message_clock = np.full(len(order.message), now)
        self.ahead = np.zeros(len(order.message), np.bool_)
        self._order, self._limit, self._reports_move = order, limit, reports_move
        self._n_passed = 0

    def at(self, position: int) -> int:
        """Pass the messages before a position; return event time there."""
        self._pass_messages(int(np.searchsorted(self._order.message_position, position)))
        return self.now

    def finish(self) -> None:
        """Pass all messages that are left."""
        self._pass_messages(len(self._order.message))

    def _pass_messages(self, last: int) -> None:
        part = slice(self._n_passed, last)
        if part.start < last:
            self.message_clock[part], self.ahead[part] = self._accumulated(self._order.message_time[part])
            self._n_passed, self.now = last, int(self.message_clock[last - 1])

    def _accumulated(self, time: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return event time after each of these times, from now on, and which of them lie too far ahead."""
        ahead = np.zeros(len(time), np.bool_) if self._limit is None else self._limit.is_ahead(time, self.now)
        clock: NDArray[np.int64] = np.maximum.accumulate(np.maximum(np.where(ahead, NO_TIME, time), self.now))
        return clock, ahead

    def reports(self, position: NDArray[np.int64], time: NDArray[np.int64], end: NDArray[np.int64]) -> ReportTimes:
        """Pass reports at these positions, and the messages between them; `end` is when their subscriptions expire.

        A report that is refused for another reason has no time and no end, NO_TIME and the largest int64.
        """
        n = len(position)
        found = ReportTimes.of(n, self.now)
        first = 0
        while first < n:
            rest = slice(first, n)
            first += self._reports_until_one_is_over(position[rest], time[rest], end[rest], found.part(first))
            if first < n:
                found.clock[first], found.is_over[first] = self.at(int(position[first])), True
                first += 1
        return found

    def _reports_until_one_is_over(
        self, position: NDArray[np.int64], time: NDArray[np.int64], end: NDArray[np.int64], found: ReportTimes
    ) -> int:
        """Pass reports up to the first whose subscription has expired; return its row, or how many there are."""
        first, last = self._n_passed, int(np.searchsorted(self._order.message_position, position[-1]))
        n_messages = max(0, last - first)
        order = np.argsort(np.concatenate([self._order.message_position[first:last], position]), kind="stable")
        counted = time if self._reports_move else np.full(len(time), NO_TIME)
        clock, ahead = self._accumulated(np.concatenate([self._order.message_time[first:last], counted])[order])
        rank = np.argsort(order)[n_messages:]  # where each report stands
        before = np.append(self.now, clock)[rank]
        found.clock[:], found.is_tick[:] = clock[rank], clock[rank] > before
        found.is_ahead[:] = ahead[rank] if self._reports_move else self._are_ahead(time, before)
        over = np.flatnonzero((end <= found.clock) & ~found.is_ahead)
        n = int(over[0]) if len(over) else len(position)
        end_at = int(rank[n]) if n < len(position) else len(order)
        passed = order[:end_at]
        at = first + passed[passed < n_messages]
        self.message_clock[at], self.ahead[at] = (column[:end_at][passed < n_messages] for column in (clock, ahead))
        self._n_passed = first + int((passed < n_messages).sum())
        self.now = int(clock[end_at - 1]) if end_at else self.now
        found.is_tick[n:] = found.is_ahead[n:] = False
        return n

    def _are_ahead(self, time: NDArray[np.int64], now: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which reports that do not move event time lie too far ahead of it, or of the wall clock."""
        if self._limit is None:
            return np.zeros(len(time), np.bool_)
        if self._limit.wall is not None:
            return self._limit.is_ahead(time, NO_TIME)
        ahead: NDArray[np.bool_] = (now != NO_TIME) & (time > now + self._limit.most.length)
        return ahead
