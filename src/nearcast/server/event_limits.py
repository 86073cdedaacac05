"""`max_events`: events of a subscription counted in the order of their cursors, and its end after the last one.

The count is a row of `server.db` with the cursor up to which it was counted, so that after a crash it goes on from
there: replay gives the same cursors. What a subscription got between its last event and its end, which is an input of
the hub like any other, is not handed over. While a registration is under way, which begins the count anew or is
refused, events that were not counted yet wait.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from nearcast.durable import Cursor, EventColumns, EventsWanted, Retention, events_of
from nearcast.errors import NearcastError
from nearcast.server.server_db import ServerDb
from nearcast.server.subscription_rows import SubscriptionRow, put_limit

_log = logging.getLogger("nearcast.server")
#: Events that are counted at a time.
_PORTION = 1000
#: Seconds for which the limit of a subscription that is gone is remembered, at least, and for how long after the last
#: of its events: the limit was written before its end.
_REMEMBERED_S, _LONGER_S = 30 * 86_400.0, 86_400.0
#: Locks for counting: subscribers are counted one at a time, and two of them rarely share a lock.
_LOCKS = 64


@dataclass(frozen=True)
class EventLimit:
    """How many events a subscription had after it was registered at `since`; `last` is the one that ended it."""

    id: str
    subscriber: str
    most: int
    since: Cursor
    counted: int
    counted_to: Cursor
    last: Cursor | None = None

    def is_over(self, cursor: Cursor) -> bool:
        """Tell whether an event of the subscription came after its last one."""
        return self.last is not None and cursor > self.last

    def row(self) -> tuple[Any, ...]:
        """Return the limit as a row."""
        last = None if self.last is None else str(self.last)
        since, counted_to = str(self.since), str(self.counted_to)
        return (self.id, self.subscriber, self.most, since, self.counted, counted_to, last, time.time())


@dataclass(frozen=True)
class LimitChange:
    """The limit of a subscription before and after a registration that is under way, None where it has none.

    `waits_after` has, by subscriber, the cursor after which events of the subscription wait for the registration.
    """

    id: str
    before: EventLimit | None
    after: EventLimit | None
    waits_after: dict[str, Cursor]

    def write(self, connection: Any) -> None:
        """Write the limit as it will be; in the transaction of the intent."""
        put_limit(connection, self.id, None if self.after is None else self.after.row())

    def take_back(self, connection: Any) -> None:
        """Write the limit as it was before a registration that the hub refused."""
        put_limit(connection, self.id, self.earlier)

    @property
    def earlier(self) -> tuple[Any, ...] | None:
        """Return the row of the limit as it was before."""
        return None if self.before is None else self.before.row()


class HandedOver(NamedTuple):
    """Events that a subscriber gets, the cursors before and after them, how many were dropped, whether more wait.

    All up to `read_to`, which may lie after the last event, was looked at.
    """

    events: list[Any]
    begin: str
    cursor: str
    gap: int
    is_full: bool
    read_to: Cursor


class EventLimits:
    """The limits of one tenant's subscriptions."""

    def __init__(self, db: ServerDb, hub: Any, executor: Executor, end: Callable[[str], object], retention: Retention):
        self._db, self._hub, self._executor, self._end, self._retention = db, hub, executor, end, retention
        #: Guards all that is below, for moments.
        self._lock = threading.Lock()
        self._counting = [threading.Lock() for _ in range(_LOCKS)]
        self._by_subscriber: dict[str, dict[str, EventLimit]] = {}
        #: The subscriber of each subscription that is counted.
        self._subscriber_of: dict[str, str] = {}
        #: The subscriptions that have not had their last event, by subscriber.
        self._open: dict[str, set[str]] = {}
        #: Registrations that are under way, by the id of the subscription.
        self._changing: dict[str, LimitChange] = {}
        #: Subscribers whose events are to be counted, in order, and whether a thread is at it.
        self._to_count: dict[str, None] = {}
        self._is_counting = False
        statement = f"SELECT * FROM event_limits WHERE NOT ({_IS_OLD})"
        for id_, subscriber, most, since, counted, counted_to, last, _ in db.read(statement, (self._old(time.time()),)):
            cursor = None if last is None else Cursor.parse(last)
            limit = EventLimit(id_, subscriber, most, Cursor.parse(since), counted, Cursor.parse(counted_to), cursor)
            self._put(limit)

    # Beginning and ending

    def begin(self, row: SubscriptionRow) -> LimitChange:
        """Return the change of a limit by a registration; the lock of the subscription is held until its `end`."""
        after = None
        if row.max_events is not None and row.subscriber is not None and not row.is_paused:
            now = self._hub.end
            after = EventLimit(row.id, row.subscriber, row.max_events, now, 0, now)
        with self._lock:
            before = self._limit_of(row.id)
            waits = {} if after is None else {after.subscriber: after.since}
            if before is not None:
                waits[before.subscriber] = before.counted_to
            change = LimitChange(row.id, before, after, waits)
            if waits:
                self._changing[row.id] = change
        return change

    def end(self, change: LimitChange, *, is_made: bool) -> list[str]:
        """End a change: the limit is the new one if it was made; return whose events waited for it."""
        with self._lock:
            self._changing.pop(change.id, None)
            if is_made:
                self._remove(change.id)
                if change.after is not None:
                    self._put(change.after)
        return list(change.waits_after)

    def forget(self, subscriber: str) -> None:
        """Count for an erased subscriber no more."""
        with self._lock:
            for id_ in list(self._by_subscriber.get(subscriber, ())):
                self._remove(id_)

    def forget_old(self, now: float) -> None:
        """Forget limits of subscriptions that ended or were deleted so long ago that none of their events is kept."""
        before = self._old(now)
        while old := self._db.scan(f"SELECT id FROM event_limits WHERE {_IS_OLD} LIMIT ?", (before, _PORTION)):
            known = {id_: self._limit_of(id_) for (id_,) in old}
            self._db.write(partial(_delete_old, ids=list(known), before=before)).result()
            with self._lock:
                for id_, limit in known.items():  # unless it was begun anew meanwhile
                    if limit is not None and self._limit_of(id_) is limit and id_ not in self._changing:
                        self._remove(id_)

    def _old(self, now: float) -> float:
        """Return the moment before which limits were written whose subscriptions have no event that is kept."""
        age_us = self._retention.age_us
        return -math.inf if age_us is None else now - max(_REMEMBERED_S, age_us / 1e6 + _LONGER_S)

    def _limit_of(self, id_: str) -> EventLimit | None:
        """Return the limit of a subscription, whoever its subscriber is."""
        return self._by_subscriber.get(self._subscriber_of.get(id_, ""), {}).get(id_)

    def _put(self, limit: EventLimit) -> None:
        self._by_subscriber.setdefault(limit.subscriber, {})[limit.id] = limit
        self._subscriber_of[limit.id] = limit.subscriber
        if limit.last is None:
            self._open.setdefault(limit.subscriber, set()).add(limit.id)
        else:
            _discard(self._open, limit.subscriber, limit.id)

    def _remove(self, id_: str) -> None:
        """Count for a subscription no more, whoever its subscriber was; `_lock` is held."""
        subscriber = self._subscriber_of.pop(id_, None)
        if subscriber is not None:
            _discard(self._open, subscriber, id_)
            own = self._by_subscriber[subscriber]
            del own[id_]
            if not own:
                del self._by_subscriber[subscriber]

    def ended(self) -> list[str]:
        """Return the subscriptions that had their last event, whether or not their end was made."""
        with self._lock:
            found = [limit for limits in self._by_subscriber.values() for limit in limits.values()]
        return [limit.id for limit in found if limit.last is not None]

    def has_ended(self, subscription_id: str) -> bool:
        """Tell whether a subscription had its last event."""
        with self._lock:
            limit = self._limit_of(subscription_id)
        return limit is not None and limit.last is not None

    # Handing over

    def concern(self, subscriber: str) -> bool:
        """Tell whether a subscriber has a subscription with a limit, or one that is getting it."""
        return bool(self._by_subscriber.get(subscriber)) or (
            bool(self._changing) and any(subscriber in change.waits_after for change in list(self._changing.values()))
        )

    def page(self, subscriber: str, after: str | None, limit: int) -> HandedOver:
        """Return the next events that a subscriber gets, after a cursor or after its acknowledgement; in a thread."""
        found = self.pages([EventsWanted(subscriber, after, limit)], events_of)[0]
        if isinstance(found, NearcastError):
            raise found
        return found

    def pages(
        self, wanted: list[EventsWanted], make: Callable[[EventColumns], list[Any]]
    ) -> list[HandedOver | NearcastError]:
        """Return the next events of several subscribers, or why there are none, as `make` makes them; in a thread."""
        found = self._hub.events_many(wanted, make)
        return [self._page_or_error(*each, make) for each in zip(wanted, found, strict=True)]

    def _page_or_error(
        self, wanted: EventsWanted, found: Any, make: Callable[[EventColumns], list[Any]]
    ) -> HandedOver | NearcastError:
        try:
            return found if isinstance(found, NearcastError) else self._page_of(wanted, found, make)
        except NearcastError as error:
            return error

    def _page_of(self, wanted: EventsWanted, found: Any, make: Callable[[EventColumns], list[Any]]) -> HandedOver:
        subscriber, limit = wanted.subscriber, wanted.limit
        since, begin, gap = found.begin, str(found.begin), found.gap
        while True:
            events, waiting = self._handed_over(subscriber, found)
            if waiting is not None and not events:  # nothing is told yet, nor that some were dropped
                return HandedOver([], begin, begin, 0, is_full=False, read_to=since)
            if waiting is not None:
                last = events[-1].cursor
                return HandedOver(events, begin, str(last), gap, is_full=False, read_to=last)
            if events or len(found) < limit:
                return HandedOver(events, begin, str(found.cursor), gap, len(found) == limit, found.read_to)
            # All of them came after a last event.
            (found,) = self._hub.events_many([wanted._replace(after=found.cursor)], make)
            if isinstance(found, NearcastError):
                raise found

    def _handed_over(self, subscriber: str, events: Any) -> tuple[list[Any], Any]:
        """Return the events that a subscriber gets, counted up to the newest, and the first that must wait."""
        if not self.concern(subscriber):
            return list(events), None
        self.count(subscriber)
        with self._lock:
            limits = dict(self._by_subscriber.get(subscriber, {}))
            waits = {id_: each.waits_after.get(subscriber) for id_, each in self._changing.items()}
        found: list[Any] = []
        for event in events:
            id_ = event.subscription_id
            waits_after = waits.get(id_)
            if waits_after is not None and event.cursor > waits_after:
                return found, event
            if id_ not in limits or not limits[id_].is_over(event.cursor):
                found.append(event)
        return found, None

    # Counting

    def counted(self) -> list[str]:
        """Return the subscribers whose events may have to be counted; for any thread."""
        return list(self._open)

    def count_soon(self, subscribers: Iterable[str]) -> None:
        """Count the events of subscribers in a thread, one after the other: requests need the other threads."""
        with self._lock:
            self._to_count.update((name, None) for name in subscribers if name in self._open)
            if not self._to_count or self._is_counting:
                return
            self._is_counting = True
        self._executor.submit(self._count_waiting)

    def _count_waiting(self) -> None:
        while (subscriber := self._next_to_count()) is not None:
            try:
                self.count(subscriber)
            except Exception as error:  # noqa: BLE001  the hub may have stopped; whoever reads counts again
                _log.warning("events are not counted: %s", type(error).__name__)

    def _next_to_count(self) -> str | None:
        with self._lock:
            subscriber = next(iter(self._to_count), None)
            self._is_counting = subscriber is not None
            if subscriber is not None:
                del self._to_count[subscriber]
        return subscriber

    def count(self, subscriber: str) -> None:
        """Count the events of a subscriber that were not counted yet; subscriptions that had their last one end."""
        with self._counting[hash(subscriber) % _LOCKS]:
            with self._lock:
                limits = self._by_subscriber.get(subscriber, {}).items()
                begun = {id_: limit for id_, limit in limits if limit.last is None and id_ not in self._changing}
            if not begun:
                return
            counted, after = dict(begun), min(limit.counted_to for limit in begun.values())
            while True:
                events = self._hub.events(subscriber, after=after, limit=_PORTION)
                for event in events:
                    id_ = event.subscription_id
                    if id_ in counted and event.cursor > counted[id_].counted_to:
                        counted[id_] = _counted(counted[id_], event.cursor)
                after = events.cursor
                if len(events) < _PORTION:
                    break
            self._keep(begun, counted, after)

    def _keep(self, begun: dict[str, EventLimit], counted: dict[str, EventLimit], after: Cursor) -> None:
        """Keep counts, but for subscriptions that were changed or erased meanwhile."""
        ended = []
        with self._lock:
            for id_, limit in counted.items():
                own = self._by_subscriber.get(limit.subscriber, {})
                if own.get(id_) is not begun[id_] or id_ in self._changing:
                    continue
                limit = replace(limit, counted_to=max(after, limit.counted_to))
                if limit != begun[id_]:
                    self._put(limit)
                    self._db.write(partial(put_limit, subscription_id=id_, values=limit.row()))
                if limit.last is not None:
                    ended.append(id_)
        for id_ in ended:
            self._end(id_)


#: The subscription is gone, and nothing was counted since. One whose end could not be made yet, on a full disk, is not.
_IS_OLD = "at < ? AND id NOT IN (SELECT id FROM subscriptions)"


def _delete_old(connection: Any, ids: list[str], before: float) -> None:
    """Delete the rows of limits, but those that were written again."""
    for id_ in ids:
        connection.execute(f"DELETE FROM event_limits WHERE id = ? AND {_IS_OLD}", (id_, before))


def _discard(sets: dict[str, set[str]], name: str, value: str) -> None:
    """Take a value out of one of some sets, and an empty set away."""
    found = sets.get(name)
    if found is not None:
        found.discard(value)
        if not found:
            del sets[name]


def _counted(limit: EventLimit, cursor: Cursor) -> EventLimit:
    """Return a limit with one event more."""
    counted = limit.counted + 1
    if counted > limit.most:
        return replace(limit, counted_to=cursor)
    return replace(limit, counted=counted, counted_to=cursor, last=cursor if counted == limit.most else None)
