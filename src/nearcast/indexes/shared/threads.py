"""Searches the chunks of a batch in several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from nearcast.indexes.shared.undo import UndoLog

Result = TypeVar("Result")


def chunk_for(n: int, most: int, least: int, n_threads: int) -> int:
    """Return how many of n a thread takes at a time: `most`, or so few that all threads have some, but `least`."""
    return most if n_threads == 1 else max(min(most, -(-n // n_threads)), min(least, most))


def in_threads(run: Callable[[int], Result], starts: Iterable[int], n_threads: int, undo: UndoLog) -> list[Result]:
    """Return what `run` gives for each start, in their order; the calling thread is one of `n_threads`.

    No thread is still at it when this returns or raises. If the wait for them is interrupted, it is made up for before
    the next call to the index begins, which may change the arrays that they read. (An executor is no help: an interrupt
    at the wrong moment leaves the lock of one of its futures taken, and the wait for it never ends.)
    """
    chunks = list(enumerate(starts))
    todo = iter(chunks)
    found: dict[int, Result] = {}
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for at, start in todo:
                found[at] = run(start)
        except BaseException as error:  # noqa: BLE001 - raised again by the calling thread
            errors.append(error)
            chunks.clear()

    with undo:
        threads = [threading.Thread(target=work, name="nearcast-match") for _ in range(n_threads - 1)]
        undo.call(_end, threads, chunks)
        for thread in threads:
            thread.start()
        work()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
    return [found[at] for at in range(len(found))]


def _end(threads: list[threading.Thread], chunks: list[tuple[int, int]]) -> None:
    """Let each thread end with its present chunk, and wait for that; may run twice."""
    chunks.clear()  # one that starts only now finds nothing to do
    for thread in threads:
        if thread.is_alive():
            thread.join()
