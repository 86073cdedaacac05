"""Making a buffer from what a search of the window found."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, step
from nearcast.columns import NO_TIME
from nearcast.skyband.entries import DOMINATOR_BITS, dominators_before, put
from nearcast.skyband.holders import KMAX, relink, unlink
from nearcast.skyband.pool import array_of, class_for, give_slab, place_of, room_left, take_slab

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: No message is at or beyond this bound.
NO_BOUND = -1


class Filling(NamedTuple):
    """What a search found for holders: the rows from `start` on, in rank order, and what lies beyond them.

    `asked` is how many messages were looked for: so many found, there may be more, else not. Where `asked` is negative
    all messages from score `least` on were looked for, and there may be others.
    """

    holder: NDArray[np.int32]
    start: NDArray[np.int64]
    row: NDArray[np.int64]
    score: NDArray[np.float64]
    asked: NDArray[np.int32]
    least: NDArray[np.float64]
    limit: NDArray[np.int32]
    target: NDArray[np.int32]


@hot_kernel
def fill(holders, slabs, rows, filling, first, policy):
    """Make the buffers of `filling` from number `first` on; return the number of the first without room, or all."""
    for i in range(first, filling.holder.size):
        holder = filling.holder[i]
        found = filling.start[i + 1] - filling.start[i]
        size_class = class_for(slabs, max(found + 1, 4))
        if slabs.sizes[size_class] > room_left(slabs):
            return i
        unlink(holders, holder, rows)
        if holders.slab[holder] < 0 or holders.size_class[holder] != size_class:
            if holders.slab[holder] >= 0:
                give_slab(slabs, holders.slab[holder], holders.size_class[holder])
            holders.slab[holder] = take_slab(slabs, size_class)
            holders.size_class[holder] = size_class
        holders.limit[holder], holders.target[holder] = filling.limit[i], filling.target[i]
        _set_bound(holders, rows, filling, i, holder, found)
        _write(holders, slabs, rows, filling, i, holder, policy)
        relink(holders, holder, rows, slabs)
    return filling.holder.size


@step
def _set_bound(holders, rows, filling, i, holder, found):
    asked = filling.asked[i]
    holders.bound_row[holder], holders.bound_time[holder] = NO_BOUND, NO_TIME
    if asked >= 0 and found < asked:
        holders.is_whole[holder], holders.theta[holder] = 1, 0.0
        return
    holders.is_whole[holder] = 0
    if asked < 0:
        holders.theta[holder] = filling.least[i]
        return
    last = filling.start[i + 1] - 1
    holders.theta[holder] = filling.score[last]
    holders.bound_row[holder] = filling.row[last]
    holders.bound_time[holder] = rows.time[filling.row[last] & rows.mask]


@step
def _write(holders, slabs, rows, filling, i, holder, policy):
    """Write the entries, without those that k before them dominate."""
    slab = holders.slab[holder]
    score, tag, first = slabs.score[array_of(slab)], slabs.tag[array_of(slab)], place_of(slab)
    size = 0
    for f in range(filling.start[i], filling.start[i + 1]):
        row, dominators = filling.row[f], 0
        if policy != KMAX:
            dominators = dominators_before(rows, tag, first, size, row)
        if dominators < holders.k[holder]:
            size = put(score, tag, first, size, size, filling.score[f], (row << DOMINATOR_BITS) | dominators)
    holders.size[holder] = size


@hot_kernel
def release(holders, slabs, rows, which):
    """Let holders hold nothing for nobody."""
    for i in range(which.size):
        holder = which[i]
        unlink(holders, holder, rows)
        if holders.slab[holder] >= 0:
            give_slab(slabs, holders.slab[holder], holders.size_class[holder])
        holders.slab[holder], holders.size[holder], holders.slot[holder] = -1, 0, -1
        holders.k[holder], holders.step[holder] = 0, -1


@hot_kernel
def copy_top(holders, slabs, holder, row, score):
    """Copy the first k of a buffer; return how many there are."""
    slab = holders.slab[holder]
    if slab < 0:
        return 0
    held_score, tag, first = slabs.score[array_of(slab)], slabs.tag[array_of(slab)], place_of(slab)
    n = min(holders.size[holder], holders.k[holder])
    for i in range(n):
        row[i], score[i] = tag[first + i] >> DOMINATOR_BITS, held_score[first + i]
    return n
