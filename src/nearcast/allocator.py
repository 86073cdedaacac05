"""Has one allocator, glibc's `malloc`, serve Arrow, NumPy and Python, and keep little of what was freed.

For processes that live long and are ours alone: the server, and Spark's Python workers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pyarrow as pa

#: Options of glibc's `mallopt`, and their values: what is at least so large is mapped apart and given back when it is
#: freed, a heap gives its end back from that size on, and so many heaps serve all threads.
_MMAP_THRESHOLD, _MAPPED_BYTES = -3, 1 << 20
_TRIM_THRESHOLD, _TRIMMED_BYTES = -1, 2 << 20
_ARENA_MAX, _ARENAS = -8, 2


def use_one_allocator() -> None:
    """Let Arrow take its memory from `malloc`, as NumPy and Python do, and glibc's `malloc` keep little of it.

    Arrow's own allocator, mimalloc, gives back only what belongs to the calling thread, and a server has many threads.
    glibc by itself makes a heap for each of them. It maps large arrays apart at first, but puts those of up to 32 MB
    into the heaps once such a one was freed: what lives longer comes to lie between them, and the heaps grow for as
    long as the process runs. Where there is another `malloc` nothing is changed.
    """
    if (set_option := of_malloc("mallopt")) is not None:
        pa.set_memory_pool(pa.system_memory_pool())
        set_option(_MMAP_THRESHOLD, _MAPPED_BYTES)
        set_option(_TRIM_THRESHOLD, _TRIMMED_BYTES)
        set_option(_ARENA_MAX, _ARENAS)


def release_free_memory() -> None:
    """Return free pages of Arrow's pool and, with glibc, of `malloc` to the system; takes some milliseconds."""
    pa.default_memory_pool().release_unused()
    if (trim := of_malloc("malloc_trim")) is not None:
        trim(0)


def of_malloc(name: str) -> Callable[..., int] | None:
    """Return a function of the C library, None where it has no such."""
    return getattr(ctypes.CDLL(None), name, None)
