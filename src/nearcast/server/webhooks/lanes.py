"""Shares of the connections of webhooks: endpoints that answer, new ones and failing ones each have their own.

Whoever waits for a connection waits behind its like: however many endpoints hang, those that answer find connections.
Requests of failing endpoints are also few a second, by a token bucket: a thousand that refuse connections cost the
others next to nothing.
"""

from __future__ import annotations

import asyncio
import time
from enum import Enum

#: Requests a second of failing endpoints, all together, and how many of them may come at once after a rest. Left to
#: themselves 36,000 make that many, for each is probed every half hour: only those that begin to fail together wait.
_FAILING_PER_S, _FAILING_AT_ONCE = 20.0, 100.0


class Lane(Enum):
    """What is known of an endpoint: its last request was accepted, it had none yet, or the last one failed."""

    ANSWERING = "answering"
    NEW = "new"
    FAILING = "failing"


class PacedSlots(asyncio.Semaphore):
    """A semaphore whose holders also come in at a pace: a token bucket of `at_once`, filled at `per_s`."""

    def __init__(self, n: int, per_s: float, at_once: float):
        super().__init__(n)
        self._per_s, self._at_once = per_s, at_once
        #: Tokens at a moment; below 0 for those that wait for theirs.
        self._tokens, self._counted = at_once, time.monotonic()

    async def __aenter__(self) -> None:
        await super().__aenter__()
        now = time.monotonic()
        self._tokens = min(self._at_once, self._tokens + (now - self._counted) * self._per_s) - 1
        self._counted = now
        if self._tokens < 0:
            try:
                await asyncio.sleep(-self._tokens / self._per_s)
            except BaseException:  # cancelled: it makes no request
                self._tokens += 1
                self.release()
                raise


class ConnectionLanes:
    """Connections by lane: a half of them for endpoints that answer, a quarter for each of the others, at least one."""

    def __init__(self, most_connections: int):
        quarter = max(1, most_connections // 4)
        half = max(1, most_connections - 2 * quarter)
        self.n_connections = half + 2 * quarter
        self._slots: dict[Lane, asyncio.Semaphore] = {
            Lane.ANSWERING: asyncio.Semaphore(half),
            Lane.NEW: asyncio.Semaphore(quarter),
            Lane.FAILING: PacedSlots(quarter, _FAILING_PER_S, _FAILING_AT_ONCE),
        }

    def slot(self, lane: Lane) -> asyncio.Semaphore:
        """Return what to hold during a request, however long it takes to get it: waiting is nobody's failure."""
        return self._slots[lane]
