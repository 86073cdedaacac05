"""Searching the chunks of a batch in several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from nearcast.indexes._undo import UndoLog

Result = TypeVar("Result")


def in_threads(run: Callable[[int], Result], starts: Iterable[int], threads: int, undo: UndoLog) -> list[Result]:
    """Return what `run` gives for each start, in their order.

    No thread is still at it when this returns or raises. If the wait for them is interrupted, it is made up for before
    the next call to the index begins, which may change the arrays that they read.
    """
    with undo:
        pool = ThreadPoolExecutor(threads)
        undo.call(_end, pool)
        found = list(pool.map(run, starts))
        _end(pool)
    return found


def _end(pool: ThreadPoolExecutor) -> None:
    """Wait for the threads, each of which ends with its present chunk; may run twice."""
    pool.shutdown(cancel_futures=True)
