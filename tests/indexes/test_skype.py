"""The indexes `skype`, `ipt` and `ciq`: bounds that hold, lists that stay in order, and a life without rebuilding."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.naive import as_pairs
from contract.worlds import EARTH, PLANE, random_said, random_thresholds, random_topk, random_weights
from nearcast.errors import UnknownIndex
from nearcast.indexes import create
from nearcast.indexes.papers.ciq.tree import build_tree, count_covers, place_covers
from nearcast.indexes.papers.skype.cells import leaf_cells
from nearcast.indexes.papers.skype.groups import KEY, SUFFIX_KEY
from nearcast.indexes.shared.packed_rtree import gap_to_outside, place_gap, place_touches
from nearcast.indexes.shared.predicates import message_parts
from nearcast.model import TopK
from nearcast.testing import IndexActor, check_index
from nearcast.testing.values import point_box

pytestmark = [pytest.mark.modes, pytest.mark.papers]

SMALL = ("skype:leaf=4,groups=3", "ipt:leaf=4", "ciq:leaf=4,cells=7")
SPACES = pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])


def filled(spec, space, seed=1, n=120, *, thresholds=True):
    """Return an index with top-k subscriptions of a seed, what they are, and messages."""
    rng = random.Random(seed)
    said = random_said(rng, space, 20)
    wanted = [random_topk(rng, space, said) for _ in range(n)]
    index = IndexActor(create(spec, space))
    index.reweigh(random_weights(rng))
    slots = index.insert(wanted)
    if thresholds:
        index.set_thresholds(slots, random_thresholds(rng, space, wanted, said, index.weights))
    return index, wanted, said


# Bounds


def places(space):
    """Points, a third of them on a lattice."""
    if space.is_earth:
        anywhere = st.tuples(st.floats(-180, 180), st.floats(-90, 90))
        return anywhere | st.tuples(
            st.sampled_from([-180.0, 0.0, 90.0, 180.0]), st.sampled_from([-90.0, 0.0, 45.0, 90.0])
        )
    return st.tuples(st.floats(-100, 100), st.floats(-100, 100)) | st.tuples(
        st.sampled_from([-50.0, 0.0, 50.0]), st.sampled_from([-50.0, 0.0, 50.0])
    )


@SPACES
@given(data=st.data())
def test_inner_and_outer_bound_together_are_no_farther_than_the_message(space, data):
    """Definition 8 for every cell of a quadtree, point and rectangle messages, on the earth and on a plane."""
    point = np.array(data.draw(st.lists(places(space), min_size=1, max_size=12)))
    (x1, y1), (x2, y2) = data.draw(places(space)), data.draw(places(space))
    is_point = data.draw(st.booleans())
    across = (x1, x2) if space.is_earth else (min(x1, x2), max(x1, x2))
    box = np.array([[x1, y1, x1, y1] if is_point else [across[0], min(y1, y2), across[1], max(y1, y2)]])
    parts = np.empty((2, 4))
    n_parts = message_parts(box, 0, parts)
    cells = leaf_cells(point, space, 2)
    for c in range(len(cells.box)):
        if place_touches(parts, n_parts, cells.box, c):
            continue
        outer = place_gap(space.is_earth, parts, n_parts, cells.box, c)
        for i in cells.order[cells.start[c] : cells.start[c + 1]]:
            inner = gap_to_outside(space.is_earth, point[i, 0], point[i, 1], cells.box, c)
            distance = float(space.distance_to_box(point[i, 0], point[i, 1], tuple(box[0])))
            assert inner + outer <= distance * (1 + 1e-12) + 1e-9


@SPACES
@given(data=st.data())
def test_every_point_is_in_one_leaf_cell(space, data):
    """Cells hold their own points, at most as many as a leaf may have unless they coincide."""
    point = np.array(data.draw(st.lists(places(space), min_size=1, max_size=30)))
    cells = leaf_cells(point, space, 3)
    assert list(range(len(point))) == sorted(cells.order.tolist())
    assert (0, len(point)) == (cells.start[0], cells.start[-1])
    for c in range(len(cells.box)):
        held = point[cells.order[cells.start[c] : cells.start[c + 1]]]
        assert (held >= cells.box[c, :2]).all()
        assert (held <= cells.box[c, 2:]).all()
        assert 0 < len(held)
        assert len(held) <= 3 or np.ptp(held, axis=0).max() < 1e-9


@SPACES
@given(data=st.data())
def test_covering_cells_hold_every_place(space, data):
    """`ciq`: whatever the place of a message, one of a subscription's cells holds it; there are not too many."""
    point = np.array(data.draw(st.lists(places(space), min_size=1, max_size=12)))
    most = data.draw(st.integers(1, 14))
    tree = build_tree(point, space, 2)
    n_covers = np.empty(len(point), np.int64)
    count_covers(tree, point, most, n_covers)
    start = np.append(0, np.cumsum(n_covers))
    node = np.full(int(start[-1]), -1, np.int32)
    place_covers(tree, point, start, node)
    x, y = data.draw(places(space))
    far = (x, y) if space.is_earth else (x * 1e6, y * 1e6)
    for i in range(len(point)):
        cells = tree.box[node[start[i] : start[i + 1]]]
        assert 1 <= len(cells) <= max(most, 1)
        for px, py in ((x, y), far, tuple(point[i])):
            assert ((cells[:, 0] <= px) & (px <= cells[:, 2]) & (cells[:, 1] <= py) & (py <= cells[:, 3])).any()


