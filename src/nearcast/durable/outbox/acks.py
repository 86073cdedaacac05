"""Acknowledgements: rows of SQLite in the log's database, so that they share its transactions; columns in memory.

A row is kept under the number of its subscriber, which is never given to another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast.durable.outbox.cursors import BEGIN, Cursor

if TYPE_CHECKING:
    from numpy.typing import NDArray

ACKS_SCHEMA = """
    CREATE TABLE acks (
        subscriber INTEGER PRIMARY KEY, step INTEGER NOT NULL, row INTEGER NOT NULL, ordinal INTEGER NOT NULL
    );
"""
_WRITE = """
    INSERT INTO acks VALUES (?, ?, ?, ?) ON CONFLICT (subscriber) DO UPDATE
    SET step = excluded.step, row = excluded.row, ordinal = excluded.ordinal
    WHERE (excluded.step, excluded.row) > (step, row)
"""


class Ack(NamedTuple):
    """Up to where a subscriber has acknowledged, and how many deliveries that are."""

    cursor: Cursor = BEGIN
    ordinal: int = 0


@dataclass(eq=False)
class AckEntry:
    """An acknowledgement on its way into the log's database, in the transaction of the inputs that wait with it."""

    subscriber: int
    ack: Ack

    def write(self, connection: Any) -> None:
        """Write the row, unless there is a later one."""
        connection.execute(_WRITE, (self.subscriber, *self.ack.cursor, self.ack.ordinal))


@dataclass(eq=False)
class AckRemoval:
    """The removal of the acknowledgement of a subscriber that was erased."""

    subscriber: int

    def write(self, connection: Any) -> None:
        """Delete the row."""
        connection.execute("DELETE FROM acks WHERE subscriber = ?", (self.subscriber,))


class AckColumns:
    """The last acknowledgement of each subscriber, by its number."""

    def __init__(self, rows: Iterable[tuple[int, int, int, int]] = ()):
        self._columns = np.zeros((0, 3), np.int64)
        for subscriber, step, row, ordinal in rows:
            self.put(subscriber, Ack(Cursor(step, row), ordinal))

    def of(self, subscriber: int) -> Ack:
        """Return the last acknowledgement of a subscriber."""
        if not 0 <= subscriber < len(self._columns):
            return Ack()
        step, row, ordinal = self._columns[subscriber].tolist()
        return Ack(Cursor(step, row), ordinal)

    def put(self, subscriber: int, ack: Ack) -> None:
        """Take over an acknowledgement, unless there is a later one."""
        if ack.cursor <= self.of(subscriber).cursor:
            return
        if subscriber >= len(self._columns):
            grown = np.zeros((max(subscriber + 1, 2 * len(self._columns)), 3), np.int64)
            grown[: len(self._columns)] = self._columns
            self._columns = grown
        self._columns[subscriber] = (*ack.cursor, ack.ordinal)

    def ordinals(self, subscribers: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return how many deliveries each of these subscribers has acknowledged."""
        found = np.zeros(len(subscribers), np.int64)
        known = np.flatnonzero(subscribers < len(self._columns))
        found[known] = self._columns[subscribers[known], 2]
        return found
