"""A gate that lets batches in one at a time, until it is closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from nearcast.errors import NearcastError

#: Why a batch is refused.
STOPPING = "the stream is stopping"


class BatchGate:
    """Mutual exclusion of batches, with a way to end it: what waits at a closed gate is refused and never hangs.

    Nobody holds a lock while the query is stopped. Spark's thread may be about to begin a batch just then, and Spark
    waits for that thread without a limit.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: int | None = None
        self.is_closed = False

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Run a block alone; `NearcastError` once the gate is closed."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    @property
    def is_entered_here(self) -> bool:
        """Tell whether the block that runs is run by this thread."""
        return self._inside == threading.get_ident()

    def close(self) -> None:
        """Let nobody in any more; returns at once."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()

    def wait_until_left(self) -> None:
        """Wait until no block runs."""
        with self._changed:
            self._changed.wait_for(lambda: self._inside is None)

    def _enter(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.is_closed or self._inside is None)
            if self.is_closed:
                raise NearcastError(STOPPING)
            self._inside = threading.get_ident()

    def _leave(self) -> None:
        with self._changed:
            self._inside = None
            self._changed.notify_all()
