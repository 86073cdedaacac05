"""Snapshots of a running stream: its partitions write theirs in turn, the driver writes its own beside the batches.

A stream without new snapshots is exact, but its history grows: a restart replays all of it, and no file is deleted.
Failures are counted, and end the stream at last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from nearcast.errors import NearcastError
from nearcast.pipeline.store.local_place import one_line

if TYPE_CHECKING:
    from nearcast.pipeline.driver.batch_report import Report
    from nearcast.pipeline.driver.pipeline import Pipeline
    from nearcast.pipeline.driver.state import Snapshots

#: Failures in a row after which a stream ends. After each the pause doubles: with the last, 31 batches in all.
MOST_FAILURES = 6


class _FailureCount:
    """Counts failures in a row, and the batches to wait after the last one."""

    def __init__(self) -> None:
        self.failures = 0
        self._pause = 0

    def passes(self) -> bool:
        """Tell whether to try in this batch."""
        if not self._pause:
            return True
        self._pause -= 1
        return False

    def failed(self, why: str, error: Exception | None = None) -> str:
        """Count a failure; return one line about it, or raise `NearcastError` when there were too many."""
        self.failures += 1
        why = f"snapshots could not be written: {why}"
        if self.failures >= MOST_FAILURES:
            raise NearcastError(
                f"{why}; that was failure {self.failures} in a row, and the stream ends: nothing that was committed is"
                " lost, start again when the cause is mended"
            ) from error
        self._pause = (1 << (self.failures - 1)) - 1
        again = "with the next batch" if not self._pause else f"after {self._pause + 1} batches"
        return f"{why} (failure {self.failures} of {MOST_FAILURES} in a row; tried again {again})"


class BackgroundSnapshots:
    """Lets partitions write snapshots in their steps, and writes the driver's in a thread, one set at a time.

    Each is written once in `every` batches. `take` is called before a batch, `begin_if_due` after it.
    """

    def __init__(self, pipeline: Pipeline, every: int):
        self._pipeline, self._every = pipeline, every
        self._thread: threading.Thread | None = None
        self._found: Snapshots | None = None
        self._error: Exception | None = None
        self._of_driver, self._of_steps = _FailureCount(), _FailureCount()
        #: Why a partition could not write in the last batch.
        self._problem: str | None = None

    @property
    def failures(self) -> int:
        """Failures since snapshots were last written."""
        return max(self._of_driver.failures, self._of_steps.failures)

    def begin_if_due(self, report: Report | None = None) -> None:
        """Note what partitions wrote in a batch; begin to write the driver's state if that is due and not under way."""
        if report is not None:
            self._problem = report.snapshot_problem
            if report.snapshots and self._problem is None:
                self._of_steps.failures = 0
        if self._of_driver.passes() and self._thread is None and self._pipeline.snapshots_due(self._every):
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
        """Let the next batch name snapshots that are finished, and write those whose turn it is.

        Return one line for failures, which are told once; `NearcastError` after too many in a row.
        """
        told = [line for line in (self._about_steps(), self._about_driver()) if line is not None]
        self._pipeline.snapshot_every = self._every if self._of_steps.passes() else None
        return "; ".join(told) or None

    def _about_steps(self) -> str | None:
        problem, self._problem = self._problem, None
        return None if problem is None else self._of_steps.failed(problem)

    def _about_driver(self) -> str | None:
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread = None
        if self._found is None:
            return self._of_driver.failed("no reason" if self._error is None else one_line(self._error), self._error)
        self._of_driver.failures = 0
        self._pipeline.take_snapshots(self._found)
        return None

    def join(self, seconds: float | None = None) -> None:
        """Wait until nothing is being written, or for some seconds."""
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(seconds)
