"""Similar subscriptions through an index's life: removed, replaced, moved, numbered anew, asked in batches."""

import functools
import random
from dataclasses import replace

import numpy as np
import pytest

from contract.naive import Naive, as_lists, as_pairs
from contract.scored import LEAST, SCORED_FILLER, agree, filled, similar
from contract.worlds import EARTH, PLANE, point, random_weights, world
from nearcast.columns import Messages, ScoreParameters, Subscriptions
from nearcast.errors import UnknownSubscription
from nearcast.geo import Box, Regions
from nearcast.indexes import create
from nearcast.query import parse
from nearcast.testing import IndexActor
from nearcast.testing.values import point_box

pytestmark = pytest.mark.modes

HERE, UNIT = point(0, 0), Box(0, 0, 1, 1)
TEXT_ALONE = {"text_weight": 1.0, "threshold": LEAST}


# Changes


def test_equal_subscriptions_are_found_in_order_of_registration(new_scored):
    """Slots ascend, each once, with their own scores, whatever was replaced or moved in between."""
    index = new_scored(PLANE)
    slots = index.insert([similar("a b", threshold=0.5, max_distance=i + 1.0) for i in range(40)])
    index.replace(slots[5:7], [similar("b c", threshold=0.5)] * 2)
    index.move(slots[:3], [point_box(0.5, 0.0)] * 3)
    index.settle()
    index.replace([slots[30], slots[2]], [similar("a", threshold=0.9)] * 2)
    found = index.match([(["b", "a", "a"], HERE), (["a"], (0, 0, 5, 5))])
    assert [slots, slots] == as_lists(found)
    assert [0] * 40 + [1] * 40 == found.rows().tolist()
    assert [0.75, 0.875, 1.0] == found.score[:3].tolist()


def test_removed_ones_are_found_no_more(new_scored):
    """Removing takes a subscription out at once, the last one as well as one of many; its slot stays free."""
    index = new_scored(PLANE)
    naive = filled(index, [similar(), similar("a b", threshold=0.5), similar("b")])
    said = [(["a", "b"], HERE), (["b"], HERE)]
    assert [[0, 1, 2], [1, 2]] == agree(index, naive, said)
    for gone, expected in (([1], [[0, 2], [2]]), ([2], [[0], []]), ([0], [[], []])):
        index.remove(gone)
        naive.remove(gone)
        assert expected == agree(index, naive, said)
    last = 3 + len(SCORED_FILLER)
    assert [last] == index.insert([similar()]) == naive.insert([similar()])
    assert [[last], []] == agree(index, naive, said)


def test_an_emptied_index_matches_nothing(new_scored):
    """Removing everything leaves nothing behind, before and after merging."""
    index = new_scored(EARTH)
    index.remove(index.insert(SCORED_FILLER))
    assert [[]] == agree(index, Naive(EARTH), [(["filler0", "more0"], (-180, -90, 180, 90))])
    assert 0 == len(index.index)


def test_every_part_of_a_subscription_can_be_replaced(new_scored):
    """A replaced subscription keeps its slot and nothing else: words, weight, threshold, reach, function, place."""
    index = new_scored(PLANE)
    naive = filled(index, [similar("a b", threshold=0.5)] * 3)
    said = [(["a"], HERE), (["b", "x"], point(3, 0)), (["c"], point(8, 0)), ([], point(8, 0))]
    for other in (
        {"terms": ("c",)},
        {"terms": ("c", "b", "x")},
        {"text_weight": 0.0, "threshold": 0.7},
        {"text_weight": 1.0},
        {"threshold": 1.0},
        {"threshold": LEAST},
        {"max_distance": 3.0},
        {"max_distance": 1000.0},
        {"similarity": "jaccard"},
        {"similarity": "dice"},
        {"place": (8.0, 0.0)},
    ):
        for each in (index, naive):
            each.replace([1], [replace(similar("a b", threshold=0.5), **other)])
        found = agree(index, naive, said)
        assert 0 in found[0]
        assert 2 in found[0]


