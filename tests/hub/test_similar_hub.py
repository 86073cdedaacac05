"""Scored subscriptions through the hub: what is delivered, with which score, whichever way a message comes in."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast import Analyzer, Box, Circle, Hub, Message, Similar, Vocabulary, Within
from nearcast.engine.value_columns import message_columns
from nearcast.errors import InvalidInput, InvalidRegion, InvalidSubscription, UnknownSubscription
from nearcast.geo import Space
from nearcast.indexes import available
from nearcast.similarity import SIMILARITY_NAMES

#: Every index that holds both kinds.
INDEXES = [info.name for info in available() if {"within", "similar"} <= set(info.kinds)]
BERLIN = (13.4, 52.5)


@pytest.fixture(params=INDEXES)
def new_hub(request):
    """Make hubs on a plane, where distances are plain to see."""
    return lambda space="plane", **more: Hub(space, index=request.param, **{"max_distance": 10, **more})


def scores(hub, text, place=(0, 0), **more):
    """Return who gets a message with which score, after a look whether all ways agree on it."""
    message = Message("m", text, place, **more)
    one = [(d.subscription_id, d.score) for d in hub.publish(message)]
    many = [(d.subscription_id, d.score) for d in hub.publish_many([message])]
    assert one == many
    for subscription_id, _ in one:
        assert hub.explain(message, subscription_id).matched
    return dict(one)


def learned(*documents):
    vocabulary = Vocabulary()
    vocabulary.learn_tokens([document.split() for document in documents])
    return vocabulary


# --- the formula ------------------------------------------------------------------------------------------------


def test_words_and_nearness_are_weighed(new_hub):
    hub = new_hub()
    hub.subscribe(Similar("s", "ramen noodles", (0, 0), threshold=0.1, text_weight=0.25))
    assert {"s": 0.25 * 0.5 + 0.75 * 0.6} == scores(hub, "ramen bar", (4, 0))
    assert {"s": 0.25 * 1.0 + 0.75 * 0.5} == scores(hub, "noodles, ramen!", (3, 4))
    assert {"s": 0.25} == scores(hub, "ramen noodles", (400, 0))


def test_the_threshold_itself_is_reached(new_hub):
    hub = new_hub()
    hub.subscribe_many([Similar(i, "ramen", (0, 0), threshold=t) for i, t in enumerate([0.75, np.nextafter(0.75, 1)])])
    assert {0: 0.75} == scores(hub, "ramen", (5, 0))


def test_nearness_alone_at_text_weight_zero(new_hub):
    """No common word is needed, and the query may be empty."""
    hub = new_hub()
    hub.subscribe(Similar("empty", "", (0, 0), threshold=0.5, text_weight=0))
    hub.subscribe(Similar("words", "ramen", (0, 0), threshold=0.5, text_weight=0))
    assert {"empty": 0.8, "words": 0.8} == scores(hub, "tea", (2, 0))
    assert {"empty": 0.8, "words": 0.8} == scores(hub, None, (2, 0))
    assert {} == scores(hub, "ramen", (6, 0))


def test_words_alone_at_text_weight_one(new_hub):
    """Any distance will do."""
    hub = new_hub()
    hub.subscribe(Similar("s", "ramen noodles", (0, 0), threshold=0.5, text_weight=1))
    assert {"s": 0.5} == scores(hub, "ramen", (1e9, -1e9))
    assert {} == scores(hub, "tea", (0, 0))


def test_no_word_is_needed_up_to_one_minus_text_weight(new_hub):
    hub = new_hub()
    hub.subscribe(Similar("s", "ramen", (0, 0), threshold=0.5, text_weight=0.5))
    assert {"s": 0.5} == scores(hub, "tea", (0, 0))
    assert {} == scores(hub, "tea", (0.1, 0))


@pytest.mark.parametrize("name", SIMILARITY_NAMES)
def test_threshold_one_takes_equal_words_on_the_spot(new_hub, name):
    """Equal sets score exactly 1 in every function, in whatever order and how often they are written."""
    hub = new_hub(vocabulary=learned("a b", "b c", "c d e", "e f g"))
    hub.subscribe(Similar("s", "g a b c d e f", (0, 0), threshold=1, text_weight=0.3, similarity=name))
    assert {"s": 1.0} == scores(hub, "f e d c b a g f f", (0, 0))
    assert {} == scores(hub, "f e d c b a", (0, 0))


def test_repeated_words_count_once(new_hub):
    hub = new_hub()
    for name in SIMILARITY_NAMES:
        hub.subscribe(Similar(name, "tea tea ramen tea", (0, 0), threshold=0.01, text_weight=1, similarity=name))
    once = scores(hub, "tea bar")
    assert once == scores(hub, "tea bar tea bar tea", terms=["bar", "tea"])
    assert {"tsim": 1 / 2, "overlap": 1 / 2, "jaccard": 1 / 3, "dice": 2 / 4, "cosine": 1 / 2} == once


def test_an_empty_message_has_no_text_score(new_hub):
    hub = new_hub()
    for name in SIMILARITY_NAMES:
        hub.subscribe(Similar(name, "tea", (0, 0), threshold=0.5, similarity=name))
    assert dict.fromkeys(SIMILARITY_NAMES, 0.5) == scores(hub, None) == scores(hub, "?!")


def test_words_of_no_subscription_count_in_the_union(new_hub):
    """For jaccard, dice and cosine a message is all its words, whoever asks for them."""
    hub = new_hub()
    for name in SIMILARITY_NAMES:
        hub.subscribe(Similar(name, "tea ramen", (0, 0), threshold=0.01, text_weight=1, similarity=name))
    expected = {"tsim": 0.5, "overlap": 0.5, "jaccard": 1 / 5, "dice": 2 / 6, "cosine": 1 / math.sqrt(8)}
    assert expected == scores(hub, "tea with milk nobody") == scores(hub, "tea with milk nobody", (0, 0, 5, 5))


def test_a_rectangle_is_as_far_as_its_nearest_point(new_hub):
    hub = new_hub()
    hub.subscribe(Similar("s", "", (0, 0), threshold=0.1, text_weight=0))
    assert {"s": 1.0} == scores(hub, "", (-1, -1, 1, 1))
    assert {"s": 0.5} == scores(hub, "", (3, 4, 90, 90))


def test_on_the_earth_distances_are_metres_over_the_dateline_too(new_hub):
    hub = new_hub("earth", max_distance=100_000)
    hub.subscribe(Similar("fiji", "", (179.9, 0), threshold=0.5, text_weight=0))
    away = Space.earth().distance(179.9, 0, -179.9, 0)
    assert {"fiji": 1 - away / 100_000} == scores(hub, "", (-179.9, 0))
    assert {"fiji": 1.0} == scores(hub, "", (170, -1, -170, 1))


# --- weights ----------------------------------------------------------------------------------------------------


def test_rare_words_weigh_more(new_hub):
    vocabulary = learned("tea", "tea", "tea ramen")
    hub = new_hub(vocabulary=vocabulary)
    hub.subscribe(Similar("s", "tea ramen", (0, 0), threshold=0.01, text_weight=1))
    tea, ramen = vocabulary.idf(["tea", "ramen"])
    assert {"s": tea / (ramen + tea)} == scores(hub, "tea")
    assert {"s": ramen / (ramen + tea)} == scores(hub, "ramen")


def test_an_unknown_word_is_in_no_document(new_hub):
    """It weighs as much as a word can, in the subscription and in the message."""
    vocabulary = learned("tea", "tea")
    hub = new_hub(vocabulary=vocabulary)
    hub.subscribe(Similar("s", "tea xyzzy", (0, 0), threshold=0.01, text_weight=1))
    hub.subscribe(Similar("j", "tea xyzzy", (0, 0), threshold=0.01, text_weight=1, similarity="jaccard"))
    tea, unknown = 1.0, math.log(3) + 1
    found = scores(hub, "tea plugh")
    assert {"s", "j"} == set(found)
    assert found["s"] == pytest.approx(tea / (tea + unknown))
    assert found["j"] == pytest.approx(tea / (tea + 2 * unknown))


def weighed(tmp_path, **weights):
    table = pa.table({"term": list(weights), "df": [0] * len(weights), "weight": list(weights.values())})
    path = tmp_path / "vocabulary.parquet"
    pq.write_table(table.replace_schema_metadata({"nearcast.documents": "0"}), path)
    return Vocabulary.from_parquet(path)


def test_given_weights_take_the_place_of_idf(new_hub, tmp_path):
    hub = new_hub(vocabulary=weighed(tmp_path, tea=3.0, ramen=1.0, milk=None))
    for name in SIMILARITY_NAMES:
        hub.subscribe(Similar(name, "tea ramen", (0, 0), threshold=0.01, text_weight=1, similarity=name))
    expected = {"tsim": 0.75, "overlap": 0.5, "jaccard": 3 / 5, "dice": 0.5, "cosine": 0.5}
    assert expected == scores(hub, "tea milk")


def test_words_that_weigh_nothing_score_nothing(new_hub, tmp_path):
    """A total of 0 gives text 0; functions that count words do not care."""
    hub = new_hub(vocabulary=weighed(tmp_path, tea=0.0))
    for name in SIMILARITY_NAMES:
        hub.subscribe(Similar(name, "tea", (0, 0), threshold=0.5, similarity=name))
    assert {"tsim": 0.5, "overlap": 1.0, "jaccard": 0.5, "dice": 1.0, "cosine": 1.0} == scores(hub, "tea")
    assert {"overlap": 0.5, "dice": 0.5, "cosine": 0.5} == scores(hub, "tea", (99, 0))


def test_use_vocabulary_changes_answers_and_version_at_once(new_hub):
    hub = new_hub()
    hub.subscribe(Similar("s", "tea ramen", (0, 0), threshold=0.5, text_weight=1))
    hub.subscribe(Similar("j", "tea ramen", (0, 0), threshold=0.33, text_weight=1, similarity="jaccard"))
    assert {"s": 0.5, "j": 1 / 3} == scores(hub, "tea milk")
    before = hub.stats()["vocabulary_version"]
    vocabulary = learned("tea milk", "tea")
    hub.use_vocabulary(vocabulary)
    assert {} == scores(hub, "tea milk")
    assert {"s", "j"} == set(scores(hub, "ramen"))
    (first, _) = hub.publish(Message("m", "ramen", (0, 0)))
    assert before != vocabulary.version == first.version == hub.stats()["vocabulary_version"]
    hub.use_vocabulary(Vocabulary())
    assert {"s": 0.5, "j": 1 / 3} == scores(hub, "tea milk")
    assert before == hub.stats()["vocabulary_version"]


def test_a_vocabulary_is_taken_as_it_is_when_given(new_hub):
    """Later learning changes nothing until it is given again; words subscribed later are weighed by it."""
    vocabulary = learned("tea", "tea", "ramen")
    hub = new_hub(vocabulary=vocabulary)
    vocabulary.learn_tokens([["ramen"]] * 50)
    hub.subscribe(Similar("s", "tea ramen", (0, 0), threshold=0.01, text_weight=1))
    old = learned("tea", "tea", "ramen")
    tea, ramen = old.idf(["tea", "ramen"])
    assert {"s": tea / (ramen + tea)} == scores(hub, "tea")
    assert old.version == hub.stats()["vocabulary_version"]
    hub.use_vocabulary(vocabulary)
    tea, ramen = vocabulary.idf(["tea", "ramen"])
    assert {"s": tea / (ramen + tea)} == scores(hub, "tea")


def test_use_vocabulary_before_anything_is_scored(new_hub):
    hub = new_hub()
    hub.subscribe(Within("w", "tea"))
    hub.use_vocabulary(learned("tea", "tea"))
    hub.subscribe(Similar("s", "tea ramen", (0, 0), threshold=0.01, text_weight=1))
    assert scores(hub, "tea")["s"] == pytest.approx(1 / (2 + math.log(3)))


# --- max_distance -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "hub_distance", "bounds", "expected"),
    [(4, 8, (0, 0, 30, 40), 0.5), (None, 8, (0, 0, 30, 40), 0.75), (None, None, (0, 0, 30, 40), 0.96)],
)
def test_max_distance_is_its_own_else_the_hubs_else_the_diagonal(new_hub, own, hub_distance, bounds, expected):
    hub = new_hub(Space.plane(bounds), max_distance=hub_distance)
    hub.subscribe(Similar("s", "", (0, 0), threshold=0.01, text_weight=0, max_distance=own))
    assert len(hub.subscribe_many([Similar("t", "", (0, 0), threshold=0.01, text_weight=0, max_distance=own)])) == 0
    assert {"s": expected, "t": expected} == scores(hub, "", (2, 0))


def test_without_any_max_distance_a_subscription_is_refused(new_hub):
    hub = new_hub(max_distance=None)
    value = Similar("s", "tea", (0, 0), threshold=0.5)
    with pytest.raises(InvalidSubscription, match="max_distance is not given and the hub has none") as caught:
        hub.subscribe(value)
    assert "max_distance" == caught.value.field
    (row,) = hub.subscribe_many([value])
    assert ("max_distance", 0) == (row.field, len(hub))


@pytest.mark.parametrize("given", [0, -1, math.inf, math.nan, "far", True])
def test_the_hubs_max_distance_is_above_0_and_finite(given):
    with pytest.raises(InvalidInput, match="expected a finite number above 0"):
        Hub(max_distance=given)


def test_stats_tell_max_distance():
    assert 2500.0 == Hub(max_distance=2500).stats()["max_distance"]
    assert Hub().stats()["max_distance"] is None


# --- life -------------------------------------------------------------------------------------------------------


def test_a_word_that_is_none_to_the_analyzer_is_no_word():
    hub = Hub("plane", index="scan", analyzer=Analyzer("en", stop_words=True), max_distance=10)
    with pytest.raises(InvalidSubscription, match=r"without words the score never reaches 0\.9"):
        hub.subscribe(Similar("s", "the", (0, 0), threshold=0.9))
    hub.subscribe(Similar("s", "the", (0, 0), threshold=0.5))
    assert {"s": 0.5} == scores(hub, "the")


def test_a_place_outside_the_earth_is_refused():
    with pytest.raises(InvalidSubscription, match="latitude 91"):
        Hub(index="scan", max_distance=5).subscribe(Similar("s", "tea", (0, 91), threshold=0.5))


def test_moving_takes_the_place_along(new_hub):
    hub = new_hub()
    hub.subscribe(Similar("s", "tea", (0, 0), threshold=0.9))
    for place in ((100, 0), [100, 0], np.array([100.0, 0.0]), {"type": "Point", "coordinates": [100, 0]}):
        hub.move("s", (7, 7))
        assert {} == scores(hub, "tea", (100, 0))
        hub.move("s", place)
        assert {"s": 1.0} == scores(hub, "tea", (100, 0))


@pytest.mark.parametrize("place", [Box(0, 0, 1, 1), Circle(0, 0, 5), (0, 0, 1, 1)])
def test_moving_to_a_region_is_refused(new_hub, place):
    """A score needs the distance to a point; the subscription stays where it was."""
    hub = new_hub()
    hub.subscribe(Similar("s", "tea", (0, 0), threshold=0.9))
    with pytest.raises(InvalidSubscription, match=r"'s' is scored by the distance to a point; move it to a point"):
        hub.move("s", place)
    assert {"s": 1.0} == scores(hub, "tea")


def test_moving_off_the_earth_is_refused(new_hub):
    hub = new_hub("earth")
    hub.subscribe(Similar("s", "tea", (0, 0), threshold=0.9))
    with pytest.raises(InvalidRegion, match="beyond 180"):
        hub.move("s", (190, 0))
    assert {"s": 1.0} == scores(hub, "tea")


def test_replacing_one_kind_by_the_other_and_back(new_hub):
    """The id keeps its place in the order of registration."""
    hub = new_hub()
    within, similar = Within("a", "tea", Box(50, 50, 60, 60)), Similar("a", "tea", (0, 0), threshold=0.9)
    hub.subscribe(within)
    hub.subscribe(Within("b", "tea"))
    assert {"a": 1.0, "b": 1.0} == scores(hub, "tea", (55, 55))
    for _ in range(3):
        hub.subscribe(similar)
        assert [("a", 0.95), ("b", 1.0)] == list(scores(hub, "tea", (1, 0)).items())
        assert {"b": 1.0} == scores(hub, "tea", (55, 55))
        hub.subscribe(within)
        assert {"b": 1.0} == scores(hub, "tea", (1, 0))
        assert [("a", 1.0), ("b", 1.0)] == list(scores(hub, "tea", (55, 55)).items())
    assert 2 == len(hub)


def test_unsubscribing_and_expiry(new_hub):
    hub = new_hub()
    hub.subscribe(Similar("gone", "tea", (0, 0), threshold=0.5))
    hub.subscribe(Similar("late", "tea", (0, 0), threshold=0.5, expires="2026-05-01T09:00:00Z"))
    hub.unsubscribe("gone")
    with pytest.raises(UnknownSubscription):
        hub.unsubscribe("gone")
    assert {"late": 1.0} == scores(hub, "tea")
    assert {} == {d.subscription_id: 1 for d in hub.publish(Message(1, "tea", (0, 0), time="2026-05-01T09:00:00Z"))}
    assert 0 == len(hub)


def test_deliveries_carry_score_and_version(new_hub):
    hub = new_hub(vocabulary=learned("tea"))
    hub.subscribe_many([Similar("s", "tea", (0, 0), threshold=0.5), Within("w", "tea")])
    table = hub.publish_many([{"id": 1, "text": "tea", "x": 5, "y": 0}]).to_table()
    assert [("s", 0.75, None), ("w", 1.0, None)] == [
        (row["subscription_id"], row["score"], row["rank"]) for row in table.to_pylist()
    ]
    assert [learned("tea").version] * 2 == table["version"].to_pylist()


def test_totals_are_worked_out_only_where_they_are_needed(new_hub):
    """A hub without jaccard, dice and cosine does not count the words of every message; with one it does."""
    hub = new_hub()
    hub.subscribe(Similar("s", "tea", (0, 0), threshold=0.5))
    assert not hub._state.needs_totals
    assert message_columns(hub._state, Message(1, "tea", (0, 0)), is_published=True).totals is None
    hub.subscribe(Similar("j", "tea", (0, 0), threshold=0.5, similarity="jaccard"))
    found = message_columns(hub._state, Message(1, "tea milk", (0, 0)), is_published=True)
    assert [[2.0, 2.0, 2.0]] == found.totals.tolist()


# --- all ways agree ---------------------------------------------------------------------------------------------

words = st.lists(st.sampled_from(["tea", "ramen", "milk", "bar", "hot"]), max_size=5)
points = st.tuples(st.integers(0, 12), st.integers(0, 12))
similar = st.builds(
    lambda query, place, threshold, weight, name: {
        "kind": "similar",
        "query": " ".join(query) or "tea",
        "x": place[0],
        "y": place[1],
        "threshold": threshold,
        "text_weight": weight,
        "similarity": name,
    },
    words,
    points,
    st.sampled_from([0.1, 0.25, 0.5, 0.75, 1.0]),
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    st.sampled_from(SIMILARITY_NAMES),
)
within = st.builds(lambda query: {"query": " AND ".join(query) or "tea"}, words)
posts = st.builds(
    lambda text, terms, place: {"text": " ".join(text), "terms": terms, "x": place[0], "y": place[1]},
    words,
    st.one_of(st.none(), words),
    points,
)


def naive_score(row, message, vocabulary):
    """Return the score by the definition, from sets of words, without a thought of speed."""
    mine, theirs = set(row["query"].split()), {*message["text"].split(), *(message["terms"] or ())}

    def weight(each):
        return sum(vocabulary.idf(sorted(each)).tolist())

    common = mine & theirs
    text = {
        "tsim": lambda: weight(common) / weight(mine),
        "overlap": lambda: len(common) / len(mine),
        "jaccard": lambda: weight(common) / weight(mine | theirs),
        "dice": lambda: 2 * len(common) / (len(mine) + len(theirs)),
        "cosine": lambda: len(common) / math.sqrt(len(mine) * max(len(theirs), 1)),
    }[row["similarity"]]()
    near = max(0, 1 - math.dist((row["x"], row["y"]), (message["x"], message["y"])) / 10)
    return row["text_weight"] * text + (1 - row["text_weight"]) * near


@pytest.mark.modes
@pytest.mark.parametrize("index", INDEXES)
@given(st.lists(st.one_of(similar, similar, within), max_size=6), st.lists(posts, min_size=1, max_size=5))
def test_publish_and_publish_many_follow_the_definition(index, subscriptions, messages):
    vocabulary = learned("tea ramen", "tea", "milk tea", "bar")
    hub = Hub("plane", index=index, max_distance=10, vocabulary=vocabulary)
    assert 0 == len(hub.subscribe_many([{"id": at, **row} for at, row in enumerate(subscriptions)]))
    values = [{"id": at, **row} for at, row in enumerate(messages)]
    many = [(d.message_id, d.subscription_id, d.score) for d in hub.publish_many(values)]
    single = [(d.message_id, d.subscription_id, d.score) for value in values for d in hub.publish(value)]
    assert single == many
    found = {(message, subscription): score for message, subscription, score in many}
    for at, message in enumerate(messages):
        for number, row in enumerate(subscriptions):
            if "kind" in row:
                score = naive_score(row, message, vocabulary)
                assert found.get((at, number), 0) == (pytest.approx(score) if (at, number) in found else 0)
                assert ((at, number) in found) == (score >= row["threshold"]) or score == pytest.approx(
                    row["threshold"]
                )
