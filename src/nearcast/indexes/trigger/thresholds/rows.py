"""Top-k subscriptions as rows, and the exact score of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast import _arrow
from nearcast._jit import kernel
from nearcast.columns import TOPK, ScoreParameters, Subscriptions, gathered_between, joined
from nearcast.geo import BOX, Regions
from nearcast.indexes.shared.scores import own_amounts
from nearcast.similarity import TFIDF

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Columns of `ThresholdRows.record`, one line of the processor's cache: a message scores rows from all over.
#: The words of a row are `term[FIRST:LAST]`, in the order of their strings; OWN is the squared length of their vector.
X, Y, TEXT_WEIGHT, THRESHOLD, MAX_DISTANCE, OWN, FIRST, LAST = range(8)
RECORD_SIZE = 8
#: The slot of a row that counts no longer.
DEAD = -1


class ThresholdRows(NamedTuple):
    """Subscriptions of kind `topk`, one a row; a dead row has the slot -1 and a threshold of infinity."""

    slot: NDArray[np.int32]
    record: NDArray[np.float64]
    k: NDArray[np.int32]
    term: NDArray[np.int32]


def rows_of(slots: NDArray[np.int32], subscriptions: Subscriptions, weight: NDArray[np.float64]) -> ThresholdRows:
    """Return top-k subscriptions as rows."""
    scoring = subscriptions.scoring
    assert scoring is not None
    start = subscriptions.code_start[subscriptions.clause_start]
    term = np.array(subscriptions.code[start[0] : start[-1]], np.int32)
    record = new_records(len(slots))
    record[:, X : Y + 1] = subscriptions.regions.part[subscriptions.regions.part_start[:-1], :2]
    record[:, TEXT_WEIGHT] = scoring.text_weight
    record[:, THRESHOLD] = scoring.threshold
    record[:, MAX_DISTANCE] = scoring.max_distance
    _number_words(record, start - start[0])
    rows = ThresholdRows(np.array(slots, np.int32), record, np.array(scoring.k, np.int32), term)
    weigh(rows, weight)
    return rows


def new_records(n: int) -> NDArray[np.float64]:
    """Return n records, each at the beginning of a line of the processor's cache."""
    spare = np.empty((n + 1) * RECORD_SIZE)
    first = -(spare.ctypes.data // spare.itemsize) % RECORD_SIZE
    return spare[first : first + n * RECORD_SIZE].reshape(n, RECORD_SIZE)


def _number_words(record: NDArray[np.float64], start: NDArray[np.int64]) -> None:
    record[:, FIRST], record[:, LAST] = start[:-1], start[1:]


def word_starts(rows: ThresholdRows) -> NDArray[np.int64]:
    """Return where the words of each row begin, and where the last ones end."""
    return np.append(rows.record[:, FIRST], rows.record[-1:, LAST]).astype(np.int64)


def weigh(rows: ThresholdRows, weight: NDArray[np.float64]) -> None:
    """Write what the words of each row amount to under these weights."""
    own = np.empty(len(rows.slot))
    if len(own):
        own_amounts(word_starts(rows), rows.term, np.full(len(own), TFIDF, np.uint8), weight, own)
    rows.record[:, OWN] = own


def take_rows(rows: ThresholdRows, keep: NDArray[np.int64]) -> ThresholdRows:
    """Return these rows, packed, in this order."""
    record = np.take(rows.record, keep, axis=0, out=new_records(len(keep)), mode="clip")
    first, last = record[:, FIRST].astype(np.int64), record[:, LAST].astype(np.int64)
    start, positions = gathered_between(first, last)
    _number_words(record, start)
    return ThresholdRows(rows.slot[keep], record, rows.k[keep], np.ascontiguousarray(rows.term[positions]))


def join_rows(pieces: list[ThresholdRows]) -> ThresholdRows:
    """Return all rows of all pieces."""
    record = new_records(sum(len(piece.slot) for piece in pieces))
    np.concatenate([piece.record for piece in pieces], out=record)
    _number_words(
        record, joined([word_starts(piece) if len(piece.slot) else np.zeros(1, np.int64) for piece in pieces])
    )
    return ThresholdRows(
        np.concatenate([piece.slot for piece in pieces]),
        record,
        np.concatenate([piece.k for piece in pieces]),
        np.concatenate([piece.term for piece in pieces]),
    )


def subscriptions_of(rows: ThresholdRows) -> Subscriptions:
    """Return these rows as subscriptions; ids are their slots."""
    n, record = len(rows.slot), rows.record
    each = np.arange(n + 1, dtype=np.int64)
    point = record[:, [X, Y, X, Y]]
    nothing = np.full(n, -1, np.int32)
    regions = Regions(np.full(n, BOX, np.uint8), each, point, nothing, np.empty((0, 3)), np.empty(0, object))
    scoring = ScoreParameters(
        record[:, TEXT_WEIGHT].copy(),
        record[:, THRESHOLD].copy(),
        record[:, MAX_DISTANCE].copy(),
        np.full(n, TFIDF, np.uint8),
        rows.k,
    )
    return Subscriptions.of(
        each,
        word_starts(rows) if n else np.zeros(1, np.int64),
        rows.term,
        regions,
        ids=_arrow.numbers(rows.slot),
        kind=np.full(n, TOPK, np.uint8),
        scoring=scoring,
    )


@kernel
def enter_slots(slot, where, number):
    """Write where each live row is: the number of its component and its row in one."""
    for row in range(slot.size):
        if slot[row] >= 0:
            where[slot[row]] = (number << 32) | row
