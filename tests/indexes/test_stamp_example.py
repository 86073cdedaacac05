"""The running example of the STAMP paper (Hu et al., ICDE 2015: Figure 1, Examples 1 to 6), and the paper's slips.

The regions of the figure are lost to us: the spatial similarities that the text prints are made by placing
subscriptions at (1 - similarity) · D from the message, and regions so that the printed MAXSIM come out.
"""

import math

import numpy as np
import pytest

from nearcast.columns import SIMILAR, Messages, ScoreParameters, Subscriptions
from nearcast.geo import Box, Regions, Space
from nearcast.indexes import create
from nearcast.indexes.papers.stamp.bounds import cost_of_filtering, prefix_of
from nearcast.indexes.papers.stamp.candidates import COST, N_OPEN
from nearcast.indexes.papers.stamp.lists import NO_LIST, find_list
from nearcast.indexes.shared.scores import scored_of
from nearcast.similarity import COSINE, DICE, JACCARD, SIMILARITY_NAMES, TSIM, near_needed, text_needed

pytestmark = [pytest.mark.modes, pytest.mark.papers]

PLANE = Space.plane()
D = 100.0
#: t1 to t5, by term: shoes, t-shirt, nike, adidas, discount.
T1, T2, T3, T4, T5 = range(5)
DUMMY = -1
WEIGHT = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
#: Tokens, text_weight (δ), threshold (τ), spatial similarity to both messages.
FIGURE = {
    "s0": ((T4, T2), 0.7, 0.8, 0.6),
    "s1": ((T4, T3, T2), 0.5, 0.8, 0.7),
    "s2": ((T4, T3, T1), 0.5, 0.7, 0.6),
    "s3": ((T5, T4, T1), 0.6, 0.75, 0.6),
    "s4": ((T5, T2, T1), 0.5, 0.6, 0.55),
    "s5": ((T3, T2, T1), 0.5, 0.6, 0.55),
    "s6": ((T3, T2, T1), 0.2, 0.7, 0.4),
    "s7": ((T5, T4, T1), 0.6, 0.7, 0.3),
    "s8": ((T5, T4, T2), 0.7, 0.7, 0.4),
    "s9": ((T4, T2, T1), 0.5, 0.8, 0.3),
    "s10": ((T5, T3), 0.5, 0.8, 0.4),
}
M1, M2 = (T4, T2), (T4, T3, T1)
FILTERS = ("sp", "sp+hi", "sp+rp+hi", "sp+st+hi", "sp+rp+st+hi")


def around(names):
    """Places around the message at the origin, at the printed similarities."""
    angle = np.linspace(0.0, 2 * math.pi, len(names), endpoint=False)
    reach = [(1 - FIGURE[name][3]) * D for name in names]
    return {n: (r * math.cos(a), r * math.sin(a)) for n, r, a in zip(names, reach, angle, strict=True)}


def columns(rows, places, function=TSIM):
    """Subscriptions (tokens, text_weight, threshold, ...) at places."""
    code = [sorted(row[0]) for row in rows]
    start = np.append(0, np.cumsum([len(words) for words in code]))
    n = len(rows)
    numbers = np.array([[row[1], row[2], D] for row in rows], np.float64).reshape(-1, 3).T
    return Subscriptions.of(
        np.arange(n + 1),
        start,
        np.array([term for words in code for term in words], np.int32),
        Regions.from_shapes([Box(x, y, x, y) for x, y in places], PLANE),
        kind=np.full(n, SIMILAR, np.uint8),
        scoring=ScoreParameters(*map(np.ascontiguousarray, numbers), np.full(n, function, np.uint8)),
    )


def message(tokens, place=(0.0, 0.0), n_words=None):
    """One message at a point; with `n_words` it says so many words, those beyond its tokens of weight 1."""
    n_words = len(tokens) if n_words is None else n_words
    total = sum(WEIGHT[term] for term in tokens if term < len(WEIGHT)) + (n_words - len(tokens))
    start = np.array([0, len(tokens)])
    return Messages.of(start, np.array(tokens, np.int32), [[*place, *place]], totals=[[n_words, total, 0.0]])


