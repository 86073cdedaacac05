"""What a search of live messages finds: columns that kernels write to, and the changes that these come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined
from nearcast.live.answers import RelevanceChanges, starts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bits of `FoundMessages.where`: relevant before, relevant after; of a polygon, that the boxes around it touch.
BEFORE, AFTER = 1, 2
#: Bits of the number of a message's row.
_ROW_BITS = 32


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
        if not n:
            return _NOTHING
        return FoundMessages(self.query[:n], self.row[:n], self.where[:n], self.score[:n])

    def changes(self, n_queries: int, arrival_of: NDArray[np.int64]) -> RelevanceChanges:
        """Return what was found by query, `-` before `+`, then by arrival; rows of messages are in that order."""
        if not len(self.row):
            return RelevanceChanges.none(n_queries)
        enters = (self.where == AFTER).astype(np.uint8)
        order = np.argsort(((2 * self.query + enters) << _ROW_BITS) + self.row)
        start = starts_of(self.query[order], n_queries)
        return RelevanceChanges(start, arrival_of[self.row[order]], self.score[order], enters[order])


_NOTHING = FoundMessages.room_for(0)


@inlined
def note(row, message, where, score, n, found):
    """Write what was found, if there is room; return how many there are."""
    if n < found.row.size:
        found.query[n], found.row[n], found.where[n], found.score[n] = row, message, where, score
    return n + 1
