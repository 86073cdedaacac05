"""Makes buffers from what a search of the window found."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.columns import NO_TIME
from nearcast.topk.buffers.entries import is_newer, write
from nearcast.topk.buffers.holders import CSKYBAND, KMAX, relink, unlink
from nearcast.topk.buffers.pool import class_for, entries_at, give_slab, room_left, take_slab, words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: How many entries more than its target a buffer may have at least.
AROUND = 3
#: No message is at or beyond this bound.
NO_BOUND = -1


class BufferFill(NamedTuple):
    """What a search found for holders: the rows from `start` on, in rank order, and what lies beyond them.

    What ranks before the bound, `theta` and `bound_row`, has been found, and there may be others behind; without a row,
    NO_BOUND, all from this score on. Where it `is_whole`, there are no others. `dominators` is scratch, by what was
    found.
    """

    holder: NDArray[np.int32]
    start: NDArray[np.int64]
    row: NDArray[np.int64]
    score: NDArray[np.float64]
    is_whole: NDArray[np.uint8]
    theta: NDArray[np.float64]
    bound_row: NDArray[np.int64]
    limit: NDArray[np.int32]
    target: NDArray[np.int32]
    dominators: NDArray[np.int64]


@hot_kernel
def fill(holders, slabs, rows, filling, first, policy):
    """Make the buffers of `filling` from number `first` on; return the number of the first without room, or all."""
    for i in range(first, filling.holder.size):
        holder = filling.holder[i]
        kept = _mark_kept(rows, filling, i, holders.k[holder], policy)
        size_class = class_for(slabs, _room_for(filling, i, kept, policy))
        if words_of(slabs, size_class) > room_left(slabs):
            return i
        unlink(holders, holder, rows)
        if holders.slab[holder] < 0 or holders.size_class[holder] != size_class:
            if holders.slab[holder] >= 0:
                give_slab(slabs, holders.slab[holder], holders.size_class[holder])
            holders.slab[holder] = take_slab(slabs, size_class)
            holders.size_class[holder] = size_class
        holders.limit[holder], holders.target[holder] = _limit(slabs, filling, i, policy), filling.target[i]
        _set_bound(holders, rows, filling, i, holder)
        _write(holders, slabs, filling, i, holder)
        relink(holders, holder, rows, slabs)
    return filling.holder.size


@inlined
def _room_for(filling, i, kept, policy):
    """Return how many entries a buffer needs room for: as it is, or around its target if there is more to come."""
    if policy == CSKYBAND and filling.bound_row[i] != NO_BOUND:
        return max(kept + 1, filling.target[i] + AROUND)
    return max(kept + 1, 4)


@inlined
def _limit(slabs, filling, i, policy):
    """Return from which length on a buffer is cut: before it outgrows the slab that suits its target.

    Where buffers that come and go around their target moved to longer slabs, each left one behind that few others could
    use. To cut earlier costs some searches more, and saves arrivals that would not have come to matter.
    """
    if policy != CSKYBAND:
        return filling.limit[i]
    return min(filling.limit[i], slabs.sizes[class_for(slabs, filling.target[i] + AROUND)] - 1)


@inlined
def _set_bound(holders, rows, filling, i, holder):
    bound = filling.bound_row[i]
    holders.is_whole[holder], holders.theta[holder] = filling.is_whole[i], filling.theta[i]
    holders.bound_row[holder] = bound
    holders.bound_time[holder] = rows.time[bound & rows.mask] if bound != NO_BOUND else NO_TIME


@inlined
def _mark_kept(rows, filling, i, k, policy):
    """Count the dominators of what was found, up to k, in `filling.dominators`; return how many have fewer than k.

    Only what is kept itself counts as a dominator: whoever k kept ones dominate is dominated by no fewer.
    """
    first, kept = filling.start[i], 0
    for f in range(first, filling.start[i + 1]):
        dominators = 0
        if policy != KMAX:
            for other in range(first, f):
                if filling.dominators[other] < k and is_newer(rows, filling.row[other], filling.row[f]):
                    dominators += 1
                    if dominators == k:
                        break
        filling.dominators[f] = dominators
        kept += dominators < k
    return kept


@inlined
def _write(holders, slabs, filling, i, holder):
    """Write the entries, without those that k before them dominate."""
    entries = entries_at(slabs, holders.slab[holder], holders.size_class[holder])
    size = 0
    for f in range(filling.start[i], filling.start[i + 1]):
        if filling.dominators[f] < holders.k[holder]:
            write(entries, size, filling.score[f], filling.row[f], filling.dominators[f])
            size += 1
    holders.size[holder] = size


@hot_kernel
def release(holders, slabs, rows, which):
    """Give back the slabs of holders and clear their numbers."""
    for i in range(which.size):
        holder = which[i]
        unlink(holders, holder, rows)
        if holders.slab[holder] >= 0:
            give_slab(slabs, holders.slab[holder], holders.size_class[holder])
        holders.slab[holder], holders.size[holder], holders.slot[holder] = -1, 0, -1
        holders.k[holder], holders.step[holder] = 0, -1
