"""The index `stamp`: whatever its filters, it answers as `scan` does, and its filters save what the paper says."""

import itertools

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.columns import SIMILAR, Messages, ScoreParameters, Subscriptions
from nearcast.errors import NotSupported, UnknownIndex
from nearcast.geo import Box, Regions, Space
from nearcast.indexes import create, open_index
from nearcast.indexes.papers.stamp.bounds import ENDLESS
from nearcast.indexes.papers.stamp.candidates import NEXT
from nearcast.similarity import SIMILARITY_NAMES

pytestmark = [pytest.mark.modes, pytest.mark.papers]

EARTH, PLANE = Space.earth(), Space.plane()
SPACES = pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
FILTERS = ("sp", "sp+hi", "sp+rp+hi", "sp+st+hi", "sp+rp+st+hi")
#: Fan-outs go by the seed.
SEEDED = pytest.mark.parametrize(
    ("seed", "space"),
    [(0, EARTH), (1, PLANE), (2, EARTH), (5, PLANE)],
    ids=["0-earth", "1-plane", "2-earth", "5-plane"],
)
N_TERMS = 30


def specs(fan_out):
    """Every filter, and those with spatio-textual prefixes under every way to use them."""
    plain = [f"stamp:filters={filters},fan_out={fan_out}" for filters in FILTERS]
    return [*plain, *(f"{spec},cost={cost}" for spec in plain[3:] for cost in ("always", "never"))]


def subscriptions(rows, space):
    """Columns of (words, place, text_weight, threshold, max_distance, function)."""
    words = [sorted(set(row[0])) for row in rows]
    numbers = np.array([row[2:5] for row in rows], np.float64).reshape(-1, 3).T
    return Subscriptions.of(
        np.arange(len(rows) + 1),
        np.append(0, np.cumsum([len(each) for each in words])),
        np.array([term for each in words for term in each], np.int32),
        Regions.from_shapes([Box(*row[1], *row[1]) for row in rows], space),
        kind=np.full(len(rows), SIMILAR, np.uint8),
        scoring=ScoreParameters(*map(np.ascontiguousarray, numbers), np.array([row[5] for row in rows], np.uint8)),
    )


def messages(said, weight):
    """Columns of (words, box); a negative word is one that no subscription has."""
    sets = [sorted({term for term in words if term >= 0}) for words, _ in said]
    unknown = [len({term for term in words if term < 0}) for words, _ in said]
    totals = [[len(s) + n, sum(weight[term] for term in s) + n] for s, n in zip(sets, unknown, strict=True)]
    return Messages.of(
        np.append(0, np.cumsum([len(words) for words, _ in said])),
        np.array([max(term, -1) for words, _ in said for term in words], np.int32),
        np.array([box for _, box in said], np.float64).reshape(-1, 4),
        totals=np.insert(np.array(totals, np.float64).reshape(-1, 2), 2, 0.0, axis=1),
    )


# --- random worlds ----------------------------------------------------------------------------------------------


