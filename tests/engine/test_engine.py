"""The engine: changes and messages in one order."""

import numpy as np
import pyarrow as pa
import pytest

from nearcast import _ids, engine
from nearcast.deliveries import Deliveries
from nearcast.engine import Advance, Move, Publish, State, Subscribe, Unsubscribe, UseVocabulary
from nearcast.errors import InvalidColumns, InvalidSubscription, UnknownSubscription
from nearcast.geo import Box, Circle, Regions, Space
from nearcast.indexes import create
from nearcast.tables import Rejected, read_messages, read_subscriptions
from nearcast.text import Vocabulary
from nearcast.window import Window

PLANE = Space.plane()


@pytest.fixture
def state():
    return State(create("trigger", PLANE))


def subscribe(state, **columns):
    rejected = Rejected()
    found = read_subscriptions(pa.table(columns), PLANE, state.words, state.analyzer, rejected=rejected)
    assert len(rejected) == 0
    return Subscribe(found)


def publish(state, ids, texts, **columns):
    n = len(ids)
    table = pa.table({"id": ids, "text": texts, "x": [0.0] * n, "y": [0.0] * n, **columns})
    weights = state.weights if state.needs_totals else None
    window_words = None if state.topk is None else state.topk.word_table
    options = {"weights": weights, "window_words": window_words, "rejected": Rejected()}
    return Publish(read_messages(table, PLANE, state.words, state.analyzer, **options))


def step(state, items):
    """Apply items in order; return all they deliver."""
    return Deliveries([piece for item in items for piece in engine.step(state, item)])


def rows(deliveries):
    return [(d.message_id, d.subscription_id) for d in deliveries]


def test_each_message_sees_the_changes_before_it_and_none_after(state):
    """Order is the order of the items, and the steps are numbered through."""
    two = subscribe(state, id=["a", "b"], query=["w", "w"])
    found = step(
        state,
        [
            publish(state, [0], ["w"]),
            two,
            publish(state, [1], ["w"]),
            Unsubscribe(pa.array(["a"])),
            publish(state, [2], ["w"]),
            Move(pa.array(["b"]), Regions.from_shapes([Box(5, 5, 6, 6)], PLANE)),
            publish(state, [3], ["w"]),
        ],
    )

    assert rows(found) == [(1, "a"), (1, "b"), (2, "b")]
    assert [d.delivery_id for d in found] == ["1:1:+:a", "1:1:+:b", "2:2:+:b"]
    assert state.next_step == 4


def test_a_batch_cut_in_two_delivers_the_same(state):
    """Where a batch ends is nobody's business: ids of deliveries included."""
    other = State(create("trigger", PLANE))
    for each in (state, other):
        step(each, [subscribe(each, id=["a", "b"], query=["w", "v"], expires=["2026-01-01T00:00:02Z", None])])
    times = [f"2026-01-01T00:00:0{i}Z" for i in range(5)]
    texts = ["w v"] * 5
    whole = step(state, [publish(state, list(range(5)), texts, time=times)])
    halves = [
        *step(other, [publish(other, [0, 1, 2], texts[:3], time=times[:3])]),
        *step(other, [publish(other, [3, 4], texts[3:], time=times[3:])]),
    ]

    assert list(whole) == halves
    assert rows(whole)[:4] == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    assert len(whole) == 7


def test_advance_forgets_what_expires(state):
    """Time may pass without a message."""
    step(state, [subscribe(state, id=["a"], query=["w"], expires=["2026-01-01T00:00:00Z"])])
    moment = np.datetime64("2026-01-01T00:00:00", "us").astype(np.int64)
    step(state, [Advance(int(moment) - 1)])
    assert len(state.index) == 1
    found = step(state, [Advance(int(moment)), publish(state, [1], ["w"])])

    assert rows(found) == []
    assert len(state.index) == len(state.ids) == 0


def test_a_subscription_that_is_late_is_never_heard(state):
    """One that has expired when it comes is stored for nobody."""
    step(state, [publish(state, [0], [""], time=["2026-01-01T00:00:05Z"])])
    found = step(
        state,
        [
            subscribe(state, id=["a", "b"], query=["w", "w"], expires=["2026-01-01T00:00:05Z", "2026-01-01T00:00:06Z"]),
            publish(state, [1], ["w"]),
        ],
    )

    assert rows(found) == [(1, "b")]


def test_unknown_ids_are_named(state):
    """A change to nobody says whom it looked for, and changes nobody."""
    step(state, [subscribe(state, id=["a"], query=["w"])])
    with pytest.raises(UnknownSubscription, match="'nobody'"):
        step(state, [Unsubscribe(pa.array(["a", "nobody"]))])

    assert len(state.index) == 1


# --- scored subscriptions ---------------------------------------------------------------------------------------


@pytest.fixture
def scored():
    return State(create("scan", PLANE))


def similar(state, ids, queries, **columns):
    n = len(ids)
    usual = {
        "kind": ["similar"] * n,
        "x": [0.0] * n,
        "y": [0.0] * n,
        "threshold": [0.5] * n,
        "max_distance": [10.0] * n,
    }
    return subscribe(state, id=ids, query=queries, **usual, **columns)


