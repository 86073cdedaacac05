"""Explanations of scores: every number is that of the match, and whatever is said to help does help."""

import json
import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast import Hub, Message, Similar, Vocabulary
from nearcast.explain.score import _rounded_down
from nearcast.indexes import available
from nearcast.similarity import SIMILARITY_NAMES

INDEXES = [info.name for info in available() if "similar" in info.kinds]
VOCABULARY = Vocabulary()
VOCABULARY.learn_tokens([["tea"], ["tea", "ramen"], ["milk"]])


def asked(text, place=(0, 0), index="scan", space="plane", **more):
    """Return the explanation of a message for one subscription, and whether it was delivered with which score."""
    hub = Hub(space, index=index, max_distance=10)
    hub.subscribe(Similar("s", **{"query": "ramen tea", "place": (0, 0), "threshold": 0.5, **more}))
    message = Message("m", text, place)
    delivered = [d.score for d in hub.publish(message)]
    return hub.explain(message, "s"), delivered


def step_of(explanation, name):
    (found,) = (step for step in explanation.steps if step.name == name)
    return found


@pytest.mark.parametrize(
    ("name", "shown", "text"),
    [
        ("tsim", "tsim 1 / 2 = 0.5", 1 / 2),
        ("overlap", "overlap 1 / 2 = 0.5", 1 / 2),
        ("jaccard", "jaccard 1 / (2 + 4 - 1) = 0.2", 1 / 5),
        ("dice", "dice 2 · 1 / (2 + 4) = 0.3333", 1 / 3),
        ("cosine", "cosine 1 / √(2 · 4) = 0.3536", 1 / math.sqrt(8)),
    ],
)
def test_words_are_explained_by_the_function_and_its_parts(name, shown, text):
    found, _ = asked("tea with milk please", similarity=name)
    words = step_of(found, "words")
    assert f"'tea' in common, without 'ramen': {shown}" == words.detail
    assert (None, {"text": text}) == (words.passed, words.values)


def test_a_match_shows_its_score():
    found, (score,) = asked("tea", (4, 0), threshold=0.3, text_weight=0.25)
    assert (True, {"distance": 4.0, "near": 0.6}) == (found.matched, step_of(found, "place").values)
    assert "4 away, max_distance 10: near 0.6" == step_of(found, "place").detail
    assert "0.25 · 0.5 + 0.75 · 0.6 = 0.575 >= threshold 0.3" == step_of(found, "score").detail == found.reason
    assert {"score": score, "threshold": 0.3} == step_of(found, "score").values


def test_a_miss_says_what_would_do():
    found, delivered = asked("tea", (6, 0), threshold=0.6)
    assert (False, []) == (found.matched, delivered)
    assert (
        "0.5 · 0.5 + 0.5 · 0.4 = 0.45 < threshold 0.6;"
        " would match if threshold <= 0.45, or within 3, or with the word 'ramen' as well" == found.reason
    )


def test_on_the_earth_lengths_are_metres():
    hub = Hub("earth", index="scan", max_distance=2000)
    hub.subscribe(Similar("s", "ramen tea", (13.4, 52.5), threshold=0.6))
    found = hub.explain(Message("m", "tea", (13.4, 52.512)), "s")
    assert "1,334 m away, max_distance 2,000 m: near 0.3328" == step_of(found, "place").detail
    assert found.reason.endswith("threshold <= 0.41, or within 600 m, or with the word 'ramen' as well")


@pytest.mark.parametrize(
    ("text", "place", "more", "ending"),
    [
        ("tea", (99, 0), {"threshold": 0.9}, "= 0.25 < threshold 0.9; would match if threshold <= 0.25"),
        ("milk", (99, 0), {"threshold": 0.9}, "0.5 · 0 + 0.5 · 0 = 0 < threshold 0.9"),
        ("tea", (1, 0), {"threshold": 0.75}, "threshold <= 0.7, or on the spot, or with the word 'ramen' as well"),
        ("milk", (0, 0), {"threshold": 0.7}, "threshold <= 0.5, or with one of the words 'ramen', 'tea' as well"),
        ("milk", (0, 0), {"threshold": 0.9, "text_weight": 1}, "0 · 1 = 0 < threshold 0.9"),
        ("tea", (50, 0), {"text_weight": 0, "threshold": 0.5}, "= 0 < threshold 0.5; would match if within 5"),
        ("tea", (9.996, 0), {"text_weight": 0}, "would match if threshold <= 0.0003, or within 5"),
    ],
)
def test_only_what_would_do_alone_is_named(text, place, more, ending):
    found, delivered = asked(text, place, **more)
    assert [] == delivered
    assert found.reason.endswith(ending)


