"""Score bounds of one trigger for a message, of a block of 32 triggers, and of a bundle of 16 blocks.

Trigger i waits for messages whose first common word with its subscription, in the order of all words, is its own.
Such a message reaches at most

    text[i]·u + rest[i]·after + place[i]·near[i]

where text = w·p and rest = w·q, with p the share of the word in the unit vector of the subscription and q the length
of what comes after it; u is the share of the word in the unit vector of the message, `after` the length of what comes
after it there (Cauchy-Schwarz), and place = 1 - w. Of a single trigger only those of the later words count that its
signature of 32 bits may hold. It can fire if this is no less than its threshold.

The most by which any of a block's triggers can pass its threshold is a maximum of linear functions of
(u, after, near): convex, and growing in each. Between the corners of a grid it lies below what is interpolated from
its values there, so a table of those values is a bound that is safe, and tight where the triggers of a block are alike.
A threshold that rises leaves the table valid; one that falls raises it. The table of a bundle is the greatest of its
blocks at every corner.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined, kernel
from nearcast.indexes.trigger.thresholds.frame import BEND, BEYOND, HALF, REACH

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Triggers in a block. A list of no more has no blocks.
BLOCK = 32
#: Blocks in a bundle. A list of no more blocks has no bundles.
BUNDLE = 16
#: Triggers, or blocks, that are tried at once: one bit each.
GROUP = 32
#: Scores are held in multiples of this.
_UNIT = np.float32(1.0 / 32768.0)
_UNITS, _MOST_UNITS = 32768.0, 65535.0
#: A block that is looked at in vain is worth a new table when so many of its thresholds have risen.
STALE = 8
#: The same of a bundle whose blocks are tried in vain, by the tables of its blocks that were made anew.
STALE_BUNDLE = 4
#: Steps across a box.
_STEPS = 65535.0
#: A trigger fires if it misses by no more: far above what float32 loses.
TOLERANCE = np.float32(-8e-6)

#: The corners of the grid.
U_LEVELS = np.array([0.0, 0.08, 0.16, 0.3, 0.55, 1.0], np.float32)
AFTER_LEVELS = np.array([0.0, 0.2, 0.5, 1.0], np.float32)
NEAR_LEVELS = np.array([0.0, 0.8, 0.95, 1.0], np.float32)
_N_U, _N_AFTER, _N_NEAR = len(U_LEVELS), len(AFTER_LEVELS), len(NEAR_LEVELS)
CORNERS = _N_U * _N_AFTER * _N_NEAR

_U_OF, _AFTER_OF, _NEAR_OF = (
    np.ascontiguousarray(levels.ravel()) for levels in np.meshgrid(U_LEVELS, AFTER_LEVELS, NEAR_LEVELS, indexing="ij")
)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_BARELY_HALF = np.float32(0.51)
#: One of the bits of each of 32. Nothing in a loop over triggers is wider than 32 bits: as many fit one instruction.
BIT, _NO_BIT = np.uint32(1) << np.arange(GROUP, dtype=np.uint32), np.uint32(0)
#: Later words of a message are told apart if there are no more than so many.
_WORTH_TELLING = 64
_NEAR_1, _NEAR_2 = NEAR_LEVELS[1], NEAR_LEVELS[2]
_SPAN_1, _SPAN_2, _SPAN_3 = np.diff(NEAR_LEVELS)


class ThresholdEntries(NamedTuple):
    """Triggers, a column each, in few bits: what a message reads of them decides how long it takes.

    `text`, `rest` and `place` are rounded up to multiples of 1/32768, `threshold` down. `x`, `y` and `z` are rounded to
    one of 65536 steps across the box of the block, or across the frame in a list without blocks. `steep` says how fast
    nearness falls with the distance in the frame.
    """

    text: NDArray[np.uint16]
    rest: NDArray[np.uint16]
    place: NDArray[np.uint16]
    threshold: NDArray[np.uint16]
    x: NDArray[np.uint16]
    y: NDArray[np.uint16]
    z: NDArray[np.uint16]
    steep: NDArray[np.float32]
    signature: NDArray[np.uint32]
    row: NDArray[np.int32]


_ENTRY_TYPES = (*["u2"] * 7, "f4", "u4", "i4")


class ThresholdBlocks(NamedTuple):
    """Blocks of triggers: corner c of block b is `table[c · n + b]`, side s of its box `box[s · n + b]`.

    `steep` is the least of the block; `stale` counts the thresholds that have risen since the table was made. Bundles
    are held in the same way; theirs counts the tables of blocks that were made anew.
    """

    table: NDArray[np.float32]
    box: NDArray[np.float32]
    steep: NDArray[np.float32]
    stale: NDArray[np.uint8]


def new_entries(n: int) -> ThresholdEntries:
    """Make room for n triggers."""
    return ThresholdEntries(*(np.zeros(n, kind) for kind in _ENTRY_TYPES))


def new_blocks(n: int) -> ThresholdBlocks:
    """Make room for n blocks."""
    table, box = np.empty(CORNERS * n, np.float32), np.empty(6 * n, np.float32)
    return ThresholdBlocks(table, box, np.empty(n, np.float32), np.zeros(n, np.uint8))


@inlined
def rounded_up(share):
    """Return a share of a score as entries hold it, no less than it is."""
    return np.uint16(min(_MOST_UNITS, math.ceil(float(share) * _UNITS)))


@inlined
def threshold_as_entry(threshold):
    """Return a threshold as entries hold it, no more than it is; one of nearly 2 or more is reached by no message."""
    return np.uint16(math.floor(min(max(float(threshold), 0.0) * _UNITS, _MOST_UNITS)))


@inlined
def stepped(value, low, high):
    """Return the step between two sides of a box that is nearest to a value."""
    if high <= low:
        return np.uint16(0)
    return np.uint16(min(max(math.floor((value - low) / (high - low) * _STEPS + 0.5), 0.0), _STEPS))


@inlined
def box_of_block(blocks, block):
    """Return the low sides of the box of a block, and the size of a step on each axis."""
    n, box = blocks.steep.size, blocks.box
    x, y, z = box[block], box[2 * n + block], box[4 * n + block]
    return x, y, z, _step(x, box[n + block]), _step(y, box[3 * n + block]), _step(z, box[5 * n + block])


@inlined
def box_of_frame(frame):
    """Return the low sides of the box of a frame, and the size of a step on each axis."""
    x, y, z = np.float32(frame[HALF]), np.float32(frame[HALF + 1]), np.float32(frame[HALF + 2])
    return -x, -y, -z, _step(-x, x), _step(-y, y), _step(-z, z)


@inlined
def _step(low, high):
    return (high - low) / np.float32(_STEPS)


# Tables


@inlined
def _corner_value(entries, at, corner):
    text, rest, place = np.float32(entries.text[at]), np.float32(entries.rest[at]), np.float32(entries.place[at])
    reached = text * _U_OF[corner] + rest * _AFTER_OF[corner] + place * _NEAR_OF[corner]
    return (reached - np.float32(entries.threshold[at])) * _UNIT


@inlined
def fill_table(entries, blocks, block, first, last, most):
    """Make the table of a block, which is the triggers first to last; `most` is room for one table."""
    n = blocks.steep.size
    most[:] = np.float32(-4.0)
    for at in range(first, last):
        for corner in range(CORNERS):
            value = _corner_value(entries, at, corner)
            most[corner] = value if value > most[corner] else most[corner]
    for corner in range(CORNERS):
        blocks.table[corner * n + block] = most[corner]
    blocks.stale[block] = 0


@inlined
def raise_table(entries, blocks, block, at):
    """Raise the bounds of a block to at least those of one of its triggers."""
    n = blocks.steep.size
    for corner in range(CORNERS):
        value = _corner_value(entries, at, corner)
        if value > blocks.table[corner * n + block]:
            blocks.table[corner * n + block] = value


@inlined
def _cell(levels, value):
    """Return the cell of the grid that holds a value, and how far into it the value lies."""
    cell = 0
    while cell < levels.size - 2 and value > levels[cell + 1]:
        cell += 1
    return cell, (value - levels[cell]) / (levels[cell + 1] - levels[cell])


@inlined
def _near_of(squared, bend, bend_more, reach, steep):
    """Return a bound on the nearness at a squared straight distance."""
    away = math.sqrt(squared) * (_ONE + squared * (bend + bend_more * squared)) - reach
    away = away if away > _ZERO else _ZERO
    near = _ONE - away * steep
    return near if near > _ZERO else _ZERO


@inlined
def _outside(low, high, value):
    below, above = low - value, value - high
    gap = below if below > above else above
    return gap if gap > _ZERO else _ZERO


@inlined
def _at_near(table, c0, c1, c2, c3, f0, f1, f2, f3, at):
    """Interpolate between the four corners around (u, after), at one level of nearness."""
    return f0 * table[c0 + at] + f1 * table[c1 + at] + f2 * table[c2 + at] + f3 * table[c3 + at]


@inlined
def live_blocks(blocks, first, n_here, u, after, frame, view):
    """Return a bit for each of up to 32 blocks from `first` on: set where one of its triggers may fire.

    The table is convex along nearness, so the interpolation is the greatest of the lines through its neighbours.
    """
    n = np.uint64(blocks.steep.size)
    bend, bend_more = np.float32(frame[BEND]), np.float32(frame[BEND + 1])
    x, y, z = np.float32(view[0]), np.float32(view[1]), np.float32(view[2])
    beyond, reach = np.float32(view[BEYOND]), np.float32(view[REACH])
    i, fu = _cell(U_LEVELS, u)
    j, fa = _cell(AFTER_LEVELS, after)
    f0, f1, f2, f3 = (_ONE - fu) * (_ONE - fa), (_ONE - fu) * fa, fu * (_ONE - fa), fu * fa
    c0 = np.uint64((i * _N_AFTER + j) * _N_NEAR) * n
    c1 = c0 + np.uint64(_N_NEAR) * n
    c2 = c0 + np.uint64(_N_AFTER * _N_NEAR) * n
    c3 = c2 + np.uint64(_N_NEAR) * n
    two, three, four, five = np.uint64(2) * n, np.uint64(3) * n, np.uint64(4) * n, np.uint64(5) * n
    live = np.uint32(0)
    box, table = blocks.box, blocks.table
    for bit in range(np.uint64(n_here)):
        at = np.uint64(first) + bit
        dx = _outside(box[at], box[n + at], x)
        dy = _outside(box[two + at], box[three + at], y)
        dz = _outside(box[four + at], box[five + at], z)
        near = _near_of(dx * dx + dy * dy + dz * dz + beyond, bend, bend_more, reach, blocks.steep[at])
        v0 = _at_near(table, c0, c1, c2, c3, f0, f1, f2, f3, at)
        v1 = _at_near(table, c0, c1, c2, c3, f0, f1, f2, f3, n + at)
        v2 = _at_near(table, c0, c1, c2, c3, f0, f1, f2, f3, two + at)
        v3 = _at_near(table, c0, c1, c2, c3, f0, f1, f2, f3, three + at)
        most = v0 + (v1 - v0) * (near / _SPAN_1)
        line = v1 + (v2 - v1) * ((near - _NEAR_1) / _SPAN_2)
        most = line if line > most else most
        line = v2 + (v3 - v2) * ((near - _NEAR_2) / _SPAN_3)
        most = line if line > most else most
        live = np.uint32(live | (BIT[bit] if most >= TOLERANCE else _NO_BIT))
    return np.int64(live)


@inlined
def fill_later(entries, first, n_here, words, begin, end, bits, after, later):
    """Write the squared length of those words of a message from `begin` to `end` that each trigger may have.

    Where there are so many that hardly any would be told from the others, they are taken together: `bits` and `after`.
    """
    for i in range(np.uint64(n_here)):
        later[i] = _ZERO
    if end - begin > _WORTH_TELLING:
        _add_later(entries, first, n_here, bits, after, later)
    else:
        for word in range(begin, end):
            _add_later(entries, first, n_here, words.bit[word], words.u[word], later)


@inlined
def _add_later(entries, first, n_here, bits, length, later):
    square = length * length
    for i in range(np.uint64(n_here)):
        later[i] += square if entries.signature[np.uint64(first) + i] & bits else _ZERO


@inlined
def live_entries(entries, first, n_here, u, later, bits, is_lenient, frame, view, box):
    """Return a bit for each of up to 32 triggers from `first` on: set where it may fire.

    `later` is what `fill_later` says. Unless lenient, a trigger must share one of the words with the signature `bits`.
    `box` is what `box_of_block` or `box_of_frame` says; a place is off by no more than half a step on each axis.
    """
    low_x, low_y, low_z, step_x, step_y, step_z = box
    x, y, z = low_x - np.float32(view[0]), low_y - np.float32(view[1]), low_z - np.float32(view[2])
    reach = np.float32(view[REACH]) + _BARELY_HALF * (step_x + step_y + step_z)
    bend, bend_more, beyond = np.float32(frame[BEND]), np.float32(frame[BEND + 1]), np.float32(view[BEYOND])
    live = np.uint32(0)
    for i in range(np.uint64(n_here)):
        at = np.uint64(first) + i
        dx = np.float32(entries.x[at]) * step_x + x
        dy = np.float32(entries.y[at]) * step_y + y
        dz = np.float32(entries.z[at]) * step_z + z
        near = _near_of(dx * dx + dy * dy + dz * dz + beyond, bend, bend_more, reach, entries.steep[at])
        after = math.sqrt(later[i])
        after = after if after < _ONE else _ONE
        reached = np.float32(entries.text[at]) * u + np.float32(entries.rest[at]) * after
        reached += np.float32(entries.place[at]) * near
        fires = (reached - np.float32(entries.threshold[at])) * _UNIT >= TOLERANCE
        fires &= is_lenient | ((entries.signature[at] & bits) != 0)
        live = np.uint32(live | (BIT[i] if fires else _NO_BIT))
    return np.int64(live)


_BRUIJN = 0x077CB531
_BIT_OF = np.zeros(32, np.int64)
for _bit in range(32):
    _BIT_OF[((_BRUIJN << _bit) & 0xFFFFFFFF) >> 27] = _bit


@inlined
def lowest_bit(live):
    """Return the number of the lowest bit that is set, by a de Bruijn sequence."""
    return _BIT_OF[(((live & -live) * _BRUIJN) & 0xFFFFFFFF) >> 27]


@inlined
def fill_bundle(blocks, bundles, bundle, first, last):
    """Make the table of a bundle, which is the blocks first to last."""
    n, n_blocks = bundles.steep.size, blocks.steep.size
    for corner in range(CORNERS):
        most = blocks.table[corner * n_blocks + first]
        for block in range(first + 1, last):
            value = blocks.table[corner * n_blocks + block]
            most = value if value > most else most
        bundles.table[corner * n + bundle] = most
    bundles.stale[bundle] = 0


@kernel
def fill_bundles(blocks, bundles, first_block, first_bundle):
    """Make boxes, least steepness and tables of all bundles; those of list l begin at `first_bundle[l]`."""
    n, n_blocks = bundles.steep.size, blocks.steep.size
    for number in range(first_block.size - 1):
        for bundle in range(first_bundle[number], first_bundle[number + 1]):
            first = first_block[number] + BUNDLE * (bundle - first_bundle[number])
            last = min(first + BUNDLE, first_block[number + 1])
            for axis in range(3):
                low, high = 2 * axis, 2 * axis + 1
                bundles.box[low * n + bundle] = blocks.box[low * n_blocks + first : low * n_blocks + last].min()
                bundles.box[high * n + bundle] = blocks.box[high * n_blocks + first : high * n_blocks + last].max()
            bundles.steep[bundle] = blocks.steep[first:last].min()
            fill_bundle(blocks, bundles, bundle, first, last)


@hot_kernel
def fill_blocks(entries, blocks, start, first_block, most):
    """Make the tables of all blocks; list l is the triggers from `start[l]`, its blocks from `first_block[l]`."""
    for number in range(start.size - 1):
        for block in range(first_block[number], first_block[number + 1]):
            first = start[number] + BLOCK * (block - first_block[number])
            last = min(first + BLOCK, start[number + 1])
            fill_table(entries, blocks, block, first, last, most)
