"""What a durable hub does for subscribers: who they are, what waits for them, and what they have acknowledged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.deliveries import Deliveries
from nearcast.durable import subscriber_inputs
from nearcast.durable.input_applier import InputApplier, SubscriberMove
from nearcast.durable.input_log import LogEntry
from nearcast.durable.inputs import Input, encoded
from nearcast.durable.outbox.acks import AckColumns, AckEntry, AckRemoval
from nearcast.durable.outbox.cursors import BEGIN, LAST_ROW, Cursor
from nearcast.durable.outbox.events import EventColumns, WaitingEvents, events_of, read_events
from nearcast.durable.outbox.kept_messages import messages_at, newest_message
from nearcast.durable.outbox.outbox import FailedSync, Outbox
from nearcast.durable.outbox.retention import Retention
from nearcast.durable.outbox.subscribers import SUBSCRIBER, Subscribers
from nearcast.durable.outbox.tidier import OutboxTidier
from nearcast.durable.subscriber_inputs import checked_name
from nearcast.engine import purge
from nearcast.errors import FutureCursor, IncompatibleStore, InvalidInput, NearcastError
from nearcast.geo.shapes import shorten
from nearcast.hub import Hub
from nearcast.tables import Rejected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast._ids import Id
    from nearcast.durable.folder import DurableFolder
    from nearcast.durable.input_log import InputLog
    from nearcast.durable.writer import GroupWriter
    from nearcast.engine import State
    from nearcast.model import Message

_logger = logging.getLogger(__name__)
Listener = Callable[[list[str]], None]


@dataclass(eq=False)
class AckCall:
    """An acknowledgement of a subscriber on its way through the writer."""

    subscriber: str
    entry: AckEntry


@dataclass(eq=False)
class ErasureCall:
    """An erasure on its way through the writer, as any other call."""

    given: Input
    entry: LogEntry
    source: str = ""


@dataclass(frozen=True, eq=False)
class ReleaseListener:
    """Who is told which subscribers got deliveries, and a function that returns whom it asks about, None: all."""

    listener: Listener
    wanted: Callable[[], list[str]] | None


class _ReleasedNames:
    """The subscribers that one batch of calls delivered to, as a mask of their numbers; names are made where needed."""

    def __init__(self, subscribers: Subscribers, state: State, touched: list[NDArray[np.int32]]):
        self._subscribers, self._state = subscribers, state
        self._mask = np.zeros(1 + max(int(part.max()) for part in touched), np.bool_)
        for part in touched:
            self._mask[part] = True
        self._names: list[str] | None = None

    def among(self, wanted: Callable[[], list[str]] | None) -> list[str]:
        """Return the names of those of them that are wanted, or of all where that is less work."""
        asked = None if wanted is None else wanted()
        if asked is None or len(asked) >= np.count_nonzero(self._mask):
            if self._names is None:
                self._names = self._subscribers.names(self._state, np.flatnonzero(self._mask).astype(np.int32))
            return self._names
        numbers = np.array(self._subscribers.numbers_of(self._state, asked), np.int64)
        known = np.flatnonzero((numbers >= 0) & (numbers < len(self._mask)))
        return [asked[at] for at in known[self._mask[numbers[known]]].tolist()]


class EventsWanted(NamedTuple):
    """Whose events are asked for: after a cursor, None for its last acknowledgement, and how many at most."""

    subscriber: str
    after: Cursor | str | None
    limit: int


class SubscriberHub(Hub):
    """The part of a durable hub that knows subscribers: deliveries wait for them in the outbox."""

    _folder: DurableFolder
    _log: InputLog
    _writer: GroupWriter[Any]

    def _begin_outbox(self, retention: Retention | None) -> None:
        """Open the outbox of the folder, before the hub is brought to the end of its log."""
        self._subscribers = Subscribers()
        self._outbox = Outbox(self._folder.path / "outbox", Retention() if retention is None else retention)
        self._outbox.is_known = lambda numbers: self._subscribers.are_known(self._state, numbers)
        self._inputs = InputApplier(self, self._subscribers, self._outbox)
        self._listeners: list[ReleaseListener] = []
        self._tidier = OutboxTidier(self._outbox)
        self._outbox.recover(self._log.last, max(self._folder.snapshots(), default=0))

    def _take_over(self, state: State, about: dict[str, Any]) -> None:
        """Go on from a snapshot; refused if the outbox lacks a file that was there when it was taken."""
        if about.get("outbox", 0) > self._outbox.in_files:
            raise IncompatibleStore(self._outbox.fault or f"{self._outbox.folder} lacks files; bring them back")
        super()._take_over(state, about)
        self._subscribers.begin(state, about.get("next_subscriber", 0))

    def _prepare_snapshot(self) -> None:
        """Write most of what waits for subscribers to disk, beside the calls; a failed sync stops the hub."""
        try:
            self._outbox.flush(synced=True)
        except FailedSync as error:
            self._writer.run_alone(partial(_fail, error))

    def _noted_in_snapshots(self) -> dict[str, Any]:
        """Write what waits for subscribers to disk; return what a snapshot must know of it.

        After an erasure the state is built again, so that no snapshot holds what is gone.
        """
        if self._inputs.must_purge:
            with self._lock:
                purge(self._state)
            self._inputs.must_purge = False
        self._outbox.flush(synced=True)
        return {"outbox": self._outbox.in_files, "next_subscriber": self._subscribers.next_number}

    def _load_acks(self) -> None:
        self._outbox.acks = AckColumns(self._log.acks())

    def _apply(self, number: int, given: Input, source: str = "", data: bytes | None = None) -> Any:
        """Apply an input, and add what it delivers to the outbox."""
        found = self._inputs.apply(number, given, source, data)
        if given.call == "erase" and self._inputs.erased is not None:
            self._log.write_later(AckRemoval(self._inputs.erased))
        return found

    def _tell_listeners(self) -> None:
        """Call the listeners with the subscribers that got something, and let the outbox put itself in order."""
        touched, self._inputs.touched = self._inputs.touched, []
        touched = [part for part in touched if len(part)]  # an erasure takes numbers out
        if touched and self._listeners:
            names = _ReleasedNames(self._subscribers, self._state, touched)
            for each in list(self._listeners):
                try:
                    if told := names.among(each.wanted):
                        each.listener(told)
                except Exception:
                    _logger.exception("a listener to released deliveries failed")
        self._tidier.look(self._state.now)

    def _close_outbox(self) -> None:
        """Write what is in memory into a file, so that the next start need not make it again."""
        self._tidier.close()
        with suppress(OSError):  # replay makes it again
            self._outbox.flush()

    # Who they are

    def subscriber_of(self, subscription_id: Id) -> str | None:
        """Return the subscriber of a subscription, None if it has none; `UnknownSubscription` if there is none."""
        with self._lock:
            state = self._whole()
            return self._subscribers.of_slot(state, state.slot(subscription_id))

    def subscriptions_of(self, subscriber: str) -> list[Id]:
        """Return the ids of a subscriber's subscriptions, in order of registration."""
        with self._lock:
            state = self._whole()
            return self._subscribers.subscriptions(state, self._subscribers.number(state, checked_name(subscriber)))

    def subscriptions_of_many(self, subscribers: Sequence[str]) -> tuple[pa.Array, NDArray[np.int64]]:
        """Return the ids of the subscriptions of several subscribers as one column, and how many each of them has."""
        names = [checked_name(name) for name in subscribers]
        with self._lock:
            state = self._whole()
            numbers = np.array(self._subscribers.numbers_of(state, names), np.int32)
            slots, counts = self._subscribers.slots_of(state, numbers)
            ids = state.ids.snapshot()
        return ids.column(slots, ids.kinds_of(slots)), counts

    def to_table(self) -> pa.Table:
        """Return all subscriptions in the interchange columns, as `Hub.to_table` does, with their subscribers."""
        with self._lock:
            table, state = super().to_table(), self._state
            if not self._subscribers.are_in(state):
                return table
            numbers = self._subscribers.of_slots(state, state.ids.in_use())
        distinct, codes = np.unique(numbers, return_inverse=True)
        known = distinct[distinct >= 0]
        names = [None] * (len(distinct) - len(known)) + self._subscribers.names(state, known)
        return table.append_column(SUBSCRIBER, pa.array(names, pa.string()).take(pa.array(codes)))

    def move_subscriber(self, subscriber: str, place: Any, time: datetime | str | None = None) -> SubscriberMove:
        """Move all subscriptions of a subscriber, in one input; return what that delivers, and which ones stayed.

        A subscription that cannot go there stays: one that listens anywhere, one whose last report is newer.
        """
        given = subscriber_inputs.move_subscriber(checked_name(subscriber), place, time, self.space)
        if self._number(subscriber) < 0:  # it moves nothing: of who is not there, or was erased, no place is logged
            self._check_open()
            return SubscriberMove(Deliveries([], Rejected()), {})
        found: SubscriberMove = self._change(given)
        return found

    def erase(self, subscriber: str) -> int:
        """Forget a subscriber: its subscriptions, the deliveries that wait for it and what it has acknowledged.

        Returns how many subscriptions it had. Nothing of it is on disk when the log and the outbox are past what was
        written before.
        """
        given = subscriber_inputs.erase(checked_name(subscriber))
        self._check_open()
        found: int = self._writer.run(ErasureCall(given, LogEntry(encoded(given), is_erasure=True)))
        return found

    # What waits for them

    def events(self, subscriber: str, *, after: Cursor | str | None = None, limit: int = 1000) -> WaitingEvents:
        """Return the deliveries of a subscriber after a cursor, unless given after its last acknowledgement, in order.

        `gap` of what is returned is how many of them were dropped by the retention. `FutureCursor` for a cursor after
        the end of the log.
        """
        found = self.events_many([EventsWanted(subscriber, after, limit)])[0]
        if isinstance(found, NearcastError):
            raise found
        return found

    def events_many(
        self, wanted: Sequence[EventsWanted], make: Callable[[EventColumns], list[Any]] = events_of
    ) -> list[WaitingEvents | NearcastError]:
        """Return what `events` would of several subscribers, or raise, read together.

        `make` may make something else of the columns than events: a list of as many things that have a `cursor`.
        """
        self._check_open()
        found: list[WaitingEvents | NearcastError | None] = [self._refusal(each) for each in wanted]
        asked = [at for at, refused in enumerate(found) if refused is None]
        with self._lock:
            numbers = self._subscribers.numbers_of(self._state, [wanted[at].subscriber for at in asked])
            last_step = self._state.next_step - 1  # who is named later, and gets a number then, has nothing before
        runs, dropped_counts = self._outbox.runs_and_dropped()
        end = Cursor(min(last_step, max((run.last_step for run in runs), default=-1)), LAST_ROW)
        afters = [wanted[at].after for at in asked]
        begins = [
            self._outbox.acks.of(number).cursor if after is None else Cursor.of(after)
            for number, after in zip(numbers, afters, strict=True)
        ]
        limits = [wanted[at].limit for at in asked]
        pages = self._outbox.pages_after(runs, list(zip(numbers, begins, limits, strict=True)))
        events = read_events(pages, runs, self.space, self._outbox.cache, make)
        for at, number, begin, own in zip(asked, numbers, begins, events, strict=True):
            gap, dropped = self._outbox.gap(dropped_counts, number, begin) if number >= 0 else (0, begin)
            found[at] = WaitingEvents(own, begin, dropped, gap, end if len(own) < wanted[at].limit else BEGIN)
        return [each for each in found if each is not None]

    def _refusal(self, wanted: EventsWanted) -> NearcastError | None:
        """Return why events cannot be read, None if they can."""
        try:
            if type(wanted.limit) is not int or wanted.limit < 1:
                raise InvalidInput(f"limit is {shorten(wanted.limit)}; expected a number above 0", field="limit")
            checked_name(wanted.subscriber)
            if wanted.after is not None:
                self._checked_cursor(wanted.after)
        except NearcastError as error:
            return error
        return None

    def ack(self, subscriber: str, cursor: Cursor | str) -> None:
        """Acknowledge all deliveries of a subscriber up to a cursor; on disk when it returns.

        An older cursor than the last one changes nothing.
        """
        number, wanted = self._number(subscriber), self._checked_cursor(cursor)
        if number < 0 or wanted <= self._outbox.acks.of(number).cursor:
            return
        self._check_open()
        self._writer.run(AckCall(subscriber, AckEntry(number, self._outbox.ack_at(number, wanted))))

    def _take_ack(self, call: AckCall) -> None:
        """Take over an acknowledgement that is on disk; that of a subscriber erased meanwhile is removed again."""
        entry = call.entry
        if self._number(call.subscriber) == entry.subscriber:
            self._outbox.acks.put(entry.subscriber, entry.ack)
        else:
            self._log.write_later(AckRemoval(entry.subscriber))

    def acked(self, subscriber: str) -> Cursor:
        """Return up to where a subscriber has acknowledged its deliveries, 0-0 if it never did."""
        return self._outbox.acks.of(self._number(subscriber)).cursor

    @property
    def end(self) -> Cursor:
        """Return a cursor after all deliveries there are: `events(name, after=hub.end)` has what comes later."""
        steps = self._state.next_step
        return Cursor(steps - 1, LAST_ROW) if steps else BEGIN

    def _number(self, subscriber: str) -> int:
        with self._lock:
            return self._subscribers.number(self._state, checked_name(subscriber))

    def _checked_cursor(self, given: Cursor | str) -> Cursor:
        cursor = Cursor.of(given)
        if cursor > BEGIN and cursor.step >= self._state.next_step:
            raise FutureCursor(
                f"cursor is {cursor}, but the log ends before step {self._state.next_step}; begin again with 0-0",
                field="cursor",
            )
        return cursor

    def kept_message(self, message_id: Id | None = None, *, arrival: int | None = None) -> Message | None:
        """Return the newest message with an id, or the one that arrived in a step, while it is kept; else None.

        Messages are kept from the first subscriber on.
        """
        if (message_id is None) == (arrival is None):
            raise InvalidInput("give either the id of a message or its arrival", field="message_id")
        self._check_open()
        runs = self._outbox.runs()
        if arrival is not None:
            return messages_at(runs, {arrival}, self.space, self._outbox.cache).get(arrival)
        assert message_id is not None
        return newest_message(runs, message_id, self.space, self._outbox.cache)

    def on_release(self, listener: Listener, wanted: Callable[[], list[str]] | None = None) -> Callable[[], None]:
        """Have a function called with the subscribers that got deliveries, in the writing thread, after each batch.

        With `wanted`, which returns names, it need not be called with any others: a batch may reach a hundred thousand
        subscribers, of whom few wait. Both must be quick; what they raise is logged. Returns a function that removes
        the listener.
        """
        added = ReleaseListener(listener, wanted)
        self._listeners = [*self._listeners, added]

        def remove() -> None:
            self._listeners = [each for each in self._listeners if each is not added]

        return remove

    # Of the whole hub

    def _change(self, given: Input, *, source: str = "", key: str | None = None) -> Any:
        raise NotImplementedError

    def _check_open(self) -> None:
        raise NotImplementedError


def _fail(error: Exception) -> None:
    raise error
