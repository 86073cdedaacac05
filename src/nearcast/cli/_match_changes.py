"""Feeds a hub with a file of messages and one of changes, in the order of a stream.

That is by `time`, rows without one first, then changes before messages, then by row. Reads two tables, yields the
deliveries of the rows in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.geo.shapes import shorten
from nearcast.tables import Rejected
from nearcast.tables.cells import TableRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nearcast.deliveries import Deliveries
    from nearcast.hub import Hub

_SOURCE = "changes"
_OPS = ("subscribe", "unsubscribe", "move")
#: Messages that are published at once.
_PORTION = 1 << 14


class ChangedMatch:
    """Messages and changes in the order of a stream; rows that cannot be used are added to `rejected`.

    Columns that look misspelt are warnings there; `strict` refuses the tables.
    """

    def __init__(
        self,
        hub: Hub,
        messages: pa.Table,
        changes: pa.Table,
        rejected: Rejected,
        *,
        threads: int = 1,
        strict: bool = False,
    ):
        self._hub, self._messages, self._rejected = hub, messages, rejected
        self._threads, self._strict = threads, strict
        rows = TableRows(changes, _SOURCE, 0)
        rows.require("op", "id")
        self._op = self._ops_of(rows)
        self._numbers, self._ids, times = rows.numbers, rows.ids(), rows.times("time")
        rows.report(rejected, self._ids)
        self._changes, self._good = changes, ~rows.faults.is_bad
        self._order = _order(TableRows(messages, "messages", 0).times("time"), times)

    def _ops_of(self, rows: TableRows) -> NDArray[np.object_]:
        op = np.array(rows.texts("op").to_pylist(), object)
        is_known = np.isin(op.astype(str), _OPS)
        rows.faults.add_where(
            ~is_known, "op", lambda row: f"op is {shorten(op[row])}; expected one of {', '.join(_OPS)}"
        )
        return op

    def __iter__(self) -> Iterator[Deliveries]:
        n_messages = self._messages.num_rows
        is_message = self._order < n_messages
        for run in np.split(self._order, np.flatnonzero(np.diff(is_message)) + 1):
            if len(run) and run[0] < n_messages:
                yield from self._publish(run)
            elif len(run):
                yield from self._change(run - n_messages)

    def _publish(self, rows: NDArray[np.int64]) -> Iterator[Deliveries]:
        for first in range(0, len(rows), _PORTION):
            part = self._messages.take(_arrow.numbers(rows[first : first + _PORTION]))
            yield self._counted(self._hub.publish_many(part, threads=self._threads, strict=self._strict))

    def _change(self, rows: NDArray[np.int64]) -> Iterator[Deliveries]:
        """Apply changes in order, those of one kind that follow each other at once."""
        rows = rows[self._good[rows]]
        for group in np.split(rows, np.flatnonzero(self._op[rows[1:]] != self._op[rows[:-1]]) + 1):
            if not len(group):
                continue
            if self._op[group[0]] == "move":
                table = self._changes.take(_arrow.numbers(group))
                yield self._counted(self._hub.move_many(table, source=_SOURCE, strict=self._strict))
            else:
                apply = self._subscribe if self._op[group[0]] == "subscribe" else self._unsubscribe
                for part in self._without_repeats(group):
                    apply(part)
                yield self._hub.poll()

    def _without_repeats(self, rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Cut rows where an id comes again: a call stores or removes each once."""
        first = 0
        seen: set[Any] = set()
        for at, id_ in enumerate(self._ids.take(_arrow.numbers(rows)).to_pylist()):
            if id_ in seen:
                yield rows[first:at]
                first, seen = at, set()
            seen.add(id_)
        yield rows[first:]

    def _subscribe(self, rows: NDArray[np.int64]) -> None:
        table = self._changes.take(_arrow.numbers(rows))
        self._rejected.extend(self._hub.subscribe_many(table, source=_SOURCE, strict=self._strict))

    def _unsubscribe(self, rows: NDArray[np.int64]) -> None:
        for each in self._hub.unsubscribe_many(self._ids.take(_arrow.numbers(rows)), source=_SOURCE):
            number = int(self._numbers[rows[each.row]])
            self._rejected.add(_SOURCE, number, each.id, each.field, each.reason)

    def _counted(self, deliveries: Deliveries) -> Deliveries:
        self._rejected.extend(deliveries.rejected)
        return deliveries


def _order(messages: NDArray[np.int64], changes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of both, those of changes counted on from those of messages, in the order of a stream."""
    times = np.concatenate([messages, changes])
    rows = np.concatenate([np.arange(len(messages)), np.arange(len(changes))])
    is_message = np.arange(len(times)) < len(messages)
    return np.lexsort((rows, is_message, times))