class World:
    """Subscriptions and messages of a seed: clustered places, unequal words, all functions, and the ends of scales."""

    def __init__(self, seed, space):
        self.rng, self.space = np.random.default_rng(seed), space
        self.on_lattice = bool(seed % 3 == 0)
        self.weight = self.rng.choice([0.0, 0.5, 1.0, 2.0], N_TERMS) if seed % 4 == 0 else self.rng.random(N_TERMS)
        self.max_distance = [8.0, 40.0, 200.0][seed % 3] * (1e5 if space.is_earth else 1.0)

    def place(self):
        rng = self.rng
        if self.space.is_earth:
            x, y = rng.uniform(-180, 180), rng.uniform(-90, 90)
            if rng.random() < 0.3:  # at the dateline and the poles
                x, y = rng.choice([-180.0, 180.0, 179.0, -179.0]), rng.choice([-90.0, 90.0, 89.0, 0.0])
        else:
            x, y = rng.normal(rng.choice([0, 50, 100]), 12), rng.normal(rng.choice([0, 70]), 12)
        return (round(x / 10) * 10.0, round(y / 10) * 10.0) if self.on_lattice else (float(x), float(y))

    def words(self, least, most):
        n = self.rng.integers(least, most + 1)
        return [min(int(term), N_TERMS - 1) for term in self.rng.pareto(0.6, n) * 3]

    def row(self):
        rng = self.rng
        text_weight = rng.choice([0.0, 0.25, 0.5, 0.75, 1.0]) if rng.random() < 0.4 else rng.random()
        threshold = rng.choice([0.25, 0.5, 0.75, 1.0]) if rng.random() < 0.4 else rng.uniform(0.1, 1)
        max_distance = self.max_distance * (1.0 if rng.random() < 0.5 else rng.uniform(0.1, 2))
        return self.words(0, 6), self.place(), text_weight, threshold, max_distance, rng.integers(0, 5)

    def subscriptions(self, n):
        return subscriptions([self.row() for _ in range(n)], self.space)

    def box(self):
        x, y = self.place()
        if self.rng.random() < 0.6:
            return x, y, x, y
        x_max, y_max = x + self.rng.choice([0.0, 10.0, self.rng.uniform(0, 60)]), y + self.rng.uniform(0, 30)
        if self.space.is_earth:
            return x, y, x_max - 360 if x_max > 180 else x_max, min(y_max, 90.0)
        return x, y, x_max, y_max

    def messages(self, n, weight=None):
        said = [([*self.words(0, 14), *([-1, -2] if self.rng.random() < 0.3 else [])], self.box()) for _ in range(n)]
        return messages(said, self.weight if weight is None else weight)


def compared(indexes, asked):
    """Match with all, the first being scan; return its answer, having seen that all agree and prune as they should."""
    expected, *others = [index.match(asked) for index in indexes]
    for index, found in zip(indexes[1:], others, strict=True):
        assert (index._options, expected) == (index._options, found)
    sp, hi, rp, *deeper = others
    # Regions save walking lists, never a candidate: what they skip would not have been within reach.
    assert sp.verified == hi.verified == rp.verified
    assert rp.candidates <= hi.candidates <= sp.candidates
    assert all(found.verified <= sp.verified for found in deeper)
    return expected


@SEEDED
def test_all_filters_agree_with_scan(space, seed):
    """Same slots, same order, same scores to the last bit, for one build."""
    world = World(seed, space)
    indexes = [create(spec, space) for spec in ("scan", *specs([2, 5, 40][seed % 3]))]
    held, asked = world.subscriptions(120), world.messages(25)
    for index in indexes:
        index.set_weights(world.weight)
        index.insert(held)
    assert len(compared(indexes, asked).slots) > 10


@SEEDED
def test_all_filters_agree_with_scan_through_a_life(space, seed):
    """Inserted a few at a time, removed, moved, replaced, weighed anew, renumbered: the same as scan after each."""
    world = World(seed + 100, space)
    indexes = [create(spec, space) for spec in ("scan", *specs([3, 8, 2][seed % 3]))]
    for index in indexes:
        index.set_weights(world.weight)
    n_found = n_late = 0
    for step in range(8):
        held, asked = world.subscriptions(int(world.rng.choice([1, 5, 40]))), world.messages(8)
        moved, replaced, gone = (world.rng.random(200) for _ in range(3))
        others = world.subscriptions(200)
        weight = world.rng.random(N_TERMS) if step == 5 else None
        for index in indexes:
            index.insert(held)
            live = np.flatnonzero(index._row_of >= 0).astype(np.int32)
            for chosen, change in ((moved, "move"), (replaced, "replace"), (gone, "remove")):
                slots = live[chosen[: len(live)] < 0.08]
                args = {"move": (others.regions.take(slots % 200),), "replace": (others.take(slots % 200),)}
                getattr(index, change)(slots, *args.get(change, ()))
                live = np.setdiff1d(live, slots) if change == "remove" else live
            if weight is not None:
                index.set_weights(weight)
            if step == 6:
                index.renumber()
        if weight is not None:
            world.weight = weight
            asked = world.messages(8)
        n_found += len(compared(indexes, asked).slots)
        n_late += indexes[-1].stats()["late_entries"]
    assert n_found > 10
    assert n_late > 0


