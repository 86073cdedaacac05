"""What snapshots of partitions cost, and when that is worth it.

A snapshot takes as long as the state is large, however little has happened since the last one. Where it takes long, it
waits until the steps of its partition have taken ten times as long: so snapshots take at most a tenth of the work, and
a restart replays no more than that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nearcast.pipeline.worker.tasks import StepResult

#: The seconds of steps for one of a snapshot.
WORK_PER_COST = 10.0
#: So many times as many batches as between two small snapshots are the most between two large ones.
MOST_TIMES = 10
#: Steps of a start before it leaves a snapshot to a later one: a run that is over after one batch has no later one.
YOUNG_STEPS = 3


class SnapshotCosts:
    """By partition, the seconds that its last large snapshot took, and those of its steps since that was begun."""

    def __init__(self) -> None:
        self._cost: dict[int, float] = {}
        self._work: dict[int, float] = {}
        self._late: dict[int, str] = {}
        self._steps: dict[int, int] = {}

    def note(self, number: int, result: StepResult) -> None:
        """Note what a step of a partition took, and what it tells of snapshots."""
        news = result.snapshots
        self._steps[number] = self._steps.get(number, 0) + 1
        self._work[number] = self._work.get(number, 0.0) + result.seconds
        begun, self._late[number] = self._late.get(number), news.in_the_making or ""
        if news.in_the_making is not None and news.in_the_making != begun:
            self._work[number] = 0.0
        if news.written is not None:
            self._cost[number] = news.written.seconds or 0.0

    @property
    def in_the_making(self) -> list[str]:
        """The names of snapshots that are being written."""
        return [name for name in self._late.values() if name]

    def may_be_late(self, number: int, n_batches: int, every: int) -> bool:
        """Tell whether a partition's snapshot may be left to later steps, so many batches after its last one.

        Not where those would often not come: in a start that is young, or if none was named when it had to be.
        """
        return self._steps.get(number, 0) >= YOUNG_STEPS and n_batches <= MOST_TIMES * every

    def is_worth_it(self, number: int, n_batches: int, every: int) -> bool:
        """Tell whether a partition whose turn it is should write a snapshot, so many batches after its last one."""
        cost = self._cost.get(number, 0.0)
        return self._work.get(number, 0.0) >= WORK_PER_COST * cost or n_batches >= MOST_TIMES * every
