"""Named cases that every index of similar subscriptions must get right: words, weights, thresholds."""

import itertools
import math

import pytest

from contract.naive import as_pairs
from contract.scored import LEAST, Table, reached, similar
from contract.worlds import EARTH, PLANE, point
from nearcast.geo import Space
from nearcast.indexes import create
from nearcast.model import SIMILARITIES, Similar
from nearcast.testing import IndexActor
from nearcast.testing.plain import score

pytestmark = [pytest.mark.modes, pytest.mark.small]

HERE, AWAY = point(0, 0), point(1e9, 0)


# Words

WEIGHTS = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "x": 4.0}
MANY = " ".join(f"other{i}" for i in range(97))


#: A message, and how each function finds it for the words a, b and c.
TEXTS = [
    ("a b c", 1.0, 1.0, 1.0, 1.0, 1.0),
    ("c a b a c c a", 1.0, 1.0, 1.0, 1.0, 1.0),
    ("a", 1 / 6, 1 / 3, 1 / 6, 2 / 4, 1 / math.sqrt(3)),
    ("a a a", 1 / 6, 1 / 3, 1 / 6, 2 / 4, 1 / math.sqrt(3)),
    ("c b", 5 / 6, 2 / 3, 5 / 6, 4 / 5, 2 / math.sqrt(6)),
    ("b c d", 5 / 6, 2 / 3, 5 / 10, 4 / 6, 2 / 3),
    ("d c b b d c", 5 / 6, 2 / 3, 5 / 10, 4 / 6, 2 / 3),
    ("b c x", 5 / 6, 2 / 3, 5 / 10, 4 / 6, 2 / 3),
    ("b x y c", 5 / 6, 2 / 3, 5 / 11, 4 / 7, 2 / math.sqrt(12)),
    (f"{MANY} a b c", 1.0, 1.0, 6 / 103, 6 / 103, 3 / math.sqrt(300)),
    (f"b {MANY} x y", 2 / 6, 1 / 3, 2 / 108, 2 / 103, 1 / math.sqrt(300)),
    ("x y", None, None, None, None, None),
    ("d", None, None, None, None, None),
    ("", None, None, None, None, None),
]  # fmt: skip
TEXT_CASES = [
    (
        [similar("c a b b", text_weight=1.0, threshold=LEAST, similarity=each) for each in SIMILARITIES],
        (text.split(), AWAY),
    )
    for text, *_ in TEXTS
]
TEXT_TABLES = [Table(PLANE, TEXT_CASES, WEIGHTS, add_words=add_words) for add_words in (False, True)]


@pytest.mark.parametrize("table", TEXT_TABLES, ids=["words of others unknown", "words of others known"])
def test_text_functions(scored_spec, table):
    """Each function counts each word once, weighs those that weigh, and reads unknown words where it should."""
    for number, (text, *scores) in enumerate(TEXTS):
        expected = {slot: each for slot, each in enumerate(scores) if each is not None}
        assert (text, expected) == (text, table.found(scored_spec, number))


def test_one_word(new_scored):
    """The shortest subscription and message there are: all or nothing, in every function."""
    wanted = [similar("a", text_weight=1.0, threshold=1.0, similarity=function) for function in SIMILARITIES]
    expected = [dict.fromkeys(range(len(SIMILARITIES)), 1.0), {}, {}]
    assert expected == reached(new_scored(PLANE), wanted, [(["a"], AWAY), (["b"], HERE), ([], HERE)])


def test_a_subscription_of_a_hundred_words(new_scored):
    """Long subscriptions count their words as short ones do, among messages of one word and of all."""
    words = [f"word{i}" for i in range(100)]
    wanted = [
        similar(" ".join(words), text_weight=1.0, threshold=0.5, similarity="overlap"),
        similar(" ".join(words), text_weight=1.0, threshold=0.01, similarity="tsim"),
        similar(" ".join(words[::-1]), text_weight=0.5, threshold=1.0, similarity="dice"),
    ]
    said = [(words[:1], HERE), (words[:50], HERE), (words[51:], AWAY), (words, HERE), (words, AWAY)]
    everywhere = {0: 1.0, 1: 1.0}
    expected = [{1: 0.01}, {0: 0.5, 1: 0.5}, {1: 0.49}, everywhere | {2: 1.0}, everywhere]
    assert expected == reached(new_scored(PLANE), wanted, said)


def test_words_that_came_after_the_subscriptions(new_scored):
    """Terms beyond those of any subscription count as words of the message and as nothing else."""
    later = [f"later{i}" for i in range(500)]
    wanted = [similar(similarity=each, threshold=LEAST, text_weight=1.0) for each in ("tsim", "jaccard", "dice")]
    said = [(["a", *later[:3]], HERE), (["a", *later], HERE)]
    expected = [{0: 1.0, 1: 1 / 4, 2: 2 / 5}, {0: 1.0, 1: 1 / 501, 2: 2 / 502}]
    assert expected == reached(new_scored(PLANE, add_words=True), wanted, said)