_xy = st.sampled_from([0.0, 1.0, 2.0, 10.0])
_share = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
_words = st.lists(st.integers(0, 4), max_size=4)
_rows = st.tuples(
    _words, st.tuples(_xy, _xy), _share, _share.filter(bool), st.sampled_from([1.0, 2.0, 5.0]), st.integers(0, 4)
)
_boxes = st.tuples(_xy, _xy, _xy, _xy).map(
    lambda b: (min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3]))
)


@given(
    st.lists(_rows, min_size=1, max_size=8),
    st.lists(_rows, max_size=3),
    st.lists(st.tuples(_words, _boxes), min_size=1, max_size=4),
    st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=5, max_size=5),
)
def test_ties_and_borders(rows, more, said, weight):
    """On a lattice, where scores equal thresholds and places lie on the borders of regions."""
    indexes = [create(spec, PLANE) for spec in ("scan", *specs(2))]
    for index in indexes:
        index.set_weights(np.array(weight))
        index.insert(subscriptions(rows, PLANE))
    compared(indexes, messages(said, weight))
    for index in indexes:
        index.insert(subscriptions(more, PLANE))
    compared(indexes, messages(said, weight))


# --- the earth --------------------------------------------------------------------------------------------------


def found_by_all(rows, said, space, weight=None, fan_out=2):
    """Return what scan finds for each message, having seen that all variants do."""
    weight = np.ones(N_TERMS) if weight is None else weight
    indexes = [create(spec, space) for spec in ("scan", *specs(fan_out))]
    for index in indexes:
        index.set_weights(weight)
        index.insert(subscriptions(rows, space))
    found = compared(indexes, messages(said, weight))
    return [found.slots_of(row).tolist() for row in range(len(said))]


def near_by(places, max_distance=3e5):
    """Subscriptions to word 0 that want it within 150 km."""
    return [([0], place, 0.5, 0.75, max_distance, 0) for place in places]


def test_180_and_minus_180_are_one_meridian():
    """Places written on either side of the dateline are near each other, points and rectangles."""
    rows = near_by([(180.0, 0.0), (-180.0, 0.0), (179.0, 1.0), (-179.0, -1.0), (170.0, 0.0)])
    said = [([0], (x, 0.0, x, 0.0)) for x in (180.0, -180.0)] + [([0], (179.5, -1.0, -179.5, 1.0))]
    assert [[0, 1]] * 2 + [[0, 1, 2, 3]] == found_by_all(rows, said, EARTH)


def test_all_longitudes_meet_at_a_pole():
    """A subscription at a pole is on the spot for a message there, however its longitude is written."""
    rows = near_by([(0.0, 90.0), (120.0, 90.0), (-60.0, 89.0), (100.0, 89.0), (0.0, 80.0)])
    said = [([0], (lon, 90.0, lon, 90.0)) for lon in (0.0, -170.0)] + [([0], (90.0, 89.5, 100.0, 90.0))]
    assert [[0, 1, 2, 3]] * 2 == found_by_all(rows, said, EARTH)[:2]


def test_a_message_larger_than_all_regions():
    """A rectangle around everything is at distance 0 from everybody."""
    rows = near_by([(float(x), float(y)) for x in (-170, 0, 170) for y in (-80, 0, 80)])
    assert [list(range(9))] == found_by_all(rows, [([0], (-180.0, -90.0, 180.0, 90.0))], EARTH)


# --- words ------------------------------------------------------------------------------------------------------


def test_repeated_and_unknown_words_count_once():
    """A repeated word is one word; unknown ones make a message longer and nothing else."""
    rows = [([0, 1], (0.0, 0.0), 1.0, 0.6, 1.0, function) for function in range(5)]
    spot = (0.0, 0.0, 0.0, 0.0)
    said = [([0, 0, 1, 1], spot), ([0, 1, -1, -1], spot), ([0, 1, -1, -2, -3, -4], spot), ([0, 0, -1], spot)]
    expected = [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 1], []]
    assert expected == found_by_all(rows, said, PLANE)


