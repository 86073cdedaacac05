"""Subscriptions as the search meets them: leaf by leaf, and everything about one in one cache line.

The arrays of `ScoredColumns` are views into records of 64 bytes. A candidate costs one access to memory that way,
where arrays apart from each other would cost one each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast.columns import gathered
from nearcast.indexes.shared.scores import ScoredColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RECORD = np.dtype(
    [
        ("point", np.float64, 2),
        ("text_weight", np.float64),
        ("threshold", np.float64),
        ("max_distance", np.float64),
        ("own", np.float64),
        ("term_start", np.int32),
        ("row", np.int32),
        ("stamp", np.int32),
        ("similarity", np.uint8),
        ("depth", np.uint8, 2),
        ("spare", np.uint8),
    ]
)


class Members(NamedTuple):
    """Subscriptions, numbered leaf by leaf, those that came after the building behind.

    `row` is each one's row in the stored table. `depth` is the level of its last word, for messages inside and beyond
    its leaf. `stamp` and `number` are working memory of a search: the number under which a member last became a
    candidate, and the next one. Numbers rise, so that nothing is cleared between messages.

    All columns have one element more than there are members: of a single one, a view would count as contiguous, and be
    another type to every kernel.
    """

    scored: ScoredColumns
    row: NDArray[np.int32]
    depth: NDArray[np.uint8]
    stamp: NDArray[np.int32]
    number: NDArray[np.int64]

    @property
    def n(self) -> int:
        """Return how many there are."""
        return len(self.row) - 1


def members_of(scored: ScoredColumns, rows: NDArray[np.int64], old: Members | None = None) -> Members:
    """Return members of these rows, behind those that there are."""
    n_old = 0 if old is None else old.n
    n = n_old + len(rows)
    record = _room(n + 1)
    record["row"], record["stamp"] = -1, -1
    term = scored.term
    if old is not None:
        _copy(record[: n_old + 1], old.scored, 0)
        record["row"][:n_old], record["depth"][:n_old] = old.row[:-1], old.depth[:-1]
        term = np.concatenate([old.scored.term, term])
    _copy(record[n_old:], scored, len(term) - len(scored.term))
    record["row"][n_old:n] = rows
    columns = (record[name] for name in ("point", "text_weight", "threshold", "max_distance", "similarity", "own"))
    view = ScoredColumns(*[record["term_start"], np.ascontiguousarray(term), *columns, scored.weight])
    return Members(view, record["row"], record["depth"], record["stamp"], np.zeros(4, np.int64))


def _copy(record: NDArray[np.void], scored: ScoredColumns, first_term: int) -> None:
    """Write scored rows into records, one more of which says where the words end."""
    n = len(record) - 1
    for name in ("point", "text_weight", "threshold", "max_distance", "similarity", "own"):
        record[name][:n] = getattr(scored, name)[:n]
    record["term_start"] = scored.term_start - scored.term_start[0] + first_term


def size_of(members: Members) -> int:
    """Return the bytes of members, the weights of terms apart."""
    return len(members.row) * _RECORD.itemsize + members.scored.term.nbytes


def in_order(scored: ScoredColumns, order: NDArray[np.int32]) -> ScoredColumns:
    """Return scored rows in another order."""
    start, positions = gathered(scored.term_start, order.astype(np.int64))
    columns: list[Any] = [column[order] for column in scored[2:-1]]
    return ScoredColumns(*[start, scored.term[positions], *columns, scored.weight])


def _room(n: int) -> NDArray[np.void]:
    """Return n records, each in a cache line of its own."""
    size = _RECORD.itemsize
    memory = np.zeros((n + 1) * size, np.uint8)
    offset = -memory.ctypes.data % size
    return memory[offset : offset + n * size].view(_RECORD)
