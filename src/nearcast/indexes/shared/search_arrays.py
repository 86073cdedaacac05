"""The arrays that go into a search for scored subscriptions and come out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class MessageColumns(NamedTuple):
    """A batch of messages as kernels read it: columns of `Messages`."""

    term_start: NDArray[np.int64]
    terms: NDArray[np.int32]
    box: NDArray[np.float64]
    totals: NDArray[np.float64]


class FoundSlots(NamedTuple):
    """Where a search writes its answers: slots and their scores.

    `slot_of` is the slot of every row of the table, -1 for rows that were removed.
    """

    slots: NDArray[np.int32]
    scores: NDArray[np.float64]
    slot_of: NDArray[np.int32]
