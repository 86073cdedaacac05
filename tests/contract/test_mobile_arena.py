"""A row of `trigger` that changes its lists where the arena is short of room: it stays, or what it takes fits."""

import copy

import numpy as np
import pytest

from contract.worlds import PLANE
from nearcast.geo import Box, Regions
from nearcast.indexes import create
from nearcast.indexes.trigger.mobile.lists import N_LISTS, N_PLACES, NONE
from nearcast.indexes.trigger.mobile.rows import MobileScratch, place_rows
from nearcast.query import parse
from nearcast.testing import IndexActor

NO_CIRCLE = np.full((1, 3), np.nan)


def places(*x):
    return Regions.from_shapes([Box(each, 0, each, 1) for each in x], PLANE)


def two_crowds(n, n_right):
    """Return the mobile rows of an index: n movers to one word, all of whom were at x = 1 before some went to 1000."""
    actor = IndexActor(create("trigger:leaf_rows=2,few=0", PLANE))
    slots = actor.index.insert(actor.subscriptions([(parse("fish"), Box(0, 0, 0, 1))] * n))
    actor.index.move(slots, places(*[1 if i % 2 else 1000 for i in range(n)]))
    mobile = actor.index._mobile
    mobile.held = mobile._built_anew()  # space is cut between the crowds, and stays so
    mobile._cut_again_if_due = lambda _: None
    actor.index.move(slots, places(*[1] * n))
    actor.index.move(slots[n - n_right :], places(*[1000] * n_right))
    return mobile.held


def with_arena(held, n):
    """Return a copy of rows whose arena has so many places, none of them free but the last ones."""
    short = copy.deepcopy(held)
    free = np.full_like(short.lists.free_slab, NONE)
    arena = {name: np.zeros(n, getattr(short.lists, name).dtype) for name in ("rectangle", "signature", "link")}
    for name, column in arena.items():
        used = min(n, len(getattr(short.lists, name)))
        column[:used] = getattr(short.lists, name)[:used]
    return short._replace(lists=short.lists._replace(free_slab=free, **arena))


@pytest.mark.modes
@pytest.mark.small
@pytest.mark.parametrize(("n", "n_right"), [(33, 16), (17, 8), (33, 15), (33, 32), (20, 8)])
def test_a_move_that_shrinks_one_list_and_grows_another_has_room_for_both(n, n_right):
    """The list that it leaves may take a smaller slab, before the one that it comes to takes a larger one."""
    held = two_crowds(n, n_right)
    row, used, done = int(held.first_row[0]), int(held.lists.tally[N_PLACES]), set()
    assert held.part[row, 0] == 1.0
    assert 2 == held.lists.tally[N_LISTS], "space is not cut between the crowds"
    for more in range(100):
        short = with_arena(held, used + more)
        before = [column.copy() for column in (short.part, short.list_of, short.lists.head, short.lists.tally)]
        went = place_rows(short, np.array([row]), places(1000).part, NO_CIRCLE, 0, MobileScratch.new())
        done.add(went)
        assert short.lists.tally[N_PLACES] <= used + more, "more is used than there is"
        if went == 0:
            after = (short.part, short.list_of, short.lists.head, short.lists.tally)
            assert all((one == other).all() for one, other in zip(before, after, strict=True))
        else:
            assert short.part[row, 0] == 1000.0
    assert 1 in done
