"""When messages were sent and when their events came: how many a second, and percentiles of the time between."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np

#: An answer to a burst has come when nothing did for so long; and so long is waited at most.
_QUIET_S, _PATIENCE_S = 0.5, 30.0


class EventTimes:
    """Times of one load: `sent` by the number of a message, `came` and `taken` by event."""

    def __init__(self) -> None:
        self.sent: dict[int, float] = {}
        self.came: list[float] = []
        self.taken: list[float] = []

    def on_event(self, number: int, now: float) -> None:
        """Note an event; those of messages of another load are left out."""
        sent = self.sent.get(number)
        if sent is not None:
            self.came.append(now)
            self.taken.append(now - sent)

    def clear(self) -> None:
        """Begin another load."""
        self.sent.clear()
        self.came.clear()
        self.taken.clear()

    async def until_quiet(self) -> None:
        """Wait until no more events come."""
        over, seen = time.perf_counter() + _PATIENCE_S, -1
        while len(self.came) > seen and time.perf_counter() < over:
            seen = len(self.came)
            await asyncio.sleep(_QUIET_S)

    def to_json(self) -> dict[str, Any]:
        """Return how many events came, and percentiles in milliseconds; None without events."""
        if not self.taken:
            return {"events": 0, "p50_ms": None, "p99_ms": None}
        p50, p99 = np.percentile(self.taken, [50, 99]) * 1e3
        return {"events": len(self.taken), "p50_ms": float(p50), "p99_ms": float(p99)}


def rate_of(came: list[float], began: float, seconds: float) -> float:
    """Return events a second of a load that was sent in so many seconds, or took longer to arrive."""
    return len(came) / max(seconds, max(came, default=began) - began)