@pytest.mark.parametrize(
    ("weights", "text", "tsim", "jaccard"),
    [
        ({"a": 0.0}, "a", None, None),
        ({"a": 0.0}, "b", 1.0, 1.0),
        ({"a": 0.0}, "a b", 1.0, 1.0),
        ({"b": 0.0, "x": 0.0}, "a x", 1.0, 1.0),
        ({"a": 0.0, "b": 0.0}, "a b", None, None),
        ({"a": 0.0, "b": 0.0, "x": 0.0}, "a b x", None, None),
        ({"x": 0.0}, "a x", 0.5, 0.5),
        ({"a": 1e300, "b": 1e300, "x": 2e300}, "a x", 0.5, 0.25),
        ({"a": 1e-300, "b": 3e-300, "x": 1.0}, "a", 0.25, 0.25),
        ({"a": 1e-300, "b": 1.0}, "a", 1e-300, 1e-300),
        ({"a": LEAST, "b": LEAST}, "a b", 1.0, 1.0),
    ],
)
def test_weights_at_their_limits(new_scored, weights, text, tsim, jaccard):
    """Words may weigh nothing, next to nothing or very much; subscriptions that weigh nothing have no text score."""
    wanted = [
        similar("a b", text_weight=1.0, threshold=LEAST, similarity="tsim"),
        similar("a b", text_weight=1.0, threshold=LEAST, similarity="jaccard"),
    ]
    expected = {slot: each for slot, each in enumerate((tsim, jaccard)) if each is not None}
    assert [expected] == reached(new_scored(PLANE), wanted, [(text.split(), AWAY)], weights)


def test_words_that_weigh_nothing_are_counted(new_scored):
    """Functions that count words do not care what they weigh."""
    functions = ("overlap", "dice", "cosine")
    wanted = [similar("a b", text_weight=1.0, threshold=LEAST, similarity=each) for each in functions]
    expected = [{0: 0.5, 1: 2 / 3, 2: 1 / math.sqrt(2)}]
    assert expected == reached(new_scored(PLANE), wanted, [(["a"], AWAY)], {"a": 0.0, "b": 0.0})


def test_common_words_are_summed_in_the_order_of_their_strings(new_scored):
    """0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1: neither the ids of the words nor the order of a text may matter."""
    index = new_scored(PLANE)
    index.words.ids_of(["d", "c", "b", "a"], add=True)
    weights = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}
    total = 0.1 + 0.2 + 0.3
    assert total != 0.3 + 0.2 + 0.1
    wanted = [similar("b d a c", text_weight=1.0, threshold=total)]
    said = [(["c", "b", "a"], HERE), (["a", "b", "c"], HERE), (["b", "c", "a"], HERE)]
    assert [{0: total}] * 3 == reached(index, wanted, said, weights)


# Thresholds


BIT_WEIGHTS = {"a": 0.1, "b": 0.7, "c": 1.3, "x": 0.9}
BIT_SAID = (["b", "x", "c", "b"], point(4.7, -3.9))
BIT_CASES = list(itertools.product(SIMILARITIES, [0.0, 0.1, 1 / 3, 0.5, 0.9, 1.0]))


def asked_to_the_bit(space, function, text_weight):
    """Return three subscriptions: their thresholds are the score of `BIT_SAID` and the floats beside it."""
    reach = float(space.distance(1.1, 2.3, 4.7, -3.9)) * 1.7
    given = {"place": (1.1, 2.3), "max_distance": reach, "text_weight": text_weight, "similarity": function}
    exact = score(similar("c a b", **given), *BIT_SAID, space, BIT_WEIGHTS)
    thresholds = (math.nextafter(exact, 0.0), exact, math.nextafter(exact, 2.0))
    return [similar("c a b", threshold=each, **given) for each in thresholds]


BIT_TABLES = {
    space.kind: Table(space, [(asked_to_the_bit(space, *case), BIT_SAID) for case in BIT_CASES], BIT_WEIGHTS)
    for space in (EARTH, PLANE)
}


@pytest.mark.parametrize("kind", ["earth", "plane"])
def test_a_threshold_is_reached_to_the_last_bit(scored_spec, kind):
    """A score equal to the threshold matches, the float below it does as well, the one above it does not."""
    for number, case in enumerate(BIT_CASES):
        exact = asked_to_the_bit(Space(kind), *case)[1].threshold
        assert (case, {0: exact, 1: exact}) == (case, BIT_TABLES[kind].found(scored_spec, number))


