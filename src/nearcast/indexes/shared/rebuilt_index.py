"""An index over a structure that is built in one go and built again when about a quarter of it has changed."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.geo import EARTH_RADIUS_M
from nearcast.indexes.shared.kernel_message import KernelMessages, begin_message, end_message, kernel_messages
from nearcast.indexes.shared.one_by_one import LOOKED_AT, VERIFIED, Search, match_each
from nearcast.indexes.shared.scores import full_score, near_score, text_score, totals_for
from nearcast.indexes.shared.stored_index import StoredIndex
from nearcast.similarity import MARGIN, near_of, score_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.geo import Space
    from nearcast.indexes import Matches

#: A structure is built again when changes are more than one in so many of the rows it was built from.
_CHANGED_ONE_IN = 4

#: A degree of latitude, and what the distance to a rectangle may be off by.
_METRES_PER_DEGREE = math.radians(1.0) * EARTH_RADIUS_M
_EARTH_SLACK_M = 1e-6


class RebuiltIndex(StoredIndex):
    """Answers from a structure over the rows there were when it was built, and from the rows added since, one by one.

    Rows dropped since are still in the structure and are skipped when found. A kind of structure is two methods:

    - `_build(rows)` returns it, over these live rows of the table: a tuple of arrays, or of such tuples.
    - `_searcher(built, batch)` returns how to search it: a call writes the slots that match one message and returns
      how many there are.
    """

    def __init__(self, space: Space, **options: Any):
        super().__init__(space, **options)
        self._built: Any = None
        self._n_rows_built = self._n_live_built = self._n_changed = 0

    @abstractmethod
    def _build(self, rows: NDArray[np.int64]) -> Any: ...

    @abstractmethod
    def _searcher(self, built: Any, batch: KernelMessages) -> Search: ...

    def match(self, messages: Messages, *, threads: int = 1) -> Matches:
        """Search the structure and the rows added since for every message; one core whatever `threads` says."""
        messages = messages.for_kernels()
        with self._lock:
            self._undo.roll_back()
            totals = totals_for(messages, needed=self._needs_totals)
            batch = kernel_messages(messages, totals, self._n_weights)
            search_held = self._searcher(self._up_to_date(), batch)
            first, last, n_slots = self._n_rows_built, len(self._slot_of), len(self._row_of)
            if first == last:
                return match_each(len(messages), last, n_slots, search_held)
            scored, slot_of, is_earth = self._scored(), self._slot_of, self.space.is_earth

            def search(
                message: int, slots: NDArray[np.int32], scores: NDArray[np.float64], tally: NDArray[np.int64]
            ) -> int:
                n = search_held(message, slots, scores, tally)
                return int(
                    _search_rows(scored, slot_of, first, last, batch, is_earth, message, n, slots, scores, tally)
                )

            return match_each(len(messages), last, n_slots, search)

    def _up_to_date(self) -> Any:
        """Return the structure, built anew where there is none or too much has changed."""
        if self._built is None or self._n_changed * _CHANGED_ONE_IN > self._n_live_built:
            rows = np.flatnonzero(self._slot_of >= 0)
            self._built = None  # room for the new one
            built = self._build(rows)
            self._n_rows_built, self._n_live_built, self._n_changed = len(self._slot_of), len(rows), 0
            self._built = built  # the last of all: whoever is cut short before builds again
        return self._built

    def _rows_added(self, first: int, last: int) -> None:
        self._n_changed += last - first

    def _rows_dropped(self, rows: NDArray[np.int64]) -> None:
        self._n_changed += len(rows)

    def _rows_renumbered(self) -> None:
        self._built = None

    def _structure_bytes(self) -> int:
        size = bytes_of(self._up_to_date())
        rows = self._scored_rows
        return size if rows is None else size + rows.point.nbytes + rows.own.nbytes  # the rest is the table's


def bytes_of(structure: Any) -> int:
    """Return the size of the arrays in a tuple, whatever tuples they are in."""
    if isinstance(structure, np.ndarray):
        return structure.nbytes
    return sum(map(bytes_of, structure)) if isinstance(structure, tuple) else 0


@inlined
def axis_gap(x, y, is_earth, box, message):
    """Return a lower bound on the distance of a point to a message, from coordinates alone: far cheaper than it."""
    gap = max(box[message, 1] - y, y - box[message, 3])
    if is_earth:
        return gap * _METRES_PER_DEGREE - _EARTH_SLACK_M
    return max(gap, box[message, 0] - x, x - box[message, 2])


@inlined
def score_or_less(scored, row, text_at_most, batch, is_earth, message, tally):
    """Return the score of a row if it reaches its threshold, else -1; the bound on its text may save the work."""
    weight, least = scored.text_weight[row], scored.threshold[row] - MARGIN
    gap = axis_gap(scored.point[row, 0], scored.point[row, 1], is_earth, batch.box, message)
    if gap > 0.0 and score_of(weight, text_at_most, near_of(gap, scored.max_distance[row])) < least:
        return -1.0
    near = near_score(scored, row, is_earth, batch.box, message)
    if score_of(weight, text_at_most, near) < least:
        return -1.0
    tally[VERIFIED] += 1
    score = score_of(weight, text_score(scored, row, batch.has, batch.totals, message), near)
    return score if score >= scored.threshold[row] else -1.0


@hot_kernel
def _search_rows(scored, slot_of, first, last, batch, is_earth, message, n_found, slots, scores, tally):
    """Add the live rows from first to last that want a message; return the number of all found so far."""
    n_words = begin_message(batch, message)
    for row in range(first, last):
        if slot_of[row] >= 0:
            tally[LOOKED_AT] += 1
            tally[VERIFIED] += 1
            score = full_score(scored, row, batch.has, batch.totals, is_earth, batch.box, message)
            if score >= scored.threshold[row]:
                slots[n_found], scores[n_found] = slot_of[row], score
                n_found += 1
    end_message(batch, n_words)
    return n_found
