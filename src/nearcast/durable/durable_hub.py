"""`DurableHub`: a hub whose every change is on disk before it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from nearcast.deliveries import Deliveries
from nearcast.durable import calls
from nearcast.durable.folder import DurableFolder
from nearcast.durable.folder_copies import copy_running, new_copy
from nearcast.durable.input_log import DURABILITIES, InputLog, LogEntry
from nearcast.durable.inputs import Input, decoded, encoded
from nearcast.durable.outbox import Retention
from nearcast.durable.receipt_clock import ReceiptClock
from nearcast.durable.receipt_times import stamped, without_future
from nearcast.durable.snapshots import SnapshotTaker, StateAfter
from nearcast.durable.subscriber_calls import AckCall, SubscriberHub
from nearcast.durable.subscriber_inputs import (
    checked_name,
    with_checked_names,
    with_names,
    with_subscriber,
    without_names,
)
from nearcast.durable.writer import GroupWriter
from nearcast.engine.lifetime import Lifetime
from nearcast.engine.snapshot import open_state
from nearcast.errors import HubStopped, IncompatibleStore, InvalidInput, InvalidSubscription, NearcastError
from nearcast.geo import Space
from nearcast.geo.shapes import shorten
from nearcast.hub import Hub
from nearcast.indexes import DEFAULT_INDEX
from nearcast.model import TopK
from nearcast.nesting import is_encodable
from nearcast.tables import Rejected
from nearcast.tables.inputs import table_or_values
from nearcast.tables.scored_rows import NO_WINDOW
from nearcast.tables.time_limits import MaxAhead
from nearcast.text import Analyzer, Vocabulary
from nearcast.text.words import WordTable
from nearcast.window import Window

if TYPE_CHECKING:
    from nearcast._ids import Id
    from nearcast.model import Message, Subscription

#: Bytes of inputs after which a snapshot is taken.
_SNAPSHOT_BYTES = 256 << 20
#: How far a time may lie ahead of the time of receipt unless told otherwise.
_MAX_AHEAD = "5m"
_CLOCKS = ("event", "wall")
#: Bytes of an input that SQLite takes as one row, its key included, and what a time of receipt adds for each row.
_MOST_BYTES, _STAMP_BYTES = 999_000_000, 9


@dataclass(eq=False)
class LoggedCall:
    """A call on its way through the writer: its input, the log entry, and what to call its table in rejected rows."""

    given: Input
    entry: LogEntry
    source: str = ""


class MessagesWanted(NamedTuple):
    """Messages of one call that publishes, as values or as a table, and its key, if it has one."""

    messages: pa.Table | Iterable[Any]
    key: str | None = None


@dataclass(frozen=True, eq=False)
class PublishUnderWay:
    """Messages on their way through the writer, and those that were refused before."""

    answer: Future[Any]
    refused: Rejected
    key: str | None

    def on_done(self, listener: Callable[[], object]) -> None:
        """Have a function called when all is done, in the writing thread, or now if it is; it must be quick."""
        self.answer.add_done_callback(lambda _: listener())

    def result(self) -> Deliveries:
        """Return the deliveries once the messages are on disk and published, or raise why they are not."""
        found = self.answer.result()
        return _with_refused(_repeat(self.key) if found is None else found, self.refused)


class DurableHub(SubscriberHub):
    """A hub in a folder: a call that returned is on disk, and survives `kill -9` and power cuts.

    Every call that changes the hub is checked, logged, synced to disk (fsync) and only then made; its deliveries are
    returned after that. Calls of several threads that wait together share one fsync. All else is as in `Hub`, whose
    options it takes. A new folder is made; in one that holds a durable hub the options must be those it was made with.
    `DurableHub.open` takes them from the folder. One process at a time has it open.

    When it is opened, the newest sound snapshot is read and the rest of the log is applied to it again, which gives
    the same state. `snapshot` writes one now; else one is written after each `snapshot_bytes` of inputs.

    Deliveries of a subscription with a `subscriber` wait for it: `events` returns them, `ack` acknowledges them, and
    `retention` says how long they are kept. Others are only returned: those of a call that a crash cut off are not
    returned again.

    With `clock="wall"` messages and moves that give no time have the time of receipt, which is logged with them, and
    `beat` moves event time to now. `max_ahead` is then counted from the time of receipt ("5m" unless given, "off": no
    limit). Times of receipt never go back: when the wall clock does, they stand still until it has caught up.

    With `durability="relaxed"` no call waits for the disk: `kill -9` takes nothing, a power cut the calls since the
    log was last synced. What is left are all calls up to one of them.

    `keep_log=True` never cuts the log. A later version whose snapshots have another form can then make the hub anew.

    `publish` and `publish_many` take a `key`: a call with a key that was used before, among the last million changes,
    does nothing. Whoever is not sure that a call came through makes it again with the same key.

    A full disk is `FileUnavailable`: nothing was changed, reading goes on, and the next call tries again. Any other
    failure of the disk stops the hub (`HubStopped`): open it again.
    """

    def __init__(
        self,
        path: str | Path,
        space: str | Space = "earth",
        *,
        index: str = DEFAULT_INDEX,
        analyzer: Analyzer | None = None,
        vocabulary: Vocabulary | None = None,
        max_distance: float | None = None,
        window: Window | int | str | timedelta | None = None,
        max_ahead: MaxAhead | str | timedelta | None = None,
        lifetime: Lifetime | str | timedelta | None = None,
        live: str = "",
        tell_expiry: bool = False,
        clock: str = "event",
        durability: str = "full",
        keep_log: bool = False,
        retention: Retention | None = None,
        snapshot_bytes: int = _SNAPSHOT_BYTES,
    ):
        if clock not in _CLOCKS:
            raise InvalidInput(f"clock is {shorten(clock)}; expected 'event' or 'wall'", field="clock")
        if durability not in DURABILITIES:
            raise InvalidInput(f"durability is {shorten(durability)}; expected 'full' or 'relaxed'", field="durability")
        if retention is not None and not isinstance(retention, Retention):
            raise InvalidInput(
                f'retention is {shorten(retention)}; expected a Retention, such as Retention(age="7d")',
                field="retention",
            )
        self._is_wall, self._durability, self._keeps_log = clock == "wall", durability, keep_log
        self._limit = MaxAhead.of(_MAX_AHEAD if self._is_wall and max_ahead is None else max_ahead)
        options = {
            "index": index,
            "max_distance": max_distance,
            "window": window,
            "max_ahead": None if self._is_wall else self._limit,  # by the wall clock it is checked before logging
            "lifetime": lifetime,
            "live": live,
            "tell_expiry": tell_expiry,
        }
        super().__init__(space, analyzer=analyzer, vocabulary=vocabulary, **options)  # type: ignore[arg-type]
        self._snapshot_bytes = snapshot_bytes
        self._folder = DurableFolder(path)
        try:
            self._begin(options, vocabulary, retention)
        except BaseException:
            if hasattr(self, "_log"):
                self._log.close(writes=False)
            self._folder.release()
            raise

    def _begin(self, options: dict[str, Any], vocabulary: Vocabulary | None, retention: Retention | None) -> None:
        """Make the folder, or bring the hub to the end of its log."""
        made = self._options(options)
        if self._folder.is_new:
            self._folder.create(made, self._state.vocabulary)
        if vocabulary is None:
            made["vocabulary"] = self._folder.options()["vocabulary"]
        self._folder.check_options(made)
        self._log: InputLog = self._folder.log(self._durability)
        self._bytes_since, self._is_over = 0, ""
        self._begin_outbox(retention)
        self._outbox.merges_unsynced = self._durability == "full"
        number = self._open_snapshot(options)
        self._outbox.begin(number)
        self._replay(number)
        self._load_acks()
        if self._is_wall:
            self._log.clock = ReceiptClock(self._log.last_received())
        self._writer: GroupWriter[LoggedCall | AckCall] = GroupWriter(self._log, self._make, self._after_batch)
        self._snapshots = SnapshotTaker(
            self._folder,
            self._log,
            self._writer,
            self._prepare_snapshot,
            self._taken,
            number,
            trims=not self._keeps_log,
        )

    def _options(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the options as the head of the folder has them."""
        window, lifetime = self.window, self.lifetime
        return {
            "clock": "wall" if self._is_wall else "event",
            "durability": self._durability,
            "keep_log": self._keeps_log,
            "space": self.space.kind,
            "bounds": None if self.space.bounds is None else list(self.space.bounds),
            "index": given["index"],
            "analyzer": self._state.analyzer.to_json(),
            "vocabulary": self._state.vocabulary.version,
            "max_distance": self.max_distance,
            "window": None if window is None else [window.count, window.length],
            "max_ahead": None if self._limit is None else self._limit.length,
            "lifetime": None if lifetime is None else [lifetime.length],
            "live": given["live"],
            "tell_expiry": given["tell_expiry"],
        }

    # Opening

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool | None = None) -> DurableHub:  # noqa: ARG003  as in `Hub`
        """Return the durable hub of a folder, with the options it was made with. Snapshots are always verified."""
        held = DurableFolder.existing(folder)
        try:
            made = held.options()
        finally:
            held.release()
        space = Space(made["space"], None if made["bounds"] is None else tuple(made["bounds"]))
        return cls(
            folder,
            space,
            index=made["index"],
            analyzer=Analyzer.from_json(made["analyzer"]),
            max_distance=made["max_distance"],
            window=None if made["window"] is None else Window(*made["window"]),
            max_ahead="off" if made["max_ahead"] is None else MaxAhead(made["max_ahead"]),
            lifetime=None if made["lifetime"] is None else Lifetime(*made["lifetime"]),
            live=made["live"],
            tell_expiry=made["tell_expiry"],
            clock=made["clock"],
            durability=made["durability"],
            keep_log=made["keep_log"],
        )

    def _open_snapshot(self, options: dict[str, Any]) -> int:
        """Take over the newest sound snapshot; return the number of its last input, 0 if the log has all of them."""
        faults = []
        for number in self._folder.snapshots():
            try:
                self._take_over(*open_state(self._folder.snapshot_path(number), verify=True))
            except IncompatibleStore as error:
                faults.append(str(error))
                continue
            break
        else:
            number = 0
            super().__init__(self.space, analyzer=self._state.analyzer, vocabulary=self._folder.vocabulary(), **options)
        if self._log.first > number + 1 or self._log.last < number:
            raise IncompatibleStore(
                f"{self._log.path} has inputs {self._log.first} to {self._log.last}, and the newest sound snapshot is "
                f"that after input {number}; bring the folder back from a copy, or open it with the version that wrote "
                f"it{''.join(f'. {each}' for each in faults)}"
            )
        return number

    def _replay(self, after: int) -> None:
        """Apply the rest of the log, without those inputs that raised an error when they came."""
        for row in self._log.rows(after):
            given = decoded(row.data, f"input {row.number} of {self._log.path}")
            self._bytes_since += len(row.data)
            if row.error is not None:
                continue
            try:
                self._apply(row.number, stamped(given, row.received))
            except NearcastError as error:  # the crash came before it could be marked
                self._log.mark(row.number, str(error))
            except Exception as error:
                raise IncompatibleStore(
                    f"input {row.number} of {self._log.path} stops the hub ({type(error).__name__}: {error}); report "
                    f"this; nearcast.durable.leave_out(folder, {row.number}) opens the folder without that input"
                ) from error
        Hub.poll(self)

    # Changes

    def _change(
        self, given: Input, *, source: str = "", key: str | None = None, refused: Rejected | None = None
    ) -> Any:
        """Log an input, apply it and return what its method returns; None if its key was used for it before.

        Rows that come from the future of the wall clock are not logged, and added to `refused`.
        """
        self._check_open()
        return self._writer.run(self._logged_call(given, source=source, key=key, refused=refused))

    def _logged_call(
        self, given: Input, *, source: str = "", key: str | None = None, refused: Rejected | None = None
    ) -> LoggedCall:
        """Return an input as the writer takes it; of `refused` see `_change`."""
        if key is not None and (not isinstance(key, str) or not key or "\0" in key or not is_encodable(key)):
            raise InvalidInput(f"key is {shorten(key)}; expected text", field="key")
        logged, identity = given, None
        if self._log.clock is not None:
            logged = without_future(
                given, self._limit, self._log.clock.now(), source, Rejected() if refused is None else refused
            )
            identity = None if key is None or logged is given else encoded(given)
        data = encoded(logged)
        if len(data) + _STAMP_BYTES * logged.table.num_rows > _MOST_BYTES:  # it would stop the writer
            raise InvalidInput(f"the call has {len(data):,} bytes, more than a log takes at once; give fewer rows")
        return LoggedCall(logged, LogEntry(data, key, identity), source)

    def _check_open(self) -> None:
        if reason := self._is_over or self._writer.stopped:
            raise HubStopped(reason)

    def _make(self, call: LoggedCall | AckCall) -> Any:
        """Make a call that is on disk; in the writer's thread."""
        if isinstance(call, AckCall):
            return self._take_ack(call)
        if call.entry.refused is not None:
            raise call.entry.refused
        if call.entry.number == 0:
            if call.entry.repeats is not None and call.entry.repeats.error is not None:
                raise call.entry.repeats.error  # nothing was done under the key
            return None
        self._bytes_since += len(call.entry.data)
        try:
            given = stamped(call.given, call.entry.received)
            data = call.entry.data if given is call.given else None
            return self._apply(call.entry.number, given, call.source, data)
        except NearcastError as error:
            call.entry.error = error
            self._log.mark(call.entry.number, str(error))
            raise

    def subscribe(self, subscription: Subscription | dict[str, Any] | Any, *, subscriber: str | None = None) -> Id:
        """Store a subscription and return its id; a known id is replaced and keeps its place in the order.

        Its deliveries wait for the `subscriber`, if one is given; a replaced subscription has the one given now.
        """
        value = self._subscription(subscription)
        name = None if subscriber is None else checked_name(subscriber)
        if isinstance(value, TopK) and self.window is None:
            raise InvalidSubscription(NO_WINDOW, field="kind")
        self._columns_of(value, WordTable())  # raises what is wrong with its query
        self._change(with_subscriber(calls.subscribe(value, self.space), name))
        return value.id

    def subscribe_many(
        self,
        subscriptions: pa.Table | Iterable[Any],
        *,
        subscriber: str | None = None,
        threads: int | None = None,
        source: str = "subscriptions",
        strict: bool = False,
    ) -> Rejected:
        """Store many subscriptions, in one input; return the rows that were not stored, with reasons.

        `subscriber` is that of all rows; else the column `subscriber` of a table, or of dicts, has that of each.
        """
        rejected, names = Rejected(), None
        subscriptions = table_or_values(subscriptions, self.space)
        if not isinstance(subscriptions, pa.Table):
            subscriptions, names = without_names(subscriptions)
        given = calls.subscribe_many(subscriptions, self.space, source, rejected, is_strict=strict)
        if subscriber is not None:
            given = with_subscriber(given, checked_name(subscriber))
        elif names is not None:
            given = with_names(given, names)
        given = with_checked_names(given, source, rejected)
        rejected.extend(self._change(given.with_threads(threads), source=source))
        return rejected

    def unsubscribe(self, subscription_id: Id) -> None:
        """Forget a subscription; `UnknownSubscription` if there is none."""
        with self._lock:
            self._whole().slot(subscription_id)  # what can be no id cannot be logged
        self._change(calls.unsubscribe(subscription_id))

    def unsubscribe_many(self, ids: pa.Table | pa.Array | Iterable[Id], *, source: str = "ids") -> Rejected:
        """Forget many subscriptions; return the ids that name none, with reasons."""
        found: Rejected = self._change(calls.unsubscribe_many(ids), source=source)
        return found

    def move(self, subscription_id: Id, place: Any, time: datetime | str | None = None) -> Deliveries:
        """Give a subscription another place, from now on; return what that delivers."""
        with self._lock:
            self._whole().slot(subscription_id)  # as above
        found: Deliveries = self._change(calls.move(subscription_id, place, time, self.space))
        return found

    def move_many(self, moves: pa.Table | Iterable[Any], *, source: str = "moves", strict: bool = False) -> Deliveries:
        """Give many subscriptions other places, in one input; rows that cannot be used are in `rejected`."""
        rejected = Rejected()
        given = calls.move_many(moves, self.space, source, rejected, is_strict=strict)
        return _with_refused(self._change(given, source=source, refused=rejected), rejected)

    def use_vocabulary(self, vocabulary: Vocabulary) -> Deliveries:
        """Weigh words by this vocabulary as it is now, in all subscriptions and at once."""
        found: Deliveries = self._change(calls.use_vocabulary(vocabulary))
        return found

    def publish(self, message: Message | dict[str, Any] | Any, *, key: str | None = None) -> Deliveries:
        """Deliver one message; return its deliveries, none for a `key` under which it was published before."""
        found = self._change(calls.publish(message, self.space), key=key)
        return _repeat(key) if found is None else found

    def publish_many(
        self,
        messages: pa.Table | Iterable[Any],
        *,
        threads: int = 1,
        source: str = "messages",
        strict: bool = False,
        key: str | None = None,
    ) -> Deliveries:
        """Deliver many messages in order, in one input; rows that cannot be published are in `rejected`.

        Nothing is delivered for a `key` under which they were published before.
        """
        if not isinstance(threads, int) or threads < 1:
            raise ValueError(f"threads is {threads!r}; expected 1 or more")
        return self.begin_publish(messages, threads=threads, source=source, strict=strict, key=key).result()

    def begin_publish(
        self,
        messages: pa.Table | Iterable[Any],
        *,
        threads: int = 1,
        source: str = "messages",
        strict: bool = False,
        key: str | None = None,
    ) -> PublishUnderWay:
        """Hand messages to the writing thread, and return without waiting for it; all else is as in `publish_many`."""
        rejected = Rejected()
        self._check_open()
        given = calls.publish_many(messages, self.space, source, rejected, is_strict=strict)
        call = self._logged_call(given.with_threads(threads), source=source, key=key, refused=rejected)
        return PublishUnderWay(self._writer.begin(call), rejected, key)

    def begin_publish_together(self, wanted: Sequence[MessagesWanted]) -> list[PublishUnderWay | Exception]:
        """Hand the messages of several calls to the writing thread, to be logged in one transaction.

        Each call is an input of its own with its own key, and all else is as if `begin_publish` was called for one
        after the other: the last is done when all are. Where that would have raised, the error stands instead.
        """
        self._check_open()
        found: list[PublishUnderWay | Exception] = []
        made: list[tuple[LoggedCall, Rejected] | Exception] = [self._publish_call(each) for each in wanted]
        answers = iter(self._writer.begin_together([each[0] for each in made if isinstance(each, tuple)]))
        for each, own in zip(made, wanted, strict=True):
            found.append(PublishUnderWay(next(answers), each[1], own.key) if isinstance(each, tuple) else each)
        return found

    def _publish_call(self, wanted: MessagesWanted) -> tuple[LoggedCall, Rejected] | Exception:
        """Return a call that publishes, and the rows that are refused already; or why there is none."""
        rejected = Rejected()
        try:
            given = calls.publish_many(wanted.messages, self.space, "messages", rejected, is_strict=False)
            return self._logged_call(
                given.with_threads(1), source="messages", key=wanted.key, refused=rejected
            ), rejected
        except Exception as error:  # noqa: BLE001  told to whoever asked, and to no other
            return error

    def advance(self, time: datetime | str) -> Deliveries:
        """Move event time forward; subscriptions that expire by then are forgotten."""
        found: Deliveries = self._change(calls.advance(time))
        return found

    def beat(self) -> Deliveries:
        """Move event time to the time of receipt, with `clock="wall"`; return what that delivers.

        One input, like any other call. Whoever serves a hub calls it every second or so.
        """
        if not self._is_wall:
            raise InvalidInput("beats are for clock='wall'; this hub has event time: use advance", field="clock")
        found: Deliveries = self._change(calls.beat())
        return found

    # Snapshots, and the end

    def snapshot(self) -> None:
        """Write a snapshot now, so that the next start need not replay what came before."""
        self._check_open()
        self._snapshots.take()

    def forget_erased(self, before: float) -> bool:
        """Write two snapshots if a subscriber was erased before a time, in seconds since 1970; tell whether it was.

        Log and snapshots then have nothing of it. Else it is so when inputs came for two snapshots, which may be long.
        """
        self._check_open()
        oldest: int | None = self._writer.run_alone(self._log.oldest_erasure)
        if oldest is None or oldest > before * 1e6 or self._keeps_log:
            return False
        self.snapshot()
        self.beat()  # there is one snapshot after an input
        self.snapshot()
        return True

    @property
    def has_events(self) -> bool:
        """Tell whether events or messages are kept, which come past the retention as time passes."""
        return not self._outbox.is_empty

    def backup(self, target: str | Path) -> None:
        """Copy the hub into a new or empty folder, beside its calls; what was answered before is in the copy."""
        self._check_open()
        with new_copy(target, self._folder) as copy:
            copy_running(self._folder, copy, self._log, self._snapshots)

    def _after_batch(self) -> None:
        """Begin a snapshot where it is time; one that fails, because the disk is full, is put off."""
        self._tell_listeners()
        if self._bytes_since >= self._snapshot_bytes:
            self._bytes_since = 0
            self._snapshots.begin()

    def _taken(self, data: Path) -> StateAfter:
        """Put the state after the last input into a folder, to be written; in the writer's thread."""
        self._log.sync()  # no snapshot may know what a relaxed log could lose
        self._bytes_since = 0
        noted = self._noted_in_snapshots()
        return StateAfter(self._log.last, *self._take(data, number=self._log.last, **noted))

    def close(self) -> None:
        """Make the calls that wait, and let other processes open the folder; the hub takes no more changes."""
        if not self._is_over:
            self._is_over = f"the hub of {self._folder.path} was closed; open it again with DurableHub.open"
            self._snapshots.close()
            self._writer.close()
            self._close_outbox()
            self._log.close(writes=not self._writer.stopped)
            self._folder.release()
        super().close()

    def _begin_child(self) -> None:
        """Leave the log to the parent, in a process that was forked."""
        super()._begin_child()
        if hasattr(self, "_writer"):
            self._is_over = f"the hub of {self._folder.path} belongs to the process that this one was forked from"
            self._log.abandon()
            self._folder.release()

    @property
    def is_stopped(self) -> bool:
        """Tell whether the hub takes no more changes: it was closed, or its disk failed."""
        return bool(self._is_over or self._writer.stopped)

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes of the hub, of its index and of its log."""
        log = {
            "inputs": self._log.last,
            "first_input": self._log.first,
            "transactions": self._log.n_transactions,
            "snapshot": max(self._snapshots.sound, default=0),
            "snapshot_error": self._snapshots.error,
            **({} if self._log.clock is None else {"clock_behind_s": self._log.clock.behind_s}),
        }
        return {**super().stats(), "log": log, "outbox": self._outbox.stats()}


def _repeat(key: str | None) -> Deliveries:
    """Return what a repeat delivers: nothing, and a warning that says so."""
    rejected = Rejected()
    rejected.warn(f"key {key!r} was used for the same messages before; nothing was done")
    return Deliveries([], rejected)


def _with_refused(found: Deliveries, refused: Rejected) -> Deliveries:
    """Return deliveries whose rejected rows begin with those that were refused before the call was logged."""
    rejected = Rejected()
    rejected.extend(refused)
    rejected.extend(found.rejected)
    return found.with_rejected(rejected)
