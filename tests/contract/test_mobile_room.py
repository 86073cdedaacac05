"""Room for the rows of `trigger` that have moved: the arena grows whenever a list needs more than it has."""

import numpy as np
import pytest

from contract.worlds import PLANE
from nearcast.geo import Box, Regions
from nearcast.indexes import create
from nearcast.indexes.trigger.mobile.lists import N_PLACES, NONE
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


def with_spare_places(mobile, n):
    """Leave room for so many more places in the arena, and no slab to use again."""
    lists = mobile.held.lists
    last = int(lists.tally[N_PLACES]) + n
    short = {name: getattr(lists, name)[:last].copy() for name in ("rectangle", "signature", "link")}
    lists.free_slab[:] = NONE
    mobile.held = mobile.held._replace(lists=lists._replace(**short))


@pytest.mark.modes
@pytest.mark.small
def test_a_list_that_shrinks_takes_no_room_from_the_one_that_grows():
    """Leaving a list may move it to a smaller slab, before the entry goes to one that needs a larger slab."""
    actor, slots = movers("trigger:leaf_rows=2,few=0", 40)
    actor.index.move(slots, at(*range(40)))  # by which space is cut
    rng, mobile = np.random.default_rng(1), actor.index._mobile
    for _ in range(300):
        with_spare_places(mobile, int(rng.integers(0, 17)))
        to = [1, 20, 38][rng.integers(3)]
        for slot in rng.permutation(slots[:14])[: rng.integers(1, 5)].tolist():
            actor.index.move(np.array([slot], np.int32), at(to))

            assert mobile.held.lists.tally[N_PLACES] <= len(mobile.held.lists.link)
