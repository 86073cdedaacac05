"""Whatever happens to it, an index answers as `scan` does, and `scan` as the definition says."""

import random

import numpy as np
import pytest
from hypothesis import example, given

from contract.conftest import SPECS
from contract.naive import Naive, as_lists
from contract.worlds import EARTH, PLANE, random_region, random_said, random_wanted, world
from nearcast.geo import Box, Circle
from nearcast.indexes import create
from nearcast.query import Word
from nearcast.testing import IndexActor, Script, Step, check_index, replay, scripts

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


@given(script=scripts())
@example(script=AT_DATELINE)
@example(script=CHANGES)
def test_scan_is_the_definition(script):
    """`scan` finds what `Query.holds` and `touches` say of every pair."""
    expected = replay(Naive(script.space), script)
    assert expected == [as_lists(matches) for matches in replay(create("scan", script.space), script)]


@given(script=scripts())
@example(script=AT_DATELINE)
@example(script=CHANGES)
def test_agrees_with_scan(script):
    """Whatever is inserted, removed, replaced and moved: same slots, same order; and the index stays in order.

    One script goes through all indexes, for drawing it takes longer than replaying it.
    """
    expected = replay(create("scan", script.space), script)
    for spec in SPECS:
        index = create(spec, script.space)
        assert (spec, expected) == (spec, replay(index, script))
        getattr(index, "settle", lambda: None)()
        check_index(index)


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_scan_on_a_long_life(new_index, space, seed):
    """Hundreds of subscriptions, changed again and again: the answers stay those of `scan`."""
    rng = random.Random(seed)
    index, scan = new_index(space), IndexActor(create("scan", space))
    live = []
    for size in (60, 1, 5, 60, 1, 5, 60, 5, 60, 1, 60, 5):
        wanted = random_wanted(rng, space, size)
        slots = index.insert(wanted)
        assert slots == scan.insert(wanted)
        live += slots
        moved, gone = rng.sample(live, len(live) // 5), rng.sample(live, len(live) // 7)
        regions = [random_region(rng, space) for _ in moved]
        replaced = rng.sample(live, len(live) // 6)
        others = random_wanted(rng, space, len(replaced))
        for each in (index, scan):
            each.move(moved, regions)
            each.replace(replaced, others)
            each.remove(gone)
        live = [slot for slot in live if slot not in set(gone)]
        said = random_said(rng, space, 12)
        assert scan.match(said) == index.match(said)
        assert len(live) == len(index.index)
    index.settle()
    check_index(index.index)
    assert scan.match(said) == index.match(said)


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_slots_give_back_what_they_hold(new_index, space):
    """`subscriptions` returns, in the order asked, columns that a fresh index matches alike."""
    wanted, said = world(5, space, 60, 40)
    index = new_index(space)
    slots = index.insert(wanted)
    index.move(slots[10:20], [region for _, region in wanted[30:40]])
    index.settle()
    index.replace(slots[:9], wanted[20:29])
    asked = random.Random(1).sample(slots, 40)
    twin = create("scan", space)
    twin.insert(index.index.subscriptions(np.array(asked, np.int32)))
    messages = index.messages(said)
    expected = [[slot for slot in found if slot in asked] for found in as_lists(index.index.match(messages))]
    assert sum(map(len, expected)) > 20
    assert expected == [sorted(asked[slot] for slot in found) for found in as_lists(twin.match(messages))]
