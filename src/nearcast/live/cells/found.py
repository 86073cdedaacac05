"""What a search of live messages finds: columns that kernels write to, and the changes that these come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.live.answers import RelevanceChanges

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bits of `FoundMessages.where`: relevant before, relevant after; of a polygon, that the boxes around it touch.
BEFORE, AFTER = 1, 2
#: Bits of a message's row in the key by which the messages of a query are sorted.
_ROW_BITS = 32
_ROW_MASK = (1 << _ROW_BITS) - 1
#: Gaps of a Shell sort, of Ciura; larger ones follow by 9/4.
_GAPS = (1, 4, 10, 23, 57, 132, 301, 701, 1750)


class FoundMessages(NamedTuple):
    """Messages found, in no order within a row: the row of the query, that of the message, where, and the score.

    The score is that at the one place where a message is relevant.
    """

    query: NDArray[np.int64]
    row: NDArray[np.int64]
    where: NDArray[np.uint8]
    score: NDArray[np.float64]

    @classmethod
    def room_for(cls, n: int) -> FoundMessages:
        """Return columns for n messages."""
        return cls(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.uint8), np.empty(n))

    def first(self, n: int) -> FoundMessages:
        """Return the first n."""
        return FoundMessages(self.query[:n], self.row[:n], self.where[:n], self.score[:n])

    def changes(self, n_queries: int, arrival_of: NDArray[np.int64]) -> RelevanceChanges:
        """Return what was found by query, `-` before `+`, then by arrival; rows of messages are in that order."""
        n = len(self.row)
        if not n:
            return RelevanceChanges.none(n_queries)
        start, arrival = np.zeros(n_queries + 1, np.int64), np.empty(n, np.int64)
        score, enters = np.empty(n), np.empty(n, np.uint8)
        write_changes(self, arrival_of, start, arrival, score, enters)
        return RelevanceChanges(start, arrival, score, enters)


@inlined
def note(row, message, where, score, n, found):
    """Write what was found, if there is room; return how many there are."""
    if n < found.row.size:
        found.query[n], found.row[n], found.where[n], found.score[n] = row, message, where, score
    return n + 1


@hot_kernel
def write_changes(found, arrival_of, start, arrival, score, enters):
    """Sort what was found by query (counting sort), then by (enters, row) within each (Shell sort).

    `start` is zeros. `arrival` has the sort keys first, arrivals in the end.
    """
    for i in range(found.query.size):
        start[found.query[i] + 1] += 1
    for k in range(start.size - 1):
        start[k + 1] += start[k]
    for i in range(found.query.size - 1, -1, -1):  # `start` is moved to the ends, then counted down to the beginnings
        at = start[found.query[i] + 1] - 1
        start[found.query[i] + 1] = at
        enter = np.int64(1) if found.where[i] == AFTER else np.int64(0)
        arrival[at] = (enter << _ROW_BITS) | found.row[i]
        score[at] = found.score[i]
    for k in range(start.size - 2):  # each is where its own query begins, one place too far on
        start[k] = start[k + 1]
    start[start.size - 2] = start[start.size - 1]
    start[start.size - 1] = found.query.size
    for k in range(start.size - 1):
        _sort(arrival, score, start[k], start[k + 1])
    for i in range(arrival.size):
        enters[i] = arrival[i] >> _ROW_BITS
        arrival[i] = arrival_of[arrival[i] & _ROW_MASK]


@inlined
def _sort(key, score, first, last):
    """Sort the keys from `first` to `last`, scores going with them."""
    gap, step = np.int64(1), 0
    while step + 1 < len(_GAPS) and _GAPS[step + 1] < last - first:
        step += 1
        gap = np.int64(_GAPS[step])
    while gap * 9 // 4 < last - first and step == len(_GAPS) - 1:
        gap = gap * 9 // 4
    while gap > 0:
        for i in range(first + gap, last):
            one, its = key[i], score[i]
            k = i
            while k >= first + gap and key[k - gap] > one:
                key[k], score[k] = key[k - gap], score[k - gap]
                k -= gap
            key[k], score[k] = one, its
        if gap > _GAPS[len(_GAPS) - 1]:
            gap = max(gap * 4 // 9, np.int64(_GAPS[len(_GAPS) - 1]))
        else:
            step -= 1
            gap = np.int64(_GAPS[step]) if step >= 0 else np.int64(0)
