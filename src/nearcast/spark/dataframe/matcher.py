"""Routes and matches messages in workers: functions from Arrow batches to Arrow batches, without Spark.

The functions that Spark calls are objects of importable classes, so that what a worker has opened stays open in this
module from one task to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast.columns import NO_TIME, Messages
from nearcast.deliveries import MessagePortions
from nearcast.plans.base import answers_here
from nearcast.spark.dataframe.stored_index import IndexFolder, IndexPart, MessageEncoder, SubscriptionTable
from nearcast.spark.gc_freeze import freeze_once

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes import Matches
    from nearcast.plans import Routes

#: The column that numbers messages, added where there is none.
STEP = "seq"
#: Messages that are encoded at once.
_BLOCK = 1 << 15

_BOX = ("x_min", "y_min", "x_max", "y_max")
_TOTALS = ("distinct", "weight", "length")


@lru_cache(maxsize=4)
def _encoder(stored: IndexFolder) -> MessageEncoder:
    return MessageEncoder(stored)


@lru_cache(maxsize=4)
def _directory(stored: IndexFolder) -> SubscriptionTable:
    return SubscriptionTable(stored)


@lru_cache(maxsize=64)
def _part(stored: IndexFolder, partition: int) -> IndexPart:
    return IndexPart(stored, partition)


@lru_cache(maxsize=4)
def _routes(stored: IndexFolder) -> Routes:
    from nearcast.plans import Routes

    return Routes.open(stored.path / "routes")


class _EncodedMessages(NamedTuple):
    """Encoded messages with the numbers of their steps, and the partitions each was sent to, as bits."""

    messages: Messages
    step: NDArray[np.int64]
    route: NDArray[np.uint64] | None = None

    def part(self, first: int, last: int) -> _EncodedMessages:
        route = None if self.route is None else self.route[first:last]
        return _EncodedMessages(self.messages.part(first, last), self.step[first:last], route)


@dataclass(frozen=True)
class MatchMessages:
    """Messages → deliveries, by the one index of all subscriptions."""

    stored: IndexFolder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the messages of these batches deliver."""
        for table in _blocks(batches):
            yield from _matched(self.stored, 0, _encoded(self.stored, table))
        freeze_once()


