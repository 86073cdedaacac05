"""How far the time of a message may lie ahead of now: one wrong clock must not end every subscription and window."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np

from nearcast.columns import NO_TIME, datetime_of
from nearcast.window import Window, length_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EXPECTED = 'expected a time like 30s, 5m, 2h, 7d, or "off"'


@dataclass(frozen=True)
class MaxAhead:
    """The largest distance, in microseconds, from now to the time of a message that is accepted.

    >>> str(MaxAhead.of("5m"))
    '5m'
    """

    length: int

    @classmethod
    def of(cls, given: MaxAhead | str | timedelta | None) -> MaxAhead | None:
        """Return the limit that a text like "5m" or a timedelta describes; None for None and "off": no limit."""
        if given is None or isinstance(given, MaxAhead) or given == "off":
            return given if isinstance(given, MaxAhead) else None
        return cls(length_of(given, "max_ahead", _EXPECTED))

    def __str__(self) -> str:
        return str(Window(None, self.length))

    def ahead_of_events(self, times: NDArray[np.int64], now: int) -> NDArray[np.bool_]:
        """Tell which messages, arriving in this order, lie too far ahead of event time.

        Event time is `now` and then the largest time accepted. Without event time the first time is accepted.
        """
        ahead = np.zeros(len(times), np.bool_)
        if now != NO_TIME and times.max(initial=NO_TIME) <= now + self.length:
            return ahead
        for row, time in enumerate(times.tolist()):
            if time <= now:
                continue
            if now != NO_TIME and time > now + self.length:
                ahead[row] = True
            else:
                now = time
        return ahead

    def ahead_of(self, times: NDArray[np.int64], now: int) -> NDArray[np.bool_]:
        """Tell which messages lie too far ahead of one moment."""
        ahead: NDArray[np.bool_] = times > now + self.length
        return ahead

    def refused(self, times: NDArray[np.int64], now: int) -> list[tuple[int, str]]:
        """Return the rows that `ahead_of_events` tells, each with the reason."""
        ahead = self.ahead_of_events(times, now)
        if not ahead.any():
            return []
        clock = np.maximum.accumulate(np.maximum(np.where(ahead, NO_TIME, times), now))
        return [(row, self.why(int(times[row]), int(clock[row]))) for row in np.flatnonzero(ahead).tolist()]

    def why(self, time: int, now: int, clock: str = "event time") -> str:
        """Return why a message is refused."""
        return (
            f"time is {datetime_of(time)}, from the future: more than {self} after {clock}, which is"
            f" {datetime_of(now)}; correct it, or allow more by max_ahead"
        )


def why_expired(expires: int, now: int) -> str:
    """Return why a subscription that has expired cannot be stored."""
    return f"expires is {datetime_of(expires)}, and event time is {datetime_of(now)} already; give a later time"