def index_of(spec, names, places=None, rows=None, function=TSIM, weight=WEIGHT):
    """An index of subscriptions of the figure, or of other rows."""
    index = create(spec, PLANE)
    index.set_weights(weight)
    places = around(names) if places is None else places
    rows = [FIGURE[name] for name in names] if rows is None else rows
    index.insert(columns(rows, [places[name] for name in names], function))
    return index


def answers(index, names, *args, **more):
    return {names[slot] for slot in index.match(message(*args, **more)).slots}


def prefix(name, most_near=1.0, function=TSIM):
    """The prefixes of a subscription of the figure, for messages no nearer than `most_near`."""
    row = FIGURE[name]
    return prefix_of(scored_of(columns([row], [(0.0, 0.0)], function), WEIGHT), 0, (1.0 - most_near) * D)


def sig(found, level=0):
    """The tokens of one level, in order."""
    return found.term[found.level == level].tolist()


def bound(name, token, most_near=1.0):
    """LSB of a token, of the level it stands on."""
    found = prefix(name, most_near)
    return float(found.near[found.term.tolist().index(token)])


def printed(value):
    """The paper rounds to two digits; the margin is far below."""
    return round(value + 1e-6, 2)


# --- Example 1: the results -------------------------------------------------------------------------------------


def test_example_1_scores():
    """SIM(s0, m1) = 0.88 and SIM(s8, m1) = 0.5."""
    index = index_of("scan", ["s0", "s8"])
    assert [0.88] == [round(score, 10) for score in index.match(message(M1)).score]
    row = list(FIGURE["s8"])
    row[2] = 0.4
    lower = index_of("scan", ["s8"], rows=[row])
    assert [0.5] == [round(score, 2) for score in lower.match(message(M1)).score]


@pytest.mark.parametrize("spec", ["scan", *(f"stamp:filters={f},fan_out={n}" for f in FILTERS for n in (2, 3, 100))])
def test_example_1_results(spec):
    """m1 goes to s0, m2 to s2 and s5, whatever the filters and regions."""
    names = list(FIGURE)
    index = index_of(spec, names)
    assert {"s0"} == answers(index, names, M1)
    assert {"s2", "s5"} == answers(index, names, M2)


# --- Section III: the spatial-oriented prefix -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "threshold", "tokens"),
    [("s9", 0.6, [T4]), ("s3", 0.58, [T5]), ("s7", 0.5, [T5, T4]), ("s2", 0.4, [T4, T3]), ("s8", 0.57, [T5])],
)
def test_textual_thresholds_and_prefixes(name, threshold, tokens):
    """The textual threshold (Eq. 1) and SIG(s) (Eq. 2)."""
    _, text_weight, total, _ = FIGURE[name]
    assert threshold == printed(text_needed(text_weight, total, 1.0))
    assert tokens == sig(prefix(name))


def test_the_special_case_of_s6():
    """τ ≤ 1 - δ: the textual threshold is below 0, all tokens and the dummy are in the prefix."""
    assert 0.0 == text_needed(0.2, 0.7, 1.0)
    assert [T3, T2, T1, DUMMY] == sig(prefix("s6"))


def test_the_bounds_of_s6():
    """LSB = {0.63, 0.75, 0.83, 0.88}."""
    assert [0.63, 0.75, 0.83, 0.88] == [printed(near) for near in prefix("s6").near]
    assert [1.0, 0.5, 0.17, 0.0] == [printed(share) for share in prefix("s6").share]


def test_m1_shares_a_prefix_token_with_s9_and_none_with_s3():
    """s9 is a candidate by its token alone, and dropped by LSB(s9 | t4) = 0.6 > 0.3; s3 is not even looked at."""
    names = ["s9", "s3"]
    found = index_of("stamp:filters=sp", names).match(message(M1))
    assert (1, 0, 0) == (found.candidates, found.verified, len(found.slots))
    assert 1.0 == prefix("s9").share[0]
    assert 0.6 == printed(bound("s9", T4))


# --- Section IV: regions ----------------------------------------------------------------------------------------


def test_example_2_region_bounds():
    """LSB(R5 | t4) = 0.33 and LSB(R6 | t4) = 0.6: the least of the lists (Eq. 6)."""
    assert 0.33 == printed(min(bound(name, T4) for name in ("s0", "s1", "s2")))
    assert 0.6 == printed(min(bound(name, T4) for name in ("s7", "s9")))


