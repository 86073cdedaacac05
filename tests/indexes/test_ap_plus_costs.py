"""The cost model of the AP+-Tree: what subscriptions that move cost (Eq. 7 to 15, Algorithm 8), and what it changes."""

import math

import numpy as np
import pytest

from contract.worlds import EARTH, PLANE, point
from nearcast.errors import UnknownIndex
from nearcast.geo import Box, Regions
from nearcast.indexes import create
from nearcast.indexes.papers.ap_plus_tree.observed_moves import ObservedMoves
from nearcast.indexes.papers.ap_tree.divergence import beyond_chance
from nearcast.indexes.papers.ap_tree.layout import GRIDS, KEYWORD, KIND, NODES, PLACE, ROOT, SPACE
from nearcast.indexes.papers.ap_tree.moving import (
    MOST_TIMESTAMPS,
    Motion,
    location_update_cost,
    moving_penalty,
    rebuild_cost,
    rebuild_interval,
    regions_passed,
)
from nearcast.query import parse
from nearcast.testing import IndexActor

pytestmark = [pytest.mark.modes, pytest.mark.papers]

REGION = np.array([0.0, 0.0, 10.0, 10.0])


def actor(spec, space=PLANE):
    return IndexActor(create(spec, space), add_words=True)


def boxes(*places):
    """Return regions of one unit, at these corners."""
    return Regions.from_shapes([Box(x, y, x + 1, y + 1) for x, y in places], PLANE)


def members(places, velocity, interval=1.0):
    """Return as many atoms as there are places, with their motion."""
    held = actor("ap+-tree")
    held.insert([(parse("tea"), Box(x, y, x, y)) for x, y in places])
    held.match([])
    n = len(places)
    given = np.broadcast_to(np.array(velocity, float), (n, 2)).copy()
    motion = Motion(np.arange(n, dtype=np.int32), given, np.full(n, float(interval)), np.ones(1), 0.001)
    return np.arange(n, dtype=np.int32), held.index._atoms, motion


# --- Eq. 9 --------------------------------------------------------------------------------------------------------


def test_zeta_is_how_many_regions_are_passed():
    """Counted over a long time as in Figure 9, it comes to the same; at most one deletion counts in a timestamp."""
    for x, y in ((3.0, 0.0), (0.0, 2.5), (3.0, -2.5)):
        n = 10_000
        counted = abs(math.floor(n * x / 10)) + abs(math.floor(n * y / 5))
        assert counted / n == pytest.approx(regions_passed(x, y, 10.0, 5.0), abs=1e-3)


def test_zeta_of_who_stands_still_is_0():
    """There is no time after which it has passed a region; a region without width does not change that."""
    assert 0.0 == regions_passed(0.0, 0.0, 10.0, 10.0)
    assert 0.0 == regions_passed(0.0, 0.0, 0.0, 0.0)
    assert 1.0 == regions_passed(0.0, 3.0, 0.0, 0.0)


def test_location_updates_cost_what_equation_9_says():
    """2 · min(1, ζ) · path · log f for each, by the interval between its reports; those of old have none."""
    atoms, columns, motion = members([(1, 1), (2, 2), (3, 3)], [(5.0, 0.0), (0.0, 0.0), (30.0, 0.0)], interval=4.0)
    expected = (0.5 + 0.0 + 1.0) * 2 * 3 * math.log2(16) / 4
    assert expected == pytest.approx(location_update_cost(atoms, REGION, 3, columns, motion, 16))
    motion = motion._replace(interval=np.zeros(3))
    assert 0.0 == location_update_cost(atoms, REGION, 3, columns, motion, 16)


# --- Eq. 11 to 13, Algorithm 8 ------------------------------------------------------------------------------------


def test_a_height_is_not_negative():
    """Below θp members Eq. 11 is negative: the cost would be, too."""
    flat = 10 * (math.log2(200) + math.sqrt(200)) + 200 * 3
    assert flat == pytest.approx(rebuild_cost(10, 3, 200, 40))
    tall = 40 * 200 * (math.log2(200) + math.sqrt(200)) + 200 * 3
    assert 2 * tall == pytest.approx(rebuild_cost(8000, 3, 200, 40))


def test_algorithm_8_foresees_the_rebuild():
    """All go to the right: it is the first timestamp after which the divergence of the counts is above θKL."""
    places = [(0.5 + i % 3, (i * 7) % 10) for i in range(400)]
    atoms, columns, motion = members(places, (0.4, 0.0))

    def counts(timestamp):
        found = np.zeros((4, 4))
        for x, y in places:
            if (there := x + timestamp * 0.4) <= 10:
                found[min(int(there / 10 * 4), 3), min(int(y / 10 * 4), 3)] += 1
        return found.reshape(-1)

    first = next(t for t in range(1, 100) if beyond_chance(counts(0), counts(t)) > 0.001)
    assert 1 < first
    assert first == rebuild_interval(atoms, REGION, columns, motion, 16)


def test_algorithm_8_ends():
    """Who stands still never lets anything be built anew; a few that go round look no further than Tmax."""
    atoms, columns, motion = members([(i % 10, i % 7) for i in range(300)], (0.0, 0.0))
    assert np.inf == rebuild_interval(atoms, REGION, columns, motion, 16)
    assert 0.0 == moving_penalty(atoms, REGION, 1, 5, 1.0, columns, motion, 16, 4)
    motion.velocity[0] = 1e-9, 0.0
    assert MOST_TIMESTAMPS == rebuild_interval(atoms, REGION, columns, motion, 16)


