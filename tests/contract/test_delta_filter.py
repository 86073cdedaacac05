"""The chains of a delta: signature and rectangle beside the link, in the grid of the segments that are there."""

import random

import numpy as np
import pytest

from contract.naive import as_lists
from contract.worlds import EARTH, PLANE, point, world
from nearcast.geo import Box
from nearcast.indexes import create
from nearcast.query import parse
from nearcast.testing import IndexActor, check_index

A = parse("a")


def with_segment(space, wanted, spec="trigger:leaf_rows=8,few=1,delta_rows=64"):
    """Return an index whose delta is empty and comes after a segment, and a scan."""
    index, scan = IndexActor(create(spec, space)), IndexActor(create("scan", space))
    for each in (index, scan):
        each.insert(wanted)
    return index, scan


@pytest.mark.modes
@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_places_beyond_those_of_the_segments(space):
    """The grid is that of the largest segment: what lies outside of it, on its border or over it is found as well."""
    rng, spread = random.Random(4), 3 if space.is_earth else 1000
    index, scan = with_segment(space, [(A, Box(i % 9, i // 9, i % 9 + 1, i // 9 + 1)) for i in range(81)])
    corners = [(rng.randint(-9, 18) * rng.choice([1, spread]), rng.randint(-9, 18)) for _ in range(60)]
    wanted = [(A, Box(x, y, x + rng.choice([0, 0.5, 9]), y + rng.choice([0, 0.5, 9]))) for x, y in corners]
    for each in (index, scan):
        each.insert(wanted)
    said = [(["a"], point(x, y)) for x, y in corners] + [(["a"], (x, y, x + 4, y + 4)) for x, y in corners]

    assert 60 == index.index.stats()["delta_rows"]
    assert (index.index._delta.delta.chains.scale > 0).all()
    assert as_lists(scan.match(said)) == as_lists(index.match(said))
    check_index(index.index)


@pytest.mark.modes
def test_the_grid_rules_out_what_is_elsewhere():
    """Of a word's triggers in a delta all have a rectangle that says where: no two boxes apart have the same."""
    index, _ = with_segment(PLANE, [(A, Box(0, 0, 100, 100))] * 65)
    index.insert([(A, Box(i, 0, i + 0.5, 1)) for i in range(60)])

    assert 60 == len(np.unique(index.index._delta.delta.chains.rectangle[:60]))
    assert [[*range(65), 95]] == as_lists(index.match([(["a"], point(30.25, 0.5))]))


@pytest.mark.modes
def test_a_chain_with_more_matches_than_may_wait():
    """More of one chain than wait for verification at once are verified by and by."""
    index = IndexActor(create("trigger", PLANE))
    index.insert([(A, Box(0, 0, 1, 1))] * 2600)
    matches = index.match([(["a"], point(0.5, 0.5)), (["a"], point(3, 3)), (["a"], point(1, 1))])

    assert [list(range(2600)), [], list(range(2600))] == as_lists(matches)
    assert 3 * 2600 == matches.candidates


@pytest.mark.modes
@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_all_kinds_in_a_delta_behind_a_segment(space):
    """Whatever is asked, in a delta behind a segment it gets what `scan` gives, also after some of it went."""
    wanted, said = world(9, space, 160, 60, ("within", "similar"))
    index, scan = with_segment(space, wanted[:100])
    for each in (index, scan):
        slots = each.insert(wanted[100:])
        each.remove(slots[::3])

    assert as_lists(scan.match(said)) == as_lists(index.match(said))
    check_index(index.index)


def test_a_wrong_rectangle_is_noticed():
    """`check_index` compares the rectangle of every trigger with its row."""
    index, _ = with_segment(PLANE, [(A, Box(0, 0, 100, 100))] * 65)
    index.insert([(A, Box(10, 10, 20, 20))])
    index.index._delta.delta.chains.rectangle[0] += np.uint64(1)

    with pytest.raises(AssertionError, match="rectangle"):
        check_index(index.index)