def region(index, node, token):
    """1 - reach / D of a token in a region: LSB(R | t)."""
    number = find_list(index._held.lists, node, 0, token + 1)
    assert number != NO_LIST
    return printed(max(0.0, 1.0 - float(index._held.lists.reach[number]) / D))


def test_example_2_a_region_is_skipped_and_another_searched():
    """MAXSIM(m1, R6) = 0.55 < 0.6: L(t4, R6) is skipped; MAXSIM(m1, R5) = 0.75 > 0.33: L(t4, R5) is walked."""
    for names, most_near, looked_at in ((["s7", "s9"], 0.55, 0), (["s0", "s1", "s2"], 0.75, 3)):
        places = {name: (5.0 * at, 0.0) for at, name in enumerate(names)}
        index = index_of("stamp:filters=sp+hi", names, places)
        found = index.match(message(M1, (-(1 - most_near) * D, 0.0)))
        # Of R5, the list is in order of reach and ends where nothing reaches the message's gap of 25 any more.
        assert looked_at == found.candidates
    assert 0.33 == region(index, 0, T4)


def test_region_aware_prefix_of_s7():
    """MAXSIM(s7, outside R6) = 0.9 raises the textual threshold to 0.57, and t4 leaves the prefix."""
    assert 0.57 == printed(text_needed(0.6, 0.7, 0.9))
    assert [T5] == sig(prefix("s7", 0.9))


#: s7 lies 10 inside the region of the three, s8 and s9 on its border: MAXSIM(s7, outside R6) = 0.9.
R6 = {"s7": (0.0, 0.0), "s8": (-10.0, -10.0), "s9": (10.0, 10.0)}


def listed(index, leaf, token, *, beyond):
    """The slots on L(t, R), or on L(t, R̃)."""
    held = index._held
    number = find_list(held.lists, leaf, 0, token + 1)
    first = held.lists.both[number, 0] if beyond else held.lists.start[number]
    rows = held.members.row[held.entries.member[first : held.lists.both[number, 1]]]
    return set(index._slot_of[rows].tolist())


def test_example_3_the_lists_of_r6():
    """L(t4, R6) = {s7, s9}, L(t4, R̃6) = {s9}, both lists of t5 = {s7, s8}; LSB(R6 | t4) = 0.6, LSB(R6 | t5) = 0."""
    names = ["s7", "s8", "s9"]
    index = index_of("stamp:filters=sp+rp+hi", names, R6)
    index.match(message(M1))
    named = {beyond: {t: listed(index, 0, t, beyond=beyond) for t in (T4, T5)} for beyond in (False, True)}
    assert {T4: {0, 2}, T5: {0, 1}} == named[False]
    assert {T4: {2}, T5: {0, 1}} == named[True]
    assert (0.6, 0.0) == (region(index, 0, T4), region(index, 0, T5))


#: Leaves R4 = {s5, s6} below R3 = {s4, s10}; s5 lies 35 inside R1, s6 on its border: MAXSIM(s5, outside R1) = 0.65.
R1 = {"s5": (0.0, 0.0), "s6": (-35.0, -35.0), "s4": (35.0, 36.0), "s10": (30.0, 40.0)}


def test_example_3_an_inner_region():
    """SIG(s5, R̃1) = {t3}, so that LSB(R1 | t2) = LSB(s6 | t2) = 0.75 > LSB(R4 | t2) = 0.7, and R1 is skipped."""
    assert 0.55 == printed(text_needed(0.5, 0.6, 0.65))
    assert [T3] == sig(prefix("s5", 0.65))
    names = list(R1)
    index = index_of("stamp:filters=sp+rp+hi,fan_out=2", names, R1)
    found = index.match(message(M1, (35.0 + 30.0, 0.0)))  # MAXSIM(m1, R1) = 0.7
    leaf_r4, root = 0, 2
    assert [[-35.0, -35.0, 0.0, 0.0], [30.0, 36.0, 35.0, 40.0], [-35.0, -35.0, 35.0, 40.0]] == (
        index._held.tree.box.tolist()
    )
    assert (0.7, 0.75) == (region(index, leaf_r4, T2), region(index, root, T2))
    assert (0, 0) == (found.candidates, found.verified)


