"""Runs the tasks of the pipeline: the protocol, and a runner that does so in this process, one after the other.

A task is an importable function of one payload. Payloads and results are small and can be pickled: they travel with
the job, while data lies in files. `nearcast.spark.runner` runs them as Spark jobs; whoever asks cannot tell which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Task = Callable[[Any], Any]
Prefer = Callable[[list[Any]], list[int]]


class Runner(Protocol):
    """Whatever runs a task for each of some payloads."""

    def map(
        self, task: Task, payloads: list[Any], *, claims: str | None = None, prefer: Prefer | None = None
    ) -> list[Any]:
        """Return what `task` returns for each payload, in the order of payloads.

        With `claims`, a folder of this job alone that all workers see, a worker picks its payload by `prefer`, which
        says which of them it is fit for, best first.
        """


class LocalRunner:
    """Runs tasks in this process, one after the other."""

    def map(
        self,
        task: Task,
        payloads: list[Any],
        *,
        claims: str | None = None,
        prefer: Prefer | None = None,
    ) -> list[Any]:
        """Return what `task` returns for each payload."""
        return [task(payload) for payload in payloads]
