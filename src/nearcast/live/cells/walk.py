"""The walk down the quadtree cells of one posting list: which postings may matter to a subscription?

A cell that touches neither the old region nor the new one is left out, and one that lies inside both as well: no
message in it begins or ceases to be relevant. Of two boxes, every cell is left out that both cut in the same way. What
few postings remain are looked at one by one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined
from nearcast.geo import ANYWHERE, BOX, CIRCLE, EARTH_RADIUS_M, box_distance, haversine
from nearcast.live.cells.found import AFTER, BEFORE
from nearcast.live.cells.frame import (
    BITS,
    INSIDE,
    UNSURE,
    X,
    Y,
    extent,
    keep_on_earth,
    key_of,
    side_of_window,
    write_columns,
    write_rectangle,
    write_same_side,
    write_window,
)
from nearcast.live.cells.queries import NOWHERE
from nearcast.live.cells.segments import CLASS_FIRST, N_POSITIONS, position_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Of a walk: what is looked for is relevant at one of the two places, whichever.
EITHER = 0
#: Up to so many postings a cell is not divided further; up to so many it is not even compared with the regions. Of a
#: box, which keys tell from most points, they are more, and of a scored row, for which the distance to a message is as
#: cheap as that to a cell.
FEW, VERY_FEW = 16, 4
FEW_BY_KEY, VERY_FEW_BY_KEY = 48, 16
FEW_SCORED, VERY_FEW_SCORED = 32, 8
#: Columns of the stack of cells: the least key, the first finest cell's column and line, the level, and the postings.
KEY, COLUMN, LINE, LEVEL, FIRST, LAST = range(6)
#: Of a directory, cells are taken that a rectangle is at most 2 ** _MORE_BITS of wide.
_MORE_BITS = 2
#: Each level leaves at most three cells on the stack.
_STACK = 3 * BITS + ((1 << _MORE_BITS) + 1) ** 2
#: Filters are wider than what they let pass by this share, and on the earth by a micrometre: far above rounding.
_WIDER, _WIDER_M = 1.0 + 1e-9, 1e-6
#: Between these radii squares of lengths are numbers of full precision.
_LEAST_SQUARED, _MOST_SQUARED = 1e-150, 1e150
#: Discs that reach this latitude are not bounded by meridians.
_NEAR_POLE = 89.9


class WalkScratch(NamedTuple):
    """Scratch of a walk.

    The stack of cells, a cell's rectangle, that of its messages, the places of a message, columns and lines, and the
    windows of two regions (`frame`).
    """

    stack: NDArray[np.int64]
    cell: NDArray[np.float64]
    rectangle: NDArray[np.float64]
    place: NDArray[np.float64]
    columns: NDArray[np.int64]
    window: NDArray[np.int64]

    @classmethod
    def new(cls) -> WalkScratch:
        """Return scratch for one thread."""
        return cls(
            stack=np.empty((_STACK, 6), np.int64),
            cell=np.empty(4),
            rectangle=np.empty(4),
            place=np.empty((2, 4)),
            columns=np.empty(4, np.int64),
            window=np.empty((2, 8), np.int64),
        )


@inlined
def push(stack, depth, key, column, line, level, first, last):
    """Put a cell on the stack; return how many there are."""
    stack[depth, KEY], stack[depth, COLUMN], stack[depth, LINE] = key, column, line
    stack[depth, LEVEL], stack[depth, FIRST], stack[depth, LAST] = level, first, last
    return depth + 1


@inlined
def push_cells(segments, at, kind, postings, first, last, scratch):
    """Put on the empty stack the cells in which a box that touches `scratch.rectangle` may begin.

    Those of the list's directory, or if they are many the least that are few; without one, one to four.
    """
    columns, stack, depth = scratch.columns, scratch.stack, 0
    write_columns(segments.frame, at, kind, scratch.rectangle, columns)
    bits, more = 0, 0
    if kind == 0 and postings.level > 0:
        bits, more = BITS - postings.level, _MORE_BITS
    while (max(columns[2] - columns[0], columns[3] - columns[1]) >> (bits + more)) > 0:
        bits += 1
    for column in range(columns[0] >> bits, (columns[2] >> bits) + 1):
        for line in range(columns[1] >> bits, (columns[3] >> bits) + 1):
            key = key_of(column << bits, line << bits)
            low = begin_of_cell(segments, at, kind, postings, first, last, key, BITS - bits)
            high = begin_of_cell(segments, at, kind, postings, low, last, key + (np.int64(1) << 2 * bits), BITS - bits)
            if high > low:
                depth = push(stack, depth, key, column << bits, line << bits, BITS - bits, low, high)
    return depth


@inlined
def begin_of_cell(segments, at, kind, postings, first, last, key, level):
    """Return the first of these postings in the cell of this level that begins with a key, or behind it."""
    if kind == 0 and 0 < postings.level >= level:
        return np.int64(postings.origin + segments.cell[postings.cells + (key >> 2 * (BITS - postings.level))])
    return first_position(segments, postings.is_all, first, last, position_of(segments, at, kind, key))


@inlined
def write_parts(before, after, row, side, rectangle):
    """Write the rectangle around two regions and tell whether it is a small one; not if one has several parts.

    Of two that lie apart `side` chooses one: 1 the first, 2 the second, 0 both.
    """
    n, other = 0, 3
    for places in (before, after):
        other -= 1
        if side == other:
            continue
        begin = places.part_start[row]
        if places.kind[row] == ANYWHERE or places.part_start[row + 1] - begin > 1:
            return False
        if places.part_start[row + 1] > begin:
            for k in range(2):
                low, high = places.part[begin, k], places.part[begin, 2 + k]
                rectangle[k] = low if n == 0 else min(rectangle[k], low)
                rectangle[2 + k] = high if n == 0 else max(rectangle[2 + k], high)
            n += 1
    return n > 0


@inlined
def write_discs(is_earth, before, after, row, radius, rectangle):
    """Write a rectangle around all places within a radius of where a scored row is; tell whether there is a small one.

    There is none where a disc reaches a pole or the dateline.
    """
    if radius == np.inf:
        return False
    n = 0
    for places in (before, after):
        if places.kind[row] == NOWHERE:
            continue
        at = places.part_start[row]
        x, y, across, along = places.part[at, X], places.part[at, Y], radius * _WIDER, radius * _WIDER
        if is_earth:
            angle = (radius * _WIDER + _WIDER_M) / EARTH_RADIUS_M
            along = math.degrees(angle) * _WIDER
            if abs(y) + along >= _NEAR_POLE:
                return False
            # The meridians that touch the disc.
            across = math.degrees(math.asin(math.sin(angle) / math.cos(math.radians(y)))) * _WIDER
            if abs(x) + across >= 180.0:
                return False
        rectangle[0] = x - across if n == 0 else min(rectangle[0], x - across)
        rectangle[1] = y - along if n == 0 else min(rectangle[1], y - along)
        rectangle[2] = x + across if n == 0 else max(rectangle[2], x + across)
        rectangle[3] = y + along if n == 0 else max(rectangle[3], y + along)
        n += 1
    return n > 0


@inlined
def write_windows(segments, at, before, after, row, scratch):
    """Write the windows of two regions, where these have one part; of a box alone they tell which points are inside."""
    for k, places in enumerate((before, after)):
        begin, rectangle = places.part_start[row], scratch.rectangle
        if places.kind[row] == NOWHERE or places.kind[row] == ANYWHERE or places.part_start[row + 1] - begin != 1:
            write_same_side(scratch.window, k, places.kind[row] == NOWHERE)
        else:
            for i in range(4):
                rectangle[i] = places.part[begin, i]
            write_window(segments.frame, at, rectangle, places.kind[row] == BOX, scratch.window, k)


@inlined
def where_by_key(window, key, side):
    """Return at which of two places regions hold the point with a key, 0 for both or none; -1 if the key does not tell.

    Where a `side` is looked for, the other region lies apart.
    """
    if side != EITHER:
        told = side_of_window(window, side - BEFORE, key)
        return told if told == UNSURE else side * told
    was, will = side_of_window(window, 0, key), side_of_window(window, 1, key)
    if was == UNSURE or will == UNSURE:
        return UNSURE
    if was == will:
        return 0
    return BEFORE if was == INSIDE else AFTER


@inlined
def push_children(segments, at, kind, postings, stack, depth):
    """Replace the topmost cell, at `depth`, by its four parts, those without postings left out; return the depth."""
    key, column, line = stack[depth, KEY], stack[depth, COLUMN], stack[depth, LINE]
    level, first, last = stack[depth, LEVEL] + 1, stack[depth, FIRST], stack[depth, LAST]
    half = np.int64(1) << (BITS - level)
    for part in range(4):
        next_key = key + half * half
        end = last
        if part < 3:
            end = begin_of_cell(segments, at, kind, postings, first, last, next_key, level)
        if end > first:
            depth = push(stack, depth, key, column + half * (part & 1), line + half * (part >> 1), level, first, end)
        key, first = next_key, end
    return depth


@inlined
def end_of_class(segments, at, kind, postings, first):
    """Return where the postings of a class end; behind the last class that there is nothing is searched."""
    position = segments.segment[at, CLASS_FIRST + kind + 1]
    if position == segments.segment[at, N_POSITIONS]:
        return postings.last
    return first_position(segments, postings.is_all, first, postings.last, position)


@inlined
def first_position(segments, is_all, first, last, position):
    """Return the first of the postings at this position or behind it."""
    if is_all:
        return min(max(position, first), last)
    while first < last:
        middle = (first + last) >> 1
        if segments.posting[middle] < position:
            first = middle + 1
        else:
            last = middle
    return first


@inlined
def write_cell(segments, at, kind, stack, depth, is_earth, scratch):
    """Write the rectangle of the cell at `depth`, and the one that its messages, of a class of extents, lie in."""
    cell, rectangle = scratch.cell, scratch.rectangle
    write_rectangle(segments.frame, at, stack[depth, COLUMN], stack[depth, LINE], stack[depth, LEVEL], is_earth, cell)
    rectangle[0], rectangle[1] = cell[0], cell[1]
    rectangle[2] = cell[2] + extent(segments.frame, at, kind, 0)
    rectangle[3] = cell[3] + extent(segments.frame, at, kind, 1)
    if is_earth:
        keep_on_earth(rectangle)


@inlined
def may_touch(is_earth, places, row, rectangle):
    """Tell whether a region may touch a place within a rectangle."""
    if places.kind[row] != CIRCLE:
        return parts_touch(places, row, rectangle)
    if not parts_touch(places, row, rectangle):
        return False
    at = places.shape[row]
    return _is_near(is_earth, places.circle[at, 0], places.circle[at, 1], places.circle[at, 2], rectangle)


@inlined
def _is_near(is_earth, x, y, radius, rectangle):
    """Tell whether a place within a rectangle may lie within a radius of a point."""
    distance = box_distance(is_earth, x, y, rectangle[0], rectangle[1], rectangle[2], rectangle[3])
    return is_within(is_earth, distance, radius)


@inlined
def is_within(is_earth, distance, radius):
    """Tell whether a distance is no more than a radius, or by less than rounding can do."""
    return distance <= radius * _WIDER + (_WIDER_M if is_earth else 0.0)


@inlined
def narrower(is_earth, radius):
    """Return a radius less what rounding can do, so that what lies within it surely does; infinite stays so."""
    return radius / (_WIDER * _WIDER) - (_WIDER_M if is_earth else 0.0)


@inlined
def are_on_one_side(one, other, radius, sure):
    """Tell whether squares of two distances are both certainly beyond a radius, or both within a sure one."""
    far = radius * _WIDER * _WIDER
    if far < _MOST_SQUARED and min(one, other) > far * far:
        return True
    return sure > _LEAST_SQUARED and max(one, other) < sure * sure


@inlined
def is_beyond(x, y, radius, x_min, y_min, x_max, y_max):
    """Tell whether a box on a plane certainly lies farther from a point than a radius; takes no root."""
    across, along, far = max(x_min - x, 0.0, x - x_max), max(y_min - y, 0.0, y - y_max), radius * _WIDER * _WIDER
    if across > far or along > far:
        return True
    return far < _MOST_SQUARED and across * across + along * along > far * far


@inlined
def parts_touch(places, row, rectangle):
    """Tell whether a box around a region touches a rectangle."""
    if places.kind[row] == ANYWHERE:
        return True
    for p in range(places.part_start[row], places.part_start[row + 1]):
        part = places.part
        if (
            part[p, 0] <= rectangle[2]
            and part[p, 2] >= rectangle[0]
            and part[p, 1] <= rectangle[3]
            and part[p, 3] >= rectangle[1]
        ):
            return True
    return False


@inlined
def are_apart(before, after, row):
    """Tell whether two regions, boxes or circles of one part each, lie in rectangles that do not touch."""
    for places in (before, after):
        if places.kind[row] != BOX and places.kind[row] != CIRCLE:
            return False
        if places.part_start[row + 1] - places.part_start[row] != 1:
            return False
    one, other = before.part_start[row], after.part_start[row]
    for k in range(2):
        if before.part[one, k] > after.part[other, 2 + k] or after.part[other, k] > before.part[one, 2 + k]:
            return True
    return False


@inlined
def is_one_box(places, row):
    """Tell whether a region is a box that does not cross the dateline."""
    return places.kind[row] == BOX and places.part_start[row + 1] - places.part_start[row] == 1


@inlined
def is_cut_otherwise(before, after, row, rectangle):
    """Tell whether two boxes have other parts of a rectangle in common with it; each region is one box."""
    one, other = before.part_start[row], after.part_start[row]
    is_in_one = is_in_other = True
    is_same = True
    for k in range(2):
        low, high = rectangle[k], rectangle[2 + k]
        one_low, one_high = max(before.part[one, k], low), min(before.part[one, 2 + k], high)
        other_low, other_high = max(after.part[other, k], low), min(after.part[other, 2 + k], high)
        is_in_one = is_in_one and one_low <= one_high
        is_in_other = is_in_other and other_low <= other_high
        is_same = is_same and one_low == other_low and one_high == other_high
    return (is_in_one or is_in_other) and not is_same


@inlined
def holds_cell(is_earth, places, row, cell):
    """Tell whether a region certainly holds every point of a rectangle."""
    kind = places.kind[row]
    if kind == ANYWHERE:
        return True
    if kind == BOX:
        for p in range(places.part_start[row], places.part_start[row + 1]):
            part = places.part
            if part[p, 0] <= cell[0] and part[p, 2] >= cell[2] and part[p, 1] <= cell[1] and part[p, 3] >= cell[3]:
                return True
    elif kind == CIRCLE:
        at = places.shape[row]
        return farthest(is_earth, places.circle[at, 0], places.circle[at, 1], cell) * _WIDER < places.circle[at, 2]
    return False


@inlined
def farthest(is_earth, x, y, cell):
    """Return a distance that no point of a rectangle exceeds."""
    if not is_earth:
        return math.hypot(max(abs(cell[0] - x), abs(cell[2] - x)), max(abs(cell[1] - y), abs(cell[3] - y)))
    # To the middle, then along its meridian, then along a parallel that is no shorter than the one in question.
    least = 0.0 if cell[1] <= 0.0 <= cell[3] else min(abs(cell[1]), abs(cell[3]))
    along = (cell[3] - cell[1]) + (cell[2] - cell[0]) * math.cos(math.radians(least))
    middle = haversine(x, y, 0.5 * (cell[0] + cell[2]), 0.5 * (cell[1] + cell[3]))
    return middle + 0.5 * EARTH_RADIUS_M * math.radians(along)


@inlined
def may_be_within(is_earth, places, row, radius, rectangle):
    """Tell whether a place within a rectangle may lie within a radius of the point where a scored row is."""
    if places.kind[row] == NOWHERE:
        return False
    if radius == np.inf:
        return True
    at = places.part_start[row]
    x, y = places.part[at, X], places.part[at, Y]
    if not is_earth:
        return not is_beyond(x, y, radius, rectangle[0], rectangle[1], rectangle[2], rectangle[3])
    return _is_near(is_earth, x, y, radius, rectangle)
