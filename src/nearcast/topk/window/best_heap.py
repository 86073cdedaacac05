"""The best messages found so far: a heap in flat arrays with the last in rank on top."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcast._jit import inlined


class BestHeap(NamedTuple):
    """Messages kept, in the order of a heap; `time` is 0 throughout where the rank does not go by time."""

    score: NDArray[np.float64]
    time: NDArray[np.int64]
    row: NDArray[np.int64]


def new_kept(capacity: int) -> BestHeap:
    """Return room for that many messages."""
    return BestHeap(np.empty(capacity), np.empty(capacity, np.int64), np.empty(capacity, np.int64))


@inlined
def _ranks_after(score, time, row, other_score, other_time, other_row):
    """Tell whether a message comes after another in rank."""
    if score != other_score:
        return score < other_score
    if time != other_time:
        return time < other_time
    return row < other_row


@inlined
def _sink(kept, n, score, time, row):
    """Put a message on top of a heap of n in which the top is free, and let it sink to its position."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        right = child + 1
        if right < n and _ranks_after(
            kept.score[right], kept.time[right], kept.row[right], kept.score[child], kept.time[child], kept.row[child]
        ):
            child = right
        if not _ranks_after(kept.score[child], kept.time[child], kept.row[child], score, time, row):
            break
        kept.score[at], kept.time[at], kept.row[at] = kept.score[child], kept.time[child], kept.row[child]
        at = child
    kept.score[at], kept.time[at], kept.row[at] = score, time, row


@inlined
def _rise(kept, n, score, time, row):
    """Add a message at the end of a heap of n and let it rise to its position."""
    at = n
    while at > 0:
        above = (at - 1) >> 1
        if not _ranks_after(score, time, row, kept.score[above], kept.time[above], kept.row[above]):
            break
        kept.score[at], kept.time[at], kept.row[at] = kept.score[above], kept.time[above], kept.row[above]
        at = above
    kept.score[at], kept.time[at], kept.row[at] = score, time, row


@inlined
def keep(kept, n, capacity, score, time, row):
    """Keep a message if it is among the best `capacity`; return how many are kept."""
    if n < capacity:
        _rise(kept, n, score, time, row)
        return n + 1
    if _ranks_after(kept.score[0], kept.time[0], kept.row[0], score, time, row):
        _sink(kept, n, score, time, row)
    return n


@inlined
def bar_of(kept, n, capacity, floor):
    """Return the score that a further message must reach to be kept."""
    return max(floor, kept.score[0]) if n == capacity else floor


@inlined
def write_in_rank(kept, n, row, score, start):
    """Write what is kept, best first, from `start` on; the heap is used up."""
    for left in range(n, 0, -1):
        row[start + left - 1], score[start + left - 1] = kept.row[0], kept.score[0]
        _sink(kept, left - 1, kept.score[left - 1], kept.time[left - 1], kept.row[left - 1])