# Work saved


@SPACES
@pytest.mark.parametrize("seed", range(3))
def test_groups_save_work_and_change_nothing(space, seed):
    """`skype` looks at no more entries than `ipt`, verifies no more, and finds the same."""
    groups, _, said = filled("skype:leaf=20,groups=4", space, seed, 300)
    alone, _, _ = filled("ipt:leaf=20", space, seed, 300)
    found, expected = groups.match(said), alone.match(said)
    assert expected == found
    assert found.candidates < expected.candidates
    assert found.verified <= expected.verified


def test_pruning_prunes():
    """With thresholds out of reach nothing is verified; with none everything that shares a word is."""
    for spec in SMALL:
        index, wanted, said = filled(spec, PLANE, thresholds=False)
        everything = index.match(said)
        assert len(everything.slots) > 200
        index.set_thresholds(list(range(len(wanted))), [1.5] * len(wanted))
        nothing = index.match(said)
        assert (0, 0) == (len(nothing.slots), nothing.verified)
        assert nothing.candidates <= everything.candidates


def test_a_cell_that_is_too_far_is_not_looked_at():
    """Lemma 6: where everyone needs the place, cells far away cost no entry."""
    index = IndexActor(create("skype:leaf=2", PLANE))
    slots = index.insert([TopK(0, place=(i, 0), terms=("a",), text_weight=0.1, max_distance=5.0) for i in range(50)])
    index.set_thresholds(slots, [0.8] * 50)
    found = index.match([(["a"], (0, 0, 0, 0))])
    assert [0, 1] == found.slots.tolist()
    assert found.candidates <= 8


# Thresholds


@SPACES
@pytest.mark.parametrize("spec", SMALL)
@pytest.mark.parametrize("seed", range(2))
def test_statistics_hold_while_thresholds_move(spec, space, seed):
    """Up and down, one and many, with messages in between or not: every bound stays a bound."""
    rng = random.Random(seed)
    index, wanted, said = filled(spec, space, seed)
    index.match(said[:1])
    for _ in range(8):
        slots = rng.sample(range(len(wanted)), rng.choice([1, 3, 60]))
        values = random_thresholds(rng, space, [wanted[slot] for slot in slots], said, index.weights)
        index.set_thresholds(slots, values)
        check_index(index.index)
        if rng.random() < 0.5:
            index.match(said[:5])
            check_index(index.index)
    scan = IndexActor(create("scan", space), words=index.words, weights=index.weights, totals=True)
    scan.index.set_weights(index.index._weights)
    scan.index.insert(index.index.subscriptions(np.arange(len(wanted), dtype=np.int32)))
    assert as_pairs(scan.match(said)) == as_pairs(index.match(said))


