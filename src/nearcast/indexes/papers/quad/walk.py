"""Depth-first walk through a quadtree along all cells that a message's place touches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import inlined
from nearcast.indexes.papers.quad.cells import CHILD
from nearcast.indexes.papers.quad.traffic import DEEPEST, step_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def empty_stack() -> NDArray[np.int32]:
    """Return room for the cells still to visit: node, level, x, y."""
    return np.empty((3 * DEEPEST + 4, 4), np.int32)


def empty_area() -> NDArray[np.int32]:
    """Return room for the steps of a message's place, of which there may be two parts."""
    return np.zeros((2, 4), np.int32)


@inlined
def steps_of_place(traffic, place, n_places, area):
    """Write the steps of the parts of a message's place."""
    for p in range(n_places):
        for k in range(4):
            area[p, k] = step_of(place[p, k], k % 2, traffic)


@inlined
def begin_walk(root, stack):
    """Put a tree on the stack; return the number of cells to visit."""
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = root, 0, 0, 0
    return 1


@inlined
def walk_on(nodes, area, p, stack, depth):
    """Put those quarters of the cell `stack[depth]` that part p touches in its place; return the cells to visit."""
    child, level, x, y = nodes[stack[depth, 0], CHILD], stack[depth, 1] + 1, 2 * stack[depth, 2], 2 * stack[depth, 3]
    if child < 0:
        return depth
    shift = DEEPEST - level
    left, right = max(area[p, 0] >> shift, x), min(area[p, 2] >> shift, x + 1)
    for cell_y in range(max(area[p, 1] >> shift, y), min(area[p, 3] >> shift, y + 1) + 1):
        for cell_x in range(left, right + 1):
            stack[depth, 0], stack[depth, 1] = child + 2 * (cell_y - y) + cell_x - x, level
            stack[depth, 2], stack[depth, 3] = cell_x, cell_y
            depth += 1
    return depth
