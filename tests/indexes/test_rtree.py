"""The packed R-tree: every row in one leaf, every box around what is below it, and bounds that never overstate."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nearcast.geo import EARTH_RADIUS_M, Space
from nearcast.indexes.shared.packed_rtree import (
    NO_NODE,
    add_points,
    box_gap,
    build_rtree,
    gap_to_outside,
    place_gap,
    place_touches,
    point_gap,
)
from nearcast.indexes.shared.predicates import message_parts

pytestmark = [pytest.mark.modes, pytest.mark.papers]

EARTH, PLANE = Space.earth(), Space.plane()
#: What rounding may do to a distance of this size.
ROUNDING = 1e-12

_lon = st.sampled_from([-180.0, -179.5, -90.0, -1.0, 0.0, 1.0, 90.0, 179.5, 180.0]) | st.floats(-180, 180)
_lat = st.sampled_from([-90.0, -89.5, -45.0, 0.0, 1.0, 89.5, 90.0]) | st.floats(-90, 90)
_xy = st.sampled_from([-10.0, -1.0, 0.0, 1.0, 2.0, 10.0]) | st.floats(-1e6, 1e6)
_share = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1)


def boxes(space):
    """Boxes that do not cross the dateline, many of them points or lines."""
    x, y = (_lon, _lat) if space.is_earth else (_xy, _xy)
    sides = st.tuples(st.lists(x, min_size=2, max_size=2), st.lists(y, min_size=2, max_size=2))
    return sides.map(lambda xy: (min(xy[0]), min(xy[1]), max(xy[0]), max(xy[1])))


def inside(box, across, up):
    """A point of a box by its share of the sides."""
    x, y = box[0] + across * (box[2] - box[0]), box[1] + up * (box[3] - box[1])
    return min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])


def at_most(bound, distance):
    return bound <= distance * (1 + ROUNDING) + ROUNDING


def checked(tree, box, fan_out):
    """Walk the tree; return its rows in the order of the leaves."""
    n_leaves = int(tree.level_start[1])
    assert len(tree.level_start) == 2 or tree.level_start[-1] - tree.level_start[-2] == 1
    for node in range(len(tree.box)):
        first, last = int(tree.first[node]), int(tree.last[node])
        assert 1 <= last - first <= fan_out
        below = box[tree.row[first:last]] if node < n_leaves else tree.box[first:last]
        around = np.append(below[:, :2].min(axis=0), below[:, 2:].max(axis=0))
        assert np.array_equal(around, tree.box[node])
        if node >= n_leaves:
            assert (tree.parent[first:last] == node).all()
    assert len(tree.box) == 0 or NO_NODE == tree.parent[-1]
    assert np.array_equal(tree.first[1:n_leaves], tree.last[: max(n_leaves - 1, 0)])
    return tree.row.tolist()


@given(st.lists(boxes(PLANE), max_size=60), st.integers(2, 9))
def test_every_row_is_in_one_leaf_and_every_box_is_tight(rows, fan_out):
    """Whatever is packed: each row once, nodes not too full, boxes just around what is below."""
    box = np.array(rows, np.float64).reshape(-1, 4)
    assert list(range(len(rows))) == sorted(checked(build_rtree(box, fan_out), box, fan_out))


def test_no_rows_make_no_nodes():
    """Nothing packed is a tree without nodes."""
    tree = build_rtree(np.zeros((0, 2)), 4)
    assert (0, 0, [0, 0]) == (len(tree.box), len(tree.row), tree.level_start.tolist())


def test_a_few_rows_are_one_leaf():
    """The root is a leaf."""
    tree = build_rtree(np.array([[1.0, 2.0], [3.0, 0.0]]), 4)
    assert ([[1.0, 0.0, 3.0, 2.0]], [-1], [0, 1]) == (
        tree.box.tolist(), tree.parent.tolist(), tree.level_start.tolist(),
    )  # fmt: skip


def test_levels_of_a_deep_tree():
    """1000 points by four: 250 leaves, 63, 16, 4 and a root."""
    rng = np.random.default_rng(1)
    points = rng.random((1000, 2))
    tree = build_rtree(points, 4)
    assert [250, 63, 16, 4, 1] == np.diff(tree.level_start).tolist()
    checked(tree, np.hstack([points, points]), 4)


def test_leaves_of_a_square_are_about_square():
    """Tiles, not strips: on random points no leaf is much longer than wide."""
    tree = build_rtree(np.random.default_rng(2).random((6400, 2)), 100)
    sides = tree.box[: tree.level_start[1], 2:] - tree.box[: tree.level_start[1], :2]
    assert sides.max() < 0.3


@given(
    st.lists(st.tuples(_xy, _xy), min_size=1, max_size=30),
    st.lists(st.tuples(_xy, _xy), max_size=10),
    st.integers(2, 5),
)
def test_adding_points_widens_all_above(rows, more, fan_out):
    """A point added later lies in the box of its leaf and of every node above."""
    tree = build_rtree(np.array(rows, np.float64), fan_out)
    before = tree.box.copy()
    leaf = np.empty(len(more), np.int32)
    add_points(tree, np.array(more, np.float64).reshape(-1, 2), leaf)
    assert (tree.box[:, :2] <= before[:, :2]).all()
    assert (tree.box[:, 2:] >= before[:, 2:]).all()
    for (x, y), node in zip(more, leaf.tolist(), strict=True):
        assert node < tree.level_start[1]
        while node != NO_NODE:
            x_min, y_min, x_max, y_max = tree.box[node]
            assert x_min <= x <= x_max
            assert y_min <= y <= y_max
            node = tree.parent[node]


def test_a_point_goes_to_the_leaf_that_grows_least():
    """Two clusters: a point near one goes there; inside both, to the smaller."""
    tree = build_rtree(np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 10.0], [4.0, 14.0]]), 2)
    leaf = np.empty(5, np.int32)
    add_points(tree, np.array([[1.0, 2.0], [1.0, 9.0], [2.0, 12.0], [1.0, 13.0], [0.5, 12.0]]), leaf)
    assert [0, 1, 1, 1, 1] == leaf.tolist()
    tree.box[0] = (0.0, 0.0, 2.0, 12.0)
    add_points(tree, np.array([[1.0, 11.0]]), leaf)
    assert 1 == leaf[0]


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
@given(data=st.data())
def test_box_gap_never_overstates(space, data):
    """No point of one box is nearer to a point of the other than the gap says."""
    a, b = data.draw(boxes(space)), data.draw(boxes(space))
    one = inside(a, data.draw(_share), data.draw(_share))
    other = inside(b, data.draw(_share), data.draw(_share))
    bound = box_gap(space.is_earth, *a, *b)
    assert bound >= 0.0
    assert at_most(bound, space.distance(*one, *other))


@given(boxes(PLANE), boxes(PLANE))
def test_box_gap_is_exact_on_the_plane(a, b):
    """It is the distance from a corner of one to the other, where they do not overlap."""
    corners = [(x, y) for x in (0, 2) for y in (1, 3)]
    there = min(float(PLANE.distance_to_box(a[x], a[y], b)) for x, y in corners)
    back = min(float(PLANE.distance_to_box(b[x], b[y], a)) for x, y in corners)
    bound = box_gap(False, *a, *b)
    # Crossing boxes have no corner inside each other, and no gap.
    crossing = a[0] <= b[2] and b[0] <= a[2] and a[1] <= b[3] and b[1] <= a[3]
    straight = (a[0] <= b[2] and b[0] <= a[2]) or (a[1] <= b[3] and b[1] <= a[3])
    if crossing:
        assert 0.0 == bound
    elif not straight:
        assert math.isclose(min(there, back), bound, rel_tol=1e-12)
    else:
        assert bound <= min(there, back)


def test_box_gap_over_the_dateline():
    """180 and -180 are one meridian; the short way round counts."""
    assert 0.0 == box_gap(True, 170.0, -1.0, 180.0, 1.0, -180.0, -1.0, -170.0, 1.0)
    degree = math.radians(1.0) * EARTH_RADIUS_M
    gap = box_gap(True, 170.0, 0.0, 179.0, 0.0, -179.0, 0.0, -170.0, 0.0)
    assert math.isclose(2 * degree, gap, rel_tol=1e-9)


def test_box_gap_at_a_pole():
    """All longitudes meet at a pole."""
    assert 0.0 == box_gap(True, 0.0, 80.0, 10.0, 90.0, 100.0, 85.0, 110.0, 90.0)


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
@given(data=st.data())
def test_a_place_is_nowhere_nearer_than_its_gap(space, data):
    """Points, rectangles, and on the earth rectangles across the dateline: the gap is at most any distance."""
    node = data.draw(boxes(space))
    place = data.draw(boxes(space))
    if space.is_earth and data.draw(st.booleans()):
        place = (place[2], place[1], place[0], place[3])
    if data.draw(st.booleans()):
        place = (*place[:2], *place[:2])
    at = inside(node, data.draw(_share), data.draw(_share))
    parts = np.empty((2, 4))
    n_parts = message_parts(np.array([place]), 0, parts)
    bound = place_gap(space.is_earth, parts, n_parts, np.array([node]), 0)
    assert at_most(bound, space.distance_to_box(*at, place))
    if place_touches(parts, n_parts, np.array([node]), 0):
        assert 0.0 == bound


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
@given(data=st.data())
def test_nothing_outside_is_nearer_than_the_gap_to_outside(space, data):
    """From a point inside a box to any place that does not touch it, it is at least as far as said."""
    node = np.array([data.draw(boxes(space))])
    at = inside(node[0].tolist(), data.draw(_share), data.draw(_share))
    place = data.draw(boxes(space))
    if space.is_earth and data.draw(st.booleans()):
        place = (place[2], place[1], place[0], place[3])
    parts = np.empty((2, 4))
    n_parts = message_parts(np.array([place]), 0, parts)
    gap = gap_to_outside(space.is_earth, *at, node, 0)
    assert gap >= 0.0
    if not place_touches(parts, n_parts, node, 0):
        assert at_most(gap, space.distance_to_box(*at, place))


@given(_lon, _lat, boxes(EARTH))
@example(0.0, 90.0, (0.0, 0.0, 10.0, 90.0))
def test_gap_to_outside_is_not_lazy(lon, lat, box):
    """It is the distance to the nearest side there is, up to a micrometre of slack."""
    node = np.array([box])
    lon, lat = min(max(lon, box[0]), box[2]), min(max(lat, box[1]), box[3])
    gap = gap_to_outside(True, lon, lat, node, 0)
    west, south, east, north = box
    sides = []
    if south > -90.0:
        sides.append((west, south, east, south))
    if north < 90.0:
        sides.append((west, north, east, north))
    if west > -180.0 or east < 180.0:
        sides += [(west, south, west, north), (east, south, east, north)]
    if not sides:
        assert math.inf == gap
        return
    nearest = min(float(EARTH.distance_to_box(lon, lat, side)) for side in sides)
    assert math.isclose(nearest, gap, rel_tol=1e-9, abs_tol=2e-6)


def test_gap_to_outside_on_the_plane():
    """The nearest of four sides; 0 on a side."""
    node = np.array([[0.0, 0.0, 10.0, 4.0]])
    assert [1.5, 1.0, 0.0] == [gap_to_outside(False, x, y, node, 0) for x, y in ((5, 1.5), (9, 2), (3, 4))]


def test_a_node_all_around_has_no_sides_east_and_west():
    """A cap around a pole ends at its parallel only."""
    cap = np.array([[-180.0, 80.0, 180.0, 90.0]])
    degree = math.radians(1.0) * EARTH_RADIUS_M
    assert math.isclose(5 * degree, gap_to_outside(True, 180.0, 85.0, cap, 0), rel_tol=1e-9)
    assert math.inf == gap_to_outside(True, 0.0, 0.0, np.array([[-180.0, -90.0, 180.0, 90.0]]), 0)


def test_point_gap_is_within_a_micrometre_of_the_distance():
    """For a point the distance itself is asked, less the slack of the foot."""
    node = np.array([[10.0, 50.0, 12.0, 52.0]])
    distance = EARTH.distance_to_box(8.0, 51.0, node[0])
    assert math.isclose(float(distance), point_gap(True, 8.0, 51.0, node, 0), abs_tol=2e-6)
