"""An R-tree in flat arrays, packed at once, and the lower bounds on distances that searching it needs.

Packed by sort-tile-recursive (Leutenegger, Lopez, Edgington: ICDE 1997): sorted by x into slabs, every slab by y into
nodes, and so on upwards. Regions are rectangles of written coordinates: on the earth they never cross the dateline,
and 180 and -180 stay apart. Every bound here is safe against rounding as long as it is used with `similarity.MARGIN`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.geo import EARTH_RADIUS_M, box_distance, haversine

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_NODE = -1

#: What the foot of a perpendicular on a meridian may be off by, in metres, and far more.
_EARTH_SLACK_M = 1e-6
#: Above this haversine an arcsine loses its digits; a bound may as well call it no farther.
_FAR = 0.999


class PackedRTree(NamedTuple):
    """Nodes level by level, leaves first, the root last; without rows there are no nodes.

    Node i has the rectangle `box[i]`. A leaf (i < `level_start[1]`) owns the rows `row[first[i]:last[i]]`, an inner
    node the nodes `first[i]` to `last[i]`. `parent` of the root is -1. Level k is `level_start[k]:level_start[k + 1]`.
    """

    box: NDArray[np.float64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    parent: NDArray[np.int32]
    level_start: NDArray[np.int64]
    row: NDArray[np.int32]


class _RectangleLevel(NamedTuple):
    """Nodes of one level: their rectangles, and which of the items below each of them owns."""

    box: NDArray[np.float64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]

    def take(self, order: NDArray[np.int64]) -> _RectangleLevel:
        return _RectangleLevel(self.box[order], self.first[order], self.last[order])


def build_rtree(box: NDArray[np.float64], fan_out: int) -> PackedRTree:
    """Pack finite rectangles (n, 4), or points (n, 2), into nodes of up to `fan_out`, which is at least 2."""
    items = np.hstack([box, box]) if box.shape[1] == 2 else box
    row = np.zeros(0, np.int64)
    levels: list[_RectangleLevel] = []
    while len(items) and (not levels or len(items) > 1):
        order = _tiled(items, fan_out)
        if levels:
            levels[-1] = levels[-1].take(order)
        else:
            row = order
        first = np.arange(0, len(items), fan_out)
        levels.append(_RectangleLevel(_around(items[order], first), first, np.append(first[1:], len(items))))
        items = levels[-1].box
    return _assembled(levels, row)


def _tiled(box: NDArray[np.float64], fan_out: int) -> NDArray[np.int64]:
    """Return an order of rectangles in which every `fan_out` in a row lie close together."""
    n_nodes = -(-len(box) // fan_out)
    x, y = box[:, 0] / 2 + box[:, 2] / 2, box[:, 1] / 2 + box[:, 3] / 2
    by_x = np.argsort(x, kind="stable")
    slab_rows = math.ceil(math.sqrt(n_nodes)) * fan_out
    slab = np.empty(len(box), np.int64)
    slab[by_x] = np.arange(len(box)) // slab_rows
    return np.lexsort((y, slab))


def _around(box: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    low = np.minimum.reduceat(box[:, :2], starts, axis=0)
    return np.hstack([low, np.maximum.reduceat(box[:, 2:], starts, axis=0)])


def _assembled(levels: list[_RectangleLevel], row: NDArray[np.int64]) -> PackedRTree:
    """Number the nodes of all levels, and lay the rows out in the order of their leaves."""
    level_start = np.zeros(max(len(levels), 1) + 1, np.int64)
    level_start[1 : len(levels) + 1] = np.cumsum([len(level.box) for level in levels])
    box, first, last = [np.zeros((0, 4))], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    parent = np.full(int(level_start[-1]), NO_NODE, np.int32)
    for k, level in enumerate(levels):
        below = level_start[k - 1] if k else 0
        box.append(level.box)
        length = level.last - level.first
        if k:
            first.append(level.first + below)
            last.append(level.last + below)
            parent[below + _listed(level)] = np.repeat(np.arange(level_start[k], level_start[k + 1]), length)
        else:
            row = row[_listed(level)]
            last.append(np.cumsum(length))
            first.append(last[-1] - length)
    return PackedRTree(
        np.ascontiguousarray(np.concatenate(box)),
        np.concatenate(first),
        np.concatenate(last),
        parent,
        level_start,
        np.ascontiguousarray(row, np.int32),
    )


def _listed(level: _RectangleLevel) -> NDArray[np.int64]:
    """Return the items below a level, node by node."""
    length = level.last - level.first
    listed: NDArray[np.int64] = np.arange(length.sum()) + np.repeat(level.first - (np.cumsum(length) - length), length)
    return listed


# --- growing ----------------------------------------------------------------------------------------------------


@inlined
def _growth(box, node, x, y):
    """Return by how much the sides of a node must grow to hold a point."""
    across = max(box[node, 0] - x, 0.0, x - box[node, 2])
    return across + max(box[node, 1] - y, 0.0, y - box[node, 3])


@inlined
def leaf_for(tree, x, y):
    """Return the leaf to which a point is added: downwards, the child that grows least, of equals the smallest."""
    node = tree.box.shape[0] - 1
    n_leaves = tree.level_start[1]
    while node >= n_leaves:
        best, least, size = tree.first[node], np.inf, np.inf
        for child in range(tree.first[node], tree.last[node]):
            growth = _growth(tree.box, child, x, y)
            extent = tree.box[child, 2] - tree.box[child, 0] + tree.box[child, 3] - tree.box[child, 1]
            if growth < least or (growth == least and extent < size):
                best, least, size = child, growth, extent
        node = best
    return node


@inlined
def grow(tree, leaf, x, y):
    """Widen a leaf and the nodes above it to hold a point."""
    node = leaf
    while node != NO_NODE:
        tree.box[node, 0], tree.box[node, 2] = min(tree.box[node, 0], x), max(tree.box[node, 2], x)
        tree.box[node, 1], tree.box[node, 3] = min(tree.box[node, 1], y), max(tree.box[node, 3], y)
        node = tree.parent[node]


@hot_kernel
def add_points(tree, points, leaf):
    """Find the leaf of every point, widening the tree on the way, and write it to `leaf`."""
    for i in range(points.shape[0]):
        leaf[i] = leaf_for(tree, points[i, 0], points[i, 1])
        grow(tree, leaf[i], points[i, 0], points[i, 1])


# --- distances --------------------------------------------------------------------------------------------------


@inlined
def _least_cosine(south, north):
    """Return the least cosine of the latitudes of a box, 0 at the poles."""
    farthest = max(abs(south), abs(north))
    return math.cos(math.radians(farthest)) if farthest < 90.0 else 0.0


@inlined
def _folded(gap):
    """Return a difference of longitudes the short way round."""
    return 360.0 - gap if gap > 180.0 else gap


@inlined
def _earth_gap(a_west, a_south, a_east, a_north, b_west, b_south, b_east, b_north):
    up = max(b_south - a_north, 0.0, a_south - b_north)
    across = 0.0
    if a_west > b_east or b_west > a_east:
        across = min(_folded(abs(b_west - a_east)), _folded(abs(a_west - b_east)))
    cosines = _least_cosine(a_south, a_north) * _least_cosine(b_south, b_north)
    h = math.sin(math.radians(up) / 2.0) ** 2 + cosines * math.sin(math.radians(across) / 2.0) ** 2
    return 2.0 * EARTH_RADIUS_M * math.asin(math.sqrt(min(h, _FAR)))


@inlined
def box_gap(is_earth, a_x_min, a_y_min, a_x_max, a_y_max, b_x_min, b_y_min, b_x_max, b_y_max):
    """Return a lower bound on the distance between points of two boxes that do not cross the dateline.

    Exact on the plane. On the earth, with h the haversine, h(d) = h(Δlat) + cos(lat1)·cos(lat2)·h(Δlon), each factor at
    its least.
    """
    if is_earth:
        return _earth_gap(a_x_min, a_y_min, a_x_max, a_y_max, b_x_min, b_y_min, b_x_max, b_y_max)
    return math.hypot(max(b_x_min - a_x_max, 0.0, a_x_min - b_x_max), max(b_y_min - a_y_max, 0.0, a_y_min - b_y_max))


@inlined
def point_gap(is_earth, x, y, box, node):
    """Return a lower bound, all but exact, on the distance from a point to a node."""
    gap = box_distance(is_earth, x, y, box[node, 0], box[node, 1], box[node, 2], box[node, 3])
    return max(gap - _EARTH_SLACK_M, 0.0) if is_earth else gap


@inlined
def place_gap(is_earth, place, n_places, box, node):
    """Return a lower bound on the distance from a message's place, its parts as `message_parts` cut them, to a node."""
    least = np.inf
    for p in range(n_places):
        if place[p, 0] == place[p, 2] and place[p, 1] == place[p, 3]:
            gap = point_gap(is_earth, place[p, 0], place[p, 1], box, node)
        else:
            gap = box_gap(
                is_earth,
                place[p, 0],
                place[p, 1],
                place[p, 2],
                place[p, 3],
                box[node, 0],
                box[node, 1],
                box[node, 2],
                box[node, 3],
            )
        least = min(least, gap)
    return least


