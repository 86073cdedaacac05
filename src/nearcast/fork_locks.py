"""Locks over a fork: a child process gets hubs that no other thread was inside of, with locks that nobody holds.

`os.fork` copies the memory and one thread. A lock that another thread holds at that moment would stay locked in the
child for ever, and what it guards half changed. So the forking thread takes all locks first, and both processes let go
of them afterwards. A fork waits for the calls that are under way.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

from nearcast.geo.regions import PREPARED_LOCK


class LockHolder(Protocol):
    """A hub, as far as a fork concerns it."""

    def _locks(self) -> Iterable[Any]:
        """Return its locks in the order in which a call takes them."""

    def _begin_child(self) -> None:
        """Forget the threads that a child process does not have."""


_hubs: weakref.WeakSet[LockHolder] = weakref.WeakSet()
_hubs_lock = threading.Lock()
#: The hubs and the locks that the forking thread holds, in the order in which they were taken.
_held_hubs: list[LockHolder] = []
_held_locks: list[Any] = []


def watch(hub: LockHolder) -> None:
    """Let the locks of a hub be taken over every fork, as long as it lives."""
    with _hubs_lock:
        _hubs.add(hub)


def _take_locks() -> None:
    _take(_hubs_lock)
    _held_hubs.extend(_hubs)
    for hub in _held_hubs:
        for lock in hub._locks():
            _take(lock)
    # Last, as in a call: whoever compiles a kernel or asks a polygon is inside an index already.
    _take(PREPARED_LOCK)
    if "numba" in sys.modules:  # imported by the first kernel
        from numba.core.compiler_lock import global_compiler_lock

        _take(global_compiler_lock)


def _take(lock: Any) -> None:
    lock.acquire()
    _held_locks.append(lock)


def _release_locks() -> None:
    _held_hubs.clear()
    while _held_locks:
        _held_locks.pop().release()


def _begin_child() -> None:
    """Forget the threads that the child does not have."""
    for hub in _held_hubs:
        hub._begin_child()
    _release_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take_locks, after_in_parent=_release_locks, after_in_child=_begin_child)
