"""What was delivered: columns inside, a lazy sequence of `Delivery` or an Arrow table outside."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast._ids import INTEGER_MARK
from nearcast.columns import NO_TIME, datetime_of
from nearcast.tables.names import DELIVERY_SCHEMA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast._ids import IdSnapshot
    from nearcast.indexes import Matches
    from nearcast.model import Delivery
    from nearcast.tables import Rejected


@dataclass(slots=True)
class Delivered:
    """What one batch of messages delivered: each message is a step, each match a `+`."""

    matches: Matches
    message_ids: pa.Array | Sequence[str | int]
    times: NDArray[np.int64]
    steps: NDArray[np.int64]
    ids: IdSnapshot
    version: str

    def __len__(self) -> int:
        return len(self.matches.slots)

    @property
    def has_text_ids(self) -> bool:
        """Tell whether a message has an id that is text."""
        if isinstance(self.message_ids, pa.Array):
            return not pa.types.is_integer(self.message_ids.type)
        return any(isinstance(id_, str) for id_ in self.message_ids)

    def delivery(self, at: int) -> Delivery:
        """Return one delivery."""
        from nearcast.model import Delivery

        row = int(np.searchsorted(self.matches.start, at, side="right")) - 1
        subscription_id = self.ids.value(int(self.matches.slots[at]))
        message_id = self.message_ids[row]
        message_id = message_id.as_py() if isinstance(message_id, pa.Scalar) else message_id
        return Delivery(
            subscription_id,
            message_id,
            score=float(self.matches.score[at]),
            cause_id=message_id,
            time=datetime_of(int(self.times[row])),
            delivery_id=delivery_id(int(self.steps[row]), int(self.steps[row]), "+", subscription_id),
            version=self.version,
        )

    def to_table(self, first: int = 0, last: int | None = None) -> pa.Table:
        """Return the deliveries from `first` to `last` as a table."""
        last = len(self) if last is None else last
        n = last - first
        slots = self.matches.slots[first:last]
        rows = np.searchsorted(self.matches.start, np.arange(first, last), side="right") - 1
        message_ids = pa.array(self.message_ids) if not isinstance(self.message_ids, pa.Array) else self.message_ids
        message_id = message_ids.take(_arrow.numbers(rows))
        keys = self.ids.keys(slots)
        times = self.times[rows]
        step = _arrow.numbers(self.steps[rows]).cast(pa.string())
        plus, colon = _arrow.strings(["+", ":"])
        columns = (
            self.ids.ids_of(keys),
            message_id,
            _repeated("+", n),
            _arrow.numbers(self.matches.score[first:last]),
            pa.nulls(n, pa.int32()),
            message_id,
            _arrow.times(times, times != NO_TIME),
            _marked_delivery_ids(pc.binary_join_element_wise(step, step, plus, keys, colon), self.ids),
            _repeated(self.version, n),
        )
        return pa.table(dict(zip(DELIVERY_SCHEMA.names, columns, strict=True)))


@dataclass(slots=True)
class Changed:
    """What entered and left, one row for each delivery: the columns of deliveries where a match is not always a `+`.

    `steps` are numbers of steps, `message_numbers` those at which the messages arrived; `ranks` are 0 but for top-k;
    `cause_ids` are None where no message caused it.
    """

    steps: NDArray[np.int64]
    times: NDArray[np.int64]
    slots: NDArray[np.int32]
    message_ids: NDArray[np.object_]
    message_numbers: NDArray[np.int64]
    scores: NDArray[np.float64]
    ranks: NDArray[np.int32]
    enters: NDArray[np.uint8]
    cause_ids: NDArray[np.object_]
    ids: IdSnapshot
    version: str

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def has_text_ids(self) -> bool:
        """Tell whether a message has an id that is text."""
        return any(isinstance(id_, str) for id_ in self.message_ids) or any(
            isinstance(id_, str) for id_ in self.cause_ids
        )

    def delivery(self, at: int) -> Delivery:
        """Return one delivery."""
        from nearcast.model import Delivery

        subscription_id = self.ids.value(int(self.slots[at]))
        change: Literal["+", "-"] = "+" if self.enters[at] else "-"
        return Delivery(
            subscription_id,
            self.message_ids[at],
            change,
            score=float(self.scores[at]),
            rank=int(self.ranks[at]) or None,
            cause_id=self.cause_ids[at],
            time=datetime_of(int(self.times[at])),
            delivery_id=delivery_id(int(self.steps[at]), int(self.message_numbers[at]), change, subscription_id),
            version=self.version,
        )

    def to_table(self, first: int = 0, last: int | None = None) -> pa.Table:
        """Return the deliveries `first` to `last` as a table."""
        here = slice(first, len(self) if last is None else last)
        slots, times, ranks = self.slots[here], self.times[here], self.ranks[here]
        keys = self.ids.keys(slots)
        change = _arrow.strings(["-", "+"]).take(_arrow.numbers(self.enters[here].astype(np.int64)))
        steps, numbers = (_arrow.numbers(each[here]).cast(pa.string()) for each in (self.steps, self.message_numbers))
        colon = _arrow.strings([":"])[0]
        name = pc.binary_join_element_wise(steps, numbers, change, keys, colon)
        columns = (
            self.ids.ids_of(keys),
            _ids_column(self.message_ids[here]),
            change,
            _arrow.numbers(self.scores[here]),
            _ranks_column(ranks),
            _ids_column(self.cause_ids[here], like=self.message_ids),
            _arrow.times(times, times != NO_TIME),
            _marked_delivery_ids(name, self.ids),
            _repeated(self.version, len(slots)),
        )
        return pa.table(dict(zip(DELIVERY_SCHEMA.names, columns, strict=True)))


Piece = Delivered | Changed


def _with_text_ids(table: pa.Table) -> pa.Table:
    """Return the table with ids of messages as text, where some of them are integers."""
    for name in ("message_id", "cause_id"):
        if pa.types.is_integer(table.schema.field(name).type):
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name, table.column(name).cast(pa.string()))
    return table


def changed_of(delivered: Delivered) -> Changed:
    """Return matches as changes: each is a `+`, caused by its own message."""
    matches = delivered.matches
    rows = matches.rows()
    given = delivered.message_ids
    ids = np.empty(len(delivered.times), object)
    ids[:] = given.to_pylist() if isinstance(given, pa.Array) else list(given)
    n = len(rows)
    steps = delivered.steps[rows]
    return Changed(
        steps,
        delivered.times[rows],
        matches.slots,
        ids[rows],
        steps,
        matches.score,
        np.zeros(n, np.int32),
        np.ones(n, np.uint8),
        ids[rows],
        delivered.ids,
        delivered.version,
    )


def in_order(a: Changed, b: Changed) -> Changed:
    """Return the changes of both by step and slot; those of `a` come first where these are equal."""
    columns = [np.concatenate(pair) for pair in zip(_columns(a), _columns(b), strict=True)]
    order = np.lexsort((columns[2], columns[0]))
    ordered: tuple[Any, ...] = (*(column[order] for column in columns), a.ids, a.version)
    return Changed(*ordered)


def _columns(changed: Changed) -> tuple[NDArray[Any], ...]:
    return (
        changed.steps,
        changed.times,
        changed.slots,
        changed.message_ids,
        changed.message_numbers,
        changed.scores,
        changed.ranks,
        changed.enters,
        changed.cause_ids,
    )


def _ranks_column(ranks: NDArray[np.int32]) -> pa.Array:
    given = pa.py_buffer(np.packbits(ranks > 0, bitorder="little"))
    return pa.Array.from_buffers(pa.int32(), len(ranks), [given, pa.py_buffer(np.ascontiguousarray(ranks))])


def _ids_column(ids: NDArray[np.object_], like: NDArray[np.object_] | None = None) -> pa.Array:
    """Return ids as a column of integers, or of strings where one is a string or none says what they are."""
    values = ids.tolist()
    kinds = {type(value) for value in values if value is not None}
    if not kinds and like is not None and len(like):
        kinds = {type(like[0])}
    if kinds == {int}:
        return pa.array(values, pa.int64())
    return pa.array([value if value is None or isinstance(value, str) else str(value) for value in values], pa.string())


def _marked_delivery_ids(joined: pa.Array, ids: IdSnapshot) -> pa.Array:
    """Return names of deliveries made with keys as `delivery_id` makes them with ids."""
    return pc.replace_substring(joined, f":{INTEGER_MARK}", "") if True in ids.kinds else joined


def delivery_id(step: int, message: int, change: str, subscription_id: str | int) -> str:
    """Return the name of a delivery, the same at every run: step, message by arrival, change, subscription.

    A string id stands behind a colon, an integer does not: 1 and "1" are two subscriptions.
    """
    return f"{step}:{message}:{change}{':' if isinstance(subscription_id, str) else ''}{subscription_id}"


def _repeated(value: str, n: int) -> pa.Array:
    """Return the same string n times."""
    return _arrow.strings([value]).take(_arrow.numbers(np.zeros(n, np.int64)))


class Deliveries(Sequence["Delivery"]):
    """Deliveries in order: by step, then by registration of the subscription, `-` before `+`, then by rank.

    Nothing is made until asked for: `len` counts, indexing and iterating make `Delivery` values,
    `to_table` makes Arrow columns. `rejected` lists the rows that could not be published.
    """

    def __init__(self, pieces: Sequence[Piece], rejected: Rejected | None = None):
        self._none = pieces[0] if pieces else None  # knows the types of ids also where nothing was delivered
        self._pieces = [piece for piece in pieces if len(piece)]
        self._ends = list(accumulate(map(len, self._pieces)))
        self._rejected = rejected

    @property
    def rejected(self) -> Rejected:
        """Return the rows that were not published, with reasons."""
        if self._rejected is None:
            from nearcast.tables import Rejected

            self._rejected = Rejected()
        return self._rejected

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, at: int) -> Delivery: ...
    @overload
    def __getitem__(self, at: slice) -> list[Delivery]: ...
    def __getitem__(self, at: int | slice) -> Delivery | list[Delivery]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        if at < 0:
            at += len(self)
        if not 0 <= at < len(self):
            raise IndexError(f"delivery {at} of {len(self)}")
        piece = bisect_right(self._ends, at)
        return self._pieces[piece].delivery(at - (self._ends[piece - 1] if piece else 0))

    def __iter__(self) -> Iterator[Delivery]:
        for piece in self._pieces:
            for at in range(len(piece)):
                yield piece.delivery(at)

    def __repr__(self) -> str:
        return f"<Deliveries: {len(self):,}>"

    def tables(self, rows: int = 1 << 20) -> Iterator[pa.Table]:
        """Yield the deliveries as tables of at most this many rows, one at least."""
        if not self._pieces:
            yield self._none.to_table() if self._none is not None else DELIVERY_SCHEMA.empty_table()
        is_text = any(piece.has_text_ids for piece in self._pieces)
        for piece in self._pieces:
            for first in range(0, len(piece), rows):
                table = piece.to_table(first, min(first + rows, len(piece)))
                yield _with_text_ids(table) if is_text else table

    def to_table(self) -> pa.Table:
        """Return all deliveries as one table."""
        return pa.concat_tables(list(self.tables()), promote_options="permissive")