# --- Section V: the spatio-textual prefix -----------------------------------------------------------------------


def test_s1_needs_a_second_token():
    """With t4 alone s1 scores at most 0.72 on the spot."""
    assert 0.72 == printed(0.5 * 0.4 / 0.9 + 0.5)
    assert [T3, T2] == sig(prefix("s1"), 1)


def test_example_4():
    """UTB and LSB of s2: 1 and 0.4 for t4, 0.5 and 0.9 for t3, 0.63 and 0.78 for t1, which is SIG+1."""
    found = prefix("s2")
    assert [0, 0, 1] == found.level[:3].tolist()
    assert [1.0, 0.5, 0.63] == [printed(share) for share in found.share[:3]]
    assert [0.4, 0.9, 0.78] == [printed(near) for near in found.near[:3]]


def test_example_4_s2_is_dropped_for_m1():
    """m1 has t4 and not t1: 0.55 < 0.7, so s2 is dropped without being verified."""
    found = index_of("stamp:cost=always", ["s2"]).match(message(M1))
    assert (1, 0) == (found.candidates, found.verified)


R9 = ["s0", "s1", "s2", "s3"]


def spatio_textual_lists():
    found = {name: prefix(name) for name in R9}
    return {t: [name for name in R9 if t in sig(found[name], 1)] for t in (T5, T4, T3, T2, T1)}


def test_example_5_the_spatio_textual_lists_of_r9():
    """L+1(t4) = {s3}, L+1(t3) = {s1}, L+1(t2) = {s0, s1}, L+1(t1) = {s2, s3}: six entries."""
    assert {T5: [], T4: ["s3"], T3: ["s1"], T2: ["s0", "s1"], T1: ["s2", "s3"]} == spatio_textual_lists()


def test_example_5_bounds():
    """LSB(s0 | t4) = 0.33, LSB+1(s1 | t2) = 0.93 > 0.7."""
    assert 0.33 == printed(bound("s0", T4))
    assert 0.93 == printed(bound("s1", T2))


def test_example_6_costs():
    """m1: COST_V = 5, COST_F = 4; m2: COST_V = 3, COST_F = 4.67."""
    assert 4.0 == cost_of_filtering(5, 3, 3, 6)
    assert 4.67 == printed(cost_of_filtering(3, 2, 4, 6))


def test_examples_5_and_6_m1_filters_on():
    """Three entries of L, then three of L+1: s0 is verified and an answer, s1 and s2 are dropped."""
    found = index_of("stamp", R9).match(message(M1))
    assert (6, 1, [0]) == (found.candidates, found.verified, found.slots.tolist())


def test_examples_5_and_6_m2_verifies():
    """Four entries of L: s2 is an answer at its second token, s0 and s1 are verified and are none."""
    found = index_of("stamp", R9).match(message(M2))
    assert (4, 3, [2]) == (found.candidates, found.verified, found.slots.tolist())


def test_example_5_m2_would_have_looked_at_four_more_entries():
    """Filtering on: L+1(t4), L+1(t3), L+1(t1) have four. With them all words of s1 are known, and need no verifying."""
    found = index_of("stamp:cost=always", R9).match(message(M2))
    assert (8, 1, [2]) == (found.candidates, found.verified, found.slots.tolist())


def test_r9_has_as_many_entries_on_its_lists_as_tokens():
    """Every token of a subscription is in one prefix (Section VII-C)."""
    stats = index_of("stamp", R9).stats()
    assert (11 / 4, 11) == (stats["listed_tokens"], stats["entries"])
    assert 5 / 4 == stats["prefix_tokens"]


# --- Slips of the paper -----------------------------------------------------------------------------------------


def found_by_all(rows, places, tokens, function=TSIM, weight=WEIGHT, **more):
    """What scan finds, having seen that every variant finds it."""
    names = list(range(len(rows)))
    specs = ["scan", *(f"stamp:filters={f},cost={c}" for f in FILTERS for c in ("model", "always", "never"))]
    found = [
        answers(index_of(s, names, places, rows, function, weight), names, tokens, **more) for s in specs
    ]  # fmt: skip
    assert all(found[0] == other for other in found)
    return found[0]


