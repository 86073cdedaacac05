"""Lifetimes through items alone: a log of them gives the same deliveries, answers and reports again."""

import pytest

from nearcast import Area, Box, Circle, Hub, Similar, TopK, Vocabulary, Within, engine
from nearcast.deliveries import Deliveries
from nearcast.engine.items import without_hints
from nearcast.engine.life import relevant_now
from nearcast.engine.stored_values import table_of
from nearcast.indexes import create
from support.torn import rows

POLYGON = {"type": "Polygon", "coordinates": [[(179, -1), (-179, -1), (-179, 1), (179, 1), (179, -1)]]}


def at(second):
    return f"2026-01-01T00:00:{second:02d}Z"


def post(id_, text, lon, second):
    return {"id": id_, "text": text, "lon": lon, "lat": 0.0, "time": at(second)}


def live(hub):
    """Make every call that changes a hub; return all it delivers."""
    hub.subscribe_many(
        [
            Within("box", "tea", Box(170, -1, -170, 1)),
            Within("circle", "tea OR ramen", Circle(0, 0, 200_000)),
            Within("soon", "tea", Circle(0, 0, 10), expires=at(12)),
            Within("never", "tea AND NOT tea", Box(0, 0, 1, 2)),
            Similar("s", "tea ramen", (0, 0), threshold=0.4, max_distance=500_000),
        ]
    )
    found = [*hub.publish_many([post(i, "tea" if i % 2 else "ramen tea", 178.0 + i, i) for i in range(3)])]
    hub.subscribe(TopK("k", "tea", (179.0, 0.0), k=2, max_distance=500_000))
    found += [*hub.move("box", (0.3, 0.1), at(4)), *hub.move("box", (179.1, 0.1)), *hub.move("never", (5, 5))]
    walk = [("circle", 179.0, 5), ("s", -179.0, 6), ("circle", 0.0, 7), ("soon", 178.0, 8), ("k", 0.0, 13)]
    found += hub.move_many([{"id": id_, "lon": lon, "lat": 0.0, "time": at(second)} for id_, lon, second in walk])
    found += hub.move("circle", Area(POLYGON), at(14))
    vocabulary = Vocabulary()
    vocabulary.learn_tokens([["tea"], ["tea", "ramen"]])
    found += hub.use_vocabulary(vocabulary)
    found += hub.publish(post(9, "ramen", -179.5, 15))
    hub.subscribe(Within("k", "ramen", Circle(0, 0, 10)))
    found += [*hub.poll(), *hub.advance(at(16))]
    hub.unsubscribe("s")
    return [*found, *hub.publish(post(10, "tea", 179.0, 30))]


@pytest.mark.parametrize("window", [4, "9s"])
@pytest.mark.parametrize("store", ["cells", "scan"])
def test_a_log_of_items_replays_a_hub_with_a_lifetime(monkeypatch, window, store):
    """On a state that begins empty, with the words under the same numbers."""
    items, hub = [], Hub("earth", window=window, lifetime="10s", tell_expiry=True, live=store)

    def step(state, item):
        items.append(without_hints(item))
        return engine.step(state, item)

    monkeypatch.setattr("nearcast.hub.step", step)
    delivered, held = live(hub), hub._state
    state = engine.State(
        create("trigger", hub.space),
        words=held.words,
        window=held.window,
        lifetime=held.lifetime,
        live_store=store,
        tell_expiry=True,
    )
    state.topk.words.table = held.topk.word_table
    state.live._state = state.live._state._replace(words=held.live._state.words)
    again = Deliveries([piece for item in items for piece in engine.step(state, item)])

    assert {"+", "-"} == {d.change for d in delivered}
    assert sorted(map(str, delivered)) == sorted(map(str, again))
    assert table_of(held, hub.space).equals(table_of(state, hub.space))
    slots = held.ids.in_use()
    assert held.movers.of(slots).tobytes() == state.movers.of(slots).tobytes()
    answers = [relevant_now(each, each.index.subscriptions(slots)) for each in (held, state)]
    assert answers[0].arrival.tolist() == answers[1].arrival.tolist()
    assert rows(again)
