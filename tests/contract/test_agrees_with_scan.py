"""Whatever happens to it, an index answers as `scan` does, and `scan` as the definition says."""

import functools
import random
from dataclasses import replace

import numba
import numpy as np
import pytest
from hypothesis import example, given

from contract.conftest import SPECS_BY_KINDS, is_ours
from contract.naive import Naive, as_pairs
from contract.worlds import EARTH, PLANE, random_said, random_thresholds, random_wanted, random_weights, world
from nearcast.columns import ScoreParameters
from nearcast.geo import Box, Circle
from nearcast.indexes import create
from nearcast.model import Similar, TopK
from nearcast.query import Word
from nearcast.testing import IndexActor, Script, Step, check_index, replay, scripts
from nearcast.testing.strategies import KINDS
from nearcast.testing.values import is_scored, moved, point_box, region_of

pytestmark = pytest.mark.modes

#: A circle that reaches the dateline, asked from the other side of it.
AT_DATELINE = Script(
    EARTH,
    (
        Step("insert", wanted=((Word("a"), Circle(170.0, 0.0, float(EARTH.distance(170.0, 0.0, 180.0, 0.0)))),) * 2),
        Step("match", said=((("a",), (-180.0, 0.0, -180.0, 0.0)), (("a",), (180.0, 0.0, 180.0, 0.0)))),
    ),
)
#: Rows that were merged away, replaced, moved and asked again.
CHANGES = Script(
    PLANE,
    (
        Step("insert", wanted=((Word("a"), Box(0, 0, 1, 1)),) * 9),
        Step("replace", (0, 1), ((Word("b"), Box(0, 0, 1, 1)),) * 2),
        Step("remove", (2, 3)),
        Step("settle"),
        Step("move", (0, 4), ((Word("a"), Box(5, 5, 6, 6)),) * 2),
        Step("match", said=((("a", "b"), (0, 0, 0, 0)), (("b", "a"), (5, 5, 5, 5)))),
    ),
)


NEAR = Similar(0, place=(0.0, 0.0), terms=("a", "b"), text_weight=0.5, threshold=0.75, max_distance=2.0)
#: Either kind in the place of the other, and words that weigh something else in between.
EITHER_KIND = Script(
    PLANE,
    (
        Step("insert", wanted=(NEAR, (Word("a"), Box(0, 0, 1, 1)), replace(NEAR, similarity="jaccard")) * 3),
        Step("replace", (0, 1), ((Word("b"), Box(0, 0, 1, 1)), NEAR)),
        Step("reweigh", weights=(("a", 3.0), ("c", 0.0))),
        Step("move", (2, 3), ((Word("a"), Box(1, 0, 6, 6)), NEAR)),
        Step("match", said=((("a", "c"), (1, 0, 1, 0)), (("b", "a"), (0, 0, 0, 0)), ((), (0, 0, 0, 0)))),
        Step("renumber"),
        Step("reweigh"),
        Step("match", said=((("a", "c"), (1, 0, 1, 0)), (("b", "a"), (0, 0, 0, 0)), ((), (0, 0, 0, 0)))),
    ),
)


BEST = TopK(0, place=(0.0, 0.0), terms=("a", "b"), text_weight=0.5, max_distance=2.0)
THERE = (("a", "c"), (1, 0, 1, 0))
#: Thresholds met to the last bit, kept on a move and by new numbers, lost when another takes the slot.
MOVING_THRESHOLDS = Script(
    PLANE,
    (
        Step("insert", wanted=(BEST, replace(BEST, text_weight=0.0), replace(BEST, text_weight=1.0)) * 3),
        Step("thresholds", (0, 1, 2, 3), said=(THERE,) * 4, aims=("met", "met", "met", "above")),
        Step("match", said=(THERE, (("c",), (0, 0, 0, 0)))),
        Step("reweigh", weights=(("a", 3.0), ("c", 0.0))),
        Step("thresholds", (0, 1, 4, 5), said=(THERE,) * 4, aims=("below", "met", 1.0, 1.5)),
        Step("move", (0, 1), (replace(BEST, place=(1.0, 0.0)),) * 2),
        Step("replace", (2, 3), (BEST, BEST)),
        Step("remove", (5,)),
        Step("renumber"),
        Step("match", said=(THERE, (("a", "a", "b"), (0, 0, 3, 3)))),
        Step("thresholds", (0, 1, 2, 3, 4), said=(THERE,) * 5, aims=(0.0, 0.0, "met", "met", 0.0)),
        Step("match", said=(THERE, (("a", "a", "b"), (0, 0, 3, 3)))),
    ),
)


