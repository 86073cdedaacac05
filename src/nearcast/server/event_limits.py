"""`max_events`: events of a subscription counted in the order of their cursors, and its end after the last one.

The count is a row of `server.db` with the cursor up to which it was counted, so that after a crash it goes on from
there: replay gives the same cursors. What a subscription got between its last event and its end, which is an input of
the hub like any other, is not handed over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from nearcast.durable import Cursor, EventsWanted
from nearcast.errors import NearcastError
from nearcast.server.server_db import ServerDb
from nearcast.server.subscription_rows import SubscriptionRow

#: Events that are counted at a time, and seconds for which the end of a subscription is remembered.
_PORTION, _REMEMBERED_S = 1000, 30 * 86_400
_SAVE = "INSERT OR REPLACE INTO event_limits VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


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


class HandedOver(NamedTuple):
    """Events that a subscriber gets, the cursors before and after them, how many were dropped, whether more wait."""

    events: list[Any]
    begin: str
    cursor: str
    gap: int
    is_full: bool


class EventLimits:
    """The limits of one tenant's subscriptions."""

    def __init__(self, db: ServerDb, hub: Any, end: Callable[[str], object]):
        self._db, self._hub, self._end = db, hub, end
        self._counting = threading.Lock()
        self._by_subscriber: dict[str, dict[str, EventLimit]] = {}
        #: The subscriber of each subscription that is counted.
        self._subscriber_of: dict[str, str] = {}
        db.execute("DELETE FROM event_limits WHERE last IS NOT NULL AND at < ?", (time.time() - _REMEMBERED_S,))
        for id_, subscriber, most, since, counted, counted_to, last, _ in db.read("SELECT * FROM event_limits"):
            cursor = None if last is None else Cursor.parse(last)
            limit = EventLimit(id_, subscriber, most, Cursor.parse(since), counted, Cursor.parse(counted_to), cursor)
            self._put(limit)

    def begin(self, row: SubscriptionRow) -> Callable[[Any], None]:
        """Return the writing that begins to count for a subscription that is being registered, or that stops it."""
        if row.max_events is None or row.subscriber is None or row.is_paused:
            return self._forgetting(row)
        now = self._hub.end
        limit = EventLimit(row.id, row.subscriber, row.max_events, now, 0, now)
        with self._counting:
            self._remove(row.id)
            self._put(limit)
        return lambda connection: connection.execute(_SAVE, limit.row()) and None

    def of(self, subscription_id: str) -> EventLimit | None:
        """Return the limit of a subscription as it is now, None if it has none."""
        with self._counting:
            subscriber = self._subscriber_of.get(subscription_id)
            return None if subscriber is None else self._by_subscriber[subscriber][subscription_id]

    def bring_back(self, subscription_id: str, before: EventLimit | None) -> Callable[[Any], None]:
        """Return the writing of a limit as it was before a change that the hub refused."""
        with self._counting:
            self._remove(subscription_id)
            if before is not None:
                self._put(before)
        if before is None:
            statement = "DELETE FROM event_limits WHERE id = ?"
            return lambda connection: connection.execute(statement, (subscription_id,)) and None
        return lambda connection: connection.execute(_SAVE, before.row()) and None

    def forget(self, subscriber: str) -> None:
        """Count for an erased subscriber no more."""
        with self._counting:
            for id_ in self._by_subscriber.pop(subscriber, {}):
                del self._subscriber_of[id_]

    def _forgetting(self, row: SubscriptionRow) -> Callable[[Any], None]:
        with self._counting:
            self._remove(row.id)
        return lambda connection: connection.execute("DELETE FROM event_limits WHERE id = ?", (row.id,)) and None

    def _put(self, limit: EventLimit) -> None:
        self._by_subscriber.setdefault(limit.subscriber, {})[limit.id] = limit
        self._subscriber_of[limit.id] = limit.subscriber

    def _remove(self, id_: str) -> None:
        """Count for a subscription no more, whoever its subscriber was; `_counting` is held."""
        subscriber = self._subscriber_of.pop(id_, None)
        if subscriber is not None:
            del self._by_subscriber[subscriber][id_]

    def ended(self) -> list[str]:
        """Return the subscriptions that had their last event, whether or not their end was made."""
        return [
            id_ for limits in self._by_subscriber.values() for id_, limit in limits.items() if limit.last is not None
        ]

    def concern(self, subscriber: str) -> bool:
        """Tell whether a subscriber has a subscription with a limit."""
        return bool(self._by_subscriber.get(subscriber))

    def page(self, subscriber: str, after: str | None, limit: int) -> HandedOver:
        """Return the next events that a subscriber gets, after a cursor or after its acknowledgement; in a thread."""
        return self._page_of(subscriber, limit, self._hub.events(subscriber, after=after, limit=limit))

    def pages(self, wanted: list[EventsWanted]) -> list[HandedOver | NearcastError]:
        """Return the pages of several subscribers, each as `page` would return or raise it; in a thread."""
        found = self._hub.events_many(wanted)
        return [self._page_or_error(*each) for each in zip(wanted, found, strict=True)]

    def _page_or_error(self, wanted: EventsWanted, found: Any) -> HandedOver | NearcastError:
        try:
            return found if isinstance(found, NearcastError) else self._page_of(wanted.subscriber, wanted.limit, found)
        except NearcastError as error:
            return error

    def _page_of(self, subscriber: str, limit: int, found: Any) -> HandedOver:
        begin = str(found.begin)
        gap, events = found.gap, self._handed_over(subscriber, found)
        while len(found) == limit and not events:  # all of them came after a last event
            found = self._hub.events(subscriber, after=found.cursor, limit=limit)
            events = self._handed_over(subscriber, found)
        return HandedOver(events, begin, str(found.cursor), gap, len(found) == limit)

    def _handed_over(self, subscriber: str, events: Any) -> list[Any]:
        """Return the events that a subscriber gets, having counted up to the newest."""
        if not self.concern(subscriber):
            return list(events)
        self.count(subscriber)
        limits = self._by_subscriber.get(subscriber, {})
        return [event for event in events if not self._is_over(limits, event)]

    @staticmethod
    def _is_over(limits: dict[str, EventLimit], event: Any) -> bool:
        limit = limits.get(event.delivery.subscription_id)
        return limit is not None and limit.is_over(event.cursor)

    def count(self, subscriber: str) -> None:
        """Count the events of a subscriber that were not counted yet; subscriptions that had their last one end."""
        with self._counting:
            limits = self._by_subscriber.get(subscriber, {})
            open_ones = {id_: limit for id_, limit in limits.items() if limit.last is None}
            if not open_ones:
                return
            after = min(limit.counted_to for limit in open_ones.values())
            while True:
                events = self._hub.events(subscriber, after=after, limit=_PORTION)
                for event in events:
                    id_ = event.delivery.subscription_id
                    if id_ in open_ones and event.cursor > open_ones[id_].counted_to:
                        open_ones[id_] = _counted(open_ones[id_], event.cursor)
                after = events.cursor
                if len(events) < _PORTION:
                    break
            self._keep(limits, open_ones, after)

    def _keep(self, limits: dict[str, EventLimit], counted: dict[str, EventLimit], after: Cursor) -> None:
        for id_, limit in counted.items():
            limit = replace(limit, counted_to=max(after, limit.counted_to))
            if limit != limits[id_]:
                limits[id_] = limit
                self._db.execute(_SAVE, limit.row())
            if limit.last is not None:
                self._end(id_)


def _counted(limit: EventLimit, cursor: Cursor) -> EventLimit:
    """Return a limit with one event more."""
    counted = limit.counted + 1
    if counted > limit.most:
        return replace(limit, counted_to=cursor)
    return replace(limit, counted=counted, counted_to=cursor, last=cursor if counted == limit.most else None)
