"""Fewer notices for a subscriber: debounce, one notice a message, cool-down and digest, in this order, at hand-over.

The outbox keeps all events. What is held back is counted, and a notice that follows says how many there were.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from nearcast.errors import InvalidInput
from nearcast.guards import Debounce
from nearcast.model import Delivery, checked_time
from nearcast.window import length_of

#: Messages whose notice is remembered, for those that ask for one a message.
_REMEMBERED = 10_000
#: Events that a digest shows; it counts all of them.
_SHOWN_IN_DIGEST = 100
#: A digest is handed over when it has this many events, even before its time.
_MOST_IN_DIGEST = 10_000
#: Settings of a subscriber that are rules.
QUIET_FIELDS = {"cooldown", "digest", "once_per_message", "debounce"}
#: That events were dropped is told whatever the rules are.
_GAP = "nearcast.gap.v1"
_EXPECTED = "expected a time like 30s, 5m, 1h, or null"


@dataclass(frozen=True)
class QuietRules:
    """What a subscriber wants held back: nothing, unless given.

    `cooldown`: how long after a notice no other is sent. `digest`: how long events are gathered into one notice.
    `once_per_message`: one notice for a message, however many subscriptions it matches. `enter`, `leave`: how long a
    change must last before it is told, see `guards.Debounce`.
    """

    cooldown: timedelta | None = None
    digest: timedelta | None = None
    once_per_message: bool = False
    enter: timedelta | None = None
    leave: timedelta | None = None

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> QuietRules:
        """Return the rules of an object with the fields `cooldown`, `digest`, `once_per_message`, `debounce`."""
        unknown = set(given) - QUIET_FIELDS
        if unknown:
            raise InvalidInput(f"unknown field {min(unknown)!r}; expected {', '.join(sorted(QUIET_FIELDS))}")
        once, debounce = given.get("once_per_message", False), given.get("debounce")
        debounce = {} if debounce is None else debounce
        if not isinstance(once, bool):
            raise InvalidInput(f"once_per_message is {once!r}; expected true or false", field="once_per_message")
        if not isinstance(debounce, dict) or set(debounce) - {"enter", "leave"}:
            raise InvalidInput('debounce must be an object like {"enter": "30s", "leave": "2m"}', field="debounce")
        return cls(
            cooldown=_length(given.get("cooldown"), "cooldown"),
            digest=_length(given.get("digest"), "digest"),
            once_per_message=once,
            enter=_length(debounce.get("enter"), "debounce"),
            leave=_length(debounce.get("leave"), "debounce"),
        )


class CursorEvent(NamedTuple):
    """An event of the outbox as a CloudEvent, with its cursor as text."""

    cursor: str
    event: dict[str, Any]


class CursorPage(NamedTuple):
    """Some events of the outbox, and the cursor up to which they were read; None: there are no more."""

    events: list[CursorEvent]
    cursor: str | None


class HookNotice(NamedTuple):
    """An event to be sent: one of the outbox, or a digest of several, which stands at the last one's cursor."""

    cursor: str
    event: dict[str, Any]


@dataclass
class Handover:
    """What is to be sent now; `through` is the cursor up to which nothing else is held, None if that did not move."""

    notices: list[HookNotice] = field(default_factory=list)
    through: str | None = None
    #: When something that is held will be due, in seconds of the wall clock.
    due: float | None = None


