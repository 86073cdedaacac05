"""Candidates: pairs of message and top-k subscription that copies of the subscription detected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nearcast.indexes import Matches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.engine import State


@dataclass(frozen=True)
class Candidates:
    """Pairs of message row and subscription number with their score, rows ascending."""

    row: NDArray[np.int64]
    number: NDArray[np.int64]
    score: NDArray[np.float64]

    @classmethod
    def concat(cls, pieces: Sequence[Candidates]) -> Candidates:
        """Return the pairs of all pieces, each once."""
        if not pieces:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        row, number, score = (
            np.concatenate(each) for each in zip(*((p.row, p.number, p.score) for p in pieces), strict=True)
        )
        order = np.lexsort((number, row))
        row, number, score = row[order], number[order], score[order]
        is_new = np.ones(len(row), np.bool_)
        is_new[1:] = (row[1:] != row[:-1]) | (number[1:] != number[:-1])
        return cls(row[is_new], number[is_new], score[is_new])

    def for_state(self, state: State, first: int, last: int) -> Matches:
        """Return the matches of messages `first` to `last`, for the subscriptions that a state holds.

        Copies may know lower thresholds than the home has: they forget that of a subscription that moved. What is below
        the home's is left out, as by its own index: a search in the middle of the batch finds it, and once is enough.
        """
        low, high = np.searchsorted(self.row, [first, last])
        assert state.topk is not None
        slots = state.topk.slots()
        numbers = state.by_slot["number"][slots]
        order = np.argsort(numbers)
        at = np.minimum(np.searchsorted(numbers[order], self.number[low:high]), max(len(order) - 1, 0))
        is_here = numbers[order[at]] == self.number[low:high] if len(order) else np.zeros(high - low, np.bool_)
        found = slots[order[at[is_here]]] if len(order) else np.empty(0, np.int32)
        reaches = self.score[low:high][is_here] >= state.topk.thresholds(found)
        is_here[is_here] = reaches
        rows, found = self.row[low:high][is_here] - first, found[reaches]
        by_slot = np.lexsort((found, rows))
        start = np.zeros(last - first + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=last - first), out=start[1:])
        return Matches(start, found[by_slot], self.score[low:high][is_here][by_slot], 0, 0)