def test_slip_delta_1_divides_by_zero_in_lsb():
    """Pure text: any distance will do where the words are enough, else none."""
    row = ((T4, T2), 1.0, 0.6)
    assert 0.0 == near_needed(1.0, 0.6, 1.0)
    assert math.inf == near_needed(1.0, 0.6, 0.5)
    assert {0} == found_by_all([row], [(1e6, 0.0)], (T4,))
    assert set() == found_by_all([row], [(0.0, 0.0)], (T2,))


def test_slip_lsb_below_0_means_any_distance():
    """near is never below 0, so far beyond D a subscription whose words are enough still is an answer."""
    row = ((T4, T2), 0.8, 0.5)
    assert 0.0 == near_needed(0.8, 0.5, 2 / 3)
    assert {0} == found_by_all([row], [(1e6, 0.0)], (T4,))


def test_slip_delta_0_divides_by_zero_in_the_textual_threshold():
    """Pure space: only the dummy token is listed, and no word is needed."""
    row = ((T4, T2), 0.0, 0.5)
    index = index_of("stamp", [0], [(40.0, 0.0)], [row])
    assert 1 == index.stats()["entries"]
    assert {0} == found_by_all([row], [(40.0, 0.0)], ())
    assert set() == found_by_all([row], [(60.0, 0.0)], (T4, T2))


def test_slip_the_dummy_token_is_needed_from_tau_equal_to_1_minus_delta_on():
    """At τ = 1 - δ a message on the spot needs no word."""
    assert {0} == found_by_all([((T4,), 0.5, 0.5)], [(0.0, 0.0)], ())
    assert set() == found_by_all([((T4,), 0.5, 0.5)], [(1.0, 0.0)], ())


def test_slip_algorithm_2_line_20_reads_the_region_aware_list():
    """From outside R6, of the two on L(t4, R6) only s9 is looked at: s7 lies 10 inside, and t4 reaches 5 for it."""
    names = ["s7", "s8", "s9"]
    rows = [((T5, T4, T1), 0.6, 0.68), FIGURE["s8"], FIGURE["s9"]]
    outside = message((T4,), (10.5, 10.0))
    assert [2, 1] == [
        index_of(f"stamp:filters={filters}", names, R6, rows).match(outside).candidates
        for filters in ("sp+hi", "sp+rp+hi")
    ]


def test_slip_update_line_2_is_an_or():
    """Enough weight ends the search for more tokens; so does the last token, though it is not enough.

    With AND, the first candidate below would be pruned for want of a second token, the other one verified in vain.
    """
    assert {0} == found_by_all([((T4, T1), 0.5, 0.7)], [(0.0, 0.0)], (T4,))
    weight, row, elsewhere = np.array([0.5, 0.3, 0.2]), ((0, 1, 2), 0.5, 0.6), ((1,), 1.0, 1.0)
    # Two at (±60, 0): the message is inside their region, where all tokens before the last one were looked at.
    index = index_of("stamp:cost=never", [0, 1], [(60.0, 0.0), (-60.0, 0.0)], [row, elsewhere], weight=weight)
    found = index.match(message((0, 2)))
    assert (2, 0) == (found.candidates, found.verified)
    assert set() == found_by_all([row], [(60.0, 0.0)], (0, 2), weight=weight)


@pytest.mark.parametrize("n_common", [1, 2, 3])
def test_slip_dice_is_bounded_from_above(n_common):
    """A message of just the common words has DICE = 2T / (1 + T), above T: with the threshold T it would be lost."""
    words = (T4, T3, T2)
    share = n_common / 3
    dice = 2 * share / (1 + share)
    row = (words, 1.0, dice)
    # Heaviest first: the message has the last words of the order, the worst case for a prefix.
    assert {0} == found_by_all([row], [(0.0, 0.0)], words[3 - n_common :], DICE)
    assert 0 == prefix_of(scored_of(columns([row], [(0.0, 0.0)], DICE), WEIGHT), 0).level[3 - n_common]


