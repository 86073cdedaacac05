"""When a client asks again: after a connection that broke or a problem that may pass, for a bounded time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nearcast.client.problems import ServerProblem, ServerUnavailable

_FIRST_PAUSE_S, _MOST_PAUSE_S = 0.1, 5.0


@dataclass
class Retrying:
    """The pauses of one call, each about twice as long as the one before, for `for_s` seconds from a first failure."""

    for_s: float
    _n: int = 0
    _first: float | None = None
    _chance: random.Random = field(default_factory=random.Random, repr=False)
    _clock: Callable[[], float] = time.monotonic
    #: Whether a connection broke, or a proxy answered instead: what was asked for may have been done.
    is_unsure: bool = False
    #: Whether the token may have ended by it.
    may_have_ended_token: bool = False

    def pause_s(self, error: ServerProblem | ServerUnavailable) -> float:
        """Return how long to wait before the call is made again; raise the error if it should not be."""
        now = self._clock()
        self._first = now if self._first is None else self._first
        self.is_unsure = self.is_unsure or error.may_be_done
        self.may_have_ended_token = self.may_have_ended_token or error.may_have_ended_token
        if not error.may_pass or self.for_s <= 0:
            raise error
        asked = error.retry_after_s if isinstance(error, ServerProblem) else None
        pause = min(_FIRST_PAUSE_S * 2.0**self._n, _MOST_PAUSE_S) * (0.5 + self._chance.random() / 2)
        pause = max(pause, asked or 0.0)
        self._n += 1
        if now + pause - self._first > self.for_s:
            raise error
        return pause
