"""The sieve of a small component: what it lets through, and that it never rules out a row."""

import random

import pytest

from contract.naive import as_lists
from contract.worlds import EARTH, PLANE, point
from nearcast.geo import Box
from nearcast.indexes import create
from nearcast.indexes.trigger import sieve as sieve_module
from nearcast.indexes.trigger.components import DeltaComponent, SegmentComponent
from nearcast.query import parse
from nearcast.testing import IndexActor, check_index

A, B = parse("a"), parse("b")


def actors(space, spec="trigger:leaf_rows=8,few=1,delta_rows=64"):
    return IndexActor(create(spec, space)), IndexActor(create("scan", space))


def sieves(index):
    """Return the sieves of all components, segments first."""
    segments = [c.sieve for c in index.index._components if isinstance(c, SegmentComponent)]
    return segments, [c.delta.sieve for c in index.index._components if isinstance(c, DeltaComponent)]


@pytest.mark.modes
@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_borders_of_squares_wide_rows_and_places_beyond_the_grid(space):
    """Rows and messages that end on a square's border, touch many squares or lie beyond the grid meet all the same."""
    rng = random.Random(11)
    index, scan = actors(space)
    # The grid of the delta is that of the segment, 0 to 64: a square is 2 wide, up to the last bit.
    for each in (index, scan):
        each.insert([(A, Box(0, 0, 64, 64))] + [(B, Box(x, x, x + 1, x + 1)) for x in range(64)])
    corners = [(rng.randint(-4, 34) * 2, rng.randint(-4, 34) * 2) for _ in range(60)]
    wanted = [
        (rng.choice([A, B]), Box(x, y, x + rng.choice([0, 2, 40]), y + rng.choice([0, 2, 12]))) for x, y in corners
    ]
    for each in (index, scan):
        each.insert(wanted)
    said = [(["a"], point(x, y)) for x, y in corners] + [(["a", "b"], (x - 2, y - 2, x, y)) for x, y in corners]
    said += [(["b"], (x - 20, y, x + 20, y + 20)) for x, y in corners]

    assert 60 == index.index.stats()["delta_rows"]
    assert as_lists(scan.match(said)) == as_lists(index.match(said))
    check_index(index.index)


@pytest.mark.modes
def test_a_word_that_is_asked_for_elsewhere_is_not_looked_up():
    """A message reads neither chain nor list of a word for which rows wait in other squares only."""
    index, _ = actors(PLANE)
    index.insert([(A, Box(x, 0, x + 0.5, 1)) for x in range(50)] + [(B, Box(0, 0, 50, 50))] * 20)
    index.insert([(A, Box(0, 40, 1, 41))] * 60)
    segment_sieves, delta_sieves = sieves(index)
    matches = index.match([(["a"], point(20.2, 20.2))])

    assert (1, 1) == (len(segment_sieves), len(delta_sieves))
    assert [[]] == as_lists(matches)
    assert 0 == matches.candidates


@pytest.mark.modes
def test_what_was_taken_back_does_no_harm():
    """A sieve keeps what was entered: rows that were removed or moved away are looked up in vain, and not found."""
    index, scan = actors(PLANE)
    for each in (index, scan):
        each.insert([(B, Box(0, 0, 9, 9))] * 65)
        slots = each.insert([(A, Box(x, x, x + 1, x + 1)) for x in range(9)])
        each.remove(slots[:3])
        each.replace(slots[3:5], [(A, Box(0, 0, 1, 1)), (B, Box(8, 8, 9, 9))])
    said = [(["a", "b"], point(x + 0.5, x + 0.5)) for x in range(9)]

    assert as_lists(scan.match(said)) == as_lists(index.match(said))
    check_index(index.index)


@pytest.mark.modes
def test_a_large_segment_has_no_sieve(monkeypatch):
    """Beyond a number of rows a segment is searched without one."""
    monkeypatch.setattr(sieve_module, "MOST_ROWS", 80)
    for n, expected in ((80, True), (81, False)):
        index, _ = actors(PLANE)
        index.insert([(A, Box(0, 0, 1, 1))] * n)

        assert [expected] == [len(sieve) > 0 for sieve in sieves(index)[0]]
        assert [list(range(n))] == as_lists(index.match([(["a"], point(1, 1))]))
