"""Space cut into cells by a cost-balanced k-d tree (Algorithm 3 of the Skype paper)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.geo import ANYWHERE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions
    from nearcast.geo import Space

    Points = NDArray[np.float64]

#: The cuts are chosen from so many points at most.
_MOST_POINTS = 1 << 18
#: Room for the nodes still to visit: one for each level, of which a tree of n cells has log2 n, and one more.
_STACK = 128


class Grid(NamedTuple):
    """Cells of the whole space, whatever the coordinates: the leaves of a tree, numbered from 0.

    A node sends coordinates below `value[node]` along `axis[node]` (0: x, 1: y) to `child[node]`, the others to the
    node behind it. A leaf has -1 for a child, and its cell in `cell`.
    """

    axis: NDArray[np.int32]
    value: NDArray[np.float64]
    child: NDArray[np.int32]
    cell: NDArray[np.int32]

    @property
    def cells(self) -> int:
        """Return how many cells there are."""
        return (len(self.axis) + 1) // 2

    def cell_of(self, points: Points) -> NDArray[np.int32]:
        """Return the cell of each point (n, 2)."""
        found = np.empty(len(points), np.int32)
        _find_cells(self, np.ascontiguousarray(points, np.float64), found)
        return found

    def cells_of(self, boxes: NDArray[np.float64], most: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return list starts and cells that each box (n, 4) touches; the one entry -1 where they are more than `most`.

        Boxes do not cross the dateline and may reach to infinity.
        """
        boxes = np.ascontiguousarray(boxes, np.float64)
        count, stack = np.empty(len(boxes), np.int64), np.empty(_STACK, np.int32)
        _count_cells(self, boxes, most, stack, count)
        start = np.zeros(len(boxes) + 1, np.int64)
        np.cumsum(np.maximum(count, 1), out=start[1:])
        cells = np.empty(int(start[-1]), np.int32)
        _write_cells(self, boxes, count, start, stack, cells)
        return start, cells


@inlined
def leaf_at(grid, x, y):
    """Return the cell of a point."""
    node = 0
    while grid.child[node] >= 0:
        at = x if grid.axis[node] == 0 else y
        node = grid.child[node] + (1 if at >= grid.value[node] else 0)
    return grid.cell[node]


@inlined
def push_touched(grid, node, x_min, y_min, x_max, y_max, stack, depth):
    """Put the children of a node that a box touches on the stack, the first on top; return its depth."""
    low, high = (x_min, x_max) if grid.axis[node] == 0 else (y_min, y_max)
    if high >= grid.value[node]:
        stack[depth] = grid.child[node] + 1
        depth += 1
    if low < grid.value[node]:
        stack[depth] = grid.child[node]
        depth += 1
    return depth


@kernel
def _find_cells(grid, points, found):
    for i in range(found.size):
        found[i] = leaf_at(grid, points[i, 0], points[i, 1])


@kernel
def _count_cells(grid, boxes, most, stack, count):
    """Count the cells of each box; 0 stands for more than `most`."""
    for i in range(count.size):
        n, depth, stack[0] = 0, 1, 0
        while depth > 0:
            depth -= 1
            node = stack[depth]
            if grid.child[node] < 0:
                n += 1
                if n > most:
                    n = 0
                    break
            else:
                depth = push_touched(grid, node, boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3], stack, depth)
        count[i] = n


@kernel
def _write_cells(grid, boxes, count, start, stack, cells):
    for i in range(count.size):
        if count[i] == 0:
            cells[start[i]] = -1
            continue
        n, depth, stack[0] = start[i], 1, 0
        while depth > 0:
            depth -= 1
            node = stack[depth]
            if grid.child[node] < 0:
                cells[n] = grid.cell[node]
                n += 1
            else:
                depth = push_touched(grid, node, boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3], stack, depth)


# --- points -----------------------------------------------------------------------------------------------------


