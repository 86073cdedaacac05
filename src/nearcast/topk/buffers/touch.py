"""Collects the holders that a step of a walk changes, and asks for their numbers and entries ahead of the changes.

Buffers lie all over the memory, and reading one would wait for it. While one is changed, the memory of those that come
next is on its way.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined, prefetch
from nearcast.topk.buffers.entries import row_at
from nearcast.topk.buffers.holders import is_kept
from nearcast.topk.buffers.pool import entries_at, fetch_slab, longer_class, room_left, words_of
from nearcast.topk.buffers.walk_state import (
    DONE,
    IN_LIST,
    LIST,
    MORE_OLD,
    MORE_SLABS,
    MORE_TOUCHED,
    N_EXPIRING,
    N_FETCHED,
    N_OLD,
    N_TOUCHED,
    NEEDED,
    STEP,
)

#: For how many arrivals ahead the numbers of holders are asked for, and for how many changes ahead the entries.
_NUMBERS_AHEAD, _ENTRIES_AHEAD = 16, 3


@inlined
def touch(holders, slabs, rows, steps, progress):
    """Note all holders that this step changes, before anything changes; return DONE, or what there is too little of."""
    at = progress.at
    step_ = at[STEP]
    n_expiring = _collect(holders, rows, steps, progress)
    if at[N_TOUCHED] > progress.touched.size:
        at[NEEDED] = at[N_TOUCHED]
        return MORE_TOUCHED
    for t in range(n_expiring):
        holders.record[progress.touched[t]]["nth"] = t
    at[N_EXPIRING] = at[N_TOUCHED] = n_expiring
    words, last = 0, steps.start[step_ + 1]
    for c in range(steps.start[step_], last):
        if c + _NUMBERS_AHEAD < last:
            prefetch(holders.record, steps.holder[c + _NUMBERS_AHEAD])
        words += _touch_one(holders, slabs, rows, progress, steps.holder[c], steps.score[c], steps.row[step_])
    if words > room_left(slabs):
        at[NEEDED] = words
        return MORE_SLABS
    # Of several messages that expire in one step any number may leave a top-k.
    has_several = steps.expired_start[step_ + 1] - steps.expired_start[step_] > 1
    at[NEEDED] = _old_entries(holders, slabs, progress, has_several)
    if at[NEEDED] > progress.old_row.size:
        return MORE_OLD
    _begin(holders, slabs, rows, progress, steps.number[step_], has_several)
    _begin_fetching(holders, slabs, steps, progress)
    return DONE


@inlined
def _begin_fetching(holders, slabs, steps, progress):
    """Ask for the entries of the first that change, and be ready to follow the lists of the next step."""
    at = progress.at
    at[N_FETCHED], at[IN_LIST] = 0, -1
    at[LIST] = steps.expired_start[at[STEP] + 1]
    for _ in range(_ENTRIES_AHEAD):
        _fetch_entries(holders, slabs, progress)


@inlined
def fetch_next(holders, slabs, rows, steps, progress):
    """Ask for what is needed a little later; to be called at every change."""
    _fetch_entries(holders, slabs, progress)
    _follow_lists(holders, rows, steps, progress)


@inlined
def _fetch_entries(holders, slabs, progress):
    """Ask for the entries of the next of the touched, and for its link if it will be in another list."""
    t = progress.at[N_FETCHED]
    if t == progress.at[N_TOUCHED]:
        return
    holder = progress.touched[t]
    own = holders.record[holder]
    fetch_slab(slabs, own["slab"], own["size_class"])
    if t < progress.at[N_EXPIRING]:
        prefetch(holders.previous, holder)
    progress.at[N_FETCHED] = t + 1


@inlined
def _follow_lists(holders, rows, steps, progress):
    """Go one holder further in the lists of what expires in the next step, and ask for its numbers.

    Where the next of a list is says only the one before. Lists change meanwhile: what is followed may have left its
    list, and then leads elsewhere, or to an end.
    """
    at = progress.at
    holder = at[IN_LIST]
    if holder >= 0:
        holder = np.int64(holders.record[holder]["next"])
    if holder < 0 and at[LIST] < steps.expired_start[min(at[STEP] + 2, steps.row.size)]:
        holder = np.int64(rows.head[steps.expired[at[LIST]] & rows.mask])
        at[LIST] += 1
    if holder >= 0:
        prefetch(holders.record, holder)
    at[IN_LIST] = holder


@inlined
def _collect(holders, rows, steps, progress):
    """Write who has a message that expires, as far as there is room; return how many, and note how many may change."""
    step_ = progress.at[STEP]
    touched, n = progress.touched, 0
    for e in range(steps.expired_start[step_], steps.expired_start[step_ + 1]):
        holder = rows.head[steps.expired[e] & rows.mask]
        while holder >= 0:
            if n < touched.size:
                touched[n] = holder
            n += 1
            holder = holders.record[holder]["next"]
    progress.at[N_TOUCHED] = n + steps.start[step_ + 1] - steps.start[step_]
    return n


@inlined
def is_touched(holders, progress, holder):
    """Tell whether a holder is among those of the step; its `nth` may be that of an earlier one."""
    own = holders.record[holder]
    nth = own["nth"]
    return nth < progress.at[N_TOUCHED] and progress.touched[nth] == holder


@inlined
def _touch_one(holders, slabs, rows, progress, holder, score, row):
    """Note a holder that wants what arrives; return how many words of a longer slab it may need."""
    own = holders.record[holder]
    if holder < 0 or own["slab"] < 0 or not is_kept(holders, holder, rows, score, row):
        return 0
    if not is_touched(holders, progress, holder):
        n = progress.at[N_TOUCHED]
        progress.touched[n] = holder
        own["nth"] = n
        progress.at[N_TOUCHED] = n + 1
    if own["size"] < slabs.sizes[own["size_class"]]:
        return 0
    return words_of(slabs, longer_class(slabs, own["size_class"], own["target"]))


@inlined
def _is_old_needed(holders, holder, has_several):
    """Tell whether more than one message may leave or enter a top-k: also if it may become too short for certainty."""
    own = holders.record[holder]
    return has_several or (own["size"] <= own["k"] and own["is_whole"] == 0)


@inlined
def _old_entries(holders, slabs, progress, has_several):
    """Return how many entries are to be copied, and ask for them."""
    n_old = 0
    for t in range(progress.at[N_TOUCHED]):
        holder = progress.touched[t]
        own = holders.record[holder]
        if _is_old_needed(holders, holder, has_several):
            fetch_slab(slabs, own["slab"], own["size_class"])
            n_old += min(own["size"], own["k"])
    return n_old


@inlined
def _begin(holders, slabs, rows, progress, number, has_several):
    """Mark all touched with the number of the step, and copy the first k of those that need it."""
    at = progress.at
    at[N_OLD] = 0
    for t in range(at[N_TOUCHED]):
        holder = progress.touched[t]
        own = holders.record[holder]
        own["step"] = number
        progress.left_rank[t], progress.entered_rank[t] = 0, 0
        progress.old_start[t] = at[N_OLD]
        if _is_old_needed(holders, holder, has_several):
            entries = entries_at(slabs, own["slab"], own["size_class"])
            for i in range(min(own["size"], own["k"])):
                progress.old_score[at[N_OLD]] = entries.score[i]
                progress.old_row[at[N_OLD]] = row_at(rows, entries, i)
                at[N_OLD] += 1
    progress.old_start[at[N_TOUCHED]] = at[N_OLD]