@inlined
def place_touches(place, n_places, box, node):
    """Tell whether a part of a message's place shares a point with a node, coordinates taken as written."""
    for p in range(n_places):
        if (
            box[node, 0] <= place[p, 2]
            and box[node, 2] >= place[p, 0]
            and box[node, 1] <= place[p, 3]
            and box[node, 3] >= place[p, 1]
        ):
            return True
    return False


@inlined
def _meridian_gap(lon, lat, edge, south, north):
    """Return the metres from a point to the stretch of a meridian between two latitudes."""
    gap = math.radians(_folded(abs(edge - lon)))
    cosine = math.cos(math.radians(lat)) if abs(lat) < 90.0 else 0.0
    foot = math.degrees(math.atan2(math.sin(math.radians(lat)), cosine * math.cos(gap)))
    # Of a great circle the nearest point is the foot of the perpendicular, or else the end next to it.
    nearest = min(haversine(lon, lat, edge, south), haversine(lon, lat, edge, north))
    return min(nearest, haversine(lon, lat, edge, min(max(foot, south), north)))


@inlined
def gap_to_outside(is_earth, x, y, box, node):
    """Return a lower bound on the distance from a point inside a node to anything that does not touch the node.

    Whoever leaves a node crosses one of its sides. On the earth a side at a pole, and the two sides of a node that
    goes all around, are none.
    """
    x_min, y_min, x_max, y_max = box[node, 0], box[node, 1], box[node, 2], box[node, 3]
    if not is_earth:
        return max(min(x - x_min, x_max - x, y - y_min, y_max - y), 0.0)
    degree = math.radians(1.0) * EARTH_RADIUS_M
    gap = np.inf
    if y_min > -90.0:
        gap = min(gap, (y - y_min) * degree)
    if y_max < 90.0:
        gap = min(gap, (y_max - y) * degree)
    if x_min > -180.0 or x_max < 180.0:
        gap = min(gap, _meridian_gap(x, y, x_min, y_min, y_max))
        gap = min(gap, _meridian_gap(x, y, x_max, y_min, y_max))
    return max(gap - _EARTH_SLACK_M, 0.0)
