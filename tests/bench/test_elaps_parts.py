"""What Elaps is made of: safe regions of grid cells, and quadtrees of messages with word lists."""

import numpy as np
import pytest

from nearcast.bench.moving.protocols.structures import message_quadtree
from nearcast.bench.moving.protocols.structures.cell_regions import (
    CENTRE,
    WINDOW,
    CellRegions,
    Travellers,
    grow,
    within_impact,
)
from nearcast.bench.moving.protocols.structures.message_quadtree import MessageForest, WordQueries
from nearcast.columns import Messages

pytestmark = [pytest.mark.modes, pytest.mark.small, pytest.mark.papers]  # kernels of a protocol for comparison


def grown(
    *, messages=(), radius=3.0, speed=(0.0, 0.0), fast=np.inf, rate=0.0, direction=False, most=1024, at=(0.5, 0.5)
):
    """Return the region of one client in cells of side 1, as an array of lines."""
    regions = CellRegions(1, 1.0)
    one = [np.array([value], np.float64) for value in (*at, radius, *speed, fast, rate)]
    places = np.array(messages, np.float64).reshape(-1, 2)
    grow(
        regions,
        np.zeros(1, np.int64),
        Travellers(*one),
        np.array([0, len(places)]),
        places,
        has_direction=direction,
        most_cells=most,
    )
    return regions


def cells_of(regions):
    """Return the cells of a region as (column, line) from the client's."""
    bits = [[int(line) >> column & 1 for column in range(WINDOW)] for line in regions.mask[0]]
    return {(column - CENTRE, line - CENTRE) for line, row in enumerate(bits) for column, bit in enumerate(row) if bit}


def test_nothing_near_gives_the_whole_window():
    """Without messages and arrivals a region ends with its window."""
    assert WINDOW * WINDOW == len(cells_of(grown()))


def test_cells_that_a_circle_cuts_are_left_out():
    """A message at 10 with a radius of 3 takes a ring away, and with it what lies beyond: cells hang together."""
    cells = cells_of(grown(messages=[(10.5, 0.5)]))

    assert {(6, 0), (10, 5), (15, 0), (-16, 0)} <= cells
    assert not {(7, 0), (8, 2), (13, 0), (10, 3)} & cells
    assert (10, 0) not in cells


def test_a_client_inside_a_circle_stays_inside():
    """With the message in the answer the region ends where it would go out."""
    cells = cells_of(grown(messages=[(2.5, 0.5)], radius=5.0))

    assert (0, 0) in cells
    assert max(abs(column - 2) for column, _ in cells) < 5
    assert max(abs(line) for _, line in cells) < 5


def test_a_client_on_a_circle_has_no_region():
    """Its own cell is cut; the impact region is then its circle."""
    regions = grown(messages=[(3.4, 0.5)])

    assert set() == cells_of(regions)
    assert [0] == regions.is_there(np.zeros(1, np.int64)).tolist()
    np.testing.assert_allclose([[-2.5, -2.5, 3.5, 3.5]], regions.impact, atol=1e-6)


def test_more_arrivals_and_less_speed_make_smaller_regions():
    """A region grows while leaving is likelier than an arrival; who stands still keeps one cell."""
    sizes = [len(cells_of(grown(fast=fast, rate=rate))) for fast, rate in ((9, 0.001), (9, 0.01), (1, 0.01), (0, 0.01))]

    assert sorted(sizes, reverse=True) == sizes
    assert len(set(sizes)) == 4
    assert 1 == sizes[-1]


def test_a_limit_of_cells_keeps_the_nearest():
    """Five cells are the client's and those beside it."""
    assert {(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)} == cells_of(grown(most=5))


def test_direction_prefers_what_lies_ahead():
    """Going east, cells in the east come first."""
    cells = cells_of(grown(speed=(2.0, 0.0), fast=2.0, direction=True, most=40))
    east, west = (sum(column * sign > 0 for column, _ in cells) for sign in (1, -1))

    assert east > 2 * west
    assert cells_of(grown(most=40)) == cells_of(grown(direction=True, most=40))  # who has no heading yet


def test_a_place_far_from_everything_has_no_region():
    """Where coordinates are too large to tell cells apart there is none."""
    assert set() == cells_of(grown(at=(1e15, 0.5)))


