"""Deliveries as columns, read as a lazy sequence of `Delivery` values or as an Arrow table."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast._ids import MIXED_IDS, Kinds, as_kinds, id_type, ids_column, kinds_of
from nearcast.columns import NO_TIME, datetime_of
from nearcast.delivery_ids import delivery_id, with_delivery_ids
from nearcast.errors import NotSupported
from nearcast.tables.names import DELIVERY_SCHEMA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast._ids import IdSnapshot, StoredIds
    from nearcast.indexes import Matches
    from nearcast.model import Delivery, Message
    from nearcast.tables import Rejected


class IdKinds(NamedTuple):
    """The kinds of ids in deliveries: of subscriptions, and of messages and causes together."""

    subscriptions: Kinds
    messages: Kinds

    def also(self, other: IdKinds) -> IdKinds:
        """Return the kinds of both."""
        return IdKinds(self.subscriptions | other.subscriptions, self.messages | other.messages)


#: The message that a call published, and the number of its arrival.
Published = tuple[int, "Message"]


@dataclass(slots=True)
class MatchDeliveries:
    """The deliveries of one batch of messages as its matches: each message is a step, each match a `+`."""

    matches: Matches
    message_ids: pa.Array | Sequence[str | int]
    times: NDArray[np.int64]
    steps: NDArray[np.int64]
    ids: IdSnapshot
    version: str

    def __len__(self) -> int:
        return len(self.matches.slots)

    def id_kinds(self, first: int = 0, last: int | None = None) -> IdKinds:
        """Return the kinds of the ids in the deliveries from `first` to `last`."""
        given = self.message_ids
        messages = Kinds([pa.types.is_integer(given.type)]) if isinstance(given, pa.Array) else kinds_of(given)
        return IdKinds(self.ids.kinds_of(self.matches.slots[first:last]), messages)

    def values(self, first: int, last: int, published: Published | None = None) -> list[Delivery]:
        """Return the deliveries from `first` to `last`, at least one."""
        rows = self._rows(first, last)
        low, high = int(rows[0]), int(rows[-1]) + 1
        at = (rows - low).tolist()
        message_ids: Any = self.message_ids[low:high]
        message_ids = message_ids.to_pylist() if isinstance(message_ids, pa.Array) else message_ids
        times = [datetime_of(time) for time in self.times[low:high].tolist()]
        steps = self.steps[low:high].tolist()
        ids, named = self.ids.values(self.matches.slots[first:last]), [message_ids[row] for row in at]
        return delivery_values(
            ids,
            named,
            repeat("+"),
            self.matches.score[first:last].tolist(),
            repeat(None),
            named,
            [times[row] for row in at],
            [delivery_id(steps[row], steps[row], "+", id_) for row, id_ in zip(at, ids, strict=True)],
            repeat(self.version),
            _messages_at([steps[row] for row in at], published),
        )

    def to_table(
        self, first: int = 0, last: int | None = None, kinds: IdKinds | None = None, *, dictionaries: bool = False
    ) -> pa.Table:
        """Return the deliveries from `first` to `last` as a table, its ids of the types of `kinds`.

        With `dictionaries` texts that repeat are dictionaries, as files take them.
        """
        last = len(self) if last is None else last
        slots, rows = self.matches.slots[first:last], self._rows(first, last)
        kinds = self.id_kinds(first, last) if kinds is None else kinds
        message_id = self._message_column(rows, kinds.messages, dictionaries)
        times, steps, n = self.times[rows], _arrow.numbers(self.steps[rows]), len(rows)
        columns = (
            self.ids.column(slots, kinds.subscriptions, dictionaries=dictionaries),
            message_id,
            _repeated("+", n, dictionaries),
            _arrow.numbers(self.matches.score[first:last]),
            pa.nulls(n, pa.int32()),
            message_id,
            _arrow.times(times, times != NO_TIME),
            steps,
            steps,
            _repeated(self.version, n, dictionaries),
        )
        return pa.table(dict(zip(DELIVERY_SCHEMA.names, columns, strict=True)))

    def _message_column(self, rows: NDArray[np.int64], kinds: Kinds, dictionaries: bool) -> pa.Array:
        """Return the ids of the messages in these rows, which ascend."""
        given = self.message_ids
        if not len(rows):
            return pa.nulls(0, id_type(kinds))
        used, codes = _runs(rows)
        low, high = int(used[0]), int(used[-1]) + 1
        ids = (as_kinds if isinstance(given, pa.Array) else ids_column)(given[low:high], kinds)
        return _coded(ids.take(_arrow.numbers(used - low)), codes, dictionaries=dictionaries)

    def _rows(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the row of the message of each delivery from `first` to `last`."""
        if len(self.times) == 1:
            return np.zeros(last - first, np.int64)
        ends = np.clip(self.matches.start, first, last)
        count = ends[1:] - ends[:-1]
        return np.repeat(np.arange(len(count)), count)


