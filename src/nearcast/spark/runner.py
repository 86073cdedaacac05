"""The runner that runs the tasks of the pipeline as one Spark job. Imports pyspark only when a job runs."""

from __future__ import annotations

import os
import pickle
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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


#: Seconds that a payload waits for the worker that has its state, and between two looks. Meanwhile that worker does
#: something else, such as a snapshot beside the batch; to open a large state elsewhere and to replay it takes longer.
_WAIT_S, _LOOK_S = 10.0, 0.02
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
    tasks where there are no executors, claims say which worker runs which. A payload whose state is in the memory of
    another worker, one that is busy, is left over and run again a moment later.
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
            by_payload = self._by_payload(_Job(task, claims=claims, prefer=prefer), payloads, contents)
        return [by_payload[payload].result() for payload in range(len(payloads))]

    def _by_payload(self, job: _Job, payloads: list[Any], contents: list[bytes]) -> dict[int, _Outcome]:
        """Run tasks until each payload has an outcome; return these by its number.

        What was left over is run again: because its worker was busy, or an executor was lost; at last by any worker.
        """
        run = self._embedded if self._is_embedded else self._on_cluster
        found: dict[int, _Outcome] = {}
        left, until = list(range(len(payloads))), time.monotonic() + _WAIT_S
        while True:
            some = [payloads[at] for at in left]
            for outcome in run(job, some, [contents[at] for at in left]):
                found[left[outcome.payload]] = outcome
                if not outcome.is_error:
                    self.places.note(some[outcome.payload], outcome.place, outcome.worker)
            left = [at for at in left if at not in found]
            if not left:
                return found
            time.sleep(_LOOK_S)
            if time.monotonic() >= until:
                job = _Job(job.task)

    def _embedded(self, job: _Job, payloads: list[Any], contents: list[bytes]) -> list[_Outcome]:
        """Run tasks in workers of this machine, which claim in one folder."""
        claims = job.claims
        if claims is None:
            return self._outcomes(job, _own(contents))
        shutil.rmtree(claims, ignore_errors=True)  # of a driver that was killed
        Path(claims).mkdir(parents=True)
        job = replace(job, payloads=contents, workers=self._workers(payloads))
        try:
            return self._outcomes(job, _numbers(contents))
        finally:
            shutil.rmtree(claims, ignore_errors=True)

    def _on_cluster(self, job: _Job, payloads: list[Any], contents: list[bytes]) -> list[_Outcome]:
        """Run tasks where they ran last."""
        places = self.places.preferred(payloads, self.spark.sparkContext)
        claims = job.claims
        if claims is None:
            return self._outcomes(job, _own(contents), places)
        executors = tuple(None if place is None else place.id for place in places)
        job = replace(job, executors=executors, workers=self._workers(payloads))
        # With one task for each executor there is nothing to agree on.
        if all(executors.count(each) == 1 for each in {*executors} - {None}):
            return self._outcomes(replace(job, claims=None), _own(contents), places)
        job = replace(job, payloads=contents, claims=executor_claims(claims))
        return self._outcomes(job, _numbers(contents), places)

    def _workers(self, payloads: list[Any]) -> tuple[int | None, ...]:
        return tuple(self.places.workers(payloads, self.spark.sparkContext.defaultParallelism))

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
    worker: int
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
    takes one of those that are to run in its executor, if its own is. With `workers`, by payload, it takes none that is
    for another worker, as long as that lives, and leaves it over.
    """

    task: Task
    payloads: Sequence[bytes] = ()
    claims: str | None = None
    prefer: Prefer | None = None
    executors: tuple[str | None, ...] = ()
    workers: tuple[int | None, ...] = ()

    def __call__(self, rows: Iterable[Any]) -> Iterator[_Outcome]:
        (row,) = rows
        own, given = given_in(row)
        payload = self._given(own) if self.claims is None else self._claimed(own, self.claims)
        if payload is None:
            return
        try:
            content, is_error = self.task(pickle.loads(self.payloads[payload] if self.payloads else given)), False
        except NearcastError as error:
            if error.may_pass:
                raise
            content, is_error = error, True
        outcome = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
        yield _Outcome(payload, outcome, is_error, os.getpid(), executor_here())
        freeze_once()

    def _given(self, own: int) -> int | None:
        return None if self._is_for_another(own) else own

    def _claimed(self, own: int, claims: str) -> int | None:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        members = self._members(own)
        if len(members) == 1:
            return self._given(own)
        folder = executor_folder(claims) if self.executors else Path(claims)
        payloads = [pickle.loads(self.payloads[each]) for each in members]
        preferred = [] if self.prefer is None else self.prefer(payloads)
        is_again = context.attemptNumber() > 0
        barred = [at for at, each in enumerate(members) if self._is_for_another(each)]
        taken = Claims(folder, len(members)).take(members.index(own), is_again, preferred, barred)
        return None if taken is None else members[taken]

    def _members(self, own: int) -> Sequence[int]:
        """Return the payloads that workers here share out among themselves."""
        if not self.executors:
            return range(len(self.payloads))
        if not self._is_here(own):
            return [own]
        return [at for at, each in enumerate(self.executors) if each == self.executors[own]]

    def _is_here(self, payload: int) -> bool:
        """Tell whether a payload is to run in this executor."""
        here = executor_here()
        return here is not None and self.executors[payload] == here.id

    def _is_for_another(self, payload: int) -> bool:
        """Tell whether another worker here, one that lives, is to run a payload."""
        worker = self.workers[payload] if self.workers else None
        if worker is None or worker == os.getpid() or (self.executors and not self._is_here(payload)):
            return False
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True
