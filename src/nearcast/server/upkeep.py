"""What a tenant does every hour or sooner, so that of who was erased nothing is on disk when the retention is over.

What has ended by itself goes as well, so that it does not grow: tokens that expired, counts of events.

A busy server writes snapshots and begins its write-ahead logs anew all the time. On a quiet one they stay as they are,
with all that was deleted since.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from nearcast.durable import DurableHub, Retention
from nearcast.server.transactions import empty_wal

_log = logging.getLogger("nearcast.server")
#: Seconds from the start to the first look, and between two at most; with a short retention, a quarter of that.
_SOON_S, _EVERY_S = 60.0, 3600.0
#: How long after an erasure the hub forgets it, at most; with a retention, half of that.
_MOST_DELAY_S = 86_400.0


class TenantUpkeep:
    """Has the hub of a tenant forget who was erased, and its databases what was deleted or is past its time.

    `sweeps` are called with the time, in seconds since 1970.
    """

    def __init__(
        self,
        hub: DurableHub,
        databases: Sequence[Path],
        retention: Retention,
        sweeps: Sequence[Callable[[float], object]] = (),
    ):
        self._hub, self._databases, self._sweeps = hub, databases, sweeps
        self._looking, self._is_over = threading.Lock(), False
        age_us = retention.age_us
        self._delay_s = _MOST_DELAY_S if age_us is None else min(age_us / 2e6, _MOST_DELAY_S)

    async def run(self) -> None:
        """Look after the tenant until cancelled."""
        wait_s = _SOON_S  # not an hour: a server that is often restarted would never come to it
        while True:
            await asyncio.sleep(wait_s)
            await asyncio.to_thread(self.once, time.time())
            wait_s = min(_EVERY_S, self._delay_s / 2)

    def once(self, now: float) -> None:
        """Forget what was erased some time before now, in seconds since 1970, and what was deleted; waits for disks."""
        with self._looking:
            self._try(lambda: self._hub.forget_erased(now - self._delay_s))
            for sweep in self._sweeps:
                self._try(partial(sweep, now))
            for path in self._databases:
                self._try(partial(empty_wal, path))

    def close(self) -> None:
        """Wait for what is being forgotten, and begin nothing after it; in a thread."""
        self._is_over = True
        with self._looking:
            return

    def _try(self, work: Callable[[], object]) -> None:
        if self._is_over:
            return
        try:
            work()
        except Exception as error:  # noqa: BLE001  a full disk, or one who reads: the next time, then
            _log.warning("what was erased or has ended is not forgotten yet: %s", type(error).__name__)
