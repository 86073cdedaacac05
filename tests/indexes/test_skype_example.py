"""Section 5 of the Skype paper with its own numbers: Examples 2-6, Figure 4, and what the paper has wrong.

Figure 4's keyword weights are lost. Those below are consistent with every number that the text prints:

- s1: wtsum(w4) = 0.1 (Example 3); w3 is in the prefix at λT = 0.28 (2); at λT = 0.26 maxwt leaves w1 only (4).
- s2: at λT = 0.20 maxwt leaves w1 and w2, at 0.55 w1 only (5). m2 has w2 and not w1 (4 and 5).
- s3, m3: w2 weighs 0.4 and 0.7; behind it sums of 0.4 and 0.5, both with the greatest weight 0.3 (6).

As in the figure, weights are not normalised.
"""

import math
from itertools import accumulate

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nearcast.geo import Space
from nearcast.indexes import create
from nearcast.indexes.papers.skype.bounds import alpha_of, key_of, text_threshold, unseen_text
from nearcast.indexes.shared.packed_rtree import gap_to_outside, place_gap
from nearcast.model import TopK
from nearcast.similarity import MARGIN, near_needed, near_of, score_of
from nearcast.testing import IndexActor

pytestmark = [pytest.mark.modes, pytest.mark.papers]

S1 = {"w1": 0.6, "w2": 0.4, "w3": 0.3, "w4": 0.1}
S2 = {"w1": 0.8, "w2": 0.9, "w3": 0.2, "w4": 0.1}
S3 = {"w1": 0.5, "w2": 0.4, "w3": 0.3, "w4": 0.1}
M1 = {"w4": 0.5}
M2 = {"w2": 0.3, "w3": 0.2}
M3 = {"w2": 0.7, "w3": 0.3, "w4": 0.2}
#: The paper's α and kScore.
ALPHA_1, KSCORE_1 = 0.6, 0.7
ALPHA_2, KSCORE_2 = 0.5, 0.6


def needed(alpha, kscore, near):
    """Return λT (Equation 2) by the functions that the index uses; they leave a margin."""
    text_weight = 1.0 - alpha
    return text_threshold(key_of(text_weight, kscore), alpha_of(text_weight), near)


def sums(weights):
    """Return wtsum of each word (Equation 3)."""
    return list(accumulate(list(weights.values())[::-1]))[::-1]


def greatest_from(said, word):
    """Return maxwt of a message from a word on (Equation 4)."""
    return max((weight for other, weight in said.items() if other >= word), default=0.0)


def prefix(own, least, said=None):
    """Return pref (Definition 4), or with a message pref+ (Definition 5)."""
    bounds = [
        total * (1.0 if said is None else greatest_from(said, word)) for word, total in zip(own, sums(own), strict=True)
    ]
    return {word for word, bound in zip(own, bounds, strict=True) if bound >= least}


def test_example_2_location_aware_prefix():
    """λT(s1, m1) = 0.28, the prefix is w1 to w3, and m1 has none of them."""
    least = needed(ALPHA_1, KSCORE_1, 0.98)
    assert pytest.approx(0.28, abs=1e-6) == least
    assert {"w1", "w2", "w3"} == prefix(S1, least)
    assert not prefix(S1, least) & set(M1)


def test_example_3_word_by_word():
    """wtsum(s1.w4) = 0.1 is below 0.28, and w4 is the only keyword of m1."""
    assert pytest.approx(0.1) == sums(S1)[3]
    assert sums(S1)[3] < needed(ALPHA_1, KSCORE_1, 0.98)
    assert ["w4"] == list(M1)


def test_example_4_max_weight_refinement():
    """λT(s1, m2) = 0.26: the prefix is w1 to w3 and cannot skip; with maxwt it is w1 and can."""
    least = needed(ALPHA_1, KSCORE_1, 0.99)
    assert pytest.approx(0.265, abs=1e-6) == least
    assert {"w1", "w2", "w3"} == prefix(S1, least)
    assert prefix(S1, least) & set(M2)
    assert {"w1"} == prefix(S1, least, M2)
    assert not prefix(S1, least, M2) & set(M2)


CELL = (0.0, 0.0, 1.0, 1.0)
AT_S2, AT_M2, MAX_DISTANCE = (0.75, 0.5), (1.3, 0.5), 1.6


def test_figure_4_spatial_bounds():
    """Inner 0.84, outer 0.81, both 0.65 (Definitions 6 to 8), from the gaps that the index works with."""
    import numpy as np

    box = np.array([CELL])
    inner = gap_to_outside(False, *AT_S2, box, 0)
    outer = place_gap(False, np.array([[*AT_M2, *AT_M2]]), 1, box, 0)
    assert (0.25, pytest.approx(0.3)) == (inner, outer)
    assert pytest.approx(0.84, abs=0.005) == near_of(inner, MAX_DISTANCE)
    assert pytest.approx(0.81, abs=0.005) == near_of(outer, MAX_DISTANCE)
    assert pytest.approx(0.65, abs=0.01) == near_of(inner + outer, MAX_DISTANCE)