def test_penalties_are_shared_by_the_messages_of_a_timestamp():
    """Eq. 7 multiplies by the arrival rate: the more messages, the less moves count."""
    places = [(i % 10, i % 7) for i in range(300)]
    one, many = (moving_penalty(*_penalty_of(places, n)) for n in (1.0, 100.0))
    assert one == pytest.approx(100 * many)
    assert one > 0.0


def _penalty_of(places, messages):
    atoms, columns, motion = members(places, (2.0, 0.0))
    return atoms, REGION, 2, 5, messages, columns, motion, 16, 4


# --- what is observed ---------------------------------------------------------------------------------------------


def test_velocity_and_interval_come_from_reports():
    """A timestamp ends when a subscription reports for the second time; who is silent has an interval of two then."""
    moves = ObservedMoves(PLANE)
    both, first = np.array([0, 1], np.int32), np.array([0], np.int32)
    moves.note(both, boxes((0, 0), (5, 5)))
    moves.note(both, boxes((1, 0), (5, 7)))
    moves.note(first, boxes((3, 0)))
    moves.note(both, boxes((3, 3), (5, 1)))
    moves.see_messages(30)
    motion = moves.motion(both, 2, 0.001)
    assert [[0.0, 3.0], [0.0, -3.0]] == motion.velocity.tolist()
    assert [1.0, 1.5] == motion.interval.tolist()
    assert [10.0] == motion.messages.tolist()


def test_the_dateline_is_no_distance():
    """From 179.5 to -179.5 degrees it is one degree."""
    moves, slots = ObservedMoves(EARTH), np.array([0], np.int32)
    moves.note(slots, Regions.from_shapes([Box(179.0, 0, 180.0, 1)], EARTH))
    moves.note(slots, Regions.from_shapes([Box(-180.0, 0, -179.0, 1)], EARTH))
    assert [[1.0, 0.0]] == moves.motion(slots, 1, 0.001).velocity.tolist()


def test_places_without_an_end_have_no_velocity():
    """A subscription that listened everywhere, or was read from files, has come from nowhere."""
    moves, slots = ObservedMoves(PLANE), np.array([0, 1], np.int32)
    moves.note(slots[:1], Regions.anywhere(1))
    moves.motion(slots, 2, 0.001)  # the second is known, but was never seen
    moves.note(slots, boxes((1, 1), (2, 2)))
    assert [[0.0, 0.0], [0.0, 0.0]] == moves.motion(slots, 2, 0.001).velocity.tolist()


def test_slots_keep_their_motion_when_they_are_renumbered():
    moves, slots = ObservedMoves(PLANE), np.array([0, 1, 2], np.int32)
    moves.note(slots, boxes((0, 0), (0, 0), (0, 0)))
    moves.note(slots, boxes((1, 0), (2, 0), (3, 0)))
    moves.renumber(np.array([0, 2], np.int32))
    assert [[1.0, 0.0], [3.0, 0.0]] == moves.motion(slots[:2], 2, 0.001).velocity.tolist()


# --- what becomes of a tree ---------------------------------------------------------------------------------------


def crowd(spec):
    """Return a tree of subscriptions of a few words, each in a small box of its own."""
    held = actor(spec)
    slots = held.insert([(parse(f"w{i % 4}"), Box(i % 20, i // 20, i % 20 + 0.5, i // 20 + 0.5)) for i in range(200)])
    held.match([(["w1"], point(3.2, 3.2))])
    return held, slots


def kinds(held):
    held.match([])
    tree = held.index._tree
    return set(tree.node[: tree.used[NODES], KIND].tolist())


def test_subscriptions_that_hurry_are_not_parted_by_space():
    """Penalties are on s-nodes only: those that race about are parted by words, those that stand by space."""
    spec = "ap+-tree:fan_out=4,leaf=8,rebuild=never"
    held, slots = crowd(spec)
    assert SPACE in kinds(held)
    for turn in range(1, 3):
        held.move(slots, [Box((i + 9 * turn) % 20, i // 20, (i + 9 * turn) % 20 + 0.5, i // 20 + 0.5) for i in slots])
    held.index._is_built = False
    assert {KEYWORD} == kinds(held) & {KEYWORD, SPACE}
    assert SPACE in kinds(crowd(spec.replace("ap+", "ap"))[0])


def test_messages_make_up_for_moves():
    """The same hurry is worth it where so many messages come that a grid spares each of them more than moves cost."""
    held, slots = crowd("ap+-tree:fan_out=4,leaf=8,rebuild=never")
    for turn in range(1, 3):
        held.move(slots, [Box((i + 9 * turn) % 20, i // 20, (i + 9 * turn) % 20 + 0.5, i // 20 + 0.5) for i in slots])
    held.index._moves.see_messages(10**9)
    held.index._is_built = False
    assert SPACE in kinds(held)


def test_nodes_know_how_many_grids_are_above_them():
    """The length of a path is its words and its grids."""
    held, _ = crowd("ap+-tree:fan_out=4,leaf=8,priority=space")
    tree = held.index._tree
    assert SPACE == tree.node[ROOT, KIND]
    grids = tree.region[tree.node[: tree.used[NODES], PLACE], GRIDS]
    assert 0.0 == grids[ROOT]
    assert {1.0, 2.0} <= set(grids[1:].tolist())


@pytest.mark.parametrize(("given", "said"), [("duplicates=0", "at least 1"), ("leaf=0", "'ap\\+-tree' is at least 1")])
def test_options_that_make_no_tree(given, said):
    with pytest.raises(UnknownIndex, match=said):
        create(f"ap+-tree:{given}", PLANE)
