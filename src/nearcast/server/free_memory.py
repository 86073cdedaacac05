"""Gives memory that the allocator keeps after a burst back to the system, and has cycles of objects collected.

Merging files, a snapshot, many moves: each needs some hundred megabytes for a moment, and `malloc` keeps most of that
for later. A full collection of garbage holds up all requests, and few objects wait for one: it is rare here, and
nowhere else.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import time
from pathlib import Path

from nearcast.allocator import release_free_memory

#: How often it is looked, in seconds, and how much more memory there must be than after the last time.
_EVERY_S, _GROWN_BYTES = 5.0, 32 << 20
#: Seconds after a release in which what it was made in the middle of should be over: then there is another.
_AGAIN_S = 60.0
#: Seconds between two full collections of garbage.
_COLLECTED_S = 600.0
_STATM = Path("/proc/self/statm")


def resident_bytes() -> int | None:
    """Return the resident memory of this process, None where the system does not tell."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


class FreeMemory:
    """Releases free memory when that of the process has grown since it last did."""

    def __init__(self) -> None:
        self._least = resident_bytes() or 0
        self._collected, self._again = time.monotonic(), math.inf

    async def run(self) -> None:
        """Look now and then until cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            await asyncio.to_thread(self.look)

    def look(self) -> bool:
        """Release free memory if there may be much; tell whether that was so."""
        if time.monotonic() - self._collected >= _COLLECTED_S:
            gc.collect()
            self._collected = time.monotonic()
        before = resident_bytes()
        if before is None:
            return False
        self._least = min(self._least, before)
        has_grown = before >= self._least + _GROWN_BYTES
        if not has_grown and time.monotonic() < self._again:
            return False
        release_free_memory()
        self._least = resident_bytes() or 0
        self._again = time.monotonic() + _AGAIN_S if has_grown else math.inf
        return True