def test_example_5_spatial_bounds_shorten_the_prefix():
    """λT(s2, m2) is 0.20 at SSimUB = 1 and 0.55 with both bounds: pref+ shrinks from w1, w2 to w1."""
    anywhere, there = needed(ALPHA_2, KSCORE_2, 1.0), needed(ALPHA_2, KSCORE_2, 0.65)
    assert pytest.approx(0.20, abs=1e-6) == anywhere
    assert pytest.approx(0.55, abs=1e-6) == there
    assert {"w1", "w2"} == prefix(S2, anywhere, M2)
    assert prefix(S2, anywhere, M2) & set(M2)
    assert {"w1"} == prefix(S2, there, M2)
    assert not prefix(S2, there, M2) & set(M2)


def test_example_6_unseen_keywords():
    """After w2 s3 has 0.28, at most 0.12 can come, and 0.48 is needed."""
    least = 0.48
    assert {"w1", "w2"} == prefix(S3, least, M3)
    seen = S3["w2"] * M3["w2"]
    assert pytest.approx(0.28) == seen
    own, said = [S3["w3"], S3["w4"]], [M3["w3"], M3["w4"]]
    assert pytest.approx((0.4, 0.3)) == (sum(own), max(own))
    assert pytest.approx((0.5, 0.3)) == (sum(said), max(said))
    assert pytest.approx(0.12) == unseen_text(sum(own), max(own), math.inf, sum(said), max(said), math.inf)
    assert seen + 0.12 < least


def test_cauchy_schwarz_is_tighter_in_example_6():
    """The third bound, on what is left of both vectors, gives 0.114 where Equation 5 gives 0.12."""
    own, said = [S3["w3"], S3["w4"]], [M3["w3"], M3["w4"]]
    third = math.hypot(*own) * math.hypot(*said)
    assert pytest.approx(0.114, abs=5e-4) == third
    assert third == unseen_text(sum(own), max(own), math.hypot(*own), sum(said), max(said), math.hypot(*said))


@pytest.mark.parametrize(
    ("own", "said", "least"),
    [
        ([0.5, 0.5], [0.1, 0.1, 0.1, 0.1, 0.1], 0),
        ([0.1, 0.1, 0.1, 0.1, 0.1], [0.5, 0.5], 1),
        ([0.6, 0.1], [0.6, 0.1], 2),
    ],
)
def test_none_of_the_three_bounds_is_always_the_least(own, said, least):
    """wtsum·maxwt, maxwt·wtsum and the lengths each win somewhere."""
    three = (sum(own) * max(said), max(own) * sum(said), math.hypot(*own) * math.hypot(*said))
    assert least == three.index(min(three))
    assert min(three) == unseen_text(sum(own), max(own), math.hypot(*own), sum(said), max(said), math.hypot(*said))


# Slips


@given(theta=st.floats(0.0, 2.0), near=st.floats(0.0, 1.0), text=st.floats(0.0, 1.0))
def test_alpha_1_divides_by_zero_in_lambda_t(theta, near, text):
    """Space only: λT is defined, and above all text exactly where the place does not suffice."""
    least = text_threshold(key_of(0.0, theta), alpha_of(0.0), near)
    assert math.isfinite(least)
    if score_of(0.0, text, near) >= theta:
        assert least <= 0.0
    if near < theta - 2 * MARGIN:
        assert least > 0.0


def test_alpha_0_divides_by_zero_in_lambda_s():
    """Text only: any distance will do as long as θ can be reached by words, none beyond that."""
    assert 0.0 == near_needed(1.0, 0.9, 1.0) == near_needed(1.0, 1.0, 1.0)
    assert math.inf == near_needed(1.0, 1.1, 1.0)


@given(alpha=st.floats(0.0, 1.0), kscore=st.floats(0.0, 1.5), near=st.floats(0.0, 1.0))
def test_lemma_6_corrected(alpha, kscore, near):
    """λS > SSimUBout gives kScore > (1 - α) + α · SSimUBout, a product where the proof prints a sum."""
    if near_needed(1.0 - alpha, kscore, 1.0) > near:
        assert kscore > score_of(1.0 - alpha, 1.0, near)


def test_lemma_6_as_printed_is_wrong():
    """With α = 0.5, kScore = 0.9 and SSimUBout = 0.7 the cell is skipped, but 0.9 is not above 0.5 + 0.5 + 0.7."""
    alpha, kscore, near = 0.5, 0.9, 0.7
    assert kscore / alpha - (1 - alpha) / alpha > near
    assert not kscore > (1 - alpha) + alpha + near
    assert kscore > (1 - alpha) + alpha * near


def index_of(name, *wanted, thresholds):
    """Return an index of this name with these subscriptions."""
    index = IndexActor(create(name, Space.plane()))
    index.set_thresholds(index.insert(wanted), thresholds)
    return index