def test_nothing_in_a_message_and_nothing_in_a_subscription():
    """Where no word is needed, none must be there; where one is, an empty subscription never matches."""
    rows = [
        ([], (0.0, 0.0), 0.0, 0.5, 10.0, 0),
        ([], (0.0, 0.0), 0.5, 0.5, 10.0, 0),
        ([], (0.0, 0.0), 0.6, 0.5, 10.0, 0),
    ]
    said = [([], (0.0, 0.0, 0.0, 0.0)), ([3], (4.0, 0.0, 4.0, 0.0)), ([], (6.0, 0.0, 6.0, 0.0))]
    assert [[0, 1], [0], []] == found_by_all(rows, said, PLANE)


@pytest.mark.parametrize("function", range(5), ids=SIMILARITY_NAMES)
def test_subscriptions_of_many_words(function):
    """Forty words, most of which must be there: more prefixes than are told apart."""
    words = list(range(40))
    rows = [
        (words, (float(at), 0.0), 0.9, threshold, 50.0, function) for at, threshold in enumerate((0.5, 0.7, 0.9, 1.0))
    ]
    said = [
        (words[first:last], (0.0, 0.0, 0.0, 0.0)) for first, last in ((0, 40), (0, 30), (10, 40), (39, 40), (1, 40))
    ]
    for weight in (np.ones(40), np.linspace(1.0, 2.0, 40), np.geomspace(1.0, 1e6, 40)):
        found = found_by_all(rows, said, PLANE, weight)
        assert [0, 1, 2] == found[0][:3]
    index = create("stamp", PLANE)
    index.insert(subscriptions(rows, PLANE))
    index.match(messages(said, np.ones(40)))
    assert ENDLESS == index._held.members.depth[:-1].max()


def test_long_messages():
    """A hundred words, and a thousand."""
    world = World(7, PLANE)
    rows = [world.row() for _ in range(60)]
    said = [(list(range(N_TERMS)) * 4, world.box()), ([*range(N_TERMS), *range(-970, 0)], world.box())]
    assert all(found_by_all(rows, said, PLANE, world.weight, fan_out=5))


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e6, 1e30])
def test_a_message_at_the_rim_of_a_reach(scale):
    """Just as far as the threshold allows, to the last bit, on planes of any size: reaches are rounded up."""
    rng = np.random.default_rng(3)
    rows, said = [], []
    for at in range(60):
        x, y = rng.uniform(-1, 1, 2) * scale
        distance = float(PLANE.distance(0.0, 0.0, x, y))
        near = 1.0 - distance / (2 * scale)
        rows.append(([0], (x, y), 0.5, 0.5 * 1.0 + (1.0 - 0.5) * near, 2 * scale, at % 2))
    said = [([0], (0.0, 0.0, 0.0, 0.0))]
    assert [list(range(60))] == found_by_all(rows, said, PLANE, fan_out=7)


# --- a life -----------------------------------------------------------------------------------------------------


def few_rows(n, start=0):
    return [([at % 3, 3], (float(at), 0.0), 0.5, 0.62, 10.0, 0) for at in range(start, start + n)]


def at_place(x, words=(3,)):
    return messages([(list(words), (x, 0.0, x, 0.0))], np.ones(N_TERMS))


def test_an_empty_index_finds_nothing_and_can_be_filled():
    """Asked before there is anything, after everything has gone, and filled again."""
    index = create("stamp", PLANE)
    assert 0 == len(index.match(at_place(0.0)).slots)
    slots = index.insert(subscriptions(few_rows(5), PLANE))
    assert [0, 1, 2] == index.match(at_place(0.0)).slots.tolist()
    index.remove(slots)
    assert 0 == len(index.match(at_place(0.0)).slots)
    index._rows_renumbered()
    assert 0 == len(index.match(at_place(0.0)).slots)
    index.insert(subscriptions(few_rows(2), PLANE))
    assert [5, 6] == index.match(at_place(0.0)).slots.tolist()


def test_later_subscriptions_are_chained_until_a_quarter_has_changed():
    """A few are hung on the lists there are; when they are many, everything is built anew."""
    index = create("stamp:fan_out=10", PLANE)
    index.insert(subscriptions(few_rows(400), PLANE))
    assert 0 == index.stats()["late_entries"]
    index.insert(subscriptions(few_rows(60, 400), PLANE))
    assert 120 == index.stats()["late_entries"]
    assert [459] == index.match(at_place(461.0)).slots.tolist()
    index.insert(subscriptions(few_rows(150, 460), PLANE))
    assert 0 == index.stats()["late_entries"]


