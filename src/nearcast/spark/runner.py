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
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from nearcast.spark.task_places import GivenPayload


#: Seconds that a payload waits for the worker that has its state, and between two looks. Meanwhile that worker does
#: something else, such as a snapshot beside the batch; to open a large state elsewhere and to replay it takes longer.
_WAIT_S, _LOOK_S = 10.0, 0.02
#: Classes of Spark that pyspark calls by their short names in every job.
_JAVA_CLASSES = ("PythonRDD", "PythonUtils", "SimplePythonFunction")
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
        _name_classes(spark.sparkContext)
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
            found = self._by_payload(task, payloads, contents, claims, prefer)
        # With an error the rest may not have been run.
        return [found[payload].result() for payload in sorted(found, key=lambda at: (not found[at].is_error, at))]

    def _by_payload(
        self, task: Task, payloads: list[Any], contents: list[bytes], claims: str | None, prefer: Prefer | None
    ) -> dict[int, _Outcome]:
        """Run tasks until each payload has an outcome, or one of them an error; return outcomes by payload.

        What was left over is run again: because its worker was busy, or an executor was lost; at last by any worker.
        """
        shares = self._shares(payloads, is_claimed=claims is not None)
        found: dict[int, _Outcome] = {}
        left, until = list(range(len(payloads))), None
        while True:
            for outcome in self._run(_Job(task, prefer=prefer), [contents[at] for at in left], claims, shares.of(left)):
                found[left[outcome.payload]] = outcome
                if claims is not None and not outcome.is_error:
                    self.places.note(payloads[left[outcome.payload]], outcome.place, outcome.worker)
            left = [at for at in left if at not in found]
            if not left or any(outcome.is_error for outcome in found.values()):
                return found
            until = time.monotonic() + _WAIT_S if until is None else until
            shares = shares.for_retry(left, is_over=time.monotonic() >= until)
            time.sleep(_LOOK_S)

    def _shares(self, payloads: list[Any], *, is_claimed: bool) -> _Shares:
        """Return who should run what; where each task has an executor of its own, there is nothing to agree on."""
        context, n = self.spark.sparkContext, len(payloads)
        places: list[ExecutorPlace | None] = [None] * n
        if not self._is_embedded:
            places = self.places.preferred(payloads, context)
            ids = [place.id for place in places if place is not None]
            is_claimed = is_claimed and len(ids) > len({*ids})
        workers: list[int | None] = [None] * n
        if is_claimed:
            workers = self.places.workers(payloads, context.defaultParallelism)
        return _Shares(places, workers, context.defaultParallelism if self._is_embedded else 0, is_claimed)

    def _run(self, job: _Job, contents: list[bytes], claims: str | None, shares: _Shares) -> list[_Outcome]:
        """Run tasks once, as `shares` say; those of one executor, or of this machine, claim in one folder."""
        if claims is None or not shares.is_claimed:
            return self._outcomes(job, list(enumerate(contents)), shares.places)
        job = replace(job, payloads=contents, claims=claims, workers=tuple(shares.workers))
        # A task may take the payload of another one and must know all of them anyway.
        numbers = [(at, b"") for at in range(max(len(contents), shares.tasks))]
        if not self._is_embedded:
            executors = tuple(None if place is None else place.id for place in shares.places)
            return self._outcomes(
                replace(job, claims=executor_claims(claims), executors=executors), numbers, shares.places
            )
        shutil.rmtree(claims, ignore_errors=True)  # of a driver that was killed
        Path(claims).mkdir(parents=True)
        try:
            return self._outcomes(job, numbers)
        finally:
            shutil.rmtree(claims, ignore_errors=True)

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


def _name_classes(context: SparkContext) -> None:
    """Look up once the classes that every job of pyspark names: Java searches some ten packages for each, each time."""
    java: Any = context._jvm
    for name in _JAVA_CLASSES:
        setattr(java, name, getattr(java, name))


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


@dataclass(frozen=True)
class _Shares:
    """By payload the executor and the worker that should run it; with `is_claimed` tasks agree on who takes what.

    `slots` are those of this machine, 0 on a cluster. There are `tasks` at least: each worker that is idle gets one.
    """

    places: Sequence[ExecutorPlace | None]
    workers: Sequence[int | None]
    slots: int
    is_claimed: bool
    tasks: int = 0

    def of(self, payloads: list[int]) -> _Shares:
        """Return those of some payloads."""
        return replace(self, places=[self.places[at] for at in payloads], workers=[self.workers[at] for at in payloads])

    def for_retry(self, left: list[int], *, is_over: bool) -> _Shares:
        """Return who should run what is left: the same as before, whoever is free when the time `is_over`.

        If nobody was waited for, an executor was lost: then each task runs what it is given.
        """
        if all(self.workers[at] is None for at in left):
            return replace(self, is_claimed=False)
        workers = [None] * len(self.workers) if is_over else self.workers
        return replace(self, workers=workers, tasks=self.slots)


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
        payload = own if self.claims is None else self._claimed(own, self.claims)
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

    def _claimed(self, own: int, claims: str) -> int | None:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        members = self._members(own)
        if members == [own]:
            return None if self._is_for_another(own) else own
        folder = executor_folder(claims) if self.executors else Path(claims)
        payloads = [pickle.loads(self.payloads[each]) for each in members]
        preferred = [] if self.prefer is None else self.prefer(payloads)
        is_again = context.attemptNumber() > 0
        barred = [at for at, each in enumerate(members) if self._is_for_another(each)]
        taken = Claims(folder, len(members)).take(
            members.index(own) if self.executors else own, is_again, preferred, barred
        )
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
        except OSError:  # it is gone, also if another user has a process of its number now
            return False
        return True
