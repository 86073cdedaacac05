"""Limits of time on writing to clients: one timer for all tasks that write, so that a write has none of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

#: How often those that wait are looked at, in seconds, and more often where the limit is shorter.
_LOOK_S = 1.0


class TooSlow(Exception):
    """A client has not read what it was sent in time."""


class StallWatch:
    """The tasks that write to clients, and until when. All methods are called in one loop."""

    def __init__(self) -> None:
        self._until: dict[asyncio.Task[object], float] = {}
        self._cut_off: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def limited(self, writing: Awaitable[None], seconds: float) -> None:
        """Await a write; `TooSlow` if it takes longer than so many seconds, told up to a second later."""
        task = asyncio.current_task()
        assert task is not None
        loop = task.get_loop()
        self._until[task] = loop.time() + seconds
        if self._timer is None:
            self._timer = loop.call_later(min(_LOOK_S, seconds / 4), self._look, loop, min(_LOOK_S, seconds / 4))
        try:
            await writing
        except asyncio.CancelledError:
            if task in self._cut_off and task.uncancel() <= 0:
                raise TooSlow from None
            raise
        finally:
            del self._until[task]
            self._cut_off.discard(task)

    def _look(self, loop: asyncio.AbstractEventLoop, every_s: float) -> None:
        """Cut off whoever waits for too long; look again while somebody waits."""
        now = loop.time()
        for task, until in self._until.items():
            if until <= now and task not in self._cut_off:
                self._cut_off.add(task)
                task.cancel()
        self._timer = loop.call_later(every_s, self._look, loop, every_s) if self._until else None