@dataclass(slots=True)
class ChangeDeliveries:
    """Deliveries where a message may also leave (`-`): columns with a row for each delivery.

    `steps` are numbers of steps, `message_numbers` those at which the messages arrived; `ranks` are 0 but for top-k;
    `cause_ids` are None where no message caused it. Ids of stored messages may be decoded when somebody looks.
    """

    steps: NDArray[np.int64]
    times: NDArray[np.int64]
    slots: NDArray[np.int32]
    message_ids: NDArray[np.object_] | StoredIds
    message_numbers: NDArray[np.int64]
    scores: NDArray[np.float64]
    ranks: NDArray[np.int32]
    enters: NDArray[np.uint8]
    cause_ids: NDArray[np.object_]
    ids: IdSnapshot
    version: str

    def __len__(self) -> int:
        return len(self.steps)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns that have a row for each delivery, by name."""
        return {name: getattr(self, name) for name in _CHANGE_COLUMNS}

    def take(self, rows: NDArray[np.int64]) -> ChangeDeliveries:
        """Return these rows, in this order."""
        columns = {name: column[rows] for name, column in self.columns().items()}
        return ChangeDeliveries(**columns, ids=self.ids, version=self.version)

    def id_kinds(self, first: int = 0, last: int | None = None) -> IdKinds:
        """Return the kinds of the ids in the deliveries from `first` to `last`."""
        here = slice(first, last)
        messages = kinds_of(self.message_ids[here]) | kinds_of(self.cause_ids[here])
        return IdKinds(self.ids.kinds_of(self.slots[here]), messages)

    def values(self, first: int, last: int, published: Published | None = None) -> list[Delivery]:
        """Return the deliveries from `first` to `last`."""
        here = slice(first, last)
        ids, times = self.ids.values(self.slots[here]), self.times[here].tolist()
        steps, numbers = self.steps[here].tolist(), self.message_numbers[here].tolist()
        changes = ["+" if enters else "-" for enters in self.enters[here].tolist()]
        moments = {time: datetime_of(time) for time in set(times)}
        return delivery_values(
            ids,
            self.message_ids[here].tolist(),
            changes,
            self.scores[here].tolist(),
            [rank or None for rank in self.ranks[here].tolist()],
            self.cause_ids[here].tolist(),
            [moments[time] for time in times],
            [delivery_id(*each) for each in zip(steps, numbers, changes, ids, strict=True)],
            repeat(self.version),
            _messages_at(numbers, published),
        )

    def to_table(
        self, first: int = 0, last: int | None = None, kinds: IdKinds | None = None, *, dictionaries: bool = False
    ) -> pa.Table:
        """Return the deliveries from `first` to `last` as a table, its ids of the types of `kinds`.

        With `dictionaries` texts that repeat are dictionaries, as files take them.
        """
        here = slice(first, len(self) if last is None else last)
        slots, times, enters = self.slots[here], self.times[here], self.enters[here]
        kinds = self.id_kinds(first, last) if kinds is None else kinds
        steps, arrivals, causes = self.steps[here], self.message_numbers[here], self.cause_ids[here]
        none: Any = None  # which NumPy's types do not allow for
        is_caused = np.not_equal(causes, none)
        columns = (
            self.ids.column(slots, kinds.subscriptions, dictionaries=dictionaries),
            _named(arrivals, self.message_ids[here], kinds.messages, dictionaries=dictionaries),
            _changes_column(enters, dictionaries),
            _arrow.numbers(self.scores[here]),
            _ranks_column(self.ranks[here]),
            _named(np.where(is_caused, steps, _NO_CAUSE), causes, kinds.messages, dictionaries=dictionaries),
            _arrow.times(times, times != NO_TIME),
            _arrow.numbers(steps),
            _arrow.numbers(arrivals),
            _repeated(self.version, len(slots), dictionaries),
        )
        return pa.table(dict(zip(DELIVERY_SCHEMA.names, columns, strict=True)))


Piece = MatchDeliveries | ChangeDeliveries


def as_changes(delivered: MatchDeliveries) -> ChangeDeliveries:
    """Return matches as changes: each is a `+`, caused by its own message."""
    matches = delivered.matches
    rows = matches.rows()
    given = delivered.message_ids
    ids = np.empty(len(delivered.times), object)
    ids[:] = given.to_pylist() if isinstance(given, pa.Array) else list(given)
    n = len(rows)
    steps = delivered.steps[rows]
    return ChangeDeliveries(
        steps=steps,
        times=delivered.times[rows],
        slots=matches.slots,
        message_ids=ids[rows],
        message_numbers=steps,
        scores=matches.score,
        ranks=np.zeros(n, np.int32),
        enters=np.ones(n, np.uint8),
        cause_ids=ids[rows],
        ids=delivered.ids,
        version=delivered.version,
    )


#: The columns of `ChangeDeliveries`, a row for each delivery.
_CHANGE_COLUMNS = (
    "steps",
    "times",
    "slots",
    "message_ids",
    "message_numbers",
    "scores",
    "ranks",
    "enters",
    "cause_ids",
)


def in_order(a: ChangeDeliveries, b: ChangeDeliveries) -> ChangeDeliveries:
    """Return the changes of both by step and slot; those of `a` come first where these are equal."""
    both = _joined([a, b])
    return both.take(np.lexsort((both.slots, both.steps)))


def by_step(pieces: Sequence[ChangeDeliveries]) -> ChangeDeliveries:
    """Return the changes of all pieces by step, those of an earlier piece first in each step."""
    all_of_them = _joined(pieces)
    return all_of_them.take(np.argsort(all_of_them.steps, kind="stable"))


def _joined(pieces: Sequence[ChangeDeliveries]) -> ChangeDeliveries:
    columns = {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in _CHANGE_COLUMNS}
    return ChangeDeliveries(**columns, ids=pieces[0].ids, version=pieces[0].version)


#: Stands for the arrival of the message that caused a delivery, where none did.
_NO_CAUSE = -1


def _runs(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the distinct of ascending numbers, and the place of each number among them."""
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = rows[1:] != rows[:-1]
    return rows[begins], np.cumsum(begins, dtype=np.int32) - np.int32(1)


