"""Attacks on the bounds of every text function: none may drop a pair that matches, none may be looser than it must."""

import math

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from nearcast.indexes.papers.stamp.bounds import prefix_of
from nearcast.indexes.shared.scores import ScoredColumns
from nearcast.similarity import (
    COSINE,
    DICE,
    JACCARD,
    MARGIN,
    OVERLAP,
    SIMILARITY_NAMES,
    TSIM,
    counts_weights,
    most_text,
    near_needed,
    near_of,
    score_of,
    share_needed,
    text_needed,
    text_of,
)

pytestmark = [pytest.mark.modes, pytest.mark.small]
of_stamp = pytest.mark.papers  # whose prefixes they are

FUNCTIONS = (TSIM, OVERLAP, JACCARD, DICE, COSINE)
#: Far below the margin, far above what a few float operations lose.
ROUNDING = 1e-12

_unit = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]) | st.floats(0, 1)
_threshold = st.sampled_from([0.25, 0.5, 0.75, 1.0]) | st.floats(1e-3, 1)
_weight = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 10, allow_subnormal=False)
_functions = st.sampled_from(FUNCTIONS)


@st.composite
def pairs(draw):
    """The weights of all words, the words of a subscription and those of a message."""
    weight = draw(st.lists(_weight, min_size=1, max_size=10))
    words = st.sets(st.integers(0, len(weight) - 1))
    return weight, draw(words), draw(words)


def amount(function, weight, words):
    """What words add up to."""
    return sum(weight[word] for word in sorted(words)) if counts_weights(function) else float(len(words))


def text(function, weight, asked, said):
    """The definition of the text score, from sets of words."""
    amounts = (amount(function, weight, words) for words in (asked & said, asked, said))
    return text_of(function, *amounts)


def share(function, weight, asked, said):
    """Which part of the subscription's words is in common."""
    own = amount(function, weight, asked)
    return amount(function, weight, asked & said) / own if own > 0 else 0.0


def one_row(weight, asked, text_weight, threshold, function, max_distance=1.0):
    """A subscription as kernels read it."""
    own = amount(function, weight, asked)
    term = np.array(sorted(asked), np.int32)
    columns = (np.array([float(value)]) for value in (text_weight, threshold, max_distance))
    return ScoredColumns(
        np.array([0, len(term)]), term, np.zeros((1, 2)), *columns, np.array([function], np.uint8), np.array([own]),
        np.array(weight, np.float64),
    )  # fmt: skip


# --- the text functions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", FUNCTIONS, ids=SIMILARITY_NAMES)
@given(pairs())
def test_text_is_between_0_and_1(function, pair):
    """Whatever the words: from 0 to 1, and 0 without a common word."""
    weight, asked, said = pair
    found = text(function, weight, asked, said)
    assert 0.0 <= found <= 1.0 + ROUNDING
    if not asked & said:
        assert 0.0 == found


@pytest.mark.parametrize("function", FUNCTIONS, ids=SIMILARITY_NAMES)
@given(st.lists(_weight, min_size=1, max_size=10))
def test_equal_sets_score_1(function, weight):
    """The same words give exactly 1, unless they weigh nothing."""
    words = set(range(len(weight)))
    expected = 1.0 if amount(function, weight, words) > 0 else 0.0
    assert expected == text(function, weight, words, words)


def test_the_five_formulas():
    """One pair by hand: weights 4, 3, 2, 1; s = {0, 1, 3}, m = {1, 2, 3}."""
    weight, asked, said = [4.0, 3.0, 2.0, 1.0], {0, 1, 3}, {1, 2, 3}
    expected = [4 / 8, 2 / 3, 4 / (8 + 6 - 4), 2 * 2 / (3 + 3), 2 / math.sqrt(3 * 3)]
    assert expected == [text(function, weight, asked, said) for function in FUNCTIONS]


# --- the share bounds the text ----------------------------------------------------------------------------------


@given(pairs(), _functions)
def test_no_text_is_above_most_text(pair, function):
    """A message with a share of the words scores at most `most_text` of it, whatever else it says."""
    weight, asked, said = pair
    most = most_text(function, share(function, weight, asked, said))
    assert text(function, weight, asked, said) <= most + ROUNDING


@given(pairs(), _functions)
def test_most_text_is_reached(pair, function):
    """The message of just the common words scores `most_text`: no bound on the share is tighter."""
    weight, asked, said = pair
    common = asked & said
    most = most_text(function, share(function, weight, asked, common))
    assert math.isclose(most, text(function, weight, asked, common), abs_tol=1e-9)


@given(_unit, _unit, _functions)
def test_most_text_grows_with_the_share(one, other, function):
    """More words in common never allow less."""
    assert most_text(function, min(one, other)) <= most_text(function, max(one, other))