@pytest.mark.parametrize("name", ["skype", "ipt", "ciq"])
def test_a_word_must_be_shared_even_when_alpha_is_1(name):
    """Space only, θ = 0, on the spot: a message with another word concerns nobody."""
    index = index_of(name, TopK(0, place=(0, 0), terms=("a",), text_weight=0.0, max_distance=1.0), thresholds=[0.0])
    assert [0, 0, 1] == index.match([(["b"], (0, 0, 0, 0)), (["a"], (0, 0, 0, 0))]).start.tolist()


@pytest.mark.parametrize("name", ["skype", "ipt", "ciq"])
def test_a_score_equal_to_kscore_counts(name):
    """Score ≥ kScore is inclusive."""
    wanted = TopK(0, place=(0, 0), terms=("a",), text_weight=0.5, max_distance=1.0)
    index = index_of(name, wanted, wanted, thresholds=[0.75, math.nextafter(0.75, 1.0)])
    assert [0] == index.match([(["a"], (0.5, 0, 0.5, 0))]).slots.tolist()


@pytest.mark.parametrize("name", ["skype", "ipt"])
def test_algorithm_1_forgets_what_it_passes_over(name):
    """Line 20 passes over later words of a member it holds, and the text that line 29 trusts lacks them.

    Words of 0.9, 0.3 and 0.3162 in a subscription and an equal message, λT = 0.95: w1 is in the prefix, w2 and w3 are
    not, so the printed algorithm ends with a text of 0.81 and drops an answer whose text is 1.
    """
    parts = {"w1": 0.9, "w2": 0.3, "w3": math.sqrt(1 - 0.9**2 - 0.3**2)}
    held = sum(weight**2 for word, weight in parts.items() if word in prefix(parts, 0.95, parts))
    assert pytest.approx(0.81) == held < 0.95
    assert pytest.approx(1.0) == sum(weight**2 for weight in parts.values())
    index = IndexActor(create(f"{name}:leaf=1", Space.plane()))
    index.reweigh(parts)
    wanted = TopK(0, place=(0, 0), terms=tuple(parts), text_weight=1.0, max_distance=1.0)
    index.set_thresholds(index.insert([wanted] * 5), [0.95] * 5)
    assert [0, 1, 2, 3, 4] == index.match([(list(parts), (3, 3, 3, 3))]).slots.tolist()


def test_what_a_group_passed_over_is_added_later():
    """Theorem 3 skips the group of w02, Theorem 2 at w03 must not drop a member for the lack of w02.

    Thirteen words of 0.277 each, a message with 0.302, 0.302 and 0.905 in the first three: text 0.418, λT = 0.41. The
    group of w02 is skipped, 0.277 · 1.206 being 0.334; that of w03 is not, for the sake of a member behind.
    """
    words = [f"w{i:02}" for i in range(1, 14)]
    long = TopK(0, place=(0, 0), terms=tuple(words), text_weight=1.0, max_distance=1.0)
    short = TopK(0, place=(0, 0), terms=("w03",), text_weight=1.0, max_distance=1.0)
    index = index_of("skype", long, short, thresholds=[0.41, 0.5])
    found = index.match([(["w01", "w02", "w03", "w03", "w03"], (9, 9, 9, 9))])
    assert [0, 1] == found.slots.tolist()
    assert pytest.approx([5 / math.sqrt(13 * 11), 3 / math.sqrt(11)]) == found.score.tolist()
    # The entry of w01, both of w03, and none of w02.
    assert 3 == found.candidates


@given(
    parts=st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=8),
    seen=st.integers(0, 8),
)
def test_unseen_words_never_add_more_than_the_bound(parts, seen):
    """Theorem 2: what has been added up and the bound on the rest are no less than the whole."""
    seen = min(seen, len(parts))
    own, said = [a for a, _ in parts[seen:]], [b for _, b in parts[seen:]]
    assume(own)
    bound = unseen_text(sum(own), max(own), math.hypot(*own), sum(said), max(said), math.hypot(*said))
    assert sum(a * b for a, b in zip(own, said, strict=True)) <= bound + MARGIN


@given(
    text_weight=st.floats(0.0, 1.0) | st.sampled_from([0.0, 1e-300, 1e-7, 1e-6, 1e-5, 1.0]),
    text=st.floats(0.0, 1.0),
    near=st.floats(0.0, 1.0),
    further=st.floats(0.0, 1.0),
)
def test_who_reaches_the_threshold_has_the_text_that_is_needed(text_weight, text, near, further):
    """Lemma 1, at any nearness that is no less than the true one."""
    theta = score_of(text_weight, text, near)
    bound = near + (1.0 - near) * further
    most = 0.0 if text_weight < 1e-6 else text
    assert most >= text_threshold(key_of(text_weight, theta), alpha_of(text_weight), bound)