def test_removing_many_builds_anew():
    """Removed subscriptions stay on the lists, unseen, until a quarter has gone."""
    index = create("stamp", PLANE)
    slots = index.insert(subscriptions(few_rows(400), PLANE))
    entries = index.stats()["entries"]
    index.remove(slots[:50])
    assert entries == index.stats()["entries"]
    assert 0 == len(index.match(at_place(20.0)).slots)
    index.remove(slots[50:300])
    assert entries > index.stats()["entries"]


def test_a_term_that_comes_later_has_its_weight():
    """Words that no subscription had when the index was built."""
    indexes = [create(spec, PLANE) for spec in ("scan", *specs(4))]
    weight = np.array([1.0, 2.0, 0.5, 3.0, 0.1, 5.0])
    rows, more = few_rows(30), [([3, 4, 5], (1.0, 0.0), 0.8, 0.6, 10.0, 0)]
    said = messages([([3, 5], (0.0, 0.0, 0.0, 0.0)), ([4], (1.0, 0.0, 1.0, 0.0))], weight)
    for index in indexes:
        index.set_weights(weight[:4])
        index.insert(subscriptions(rows, PLANE))
        index.match(said)
        index.set_weights(weight[4:], first=4)
        index.insert(subscriptions(more, PLANE))
    assert 30 in compared(indexes, said).slots


@SPACES
def test_a_saved_index_answers_alike(space, tmp_path):
    """Opened from files, with its options and weights."""
    world = World(11, space)
    index = create("stamp:filters=sp+st+hi,fan_out=7,cost=always", space)
    index.set_weights(world.weight)
    slots = index.insert(world.subscriptions(60))
    index.remove(slots[::7])
    asked = world.messages(20)
    expected = index.match(asked)
    index.save(tmp_path / "saved")
    again = open_index(tmp_path / "saved")
    assert expected == again.match(asked)
    assert index._options == again._options
    for each in (index, again):
        each.insert(subscriptions(few_rows(1), space))
    assert index.match(asked) == again.match(asked)


def test_numbers_begin_again_before_they_are_exhausted():
    """A stamp of 31 bits would run over after two thousand million candidates."""
    world = World(13, PLANE)
    index = create("stamp:fan_out=9", PLANE)
    index.set_weights(world.weight)
    index.insert(world.subscriptions(80))
    asked = world.messages(20)
    expected = index.match(asked)
    index._held.members.number[NEXT] = 2**31 - 200
    assert expected == index.match(asked)
    assert index._held.members.number[NEXT] < 2**30


# --- what is told -----------------------------------------------------------------------------------------------


def test_stats_count_prefixes_lists_and_regions():
    """Two words each, of which the threshold needs both: one in the prefix, one in the spatio-textual prefix."""
    rows = [([0, 1], (float(x), float(y)), 0.9, 0.9, 5.0, 0) for x, y in itertools.product(range(4), range(4))]
    stats = {}
    for filters in FILTERS:
        index = create(f"stamp:filters={filters},fan_out=4", PLANE)
        index.insert(subscriptions(rows, PLANE))
        stats[filters] = index.stats()
    assert {"sp": 1, "sp+hi": 4} == {filters: stats[filters]["leaves"] for filters in ("sp", "sp+hi")}
    assert 5 == stats["sp+hi"]["regions"]
    assert [16, 16, 16, 32, 32] == [stats[filters]["entries"] for filters in FILTERS]
    assert [1.0] * 5 == [stats[filters]["prefix_tokens"] for filters in FILTERS]
    assert [1.0, 1.0, 1.0, 2.0, 2.0] == [stats[filters]["listed_tokens"] for filters in FILTERS]


