"""Candidates: pairs of message and top-k subscription that copies of the subscription detected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nearcast.indexes import Matches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.pipeline.copies.home_slots import HomeSlots
    from nearcast.topk.keeper import Keeper


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

    def for_state(self, topk: Keeper, homes: HomeSlots, first: int, last: int) -> Matches:
        """Return the matches of messages `first` to `last`, for the subscriptions that are at home here.

        Copies may know lower thresholds than the home has: they forget that of a subscription that moved. What is below
        the home's is left out, as by its own index: a search in the middle of the batch finds it, and once is enough.
        """
        low, high = np.searchsorted(self.row, [first, last])
        rows, score = self.row[low:high] - first, self.score[low:high]
        slots = homes.of(self.number[low:high])
        here = np.flatnonzero(slots >= 0)
        here = here[score[here] >= topk.thresholds(slots[here])]
        here = here[np.lexsort((slots[here], rows[here]))]
        start = np.zeros(last - first + 1, np.int64)
        np.cumsum(np.bincount(rows[here], minlength=last - first), out=start[1:])
        return Matches(start, slots[here], score[here], 0, 0)
