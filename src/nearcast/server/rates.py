"""Rate limits per token: counts in fixed windows, in memory (`limits`)."""

from __future__ import annotations

import math
import time

from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from nearcast.errors import InvalidInput
from nearcast.server.problems import Problem


class TokenRates:
    """How many requests each token made in the present window."""

    def __init__(self, rate: str):
        self._item = _parsed(rate)
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    def take(self, token_id: str) -> None:
        """Count a request; raise if the token has made too many."""
        if self._item is None or self._limiter.hit(self._item, token_id):
            return
        reset = self._limiter.get_window_stats(self._item, token_id).reset_time
        wait = max(1, math.ceil(reset - time.time()))
        raise Problem(
            429, "too-many-requests", f"more than {self._item}; wait {wait} s", headers={"Retry-After": str(wait)}
        )


def _parsed(rate: str) -> RateLimitItem | None:
    if not rate:
        return None
    try:
        return parse(rate)
    except ValueError:
        raise InvalidInput(f"limits.rate is {rate!r}; expected something like '1000/second'") from None