def test_groups_are_tightened_when_messages_come():
    """Thresholds that rose leave keys too low until a message comes to the group; then they are its members'."""
    index = IndexActor(create("skype:leaf=100", PLANE))
    slots = index.insert([TopK(0, place=(i, 0), terms=("a",), text_weight=0.5, max_distance=9.0) for i in range(40)])
    index.match([(["a"], (0, 0, 0, 0))])
    (segment,) = index.index._segments
    index.set_thresholds(slots, [0.3 + i / 100 for i in range(40)])
    assert (segment.field[:, SUFFIX_KEY] < segment.field[:, KEY].min()).all()
    index.match([(["a"], (0, 0, 0, 0))])
    first = segment.group_start[:-1]
    assert segment.field[first, KEY].tolist() == segment.field[first, SUFFIX_KEY].tolist()
    index.set_thresholds(slots[30:31], [0.0])
    assert segment.field[:, SUFFIX_KEY].min() < 0.0
    assert [30] == index.match([(["a", "x", "x"], (500, 0, 500, 0))]).slots.tolist()


# Life


@pytest.mark.parametrize("spec", ["skype:leaf=16", "ipt:leaf=16", "ciq:leaf=16"])
def test_changes_leave_large_segments_alone(spec):
    """New, moved and removed subscriptions make small segments beside the large one, and the answers are right."""
    index, wanted, said = filled(spec, PLANE, 3, 400)
    index.match(said[:1])
    (large,) = index.index._segments
    rng = random.Random(5)
    scan = IndexActor(create("scan", PLANE), words=index.words, weights=index.weights, totals=True)
    scan.index.set_weights(index.index._weights)
    scan.index.insert(index.index.subscriptions(np.arange(400, dtype=np.int32)))
    for first in range(0, 60, 6):
        for each in (index, scan):
            each.insert(wanted[first : first + 4])
            each.move([first], [point_box(1, 1)])
            each.remove([first + 1])
            each.set_thresholds([first, first + 2], [0.2, 0.4])
        assert scan.match(said) == index.match(said)
        check_index(index.index)
    assert large is index.index._segments[0]
    assert 2 <= index.index.stats()["segments"] <= 5
    gone = [slot for slot in range(120, 400) if rng.random() < 0.9]
    for each in (index, scan):
        each.remove(gone)
    assert scan.match(said) == index.match(said)
    assert large is not index.index._segments[0]
    check_index(index.index)


@pytest.mark.parametrize("spec", SMALL)
def test_marks_begin_again(spec):
    """The numbers that mark messages run out after two thousand million of them, and nobody notices."""
    index, _, said = filled(spec, EARTH)
    expected = index.match(said)
    for segment in index.index._segments:
        segment.number[0] = 2**31 - 5
    assert expected == index.match(said)
    assert expected == index.match(said)


@pytest.mark.parametrize("spec", SMALL)
@pytest.mark.parametrize("weight", [1e-76, 1e76])
def test_lengths_that_cannot_be_divided_by(spec, weight):
    """Words so light or heavy that unit vectors lose their digits: no bound is trusted, no answer lost."""
    rng = random.Random(1)
    said = random_said(rng, PLANE, 20)
    wanted = [random_topk(rng, PLANE, said) for _ in range(60)]
    index, scan = IndexActor(create(spec, PLANE)), IndexActor(create("scan", PLANE))
    weights = {f"w{i}": weight * (1 + i % 3) for i in range(30)}
    values = random_thresholds(rng, PLANE, wanted, said, weights)
    for each in (index, scan):
        each.reweigh(weights)
        each.set_thresholds(each.insert(wanted), values)
    assert scan.match(said) == index.match(said)


@pytest.mark.parametrize("spec", ["skype:leaf=0", "skype:groups=0", "ipt:leaf=-1", "ciq:cells=0"])
def test_options_below_one_are_refused(spec):
    """The message names the option and the index."""
    name, _, option = spec.partition(":")
    with pytest.raises(UnknownIndex, match=f"option {option.partition('=')[0]} of the index '{name}' is at least 1"):
        create(spec, PLANE)


@pytest.mark.parametrize("spec", SMALL)
def test_stats_count_what_is_held(spec):
    """Sizes grow with what is held."""
    index, wanted, said = filled(spec, PLANE)
    index.match(said)
    stats = index.index.stats()
    assert len(wanted) == stats["subscriptions"]
    assert stats["bytes"] > create(spec, PLANE).stats()["bytes"]
