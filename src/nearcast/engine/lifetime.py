"""`Lifetime`: how long messages count for subscriptions that come, move or change after them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np

from nearcast.columns import FIRST_TIME, LAST_TIME, NO_TIME, datetime_of
from nearcast.window import Window, length_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EXPECTED = 'expected "expires", or a time like 30s, 15m, 2h, 7d for messages that give no `expires`'


@dataclass(frozen=True)
class Lifetime:
    """Until when messages live: until their `expires`; without one, `length` microseconds, None: not at all.

    >>> str(Lifetime.of("10m")), str(Lifetime.of("expires"))
    ('10m', 'expires')
    """

    length: int | None = None

    @classmethod
    def of(cls, given: Lifetime | str | timedelta) -> Lifetime:
        """Return the lifetime that "expires", a text like "10m" or a timedelta describes."""
        if isinstance(given, Lifetime):
            return given
        if given == "expires":
            return cls()
        return cls(length_of(given, "lifetime", _EXPECTED))

    def __str__(self) -> str:
        return "expires" if self.length is None else str(Window(None, self.length))

    def ends(self, time: NDArray[np.int64], expires: NDArray[np.int64], clock: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return when messages end that arrive at these event times, NO_TIME for those that are an instant."""
        if self.length is None:
            return expires
        begin = np.where(time == NO_TIME, clock, time)
        own = np.where(begin == NO_TIME, NO_TIME, np.minimum(np.maximum(begin, FIRST_TIME) + self.length, LAST_TIME))
        return np.where(expires == NO_TIME, own, expires)

    def faults(self, time: NDArray[np.int64], expires: NDArray[np.int64], now: int) -> list[tuple[int, str, str]]:
        """Return (row, field, reason) of the messages, arriving in this order, that are over or whose end is unknown.

        They do not move event time: each is older than what is `now`.
        """
        return self.faults_at(time, expires, np.maximum.accumulate(np.maximum(time, now)))

    def faults_at(
        self, time: NDArray[np.int64], expires: NDArray[np.int64], clock: NDArray[np.int64]
    ) -> list[tuple[int, str, str]]:
        """Return the same for messages that arrive at these event times."""
        ends = self.ends(time, expires, clock)
        unknown = (ends == NO_TIME) & (self.length is not None)
        over = (ends != NO_TIME) & (ends <= clock)
        found = [(row, "time", self._why_unknown()) for row in np.flatnonzero(unknown).tolist()]
        for row in np.flatnonzero(over).tolist():
            field = "time" if expires[row] == NO_TIME else "expires"
            found.append((row, field, self.why_over(int(ends[row]), int(clock[row]))))
        return sorted(found)

    def _why_unknown(self) -> str:
        return f"neither time nor event time is known, from which a life of {self} counts; give time or expires"

    def why_over(self, end: int, now: int) -> str:
        """Return why a message is refused that is expired on arrival."""
        return (
            f"the message ended at {datetime_of(end)}, and event time is {datetime_of(now)} already; it came too late"
        )