def test_an_empty_query_asks_for_no_word():
    found, _ = asked("tea", (6, 0), query="", text_weight=0)
    assert "no word is asked for: tsim 0" == step_of(found, "words").detail


def test_scores_next_to_the_threshold_are_shown_in_full():
    found, _ = asked("ramen tea", (0, 0), threshold=math.nextafter(0.75, 1), text_weight=0.75, max_distance=1e-9)
    assert found.matched
    near, _ = asked("ramen tea", (5, 0), threshold=math.nextafter(0.75, 1))
    assert "= 0.75 < threshold 0.7500000000000001; would match if threshold <= 0.75" in near.reason


def test_long_lists_of_words_are_cut():
    found, _ = asked("a b", query=" ".join(f"w{i}" for i in range(30)) + " a b", threshold=0.9)
    assert "'a', 'b' in common, without 'w0'" in step_of(found, "words").detail
    assert "and 20 more" in step_of(found, "words").detail


@pytest.mark.parametrize("index", INDEXES)
def test_the_index_has_its_say(index):
    found, _ = asked("tea", (1, 0), index=index)
    lines = [step for step in found.steps if step.name == "index"]
    assert lines
    assert all(step.passed is None for step in lines)


def test_json_has_the_numbers_of_each_step():
    found, _ = asked("tea", (6, 0), threshold=0.6)
    steps = json.loads(json.dumps(found.to_dict()))["steps"]
    assert ["words", "place", "score", "index"] == [step["name"] for step in steps]
    assert [["text"], ["distance", "near"], ["score", "threshold"], []] == [list(step)[3:] for step in steps]
    assert (0.45, 0.6) == (steps[2]["score"], steps[2]["threshold"])


def test_expiry_is_a_step_of_its_own():
    hub = Hub("plane", index="scan", max_distance=10)
    hub.subscribe(Similar("s", "tea", (0, 0), threshold=0.5, expires="2026-05-01T09:00:00Z"))
    found = hub.explain(Message("m", "tea", (0, 0), time="2026-05-01T10:00:00Z"), "s")
    assert (False, True, False) == (found.matched, step_of(found, "score").passed, step_of(found, "expiry").passed)


@given(st.floats(1e-12, 1.0))
def test_a_threshold_is_rounded_down(score):
    assert 0 < float(_rounded_down(score)) <= score


words = st.lists(st.sampled_from(["tea", "ramen", "milk", "bar", "hot"]), min_size=1, max_size=4)


@given(
    query=words,
    text=words,
    away=st.floats(0, 12),
    threshold=st.floats(0.01, 1),
    weight=st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0]),
    name=st.sampled_from(SIMILARITY_NAMES),
    farthest=st.sampled_from([0.01, 1.0, 10.0, 12345.0]),
)
@settings(max_examples=150)
def test_whatever_would_do_does(query, text, away, threshold, weight, name, farthest):
    """Each change named lets the message through, and the verdict is always that of the hub."""

    def delivered(terms, x, least=threshold):
        hub = Hub("plane", index="scan", max_distance=farthest, vocabulary=VOCABULARY)
        wish = Similar("s", " ".join(query), (0, 0), threshold=least, text_weight=weight, similarity=name)
        hub.subscribe(wish)
        message = Message("m", place=(x, 0), terms=terms)
        return [d.score for d in hub.publish(message)], hub.explain(message, "s")

    away *= farthest / 10
    score, found = delivered(text, away)
    assert found.matched == bool(score)
    if score:
        assert {"score": score[0], "threshold": threshold} == step_of(found, "score").values
        return
    hint = found.reason.partition("would match if ")[2]
    lower = re.search(r"threshold <= ([\d.e-]+)", hint)
    if lower:
        assert delivered(text, away, float(lower[1]))[0]
    nearer = re.search(r"within ([\d.e+-]+)", hint)
    if nearer or "on the spot" in hint:
        assert delivered(text, float(nearer[1]) if nearer else 0.0)[0]
    named = set(re.findall(r"'(\w+)'", hint))
    for word in set(query) - set(text):
        assert bool(delivered([*text, word], away)[0]) == (word in named)