def _named(
    arrivals: NDArray[np.int64], ids: NDArray[np.object_] | StoredIds, kinds: Kinds, *, dictionaries: bool = False
) -> pa.Array:
    """Return the ids of messages, told apart by their arrivals: no id is looked at twice."""
    coded = _arrow.numbers(arrivals).dictionary_encode()
    codes = _arrow.array_of(coded.indices)
    first = np.empty(len(coded.dictionary), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return _coded(ids_column(ids[first].tolist(), kinds), codes, dictionaries=dictionaries)


def _coded(ids: pa.Array, codes: NDArray[np.int32], *, dictionaries: bool) -> pa.Array:
    """Return `ids[codes]`; with `dictionaries` as one, where ids are text and repeat."""
    if not dictionaries or not pa.types.is_string(ids.type) or 2 * len(ids) > len(codes):
        return ids.take(_arrow.numbers(codes))
    distinct = ids.dictionary_encode()  # two messages may share an id, and one that is missing is null
    if distinct.null_count or len(distinct.dictionary) < len(ids):
        codes = _arrow.array_of(distinct.indices, null=-1)[codes]
    return _arrow.dictionary(codes, distinct.dictionary, codes >= 0 if distinct.null_count else None)


def _changes_column(enters: NDArray[np.uint8], dictionaries: bool) -> pa.Array:
    made = _arrow.dictionary(enters.astype(np.int32), _arrow.strings(["-", "+"]))
    return made if dictionaries else _arrow.plain(made)


def _ranks_column(ranks: NDArray[np.int32]) -> pa.Array:
    given = pa.py_buffer(np.packbits(ranks > 0, bitorder="little"))
    return pa.Array.from_buffers(pa.int32(), len(ranks), [given, pa.py_buffer(np.ascontiguousarray(ranks))])


#: What writes each field of a `Delivery`, found when the first one is made.
_setters: list[Callable[[Delivery, Any], None]] = []


def delivery_values(ids: list[Any], *others: Iterable[Any]) -> list[Delivery]:
    """Return the values whose fields, in their order, are these columns.

    Each field is written for all values at once, past the constructor: a fifth of the time, and nothing is to check.
    """
    from nearcast.model import Delivery

    if not _setters:
        _setters.extend(getattr(Delivery, name).__set__ for name in Delivery.__slots__)
    values = [object.__new__(Delivery) for _ in ids]
    for write, column in zip(_setters, (ids, *others), strict=True):
        deque(map(write, values, column), maxlen=0)
    return values


def _messages_at(numbers: list[int], published: Published | None) -> Iterable[Message | None]:
    """Return for each number of arrival the message that the call published under it, None where it is another."""
    if published is None:
        return repeat(None)
    arrival, message = published
    return [message if number == arrival else None for number in numbers]


def _repeated(value: str, n: int, dictionaries: bool) -> pa.Array:
    """Return the same string n times."""
    content = value.encode()
    if dictionaries or n * len(content) >= 1 << 31:
        made = _arrow.dictionary(np.zeros(n, np.int32), _arrow.strings([value]))
        return made if dictionaries else _arrow.plain(made)
    offsets = np.arange(n + 1, dtype=np.int32) * np.int32(len(content))
    return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(content * n))


