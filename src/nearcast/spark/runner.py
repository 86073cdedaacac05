"""The runner that runs the tasks of the pipeline as one Spark job. Imports pyspark only when a job runs."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nearcast.errors import NearcastError
from nearcast.pipeline.runner import Prefer, Task
from nearcast.spark.claims import Claims, executor_claims, executor_folder
from nearcast.spark.failures import in_one_line
from nearcast.spark.gc_freeze import freeze_once
from nearcast.spark.shared_folders import is_embedded
from nearcast.spark.task_places import ExecutorPlace, TaskPlaces, distributed, executor_here, given_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nearcast.spark.task_places import GivenPayload


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
_BESIDE_BATCHES = ("write_part", "write_tables")
SNAPSHOT_POOL = "nearcast snapshots"


class SparkRunner:
    """Runs tasks as one Spark job, one Spark task for each payload.

    A `NearcastError` of a task that trying again would not mend is raised here as it was there. One that may pass, such
    as a `StoreError`, and anything else is tried as often as the session says (`local[2,4]`: four times). Then it is
    raised as a `NearcastError` of one line, of the class it had, whose cause is the traceback of the worker.

    On a cluster a task prefers the executor that last ran one with its state. Among tasks of one executor, as among all
    tasks where there are no executors, claims say which worker runs which.
    """

    def __init__(self, spark: SparkSession):
        self.spark = spark
        self.places = TaskPlaces()
        self._is_embedded = is_embedded(str(spark.sparkContext.master))

    def map(
        self, task: Task, payloads: list[Any], *, claims: str | None = None, prefer: Prefer | None = None
    ) -> list[Any]:
        """Return what `task` returns for each payload, in the order of payloads."""
        if not payloads:
            return []
        contents = [pickle.dumps(payload, pickle.HIGHEST_PROTOCOL) for payload in payloads]
        with described(self.spark, description_of(task, payloads[0]), pool_of(task)):
            if self._is_embedded:
                outcomes = self._embedded(task, contents, claims, prefer)
            else:
                outcomes = self._on_cluster(task, payloads, contents, claims, prefer)
        by_payload = {outcome.payload: outcome for outcome in outcomes}
        return [by_payload[payload].result() for payload in range(len(payloads))]

    def _embedded(self, task: Task, contents: list[bytes], claims: str | None, prefer: Prefer | None) -> list[_Outcome]:
        """Run tasks in workers of this machine, which claim in one folder."""
        if claims is None:
            return self._outcomes(_Job(task), _own(contents))
        shutil.rmtree(claims, ignore_errors=True)  # of a driver that was killed
        Path(claims).mkdir(parents=True)
        try:
            return self._outcomes(_Job(task, contents, claims, prefer), _numbers(contents))
        finally:
            shutil.rmtree(claims, ignore_errors=True)

    def _on_cluster(
        self, task: Task, payloads: list[Any], contents: list[bytes], claims: str | None, prefer: Prefer | None
    ) -> list[_Outcome]:
        """Run tasks where they ran last; once more, anywhere, what nobody ran since an executor was lost."""
        places = self.places.preferred(payloads, self.spark.sparkContext)
        executors = tuple(None if place is None else place.id for place in places)
        # With one task for each executor there is nothing to agree on.
        is_claimed = claims is not None and any(executors.count(each) > 1 for each in {*executors} - {None})
        job = _Job(task, contents, executor_claims(claims), prefer, executors) if claims and is_claimed else _Job(task)
        outcomes = self._outcomes(job, _numbers(contents) if is_claimed else _own(contents), places)
        found = {outcome.payload for outcome in outcomes}
        missing = [(at, content) for at, content in _own(contents) if at not in found]
        if missing:
            outcomes += self._outcomes(_Job(task), missing)
        for outcome in outcomes:
            self.places.note(payloads[outcome.payload], outcome.place)
        return outcomes

    def _outcomes(
        self, job: _Job, given: list[GivenPayload], places: Sequence[ExecutorPlace | None] = ()
    ) -> list[_Outcome]:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        context = self.spark.sparkContext
        try:
            # Half the price of a DataFrame of n rows through mapInArrow: nothing is planned.
            return context.runJob(distributed(context, given, places), job)
        except (Py4JError, PySparkException) as error:
            raise in_one_line(error, job.task.__qualname__)  # noqa: B904 - it has its cause


def _own(contents: list[bytes]) -> list[GivenPayload]:
    """Return for each task the payload that is its own."""
    return list(enumerate(contents))


def _numbers(contents: list[bytes]) -> list[GivenPayload]:
    """Return for each task the number of its own payload: it may take another, and must know all of them anyway."""
    return [(at, b"") for at in range(len(contents))]


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
    """What came of one payload: a result, or an error that trying again would not mend; and where it ran."""

    payload: int
    content: bytes
    is_error: bool
    place: ExecutorPlace | None = None

    def result(self) -> Any:
        """Return the result, or raise the error."""
        content = pickle.loads(self.content)
        if self.is_error:
            raise content
        return content


@dataclass(frozen=True)
class _Job:
    """What runs in the workers; called once for each task.

    With `claims` a task takes one of `payloads`, else the one that is given to it. With `executors`, by payload, it
    takes one of those that are to run in its executor, if its own is.
    """

    task: Task
    payloads: Sequence[bytes] = ()
    claims: str | None = None
    prefer: Prefer | None = None
    executors: tuple[str | None, ...] = ()

    def __call__(self, rows: Iterable[Any]) -> Iterator[_Outcome]:
        (row,) = rows
        own, given = given_in(row)
        payload = own if self.claims is None else self._claimed(own, self.claims)
        try:
            content, is_error = self.task(pickle.loads(self.payloads[payload] if self.payloads else given)), False
        except NearcastError as error:
            if error.may_pass:
                raise
            content, is_error = error, True
        yield _Outcome(payload, pickle.dumps(content, pickle.HIGHEST_PROTOCOL), is_error, executor_here())
        freeze_once()

    def _claimed(self, own: int, claims: str) -> int:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        members = self._members(own)
        if len(members) == 1:
            return own
        folder = executor_folder(claims) if self.executors else Path(claims)
        payloads = [pickle.loads(self.payloads[each]) for each in members]
        preferred = [] if self.prefer is None else self.prefer(payloads)
        is_again = context.attemptNumber() > 0
        return members[Claims(folder, len(members)).take(members.index(own), is_again, preferred)]

    def _members(self, own: int) -> Sequence[int]:
        """Return the payloads that workers here share out among themselves."""
        if not self.executors:
            return range(len(self.payloads))
        here = executor_here()
        if here is None or self.executors[own] != here.id:
            return [own]
        return [at for at, each in enumerate(self.executors) if each == here.id]
