"""Sorted runs: the deliveries of some inputs as columns ordered by subscriber, in memory or mapped from a file.

The unit of the outbox's log-structured merge tree. Runs follow each other in the order of inputs, so the deliveries of
a subscriber are those of one run after the other. A run also holds the messages that its inputs published, as the
inputs are logged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from nearcast import _arrow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.durable.outbox.cursors import Cursor

#: Kinds of events, by their code.
MATCH, ENTER, EXIT, EXPIRED, TOPK_ADDED, TOPK_REMOVED = range(6)
KIND_NAMES = ("match", "enter", "exit", "expired", "topk.added", "topk.removed")
#: The kinds whose change is `-`.
LEAVING = (EXIT, EXPIRED, TOPK_REMOVED)
#: The bit of a code that tells that the message of the step caused it.
CAUSED = 8

#: The columns of a run with their types, in the order of the file. Owners' spans: `X_start[i]` to `X_start[i + 1]`.
COLUMNS: dict[str, Any] = {
    # a row for each subscriber, ascending: where its deliveries lie, and how many it had got before
    "subscriber": np.int32,
    "start": np.int64,
    "ordinal": np.int64,
    # a row for each delivery: by subscriber, then by cursor; `since` is how many steps before it the message arrived
    "step": np.int64,
    "row": np.int32,
    "since": np.int64,
    "score": np.float64,
    "rank": np.int32,
    "code": np.uint8,
    "subscription_start": np.int64,
    "subscription": np.uint8,
    # a row for each message that a delivery names, by arrival: the key of its id
    "named": np.int64,
    "name_start": np.int64,
    "name": np.uint8,
    # a row for each step: its event time
    "told": np.int64,
    "time": np.int64,
    # a row for each input that published: its first arrival, how many, which rows of it (none: all), its bytes
    "published": np.int64,
    "count": np.int64,
    "taken_start": np.int64,
    "taken": np.int64,
    "content_start": np.int64,
    "content": np.uint8,
    # a row for each message that was published, by the hash of its id: the hash and the arrival
    "id_hash": np.int64,
    "hashed": np.int64,
}
#: The columns that files of earlier versions lack: messages of these are searched for by id one by one.
LATER_COLUMNS = ("id_hash", "hashed")


#: The columns with a row for each delivery, but for the ids of subscriptions.
ROW_COLUMNS = ("step", "row", "since", "score", "rank", "code")


_LARGEST = np.iinfo(np.int32).max
#: Texts end to end: where each begins, with the end of the last, and the bytes.
TextSpans: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.uint8]]"


class Span(NamedTuple):
    """The inputs whose deliveries a run holds, from the one after `before` up to `last`."""

    before: int
    last: int


@dataclass(eq=False)
class SortedRun:
    """The deliveries of some inputs, and the messages that these published."""

    span: Span
    columns: dict[str, NDArray[Any]]
    #: From which step on which version of the vocabulary counted.
    versions: list[tuple[int, str]]
    #: Event time after its last input.
    now: int
    path: Path | None = None
    nbytes: int = field(init=False)
    #: The first and the last step that delivered something, -1 if none did.
    first_step: int = field(init=False)
    last_step: int = field(init=False)
    #: Whether all its messages are in the index by id.
    is_indexed: bool = field(init=False)

    def __post_init__(self) -> None:
        self.nbytes = sum(0 if is_same(column) else column.nbytes for column in self.columns.values())
        self.first_step, self.last_step = map(int, self.told[[0, -1]]) if len(self.told) else (-1, -1)
        self.is_indexed = len(self.hashed) == int(self.count.sum())
        self.__dict__.update(self.columns)

    def __getattr__(self, name: str) -> NDArray[Any]:
        """Return a column by its name."""
        try:
            return self.__dict__["columns"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(name) from None

    def __len__(self) -> int:
        return len(self.step)

    def place_of(self, subscriber: int) -> int:
        """Return the place of a subscriber in the index, -1 if it has no delivery here."""
        at = place_in(self.subscriber, subscriber)
        return at if at < len(self.subscriber) and self.subscriber[at] == subscriber else -1

    def rows_after(self, at: int, after: Cursor) -> tuple[int, int]:
        """Return the first row after a cursor and the end of the rows, of the subscriber at a place of the index."""
        first, last = int(self.start[at]), int(self.start[at + 1])
        low = first + place_in(self.step[first:last], after.step)
        high = first + place_in(self.step[first:last], after.step + 1)
        return low + place_in(self.row[low:high], after.row + 1), last


def place_in(column: NDArray[Any], value: int) -> int:
    """Return the first place of an ascending column of integers whose value is not below this one."""
    if column.dtype == np.int32:  # given another type, NumPy would convert the column
        return int(column.searchsorted(np.int32(min(value, _LARGEST))))
    return int(column.searchsorted(value))


def same(value: Any, n: int) -> NDArray[Any]:
    """Return a column with the same value n times, which takes no memory."""
    return np.broadcast_to(value, n)


def is_same(column: NDArray[Any]) -> bool:
    """Tell whether `same` made a column."""
    return column.strides == (0,) and len(column) > 0


def joined(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return columns end to end; the same value in all of them is still one."""
    given = [column for column in columns if len(column)]
    if given and all(map(is_same, given)) and len({column[0] for column in given}) == 1:
        return same(given[0][0], sum(map(len, given)))
    return np.concatenate(columns)


def texts_of(start: NDArray[Any], content: NDArray[np.uint8]) -> pa.Array:
    """Return texts that lie end to end as a column over the same memory."""
    kind = pa.StringArray if start.dtype == np.int32 else pa.LargeStringArray
    return kind.from_buffers(len(start) - 1, pa.py_buffer(start), pa.py_buffer(content))