def test_moving_is_to_be_there(new_scored):
    """A moved subscription is found from its new place only, with the scores of that place; twice, and back."""
    index = new_scored(EARTH)
    naive = filled(index, [similar("a", threshold=0.9, max_distance=1e5)] * 2)
    said = [(["a"], HERE), (["a"], point(-179.99, 10)), (["a"], (179, 9, 180, 11)), (["a"], point(0, 90))]
    assert [[0, 1], [], [], []] == agree(index, naive, said)
    for there, expected in (
        ((179.99, 10), [[1], [0], [0], []]),
        ((-180, 10), [[1], [0], [0], []]),
        ((123, 90), [[1], [], [], [0]]),
        ((0, 0), [[0, 1], [], [], []]),
    ):
        for each in (index, naive):
            each.move([0], [point_box(*there)])
        assert expected == agree(index, naive, said)


def test_boolean_and_similar_take_turns_in_a_slot(new_mixed):
    """One slot holds either kind after the other, and the answer is always that of what it holds."""
    index = new_mixed(PLANE)
    within = (parse("a OR b NOT c"), UNIT)
    naive = filled(index, [similar("a b", threshold=0.5), within, similar("c", threshold=0.5), within])
    said = [(["a"], HERE), (["b", "c"], HERE), (["c"], point(5, 5)), ([], HERE)]
    assert [[0, 1, 2, 3], [0, 2], [2], [0, 2]] == agree(index, naive, said)
    for slots, wanted in (
        ([0, 1], [within, similar("a b", threshold=0.5)]),
        ([2, 3], [(parse("NOT a"), UNIT), similar("", text_weight=0.0, threshold=1.0)]),
        ([3, 0], [(parse("c"), None), similar("a", text_weight=1.0, threshold=1.0, similarity="cosine")]),
        ([1], [within]),
        ([1], [similar("b", similarity="dice", threshold=0.6)]),
    ):
        for each in (index, naive):
            each.replace(slots, wanted)
        agree(index, naive, said)
    for each in (index, naive):
        each.move([1, 2], [point_box(5, 5), Box(4, 4, 6, 6)])
    agree(index, naive, said)


def test_boolean_matches_have_the_score_one(new_mixed):
    """Both kinds stand in one list, in the order of their slots, each with its score."""
    index = new_mixed(PLANE)
    index.insert([(parse("a"), UNIT), similar("a b", threshold=0.5), (parse("NOT b"), UNIT), similar("a")])
    index.settle()
    assert [[(0, 1.0), (1, 0.75), (2, 1.0), (3, 1.0)]] == as_pairs(index.match([(["a"], HERE)]))


def test_renumbering_keeps_what_they_are(new_scored):
    """The live ones get the numbers from 0 on, in their order; what they want and score stays."""
    index = new_scored(PLANE)
    naive = filled(index, [similar("a b", threshold=0.5, max_distance=i + 1.0) for i in range(9)])
    said = [(["a"], point(0.5, 0)), (["a", "b"], HERE)]
    for _ in range(2):
        for each in (index, naive):
            each.remove([0, 3, 4])
        assert naive.renumber() == index.renumber()
        agree(index, naive, said)
        for each in (index, naive):
            each.replace([1], [similar("b")])
            each.move([2], [point_box(0.5, 0)])
        agree(index, naive, said)
    assert len(index.index) == index.index.n_slots


@pytest.mark.parametrize("verb", ["remove", "replace", "move", "subscriptions"])
def test_a_slot_that_is_not_alive(new_scored, verb):
    """Naming one raises UnknownSubscription and changes nothing, not even the slots named before it."""
    index = new_scored(PLANE)
    naive = filled(index, [similar()] * 3)
    for each in (index, naive):
        each.remove([2])
    calls = {
        "remove": lambda: index.remove([0, 2]),
        "replace": lambda: index.replace([0, 2], [similar("b")] * 2),
        "move": lambda: index.move([0, 2], [point_box(5, 5)] * 2),
        "subscriptions": lambda: index.index.subscriptions(np.array([0, 2], np.int32)),
    }
    with pytest.raises(UnknownSubscription, match="slot 2 "):
        calls[verb]()
    assert [[0, 1], []] == agree(index, naive, [(["a"], HERE), (["b"], HERE)])


def test_columns_without_words_that_no_message_reaches(new_scored):
    """A scored row may come to have no words and a threshold beyond its place: it matches nothing and harms nobody."""
    index = new_scored(PLANE)
    index.insert(SCORED_FILLER)
    regions = Regions.from_shapes([point_box(0, 0)] * 2, PLANE)
    scoring = ScoreParameters(
        np.array([0.5, 1.0]), np.array([0.6, 1.0]), np.array([1.0, 1.0]), np.array([0, 3], np.uint8)
    )
    columns = Subscriptions.of([0, 1, 2], [0, 0, 0], [], regions, kind=np.ones(2, np.uint8), scoring=scoring)
    index.index.insert(columns)
    index.settle()
    messages = Messages.of([0, 0, 1], [-1], [HERE, HERE], totals=[[0, 0, 0], [1, 1, 1]])
    assert [[], []] == as_lists(index.index.match(messages))