@dataclass(frozen=True)
class RouteMessages:
    """Messages → encoded messages, packed into one row for each partition that needs some of them.

    Packed, because Spark takes 3 µs to carry a row from Python through a shuffle and back.
    """

    SCHEMA = "p int, packed binary"
    stored: IndexFolder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the messages of these batches as `MatchRoutedMessages` reads them."""
        for table in _blocks(batches):
            yield self._routed(_encoded(self.stored, table))
        freeze_once()

    def _routed(self, encoded: _EncodedMessages) -> pa.RecordBatch:
        start, partition = _routes(self.stored).route(encoded.messages)
        rows = np.repeat(np.arange(len(encoded.step)), np.diff(start))
        columns = _columns(encoded, _bits(rows, partition, len(encoded.step)) if self.stored.has_copies else None)
        needed = np.unique(partition)
        packed = [_packed(columns.take(_arrow.numbers(rows[partition == each]))) for each in needed]
        return pa.record_batch([_arrow.numbers(needed), pa.array(packed, pa.binary())], ["p", "packed"])


@dataclass(frozen=True)
class MatchRoutedMessages:
    """Routed messages → deliveries, by the index of the partition each was sent to."""

    stored: IndexFolder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the messages of these batches deliver."""
        waiting: dict[int, list[pa.RecordBatch]] = {}
        for batch in batches:
            for partition, packed in zip(batch["p"].to_pylist(), batch["packed"], strict=True):
                received = waiting.setdefault(partition, [])
                received.append(pa.ipc.open_stream(packed.as_buffer()).read_next_batch())
                if sum(map(len, received)) >= _BLOCK:
                    yield from self._matched(partition, waiting.pop(partition))
        for partition, received in waiting.items():
            yield from self._matched(partition, received)
        freeze_once()

    def _matched(self, partition: int, received: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _matched(self.stored, partition, _received(pa.Table.from_batches(received)))


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the batches as tables of some thousand rows, for every call has its price."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= _BLOCK:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if sum(map(len, waiting)):
        yield pa.Table.from_batches(waiting)


def _encoded(stored: IndexFolder, table: pa.Table) -> _EncodedMessages:
    messages = _encoder(stored).messages(table)
    assert messages.attributes is not None
    return _EncodedMessages(messages, _arrow.array_of(messages.attributes[STEP]))


def _bits(rows: NDArray[np.int64], partition: NDArray[np.int32], n: int) -> NDArray[np.int64]:
    """Return the partitions of each message as bits."""
    bits = np.zeros(n, np.uint64)
    np.bitwise_or.at(bits, rows, np.uint64(1) << partition.astype(np.uint64))
    return bits.view(np.int64)


def _columns(encoded: _EncodedMessages, route: NDArray[np.int64] | None) -> pa.RecordBatch:
    """Return encoded messages as Arrow columns."""
    messages = encoded.messages
    columns = {"id": messages.ids, STEP: _arrow.numbers(encoded.step), "time": _arrow.numbers(messages.time)}
    offsets = _arrow.numbers(messages.term_start.astype(np.int32))
    columns["terms"] = pa.ListArray.from_arrays(offsets, _arrow.numbers(messages.terms))
    columns |= {name: _arrow.numbers(messages.box[:, at]) for at, name in enumerate(_BOX)}
    if messages.totals is not None:
        columns |= {name: _arrow.numbers(messages.totals[:, at]) for at, name in enumerate(_TOTALS)}
    if route is not None:
        columns["route"] = _arrow.numbers(route)
    return pa.record_batch(columns)


def _packed(columns: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema) as writer:
        writer.write_batch(columns)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _received(table: pa.Table) -> _EncodedMessages:
    """Return messages that came as `_columns` made them."""
    columns = table.combine_chunks().to_batches()[0]
    terms = columns["terms"]
    start = np.zeros(len(columns) + 1, np.int64)
    np.cumsum(_arrow.array_of(pc.list_value_length(terms)), out=start[1:])
    numbers = {name: _arrow.array_of(columns[name]) for name in columns.schema.names if name not in ("id", "terms")}
    totals = np.stack([numbers[name] for name in _TOTALS], axis=1) if _TOTALS[0] in numbers else None
    messages = Messages(
        columns["id"],
        start,
        _arrow.array_of(terms.flatten()),
        np.stack([numbers[name] for name in _BOX], axis=1),
        numbers["time"],
        np.full(len(columns), NO_TIME, np.int64),
        totals=totals,
    )
    return _EncodedMessages(messages, numbers[STEP], numbers["route"].view(np.uint64) if "route" in numbers else None)


def _matched(stored: IndexFolder, partition: int, encoded: _EncodedMessages) -> Iterator[pa.RecordBatch]:
    """Yield what messages deliver, in portions."""
    part, directory = _part(stored, partition), _directory(stored)
    portions = MessagePortions(first=1 << 9, largest=_BLOCK, most_deliveries=1 << 18)
    for first, last in portions.of(len(encoded.step)):
        piece = encoded.part(first, last)
        matches = part.index.match(piece.messages)
        yield _deliveries(piece, matches, part, directory, partition)
        portions.deliveries += len(matches.slots)


def _deliveries(
    encoded: _EncodedMessages, matches: Matches, part: IndexPart, directory: SubscriptionTable, partition: int
) -> pa.RecordBatch:
    """Return a row for each match that counts: alive at the time of the message, and delivered by no other copy."""
    message_ids = encoded.messages.ids
    assert isinstance(message_ids, pa.Array)
    rows, number, score = matches.rows(), part.numbers[matches.slots], matches.score
    kept = np.ones(len(rows), np.bool_)
    if directory.expires is not None:
        limit, time = directory.expires[number], encoded.messages.time[rows]
        kept &= (limit == NO_TIME) | (time < limit)
    if directory.copies is not None and encoded.route is not None:
        kept &= answers_here(directory.copies[number], encoded.route[rows], partition)
    if not kept.all():
        rows, number, score = rows[kept], number[kept], score[kept]
    time = encoded.messages.time[rows]
    columns = {
        "subscription_id": directory.ids.take(_arrow.numbers(number)),
        "message_id": message_ids.take(_arrow.numbers(rows)),
        "score": _arrow.numbers(score),
        "time": _arrow.times(time, time != NO_TIME),
        "step": _arrow.numbers(encoded.step[rows]),
    }
    return pa.record_batch(columns)