def assert_scan_is_the_definition(script):
    expected = replay(Naive(script.space), script)
    assert expected == [as_pairs(matches) for matches in replay(create("scan", script.space), script)]


@given(script=scripts())
@example(script=AT_DATELINE)
@example(script=CHANGES)
def test_scan_is_the_definition(script):
    """`scan` finds what `Query.holds` and `touches` say of every pair."""
    assert_scan_is_the_definition(script)


@given(script=scripts(kinds=("similar",)))
def test_scan_is_the_definition_of_similar(script):
    """`scan` finds what reaches its threshold by a score worked out in plain Python, equal to the last bit."""
    assert_scan_is_the_definition(script)


@given(script=scripts(kinds=("within", "similar")))
@example(script=EITHER_KIND)
def test_scan_is_the_definition_of_both(script):
    """So it does when boolean and similar subscriptions stand side by side and take each other's slots."""
    assert_scan_is_the_definition(script)


@given(script=scripts(kinds=("topk",)))
@example(script=MOVING_THRESHOLDS)
def test_scan_is_the_definition_of_topk(script):
    """`scan` finds what shares a word and reaches the threshold of the moment, by a score in plain Python."""
    assert_scan_is_the_definition(script)


@given(script=scripts(kinds=KINDS))
def test_scan_is_the_definition_of_all_kinds(script):
    """So it does when subscriptions of all kinds stand side by side and take each other's slots."""
    assert_scan_is_the_definition(script)


class Noted:
    """`scan`, which notes every call and what came of it: to draw and encode a life takes longer than to live it."""

    def __init__(self, space):
        self.space, self.scan, self.calls = space, create("scan", space), []

    def __getattr__(self, verb):
        def call(*arguments):
            found = made(self.scan, verb, arguments)
            self.calls.append((verb, arguments, found))
            return found

        return call


def made(index, verb, arguments):
    """Make a call; not every index has something to settle."""
    return getattr(index, verb, lambda: None)(*arguments)


def assert_agrees(spec, space, calls):
    """Make the calls that were noted of another index: whatever that one answered, it answers too."""
    index = create(spec, space)
    for verb, arguments, expected in calls:
        found = made(index, verb, arguments)
        if isinstance(expected, np.ndarray):
            assert (spec, verb, expected.tolist()) == (spec, verb, found.tolist())
        else:
            assert (spec, verb, expected) == (spec, verb, found)
    made(index, "settle", ())
    check_index(index)
    return index


def assert_all_agree(script, kinds):
    """One script goes through all indexes."""
    noted = Noted(script.space)
    replay(IndexActor(noted, script.add_words), script)
    for spec in SPECS_BY_KINDS[kinds]:
        assert_agrees(spec, script.space, noted.calls)


@given(script=scripts())
@example(script=AT_DATELINE)
@example(script=CHANGES)
def test_agrees_with_scan(script):
    """Whatever is inserted, removed, replaced and moved: same slots, same order; and the index stays in order."""
    assert_all_agree(script, ("within",))


@given(script=scripts(kinds=("similar",)))
def test_agrees_with_scan_on_similar(script):
    """The same for similar subscriptions, whose scores are those of `scan` to the last bit, whatever words weigh."""
    assert_all_agree(script, ("similar",))


@given(script=scripts(kinds=("within", "similar")))
@example(script=EITHER_KIND)
def test_agrees_with_scan_on_both(script):
    """The same for both kinds in one index."""
    assert_all_agree(script, ("within", "similar"))


@given(script=scripts(kinds=("topk",)))
@example(script=MOVING_THRESHOLDS)
def test_agrees_with_scan_on_topk(script):
    """The same for top-k subscriptions, whose thresholds rise and fall in between."""
    assert_all_agree(script, ("topk",))


@given(script=scripts(kinds=KINDS))
def test_agrees_with_scan_on_all_kinds(script):
    """The same for all kinds in one index."""
    assert_all_agree(script, KINDS)


LIVES = [(kinds, spec) for kinds, specs in SPECS_BY_KINDS.items() for spec in specs]


#: One life for each, and compiled two more for that which messages of users go through.
IS_SLOW = numba.config.DISABLE_JIT or numba.config.BOUNDSCHECK
SEEDED_LIVES = [
    pytest.param(kinds, spec, seed, id="-".join((*kinds, spec, str(seed))))
    for kinds, spec in LIVES
    if spec != "scan"
    for seed in range(3 if is_ours(spec) and not IS_SLOW else 1)
]


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
@pytest.mark.parametrize(("kinds", "spec", "seed"), SEEDED_LIVES)
def test_agrees_with_scan_on_a_long_life(kinds, spec, space, seed, interpreted):
    """Hundreds of subscriptions, changed again and again: the answers stay those of `scan`."""
    sizes = (60, 1, 5, 60, 1) if interpreted else (60, 1, 5, 60, 1, 5, 60, 5, 60, 1, 60, 5)
    calls = life_of(kinds, space, seed, sizes)
    index = assert_agrees(spec, space, calls)
    verb, (messages,), expected = calls[-2]
    assert "match" == verb
    assert expected == index.match(messages)


