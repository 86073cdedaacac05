"""What one input delivers, as columns: from the pieces of the engine to rows with subscriber and cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast._ids import StoredIds, ids_column, key_of, keys_of, kinds_of
from nearcast.deliveries import ChangeDeliveries, MatchDeliveries, Piece
from nearcast.durable.outbox.runs import CAUSED, ENTER, EXIT, EXPIRED, MATCH, TOPK_ADDED, TOPK_REMOVED, same

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast._ids import IdSnapshot


class Names(NamedTuple):
    """Ids of messages as keys, by their arrivals."""

    arrivals: NDArray[np.int64]
    keys: pa.Array


@dataclass(eq=False)
class ReleasedRows:
    """The deliveries of one piece that have a subscriber, in the order of delivery."""

    subscriber: NDArray[np.int32]
    columns: dict[str, NDArray[Any]]
    slots: NDArray[np.int32]
    ids: IdSnapshot
    names: list[Names]
    told: NDArray[np.int64]
    times: NDArray[np.int64]
    version: str

    def __len__(self) -> int:
        return len(self.subscriber)


class StepRows:
    """Numbers the deliveries of each step, from 1 on, over the pieces of one input."""

    def __init__(self) -> None:
        self._step, self._count = -1, 0

    def numbers(self, steps: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the number of each delivery of the next piece, one at least, in its step; steps ascend."""
        begins = np.flatnonzero(np.diff(steps, prepend=-1))
        counts = np.diff(np.append(begins, len(steps)))
        rows = np.arange(1, len(steps) + 1) - np.repeat(begins, counts)
        before = self._count if int(steps[0]) == self._step else 0
        rows[: counts[0]] += before
        self._step, self._count = int(steps[-1]), int(counts[-1]) + (before if len(counts) == 1 else 0)
        return rows.astype(np.int32)


def released(
    piece: Piece, subscriber: NDArray[np.int32], step_rows: StepRows, ends: NDArray[np.int64] | None
) -> ReleasedRows | None:
    """Return the rows of a piece that have a subscriber, -1 where there is none; None if no row has one.

    `ends` tells where a message that leaves ended: by expiry if not after the step. Without it none expires.
    """
    if isinstance(piece, MatchDeliveries):
        rows = piece.matches.rows()
        cursor_rows = step_rows.numbers(piece.steps[rows])
        kept = np.flatnonzero(subscriber >= 0)
        return None if not len(kept) else _of_matches(piece, rows, cursor_rows, kept, subscriber)
    cursor_rows = step_rows.numbers(piece.steps)
    kept = np.flatnonzero(subscriber >= 0)
    return None if not len(kept) else _of_changes(piece, cursor_rows, kept, subscriber, ends)


def _of_matches(
    piece: MatchDeliveries,
    rows: NDArray[np.int64],
    cursor_rows: NDArray[np.int32],
    kept: NDArray[np.int64],
    subscriber: NDArray[np.int32],
) -> ReleasedRows:
    if len(kept) < len(rows):
        rows, cursor_rows, subscriber = rows[kept], cursor_rows[kept], subscriber[kept]
    slots, score = piece.matches.slots[kept], piece.matches.score[kept]
    used = np.flatnonzero(np.bincount(rows, minlength=len(piece.steps)))
    steps, n = piece.steps[rows], len(rows)
    given = piece.message_ids
    if not isinstance(given, pa.Array):
        given = pa.array([given[row] for row in used.tolist()])
    else:
        given = given.take(_arrow.numbers(used))
    return ReleasedRows(
        subscriber=subscriber,
        columns={
            "step": steps,
            "row": cursor_rows,
            "since": same(np.int64(0), n),
            "score": same(score[0], n) if (score == score[0]).all() else score,
            "rank": same(np.int32(0), n),
            "code": same(np.uint8(MATCH | CAUSED), n),
        },
        slots=slots,
        ids=piece.ids,
        names=[Names(piece.steps[used], keys_of(given))],
        told=piece.steps[used],
        times=piece.times[used],
        version=piece.version,
    )


def _of_changes(
    piece: ChangeDeliveries,
    cursor_rows: NDArray[np.int32],
    kept: NDArray[np.int64],
    subscriber: NDArray[np.int32],
    ends: NDArray[np.int64] | None,
) -> ReleasedRows:
    own, n = piece.take(kept), len(kept)
    none: Any = None  # which NumPy's types do not allow for
    is_caused = np.not_equal(own.cause_ids, none).astype(np.bool_)
    is_expired = np.zeros(n, np.bool_) if ends is None else ends[kept] <= own.times
    leaves = np.where(own.ranks > 0, TOPK_REMOVED, np.where(is_expired, EXPIRED, EXIT))
    comes = np.where(own.ranks > 0, TOPK_ADDED, np.where(is_caused & (own.steps == own.message_numbers), MATCH, ENTER))
    code = np.where(own.enters > 0, comes, leaves).astype(np.uint8) | (is_caused * np.uint8(CAUSED))
    told, first = np.unique(own.steps, return_index=True)
    caused = np.flatnonzero(is_caused)
    return ReleasedRows(
        subscriber=subscriber[kept],
        columns={
            "step": own.steps,
            "row": cursor_rows[kept],
            "since": own.steps - own.message_numbers,
            "score": own.scores,
            "rank": own.ranks,
            "code": code,
        },
        slots=own.slots,
        ids=own.ids,
        names=[_names(own.message_numbers, own.message_ids), _names(own.steps[caused], own.cause_ids[caused])],
        told=told,
        times=own.times[first],
        version=own.version,
    )


def _names(arrivals: NDArray[np.int64], ids: NDArray[np.object_] | StoredIds) -> Names:
    """Return the keys of messages, each once."""
    named, first = np.unique(arrivals, return_index=True)
    return Names(named, keys_of_values(ids[first].tolist()))


def keys_of_values(ids: Sequence[Any]) -> pa.Array:
    """Return the keys of ids of any kind."""
    if not ids:
        return pa.array([], pa.string())
    kinds = kinds_of(ids)
    if len(kinds) == 1:
        return keys_of(ids_column(ids, kinds))
    return pa.array([key_of(id_) for id_ in ids], pa.string())