def spans_of(texts: pa.Array) -> TextSpans:
    """Return a column of texts as places and bytes."""
    large = texts.cast(pa.large_string())
    _, offsets, content = large.buffers()
    if not len(large):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    start = np.frombuffer(offsets, np.int64)[large.offset : large.offset + len(large) + 1]
    data = np.empty(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
    return start - start[0], data[start[0] : start[-1]]


def sorted_rows(
    subscriber: NDArray[np.int32],
    columns: dict[str, NDArray[Any]],
    subscriptions: Callable[[NDArray[np.int64]], TextSpans],
) -> dict[str, NDArray[Any]]:
    """Return rows that are in the order of cursors by subscriber, with the index of subscribers but its ordinals.

    `subscriptions` returns the ids of the subscriptions of rows, in the order in which it is given these.
    """
    order = np.sort((subscriber.astype(np.int64) << 32) | np.arange(len(subscriber)))
    owners, order = (order >> 32).astype(np.int32), order & 0xFFFFFFFF
    begins = np.flatnonzero(np.diff(owners, prepend=-1))
    found = {name: column if is_same(column) else column[order] for name, column in columns.items()}
    found["subscriber"], found["start"] = owners[begins], np.append(begins, len(owners))
    found["subscription_start"], found["subscription"] = subscriptions(order)
    return found


def merged(runs: Sequence[SortedRun], is_known: Callable[[NDArray[np.int32]], NDArray[np.bool_]]) -> SortedRun:
    """Return the run of neighbouring runs, without the rows of subscribers that are not known any more."""
    owners = np.concatenate([np.repeat(run.subscriber, np.diff(run.start)) for run in runs])
    kept = is_known(owners)
    texts = _joined_texts([texts_of(run.subscription_start, run.subscription) for run in runs])
    columns = {name: joined([run.columns[name] for run in runs]) for name in ROW_COLUMNS}
    if not kept.all():
        at = np.flatnonzero(kept)
        owners = owners[at]
        columns = {name: column[: len(at)] if is_same(column) else column[at] for name, column in columns.items()}
        texts = texts.take(_arrow.numbers(at))
    found = sorted_rows(owners, columns, lambda order: spans_of(texts.take(_arrow.numbers(order))))
    found["ordinal"] = _first_ordinals(runs, found["subscriber"])
    found |= _joined_names(runs) | _joined_times(runs) | _joined_messages(runs)
    versions: list[tuple[int, str]] = []
    for run in runs:
        versions += [each for each in run.versions if not versions or versions[-1][1] != each[1]]
    return SortedRun(Span(runs[0].span.before, runs[-1].span.last), in_order(found), versions, runs[-1].now)


def in_order(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return all columns of a run in their order and of their types."""
    return {name: _of_type(columns[name], dtype) for name, dtype in COLUMNS.items()}


def _of_type(column: NDArray[Any], dtype: Any) -> NDArray[Any]:
    return same(column[0].astype(dtype), len(column)) if is_same(column) else np.ascontiguousarray(column, dtype)


def _joined_texts(parts: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([part.cast(pa.large_string()) for part in parts])


def _first_ordinals(runs: Sequence[SortedRun], subscribers: NDArray[np.int32]) -> NDArray[np.int64]:
    ordinal = np.zeros(len(subscribers), np.int64)
    for run in reversed(runs):
        at = np.searchsorted(subscribers, run.subscriber)
        inside = np.flatnonzero(at < len(subscribers))
        is_here = subscribers[at[inside]] == run.subscriber[inside]
        ordinal[at[inside[is_here]]] = run.ordinal[inside[is_here]]
    return ordinal


def distinct_names(arrivals: NDArray[np.int64], keys: pa.Array) -> dict[str, NDArray[Any]]:
    """Return the keys of messages by arrival, each once."""
    named, first = np.unique(arrivals, return_index=True)
    start, content = spans_of(keys.cast(pa.large_string()).take(_arrow.numbers(first)))
    return {"named": named, "name_start": start, "name": content}


def _joined_names(runs: Sequence[SortedRun]) -> dict[str, NDArray[Any]]:
    keys = _joined_texts([texts_of(run.name_start, run.name) for run in runs])
    return distinct_names(np.concatenate([run.named for run in runs]), keys)


def _joined_times(runs: Sequence[SortedRun]) -> dict[str, NDArray[Any]]:
    told, first = np.unique(np.concatenate([run.told for run in runs]), return_index=True)
    return {"told": told, "time": np.concatenate([run.time for run in runs])[first]}


def _joined_messages(runs: Sequence[SortedRun]) -> dict[str, NDArray[Any]]:
    columns = {name: np.concatenate([run.columns[name] for run in runs]) for name in ("published", "count", "taken")}
    for name, content in (("taken_start", "taken"), ("content_start", "content")):
        columns[name] = _joined_starts([run.columns[name] for run in runs])
        columns[content] = np.concatenate([run.columns[content] for run in runs])
    return columns | by_hash(*(np.concatenate([run.columns[name] for run in runs]) for name in LATER_COLUMNS))


def by_hash(hashes: NDArray[np.int64], arrivals: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the index of messages by the hashes of their ids; those of one hash stay in their order."""
    order = np.argsort(hashes, kind="stable")
    return {"id_hash": hashes[order], "hashed": arrivals[order]}


def _joined_starts(starts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the places of spans whose contents are put end to end."""
    lengths = np.concatenate([np.diff(start) for start in starts])
    return np.concatenate([[0], np.cumsum(lengths)])