@given(_unit, _functions)
def test_share_needed_undoes_most_text(value, function):
    """Each is the inverse of the other."""
    assert math.isclose(value, share_needed(function, most_text(function, value)), abs_tol=1e-9)
    assert math.isclose(value, most_text(function, share_needed(function, value)), abs_tol=1e-9)


@given(st.floats(1.0, 10.0, exclude_min=True), _functions)
def test_no_share_is_enough_for_more_than_1(value, function):
    """A text score above 1 cannot be had."""
    assert math.inf == share_needed(function, value)


# --- text and nearness bound each other -------------------------------------------------------------------------


@given(_unit, _threshold, _unit, _unit)
@example(1.0, 0.5, 0.5, 0.0)
@example(1.0, 1.0, 0.25, 1.0)
@example(0.0, 1.0, 0.0, 1.0)
@example(0.5, 0.5, 0.0, 1.0)
def test_near_needed_never_drops_a_match(text_weight, threshold, text_score, near):
    """Whoever reaches the threshold is as near as its text score requires."""
    if score_of(text_weight, text_score, near) >= threshold:
        assert near >= near_needed(text_weight, threshold, text_score)


@given(_unit, _threshold, _unit, _unit)
def test_near_needed_is_tight(text_weight, threshold, text_score, near):
    """Whoever is as near as required misses the threshold by no more than the margin."""
    if near >= near_needed(text_weight, threshold, text_score):
        assert score_of(text_weight, text_score, near) >= threshold - MARGIN - ROUNDING


@given(_unit, _threshold, _unit, _unit)
@example(0.0, 0.5, 0.0, 0.5)
@example(0.0, 1.0, 1.0, 0.25)
@example(1.0, 1.0, 1.0, 0.0)
def test_text_needed_never_drops_a_match(text_weight, threshold, text_score, near):
    """Whoever reaches the threshold has as much text as its place requires."""
    if score_of(text_weight, text_score, near) >= threshold:
        assert text_score >= text_needed(text_weight, threshold, near)


@given(_unit, _threshold, _unit, _unit)
def test_text_needed_is_tight(text_weight, threshold, text_score, near):
    """Whoever has as much text as required misses the threshold by no more than the margin."""
    if text_score >= text_needed(text_weight, threshold, near):
        assert score_of(text_weight, text_score, near) >= threshold - MARGIN - ROUNDING


@given(st.floats(0.05, 0.95), _threshold, _unit)
def test_near_needed_and_text_needed_undo_each_other(text_weight, threshold, text_score):
    """Between the ends, the text needed at the nearness needed for a text is that text."""
    near = near_needed(text_weight, threshold, text_score)
    assume(0.0 < near <= 1.0)
    # Both take the margin off once.
    back = text_needed(text_weight, threshold, near)
    assert math.isclose(text_score, back, abs_tol=2 * MARGIN / min(text_weight, 1 - text_weight))


def test_text_alone():
    """At text_weight 1 any distance will do or none: there is nothing to divide by."""
    assert [0.0, 0.0, math.inf] == [near_needed(1.0, 0.5, text_score) for text_score in (1.0, 0.5, 0.25)]


def test_place_alone():
    """At text_weight 0 no word is needed or none helps: there is nothing to divide by."""
    assert [0.0, 0.0, math.inf] == [text_needed(0.0, 0.5, near) for near in (1.0, 0.5, 0.25)]


def test_a_threshold_of_1_needs_everything():
    """All words on the spot, and no less."""
    assert math.isclose(1.0, near_needed(0.5, 1.0, 1.0), abs_tol=1e-8)
    assert near_needed(0.5, 1.0, 0.99) > 1.0
    assert math.isclose(1.0, text_needed(0.5, 1.0, 1.0), abs_tol=1e-8)


def test_near_is_never_below_0():
    """From `max_distance` on it is 0, so that a bound of 0 holds anywhere."""
    assert [1.0, 0.5, 0.0, 0.0] == [near_of(distance, 10.0) for distance in (0.0, 5.0, 10.0, 1e9)]


# --- the bounds of a prefix -------------------------------------------------------------------------------------


@st.composite
def matching(draw):
    """A pair that matches: its threshold is its score, to the last bit, or part of it."""
    weight, asked, said = draw(pairs())
    function, text_weight, near = draw(_functions), draw(_unit), draw(_unit)
    score = score_of(text_weight, text(function, weight, asked, said), near)
    threshold = min(score, 1.0) * draw(st.sampled_from([1.0, 1.0, 0.5]) | st.floats(0.01, 1))
    return weight, asked, said, function, text_weight, threshold, near


