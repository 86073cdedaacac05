"""The newest messages of a tenant in columns, for maps: kept as they were published until somebody asks for them."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.columns import microseconds_of
from nearcast.engine.lifetime import Lifetime
from nearcast.errors import NearcastError
from nearcast.geo import Space
from nearcast.json_forms import message_feature
from nearcast.model import message_from
from nearcast.tables.messages import read_messages
from nearcast.tables.rejected_rows import Rejected
from nearcast.text import Analyzer
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: How many are kept.
NEWEST = 10_000
#: Messages of one call of the hub: values, or a table.
Call: TypeAlias = list[Any] | pa.Table


@dataclass(frozen=True)
class NewestColumns:
    """Messages, the oldest first: ids, rectangles, when each was received and ends, in microseconds; NO_TIME: never.

    `given` has each as it was published: a value, or a table and a row of it.
    """

    ids: list[str | int]
    box: NDArray[np.float64]
    received: NDArray[np.int64]
    expires: NDArray[np.int64]
    given: list[Any]

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def none(cls) -> NewestColumns:
        """Return no messages."""
        return cls([], np.empty((0, 4)), np.empty(0, np.int64), np.empty(0, np.int64), [])

    def and_then(self, others: list[NewestColumns]) -> NewestColumns:
        """Return the newest of these and others that came later."""
        parts = [self, *others]
        return NewestColumns(
            [id_ for part in parts for id_ in part.ids][-NEWEST:],
            np.concatenate([part.box for part in parts])[-NEWEST:],
            np.concatenate([part.received for part in parts])[-NEWEST:],
            np.concatenate([part.expires for part in parts])[-NEWEST:],
            [each for part in parts for each in part.given][-NEWEST:],
        )


class NewestMessages:
    """The last `NEWEST` messages: noting a call is one append, and each message is read once, when a map wants it."""

    def __init__(self, space: Space, lifetime: Lifetime | None = None):
        self._space, self._lifetime = space, lifetime
        #: Calls that no map has asked for yet, with their rejected rows and the time of receipt.
        self._waiting: deque[tuple[Call, set[int], int]] = deque()
        self._n_waiting = 0
        self._noting, self._reading = threading.Lock(), threading.Lock()
        self._columns = NewestColumns.none()

    def add(self, messages: Call, lost: set[int]) -> None:
        """Note the messages of a call, of which some rows were rejected."""
        with self._noting:
            self._waiting.append((messages, lost, time.time_ns() // 1000))
            self._n_waiting += len(messages)
            while self._n_waiting - len(self._waiting[0][0]) >= NEWEST:
                self._n_waiting -= len(self._waiting.popleft()[0])

    def columns(self) -> NewestColumns:
        """Return the newest messages."""
        with self._reading:
            with self._noting:
                calls, self._waiting, self._n_waiting = list(self._waiting), deque(), 0
            if calls:
                self._columns = self._columns.and_then([self._read(*call) for call in calls])
            return self._columns

    def with_ids(self, message_ids: set[str | int]) -> dict[str | int, dict[str, Any] | None]:
        """Return the newest message with each of these ids as a Feature, where one of them has it."""
        if not message_ids:
            return {}
        columns = self.columns()
        rows = {id_: row for row, id_ in enumerate(columns.ids) if id_ in message_ids}
        return {id_: feature_of(columns.given[row], self._space) for id_, row in rows.items()}

    def _read(self, messages: Call, lost: set[int], received: int) -> NewestColumns:
        rows = [row for row in range(len(messages)) if row not in lost][-NEWEST:]
        if not rows:
            return NewestColumns.none()
        read = _table_columns if isinstance(messages, pa.Table) else _value_columns
        ids, box, times, expires, given = read(messages, rows, self._space)
        then = np.full(len(ids), received)
        ends = expires if self._lifetime is None else self._lifetime.ends(times, expires, then)
        return NewestColumns(ids, box, then, ends, given)


def feature_of(given: Any, space: Space) -> dict[str, Any] | None:
    """Return a message as a Feature: a value, or a table and a row; None for a row in another form."""
    if isinstance(given, tuple):
        table, row = given
        (given,) = _arrow.rows_of(table.slice(row, 1))
    try:
        return message_feature(message_from(given, space))
    except NearcastError:  # a geometry in WKB
        return None


#: Ids, rectangles, times, ends, and the messages as they were given.
_Read = tuple[list[str | int], "NDArray[np.float64]", "NDArray[np.int64]", "NDArray[np.int64]", list[Any]]


def _table_columns(table: pa.Table, rows: list[int], space: Space) -> _Read:
    bare = table.drop_columns([name for name in ("text", "terms") if name in table.column_names]).take(rows)
    bare = bare.append_column("text", pa.nulls(len(rows), pa.string()))  # words are not looked at
    found = read_messages(bare, space, WordTable(), Analyzer(), rejected=Rejected())
    ids = found.ids.to_pylist() if isinstance(found.ids, pa.Array) else found.ids
    return ids, found.box, found.time, found.expires, [(table, row) for row in rows]


def _value_columns(values: list[Any], rows: list[int], space: Space) -> _Read:
    given = [values[row] for row in rows]
    messages = [message_from(value, space) for value in given]
    box = np.array([(*each.place, *each.place)[:4] for each in messages])
    times = np.array([microseconds_of(each.time) for each in messages], np.int64)
    expires = np.array([microseconds_of(each.expires) for each in messages], np.int64)
    return [each.id for each in messages], box, times, expires, given
