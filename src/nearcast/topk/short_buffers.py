"""Buffers that became short in the middle of a batch: what they were before that step, and what was still to come.

All of a batch are searched for at once, over whatever counted at any time of it. What each finds is then cut at the
step at which it became short: what counted before is its buffer there, what arrived later comes again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.columns import NO_TIME
from nearcast.topk.window.registry import LiveRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.topk.buffers.walk_state import WalkSteps
    from nearcast.topk.refill import FoundRows
    from nearcast.topk.window.sliding import SlidingWindow


class CountingRows(NamedTuple):
    """Which messages count before step i of a batch, i + 1 being after it: those that `LiveRows` has of these."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    after: NDArray[np.int64]

    def from_step(self, step: int) -> LiveRows:
        """Return all that count at a time from before this step on, and some more."""
        return LiveRows(int(self.first[step]), int(self.last[-1]), int(self.after[step]))

    def has(self, at: NDArray[np.int64], row: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell whether each message counts before its step `at`."""
        after = self.after[at]
        has: NDArray[np.bool_] = (row >= self.first[at]) & (row < self.last[at]) & ((after == NO_TIME) | (time > after))
        return has


def counting_rows(
    sliding: SlidingWindow, rows: NDArray[np.int64], clock: NDArray[np.int64], before: int
) -> CountingRows:
    """Return what counts in the course of steps with these arrivals and times; `before` was the time before them."""
    last = np.append(rows[0], rows + 1) if rows[0] >= 0 else np.full(len(rows) + 1, sliding.next_row)
    first, after = sliding.first_alive_each(last, np.append(before, clock))
    return CountingRows(first, last, after)


class CutRows(NamedTuple):
    """What was found for some holders, up to the step of each; what comes later, by step, holder and score.

    `is_enough` tells who has enough to become short no more at that step: all else is of these alone.
    """

    is_enough: NDArray[np.bool_]
    filling: FoundRows
    step: NDArray[np.int64]
    holder: NDArray[np.int32]
    score: NDArray[np.float64]


def cut_at_steps(
    found: FoundRows,
    holder: NDArray[np.int32],
    k: NDArray[np.int32],
    step: NDArray[np.int64],
    counting: CountingRows,
    time: NDArray[np.int64],
) -> CutRows:
    """Cut what was found for holders before the steps at which they became short; `time` is that of each row."""
    owner = np.repeat(np.arange(len(holder)), np.diff(found.start))
    was_there = counting.has(step[owner], found.row, time)
    # What is the bound itself does not rank before it: of what arrives it is left out.
    is_later = (found.row >= counting.last[step[owner]]) & (found.row != found.bound_row[owner])
    is_there = counting.has(step[owner] + 1, found.row, time) & (was_there | is_later)
    n_before, n_after = (np.bincount(owner[which], minlength=len(holder)) for which in (was_there, is_there))
    is_enough = (found.is_whole == 1) | (np.minimum(n_before, n_after) >= k)
    past = was_there & is_enough[owner]
    start = np.append(0, np.cumsum(n_before[is_enough]))
    by_holder = {
        name: getattr(found, name)[is_enough] for name in ("is_whole", "theta", "bound_row", "limit", "target")
    }
    later = np.flatnonzero(is_later & is_enough[owner])
    return CutRows(
        is_enough,
        found._replace(start=start, row=found.row[past], score=found.score[past], **by_holder),
        found.row[later] - counting.last[0],
        holder[owner[later]],
        found.score[later],
    )


def steps_of_some(steps: WalkSteps, cuts: list[CutRows]) -> WalkSteps:
    """Return the steps as they are for some holders alone: with what comes for these."""
    step = np.concatenate([cut.step for cut in cuts])
    order = np.argsort(step, kind="stable")
    start = np.searchsorted(step[order], np.arange(len(steps.row) + 1))
    holder = np.concatenate([cut.holder for cut in cuts])[order]
    return steps._replace(start=start, holder=holder, score=np.concatenate([cut.score for cut in cuts])[order])
