"""Live messages as growing columns, in order of arrival."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast._ids import Id, id_of, key_of, keys_of
from nearcast.columns import gathered
from nearcast.text.words import string_spans

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages

#: Columns grow by an eighth: each value is copied some times in its life, and little memory lies idle.
_GROWTH = 8
_LEAST_CAPACITY = 64


class LiveTable(NamedTuple):
    """Columns of messages, by row, in order of arrival; longer than the number of rows, which is kept apart.

    Row i has the words `term[term_start[i]:term_start[i + 1]]` in text order, as ids of the store's own word table, -1
    for none; `total[i]` is how many distinct words it has and what they weigh together. Its id has the key
    `id_byte[id_start[i]:id_start[i + 1]]`. Rows are only added behind the last; whoever changes others makes another
    table.
    """

    term_start: NDArray[np.int64]
    term: NDArray[np.int32]
    box: NDArray[np.float64]
    total: NDArray[np.float64]
    arrival: NDArray[np.int64]
    expires: NDArray[np.int64]
    id_start: NDArray[np.int64]
    id_byte: NDArray[np.uint8]

    @property
    def nbytes(self) -> int:
        """The bytes of all columns."""
        return sum(column.nbytes for column in self)

    @classmethod
    def empty(cls) -> LiveTable:
        """Return a table without rows."""
        return cls(
            term_start=np.zeros(1, np.int64),
            term=np.zeros(0, np.int32),
            box=np.zeros((0, 4)),
            total=np.zeros((0, 2)),
            arrival=np.zeros(0, np.int64),
            expires=np.zeros(0, np.int64),
            id_start=np.zeros(1, np.int64),
            id_byte=np.zeros(0, np.uint8),
        )

    def first(self, n: int) -> LiveTable:
        """Return the first n rows, without a copy."""
        return LiveTable(
            term_start=self.term_start[: n + 1],
            term=self.term[: self.term_start[n]],
            box=self.box[:n],
            total=self.total[:n],
            arrival=self.arrival[:n],
            expires=self.expires[:n],
            id_start=self.id_start[: n + 1],
            id_byte=self.id_byte[: self.id_start[n]],
        )

    def take(self, rows: NDArray[np.int64]) -> LiveTable:
        """Return copies of these rows, in this order."""
        term_start, at = gathered(self.term_start, rows)
        id_start, id_at = gathered(self.id_start, rows)
        return LiveTable(
            term_start=term_start,
            term=self.term[at],
            box=self.box[rows],
            total=self.total[rows],
            arrival=self.arrival[rows],
            expires=self.expires[rows],
            id_start=id_start,
            id_byte=self.id_byte[id_at],
        )

    def extended(self, n: int, more: LiveTable) -> LiveTable:
        """Return the first n rows and `more` behind them: this very memory where it has room for them."""
        last, last_term, last_byte = n + len(more.box), self.term_start[n], self.id_start[n]
        end_term, end_byte = last_term + len(more.term), last_byte + len(more.id_byte)
        new = LiveTable(
            term_start=_with_room(self.term_start, n + 1, last + 1),
            term=_with_room(self.term, int(last_term), int(end_term)),
            box=_with_room(self.box, n, last),
            total=_with_room(self.total, n, last),
            arrival=_with_room(self.arrival, n, last),
            expires=_with_room(self.expires, n, last),
            id_start=_with_room(self.id_start, n + 1, last + 1),
            id_byte=_with_room(self.id_byte, int(last_byte), int(end_byte)),
        )
        new.term_start[n + 1 : last + 1] = last_term + more.term_start[1:]
        new.term[last_term:end_term] = more.term
        new.id_start[n + 1 : last + 1] = last_byte + more.id_start[1:]
        new.id_byte[last_byte:end_byte] = more.id_byte
        for to, of in ((new.box, more.box), (new.total, more.total)):
            to[n:last] = of
        for long, given in ((new.arrival, more.arrival), (new.expires, more.expires)):
            long[n:last] = given
        return new

    def id_values(self, rows: NDArray[np.int64]) -> list[Id]:
        """Return the ids of rows."""
        start, at = gathered(self.id_start, rows)
        data, ends = self.id_byte[at].tobytes(), start.tolist()
        return [id_of(data[first:last].decode()) for first, last in pairwise(ends)]


def _with_room(column: NDArray[Any], used: int, n: int) -> NDArray[Any]:
    """Return a column with room for n values: this one, or a longer one with those that are in use."""
    if n <= len(column):
        return column
    grown = np.empty((max(n + n // _GROWTH, _LEAST_CAPACITY), *column.shape[1:]), column.dtype)
    grown[:used] = column[:used]
    return grown


def table_of(messages: Messages, arrival: NDArray[np.int64], expires: NDArray[np.int64]) -> LiveTable:
    """Return messages as rows of a table; they have `live_terms` and `totals`."""
    assert messages.live_terms is not None
    assert messages.totals is not None
    first, last = messages.term_start[0], messages.term_start[-1]
    id_start, id_byte = _id_bytes(messages.ids)
    return LiveTable(
        term_start=messages.term_start - first,
        term=messages.live_terms[first:last],
        box=messages.box,
        total=messages.totals[:, :2],
        arrival=arrival,
        expires=expires,
        id_start=id_start,
        id_byte=id_byte,
    )


def _id_bytes(ids: pa.Array | list[Id]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the keys of ids end to end: where each begins, and the bytes."""
    keys = keys_of(ids) if isinstance(ids, pa.Array) else pa.array([key_of(id_) for id_ in ids], pa.string())
    (spans,) = string_spans(keys)
    start = np.zeros(len(spans) + 1, np.int64)
    np.cumsum(spans.length, out=start[1:])
    begin = int(spans.start[0]) if len(spans) else 0
    return start, spans.data[begin : begin + int(start[-1])]
