"""Calls of a hub with a lifetime that are interrupted anywhere: nothing of them stays, or all of it."""

import os

import pytest

from nearcast import Box, Circle, Deliveries, Hub, Similar, TopK, Vocabulary, Within
from nearcast.engine import upkeep
from support.torn import Tracer, look, rows

IDS = ["w1", "w2", "s1", "t1", "n1", "n2"]
#: Calls have hundreds of lines, of which each test looks at some, evenly; so many more while you work on it.
TRIES = int(os.environ.get("NEARCAST_TORN_TRIES", "7"))


def at(second):
    return f"2026-01-01T00:00:{second:02d}Z"


def post(id_, text, x=0.0, second=0, end=None):
    return {"id": id_, "text": text, "x": x, "y": 0.0, "time": at(second), "expires": None if end is None else at(end)}


def hub_with_past():
    """A hub with live messages and some that are over, subscriptions of all kinds, and reports of places."""
    hub = Hub("plane", index="scan", window=4, lifetime="20s", tell_expiry=True, max_distance=10)
    hub.subscribe_many(
        [
            Within("w1", "tea", Box(-1, -1, 1, 1)),
            Within("w2", "beer OR ramen", Circle(0, 0, 2), expires=at(40)),
            Similar("s1", "tea soup", (0, 0), threshold=0.3),
            TopK("t1", "tea beer", (0, 0), k=2),
        ]
    )
    words = ["tea", "ramen beer", "soup", "tea beer", "beer"]
    hub.publish_many([post(i, words[i % 5], x=i % 4, second=i, end=15 + i if i % 3 == 0 else None) for i in range(10)])
    hub.move("w1", (1.3, 0.1), at(10))
    hub.poll()
    return hub


def vocabulary():
    made = Vocabulary()
    made.learn_tokens([["tea", "soup"], ["ramen"], ["beer", "tea"]] + [["tea"]] * 9)
    return made


CALLS = {
    "publish": lambda hub: hub.publish(post(99, "tea ramen fresh", second=13)),
    "publish, some messages expire": lambda hub: hub.publish(post(99, "tea ramen fresh", second=25)),
    "publish many": lambda hub: hub.publish_many([post(99 + i, "tea beer", x=i, second=14 + 3 * i) for i in range(4)]),
    "advance": lambda hub: hub.advance(at(27)),
    "advance, a subscription expires": lambda hub: hub.advance(at(41)),
    "subscribe": lambda hub: hub.subscribe(Within("n1", "tea OR lemon", Circle(1, 0, 2))),
    "replace": lambda hub: hub.subscribe(Within("w2", "soup", Circle(1, 0, 2))),
    "a top-k becomes another kind": lambda hub: hub.subscribe(Within("t1", "beer", Circle(1, 0, 2))),
    "subscribe many": lambda hub: hub.subscribe_many(
        [Within("n1", "soup", Circle(1, 0, 2)), TopK("w1", "beer", (0, 0), k=1)]
    ),
    "unsubscribe": lambda hub: hub.unsubscribe("w2"),
    "move": lambda hub: hub.move("w1", (3, 0), at(11)),
    "move, some messages expire": lambda hub: hub.move("w1", (3, 0), at(25)),
    "move, a subscription expires": lambda hub: hub.move("w1", (3, 0), at(41)),
    "move to a region": lambda hub: hub.move("w1", Circle(2, 0, 1)),
    "move a scored one": lambda hub: hub.move("s1", (3, 0)),
    "move a top-k": lambda hub: hub.move("t1", (3, 0)),
    "move many": lambda hub: hub.move_many([{"id": id_, "x": 3.0, "y": 0.0} for id_ in ("t1", "w1", "w2")]),
    "vocabulary": lambda hub: hub.use_vocabulary(vocabulary()),
}


def life_goes_on(hub):
    """Return what a hub delivers from here on, and what it is like in the end."""
    told = [rows(hub.publish(post(500, "tea beer soup", 1.0, 42)))]
    told += [rows(hub.move(id_, (0.5, 0))) for id_ in IDS if id_ in hub]
    told += [rows(hub.publish(post(501, "ramen beer", 3.0, 43))), rows(hub.advance(at(59)))]
    return told, look(hub, IDS)


@pytest.mark.parametrize("name", CALLS)
def test_a_torn_call_is_whole_or_not_there(name):
    """Live messages, answers, reports and deliveries are those of before or those of after."""
    call = CALLS[name]
    before, life_before = look(hub_with_past(), IDS), life_goes_on(hub_with_past())
    whole, tracer = hub_with_past(), Tracer()
    _, returned = tracer.run(lambda: call(whole))
    after, told = look(whole, IDS), rows(returned) if isinstance(returned, Deliveries) else rows(whole.poll())
    life_after = life_goes_on(whole)
    assert before != after
    for event in sorted({1 + i * tracer.n_events // TRIES for i in range(TRIES)}):
        hub, torn = hub_with_past(), Tracer(event)
        torn.run(lambda: call(hub))  # noqa: B023 - called at once
        if look(hub, IDS) == before:
            assert [] == rows(hub.poll()), torn.places
            assert life_before == life_goes_on(hub), torn.places
        else:
            assert after == look(hub, IDS), torn.places
            waiting = rows(hub.poll())
            if waiting or not any("/hub.py" in place or "/deliveries.py" in place for place in torn.places):
                assert told == waiting, torn.places
            assert life_after == life_goes_on(hub), torn.places


def test_slots_and_words_are_renumbered_beside_live_messages(monkeypatch):
    """Answers stay the same when subscriptions get other slots, and words other numbers."""
    monkeypatch.setattr(upkeep, "SPARE_SLOTS", 2)
    monkeypatch.setattr(upkeep, "SPARE_WORDS", 2)
    hub = Hub("plane", lifetime="10m")
    hub.publish(post(1, "w7 tea", second=0))
    hub.subscribe(Within("keep", "tea", Box(-1, -1, 1, 1)))
    hub.move("keep", (0.1, 0.2), at(5))
    for i in range(20):
        hub.subscribe(Within(f"gone{i}", f"w{i} OR tea", Circle(0, 0, 1)))
        hub.unsubscribe(f"gone{i}")
    assert hub._state.index.n_slots < 20
    hub.poll()
    hub.subscribe(Within("seven", "w7"))
    assert [("+", 1)] == [(d.change, d.message_id) for d in hub.poll()]
    assert [("-", 1)] == [(d.change, d.message_id) for d in hub.move("keep", (9, 9))]
    hub.move("keep", (0, 0))
    assert Box(-1, -1, 1, 1) == hub.get("keep").region
