"""A circuit breaker: after failures in a row an endpoint is left alone for a while, then probed with one request."""

from __future__ import annotations

import random
from dataclasses import replace

from nearcast.server.webhooks.attempts import EndpointState
from nearcast.server.webhooks.lanes import Lane

#: Failures in a row after which the circuit opens.
FAILURES = 5
#: How long it stays open at first; twice as long after each probe that fails, up to the most.
_FIRST_PAUSE_S, _MOST_PAUSE_S = 30.0, 1800.0
#: An endpoint that fails for so long is disabled.
DISABLED_AFTER_S = 5 * 86_400


class Breaker:
    """Decides, by the state of an endpoint, until when it is left alone."""

    def __init__(self, state: EndpointState, chance: random.Random, *, has_answered: bool = False):
        self.state = state
        self.open_until = 0.0
        self._chance, self._has_answered = chance, has_answered

    @property
    def lane(self) -> Lane:
        """Return whose connections the endpoint shares."""
        if self.state.n_failures:
            return Lane.FAILING
        return Lane.ANSWERING if self._has_answered else Lane.NEW

    def succeed(self) -> EndpointState:
        """Note a request that was accepted."""
        self.open_until, self._has_answered = 0.0, True
        self.state = replace(self.state, failing_since=None, n_failures=0)
        return self.state

    def fail(self, now: float, wait_s: float | None) -> EndpointState:
        """Note a request that failed; `wait_s` is how long the receiver asked us to wait."""
        since = now if self.state.failing_since is None else self.state.failing_since
        self.state = replace(self.state, failing_since=since, n_failures=self.state.n_failures + 1)
        n_open = self.state.n_failures - FAILURES
        if n_open >= 0:
            pause = min(_FIRST_PAUSE_S * 2 ** min(n_open, 10), _MOST_PAUSE_S)
            self.open_until = now + pause * (1 + self._chance.random() / 10)
        self.open_until = max(self.open_until, now + (wait_s or 0.0))
        if now - since >= DISABLED_AFTER_S:
            self.disable(f"no request was accepted for {DISABLED_AFTER_S // 86_400} days")
        return self.state

    def disable(self, reason: str) -> EndpointState:
        """Send nothing any more, until somebody enables it."""
        self.state = replace(self.state, disabled=reason)
        return self.state