# Batches


@functools.cache
def batch_of(kinds, space):
    """Return subscriptions, messages, and what the first of them find by the definition."""
    wanted, said = world(7, space, 90, 66, kinds)
    naive = Naive(space)
    naive.reweigh(random_weights(random.Random(7)))
    naive.insert(wanted)
    return wanted, said, naive.match(said[:20])


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_a_batch_is_its_messages_one_by_one(new_scored, scored_kinds, space):
    """A large batch answers each message as alone, in message order, with every kind the index matches."""
    wanted, said, expected = batch_of(scored_kinds, space)
    index = new_scored(space)
    index.reweigh(random_weights(random.Random(7)))
    index.insert(wanted)
    index.settle()
    together = as_pairs(index.match(said))
    assert sum(map(len, together)) > 100
    assert [as_pairs(index.match([each]))[0] for each in said] == together
    assert expected == together[: len(expected)]


def test_long_messages_in_one_batch(new_scored, interpreted):
    """Messages of a hundred words, each of which many subscriptions have, are answered as one by one."""
    rng = random.Random(2)
    words = [f"word{i}" for i in range(120)]
    n, repeats = (20, 2) if interpreted else (100, 20)
    index = new_scored(PLANE)
    for i in range(repeats):
        nearby = {"place": (i, i % 3), "text_weight": 0.5, "threshold": 0.6, "max_distance": 5.0}
        index.insert([similar(f"{word} {rng.choice(words)}", **nearby) for word in words])
    index.settle()
    said = [(rng.sample(words, 100), point(rng.uniform(0, repeats), rng.uniform(0, 3))) for _ in range(n)]
    together = as_pairs(index.match(said))
    assert sum(map(len, together)) > 1000
    for row in rng.sample(range(n), 10):
        assert [together[row]] == as_pairs(index.match([said[row]]))
    scan = IndexActor(create("scan", PLANE), words=index.words)
    scan.index.insert(index.index.subscriptions(np.arange(len(index.index))))
    assert as_pairs(scan.match(said[:10])) == together[:10]


def test_threads_give_the_same_answer(new_scored, scored_kinds, interpreted):
    """`threads=2` and `threads=1` agree on a batch large enough to be shared."""
    wanted, said = world(11, EARTH, 80, 70 if interpreted else 300, scored_kinds)
    index = new_scored(EARTH)
    index.insert(wanted)
    index.settle()
    index.insert(wanted[:5])
    messages = index.messages(said * (1 if interpreted else 14))
    found = index.index.match(messages, threads=2)
    assert index.index.match(messages, threads=1) == found
    assert as_pairs(index.match(said)) == as_pairs(found)[-len(said) :]


def test_more_matches_than_the_first_room_holds(new_scored, interpreted):
    """Tens of thousands of matches in one call come out whole, with their scores."""
    n = 50 if interpreted else 700
    index = new_scored(PLANE)
    slots = index.insert([similar("a b", threshold=0.5, max_distance=i + 1.0) for i in range(n)])
    slots += index.insert([similar("", text_weight=0.0, threshold=1.0) for _ in range(n)])
    index.settle()
    slots += index.insert([similar("a c", **TEXT_ALONE)] * 4)
    found = index.match([(["a"], HERE)] * 30)
    assert [slots] * 30 == as_lists(found)
    assert ([0.75] * n + [1.0] * n + [0.5] * 4) * 30 == found.score.tolist()


def test_explain_tells_in_lines(new_scored):
    """Every index explains its answer for a live slot, matched or not, in plain lines."""
    index = new_scored(PLANE)
    index.insert([similar("a b"), similar("a", similarity="cosine"), *SCORED_FILLER])
    index.settle()
    messages = index.messages([(["a", "x"], HERE), (["b"], point(9, 9))])
    for slot in (0, 1):
        for row in (0, 1):
            lines = index.index.explain(messages, row, slot)
            assert lines
            assert all(isinstance(line, str) and "\n" not in line for line in lines)
