"""The changes of a batch as columns, before it is known which of them are accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearcast.columns import Subscriptions
from nearcast.geo import Regions
from nearcast.pipeline.batch.changes import MOVE, SUBSCRIBE, SourceChanges
from nearcast.tables.moves import Moves
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class PendingChanges:
    """The changes of all sources of a batch, laid end to end."""

    op: NDArray[np.uint8]
    ids: pa.Array
    time: NDArray[np.int64]
    row: NDArray[np.int64]
    sources: list[str]
    #: By row, which of `sources` it comes from.
    source: NDArray[np.int32]
    at: NDArray[np.int64]
    subscriptions: Subscriptions
    moves: Moves

    @classmethod
    def of(cls, changes: Sequence[SourceChanges], words: WordTable) -> PendingChanges:
        """Lay changes end to end; their words are added to the plan's."""
        subscriptions = [each.subscriptions.into(words) for each in changes]
        at = []
        first = {SUBSCRIBE: 0, MOVE: 0}
        for each, read in zip(changes, subscriptions, strict=True):
            shift = np.zeros(len(each), np.int64)
            for op, n in ((SUBSCRIBE, len(read)), (MOVE, len(each.moves))):
                shift[each.op == op] = first[op]
                first[op] += n
            at.append(each.at + shift)
        return cls(
            op=np.concatenate([each.op for each in changes]),
            ids=_joined([each.ids for each in changes]),
            time=np.concatenate([each.time for each in changes]),
            row=np.concatenate([each.row for each in changes]),
            sources=[each.source for each in changes],
            source=np.repeat(np.arange(len(changes), dtype=np.int32), [len(each) for each in changes]),
            at=np.concatenate(at),
            subscriptions=Subscriptions.concat([_same_ids(each, subscriptions) for each in subscriptions]),
            moves=_joined_moves([each.moves for each in changes]),
        )

    def source_of(self, row: int) -> str:
        """Return the name of the source of a row."""
        return self.sources[int(self.source[row])]


def _same_ids(each: Subscriptions, among: list[Subscriptions]) -> Subscriptions:
    kinds = {other.ids.type for other in among if len(other)}
    if len(kinds) == 1:
        return replace(each, ids=each.ids.cast(next(iter(kinds))))
    return replace(each, ids=each.ids.cast(pa.string()))


def _joined(ids: list[pa.Array]) -> pa.Array:
    given = [each for each in ids if len(each)] or ids[:1]
    if len({each.type for each in given}) > 1:
        given = [each.cast(pa.string()) for each in given]
    return pa.concat_arrays(given)


def _joined_moves(moves: list[Moves]) -> Moves:
    return Moves(
        _joined([each.ids for each in moves]),
        np.concatenate([each.is_point for each in moves]),
        np.concatenate([each.point for each in moves]),
        Regions.concat([each.regions for each in moves]),
    )