def weighed_terms(state, monkeypatch):
    """Return the list to which every weighing adds the first term and how many there are."""
    calls, set_weights = [], state.index.set_weights
    monkeypatch.setattr(
        state.index,
        "set_weights",
        lambda weights, first=0: (calls.append((first, len(weights))), set_weights(weights, first)),
    )
    return calls


def test_only_new_words_are_weighed_and_only_where_something_is_scored(scored, monkeypatch):
    """Boolean words wait until a scored subscription comes; then each word is weighed once."""
    calls = weighed_terms(scored, monkeypatch)
    step(scored, [subscribe(scored, id=["w"], query=["a b"])])
    assert [] == calls
    step(scored, [similar(scored, ["s"], ["b c"])])
    step(scored, [similar(scored, ["t"], ["c b"])])
    step(scored, [subscribe(scored, id=["x"], query=["d"]), similar(scored, ["u"], ["e"])])
    assert [(0, 3), (3, 2)] == calls


def test_another_vocabulary_weighs_all_words_at_once(scored, monkeypatch):
    calls = weighed_terms(scored, monkeypatch)
    vocabulary = Vocabulary()
    vocabulary.learn_tokens([["a"], ["a"]])
    step(scored, [UseVocabulary(vocabulary)])
    assert ([], vocabulary.version) == (calls, scored.vocabulary.version)
    step(scored, [similar(scored, ["s"], ["a b"])])
    step(scored, [UseVocabulary(vocabulary)])
    assert [(0, 2), (0, 2)] == calls
    vocabulary.learn_tokens([["b"]])
    assert scored.vocabulary.version != vocabulary.version


def test_messages_need_totals_once_a_function_reads_all_words(scored):
    """Whoever forgets them is told, and no wrong score is delivered."""
    step(scored, [similar(scored, ["s"], ["a"])])
    bare = publish(scored, [1], ["a b"])
    assert (False, None) == (scored.needs_totals, bare.messages.totals)
    step(scored, [similar(scored, ["d"], ["a"], similarity=["dice"])])
    assert scored.needs_totals
    with pytest.raises(InvalidColumns, match="totals"):
        step(scored, [bare])
    found = step(scored, [publish(scored, [2], ["a b"])])
    assert [("s", 1.0), ("d", 0.5 * 2 / 3 + 0.5)] == [(d.subscription_id, d.score) for d in found]


def test_totals_count_every_word_of_a_message_once(scored):
    """Only the length of the vector knows how often each is said: 2² + 2² + 1²."""
    step(scored, [similar(scored, ["j"], ["a"], similarity=["jaccard"])])
    messages = publish(scored, [1, 2, 3], ["a b a", "", None], terms=[["c", "b"], [], None]).messages
    assert [[3.0, 3.0, 9.0], [0.0] * 3, [0.0] * 3] == messages.totals.tolist()
    assert [0, -1, 0, -1, -1, -1] == messages.terms.tolist()


def test_a_scored_subscription_moves_to_points_only(scored):
    """One that cannot move stops the whole move, boolean ones included."""
    step(scored, [similar(scored, ["s"], ["a"]), subscribe(scored, id=["w"], query=["a"])])
    there = Box(50, 50, 50, 50)
    for wrong in (Circle(0, 0, 5), Box(0, 0, 1, 0), None):
        with pytest.raises(InvalidSubscription, match="'s' is scored by the distance to a point"):
            step(scored, [Move(pa.array(["w", "s"]), Regions.from_shapes([there, wrong], PLANE))])
    assert [(1, "s"), (1, "w")] == rows(step(scored, [publish(scored, [1], ["a"])]))
    step(scored, [Move(pa.array(["w", "s"]), Regions.from_shapes([Circle(0, 0, 5), there], PLANE))])
    assert [(2, "s"), (2, "w")] == rows(step(scored, [publish(scored, [2], ["a"])]))
    assert 0.5 == next(iter(step(scored, [publish(scored, [3], ["a"])]))).score


@pytest.mark.parametrize("window", [None, Window.of(10)])
def test_what_expires_within_a_batch_is_named(monkeypatch, window):
    """Deliveries before the expiry keep the ids of their subscriptions, though these are dropped with many others."""
    monkeypatch.setattr(_ids, "SPARE_KEYS", 0)
    state = State(create("trigger", PLANE), window=window)
    step(state, [subscribe(state, id=["a", "b"], query=["ramen"] * 2, expires=["2026-01-01T00:00:05Z"] * 2)])
    times = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:06Z"]
    found = step(state, [publish(state, [1, 2], ["ramen", "beer"], time=times)])

    assert len(state.ids) == 0
    assert [(1, "a"), (1, "b")] == rows(found)
    assert ["a", "b"] == found.to_table()["subscription_id"].to_pylist()
    names = found.to_table(delivery_ids=True)["delivery_id"].to_pylist()
    assert ["a", "b"] == [name.split(":")[-1] for name in names]