def test_clients_know_by_themselves_whether_they_are_in_their_region():
    """Cells hold their lower borders."""
    regions = grown(most=1)

    for place, inside in (
        ((0, 0), True),
        ((0.999, 0.5), True),
        ((1, 0.5), False),
        ((-1e-9, 0.5), False),
        ((1e300, 0), False),
    ):
        x, y = (np.array([value], np.float64) for value in place)
        assert [inside] == regions.hold(x, y).tolist()


def test_an_impact_region_reaches_as_far_as_the_radius():
    """A message counts within the radius of any cell, round at the corners."""
    regions = grown(most=1, radius=5.0)
    places = np.array([[6.0, 0.5], [6.01, 0.5], [3.9, 4.9], [4.6, 4.6], [-4.9, 0.5], [0.5, -5.1], [0.5, 0.5]])
    rows, n = np.zeros(len(places), np.int64), len(places)
    found = within_impact(regions, rows, (np.full(n, 0.5), np.full(n, 0.5)), np.full(n, 5.0), places)

    assert [True, False, True, False, True, False, True] == found.tolist()


# --- quadtrees ----------------------------------------------------------------------------------------------------


def drawn_messages(rng, n, words=5):
    """Return messages, many of them at the same place, with some words."""
    places = np.round(rng.uniform(0, 10, (n, 2)) ** 2, 0 if n % 2 else 3)
    start = np.append(0, np.cumsum(rng.integers(0, 5, n)))
    terms = rng.integers(-1, words, start[-1]).astype(np.int32)
    return Messages.of(start, terms, np.hstack([places, places]), expires=rng.integers(1, 9, n))


def expected_pairs(messages, rows, now, queries, box):
    """Return the pairs that a look at every message finds."""
    return sorted(
        (query, row)
        for query in range(len(box))
        for row in rows
        if messages.expires[row] > now
        and (messages.box[row, :2] >= box[query, :2]).all()
        and (messages.box[row, 2:] <= box[query, 2:]).all()
        and set(queries.word[queries.word_start[query] : queries.word_start[query + 1]]) <= set(messages.terms_of(row))
    )


@pytest.mark.parametrize("room", [1, 1 << 14])
def test_trees_find_what_lies_in_a_rectangle_and_has_the_words(monkeypatch, room):
    """Through arrivals, merges and ends, with leaves of three, whatever room there is for pairs."""
    monkeypatch.setattr(message_quadtree, "_PAIRS", room)
    rng = np.random.default_rng(3)
    messages = drawn_messages(rng, 120)
    forest, first = MessageForest(messages, 5, leaf_messages=3), 0
    for now, last in enumerate((50, 50, 55, 70, 71, 120)):
        forest.drop(now)
        forest.append(np.arange(first, last))
        first = last
        corner = rng.uniform(-5, 100, (6, 2))
        box = np.hstack([corner, corner + rng.uniform(0, 60, (6, 2))])
        box[0] = -np.inf, -np.inf, np.inf, np.inf
        queries = WordQueries(np.array([0, 1, 3, 4, 5, 6, 8]), np.array([0, 1, 2, 3, 4, 0, 3, 4], np.int32))
        found = list(zip(*(column.tolist() for column in forest.search(queries, box)), strict=True))

        assert expected_pairs(messages, range(last), now, queries, box) == sorted(found)
        assert sorted(query for query, _ in found) == [query for query, _ in found]
        assert int((messages.expires[:last] > now).sum()) == len(forest)


def test_trees_become_few_and_forget():
    """A hundred batches make a few trees, and none is left when all messages are over."""
    messages = drawn_messages(np.random.default_rng(4), 300)
    forest = MessageForest(messages, 5)
    for first in range(0, 300, 3):
        forest.append(np.arange(first, first + 3))
    n_trees, n_bytes = len(forest._trees), forest.nbytes
    forest.drop(100)

    assert n_trees < 8
    assert n_bytes > 0
    assert (0, 0) == (len(forest), forest.nbytes)
    queries = WordQueries(np.array([0, 1]), np.zeros(1, np.int32))
    assert [[], []] == [column.tolist() for column in forest.search(queries, np.array([[0.0, 0.0, 99.0, 99.0]]))]
