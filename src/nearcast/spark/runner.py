"""The runner that runs the tasks of the pipeline as one Spark job. Imports pyspark only when a job runs."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nearcast.errors import NearcastError
from nearcast.pipeline.runner import Prefer, Task
from nearcast.spark.claims import Claims
from nearcast.spark.failures import in_one_line
from nearcast.spark.gc_freeze import freeze_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_DESCRIPTION, _POOL = "spark.job.description", "spark.scheduler.pool"
#: What tasks are called where people see them, unless it is their name.
_DOING = {
    "read_source": "read",
    "step_batch": "step",
    "detect_batch": "detect",
    "answer_questions": "search the window",
}

#: Tasks of jobs that run beside the batches, and the pool of the fair scheduler that these jobs are in: there they take
#: half of the slots while a batch wants the rest, where they would otherwise come before it.
_BESIDE_BATCHES = ("write_snapshot", "write_part", "write_tables")
SNAPSHOT_POOL = "nearcast snapshots"


class SparkRunner:
    """Runs tasks as one Spark job, one Spark task for each payload.

    A `NearcastError` of a task that trying again would not mend is raised here as it was there. One that may pass, such
    as a `StoreError`, and anything else is tried as often as the session says (`local[2,4]`: four times). Then it is
    raised as a `NearcastError` of one line, of the class it had, whose cause is the traceback of the worker.
    """

    def __init__(self, spark: SparkSession):
        self.spark = spark

    def map(
        self, task: Task, payloads: list[Any], *, claims: str | None = None, prefer: Prefer | None = None
    ) -> list[Any]:
        """Return what `task` returns for each payload, in the order of payloads."""
        if not payloads:
            return []
        contents = [pickle.dumps(payload, pickle.HIGHEST_PROTOCOL) for payload in payloads]
        if claims is not None:
            shutil.rmtree(claims, ignore_errors=True)  # of a driver that was killed
            Path(claims).mkdir(parents=True)
        try:
            with described(self.spark, description_of(task, payloads[0]), pool_of(task)):
                outcomes = self._outcomes(_Job(task, contents if claims else [], claims, prefer), contents)
        finally:
            if claims is not None:
                shutil.rmtree(claims, ignore_errors=True)
        by_payload = {outcome.payload: outcome for outcome in outcomes}
        return [by_payload[payload].result() for payload in range(len(payloads))]

    def _outcomes(self, job: _Job, contents: list[bytes]) -> list[_Outcome]:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        context = self.spark.sparkContext
        n = len(contents)
        # A task that may take any payload must know all of them; any other gets its own.
        given = range(n) if job.payloads else contents
        try:
            # Half the price of a DataFrame of n rows through mapInArrow: nothing is planned.
            return context.runJob(context.parallelize(given, n), job)
        except (Py4JError, PySparkException) as error:
            raise in_one_line(error, job.task.__qualname__)  # noqa: B904 - it has its cause


@contextmanager
def described(spark: SparkSession, text: str, pool: str | None = None) -> Iterator[None]:
    """Show the jobs of this thread under a text in Spark's UI and to its listeners, meanwhile, and in a pool."""
    context = spark.sparkContext
    given = {_DESCRIPTION: text} if pool is None else {_DESCRIPTION: text, _POOL: pool}
    before = {name: context.getLocalProperty(name) for name in given}
    for name, value in given.items():
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            context.setLocalProperty(name, old)  # type: ignore[arg-type]


def pool_of(task: Task) -> str | None:
    """Return the pool of the fair scheduler for the job of a task; None: that of whoever runs it."""
    return SNAPSHOT_POOL if task.__name__ in _BESIDE_BATCHES else None


def description_of(task: Task, payload: Any) -> str:
    """Return what a job does, and for which batch if it is one of a batch."""
    batch = getattr(payload, "batch", getattr(getattr(payload, "files", None), "batch", None))
    doing = _DOING.get(task.__name__, task.__name__.replace("_", " ").strip())
    return f"nearcast: {doing}" if batch is None else f"nearcast batch {batch}: {doing}"


class _Outcome(NamedTuple):
    """What came of one payload: a result, or an error that trying again would not mend."""

    payload: int
    content: bytes
    is_error: bool

    def result(self) -> Any:
        """Return the result, or raise the error."""
        content = pickle.loads(self.content)
        if self.is_error:
            raise content
        return content


@dataclass(frozen=True)
class _Job:
    """What runs in the workers; called once for each partition.

    With `claims` a task takes one of all `payloads`, else the one that is given to it.
    """

    task: Task
    payloads: list[bytes]
    claims: str | None
    prefer: Prefer | None

    def __call__(self, rows: Iterable[Any]) -> Iterator[_Outcome]:
        (given,) = rows
        payload = self._payload()
        try:
            content, is_error = self.task(pickle.loads(self.payloads[payload] if self.payloads else given)), False
        except NearcastError as error:
            if error.may_pass:
                raise
            content, is_error = error, True
        yield _Outcome(payload, pickle.dumps(content, pickle.HIGHEST_PROTOCOL), is_error)
        freeze_once()

    def _payload(self) -> int:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task = context.partitionId()
        if self.claims is None:
            return task
        preferred = [] if self.prefer is None else self.prefer([pickle.loads(each) for each in self.payloads])
        is_again = context.attemptNumber() > 0
        return Claims(self.claims, len(self.payloads)).take(task, is_again, preferred)