class QuietFilter:
    """The state of a subscriber's rules. It is made again from events that were not acknowledged."""

    def __init__(self, rules: QuietRules):
        self.rules = rules
        self._guard = (
            None if rules.enter is None and rules.leave is None else Debounce(enter=rules.enter, leave=rules.leave)
        )
        #: Events that the guard holds, by their ids.
        self._guarded: dict[str, CursorEvent] = {}
        self._noticed: OrderedDict[tuple[Any, str], None] = OrderedDict()
        #: When the last notice was, by the wall clock, and when it was before the last page.
        self._notice_at = self._notice_before = -math.inf
        #: Events that other rules held, and these have not seen.
        self._again: list[CursorEvent] = []
        self._digest: list[CursorEvent] = []
        self._digest_begin = 0.0
        #: The first cursor of the digest: events that were debounced come in another order.
        self._digest_first = (0, 0)
        self._read: str | None = None
        self._told_through: str | None = None
        #: Events that no notice was sent for, in all, and since the last notice.
        self.n_held_back = 0
        self._n_since = 0

    def begun_again(self) -> QuietFilter:
        """Return a filter that takes the events from the last acknowledged one on once more.

        Notices of the last page may not have been sent: no cool-down begins with them.
        """
        other = QuietFilter(self.rules)
        other.n_held_back, other._n_since, other._notice_at = self.n_held_back, self._n_since, self._notice_before
        return other

    def with_rules(self, rules: QuietRules) -> QuietFilter:
        """Return a filter by other rules that goes on from here, once all that was handed over has been sent."""
        other = QuietFilter(rules)
        other.n_held_back, other._n_since = self.n_held_back, self._n_since
        other._notice_at = other._notice_before = self._notice_at
        other._read, other._told_through, other._noticed = self._read, self._told_through, self._noticed
        held = list(self._again)
        if rules.digest is not None:
            other._digest, other._digest_begin = self._digest, self._digest_begin
            other._digest_first = self._digest_first
        else:
            held += self._digest
            for each in self._digest:
                other._noticed.pop(_notice_key(each.event), None)
        if (rules.enter, rules.leave) == (self.rules.enter, self.rules.leave):
            other._guard, other._guarded = self._guard, self._guarded
        else:
            held += self._guarded.values()
        other._again = sorted(held, key=lambda each: _position(each.cursor))
        return other

    @property
    def _digest_due(self) -> float:
        """Return when what is gathered is handed over."""
        length_s = 0.0 if self.rules.digest is None else self.rules.digest.total_seconds()
        return max(self._digest_begin + length_s, self._quiet_until)

    @property
    def _quiet_until(self) -> float:
        """Return until when there is no other notice."""
        return -math.inf if self.rules.cooldown is None else self._notice_at + self.rules.cooldown.total_seconds()

    def take(self, page: CursorPage, now: float) -> Handover:
        """Take the next events, none if only time has passed; return what is to be sent."""
        again, self._again, self._notice_before = self._again, [], self._notice_at
        events, self._read = [*again, *page.events], page.cursor or self._read
        gaps = [HookNotice(*each) for each in events if each.event["type"] == _GAP]
        others = [each for each in events if each.event["type"] != _GAP]
        passed = [each for each in self._debounced(others, now) if self._is_first_notice(each.event)]
        notices = self._digested(passed, now) if self.rules.digest is not None else self._spaced(passed, now)
        through = self._through()
        found = Handover(gaps + notices, None if through == self._told_through else through, self._due(now))
        self._told_through = through
        return found

    def _debounced(self, events: Sequence[CursorEvent], now: float) -> list[CursorEvent]:
        if self._guard is None:
            return list(events)
        self._guarded.update({each.event["id"]: each for each in events})
        passed = self._guard.feed([_delivery(each.event) for each in events], datetime.fromtimestamp(now, UTC))
        found = [self._guarded.pop(str(delivery.delivery_id)) for delivery in passed]
        held = {delivery.delivery_id for delivery in self._guard.pending()}
        dropped = [name for name in self._guarded if name not in held]
        for name in dropped:
            del self._guarded[name]
        self._hold_back(len(dropped))
        return found

    def _is_first_notice(self, event: dict[str, Any]) -> bool:
        """Tell whether a message was not noticed yet, where one notice a message is wanted."""
        if not self.rules.once_per_message or event["data"]["change"] != "+":
            return True
        key = _notice_key(event)
        if key in self._noticed:
            self._hold_back(1)
            return False
        self._noticed[key] = None
        if len(self._noticed) > _REMEMBERED:
            self._noticed.popitem(last=False)
        return True

    def _spaced(self, events: list[CursorEvent], now: float) -> list[HookNotice]:
        """Drop what comes during the cool-down."""
        notices = []
        for each in events:
            if now < self._quiet_until:
                self._hold_back(1)
                continue
            self._notice_at = now
            notices.append(self._notice(each.cursor, each.event))
        return notices

    def _digested(self, events: list[CursorEvent], now: float) -> list[HookNotice]:
        """Gather events; return the digest when it is due."""
        if events:
            first = min(_position(each.cursor) for each in events)
            self._digest_first = min(first, self._digest_first) if self._digest else first
        if events and not self._digest:
            self._digest_begin = now
        self._digest += events
        if not self._digest or (now < self._digest_due and len(self._digest) < _MOST_IN_DIGEST):
            return []
        gathered, self._digest = sorted(self._digest, key=lambda each: _position(each.cursor)), []
        self._notice_at = now
        return [self._notice(gathered[-1].cursor, _digest_of(gathered, now))]

    def _notice(self, cursor: str, event: dict[str, Any]) -> HookNotice:
        if self._n_since:
            event = {**event, "heldback": self._n_since}
            self._n_since = 0
        return HookNotice(cursor, event)

    def _hold_back(self, n: int) -> None:
        self.n_held_back += n
        self._n_since += n

    def _through(self) -> str | None:
        """Return the cursor before the first event that is still held."""
        held = [_position(each.cursor) for each in (*self._guarded.values(), *self._again)]
        if self._digest:
            held.append(self._digest_first)
        if not held:
            return self._read
        step, row = min(held)
        return f"{step}-{row - 1}"

    def _due(self, now: float) -> float | None:
        if self._guarded:
            return now + 1.0
        return self._digest_due if self._digest else None


def _digest_of(events: list[CursorEvent], now: float) -> dict[str, Any]:
    """Return one event for several; its id is made of their first and last cursor."""
    first, last = events[0], events[-1]
    return {
        "specversion": "1.0",
        "id": f"digest:{first.cursor}:{last.cursor}",
        "type": "nearcast.digest.v1",
        "source": first.event["source"].rpartition("/subscriptions/")[0] + "/subscriptions",
        "time": datetime.fromtimestamp(now, UTC).isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "sequence": last.cursor,
        "data": {"count": len(events), "events": [each.event for each in events[:_SHOWN_IN_DIGEST]]},
    }


def _notice_key(event: dict[str, Any]) -> tuple[Any, str]:
    """Return what tells the message of an event from others under its id."""
    return (event["data"]["message_id"], event["id"].split(":")[1])


def _delivery(event: dict[str, Any]) -> Delivery:
    given = event["data"]
    return Delivery(
        given["subscription_id"],
        given["message_id"],
        change=given["change"],
        time=checked_time(event.get("time"), "time"),
        delivery_id=event["id"],
    )


def _position(cursor: str) -> tuple[int, int]:
    step, _, row = cursor.partition("-")
    return int(step), int(row)


def _length(given: Any, name: str) -> timedelta | None:
    return None if given is None else timedelta(microseconds=length_of(given, name, _EXPECTED))
