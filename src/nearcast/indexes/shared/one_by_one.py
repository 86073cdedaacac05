"""Matches messages one by one, a kernel call each: for indexes whose search takes far longer than a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nearcast.indexes import Matches
from nearcast.indexes.shared.gather import sort_found

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Fields of the counts a search keeps.
LOOKED_AT, VERIFIED = 0, 1

#: `search(message, slots, scores, tally)` writes the slots that match, each once and in any order, with their scores,
#: adds to `tally` what it looked at and verified, and returns how many it wrote.
Search = Callable[[int, "NDArray[np.int32]", "NDArray[np.float64]", "NDArray[np.int64]"], int]


def match_each(n_messages: int, n_live: int, n_slots: int, search: Search) -> Matches:
    """Return the matches of messages 0 to `n_messages`, no message having more than `n_live`."""
    slots, scores = np.empty(n_live, np.int32), np.empty(n_live)
    spare_slots, spare_scores = np.empty(n_live, np.int32), np.empty(n_live)
    digits, tally = np.empty(256, np.int64), np.zeros(2, np.int64)
    found_slots, found_scores = [np.empty(0, np.int32)], [np.empty(0)]
    start = np.zeros(n_messages + 1, np.int64)
    for message in range(n_messages):
        n = search(message, slots, scores, tally)
        n = sort_found(slots, scores, n, n_slots.bit_length(), spare_slots, spare_scores, digits)
        found_slots.append(slots[:n].copy())
        found_scores.append(scores[:n].copy())
        start[message + 1] = start[message] + n
    return Matches(
        start, np.concatenate(found_slots), np.concatenate(found_scores), int(tally[LOOKED_AT]), int(tally[VERIFIED])
    )
