"""Gives memory that the allocator keeps after a burst back to the system, and has cycles of objects collected.

Merging files, a snapshot, many moves: each needs some hundred megabytes for a moment, and `malloc` keeps most of that
for later. A full collection of garbage holds up all requests, and few objects wait for one: it is rare here, and
nowhere else.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

#: How often it is looked, in seconds, and how much more memory there must be than after the last time.
_EVERY_S, _GROWN_BYTES = 5.0, 32 << 20
#: Seconds after a release in which what it was made in the middle of should be over: then there is another.
_AGAIN_S = 60.0
#: Seconds between two full collections of garbage.
_COLLECTED_S = 600.0
_STATM = Path("/proc/self/statm")
#: Options of glibc's `mallopt`, and their values: what is at least so large is mapped apart and given back when it is
#: freed, a heap gives its end back from that size on, and so many heaps serve all threads.
_MMAP_THRESHOLD, _MAPPED_BYTES = -3, 1 << 20
_TRIM_THRESHOLD, _TRIMMED_BYTES = -1, 2 << 20
_ARENA_MAX, _ARENAS = -8, 2


def resident_bytes() -> int | None:
    """Return the resident memory of this process, None where the system does not tell."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def use_one_allocator() -> None:
    """Let Arrow take its memory from `malloc`, as NumPy and Python do, and glibc's `malloc` keep little of it.

    Arrow's own allocator, mimalloc, gives back only what belongs to the calling thread, and a server has many threads.
    glibc by itself makes a heap for each of them. It maps large arrays apart at first, but puts those of up to 32 MB
    into the heaps once such a one was freed: what lives longer comes to lie between them, and the heaps grow for as
    long as the server runs. Where there is another `malloc` nothing is changed.
    """
    if (set_option := _of_malloc("mallopt")) is not None:
        pa.set_memory_pool(pa.system_memory_pool())
        set_option(_MMAP_THRESHOLD, _MAPPED_BYTES)
        set_option(_TRIM_THRESHOLD, _TRIMMED_BYTES)
        set_option(_ARENA_MAX, _ARENAS)


def release_free_memory() -> None:
    """Return free pages of Arrow's pool and, with glibc, of `malloc` to the system; takes some milliseconds."""
    pa.default_memory_pool().release_unused()
    if (trim := _of_malloc("malloc_trim")) is not None:
        trim(0)


def _of_malloc(name: str) -> Callable[..., int] | None:
    """Return a function of the C library, None where it has no such."""
    return getattr(ctypes.CDLL(None), name, None)


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
