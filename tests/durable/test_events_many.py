"""`events_many`: the events of several subscribers, read together; and which subscriptions a subscriber has."""

import numpy as np
import pyarrow as pa
import pytest

from nearcast.durable import DurableHub, EventsWanted
from nearcast.errors import FutureCursor, InvalidInput, InvalidSubscription

NAMES = [f"n{number}" for number in range(7)]


def messages(random, first, n=20):
    """Return messages of one word somewhere."""
    words = [f"w{word}" for word in random.integers(0, 3, n)]
    return pa.table({"id": np.arange(first, first + n), "text": words, "x": random.random(n), "y": random.random(n)})


@pytest.fixture
def hub(tmp_path):
    """Return a hub whose events lie in two files and in memory; not everybody has some in each."""
    random = np.random.default_rng(5)
    with DurableHub(tmp_path / "hub", "plane") as hub:
        for number in range(40):
            place = {"x": random.random(), "y": random.random(), "radius": 0.6 * random.random()}
            hub.subscribe({"id": number, "query": f"w{number % 3}", **place}, subscriber=NAMES[number % len(NAMES)])
        for part in range(3):
            hub.publish_many(messages(random, 100 * part))
            hub.move_many([{"id": number, "x": random.random(), "y": random.random()} for number in range(40)])
            if part < 2:
                hub._outbox.flush()
        yield hub


def as_lists(found):
    """Return what can be compared of waiting events."""
    return list(found), found.cursor, found.gap


def test_events_read_together_are_those_read_one_by_one(hub):
    """From the beginning, from an acknowledgement and from the middle, with limits; also of somebody unknown."""
    hub.ack(NAMES[1], hub.events(NAMES[1])[0].cursor)
    middle = hub.events(NAMES[0])[2].cursor
    wanted = [
        EventsWanted(name, after, limit) for after in (None, "0-0", middle) for limit in (2, 999) for name in NAMES
    ]
    wanted.append(EventsWanted("nobody", None, 10))
    one_by_one = [as_lists(hub.events(name, after=after, limit=limit)) for name, after, limit in wanted]

    assert one_by_one == [as_lists(each) for each in hub.events_many(wanted)]
    assert len({event.cursor for events, *_ in one_by_one for event in events}) > 20


def test_what_cannot_be_read_stops_no_other(hub):
    """Each mistake is in its own place, as `events` would raise it."""
    mistakes = [EventsWanted(NAMES[0], "99999-0", 5), EventsWanted(NAMES[0], None, 0), EventsWanted("", None, 5)]
    *refused, found = hub.events_many([*mistakes, EventsWanted(NAMES[0], None, 5)])

    assert [FutureCursor, InvalidInput, InvalidSubscription] == list(map(type, refused))
    assert as_lists(hub.events(NAMES[0], limit=5)) == as_lists(found)
    assert [] == hub.events_many([])


def test_subscriptions_of_a_subscriber_come_and_go(hub):
    """One that is gone, or was registered anew for somebody else, is not among them."""
    hub.unsubscribe(0)
    hub.unsubscribe(7)
    hub.subscribe({"id": 7, "query": "tea"}, subscriber="other")
    hub.subscribe({"id": "new", "query": "tea"}, subscriber=NAMES[0])

    assert [14, 21, 28, 35, "new"] == sorted(
        hub.subscriptions_of(NAMES[0]), key=lambda id_: (isinstance(id_, str), id_)
    )
    assert [7] == hub.subscriptions_of("other")
