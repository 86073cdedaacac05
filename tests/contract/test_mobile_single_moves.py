"""Subscriptions of `trigger` that move one by one: space follows them as it follows batches."""

import numpy as np
import pytest

from contract.worlds import PLANE
from nearcast.geo import Box, Regions
from nearcast.indexes import create
from nearcast.indexes.trigger.mobile.lists import CELL, COUNT, N_HEADS
from nearcast.query import parse
from nearcast.testing import IndexActor, check_index

N, LEAF_ROWS = 100, 2


def boxes(x):
    return Regions.from_shapes([Box(each, 0, each, 1) for each in x.tolist()], PLANE)


def most_crowded(index):
    """Return how many entries the fullest cell has, but for the one that is everywhere."""
    lists = index._mobile.held.lists
    head = lists.head[: lists.tally[N_HEADS]]
    return int(np.bincount(head[:, CELL], weights=head[:, COUNT])[1:].max())


@pytest.mark.modes
def test_space_is_cut_anew_where_single_moves_lead_to():
    """All leave the cells there are for a place beyond, which becomes crowded and is cut."""
    actor, x = IndexActor(create(f"trigger:leaf_rows={LEAF_ROWS},few=0", PLANE)), np.arange(N) / N
    slots = actor.index.insert(actor.subscriptions([(parse("fish"), Box(0, 0, 1, 1))] * N))
    actor.index.move(slots, boxes(x))
    for at, slot in enumerate(slots):
        actor.index.move(np.array([slot]), boxes(1000 + x[at : at + 1]))

    assert most_crowded(actor.index) <= 8 * LEAF_ROWS
    found = actor.index.match(actor.messages([(["fish"], (1000 + each, 0.5, 1000 + each, 0.5)) for each in x]))
    assert [[slot] for slot in slots.tolist()] == [found.slots_of(row).tolist() for row in range(N)]
    check_index(actor.index)
