"""What was delivered: columns inside, a lazy sequence of `Delivery` or an Arrow table outside."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, overload

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
    first_step: int
    ids: IdSnapshot
    version: str

    def __len__(self) -> int:
        return len(self.matches.slots)

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
            delivery_id=delivery_id(self.first_step + row, self.first_step + row, "+", subscription_id),
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
        step = _arrow.numbers(self.first_step + rows).cast(pa.string())
        plus, colon = _arrow.strings(["+", ":"])
        columns = (
            self.ids.ids_of(keys),
            message_id,
            _repeated("+", n),
            _arrow.numbers(self.matches.score[first:last]),
            pa.nulls(n, pa.int32()),
            message_id,
            _arrow.times(times, times != NO_TIME),
            self._delivery_ids(pc.binary_join_element_wise(step, step, plus, keys, colon)),
            _repeated(self.version, n),
        )
        return pa.table(dict(zip(DELIVERY_SCHEMA.names, columns, strict=True)))

    def _delivery_ids(self, joined: pa.Array) -> pa.Array:
        """Return names of deliveries made with keys as `delivery_id` makes them with ids."""
        return pc.replace_substring(joined, f":{INTEGER_MARK}", "") if True in self.ids.kinds else joined


def delivery_id(step: int, message: int, change: str, subscription_id: str | int) -> str:
    """Return the name of a delivery, the same at every run: step, message by arrival, change, subscription.

    A string id stands behind a colon, an integer does not: 1 and "1" are two subscriptions.
    """
    return f"{step}:{message}:{change}{':' if isinstance(subscription_id, str) else ''}{subscription_id}"


def _repeated(value: str, n: int) -> pa.Array:
    """Return the same string n times."""
    return _arrow.strings([value]).take(_arrow.numbers(np.zeros(n, np.int64)))


class Deliveries(Sequence["Delivery"]):
    """Deliveries in order: by message as they arrived, then by registration of the subscription.

    Nothing is made until asked for: `len` counts, indexing and iterating make `Delivery` values,
    `to_table` makes Arrow columns. `rejected` lists the rows that could not be published.
    """

    def __init__(self, pieces: Sequence[Delivered], rejected: Rejected | None = None):
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
        for piece in self._pieces:
            for first in range(0, len(piece), rows):
                yield piece.to_table(first, min(first + rows, len(piece)))

    def to_table(self) -> pa.Table:
        """Return all deliveries as one table."""
        return pa.concat_tables(list(self.tables()), promote_options="permissive")