#: Deliveries that are made at a time when they are iterated over.
_BLOCK = 1024


class Deliveries(Sequence["Delivery"]):
    """Deliveries in order: by step, then by registration of the subscription, `-` before `+`, then by rank.

    Nothing is made until asked for: `len` counts, indexing and iterating make `Delivery` values, `to_table` makes Arrow
    columns and `to_pandas` a DataFrame. Whatever reads the Arrow C data interface (`__arrow_c_stream__`: polars,
    DuckDB, `pa.table`) takes them as they are. `rejected` lists the rows that could not be published.

    Ids keep their type. In a table those of subscriptions are int64 if all are integers and string if all are text,
    and so are those of messages; where both occur, the column is a dense union of `integer` and `text`.
    """

    def __init__(self, pieces: Sequence[Piece], rejected: Rejected | None = None, published: Published | None = None):
        self._none = pieces[0] if pieces else None  # knows the types of ids also where nothing was delivered
        self._pieces = [piece for piece in pieces if len(piece)]
        self._ends = list(accumulate(map(len, self._pieces)))
        self._rejected = rejected
        self._published = published

    @property
    def pieces(self) -> list[Piece]:
        """Return the columns that the deliveries are made of, those of each call that delivered something."""
        return self._pieces

    @property
    def rejected(self) -> Rejected:
        """Return the rows that were not published, with reasons."""
        if self._rejected is None:
            from nearcast.tables import Rejected

            self._rejected = Rejected()
        return self._rejected

    def with_rejected(self, rejected: Rejected) -> Deliveries:
        """Return the same deliveries with another list of rejected rows."""
        same = Deliveries(self._pieces, rejected, self._published)
        same._none = self._none
        return same

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, at: int) -> Delivery: ...
    @overload
    def __getitem__(self, at: slice) -> list[Delivery]: ...
    def __getitem__(self, at: int | slice) -> Delivery | list[Delivery]:
        if isinstance(at, slice):
            chosen = range(len(self))[at]
            low, high = min(chosen, default=0), max(chosen, default=-1) + 1
            made = [value for block in self._blocks(low, high) for value in block]
            return [made[i - low] for i in chosen]
        place = at + len(self) if at < 0 else at
        if not 0 <= place < len(self):
            raise IndexError(f"delivery {at} of {len(self)}")
        ((value,),) = self._blocks(place, place + 1)
        return value

    def __iter__(self) -> Iterator[Delivery]:
        return chain.from_iterable(self._blocks(0, len(self)))

    def _blocks(self, first: int, last: int) -> Iterator[list[Delivery]]:
        """Yield the deliveries from `first` to `last`, some at a time."""
        while first < last:
            at = bisect_right(self._ends, first)
            begin = self._ends[at - 1] if at else 0
            end = min(last, self._ends[at], first + _BLOCK)
            yield self._pieces[at].values(first - begin, end - begin, self._published)
            first = end

    def __repr__(self) -> str:
        return f"<Deliveries: {len(self):,}>"

    def tables(
        self, rows: int = 1 << 17, *, delivery_ids: bool = False, dictionaries: bool = False
    ) -> Iterator[pa.Table]:
        """Yield the deliveries as tables of at most this many rows, one table at least.

        With `delivery_ids` they have that column, too. All are of one schema, unless texts that repeat are
        `dictionaries`, as `DeliveryWriter` takes them.
        """
        for table in self._tables(rows, dictionaries):
            yield with_delivery_ids(table) if delivery_ids else table

    def _tables(self, rows: int, dictionaries: bool) -> Iterator[pa.Table]:
        if not self._pieces:
            yield self._none.to_table() if self._none is not None else DELIVERY_SCHEMA.empty_table()
            return
        kinds = reduce(IdKinds.also, (piece.id_kinds() for piece in self._pieces))
        for piece in self._pieces:
            for first in range(0, len(piece), rows):
                yield piece.to_table(first, min(first + rows, len(piece)), kinds, dictionaries=dictionaries)

    def to_table(self, *, delivery_ids: bool = False) -> pa.Table:
        """Return all deliveries as one table; with `delivery_ids` it has that column, too."""
        return pa.concat_tables(list(self.tables(delivery_ids=delivery_ids)))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the deliveries as a stream of record batches, made as they are read."""
        tables = self.tables()
        first = next(tables)
        batches = chain.from_iterable(table.to_batches() for table in chain([first], tables))
        return pa.RecordBatchReader.from_batches(first.schema, batches).__arrow_c_stream__(requested_schema)

    def to_pandas(self, *, delivery_ids: bool = False) -> Any:
        """Return all deliveries as a DataFrame; integers are of pandas' nullable types, so that ids stay exact.

        A column of ids of both kinds is one of Python objects. With `delivery_ids` it has that column, too. Needs
        pandas.
        """
        try:
            import pandas as pd  # type: ignore[import-untyped]  # it has no types of its own
        except ImportError:
            raise NotSupported("to_pandas needs pandas; install it, or use to_table()") from None
        table = self.to_table(delivery_ids=delivery_ids)
        mixed = {field.name: table.column(field.name).to_pylist() for field in table.schema if field.type == MIXED_IDS}
        types = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype()}
        frame = table.drop_columns(list(mixed)).to_pandas(types_mapper=types.get)
        for name, values in mixed.items():
            frame[name] = pd.Series(values, dtype=object)
        return frame[table.column_names]


@dataclass(slots=True)
class MessagePortions:
    """Cuts messages into portions whose deliveries fit into memory, judged by the portions before.

    One message may reach a tenth of all subscribers. The caller adds what each portion delivers to `deliveries`.
    """

    first: int = 1 << 10
    largest: int = 1 << 16
    most_deliveries: int = 1 << 22
    messages: int = 0
    deliveries: int = 0

    def of(self, n: int) -> Iterator[tuple[int, int]]:
        """Yield first and last row of each portion of the next `n` messages."""
        done = 0
        while done < n:
            last = min(done + self._size(), n)
            yield done, last
            self.messages += last - done
            done = last

    def _size(self) -> int:
        if not self.messages:
            return self.first
        return max(1, min(self.largest, self.most_deliveries * self.messages // max(self.deliveries, 1)))
