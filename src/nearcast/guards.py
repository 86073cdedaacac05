"""Guards against noise, outside of indexes and engines: filters over deliveries.

A place that jitters at the border of a region makes a message enter and leave again and again. `Debounce` holds each
change back for a while, and drops it when it is taken back meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from nearcast.errors import InvalidInput
from nearcast.model import Delivery, checked_time
from nearcast.window import length_of


class PendingDelivery(NamedTuple):
    """A delivery that is held back: when it is due, in which order it came, and when its message ends."""

    due: datetime
    order: int
    delivery: Delivery
    end: datetime | None


class Debounce:
    """Holds deliveries back: a `+` for `enter`, a `-` for `leave`; one that its opposite follows is dropped with it.

    Times are event times: that of the deliveries, and of `advance`. One whose message dies meanwhile is dropped, too.
    `ends` tells when the message of a delivery dies, None: not by itself; `Hub.ends` is such a function, for deliveries
    of that hub. Call `forget` for a subscription that is removed. Deliveries are returned as they came, by the moment
    they were due, then in the order in which they came.

    >>> guard = Debounce(enter="30s")
    >>> guard.feed([Delivery("s", "m", time=checked_time("2026-01-01T00:00:00Z", "time"))])
    []
    >>> [d.message_id for d in guard.advance("2026-01-01T00:00:30Z")]
    ['m']
    """

    def __init__(
        self,
        *,
        enter: str | timedelta | None = None,
        leave: str | timedelta | None = None,
        ends: Callable[[Delivery], datetime | None] | None = None,
    ):
        self._waits = {"+": _length(enter, "enter"), "-": _length(leave, "leave")}
        self._ends = ends
        self._pending: dict[tuple[Any, Any], PendingDelivery] = {}
        #: When messages died whose `+` was dropped for that: their end, where it is told, is dropped as well.
        self._unsaid: dict[tuple[Any, Any], datetime] = {}
        self._now: datetime | None = None
        #: The latest time of a delivery: event time where they come from, which `advance` may be ahead of.
        self._told: datetime | None = None
        self._n_seen = 0

    def __len__(self) -> int:
        """Return how many deliveries are held back."""
        return len(self._pending)

    def pending(self) -> list[Delivery]:
        """Return the deliveries that are held back, in the order in which they came."""
        return [each.delivery for each in sorted(self._pending.values(), key=lambda each: each.order)]

    def feed(self, deliveries: Iterable[Delivery], time: datetime | str | None = None) -> list[Delivery]:
        """Take deliveries in their order; return those that are due by their times, and by `time` if that is later."""
        given, moment = list(deliveries), checked_time(time, "time")
        self._begin(given, moment)
        passed: list[Delivery] = []
        for delivery in given:
            passed += self._at(delivery.time)
            self._forget_told_ends(delivery.time)
            passed += self._take(delivery)
        return passed + self._at(moment)

    def advance(self, time: datetime | str) -> list[Delivery]:
        """Move event time forward; return the deliveries that are due by then."""
        return self._at(checked_time(time, "time"))

    def forget(self, subscription_id: str | int) -> None:
        """Drop what is held back for a subscription, as when it has been removed."""
        self._pending = {key: each for key, each in self._pending.items() if key[0] != subscription_id}
        self._unsaid = {key: end for key, end in self._unsaid.items() if key[0] != subscription_id}

    def _begin(self, given: list[Delivery], time: datetime | None) -> None:
        """Set event time where it is not known: the first one given. Raise where one must wait and there is none."""
        if self._now is not None or not given:
            return
        first = next((each.time for each in given if each.time is not None), time)
        if first is None and any(self._waits[each.change] is not None for each in given):
            raise InvalidInput("deliveries come without a time; give messages a time, or `feed` one", field="time")
        self._now = first

    def _forget_told_ends(self, time: datetime | None) -> None:
        """Forget the ends that were told, if ever, before a delivery of this time.

        An end is told in the first step at or after it. A delivery of that time or later came before this one.
        """
        if time is None or (self._told is not None and time <= self._told):
            return
        if self._told is not None and self._unsaid:
            told = self._told
            self._unsaid = {key: end for key, end in self._unsaid.items() if end > told}
        self._told = time

    def _take(self, delivery: Delivery) -> list[Delivery]:
        """Hold a delivery back, drop it with its opposite, or let it pass."""
        key = (delivery.subscription_id, _message_of(delivery))
        opposite = self._pending.pop(key, None)
        if opposite is not None and opposite.delivery.change != delivery.change:
            return []
        if self._unsaid.pop(key, None) is not None and delivery.change == "-":
            return []
        wait = self._waits[delivery.change]
        if wait is None:
            return [delivery]
        assert self._now is not None
        end = None if self._ends is None else self._ends(delivery)
        self._n_seen += 1
        self._pending[key] = PendingDelivery(self._now + wait, self._n_seen, delivery, end)
        return []

    def _at(self, time: datetime | None) -> list[Delivery]:
        """Move event time, if it is later; return what is due, without what has died before it was."""
        if time is None or (self._now is not None and time <= self._now):
            return []
        self._now = time
        due = {key: each for key, each in self._pending.items() if min(each.due, each.end or each.due) <= time}
        for key, each in due.items():
            del self._pending[key]
            if each.end is not None and each.due >= each.end and each.delivery.change == "+":
                self._unsaid[key] = each.end
        alive = [each for each in due.values() if each.end is None or each.due < each.end]
        return [each.delivery for each in sorted(alive, key=lambda each: each[:2])]


def _message_of(delivery: Delivery) -> Any:
    """Return what tells the message of a delivery apart: its arrival, which the delivery's id names, else its id."""
    return delivery.message_id if delivery.delivery_id is None else int(delivery.delivery_id.split(":")[1])


def _length(given: str | timedelta | None, name: str) -> timedelta | None:
    if given is None:
        return None
    return timedelta(microseconds=length_of(given, name, "expected a time like 30s, 2m, 1h"))
