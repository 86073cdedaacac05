"""Named cases that every index of top-k subscriptions must get right: words, weights, places, thresholds."""

import itertools
import math

import pytest

from contract.topk import agree, best, filled, reached
from contract.worlds import EARTH, PLANE, point
from nearcast.testing.plain import topk_score

pytestmark = [pytest.mark.modes, pytest.mark.small]

HERE, AWAY = point(0, 0), point(1e9, 0)


# Words


def test_text_alone_and_place_alone(new_topk):
    """With text weight 1 only words count, from anywhere; with 0 only the place, yet one word must be shared."""
    wanted = [best("a b", text_weight=1.0), best("a b", text_weight=0.0)]
    said = [(["a", "b"], AWAY), (["b", "a"], point(5, 0)), (["a"], HERE), (["x"], HERE), ([], HERE)]
    half = 1 / math.sqrt(2)
    expected = [{0: 1.0, 1: 0.0}, {0: 1.0, 1: 0.5}, {0: half, 1: 1.0}, {}, {}]
    assert expected == reached(new_topk(PLANE), wanted, said)


def test_how_often_a_word_is_said_counts(new_topk):
    """tf: a message that repeats the word of a subscription is closer to it, and farther from others."""
    wanted = [best("a", text_weight=1.0), best("b", text_weight=1.0), best("a b", text_weight=1.0)]
    said = [(["a", "a", "a", "b"], HERE), (["a", "b"], HERE), (["a", "a", "a"], HERE)]
    ten, two = math.sqrt(10), math.sqrt(2)
    expected = [
        {0: 3 / ten, 1: 1 / ten, 2: 4 / math.sqrt(20)},
        {0: 1 / two, 1: 1 / two, 2: 1.0},
        {0: 1.0, 2: 3 / math.sqrt(18)},
    ]
    assert expected == reached(new_topk(PLANE), wanted, said)


@pytest.mark.parametrize("add_words", [False, True], ids=["unknown", "known later"])
def test_words_of_no_subscription_lengthen_a_message(new_topk, add_words):
    """Words that the table does not know, or got to know from messages alone, are part of the message's length."""
    said = [(["a", "x", "y", "y"], HERE), (["x", "y"], HERE), (["a", *(f"later{i}" for i in range(200))], HERE)]
    expected = [{0: 1 / math.sqrt(6)}, {}, {0: 1 / math.sqrt(201)}]
    assert expected == reached(new_topk(PLANE, add_words=add_words), [best("a", text_weight=1.0)], said)


@pytest.mark.parametrize(
    ("weights", "text", "score"),
    [
        ({"a": 0.0}, "a", 0.5),
        ({"a": 0.0}, "a x", 0.5),
        ({"a": 0.0}, "b", 0.5 * 1.0 + 0.5),
        ({"a": 0.0, "b": 0.0}, "b", 0.5),
        ({"a": 0.0, "b": 0.0, "x": 0.0}, "a b x", 0.5),
        ({"a": 0.0}, "x", None),
        ({"a": 1e6, "b": 1e-6}, "a", 1.0),
        ({"a": 1e-70, "b": 1e-70}, "a b", 1.0),
        ({"a": 1e70, "b": 1e70, "x": 1e-70}, "b a x", 1.0),
        ({"a": 1e-70, "b": 1e70, "x": 1.0}, "a", 0.5),
    ],
)
def test_words_that_weigh_nothing_or_very_much(new_topk, weights, text, score):
    """A shared word that weighs nothing is shared all the same; lengths of any size are weighed alike."""
    index = new_topk(PLANE)
    naive, slots = filled(
        index, [best("a b"), best("a b", text_weight=1.0), best("a b", text_weight=0.0)], None, weights
    )
    said = [(text.split(), HERE), (text.split(), point(8, 0)), (["b"], AWAY)]
    found = dict(agree(index, naive, said)[0])
    if score is not None:
        assert score == pytest.approx(found[slots[0]], rel=1e-9)
    for threshold in (0.1, 0.5, 1.0):
        for each in (index, naive):
            each.set_thresholds(slots, [threshold] * 3)
        agree(index, naive, said)


def test_common_words_are_summed_in_the_order_of_their_strings(new_topk):
    """Neither the ids of the words nor the order of a text may change the last bit."""
    index = new_topk(PLANE)
    index.words.ids_of(["d", "c", "b", "a"], add=True)
    weights = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4, "x": 0.7}
    wanted = [best("b d a c", text_weight=1.0)]
    said = [(list(text), HERE) for text in ("cbax", "abcx", "xbca")]
    exact = topk_score(wanted[0], *said[0], PLANE, weights)
    assert [{0: exact}] * 3 == reached(index, wanted, said, [exact], weights)


def test_long_subscriptions_and_messages(new_topk):
    """A hundred words on either side: the prefix is long, the score the same."""
    words = [f"word{i}" for i in range(100)]
    weights = {word: 1.0 + i % 5 for i, word in enumerate(words)}
    wanted = [best(" ".join(words), text_weight=each) for each in (0.2, 0.8, 1.0)]
    said = [(words[:1], HERE), (words[:50], HERE), (words[51:], AWAY), (words, AWAY)]
    index = new_topk(PLANE)
    naive, slots = filled(index, wanted, [0.8, 0.7, 0.5], weights)
    assert 4 == len(agree(index, naive, said))
    for value in (0.0, 0.2, 0.9):
        for each in (index, naive):
            each.set_thresholds(slots, [value] * 3)
        agree(index, naive, said)


# Places