def places_of(subscriptions: Subscriptions) -> tuple[Points, NDArray[np.bool_]]:
    """Return a point for each subscription, the centre of its (first) rectangle, and which of them have one."""
    regions = subscriptions.regions
    part = regions.part[regions.part_start[:-1]]
    has_place = (regions.kind != ANYWHERE) & np.isfinite(part).all(axis=1)
    points = np.zeros((len(subscriptions), 2))
    points[has_place] = part[has_place, :2] / 2 + part[has_place, 2:] / 2
    return points, has_place


def message_points(messages: Messages) -> Points:
    """Return the centre of each message's place; of one across the dateline, that of its eastern part."""
    box = messages.box
    right = np.where(box[:, 2] < box[:, 0], 180.0, box[:, 2])
    return np.column_stack([box[:, 0] / 2 + right / 2, box[:, 1] / 2 + box[:, 3] / 2])


# --- Algorithm 3 ------------------------------------------------------------------------------------------------


def cut_space(points: Points, said: Points, cells: int, space: Space) -> Grid:
    """Cut space into cells of about the same cost: subscriptions inside times the share of messages inside (Eq. 15).

    Splits by x and y in turn. A node for k cells gives its children half of them each; where k is odd the costs are
    balanced as they grow with the square of the cells, subscriptions and messages both with their number.
    """
    extent = (-180.0, -90.0, 180.0, 90.0) if space.is_earth else space.bounds or (0.0, 0.0, 1.0, 1.0)
    points, said = _thinned(points), _thinned(said)
    nodes: list[tuple[int, float, int, int]] = []
    waiting = [(0, points if len(points) else said, said if len(said) else points, cells, 0, extent)]
    nodes.append((0, 0.0, -1, 0))
    next_cell = 0
    while waiting:
        node, own, heard, k, depth, around = waiting.pop()
        if k == 1:
            nodes[node] = (0, 0.0, -1, next_cell)
            next_cell += 1
            continue
        first, second = (k + 1) // 2, k // 2
        axis, value = _split(own, heard, first, second, depth % 2, around)
        child = len(nodes)
        nodes[node] = (axis, value, child, -1)
        nodes += [(0, 0.0, -1, 0)] * 2
        below, heard_below = own[:, axis] < value, heard[:, axis] < value
        low, high = list(around), list(around)
        low[2 + axis] = high[axis] = value
        waiting.append((child + 1, own[~below], heard[~heard_below], second, depth + 1, tuple(high)))  # type: ignore[arg-type]
        waiting.append((child, own[below], heard[heard_below], first, depth + 1, tuple(low)))  # type: ignore[arg-type]
    axes, values, children, numbers = zip(*nodes, strict=True)
    return Grid(
        np.array(axes, np.int32),
        np.array(values, np.float64),
        np.array(children, np.int32),
        np.array(numbers, np.int32),
    )


def _thinned(points: Points) -> Points:
    return points[:: max(1, -(-len(points) // _MOST_POINTS))]


def _split(own: Points, heard: Points, first: int, second: int, axis: int, around: Any) -> tuple[int, float]:
    """Return the axis and the value to cut at: `axis`, or the other one where all points agree in it."""
    for chosen in (axis, 1 - axis):
        value = best_cut(np.sort(own[:, chosen]), np.sort(heard[:, chosen]), first, second)
        if value is not None:
            return chosen, value
    return axis, float(own[0, axis]) if len(own) else float(around[axis] / 2 + around[2 + axis] / 2)


def best_cut(own: NDArray[np.float64], heard: NDArray[np.float64], first: int, second: int) -> float | None:
    """Return the coordinate of a subscription below which `first` of `first + second` cells lie; None without a choice.

    Both columns are sorted. Of cuts that balance costs alike, that which balances subscriptions best.
    """
    values = np.unique(own)[1:]
    if not len(values):
        return None
    below = np.searchsorted(own, values)
    heard_below = np.searchsorted(heard, values)
    one = below * heard_below / first**2
    other = (len(own) - below) * (len(heard) - heard_below) / second**2
    uneven = np.abs(below / first - (len(own) - below) / second)
    return float(values[np.lexsort((uneven, np.abs(one - other)))[0]])
