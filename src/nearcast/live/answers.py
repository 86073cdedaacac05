"""What a store of live messages answers, as columns: relevant messages by subscription, and differences of such."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


#: Columns of no changes: arrivals, scores and what enters.
_NO_CHANGES = (np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.uint8))


class RelevantMessages(NamedTuple):
    """Messages relevant to subscriptions: row i owns `arrival` and `score` from `start[i]` to `start[i + 1]`.

    Arrivals ascend within a row, each once.
    """

    start: NDArray[np.int64]
    arrival: NDArray[np.int64]
    score: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.start) - 1

    def rows(self) -> NDArray[np.int64]:
        """Return the row of each message."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))


class RelevanceChanges(NamedTuple):
    """Messages that began or ceased to be relevant: row i owns the entries from `start[i]` to `start[i + 1]`.

    Within a row what ceased (`enters` 0, with the score before) stands before what began (`enters` 1, with the score
    after), each ordered by arrival.
    """

    start: NDArray[np.int64]
    arrival: NDArray[np.int64]
    score: NDArray[np.float64]
    enters: NDArray[np.uint8]

    @classmethod
    def none(cls, n: int) -> RelevanceChanges:
        """Return no changes of n rows."""
        return cls(np.zeros(n + 1, np.int64), *_NO_CHANGES)

    def __len__(self) -> int:
        return len(self.start) - 1

    def rows(self) -> NDArray[np.int64]:
        """Return the row of each message."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))


def changes_between(before: RelevantMessages, after: RelevantMessages) -> RelevanceChanges:
    """Return the difference of two answers for the same rows; a message in both says nothing, whatever its scores."""
    gone, new = _missing(before, after), _missing(after, before)
    row = np.concatenate([before.rows()[gone], after.rows()[new]])
    arrival = np.concatenate([before.arrival[gone], after.arrival[new]])
    score = np.concatenate([before.score[gone], after.score[new]])
    enters = np.repeat(np.array([0, 1], np.uint8), [len(gone), len(new)])
    order = np.lexsort((arrival, enters, row))
    return RelevanceChanges(starts_of(row[order], len(before)), arrival[order], score[order], enters[order])


def starts_of(rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return where the entries of each of n rows begin, given the row of each entry, ascending."""
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=n), out=start[1:])
    return start


def _missing(found: RelevantMessages, others: RelevantMessages) -> NDArray[np.int64]:
    """Return which entries are not among the others of the same row."""
    if not len(found.arrival) or not len(others.arrival):
        return np.arange(len(found.arrival))
    known = np.unique(np.concatenate([found.arrival, others.arrival]))
    ours = found.rows() * len(known) + np.searchsorted(known, found.arrival)
    theirs = others.rows() * len(known) + np.searchsorted(known, others.arrival)  # ascending, as its rows are
    at = np.minimum(np.searchsorted(theirs, ours), len(theirs) - 1)
    return np.flatnonzero(theirs[at] != ours)
