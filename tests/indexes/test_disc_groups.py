"""The groups that a segment of the trigger index cuts its scored rows into."""

import numpy as np
import pytest

from contract.naive import Naive, as_pairs
from contract.worlds import PLANE, point
from nearcast.indexes import create
from nearcast.indexes.trigger.places import cut_space
from nearcast.model import Similar
from nearcast.testing import IndexActor, check_index

LEAF_ROWS = 16


def _wanted():
    """Return subscriptions of two common words at places of their own, which reach some way around."""
    places = np.random.default_rng(20).uniform(0, 100, (300, 2)).tolist()
    return [
        Similar(0, place=tuple(place), terms=("tea", f"word{i % 3}"), threshold=0.6, max_distance=20.0)
        for i, place in enumerate(places)
    ]


@pytest.mark.modes
@pytest.mark.small
def test_a_group_has_the_rows_of_four_cells():
    """A message looks its words up in every group it may reach: smaller groups would cost more than they rule out."""
    wanted, said = _wanted(), [(["tea", "word1"], point(30, 30)), (["word2"], point(70, 50)), (["tea"], point(0, 99))]
    actor, naive = IndexActor(create(f"trigger:leaf_rows={LEAF_ROWS},few=0,delta_rows=32", PLANE)), Naive(PLANE)
    for each in (actor, naive):
        each.insert(wanted)
        each.settle()
    check_index(actor.index)
    (component,) = actor.index._components
    cells = cut_space(np.array([[*each.place, *each.place] for each in wanted]), 4 * LEAF_ROWS)

    assert len(cells.origin) == len(component.segment.discs.group_reach)
    assert len(cells.origin) > len(wanted) // (4 * LEAF_ROWS)
    assert naive.match(said) == as_pairs(actor.match(said))
