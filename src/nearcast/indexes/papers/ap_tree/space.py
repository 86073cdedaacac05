"""The space partition of a node: a grid whose lines are found along each axis by itself (paper, section 3.3.3).

Lines may stand where a rectangle begins, or right behind one that ends. Along an axis they begin with as many centres
in each strip, and each moves in turn to where the strips beside it cost least, as the borders of cuts do.

What the paper leaves open was decided so:

- A grid has √f columns and as many rows as f then allows; fewer where fewer lines are possible.
- The cost model counts time only, and would gladly copy an atom into a hundred cells. A grid that would leave more than
  `MOST_COPIES` of an atom, grids above it included, is tried again with half as many lines, down to 2 x 2.
- Lines are found over at most `_LOOKED_AT` of the members, evenly spaced, and their cost is estimated from them.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.indexes.papers.ap_tree.layout import COPIES, covers
from nearcast.indexes.papers.ap_tree.model import move_borders, spread_evenly

#: Entries that grids may make of an atom on average.
MOST_COPIES = 4.0
_LOOKED_AT = 2048


@kernel
def space_partition(members, said, place, regions, atoms, model, fan_out):
    """Return the lines along x, those along y, the probabilities of cells, and their cost with the dummy cell.

    `said` are the messages of the sample in the region. Where no grid is possible the cost is that of a leaf.
    """
    region = regions[place]
    looked_at, n_dummy = _looked_at(members, atoms, regions, place)
    most = MOST_COPIES / region[COPIES] * looked_at.size
    x_axis = _along(looked_at, said, 0, region, atoms, model)
    y_axis = _along(looked_at, said, 1, region, atoms, model)
    columns = int(np.sqrt(fan_out))
    rows = fan_out // columns
    while True:
        x_line, y_line = _lines(x_axis, columns), _lines(y_axis, rows)
        weight, copies = _cell_weights(looked_at, atoms, x_line, y_line)
        is_too_much = copies > most
        if rows <= 2 or not is_too_much:
            break
        columns, rows = max(min(columns, 2), columns // 2), max(2, rows // 2)
    met = _cell_probabilities(said, region, model, x_line, y_line)
    if met.size == 1 or is_too_much:
        return x_line, y_line, met, float(members.size)
    cost = 0.0
    for k in range(met.size):
        cost += weight[k] * met[k]
    return x_line, y_line, met, n_dummy + cost * (members.size - n_dummy) / looked_at.size


@kernel
def _looked_at(members, atoms, regions, place):
    """Return members that the grid is for, not more than needed, and how many are for the dummy cell."""
    found = np.empty(members.size, np.int32)
    n = 0
    for atom in members:
        if not covers(atoms, atom, regions, place):
            found[n] = atom
            n += 1
    every = 1 + n // _LOOKED_AT
    return found[:n:every].copy(), members.size - n


@kernel
def _along(looked_at, said, axis, region, atoms, model):
    """Return where lines across an axis may stand, what each border tells of both sides, and the centres, ascending."""
    n, start, end = looked_at.size, region[axis], region[axis + 2]
    low, high, centre = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        low[i] = max(atoms.box[looked_at[i], axis], start)
        high[i] = min(atoms.box[looked_at[i], axis + 2], end)
        centre[i] = low[i] / 2 + high[i] / 2
    low, high = np.sort(low), np.sort(high)
    edge = _edges(low, high, start, end)
    begun, ended, met = _at_borders(edge, low, high, _coordinates(said, model, axis), start, end)
    return edge, begun, ended, met, np.sort(centre)


@kernel
def _lines(axis, n_strips):
    """Return ascending lines across an axis, for at most so many strips."""
    edge, begun, ended, met, centre = axis
    n_strips = min(n_strips, edge.size + 1)
    if n_strips < 2:
        return np.empty(0)
    border = _even_borders(centre, edge, n_strips)
    move_borders(begun, ended, met, border)
    line = np.empty(n_strips - 1)
    for k in range(n_strips - 1):
        line[k] = edge[border[k + 1] - 1]
    return line


@kernel
def _edges(low, high, start, end):
    """Return where a line may stand: at the beginning of a rectangle, or right behind its end; ascending, each once."""
    edge = np.empty(2 * low.size)
    n = 0
    for i in range(low.size):
        behind = np.nextafter(high[i], np.inf)
        if start < low[i] <= end:
            edge[n] = low[i]
            n += 1
        if start < behind <= end:
            edge[n] = behind
            n += 1
    edge = np.sort(edge[:n])
    n_distinct = 0
    for i in range(n):
        if i == 0 or edge[i] != edge[i - 1]:
            edge[n_distinct] = edge[i]
            n_distinct += 1
    return edge[:n_distinct].copy()


@kernel
def _coordinates(said, model, axis):
    found = np.empty(said.size)
    for i in range(said.size):
        found[i] = model.point[said[i], axis]
    return np.sort(found)


@kernel
def _at_borders(edge, low, high, said, start, end):
    """Return for every border (the start, each edge, the end) what has begun and ended before it, and is met there."""
    n = edge.size + 2
    begun, ended, met = np.zeros(n), np.zeros(n), np.zeros(n)
    n_low, n_high, n_said = 0, 0, 0
    for k in range(1, n):
        at = edge[k - 1] if k <= edge.size else np.inf
        while n_low < low.size and low[n_low] < at:
            n_low += 1
        while n_high < high.size and high[n_high] < at:
            n_high += 1
        while n_said < said.size and said[n_said] < at:
            n_said += 1
        begun[k], ended[k] = n_low, n_high
        share = share_of_length(start, min(at, end), start, end)
        met[k] = spread_evenly(said.size, n_said, share)
    return begun, ended, met


@kernel
def _even_borders(centre, edge, n_strips):
    """Return borders (0 the start, k + 1 for edge k) with about as many centres in each strip, none the same."""
    last = edge.size + 1
    border = np.empty(n_strips + 1, np.int64)
    border[0], border[n_strips] = 0, last
    for k in range(1, n_strips):
        at = strip_of(edge, centre[centre.size * k // n_strips]) + 1
        border[k] = min(max(at, border[k - 1] + 1), last - (n_strips - k))
    return border


@inlined
def share_of_length(low, high, start, end):
    """Return which part of an interval another takes up; all of it where it has no length."""
    length = end / 2 - start / 2
    return min(max((high / 2 - low / 2) / length, 0.0), 1.0) if length > 0.0 else 1.0


@inlined
def strip_of(line, value):
    """Return the number of the strip that holds a coordinate; one on a line is behind it."""
    low, high = 0, line.size
    while low < high:
        middle = (low + high) // 2
        if line[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _cell_weights(looked_at, atoms, x_line, y_line):
    """Return how many atoms each cell of a grid is touched by, column by column, and the sum of that."""
    rows = y_line.size + 1
    weight, copies = np.zeros((x_line.size + 1) * rows), 0
    for atom in looked_at:
        top, bottom = strip_of(y_line, atoms.box[atom, 1]), strip_of(y_line, atoms.box[atom, 3])
        for i in range(strip_of(x_line, atoms.box[atom, 0]), strip_of(x_line, atoms.box[atom, 2]) + 1):
            for j in range(top, bottom + 1):
                weight[i * rows + j] += 1.0
                copies += 1
    return weight, copies


@kernel
def _cell_probabilities(said, region, model, x_line, y_line):
    """Return the probability of each cell of a grid."""
    columns, rows = x_line.size + 1, y_line.size + 1
    inside = np.zeros(columns * rows)
    for message in said:
        i, j = strip_of(x_line, model.point[message, 0]), strip_of(y_line, model.point[message, 1])
        inside[i * rows + j] += 1.0
    for i in range(columns):
        x_low = x_line[i - 1] if i > 0 else region[0]
        x_high = x_line[i] if i < columns - 1 else region[2]
        for j in range(rows):
            y_low = y_line[j - 1] if j > 0 else region[1]
            y_high = y_line[j] if j < rows - 1 else region[3]
            share = share_of_length(x_low, x_high, region[0], region[2])
            share *= share_of_length(y_low, y_high, region[1], region[3])
            inside[i * rows + j] = spread_evenly(said.size, inside[i * rows + j], share)
    return inside
