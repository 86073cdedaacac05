"""Keeps the Python workers of an idle stream alive. Imports no pyspark.

Spark ends all idle workers of an executor a minute after the last task there, a time that no setting changes, also
when others of them have long tasks. With them go the states of partitions, which the next batch would have to open and
replay.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nearcast.pipeline.runner import Runner

#: Half the time after which Spark ends idle workers.
KEEP_WARM_S = 30.0


class WarmKeeper:
    """A thread that runs a job of empty tasks whenever no batch has ended for a while: one keeps all of an executor.

    It ends with `stop`, when the stream is no longer active, or when a job fails: the next batch reports that better.
    """

    def __init__(self, runner: Runner, tasks: Callable[[], int], is_active: Callable[[], bool], every: float):
        self._runner, self._tasks, self._is_active, self._every = runner, tasks, is_active, every
        self._last = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nearcast keep warm", daemon=True)
        self._thread.start()

    def note(self) -> None:
        """Note that tasks have just run."""
        self._last = time.monotonic()

    def stop(self) -> None:
        """Have it end after the job under way, and wait for nothing: without executors that job takes for ever."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(max(self._last + self._every - time.monotonic(), 0)):
            if time.monotonic() >= self._last + self._every and not self._is_kept():
                return

    def _is_kept(self) -> bool:
        """Run a job unless the stream has ended; tell whether to go on."""
        try:
            if not self._is_active():
                return False
            self._runner.map(_rest, list(range(self._tasks())))
        except Exception:  # noqa: BLE001 - whatever it is, also that Spark has gone: the next batch reports it
            return False
        self.note()
        return True


def _rest(_: int) -> None:
    """Do nothing, in a worker."""