@of_stamp
@given(pairs(), _functions, _unit, _threshold)
def test_utb_bounds_the_text_after_the_first_common_word(pair, function, text_weight, threshold):
    """Whatever a message says: its text score is at most what its first common word allows (UTB, Eq. 3)."""
    weight, asked, said = pair
    prefix = prefix_of(one_row(weight, asked, text_weight, threshold, function), 0)
    heaviest_first = sorted(asked, key=lambda word: (-weight[word], word))
    assert [*heaviest_first, -1] == prefix.term.tolist()
    first = next((at for at, word in enumerate(heaviest_first) if word in said), len(heaviest_first))
    bound = most_text(function, share(function, weight, asked, set(heaviest_first[first:])))
    assert text(function, weight, asked, said) <= bound + ROUNDING


@of_stamp
@given(matching())
@example(([1.0], {0}, {0}, TSIM, 1.0, 1.0, 0.0))
@example(([1.0], {0}, set(), TSIM, 0.0, 0.5, 0.5))
@example(([0.0, 0.0], {0, 1}, {0}, JACCARD, 0.5, 0.5, 1.0))
def test_a_prefix_never_drops_a_match(match):
    """The first common word of a match, or the dummy, is in the prefix, and the match is near enough for it."""
    weight, asked, said, function, text_weight, threshold, near = match
    prefix = prefix_of(one_row(weight, asked, text_weight, threshold, function), 0)
    first = next(at for at, word in enumerate(prefix.term.tolist()) if word in said or word == -1)
    assert 0 == prefix.level[first]
    assert near >= prefix.near[first]


@of_stamp
@given(matching(), _unit)
@example(([1.0], {0}, {0}, TSIM, 0.5, 0.75, 0.5), 0.0)
def test_a_region_aware_prefix_never_drops_a_match_from_outside(match, part):
    """For messages no nearer than some bound, at or above their nearness, the prefix made with that bound does."""
    weight, asked, said, function, text_weight, threshold, near = match
    most = min(near + part * (1.0 - near), 1.0)
    # The way out is at most as long as the way to the message, as both were computed.
    gap = min(1.0 - most, 1.0 - near)
    prefix = prefix_of(one_row(weight, asked, text_weight, threshold, function), 0, gap)
    first = next(at for at, word in enumerate(prefix.term.tolist()) if word in said or word == -1)
    assert 0 == prefix.level[first]
    assert near >= prefix.near[first]


@of_stamp
@given(pairs(), _functions, _unit, _threshold, _unit, _unit)
def test_a_region_aware_prefix_is_no_longer(pair, function, text_weight, threshold, one, other):
    """The farther the message, the fewer words can be its first common one."""
    weight, asked, _ = pair
    row = one_row(weight, asked, text_weight, threshold, function)
    closer, farther = (prefix_of(row, 0, gap).level == 0 for gap in (min(one, other), max(one, other)))
    assert (closer | ~farther).all()


@of_stamp
@given(matching())
def test_spatio_textual_prefixes_never_drop_a_match(match):
    """Unless its first k words are enough by themselves, a match has more than k words on the levels up to k.

    And the word that makes it so is near enough for its level (Eq. 15).
    """
    weight, asked, said, function, text_weight, threshold, near = match
    prefix = prefix_of(one_row(weight, asked, text_weight, threshold, function), 0)
    words, levels = prefix.term[:-1].tolist(), prefix.level[:-1].tolist()
    for k in range(max(levels, default=0)):
        common = [at for at, word in enumerate(words) if word in said and levels[at] <= k]
        have = share(function, weight, asked, {words[at] for at in common})
        if score_of(text_weight, most_text(function, have), near) < threshold - MARGIN:
            assert len(common) > k
            deciding = common[k]
            if levels[deciding] == k:
                assert near >= prefix.near[deciding]


@of_stamp
@given(pairs(), _functions, st.floats(0.05, 0.95), _threshold)
def test_a_prefix_is_tight(pair, function, text_weight, threshold):
    """A word is in the prefix only if some message on the spot, with that word first, comes up to the threshold."""
    weight, asked, _ = pair
    row = one_row(weight, asked, text_weight, threshold, function)
    prefix = prefix_of(row, 0)
    for at in np.flatnonzero(prefix.level == 0).tolist():
        said = {word for word in prefix.term[at:].tolist() if word >= 0}
        found = text(function, weight, asked, said)
        # Reaches are float32, rounded up.
        assert score_of(text_weight, found, 1.0) >= threshold - 1e-6


def test_the_smallest_weights_need_what_nobody_reaches():
    """Without a warning, compiled or not."""
    assert np.inf == text_needed(np.float64(5e-324), np.float64(1.0), np.float64(0.0))
