"""Rate limits per token, in the notation of the library `limits`: counts in fixed windows, in memory."""

from __future__ import annotations

import math
import time

from nearcast.server.problems import Problem
from nearcast.server.setting_ranges import rate_of

#: Windows that are kept without a look whether they are over.
_FEW = 1000


class TokenRates:
    """How many requests each token made in its present window, which begins with the first of them.

    The storage in memory of `limits` starts a thread every ten milliseconds while requests come, so the counts are
    kept here.
    """

    def __init__(self, rate: str):
        self._item = rate_of(rate)
        #: The count of each token, and the end of its window; from so many on, those that are over are forgotten.
        self._windows: dict[str, tuple[int, float]] = {}
        self._most = _FEW

    def take(self, token_id: str) -> None:
        """Count a request; raise if the token has made too many."""
        if self._item is None:
            return
        now, (count, end) = time.monotonic(), self._windows.get(token_id, (0, 0.0))
        if now >= end:
            count, end = 0, now + self._item.get_expiry()
            self._forget_old(now)
        self._windows[token_id] = (count + 1, end)
        if count < self._item.amount:
            return
        wait = max(1, math.ceil(end - now))
        raise Problem(
            429, "too-many-requests", f"more than {self._item}; wait {wait} s", headers={"Retry-After": str(wait)}
        )

    def _forget_old(self, now: float) -> None:
        """Forget windows that are over, once there are many: tokens come and go."""
        if len(self._windows) >= self._most:
            self._windows = {token: window for token, window in self._windows.items() if window[1] > now}
            self._most = max(_FEW, 2 * len(self._windows))
