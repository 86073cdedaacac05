"""The m-lists of `ap+-tree`: what a move reads of them, what of it is a candidate, who leaves, and how many copies."""

import numpy as np
import pytest
from test_ap_plus_tree import NEVER, TreeLife, all_lists, check_lists, counted, town

from contract.worlds import EARTH, point
from nearcast.geo import Box, Circle
from nearcast.indexes.papers.ap_plus_tree.layout import COUNT_HELD, ROOM_HELD
from nearcast.indexes.papers.ap_plus_tree.walk import READ
from nearcast.query import parse

pytestmark = [pytest.mark.modes, pytest.mark.papers]

BY_SPACE = "ap+-tree:fan_out=9,leaf=1,priority=space"
VARIANTS = ["ap+-tree:leaf=40", "ap+k-tree", "ap+s-tree"]


def candidates_of(held, slot, after):
    """Move a subscription, and return the rows that its lists named, of how many that were read."""
    named, method = [], held.index._lists.candidates
    held.index._lists.candidates = lambda *given: named.append(method(*given)) or named[-1]
    held.move([slot], [after])
    held.index._lists.candidates = method
    return named[0][1].tolist(), int(held.index._lists.tally[READ])


def test_of_a_list_only_what_may_change_is_verified():
    """One leaf holds all messages; those in both rectangles, and in neither, are passed over as they are read."""
    held = TreeLife("ap+-tree:leaf=40")
    slot = held.insert([(parse("tea"), Box(0, 0, 2, 2))])[0]
    held.publish([(("tea",), point(x + 0.5, 0.5)) for x in range(50)])
    assert ([0, 2], 50) == candidates_of(held, slot, Box(1, 0, 3, 2))
    held.move([slot], [Circle(0.5, 0.5, 0.1)])
    named, read = candidates_of(held, slot, Circle(1.5, 0.5, 0.1))
    assert ([0, 1], 50) == (named, read), "of circles nothing is known inside their rectangles"


@pytest.mark.parametrize("spec", VARIANTS)
def test_points_are_rounded_in_lists_and_not_in_answers(spec):
    """Messages on a border, and closer to it than a float32 can tell, small, large and beyond float32."""
    for size in (1e-300, 1.0, 123456789.0, 1e36, 1e200):
        held, border = TreeLife(spec), 3 * size
        below, above = np.nextafter(border, 0), np.nextafter(border, np.inf)
        slot = held.insert([(parse("tea"), Box(0, 0, 2 * size, size))])[0]
        held.publish([(("tea",), point(x, size)) for x in (below, border, above)])
        assert [[(1, 0), (1, 3)]] == held.move([slot], [Box(0, 0, border, size)]), size
        assert [[(0, 3)]] == held.move([slot], [Box(0, 0, below, size)]), size
        assert [[(1, 3), (1, 6)]] == held.move([slot], [Box(0, 0, above, size)]), size
        assert [[(0, 0), (0, 3)]] == held.move([slot], [Box(above, 0, 4 * size, size)]), size


@pytest.mark.parametrize("spec", VARIANTS)
def test_rectangles_that_are_told_are_no_points(spec):
    """A message that reaches into a region, and one over the dateline, change though no corner of theirs does."""
    held = TreeLife(spec, EARTH)
    slot = held.insert([(parse("tea"), Box(10, 0, 20, 5))])[0]
    held.publish([(("tea",), (0.0, -10.0, 50.0, 10.0)), (("tea",), (179.0, -1.0, -179.0, 1.0))])
    assert [[]] == held.move([slot], [Box(12, 0, 20, 5)])
    assert [[(0, 0), (1, 3)]] == held.move([slot], [Box(-179.5, 0, -170, 5)])


@pytest.mark.parametrize("spec", VARIANTS)
def test_a_message_is_told_once(spec):
    """It is in several lists, two clauses name it, and two rectangles make up the region."""
    held = TreeLife(spec, EARTH)
    slot = held.insert([(parse("tea OR cake OR tea cake"), Box(0, 0, 1, 1))])[0]
    held.publish([(("tea", "cake"), (179.0, -1.0, -179.0, 1.0)), (("tea", "cake"), point(179.5, 0.5))])
    assert [[(1, 0), (1, 3)]] == held.move([slot], [Box(170, -5, -170, 5)])
    assert [[(0, 0), (0, 3)]] == held.move([slot], [Box(0, 0, 1, 1)])


def test_messages_that_are_over_leave_a_list_that_is_full():
    """No move comes by. A list that few live in keeps its room, whatever has passed through it."""
    held = TreeLife("ap+-tree:leaf=40")
    held.insert([(parse("tea"), Box(0, 0, 1, 1))])
    for now in range(1, 60):
        held.publish([(("tea",), point(50.5, 0.5))], now + 3)
        held.model.drop(now)
        check_lists(held)
    assert held.lists.held[0, COUNT_HELD] <= held.lists.held[0, ROOM_HELD] <= 8


def test_copies_of_a_message_over_the_dateline_are_counted_together():
    """The limit is for both of its rectangles; the second has one list at least."""
    for limit in (1, 3, 6):
        held = TreeLife(f"{BY_SPACE},duplicates={limit}", EARTH)
        wanted = [(parse("tea"), Box(x, y, x + 1, y + 1)) for x in range(-180, 180, 40) for y in range(-80, 80, 40)]
        slots = held.insert(wanted)
        held.publish([(("tea",), (100.0, -70.0, -100.0, 70.0))])
        check_lists(held)
        assert 1 <= held.lists.copies[0] <= limit + 1
        held.current(slots)


def test_who_moves_in_a_batch_is_taken_out_and_put_in_before_anything_is_built_anew(monkeypatch):
    """All change places: every node has as many as before, though each of them was deserted in between."""
    held = TreeLife("ap+-tree:fan_out=9,leaf=2,priority=space,share=0,divergence=1")
    places = [Box(10.0 * x, 10.0 * y, 10.0 * x + 1, 10.0 * y + 1) for x in range(6) for y in range(6) for _ in range(3)]
    slots = held.insert([(parse("tea"), place) for place in places])
    held.publish([(("tea",), point(10.0 * x + 0.5, 0.5)) for x in range(6)])
    done = {"_rebuild": 0}
    monkeypatch.setattr(held.index, "_rebuild", counted(held.index, "_rebuild", done))
    held.move(slots, places[3:] + places[:3])
    held.publish([])
    assert 0 == done["_rebuild"]
    check_lists(held)
    held.current(slots)
    held.move(slots, [Box(0, 0, 1, 1)] * len(slots))
    held.publish([])
    assert done["_rebuild"], "a leaf that is too large was not built anew"
    check_lists(held)


def test_lists_that_are_packed_have_their_members_and_their_points(monkeypatch):
    """Waste goes, and what is left has some room."""
    from nearcast.indexes.papers.ap_plus_tree import layout, message_lists

    for module in (layout, message_lists):
        monkeypatch.setattr(module, "LITTLE_WASTE", 0)
    held, _ = town(BY_SPACE)
    for turn in range(12):
        held.publish([(("tea",), point(10.0 * i + turn / 16, 10.0 * i + 0.5)) for i in range(9)], NEVER)
    table = held.model.store._state.table
    for at in all_lists(held):
        first, count = held.lists.held[at, 0], held.lists.held[at, COUNT_HELD]
        rows = held.lists.member[first : first + count]
        assert table.box[rows, :2].tolist() == held.lists.point[first : first + count].tolist()
    check_lists(held)
