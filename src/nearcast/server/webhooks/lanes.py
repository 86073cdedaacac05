"""Shares of the connections of webhooks: endpoints that answer, new ones and failing ones each have their own.

Whoever waits for a connection waits behind its like: however many endpoints hang, those that answer find connections.
"""

from __future__ import annotations

import asyncio
from enum import Enum


class Lane(Enum):
    """What is known of an endpoint: its last request was accepted, it had none yet, or the last one failed."""

    ANSWERING = "answering"
    NEW = "new"
    FAILING = "failing"


class ConnectionLanes:
    """Connections by lane: a half of them for endpoints that answer, a quarter for each of the others, at least one."""

    def __init__(self, most_connections: int):
        quarter = max(1, most_connections // 4)
        sizes = {Lane.ANSWERING: max(1, most_connections - 2 * quarter), Lane.NEW: quarter, Lane.FAILING: quarter}
        self.n_connections = sum(sizes.values())
        self._slots = {lane: asyncio.Semaphore(n) for lane, n in sizes.items()}

    def slot(self, lane: Lane) -> asyncio.Semaphore:
        """Return what to hold during a request, however long it takes to get it: waiting is nobody's failure."""
        return self._slots[lane]