@pytest.mark.parametrize("n_common", [1, 2, 3])
def test_slip_cosine_needs_the_square_of_the_threshold(n_common):
    """A message of just the common words has COS = √T, and √|s| · τ in place of the ratio τ² loses it."""
    words = (T4, T3, T2)
    cosine = n_common / math.sqrt(3 * n_common)
    row = (words, 1.0, cosine)
    assert {0} == found_by_all([row], [(0.0, 0.0)], words[3 - n_common :], COSINE)
    assert math.sqrt(3) * cosine > n_common / 3


def test_slip_the_utb_of_cosine_sums_from_the_first_match_token():
    """The printed sum from j = 1 is the same for all tokens; ours falls from token to token."""
    scored = scored_of(columns([((T4, T3, T2), 0.5, 0.5)], [(0.0, 0.0)], COSINE), WEIGHT)
    assert [1.0, 0.67, 0.33, 0.0] == [printed(share) for share in prefix_of(scored, 0).share]


@pytest.mark.parametrize("function", [JACCARD, DICE, COSINE], ids=SIMILARITY_NAMES[2:])
def test_slip_enough_weight_is_an_answer_for_tsim_and_overlap_only(function):
    """A message of a hundred words has all of the subscription's, and is far from alike."""
    row = ((T4, T2), 0.5, 0.9)
    assert {0} == found_by_all([row], [(0.0, 0.0)], (T4, T2), function)
    assert set() == found_by_all([row], [(0.0, 0.0)], (T4, T2), function, n_words=100)


def test_slip_verify_plus_counts_the_first_token_once():
    """s1 and m1: t4 and t2 are 0.67 of it, short of the threshold; t4 twice would be enough."""
    row = ((T4, T3, T2), 0.5, 0.8)
    text, twice = 0.6 / 0.9, 1.0 / 0.9
    assert 0.5 * text + 0.5 * 0.9 < 0.8 <= 0.5 * twice + 0.5 * 0.9
    assert set() == found_by_all([row], [(10.0, 0.0)], M1)


def test_slip_example_5_prints_0_14_for_lsb_of_s0():
    """(0.8 - 0.7) / 0.3 = 0.33 as in Example 2; 0.14 comes of dividing by δ = 0.7."""
    assert 0.33 == printed(bound("s0", T4))
    assert 0.14 == printed((0.8 - 0.7) / 0.7)


@pytest.mark.parametrize("tokens", [(T4, T2), (T3, T2)], ids=["as defined", "as printed"])
def test_slip_section_3_b_once_calls_m1_t3_t2(tokens):
    """s6 is dropped for either: 0.4 is below all its bounds."""
    found = index_of("stamp:filters=sp", ["s6"]).match(message(tokens))
    assert (0, 0) == (found.verified, len(found.slots))


def test_slip_r9_is_r5_and_s3():
    """The lists of Examples 5 and 6 have six entries only with s3, which R5 of Example 2 does not hold."""
    with_s3 = sum(map(len, spatio_textual_lists().values()))
    assert (6, 4) == (with_s3, with_s3 - len(sig(prefix("s3"), 1)))


def test_slip_algorithm_3_line_8_asks_too_much_of_a_second_token_of_the_prefix():
    """A candidate's second token in SIG must count though LSB of that token alone fails: it has the first one's weight.

    Here SIG = {a, b} and SIG+1 = {c}. A message with a and b is an answer; by line 8, b is not counted, since
    near 0.5 < LSB(s | b) = 0.8, and s is pruned for want of a second token.
    """
    weight = np.array([0.5, 0.3, 0.2])
    row = ((0, 1, 2), 0.5, 0.65)
    found = prefix_of(scored_of(columns([row], [(0.0, 0.0)]), weight), 0)
    assert [0, 0, 1] == found.level[:3].tolist()
    assert [0.3, 0.8] == [printed(near) for near in found.near[:2]]
    assert {0} == found_by_all([row], [(50.0, 0.0)], (0, 1), weight=weight)


def test_slip_update_line_4_takes_off_what_the_first_token_had_put_on():
    """m2: COST_V of s0 and s1 is 1 + 2 = 3, as in Example 6, once s2 has left at its second token.

    That token is of order 2 of 3: line 4 would take off 3 - 2 = 1 of the 2 that the first had put on, and leave 4.
    """
    index = index_of("stamp", R9)
    index.match(message(M2))
    assert (2, 3) == (index._held.members.number[N_OPEN], index._held.members.number[COST])
