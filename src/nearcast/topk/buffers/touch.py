"""Collects the holders that a step of a walk changes, and fetches their numbers and entries ahead of the changes.

Buffers lie all over the memory, and reading one waits for it. To read those of a step one after the other, with nothing
to do in between, lets the processor wait for many at a time.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined
from nearcast.topk.buffers.entries import row_at
from nearcast.topk.buffers.holders import is_kept
from nearcast.topk.buffers.pool import entries_at, fetched, longer_class, room_left, words_of
from nearcast.topk.buffers.walk_state import (
    DONE,
    FETCHED,
    MORE_OLD,
    MORE_SLABS,
    MORE_TOUCHED,
    N_OLD,
    N_TOUCHED,
    NEEDED,
    STEP,
)

#: Steps whose lists of expiring messages are gone through side by side.
_AHEAD = 4


@inlined
def touch(holders, slabs, rows, steps, progress):
    """Note all holders that this step changes, before anything changes; return DONE, or what there is too little of."""
    at = progress.at
    step_ = at[STEP]
    if step_ % _AHEAD == 0:
        _fetch_lists(holders, rows, steps, progress)
    n_expiring = _collect(holders, rows, steps, progress)
    if at[N_TOUCHED] > progress.touched.size:
        at[NEEDED] = at[N_TOUCHED]
        return MORE_TOUCHED
    _fetch_numbers(holders, progress)
    for t in range(n_expiring):
        holders.record[progress.touched[t]]["nth"] = t
    at[N_TOUCHED], words = n_expiring, 0
    for c in range(steps.start[step_], steps.start[step_ + 1]):
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
    return DONE


@inlined
def _fetch_lists(holders, rows, steps, progress):
    """Go through the lists of the messages that expire in this step and the next few, some of them side by side.

    Where the next of a list is says only the one before. In several lists the processor waits for several at a time.
    """
    step_, some = progress.at[STEP], np.int64(0)
    last = steps.expired_start[min(step_ + _AHEAD, steps.row.size)]
    for e in range(steps.expired_start[step_], last, _AHEAD):
        a = rows.head[steps.expired[e] & rows.mask]
        b = rows.head[steps.expired[e + 1] & rows.mask] if e + 1 < last else np.int32(-1)
        c = rows.head[steps.expired[e + 2] & rows.mask] if e + 2 < last else np.int32(-1)
        d = rows.head[steps.expired[e + 3] & rows.mask] if e + 3 < last else np.int32(-1)
        while a >= 0 or b >= 0 or c >= 0 or d >= 0:
            a = holders.record[a]["next"] if a >= 0 else a
            b = holders.record[b]["next"] if b >= 0 else b
            c = holders.record[c]["next"] if c >= 0 else c
            d = holders.record[d]["next"] if d >= 0 else d
            some += 1
    progress.at[FETCHED] ^= some


@inlined
def _collect(holders, rows, steps, progress):
    """Write whom the step may concern, as far as there is room; return how many have a message that expires."""
    step_ = progress.at[STEP]
    touched, n = progress.touched, 0
    for e in range(steps.expired_start[step_], steps.expired_start[step_ + 1]):
        holder = rows.head[steps.expired[e] & rows.mask]
        while holder >= 0:
            if n < touched.size:
                touched[n] = holder
            n += 1
            holder = holders.record[holder]["next"]
    n_expiring = n
    for c in range(steps.start[step_], steps.start[step_ + 1]):
        if steps.holder[c] >= 0:
            if n < touched.size:
                touched[n] = steps.holder[c]
            n += 1
    progress.at[N_TOUCHED] = n
    return n_expiring


@inlined
def _fetch_numbers(holders, progress):
    some = np.int64(0)
    for t in range(progress.at[N_TOUCHED]):
        holder = progress.touched[t]
        some ^= holders.record[holder]["slab"]
    progress.at[FETCHED] ^= some


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
    """Fetch the entries of all touched; return how many are to be copied."""
    some, n_old = np.int64(0), 0
    for t in range(progress.at[N_TOUCHED]):
        holder = progress.touched[t]
        own = holders.record[holder]
        some ^= fetched(slabs, own["slab"], own["size_class"])
        if _is_old_needed(holders, holder, has_several):
            n_old += min(own["size"], own["k"])
    progress.at[FETCHED] ^= some
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
