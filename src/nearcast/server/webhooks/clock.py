"""The wall clock of the server, behind a protocol, so that tests can let a day pass."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class WaitingClock(Protocol):
    """Tells the time, and waits for an event or for a moment."""

    def now(self) -> float:
        """Return the seconds since 1970."""

    async def wait(self, event: asyncio.Event, until: float | None) -> None:
        """Return when the event is set, or at a moment; None: however long it takes."""


class WallClock:
    """The clock of the machine."""

    def now(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    async def wait(self, event: asyncio.Event, until: float | None) -> None:
        """Return when the event is set, or at a moment; None: however long it takes."""
        try:
            async with asyncio.timeout(None if until is None else max(until - self.now(), 0)):
                await event.wait()
        except TimeoutError:
            pass