@functools.cache
def life_of(kinds, space, seed, sizes):
    """Return the calls of a life of `scan`: one for all indexes that match these kinds."""
    rng = random.Random(seed)
    noted = Noted(space)
    actor, live = IndexActor(noted), {}
    for size in sizes:
        said = random_said(rng, space, 12)
        if kinds != ("within",) and rng.random() < 0.3:
            actor.reweigh(random_weights(rng))
        wanted = random_wanted(rng, space, size, kinds, said, actor.weights)
        live |= zip(actor.insert(wanted), wanted, strict=True)
        for verb, *arguments in random_changes(rng, space, live, kinds):
            getattr(actor, verb)(*arguments)
        actor.match(said)
        best = [slot for slot, each in live.items() if isinstance(each, TopK) and rng.random() < 0.5]
        values = random_thresholds(rng, space, [live[slot] for slot in best], said, actor.weights)
        if best:
            actor.set_thresholds(best, values)
        actor.match(said)
        assert len(live) == noted.__len__()
    check_index(noted.scan)
    return noted.calls


def random_changes(rng, space, live, kinds):
    """Return some changes of the slots in `live`, which is kept up with them."""
    replaced = rng.sample(list(live), len(live) // 6)
    others = random_wanted(rng, space, len(replaced), kinds)
    live |= zip(replaced, others, strict=True)
    movers = rng.sample(list(live), len(live) // 5)
    there = random_wanted(rng, space, len(movers), kinds)
    regions = [region_of(each, scored=is_scored(live[slot])) for slot, each in zip(movers, there, strict=True)]
    live |= {slot: moved(live[slot], region) for slot, region in zip(movers, regions, strict=True)}
    gone = rng.sample(list(live), len(live) // 7)
    for slot in gone:
        del live[slot]
    return [("replace", replaced, others), ("move", movers, regions), ("remove", gone)]


def plain_values(columns):
    """Return columns as plain values, ids left out: an index makes up its own. No scoring is the same as zeros."""
    scoring = ScoreParameters.none(len(columns)) if columns.scoring is None else columns.scoring
    regions = columns.regions
    return [
        *(array.tolist() for array in (columns.kind, columns.clause_start, columns.code_start, columns.code)),
        *(array.tolist() for array in (regions.kind, regions.part_start, regions.part, regions.shape)),
        *(array.tolist() for array in (regions.circle, regions.geometry, columns.expires, *scoring.columns())),
    ]


@functools.cache
def some_world(kinds, space):
    """Return subscriptions and messages: the same for all indexes."""
    return world(5, space, 60, 40, kinds)


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
@pytest.mark.parametrize(("kinds", "spec"), LIVES, ids=["-".join((*kinds, spec)) for kinds, spec in LIVES])
def test_slots_give_back_what_they_hold(kinds, spec, space):
    """`subscriptions` returns, in the order asked, columns that a fresh index matches alike."""
    wanted, said = some_world(kinds, space)
    index = IndexActor(create(spec, space))
    index.reweigh(random_weights(random.Random(5)))
    slots = index.insert(wanted)
    index.move(slots[10:20], [point_box(i % 4, i % 3) for i in range(10)])
    index.settle()
    best = [slot for slot in slots[9:] if isinstance(wanted[slot], TopK)]
    if best:
        index.set_thresholds(best, [0.2 + 0.1 * (slot % 4) for slot in best])
    index.replace(slots[:9], wanted[20:29])
    asked = random.Random(1).sample(slots, 40)
    twin = IndexActor(create("scan", space), words=index.words, weights=index.weights)
    twin.messages(said)
    columns = index.index.subscriptions(np.array(asked, np.int32))
    for row, slot in enumerate(asked[:10]):
        alone, among = index.index.subscriptions(np.array([slot], np.int32)), columns.take(np.array([row]))
        assert plain_values(among) == plain_values(alone)
    twin.index.insert(columns)
    messages = index.messages(said)
    expected = [[pair for pair in found if pair[0] in asked] for found in as_pairs(index.index.match(messages))]
    assert sum(map(len, expected)) > 20
    given_back = as_pairs(twin.index.match(messages))
    assert expected == [sorted((asked[slot], score) for slot, score in found) for found in given_back]
