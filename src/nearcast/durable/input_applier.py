"""Applies inputs to the hub of a durable hub, keeps who its subscribers are, and hands deliveries to the outbox."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast._ids import MIXED_IDS, Id, ids_column, keys_of, kinds_of
from nearcast.deliveries import Deliveries, Piece
from nearcast.durable import calls
from nearcast.durable.inputs import Input
from nearcast.durable.outbox.batches import OutboxBatch, PublishedInput
from nearcast.durable.outbox.outbox import Outbox
from nearcast.durable.outbox.released_rows import StepRows, keys_of_values, released
from nearcast.durable.outbox.subscribers import SUBSCRIBER, Subscribers
from nearcast.engine import compact_words
from nearcast.hub import Hub
from nearcast.tables import Rejected
from nearcast.tables.cells import TableRows
from nearcast.tables.names import ROW_COLUMN

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class SubscriberMove:
    """What a move of a subscriber delivered, and which of its subscriptions stayed where they are, with the reason."""

    deliveries: Deliveries
    stayed: dict[Id, str]


class InputApplier:
    """Applies inputs to a hub, keeps who its subscribers are, and adds what they get to the outbox."""

    def __init__(self, hub: Hub, subscribers: Subscribers, outbox: Outbox):
        self._hub, self._subscribers, self._outbox = hub, subscribers, outbox
        #: The numbers of the subscribers that got something since somebody last took them.
        self.touched: list[NDArray[np.int32]] = []
        #: The number of the subscriber that was erased last.
        self.erased: int | None = None
        #: Whether something was erased since the state was last purged.
        self.must_purge = False

    def apply(self, number: int, given: Input, source: str = "", data: bytes | None = None) -> Any:
        """Apply an input and return what its method returns; `data` are its bytes, where they are known."""
        hub = self._hub
        state = hub._state
        names_some = given.call in _REGISTERING and SUBSCRIBER in given.table.column_names
        if number <= self._outbox.complete or not (names_some or self._subscribers.are_in(state)):
            return self._called(given, source)
        with hub._lock:  # no poll comes between: what waits is told apart from what is new
            before, first = list(state.waiting or []), state.next_step
            mark = state.live.mark() if given.call in _MOVES and state.tell_expiry and state.live is not None else None
            found = self._called(given, source)
            self._release(number, given, data, found, before, first, mark)
        return found

    def _called(self, given: Input, source: str) -> Any:
        match given.call:
            case "subscribe" | "subscribe_many":
                return self._subscribe(given, source)
            case "erase":
                return self._erase(given.table[SUBSCRIBER][0].as_py())
            case "move_subscriber":
                return self._move(given)
            case _:
                return calls.apply(self._hub, given, source=source)

    # Subscribers

    def _subscribe(self, given: Input, source: str) -> Any:
        """Store subscriptions, then the subscribers of those that were stored."""
        state, subscribers = self._hub._state, self._subscribers
        has_names = SUBSCRIBER in given.table.column_names
        if not has_names and not subscribers.are_in(state):
            return calls.apply(self._hub, given, source=source)
        compact_words(state)  # now, for it shortens the column for which room is made
        subscribers.reserve(state, len(given.table))
        bare = replace(given, table=given.table.drop_columns([SUBSCRIBER])) if has_names else given
        found = calls.apply(self._hub, bare, source=source)
        rows = np.arange(len(bare.table))
        if isinstance(found, Rejected):
            rows = rows[_are_taken(bare.table, found)]
        keys = _keys(bare.table.select(["id"]).take(_arrow.numbers(rows)))
        names = _names(given.table).take(_arrow.numbers(rows))
        subscribers.reserve(state, 0)
        subscribers.assign(state, state.ids.slots_of_keys(keys), names)
        return found

    def _erase(self, name: str) -> int:
        state = self._hub._state
        number = self._subscribers.number(state, name)
        self.erased = None if number < 0 else number
        self.touched = [each[each != number] for each in self.touched]
        if number < 0:
            return 0
        ids = self._subscribers.subscriptions(state, number)
        Hub.unsubscribe_many(self._hub, ids)
        self._subscribers.forget(state, number)
        self.must_purge = True
        return len(ids)

    def _move(self, given: Input) -> SubscriberMove:
        state, row = self._hub._state, given.table.drop_columns([SUBSCRIBER])
        number = self._subscribers.number(state, given.table[SUBSCRIBER][0].as_py())
        ids = self._subscribers.subscriptions(state, number)
        rows = row.take(_arrow.numbers(np.zeros(len(ids), np.int64)))
        table = rows.append_column("id", ids_column(ids, kinds_of(ids)))
        found = Hub.move_many(self._hub, table)
        self._hub.count_refused(-len(found.rejected))  # they stay by rule, and are no bad rows
        return SubscriberMove(found, {ids[each.row]: each.reason for each in found.rejected})

    # Deliveries

    def _release(
        self,
        number: int,
        given: Input,
        data: bytes | None,
        found: Any,
        before: list[Piece],
        first: int,
        mark: Any,
    ) -> None:
        """Add what an input delivered, and published, to the outbox."""
        state = self._hub._state
        deliveries = found.deliveries if isinstance(found, SubscriberMove) else found
        if isinstance(deliveries, Deliveries):
            pieces = deliveries.pieces[sum(1 for piece in before if len(piece)) :]
        else:
            pieces = [piece for piece in (state.waiting or [])[len(before) :] if len(piece)]
        step_rows, rows = StepRows(), []
        for piece in pieces:
            own = released(piece, self._owners(piece, given.call), step_rows, self._ends(piece, given.call, mark))
            if own is not None:
                rows.append(own)
        self.touched.extend(each.subscriber for each in rows)
        self._outbox.add(OutboxBatch(number, state.now, rows, self._published(given, data, deliveries, first)))

    def _owners(self, piece: Piece, call: str) -> NDArray[np.int32]:
        """Return the number of the subscriber of each delivery, -1 for none."""
        state = self._hub._state
        slots = piece.slots if not hasattr(piece, "matches") else piece.matches.slots
        if call in _REGISTERING:  # slots may have been renumbered since
            slots = state.ids.slots_of_keys(piece.ids.keys(slots))
            found = self._subscribers.of_slots(state, np.maximum(slots, 0))
            return np.where(slots >= 0, found, np.int32(-1))
        return self._subscribers.of_slots(state, slots)

    def _ends(self, piece: Piece, call: str, mark: Any) -> NDArray[np.int64] | None:
        """Return when the messages of deliveries ended, where that was their expiry; None if none expired."""
        state = self._hub._state
        if not state.tell_expiry or call in (*_REGISTERING, "use_vocabulary") or hasattr(piece, "matches"):
            return None
        if call not in _MOVES:
            return np.full(len(piece), _LONG_AGO)
        ends = np.full(len(piece), np.iinfo(np.int64).max)
        gone = np.flatnonzero((piece.enters == 0) & (piece.ranks == 0))
        live = state.live
        assert live is not None
        now = live.mark()
        live.rewind(mark)
        ends[gone] = live.expires(piece.message_numbers[gone])
        live.rewind(now)
        return ends

    def _published(self, given: Input, data: bytes | None, found: Any, first: int) -> PublishedInput | None:
        """Return the messages that an input published, None if it did not."""
        if given.call not in ("publish", "publish_many"):
            return None
        count, taken = self._hub._state.next_step - first, None
        if given.call == "publish_many" and count < len(given.table):
            taken = np.flatnonzero(_are_taken(given.table, found.rejected))
            assert len(taken) == count, f"{count} of {len(given.table)} rows were published, {len(taken)} not rejected"
        if given.call == "publish" and given.arguments is not None:
            self._outbox.cache.put({first: given.arguments[0]})
        return PublishedInput(first, count, taken, given, data) if count else None


_MOVES = ("move", "move_many", "move_subscriber")
_REGISTERING = ("subscribe", "subscribe_many")
_LONG_AGO = np.iinfo(np.int64).min


def _are_taken(table: pa.Table, rejected: Rejected) -> NDArray[np.bool_]:
    """Tell which rows of a table were not rejected."""
    bad = np.array([each.row for each in rejected], np.int64)
    numbers = _arrow.array_of(table[ROW_COLUMN]) if ROW_COLUMN in table.column_names else np.arange(len(table))
    taken: NDArray[np.bool_] = ~np.isin(numbers, bad)
    return taken


def _keys(table: pa.Table) -> pa.Array:
    """Return the keys of the ids of subscriptions."""
    if table.schema.field("id").type == MIXED_IDS:
        return keys_of_values(table["id"].to_pylist())
    return keys_of(TableRows(table, "subscriptions", 0).ids())


def _names(table: pa.Table) -> pa.Array:
    """Return the column of subscribers as text."""
    if SUBSCRIBER not in table.column_names:
        return pa.nulls(len(table), pa.string())
    column = _arrow.plain(table[SUBSCRIBER]).cast(pa.string())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