NORTH = float(EARTH.distance(0, 0, 0, 1))
#: The place of a subscription, its reach, and the place of a message. Those of a group are asked together, so that
#: extents of all sizes occur.
PLACES = {
    "plane": [
        ((0, 0), 10, point(6, 8)),
        ((0, 0), 10, (3, -2, 3, 2)),
        ((0, 0), 10, (3, 4, 9, 9)),
        ((2, 1), 10, (-5, -5, 5, 5)),
        ((5, 5), 10, (-5, -5, 5, 5)),
    ],
    "plane, a million": [((1e6, -1e6), 1e6, point(1.5e6, -1e6))],
    "plane, huge": [((0, 0), 1.7e308, point(-1e300, 1e300))],
    "plane, no reach": [((0, 0), 1e-300, point(0, 0))],
    "earth": [
        ((10, 10), 2 * NORTH, point(10, 11)),
        ((179.9, 0), NORTH, point(-179.9, 0)),
        ((-179.9, 0), NORTH, (179.5, -1, 179.95, 1)),
        ((180, 0), NORTH, point(-180, 0)),
        ((175, 0), 20 * NORTH, (170, -5, -170, 5)),
        ((-160, 0), 20 * NORTH, (170, -5, -170, 5)),
        ((0, 89.5), 2 * NORTH, point(180, 89.5)),
        ((0, 90), 2 * NORTH, point(77, 90)),
        ((-120, -89), 5 * NORTH, (-180, -90, 180, -88)),
        ((30, 60), 10 * NORTH, (40, 50, 50, 70)),
    ],
    "earth, far": [((0, 0), 3e7, point(180, 0))],
    "earth, any reach": [((0, 0), 1e300, (-180, -90, 180, 90))],
}


@pytest.mark.parametrize("group", PLACES)
def test_places_of_all_sorts(new_topk, group):
    """Points, rectangles, borders, dateline and poles: a threshold equal to the score is met, the float above not."""
    space = EARTH if group.startswith("earth") else PLANE
    wanted, thresholds, said, expected = [], [], [], []
    for place, reach, there in PLACES[group]:
        said.append((["a", "x"], there))
        for text_weight in (0.0, 0.4, 1.0):
            each = best("a b", place=place, max_distance=reach, text_weight=text_weight)
            exact = topk_score(each, *said[-1], space, {})
            wanted += [each] * 4
            thresholds += [exact, math.nextafter(exact, 9.0), math.nextafter(exact, 0.0), 0.0]
            expected.append({0: exact, 2: exact, 3: exact})
    found = reached(new_topk(space), wanted, [*said, (["a", "b"], point(100, -40))], thresholds)
    for number, scores in enumerate(expected):
        case, of_message = PLACES[group][number // 3], found[number // 3]
        own = {slot: of_message[4 * number + slot] for slot in range(4) if 4 * number + slot in of_message}
        assert (case, scores) == (case, own)


# Thresholds

BIT_WEIGHTS = {"a": 0.1, "b": 0.7, "c": 1.3, "x": 0.9}
BIT_SAID = (["b", "x", "c", "b"], point(4.7, -3.9))


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_a_threshold_is_reached_to_the_last_bit(new_topk, space):
    """A score equal to the threshold concerns, the float below it as well, the one above it does not."""
    reach = float(space.distance(1.1, 2.3, 4.7, -3.9)) * 1.7
    shares = [0.0, 0.1, 1 / 3, 0.5, 0.9, 1.0]
    wanted = [best("c a b", place=(1.1, 2.3), max_distance=reach, text_weight=each) for each in shares]
    exact = [topk_score(each, *BIT_SAID, space, BIT_WEIGHTS) for each in wanted]
    thresholds = [beside for each in exact for beside in (math.nextafter(each, 0.0), each, math.nextafter(each, 2.0))]
    expected = {3 * i + k: each for i, each in enumerate(exact) for k in (0, 1)}
    every = list(itertools.chain.from_iterable([each] * 3 for each in wanted))
    assert [expected] == reached(new_topk(space), every, [BIT_SAID], thresholds, BIT_WEIGHTS)


def test_thresholds_at_their_limits(new_topk):
    """0 takes whatever shares a word, 1 only what fits in full, above it nothing."""
    cases = list(itertools.product([0.0, 0.3, 0.75, 1.0], [0.0, 0.3, 0.7, 0.75, 1.0, 1.5]))
    wanted = [best("a b", text_weight=text_weight) for text_weight, _ in cases]
    thresholds = [threshold for _, threshold in cases]
    said = [
        (["a", "b"], HERE),
        (["a", "b"], AWAY),
        (["a"], HERE),
        (["a", "x"], point(5, 0)),
        (["x"], HERE),
        (["b"], point(10, 0)),
    ]
    scores = [[topk_score(each, *one, PLANE, {}) for each in wanted] for one in said]
    expected = [
        {slot: score for slot, score in enumerate(row) if score is not None and score >= thresholds[slot]}
        for row in scores
    ]
    assert expected == reached(new_topk(PLANE), wanted, said, thresholds)


def test_thresholds_rise_and_fall(new_topk):
    """What was out of reach comes back at once when a threshold falls, however often it rose before."""
    index = new_topk(PLANE)
    wanted = [best("a b", text_weight=i / 10, place=(i / 5, 0.0)) for i in range(11)]
    naive, slots = filled(index, wanted)
    said = [(["a"], HERE), (["b", "a"], point(1, 1)), (["b", "x"], AWAY)]
    for values in (
        [0.9] * 11,
        [0.1 * i for i in range(11)],
        [1.0] * 11,
        [0.0] * 11,
        [0.6] * 11,
        [1.0 - 0.1 * i for i in range(11)],
    ):
        for each in (index, naive):
            each.set_thresholds(slots, values)
        agree(index, naive, said)
        for each in (index, naive):
            each.set_thresholds(slots[3:5], [0.0, 0.25])
        agree(index, naive, said)
