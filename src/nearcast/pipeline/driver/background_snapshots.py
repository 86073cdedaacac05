"""Snapshots of all partitions, written by a job beside the batches; failures are counted, and end the stream at last.

A stream without new snapshots is exact, but its history grows: a restart replays all of it, and no file is deleted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from nearcast.errors import NearcastError
from nearcast.pipeline.store.local_place import one_line

if TYPE_CHECKING:
    from nearcast.pipeline.driver.pipeline import Pipeline
    from nearcast.pipeline.driver.state import Snapshots

#: Failures in a row after which a stream ends. After each the pause doubles: with the last, 31 batches in all.
MOST_FAILURES = 6


class BackgroundSnapshots:
    """Writes snapshots in a thread, one set at a time; its methods are called between two batches."""

    def __init__(self, pipeline: Pipeline):
        self._pipeline = pipeline
        self._thread: threading.Thread | None = None
        self._found: Snapshots | None = None
        self._error: Exception | None = None
        self._pause = 0
        #: Failures since snapshots were last written.
        self.failures = 0

    def begin_if_due(self, every: int) -> None:
        """Begin to write if a partition has come this many batches, unless that is under way or has just failed."""
        if self._pause:
            self._pause -= 1
        elif self._thread is None and self._pipeline.snapshots_due(every):
            self._found = self._error = None
            self._thread = threading.Thread(target=self._write, name="nearcast snapshots", daemon=True)
            self._begin(self._thread)

    def _begin(self, thread: threading.Thread) -> None:
        """Name what is to be written, as the last batch left it, and let it be written."""
        try:
            self._rest: Callable[[], Snapshots] = self._pipeline.snapshots_to_write()
        except Exception as error:  # noqa: BLE001 - as in the thread
            self._error = error
        else:
            thread.start()

    def _write(self) -> None:
        try:
            self._found = self._rest()
        except Exception as error:  # noqa: BLE001 - `take` tells it, whatever it is
            self._error = error

    def take(self) -> str | None:
        """Let the next batch name snapshots that are finished; return one line for a failure, which is told once.

        `NearcastError` after too many failures in a row.
        """
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread = None
        if self._found is not None:
            self.failures = 0
            self._pipeline.take_snapshots(self._found)
            return None
        return self._failed(self._error)

    def _failed(self, error: Exception | None) -> str:
        self.failures += 1
        why = f"snapshots could not be written: {'no reason' if error is None else one_line(error)}"
        if self.failures >= MOST_FAILURES:
            raise NearcastError(
                f"{why}; that was failure {self.failures} in a row, and the stream ends: nothing that was committed is"
                " lost, start again when the cause is mended"
            ) from error
        self._pause = (1 << (self.failures - 1)) - 1
        again = "with the next batch" if not self._pause else f"after {self._pause + 1} batches"
        return f"{why} (failure {self.failures} of {MOST_FAILURES} in a row; tried again {again})"

    def join(self, seconds: float | None = None) -> None:
        """Wait until nothing is being written, or for some seconds."""
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(seconds)