def test_a_subscription_takes_no_more_than_300_bytes():
    """One to five words, about as unequal as they are in life, the stored table included."""
    rng = np.random.default_rng(5)
    n = 2_000 if numba.config.DISABLE_JIT else 20_000
    frequency = 1 / np.arange(1, 5001)
    words = rng.choice(5000, (n, 5), p=frequency / frequency.sum())
    length, place, text_weight, threshold = (
        rng.integers(1, 6, n), rng.uniform(0, 1e4, (n, 2)), rng.random(n), rng.uniform(0.5, 1, n),
    )  # fmt: skip
    rows = [
        (words[at, : length[at]].tolist(), place[at].tolist(), text_weight[at], threshold[at], 700.0, 0)
        for at in range(n)
    ]
    index = create("stamp", PLANE)
    index.insert(subscriptions(rows, PLANE))
    assert index.stats()["bytes"] <= 300 * n


def explained(spec, rows, said, slot=0):
    index = create(spec, PLANE)
    index.insert(subscriptions(rows, PLANE))
    asked = messages([said], np.ones(N_TERMS))
    lines = index.explain(asked, 0, slot, lambda term: f"w{term}")
    assert (slot in index.match(asked).slots) <= lines[-1].startswith("a candidate")
    return lines


def test_explain_names_the_bound():
    """The prefix with its bounds, and which of the filters dropped the subscription."""
    two = [([0, 1], (0.0, 0.0), 0.5, 0.8, 10.0, 0), ([0, 1], (1.0, 1.0), 0.5, 0.8, 10.0, 0)]
    inside = (0.5, 0.5, 0.5, 0.5)
    assert ["prefix: 'w0' from near 0.6", "dropped by the prefix: the message has no word of it"] == (
        explained("stamp", two, ([1, 2], inside))
    )
    assert (
        "dropped by the bound of 'w0': near 0.6 is needed, it is 0.5"
        == (explained("stamp:filters=sp", two, ([0], (5.0, 0.0, 5.0, 0.0)))[-1])
    )
    assert explained("stamp", two, ([0], (50.0, 1.0, 50.0, 1.0)))[-1] == (
        "dropped with the region (0, 0) to (1, 1): at distance 49 no word of the message reaches anybody there"
    )
    assert explained("stamp", two, ([0], inside))[-1] == (
        "dropped by spatio-textual prefix 1, or verified where that costs less: 'w0' in common so far"
    )
    assert "a candidate, verified in full" == explained("stamp:filters=sp+hi", two, ([0], inside))[-1]
    assert "a candidate, verified in full" == explained("stamp", two, ([0, 1], inside))[-1]


def test_explain_of_one_that_came_later_and_of_one_that_never_can():
    """A late subscription is found on its chain; words that weigh nothing cannot score."""
    index = create("stamp:fan_out=2", PLANE)
    index.set_weights(np.array([1.0, 1.0, 1.0, 1.0, 0.0]))
    index.insert(subscriptions(few_rows(10), PLANE))
    index.match(at_place(0.0))
    index.insert(subscriptions([([0], (3.0, 0.0), 0.5, 0.9, 10.0, 0), ([4], (3.0, 0.0), 0.9, 0.9, 10.0, 0)], PLANE))
    lines = [index.explain(at_place(3.0, (0, 4)), 0, slot) for slot in (10, 11)]
    assert ["prefix: '0' from near 0.8", "a candidate, verified in full"] == lines[0]
    assert "prefix: none, no message can ever score enough" == lines[1][0]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            "stamp:filters=hi",
            "option filters of the index 'stamp' is one of sp, sp+hi, sp+rp+hi, sp+st+hi, sp+rp+st+hi",
        ),
        ("stamp:cost=none", "option cost of the index 'stamp' is one of model, always, never, not 'none'"),
        ("stamp:fan_out=1", "option fan_out of the index 'stamp' is at least 2, not 1"),
    ],
)
def test_options_that_cannot_be(spec, said):
    """The message says what can."""
    with pytest.raises(UnknownIndex) as error:
        create(spec, PLANE)
    assert said in str(error.value)


def test_boolean_subscriptions_are_refused():
    """This index scores."""
    regions = Regions.from_shapes([Box(0, 0, 1, 1)], PLANE)
    boolean = Subscriptions.of(np.arange(2), np.arange(2), np.zeros(1, np.int32), regions)
    with pytest.raises(NotSupported):
        create("stamp", PLANE).insert(boolean)
