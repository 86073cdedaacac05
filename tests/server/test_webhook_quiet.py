"""Rules that hold events back: what is sent, what is counted, and what may be acknowledged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hook_receivers import ListedEvents

from nearcast.errors import InvalidInput
from nearcast.server.webhooks.quiet import CursorEvent, QuietFilter, QuietRules

NOW = 1_800_000_000.0


def at(seconds: float, source: ListedEvents, **data: object) -> CursorEvent:
    """Return another event, of a step at so many seconds after NOW."""
    made = source.add(**data)
    made.event["time"] = datetime.fromtimestamp(NOW + seconds, UTC).isoformat().replace("+00:00", "Z")
    return made


def test_without_rules_everything_passes() -> None:
    """And may be acknowledged."""
    source = ListedEvents(3)
    found = QuietFilter(QuietRules()).take(source.listed, NOW)
    assert [each.event["id"] for each in found.notices] == [each.event["id"] for each in source.listed]
    assert (found.through, found.due) == ("3-1", None)


def test_cool_down() -> None:
    """After a notice there is none for five minutes; the next one says how many were held back."""
    source, quiet = ListedEvents(), QuietFilter(QuietRules(cooldown=timedelta(minutes=5)))
    sent = []
    for seconds in (0, 10, 299, 300, 301):
        sent += quiet.take([at(seconds, source)], NOW + seconds).notices
    assert [each.cursor for each in sent] == ["1-1", "4-1"]
    assert [each.event.get("heldback") for each in sent] == [None, 2]
    assert quiet.n_held_back == 3


def test_one_notice_a_message() -> None:
    """Two subscriptions match one message: one notice. Another message of the same id is another."""
    source, quiet = ListedEvents(), QuietFilter(QuietRules(once_per_message=True))
    events = [
        at(0, source, subscription_id="a", message_id=7),
        at(0, source, subscription_id="b", message_id=7),
        at(0, source, subscription_id="a", message_id=8),
        at(1, source, subscription_id="a", message_id=7, change="-"),
    ]
    found = quiet.take(events, NOW)
    assert [each.cursor for each in found.notices] == ["1-1", "3-1", "4-1"]
    assert (quiet.n_held_back, found.through) == (1, "4-1")


def test_a_digest() -> None:
    """Events of an hour in one notice, with an id of the first and last cursor; none is acknowledged before."""
    source, quiet = ListedEvents(), QuietFilter(QuietRules(digest=timedelta(hours=1)))
    first = quiet.take([at(0, source), at(0, source)], NOW)
    assert (first.notices, first.through, first.due) == ([], "1-0", NOW + 3600)
    quiet.take([at(1800, source)], NOW + 1800)
    (digest,) = quiet.take([], NOW + 3600).notices
    assert digest.event["id"] == "digest:1-1:3-1"
    assert digest.event["type"] == "nearcast.digest.v1"
    assert digest.event["data"]["count"] == 3
    assert quiet.take([at(3700, source)], NOW + 3700).notices == []


def test_a_digest_is_the_same_after_a_restart() -> None:
    """The filter is made again from what was not acknowledged."""
    source = ListedEvents(3)
    found: list[Any] = []
    for parts in ([source.listed], [source.listed[:1], source.listed[1:]]):
        quiet = QuietFilter(QuietRules(digest=timedelta(hours=1)))
        for part in parts:
            quiet.take(part, NOW)
        found.append(quiet.take([], NOW + 3600).notices[0].event["id"])
    assert found[0] == found[1]


def test_debounce() -> None:
    """What enters and leaves within 30 s is told to nobody; the cursor stays before what is held."""
    source = ListedEvents()
    quiet = QuietFilter(QuietRules(enter=timedelta(seconds=30)))
    first = quiet.take([at(0, source, message_id=1), at(1, source, message_id=2)], NOW + 1)
    assert (first.notices, first.through) == ([], "1-0")
    second = quiet.take([at(5, source, message_id=1, change="-")], NOW + 5)
    assert (second.notices, second.through) == ([], "2-0")
    third = quiet.take([], NOW + 31)
    assert [each.cursor for each in third.notices] == ["2-1"]
    assert (third.through, quiet.n_held_back) == ("3-1", 2)


def test_rules_of_json() -> None:
    """Times as everywhere: 30s, 5m, 1h."""
    given = {"cooldown": "5m", "digest": None, "once_per_message": True, "debounce": {"enter": "30s"}}
    assert QuietRules.from_json(given) == QuietRules(
        cooldown=timedelta(minutes=5), once_per_message=True, enter=timedelta(seconds=30)
    )


@pytest.mark.parametrize(
    "given",
    [
        {"cooldown": 5},
        {"digest": "soon"},
        {"once_per_message": "yes"},
        {"debounce": "30s"},
        {"debounce": {"exit": "30s"}},
        {"quiet": True},
    ],
)
def test_rules_that_cannot_be_used(given: dict[str, Any]) -> None:
    """The error names the field or what was expected."""
    with pytest.raises(InvalidInput, match=r"expected|must be"):
        QuietRules.from_json(given)
