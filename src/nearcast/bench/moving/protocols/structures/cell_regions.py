"""Safe regions of grid cells: bitmaps in a window around each client's cell, grown cell by cell.

The grid has no ends: cell (c, l) covers the places from (c, l) · side to (c + 1, l + 1) · side. A region lies in the
32 × 32 cells around that of its client, one bit each, so it takes 128 bytes. Its cells hang together by their sides,
and none is cut by a circle of the client's radius around a message with its words: on all of it the answer is one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.moving.protocols.scene import Floats, Rows

#: Cells along the side of a window, and where in it the client is.
WINDOW, CENTRE = 32, 16
#: Circles count as wider and as narrower by these shares of the side, of the radius and of the coordinates: more than
#: rounding can do.
_SIDE_MARGIN, _PLACE_MARGIN = 1e-9, 1e-12
#: Farther from 0, in cells, coordinates do not tell neighbouring cells apart: clients there get no region.
_MOST_CELLS = 1e12
#: How much nearer a cell straight ahead counts, and how much farther one behind, where the heading is known.
_AHEAD = 0.5


class CellRegions:
    """The safe regions of all clients, and the rectangles around their impact regions."""

    def __init__(self, n: int, side: float):
        self.side = side
        #: The cell at the corner of each window, the bits of its lines, and the rectangle of the impact region.
        self.corner = np.zeros((n, 2), np.int64)
        self.mask = np.zeros((n, WINDOW), np.uint32)
        self.impact = np.zeros((n, 4))

    @property
    def nbytes(self) -> int:
        """The bytes of all columns."""
        return self.corner.nbytes + self.mask.nbytes + self.impact.nbytes

    def is_there(self, rows: Rows) -> Rows:
        """Return 1 for those of some clients that have a region."""
        is_there: Rows = np.asarray(self.mask[rows].any(axis=1), np.int64)
        return is_there

    def hold(self, x: Floats, y: Floats) -> NDArray[np.bool_]:
        """Tell of all clients whether their place is in their region."""
        with np.errstate(over="ignore", invalid="ignore"):
            column, line = np.floor(x / self.side) - self.corner[:, 0], np.floor(y / self.side) - self.corner[:, 1]
        in_window = (column >= 0) & (column < WINDOW) & (line >= 0) & (line < WINDOW)
        column, line = (np.where(in_window, each, 0).astype(np.int64) for each in (column, line))
        bits = self.mask[np.arange(len(x)), line].astype(np.int64)
        held: NDArray[np.bool_] = in_window & ((bits >> column) & 1 == 1)
        return held

    def windows(self, x: Floats, y: Floats, radius: Floats) -> Floats:
        """Return the rectangles in which a message can cut a cell of the windows around these places."""
        low, reach = np.empty((len(x), 4)), radius + margins(x, y, radius, self.side)
        for axis, place in ((0, x), (1, y)):
            first = (np.floor(place / self.side) - CENTRE - 1) * self.side
            low[:, axis], low[:, axis + 2] = first - reach, first + (WINDOW + 2) * self.side + reach
        return low


class Travellers(NamedTuple):
    """Clients whose regions are to grow: where they are, their radius, and how they go, in distance per time.

    `rate` is how many messages with the words of each are expected to arrive, per area and time.
    """

    x: Floats
    y: Floats
    radius: Floats
    x_speed: Floats
    y_speed: Floats
    speed: Floats
    rate: Floats


def margins(x: Floats, y: Floats, radius: Floats, side: float) -> Floats:
    """Return what is added to radii so that no rounding counts."""
    return _SIDE_MARGIN * side + _PLACE_MARGIN * (np.abs(x) + np.abs(y) + radius + side)


def grow(
    regions: CellRegions, rows: Rows, who: Travellers, start: Rows, at: Floats, *, has_direction: bool, most_cells: int
) -> None:
    """Give clients new regions; those of row i have messages at `at[start[i]:start[i + 1]]` around their window."""
    margin = margins(who.x, who.y, who.radius, regions.side)
    scratch = (np.zeros(WINDOW, np.int64), np.zeros(WINDOW, np.int64), np.zeros(WINDOW, np.int64))
    heap = (np.zeros(WINDOW * WINDOW), np.zeros(WINDOW * WINDOW, np.int64))
    columns = (regions.side, regions.corner, regions.mask, regions.impact)
    _grow_all(*columns, rows, who, margin, start, at, has_direction, most_cells, *scratch, *heap)


@kernel
def _grow_all(
    side,
    corner,
    mask,
    impact,
    rows,
    who,
    margin,
    start,
    at,
    has_direction,
    most_cells,
    blocked,
    seen,
    region,
    key,
    cell,
):
    for i in range(rows.size):
        row, reach = rows[i], who.radius[i] + margin[i]
        blocked[:] = 0
        seen[:] = 0
        region[:] = 0
        mask[row, :] = 0
        impact[row, 0], impact[row, 1] = who.x[i] - reach, who.y[i] - reach
        impact[row, 2], impact[row, 3] = who.x[i] + reach, who.y[i] + reach
        if not (abs(who.x[i]) < _MOST_CELLS * side and abs(who.y[i]) < _MOST_CELLS * side):
            continue
        corner[row, 0] = np.int64(math.floor(who.x[i] / side)) - CENTRE
        corner[row, 1] = np.int64(math.floor(who.y[i] / side)) - CENTRE
        for m in range(start[i], start[i + 1]):
            _block(side, corner[row, 0], corner[row, 1], at[m, 0], at[m, 1], who.radius[i], margin[i], blocked)
        _grow_one(
            side, corner[row, 0], corner[row, 1], who, i, has_direction, most_cells, blocked, seen, region, key, cell
        )
        _write(side, corner, mask, impact, row, region, reach)


@inlined
def _block(side, first_column, first_line, x, y, radius, margin, blocked):
    """Mark the cells that the circle around a message cuts."""
    far, near = radius + margin, radius - margin
    lowest = min(max(math.floor((y - far) / side) - 1 - first_line, 0), WINDOW)
    highest = min(max(math.floor((y + far) / side) + 1 - first_line, -1), WINDOW - 1)
    for line in range(lowest, highest + 1):
        low = (first_line + line) * side
        y_near, y_far = max(low - y, 0.0, y - low - side), max(abs(y - low), abs(y - low - side))
        if y_near > far:
            continue
        first = min(max(math.floor((x - far) / side) - 1 - first_column, 0), WINDOW)
        last = min(max(math.floor((x + far) / side) + 1 - first_column, -1), WINDOW - 1)
        for column in range(first, last + 1):
            left = (first_column + column) * side
            x_near, x_far = max(left - x, 0.0, x - left - side), max(abs(x - left), abs(x - left - side))
            if math.hypot(x_near, y_near) <= far and math.hypot(x_far, y_far) >= near:
                blocked[line] |= 1 << column


@inlined
def _grow_one(side, first_column, first_line, who, i, has_direction, most_cells, blocked, seen, region, key, cell):
    """Add cells, the nearest first, while the client leaves sooner than a message is expected in the impact region."""
    x, y = who.x[i] / side - first_column, who.y[i] / side - first_line  # in cells of the window
    speed, radius = who.speed[i] / side, who.radius[i] / side
    x_heading, y_heading = 0.0, 0.0
    going = math.hypot(who.x_speed[i], who.y_speed[i])
    is_heading = has_direction and going > 0.0
    if is_heading:
        x_heading, y_heading = who.x_speed[i] / going, who.y_speed[i] / going
    rate = who.rate[i] * side * side
    n, n_cells, n_sides = 0, 0, 0
    free, ahead = np.inf, 0.0  # how far it is to a cell that never can be added, and to the border straight ahead
    n = _push(key, cell, n, 0.0, CENTRE * WINDOW + CENTRE)
    seen[CENTRE] |= 1 << CENTRE
    while n > 0 and n_cells < most_cells:
        here = cell[0]
        line, column = here // WINDOW, here % WINDOW
        if (blocked[line] >> column) & 1 == 1:
            n = _pop(key, cell, n)
            free = min(free, _cell_distance(x, y, column, line))
            continue
        if n_cells > 0:
            border = ahead if is_heading else min(_cell_distance(x, y, column, line), free)
            area = n_cells + n_sides * radius + math.pi * radius * radius
            # Leaving is likelier while speed / border > rate · area.
            if speed <= rate * area * border:
                break
        n = _pop(key, cell, n)
        region[line] |= 1 << column
        n_cells += 1
        n_sides += 4
        for way in range(4):
            to_column, to_line = column + (way == 0) - (way == 1), line + (way == 2) - (way == 3)
            if to_column < 0 or to_column >= WINDOW or to_line < 0 or to_line >= WINDOW:
                continue
            if (region[to_line] >> to_column) & 1 == 1:
                n_sides -= 2
            if (seen[to_line] >> to_column) & 1 == 0:
                seen[to_line] |= 1 << to_column
                priority = _priority(x, y, to_column, to_line, x_heading, y_heading)
                n = _push(key, cell, n, priority, to_line * WINDOW + to_column)
        if is_heading:
            ahead = _way_out(x, y, x_heading, y_heading, region, ahead)


@inlined
def _cell_distance(x, y, column, line):
    """Return the distance from a place to the nearest point of a cell, in cells."""
    return math.hypot(max(column - x, 0.0, x - column - 1.0), max(line - y, 0.0, y - line - 1.0))


@inlined
def _priority(x, y, column, line, x_heading, y_heading):
    """Return the distance from a place to a cell, less where it lies ahead and more where behind."""
    dx, dy = column + 0.5 - x, line + 0.5 - y
    length = math.hypot(dx, dy)
    cosine = (dx * x_heading + dy * y_heading) / length if length > 0.0 else 0.0
    return _cell_distance(x, y, column, line) * (1.0 - _AHEAD * cosine)


@inlined
def _way_out(x, y, x_heading, y_heading, region, ahead):
    """Return how far it is straight ahead to a place outside the region, known to be `ahead` or more; in half cells."""
    while ahead < WINDOW:
        column, line = math.floor(x + x_heading * ahead), math.floor(y + y_heading * ahead)
        if column < 0 or column >= WINDOW or line < 0 or line >= WINDOW:
            break
        if (region[np.int64(line)] >> np.int64(column)) & 1 == 0:
            break
        ahead += 0.5
    return ahead


@inlined
def _push(key, cell, n, priority, number):
    """Put a cell into the heap; return its new size."""
    at = n
    while at > 0 and key[(at - 1) // 2] > priority:
        key[at], cell[at] = key[(at - 1) // 2], cell[(at - 1) // 2]
        at = (at - 1) // 2
    key[at], cell[at] = priority, number
    return n + 1


@inlined
def _pop(key, cell, n):
    """Take the first cell from the heap; return its new size."""
    n -= 1
    priority, number = key[n], cell[n]
    at = 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and key[child + 1] < key[child]:
            child += 1
        if key[child] >= priority:
            break
        key[at], cell[at] = key[child], cell[child]
        at = child
    key[at], cell[at] = priority, number
    return n


@inlined
def _write(side, corner, mask, impact, row, region, reach):
    """Write a region, and the rectangle around its impact region where it has cells."""
    low, high, left, right = WINDOW, -1, WINDOW, -1
    for line in range(WINDOW):
        mask[row, line] = region[line]
        if region[line] == 0:
            continue
        low, high = min(low, line), line
        for column in range(WINDOW):
            if (region[line] >> column) & 1 == 1:
                left, right = min(left, column), max(right, column)
    if high < 0:
        return
    impact[row, 0], impact[row, 1] = (corner[row, 0] + left) * side - reach, (corner[row, 1] + low) * side - reach
    impact[row, 2] = (corner[row, 0] + right + 1) * side + reach
    impact[row, 3] = (corner[row, 1] + high + 1) * side + reach


def within_impact(
    regions: CellRegions, rows: Rows, place: tuple[Floats, Floats], radius: Floats, at: Floats
) -> NDArray[np.bool_]:
    """Tell of each pair (rows[i], at[i]) whether the message lies within the radius of the client's safe region.

    Without a region it is the place of the last report that counts.
    """
    inside = np.zeros(len(rows), np.bool_)
    reach = radius + margins(*place, radius, regions.side)
    _fill_inside(regions.side, regions.corner, regions.mask, rows, *place, reach, at, inside)
    return inside


@kernel
def _fill_inside(side, corner, mask, rows, x, y, reach, at, inside):
    for i in range(rows.size):
        row = rows[i]
        if math.hypot(at[i, 0] - x[i], at[i, 1] - y[i]) <= reach[i]:
            inside[i] = True
            continue
        for line in range(WINDOW):
            bits = np.int64(mask[row, line])
            low = (corner[row, 1] + line) * side
            gap = max(low - at[i, 1], 0.0, at[i, 1] - low - side)
            if bits == 0 or gap > reach[i]:
                continue
            half = math.sqrt(max(reach[i] * reach[i] - gap * gap, 0.0)) + _SIDE_MARGIN * side
            first = min(max(math.floor((at[i, 0] - half) / side) - corner[row, 0], 0), WINDOW)
            last = min(max(math.floor((at[i, 0] + half) / side) - corner[row, 0], -1), WINDOW - 1)
            if first <= last and (bits >> np.int64(first)) & ((1 << np.int64(last - first + 1)) - 1) != 0:
                inside[i] = True
                break
