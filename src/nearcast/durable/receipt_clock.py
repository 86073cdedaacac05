"""The clock of a durable hub that stamps its inputs: the wall clock, held back where it would go back.

A time of receipt is taken for each transaction of the log and stored with its inputs, so that replay need not know what
time it is. Times of receipt never go back: when the wall clock does, by hand or after a wrong jump ahead, they stand
still until it has caught up. Event time could not follow anyway.
"""

from __future__ import annotations

import threading
import time

from nearcast.columns import NO_TIME


def wall_time() -> int:
    """Return the time of day, in microseconds since 1970."""
    return time.time_ns() // 1000


class ReceiptClock:
    """A clock that never goes back, begun at the last time of receipt that is known."""

    def __init__(self, last: int | None):
        self._last = NO_TIME if last is None else last
        self._lock = threading.Lock()

    def now(self) -> int:
        """Return the time of receipt of what arrives now."""
        with self._lock:
            self._last = max(self._last, wall_time())
            return self._last

    @property
    def behind_s(self) -> float:
        """Return by how many seconds the wall clock is behind the last time of receipt, 0 where it is not."""
        return max(0, self._last - wall_time()) / 1e6
