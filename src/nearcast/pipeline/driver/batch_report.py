"""What is told of a finished batch: counts, timings and the load of each partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from nearcast.pipeline.batch.changes import MOVE
from nearcast.pipeline.driver.phases import NO_PHASES, PhaseSeconds
from nearcast.pipeline.driver.window_rounds import NO_QUESTIONS, QuestionCount

if TYPE_CHECKING:
    from nearcast.pipeline.batch.changes import BatchChanges
    from nearcast.pipeline.driver.batch_sequencer import MessageCount
    from nearcast.pipeline.store.manifest_entries import BatchFiles
    from nearcast.pipeline.worker.tasks import StepResult


class PartitionLoad(TypedDict):
    """How long a batch took in a partition, and how many messages were routed to it."""

    seconds: float
    messages: int


@dataclass(frozen=True)
class Report:
    """Counts and timings of a finished batch; `seconds` ends before the commit, `phases` behind it."""

    batch: int
    messages: int
    changes: int
    #: Those of the changes that are moves.
    moves: int
    deliveries: int
    rejected: int
    seconds: float
    load: list[PartitionLoad]
    now: int
    tuples: int
    #: Messages too late for the window: no top-k saw them.
    late: int = 0
    #: What partitions asked a divided window, and in how many further jobs they were answered.
    asked: QuestionCount = NO_QUESTIONS
    #: How many partitions wrote a snapshot, and the first reason why one could not.
    snapshots: int = 0
    snapshot_problem: str | None = None
    phases: PhaseSeconds = NO_PHASES


def report_of(
    files: BatchFiles,
    results: Sequence[StepResult],
    batch_changes: BatchChanges | None,
    count: MessageCount,
    rejected: int,
    seconds: float,
) -> Report:
    """Return the report of a batch before its commit: without its phases, and what it asked a divided window."""
    load = [PartitionLoad(seconds=round(each.seconds, 4), messages=each.routed) for each in results]
    return Report(
        batch=files.batch,
        messages=count.published,
        changes=0 if batch_changes is None else len(batch_changes),
        moves=0 if batch_changes is None else int((batch_changes.op == MOVE).sum()),
        deliveries=sum(each.deliveries for each in results),
        rejected=rejected,
        seconds=seconds,
        load=load,
        now=files.now,
        tuples=sum(each.routed for each in results),
        late=count.late,
        snapshots=sum(each.snapshots.written is not None for each in results),
        snapshot_problem=next((each.snapshots.problem for each in results if each.snapshots.problem is not None), None),
    )
