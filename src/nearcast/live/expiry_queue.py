"""The rows of live messages that end next, in order: a sorted prefix of all, refilled when time has passed its end.

A heap would be changed in place, and could not be put back when a step is undone. A sorted prefix is a value: dropping
moves a number, arrivals that end later than the prefix cost nothing, and a refill looks at every row once for thousands
that end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.columns import NO_TIME

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEVER = np.iinfo(np.int64).max
#: How many rows a refill takes, and how many there may be before the prefix is cut to as many again.
_FILLED, _MOST = 1 << 13, 1 << 15


class ExpiryQueue(NamedTuple):
    """Rows by `expires`, then row: those from `at` on that end before `bound` are all there are, dropped ones apart."""

    expires: NDArray[np.int64]
    row: NDArray[np.int64]
    at: int
    bound: int

    @classmethod
    def none(cls) -> ExpiryQueue:
        """Return the queue of no rows."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), 0, NEVER)

    @classmethod
    def unknown(cls) -> ExpiryQueue:
        """Return a queue that knows nothing of the rows there are; it has to be filled."""
        return cls.none()._replace(bound=NO_TIME)

    @classmethod
    def filled(cls, expires: NDArray[np.int64], now: int, until: int = NO_TIME) -> ExpiryQueue:
        """Return the queue of rows that end after `now`: at least those that end at `until` or before."""
        rows = np.flatnonzero(expires > now)
        ends = expires[rows]
        bound = NEVER
        if len(rows) > _FILLED:
            bound = min(max(int(np.partition(ends, _FILLED)[_FILLED]), until), NEVER - 1) + 1
            rows, ends = rows[ends < bound], ends[ends < bound]
        order = np.argsort(ends, kind="stable")
        return cls(ends[order], rows[order], 0, bound)

    @property
    def next_expiry(self) -> int:
        """When the next row ends, or some time before."""
        return int(self.expires[self.at]) if self.at < len(self.expires) else self.bound

    @property
    def nbytes(self) -> int:
        """The bytes of both columns."""
        return self.expires.nbytes + self.row.nbytes

    def until(self, now: int) -> NDArray[np.int64]:
        """Return the rows that end at this time or before, which is before `bound`."""
        return self.row[self.at : np.searchsorted(self.expires, now, side="right")]

    def without(self, now: int) -> ExpiryQueue:
        """Return the queue without the rows that end at this time or before, which is before `bound`."""
        return self._replace(at=max(self.at, int(np.searchsorted(self.expires, now, side="right"))))

    def with_rows(self, first: int, expires: NDArray[np.int64], now: int) -> ExpiryQueue:
        """Return the queue with new rows, numbered from `first` on, but for those that end at `now` or before."""
        soon = np.flatnonzero((expires < self.bound) & (expires > now))
        if not len(soon):
            return self
        soon = soon[np.argsort(expires[soon], kind="stable")]
        held = self.expires[self.at :]
        places = np.searchsorted(held, expires[soon], side="right")  # behind older rows that end at the same time
        ends = np.insert(held, places, expires[soon])
        rows = np.insert(self.row[self.at :], places, first + soon)
        if len(ends) <= _MOST:
            return ExpiryQueue(ends, rows, 0, self.bound)
        n = int(np.searchsorted(ends, ends[_FILLED]))
        return ExpiryQueue(ends[:n].copy(), rows[:n].copy(), 0, int(ends[n]))
