"""When a request that failed is made again: the schedule of Standard Webhooks, with jitter and the receiver's word."""

from __future__ import annotations

import random
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

#: Seconds from the first attempt to each further one, the last after 24 hours.
DELAYS_S = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
#: The longest that a receiver may ask us to wait.
_MOST_WAIT_S = 86_400
#: Each delay is stretched by up to this share, so that what failed together does not come back together.
_JITTER = 0.1


def next_try(first: float, n_tries: int, now: float, retry_after: float | None, chance: random.Random) -> float | None:
    """Return when an event is tried again that failed `n_tries` times since `first`; None: it is a dead letter.

    `retry_after` is how long the receiver asked us to wait, in seconds.
    """
    if n_tries > len(DELAYS_S):
        return None
    delay = DELAYS_S[n_tries - 1] * (1 + _JITTER * chance.random())
    return max(first + delay, now + (retry_after or 0), now + 1)


def retry_after_s(status: int, headers: Mapping[str, str], now: float) -> float | None:
    """Return how many seconds a response asks us to wait, by `Retry-After` of a 429 or 503."""
    given = headers.get("retry-after", "").strip()
    if status not in (429, 503) or not given:
        return None
    try:
        wait = float(given) if given.isdigit() else parsedate_to_datetime(given).timestamp() - now
    except (ValueError, OverflowError):
        return None
    return min(max(wait, 0.0), _MOST_WAIT_S)
