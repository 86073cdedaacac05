"""When a client asks again: after a connection that broke or a problem that may pass, for a bounded time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from nearcast.client.problems import ServerProblem, ServerUnavailable

_FIRST_PAUSE_S, _MOST_PAUSE_S = 0.1, 5.0


@dataclass
class Retrying:
    """The pauses of one call: each about twice as long as the one before, until `for_s` seconds are used up."""

    for_s: float
    _n: int = 0
    _used_s: float = 0.0
    _chance: random.Random = field(default_factory=random.Random, repr=False)

    def pause_s(self, error: ServerProblem | ServerUnavailable) -> float:
        """Return how long to wait before the call is made again; raise the error if it should not be."""
        if not error.may_pass or self._used_s >= self.for_s:
            raise error
        asked = error.retry_after_s if isinstance(error, ServerProblem) else None
        pause = min(_FIRST_PAUSE_S * 2.0**self._n, _MOST_PAUSE_S) * (0.5 + self._chance.random() / 2)
        pause = max(pause, asked or 0.0)
        self._n += 1
        self._used_s += pause
        if self._used_s > self.for_s:
            raise error
        return pause
