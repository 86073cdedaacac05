"""From what inputs delivered and published to a sorted run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.durable.inputs import Input, encoded
from nearcast.durable.outbox.id_hashes import hashes_of
from nearcast.durable.outbox.released_rows import ReleasedRows
from nearcast.durable.outbox.runs import (
    ROW_COLUMNS,
    SortedRun,
    Span,
    TextSpans,
    by_hash,
    distinct_names,
    in_order,
    joined,
    sorted_rows,
    spans_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(eq=False)
class PublishedInput:
    """The messages of an input: the arrival of the first, how many were published, and which rows, None for all.

    `data` are the bytes of the input where they are known.
    """

    first: int
    count: int
    taken: NDArray[np.int64] | None
    given: Input
    data: bytes | None

    def content(self) -> bytes:
        """Return the input as it is logged."""
        return encoded(self.given) if self.data is None else self.data


@dataclass(eq=False)
class OutboxBatch:
    """What one input delivered to subscribers, what it published, and event time after it."""

    number: int
    now: int
    rows: Sequence[ReleasedRows]
    published: PublishedInput | None

    def __len__(self) -> int:
        return sum(map(len, self.rows))

    @property
    def nbytes(self) -> int:
        """Return about how many bytes its messages take."""
        return 0 if self.published is None else self.published.given.table.nbytes


class Totals:
    """How many deliveries each subscriber got so far, by its number."""

    def __init__(self) -> None:
        self._count = np.zeros(0, np.int64)

    def of(self, subscriber: int) -> int:
        """Return the count of one."""
        return int(self._count[subscriber]) if 0 <= subscriber < len(self._count) else 0

    def take(self, subscribers: NDArray[np.int32], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts of subscribers, which ascend, and add to them."""
        self._grow(subscribers)
        before = self._count[subscribers]
        self._count[subscribers] = before + counts
        return before

    def raise_to(self, subscribers: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
        """Let the counts be these at least."""
        self._grow(subscribers)
        self._count[subscribers] = np.maximum(self._count[subscribers], counts)

    def _grow(self, subscribers: NDArray[np.int32]) -> None:
        wanted = int(subscribers[-1]) + 1 if len(subscribers) else 0
        if wanted > len(self._count):
            self._count = np.concatenate([self._count, np.zeros(max(wanted, 1024) + len(self._count), np.int64)])


def run_of(batches: Sequence[OutboxBatch], before: int, totals: Totals) -> SortedRun:
    """Return the run of batches, which hold all since the input `before`, and count their deliveries in `totals`."""
    parts = [rows for batch in batches for rows in batch.rows]
    columns = _rows(parts)
    columns["ordinal"] = totals.take(columns["subscriber"], np.diff(columns["start"]))
    columns |= _names(parts) | _times(parts) | _messages([batch.published for batch in batches if batch.published])
    versions: list[tuple[int, str]] = []
    for part in parts:
        if not versions or versions[-1][1] != part.version:
            versions.append((int(part.told[0]), part.version))
    return SortedRun(Span(before, batches[-1].number), in_order(columns), versions, batches[-1].now)


def _rows(parts: Sequence[ReleasedRows]) -> dict[str, NDArray[Any]]:
    none = np.empty(0, np.uint8)
    columns = {name: joined([none, *(part.columns[name] for part in parts)]) for name in ROW_COLUMNS}
    subscriber = np.concatenate([np.empty(0, np.int32), *(part.subscriber for part in parts)])
    return sorted_rows(subscriber, columns, _subscriptions(parts))


def _subscriptions(parts: Sequence[ReleasedRows]) -> Callable[[NDArray[np.int64]], TextSpans]:
    """Return what gives the ids of the subscriptions of rows, which are numbered over all parts."""
    if len({part.ids.identity for part in parts}) == 1:  # no ids were bound meanwhile: each is copied once, in order
        slots = np.concatenate([part.slots for part in parts])
        return lambda order: parts[0].ids.key_spans(slots[order])
    texts = [part.ids.keys(part.slots).cast(pa.large_string()) for part in parts]
    joined_texts = pa.concat_arrays(texts) if texts else pa.array([], pa.large_string())
    return lambda order: spans_of(joined_texts.take(_arrow.numbers(order)))


def _names(parts: Sequence[ReleasedRows]) -> dict[str, NDArray[Any]]:
    given = [names for part in parts for names in part.names]
    if not given:
        return distinct_names(np.empty(0, np.int64), pa.array([], pa.string()))
    return distinct_names(
        np.concatenate([each.arrivals for each in given]), pa.concat_arrays([each.keys for each in given])
    )


def _times(parts: Sequence[ReleasedRows]) -> dict[str, NDArray[Any]]:
    told = np.concatenate([np.empty(0, np.int64), *(part.told for part in parts)])
    times = np.concatenate([np.empty(0, np.int64), *(part.times for part in parts)])
    told, first = np.unique(told, return_index=True)
    return {"told": told, "time": times[first]}


def _messages(published: Sequence[PublishedInput]) -> dict[str, NDArray[Any]]:
    contents = [np.frombuffer(each.content(), np.uint8) for each in published]
    taken = [np.empty(0, np.int64) if each.taken is None else each.taken for each in published]
    return {
        "published": np.array([each.first for each in published], np.int64),
        "count": np.array([each.count for each in published], np.int64),
        "taken_start": np.cumsum([0, *map(len, taken)]),
        "taken": np.concatenate([np.empty(0, np.int64), *taken]),
        "content_start": np.cumsum([0, *map(len, contents)]),
        "content": np.concatenate([np.empty(0, np.uint8), *contents]),
        **_ids(published),
    }


def _ids(published: Sequence[PublishedInput]) -> dict[str, NDArray[Any]]:
    """Return the index by id of the messages of some inputs."""
    ids = [
        each.given.table["id"] if each.taken is None else each.given.table["id"].take(_arrow.numbers(each.taken))
        for each in published
        if each.count
    ]
    arrivals = [np.arange(each.first, each.first + each.count) for each in published]
    return by_hash(hashes_of(ids), np.concatenate([np.empty(0, np.int64), *arrivals]))
