"""The total order of a batch: by time, changes before messages, then by name of the source and row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.errors import unreadable_store

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.tables.time_limits import MaxAhead


@dataclass(frozen=True)
class SourceTimes:
    """The times of the rows of one source, and their row numbers in it."""

    name: str
    time: NDArray[np.int64]
    row: NDArray[np.int64]


@dataclass(frozen=True)
class BatchOrder:
    """All rows of a batch in order.

    `message` and `change` are the rows of all sources of messages, and of changes, laid end to end: numbers into that,
    in the order of the batch. `position` of each is its place among both, `message_time` the time of each message.
    """

    message: NDArray[np.int64]
    message_position: NDArray[np.int64]
    message_time: NDArray[np.int64]
    change: NDArray[np.int64]
    change_position: NDArray[np.int64]


@dataclass(frozen=True)
class AheadLimit:
    """How far message times may lie ahead: of the wall clock when the batch began, or of event time without one."""

    most: MaxAhead
    wall: int | None = None

    def is_ahead(self, times: NDArray[np.int64], now: int) -> NDArray[np.bool_]:
        """Tell which messages, in the order of the batch, are from the future."""
        return self.most.ahead_of_events(times, now) if self.wall is None else self.most.ahead_of(times, self.wall)

    def why(self, time: int, clock: int) -> str:
        """Return why a message is refused that comes at the event time `clock`."""
        return self.most.why(time, clock) if self.wall is None else self.most.why(time, self.wall, "the wall clock")


def put_in_order(
    messages: Sequence[SourceTimes], changes: Sequence[SourceTimes], *, by_time: bool = True
) -> BatchOrder:
    """Return the order of a batch; without `by_time`, sources and rows alone decide."""
    n_messages, n_changes = (sum(len(source.time) for source in group) for group in (messages, changes))
    time = _joined([source.time for source in (*messages, *changes)])
    is_message = np.arange(n_messages + n_changes) < n_messages
    names = sorted({source.name for source in (*messages, *changes)})
    rank = np.repeat(
        np.array([names.index(source.name) for source in (*messages, *changes)], np.int64),
        [len(source.time) for source in (*messages, *changes)],
    )
    row = _joined([source.row for source in (*messages, *changes)])
    order = rows_in_order((row, rank, is_message, time) if by_time else (row, rank, is_message))
    at_message, at_change = np.flatnonzero(is_message[order]), np.flatnonzero(~is_message[order])
    message = order[at_message]
    return BatchOrder(message, at_message, time[message], order[at_change] - n_messages, at_change)


def rows_in_order(keys: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Return the rows in the order of these columns, the least important first, as they are where they ascend."""
    ascends = np.ones(max(0, len(keys[0]) - 1), np.bool_)
    for key in keys:
        ascends = (key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & ascends)
    return np.arange(len(keys[0])) if ascends.all() else np.lexsort(tuple(keys))


def _joined(columns: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(columns) if columns else np.empty(0, np.int64)


@dataclass(frozen=True)
class MessageSequence:
    """The messages of a batch that count, in order: rows of its segments laid end to end, and when each comes."""

    rows: NDArray[np.int64]
    position: NDArray[np.int64]
    step: NDArray[np.int64]
    clock: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def none(cls) -> MessageSequence:
        """Return the sequence of no messages."""
        return cls(*np.empty((4, 0), np.int64))

    @property
    def is_as_laid(self) -> bool:
        """Tell whether the order is that of the segments, so that nothing need be moved."""
        return bool((self.rows == np.arange(len(self.rows))).all())

    def write(self, path: Path) -> None:
        """Write one file."""
        with path.open("wb") as file:
            np.save(file, np.stack([self.rows, self.position, self.step, self.clock]))

    @classmethod
    def read(cls, path: Path) -> MessageSequence:
        """Return what was written; `IncompatibleStore` if it is damaged."""
        try:
            return cls(*np.load(path))
        except (OSError, ValueError, EOFError, TypeError) as error:
            raise unreadable_store(f"{path} is missing or damaged ({error}); restore the checkpoint", error) from None