#: How a subscription to the words a and b differs from the usual, a message, and its score if it is found.
LIMITS = [
    # Words alone.
    ({"text_weight": 1.0, "threshold": 1.0}, "a b", AWAY, 1.0),
    ({"text_weight": 1.0, "threshold": 1.0}, "a", HERE, None),
    ({"text_weight": 1.0, "threshold": 0.5}, "a", AWAY, 0.5),
    ({"text_weight": 1.0, "threshold": 0.5}, "", HERE, None),
    # Place alone: no word in common is needed.
    ({"text_weight": 0.0, "threshold": 1.0}, "", HERE, 1.0),
    ({"text_weight": 0.0, "threshold": 1.0}, "x", HERE, 1.0),
    ({"text_weight": 0.0, "threshold": 1.0}, "a b", point(1e-9, 0), None),
    ({"text_weight": 0.0, "threshold": 0.5}, "x", point(5, 0), 0.5),
    ({"text_weight": 0.0, "threshold": 0.5}, "a b", point(5.1, 0), None),
    ({"text_weight": 0.0, "threshold": LEAST}, "a b", point(10, 0), None),
    # Both in full.
    ({"threshold": 1.0}, "a b", HERE, 1.0),
    ({"threshold": 1.0}, "a b c", HERE, 1.0),
    ({"threshold": 1.0}, "a", HERE, None),
    ({"threshold": 1.0}, "a b", point(1e-6, 0), None),
    # On the spot, no word is needed up to 1 - text_weight, and one is just above it.
    ({"text_weight": 0.3, "threshold": 0.7}, "", HERE, 0.7),
    ({"text_weight": 0.3, "threshold": 0.7}, "x y", HERE, 0.7),
    ({"text_weight": 0.3, "threshold": 0.7}, "x y", point(1e-3, 0), None),
    ({"text_weight": 0.3, "threshold": math.nextafter(0.7, 1)}, "x y", HERE, None),
    ({"text_weight": 0.3, "threshold": math.nextafter(0.7, 1)}, "a", HERE, 0.3 * 0.5 + 0.7),
    ({"text_weight": 0.25, "threshold": 0.5}, "", point(2, 0), 0.75 * 0.8),
    ({"text_weight": 0.25, "threshold": 0.5}, "", point(4, 0), None),
    # With all words, any distance will do up to text_weight.
    ({"text_weight": 0.75, "threshold": 0.75}, "b a", AWAY, 0.75),
    ({"text_weight": 0.75, "threshold": math.nextafter(0.75, 1)}, "b a", AWAY, None),
    ({"text_weight": 0.75, "threshold": math.nextafter(0.75, 1)}, "b a", point(9.9, 0), 0.75 + 0.25 * (1 - 0.99)),
    ({"text_weight": 0.75, "threshold": 0.75}, "b", HERE, None),
    # Everything that has any score at all.
    ({"threshold": LEAST}, "a", AWAY, 0.25),
    ({"threshold": LEAST}, "", point(9, 0), 0.5 * (1 - 0.9)),
    ({"threshold": LEAST}, "", AWAY, None),
]  # fmt: skip
LIMIT_TABLE = Table(PLANE, [([similar("a b", **given)], (text.split(), place)) for given, text, place, _ in LIMITS])


def test_thresholds_at_their_limits(scored_spec):
    """Words alone, place alone, both in full, no common word, any distance: where the bounds change their form."""
    for number, (*case, score_of_it) in enumerate(LIMITS):
        expected = {} if score_of_it is None else {0: score_of_it}
        assert (case, expected) == (case, LIMIT_TABLE.found(scored_spec, number))


@pytest.mark.parametrize("text_weight", [0.0, 0.3])
def test_a_subscription_without_words(new_scored, text_weight):
    """It waits for a place, whatever is said there."""
    rest = 1.0 - text_weight
    wanted = [similar("", text_weight=text_weight, threshold=each) for each in (rest, rest / 2)]
    said = [([], HERE), (["a"], HERE), (["x", "y"], point(5, 0)), (["a"], point(5.001, 0)), ([], AWAY)]
    expected = [{0: rest, 1: rest}, {0: rest, 1: rest}, {1: rest * 0.5}, {}, {}]
    assert expected == reached(new_scored(PLANE), wanted, said)


def test_the_least_distance_there_is(new_scored):
    """A max_distance so small that quotients leave the range of floats: on the spot is near, everything else is not."""
    index, scan = new_scored(PLANE), IndexActor(create("scan", PLANE))
    wanted = [
        Similar(0, place=(0.0, 0.0), terms=("a",), threshold=0.3, text_weight=weight, max_distance=least)
        for weight in (0.0, 0.5)
        for least in (5e-324, 2.2250738585e-313, 1e-300)
    ]
    said = [(("a",), point(0.0, 0.0)), (("a",), point(1.0, 1e3)), (("b",), point(0.0, 0.0))]
    for actor in (index, scan):
        actor.insert(wanted)
    expected = as_pairs(scan.match(said))
    assert [6, 3] == list(map(len, expected[:2]))
    assert expected == as_pairs(index.match(said))
