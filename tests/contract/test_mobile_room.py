"""Room for the rows of `trigger` that have moved: the arena grows whenever a list needs more than it has."""

import numpy as np
import pytest

from contract.worlds import PLANE
from nearcast.geo import Box, Regions
from nearcast.indexes import create
from nearcast.indexes.trigger.mobile.lists import (
    N_PLACES,
    NONE,
    CellLists,
    append_entry,
    list_of,
    places_to_shrink,
    remove_entry,
)
from nearcast.query import parse
from nearcast.testing import IndexActor, check_index


def at(*x):
    return Regions.from_shapes([Box(each, 0, each, 1) for each in x], PLANE)


def movers(spec, n):
    """Return an index with so many subscriptions to one word, and their slots."""
    actor = IndexActor(create(spec, PLANE))
    return actor, actor.index.insert(actor.subscriptions([(parse("fish"), Box(0, 0, 0, 1))] * n))


@pytest.mark.modes
@pytest.mark.small
@pytest.mark.parametrize("is_single", [True, False], ids=["one by one", "together"])
def test_one_list_of_all_movers_grows(is_single):
    """A list that doubles may need more than a quarter of the arena."""
    actor, slots = movers("trigger", 300)
    for some in slots[:, None] if is_single else [slots]:
        actor.index.move(some, at(*[5] * len(some)))

    found = actor.index.match(actor.messages([(["fish"], (5, 0, 5, 0)), (["fish"], (0, 0, 0, 0))]))
    assert [slots.tolist(), []] == [found.slots_of(row).tolist() for row in (0, 1)]
    check_index(actor.index)


@pytest.mark.small
def test_it_is_known_what_a_list_takes_that_shrinks():
    """A move keeps room for it: leaving a list may put that into a smaller slab before another one grows."""
    lists = CellLists.room_for(4, 200, 40, 8)
    for link in range(33):
        append_entry(lists, 7, 1, np.uint64(0), np.uint64(0), link)
    lists.free_slab[:] = NONE
    taken = 0
    for link in range(32):
        each, before, expected = list_of(lists, 7, 1), int(lists.tally[N_PLACES]), places_to_shrink(lists, 0)
        remove_entry(lists, each, int(lists.at[link]))

        assert int(lists.tally[N_PLACES]) - before <= expected
        taken += expected
    assert taken == 32 + 16 + 8 + 4 + 2
