"""Items: all that changes an engine is a value that can be applied again."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

import nearcast
from nearcast import Area, Box, Circle, Hub, Similar, TopK, Vocabulary, Within, engine
from nearcast.deliveries import Deliveries
from nearcast.engine.items import without_hints
from nearcast.engine.stored_values import table_of
from nearcast.indexes import create

SOURCES = Path(nearcast.__file__).parent


def recorded(monkeypatch):
    """Return the list to which every item that a hub hands over is added, as a log holds it."""
    items = []

    def step(state, item):
        items.append(without_hints(item))
        return engine.step(state, item)

    monkeypatch.setattr("nearcast.hub.step", step)
    return items


def twin_of(hub):
    """Return a state without subscriptions that knows words by the same numbers as that of a hub."""
    held = hub._state
    state = engine.State(create("trigger", hub.space), words=held.words, window=held.window)
    if held.topk is not None:
        state.topk.words.table = held.topk.word_table
    return state


def message(number, text, x=0.0, second=None):
    time = None if second is None else f"2026-01-01T00:00:{second:02d}Z"
    return {"id": number, "text": text, "x": x, "y": 0.0, "time": time}


def live(hub):
    """Make every call that changes a hub; return all it delivers."""
    vocabulary = Vocabulary()
    vocabulary.learn_tokens([["tea"], ["tea", "ramen"]])
    hub.subscribe(Within("a", 'ramen OR "green tea"', Circle(0, 0, 5)))
    hub.subscribe(Within("p", "tea", Area({"type": "Polygon", "coordinates": [[(-1, -1), (1, -1), (0, 2), (-1, -1)]]})))
    hub.subscribe_many(
        [Within(7, "NOT beer", Box(-1, -1, 1, 1)), Within("soon", "tea", expires="2026-01-01T00:00:05Z")]
    )
    hub.subscribe(Similar("s", "tea ramen", (0, 0), threshold=0.2, max_distance=10.0))
    hub.subscribe(Within("never", "tea AND NOT tea", Box(0, 0, 1, 1)))  # its text alone knows where it is
    found = [*hub.publish(message(1, "green tea", second=1))]
    if hub.window is not None:
        hub.subscribe(TopK("k", "ramen tea", (0, 0), k=1, max_distance=10.0))
    found += hub.publish_many([message(2, "ramen tea", second=2), message(3, "beer", second=2)], threads=2)
    found += hub.use_vocabulary(vocabulary)
    vocabulary.learn_tokens([["ramen"]] * 9)
    found += hub.move("a", (3, 0))
    found += [*hub.move("s", (1, 0)), *hub.move("never", (5, 5))]
    found += hub.publish(message(4, "tea", x=3.0, second=3))
    found += hub.advance("2026-01-01T00:00:06Z")
    hub.unsubscribe("p")
    hub.unsubscribe_many([7, "nobody"])
    hub.subscribe(Within("a", "beer"))
    return [*found, *hub.publish(message(5, "tea beer", second=7)), *hub.poll()]


@pytest.mark.parametrize("window", [None, 3, "4s"])
def test_a_log_of_items_replays_a_hub(monkeypatch, window):
    """The items alone, on a state without subscriptions, deliver the same and leave the same subscriptions."""
    items, hub = recorded(monkeypatch), Hub("plane", window=window)
    delivered = live(hub)
    state = twin_of(hub)
    again = Deliveries([piece for item in items for piece in engine.step(state, item)])

    assert len(delivered) > 5
    assert [vars_of(each) for each in delivered] == [vars_of(each) for each in again]
    assert hub.to_table() == table_of(state, hub.space)
    held = hub._state
    assert (held.now, held.next_step, held.published) == (state.now, state.next_step, state.published)
    assert held.vocabulary.version == state.vocabulary.version


def vars_of(delivery):
    """Return the fields of a delivery but its message, which only the hub that published it knows."""
    return [getattr(delivery, name) for name in delivery.__slots__ if name != "message"]


def test_hints_are_the_fields_that_save_work():
    """A log leaves these out, and nothing else."""
    hints = {
        (kind.__name__, each.name)
        for kind in engine.Item.__args__
        for each in fields(kind)
        if each.metadata.get("is_hint")
    }
    threaded = {("Subscribe", "threads"), ("Publish", "threads"), ("UseVocabulary", "threads")}
    assert threaded | {("Move", "known"), ("Publish", "match")} == hints


def test_nothing_applies_an_input_past_step():
    """The functions behind `step` are called by it alone."""
    past = re.compile(r"engine\.(changes|arrivals)\b|engine import [^\n]*\b(changes|arrivals)\b")
    found = [path for path in SOURCES.rglob("*.py") if past.search(path.read_text()) and path.parent.name != "engine"]
    assert [] == found
