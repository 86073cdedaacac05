"""The cells of the trigger index: a k-d tree over space, and a coarse grid in each cell.

Cell 0 is everywhere: it holds what is too wide for one place, and what is too rare to be worth cutting.
Cells 1, 2, ... are the leaves of the tree. A point on a cut belongs to the right-hand side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAF = 2
EVERYWHERE = 0
#: Steps of a cell's grid in each direction: 15 bits, so that four of them with a guard bit fill a word.
STEPS = 32767
#: The guard bits of a word of four steps.
GUARD = np.uint64(0x8000_8000_8000_8000)
#: One step in each of the four fields.
ONE_STEP = np.uint64(0x0001_0001_0001_0001)
_DEEPEST = 64
#: Half the width of the widest cell that has a grid.
_WIDEST = 1e300


class Places(NamedTuple):
    """A k-d tree in flat form: node i is cut along `axis[i]` (2: a leaf) at `cut[i]`.

    Its children are `child[i]` (below the cut) and `child[i] + 1`; for a leaf `child[i]` is its cell.
    Coordinate x of cell c is step `(x / 2 - origin[c, 0] / 2) * scale[c, 0]` of its grid, likewise y.
    """

    axis: NDArray[np.uint8]
    cut: NDArray[np.float64]
    child: NDArray[np.int32]
    origin: NDArray[np.float64]
    scale: NDArray[np.float64]


@inlined
def step_of(value, origin, scale):
    """Return the grid step of a coordinate, 0 to STEPS; never decreasing in `value`: all that exactness needs."""
    if scale == 0.0 or value <= origin:
        return 0
    step = (value / 2 - origin / 2) * scale  # halves, for the difference of two huge numbers overflows
    if step >= STEPS:
        return STEPS
    return int(step)


@inlined
def rectangle_word(places, cell, x_min, y_min, x_max, y_max):
    """Pack a trigger's rectangle into four fields: x_min, y_min, STEPS - x_max, STEPS - y_max.

    A message's word (below) is at least as large in every field if the two may overlap.
    """
    ox, oy = places.origin[cell, 0], places.origin[cell, 1]
    sx, sy = places.scale[cell, 0], places.scale[cell, 1]
    word = np.uint64(step_of(x_min, ox, sx))
    word |= np.uint64(step_of(y_min, oy, sy)) << np.uint64(16)
    word |= np.uint64(STEPS - step_of(x_max, ox, sx)) << np.uint64(32)
    word |= np.uint64(STEPS - step_of(y_max, oy, sy)) << np.uint64(48)
    return word


@inlined
def message_word(places, cell, x_min, y_min, x_max, y_max):
    """Pack a message's rectangle for comparison with `rectangle_word`, guard bits set.

    `(message - rectangle) & GUARD == GUARD`: they may overlap, for no field borrowed from its guard bit.
    With ONE_STEP taken away as well: they overlap for certain, each border being at least a step inside.
    """
    return rectangle_word(places, cell, x_max, y_max, x_min, y_min) | GUARD


@kernel
def smaller_fields(a, b):
    """Return the field-wise minimum of two rectangle words: the word of a rectangle around both."""
    out = np.uint64(0)
    for shift in range(0, 64, 16):
        field_a = (a >> np.uint64(shift)) & np.uint64(STEPS)
        field_b = (b >> np.uint64(shift)) & np.uint64(STEPS)
        out |= min(field_a, field_b) << np.uint64(shift)
    return out


@inlined
def cell_of(places, x, y):
    """Return the cell that holds a point."""
    node = 0
    while places.axis[node] != LEAF:
        at = x if places.axis[node] == 0 else y
        node = places.child[node] + (1 if at >= places.cut[node] else 0)
    return places.child[node]


@hot_kernel
def cells_of_boxes(places, box, cell):
    """Write the cell of the lower corner of each box."""
    for i in range(cell.size):
        cell[i] = cell_of(places, box[i, 0], box[i, 1])


@inlined
def cells_of(places, x_min, y_min, x_max, y_max, stack, out):
    """Write the cells a rectangle touches to `out`, at most `out.size`; return how many there are, or out.size + 1."""
    stack[0] = 0
    depth, n = 1, 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if places.axis[node] == LEAF:
            if n == out.size:
                return n + 1
            out[n] = places.child[node]
            n += 1
            continue
        low, high = (x_min, x_max) if places.axis[node] == 0 else (y_min, y_max)
        if low < places.cut[node]:
            stack[depth] = places.child[node]
            depth += 1
        if high >= places.cut[node]:
            stack[depth] = places.child[node] + 1
            depth += 1
    return n


def empty_stack() -> NDArray[np.int32]:
    """Return the scratch space `cells_of` needs."""
    return np.zeros(2 * _DEEPEST, np.int32)


def cut_space(part: NDArray[np.float64], leaf_rows: int, sample_size: int = 65_536) -> Places:
    """Cut space so that about `leaf_rows` of these rectangles meet in a cell.

    A cut that too many rectangles would straddle is not made: they would be stored on both sides.
    """
    finite = part[np.isfinite(part).all(axis=1)]
    step = max(1, len(finite) // sample_size)
    sample = np.ascontiguousarray(finite[::step])
    most = 4 * (len(sample) // max(1, leaf_rows // step) + 1)
    axis, cut = np.full(most, LEAF, np.uint8), np.zeros(most)
    child, bounds = np.ones(most, np.int32), np.zeros((most, 4))
    if len(sample):
        bounds[0] = (*finite[:, :2].min(axis=0), *finite[:, 2:].max(axis=0))
    n_nodes = _cut(sample, max(1, leaf_rows // step), axis, cut, child, bounds)
    leaves = np.flatnonzero(axis[:n_nodes] == LEAF)
    child[leaves] = np.arange(1, len(leaves) + 1)
    extent = np.concatenate([bounds[:1], bounds[leaves]])
    half_width = extent[:, 2:] / 2 - extent[:, :2] / 2
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scale = (STEPS - 1) / half_width
    # A cell of no width, or one too narrow or too wide to count steps in, is one step: only its exact test decides.
    scale = np.where(np.isfinite(scale) & (half_width < _WIDEST), scale, 0.0)
    return Places(
        axis[:n_nodes].copy(),
        cut[:n_nodes].copy(),
        child[:n_nodes].copy(),
        np.ascontiguousarray(np.where(scale > 0, extent[:, :2], 0.0)),
        np.ascontiguousarray(scale),
    )


@kernel
def _cut(sample, leaf_rows, axis, cut, child, bounds):
    """Grow the tree over the sample; return the number of nodes. `bounds` gets the extent of every node."""
    rows = np.arange(sample.shape[0])
    todo = np.zeros((2 * _DEEPEST, 4), np.int64)  # node, first row, last row, depth
    todo[0, 2] = rows.size
    n_todo, n_nodes = 1, 1
    while n_todo > 0:
        n_todo -= 1
        node, first, last, depth = todo[n_todo]
        if last - first <= leaf_rows or depth >= _DEEPEST or n_nodes + 2 > axis.size:
            continue
        along, at = _best_cut(sample, rows, first, last)
        if along == LEAF:
            continue
        middle = _divide(sample, rows, first, last, along, at)
        if middle == first or middle == last:
            continue
        axis[node], cut[node], child[node] = along, at, n_nodes
        for side in range(2):
            bounds[n_nodes + side] = bounds[node]
        bounds[n_nodes, 2 + along] = at
        bounds[n_nodes + 1, along] = at
        todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3] = n_nodes, first, middle, depth + 1
        n_todo += 1
        todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3] = n_nodes + 1, middle, last, depth + 1
        n_todo += 1
        n_nodes += 2
    return n_nodes


@kernel
def _best_cut(sample, rows, first, last):
    """Return the axis and place of the median cut that fewer rectangles straddle; LEAF if both cut too many."""
    best, best_at, fewest = LEAF, 0.0, (last - first) * 0.3
    centre = np.empty(last - first)
    for along in range(2):
        for i in range(first, last):
            centre[i - first] = sample[rows[i], along] / 2 + sample[rows[i], along + 2] / 2
        at = np.partition(centre, centre.size // 2)[centre.size // 2]
        straddling = 0
        for i in range(first, last):
            straddling += sample[rows[i], along] < at and sample[rows[i], along + 2] >= at
        if straddling <= fewest:
            best, best_at, fewest = along, at, straddling
    return best, best_at


@kernel
def _divide(sample, rows, first, last, along, at):
    """Move the rows with their centre below the cut to the front; return where the others begin."""
    middle = first
    for i in range(first, last):
        row = rows[i]
        if sample[row, along] / 2 + sample[row, along + 2] / 2 < at:
            rows[i] = rows[middle]
            rows[middle] = row
            middle += 1
    return middle
