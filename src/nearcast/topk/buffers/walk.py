"""Takes all buffers through the steps of a batch: expired messages leave, new ones enter, changes become events."""

from __future__ import annotations

from nearcast._jit import hot_kernel, inlined
from nearcast.topk.buffers.entries import (
    copy,
    dominate,
    dominators_before,
    drop_at,
    drop_dominated,
    find_row,
    open_gap,
    position_in,
    row_at,
    write,
)
from nearcast.topk.buffers.holders import KMAX, is_kept, link_if_older, link_to_oldest, take_list, unlink
from nearcast.topk.buffers.pool import (
    entries_at,
    give_slab,
    longer_class,
    room_left,
    shorter_class,
    take_slab,
    words_of,
)
from nearcast.topk.buffers.tell import most_events, tell
from nearcast.topk.buffers.touch import fetch_next, touch
from nearcast.topk.buffers.walk_state import (
    DONE,
    MORE_EVENTS,
    N_EVENTS,
    N_EXPIRING,
    N_SHORT,
    N_TOUCHED,
    N_UNTOLD,
    NEEDED,
    PHASE,
    SEARCH,
    STEP,
)

_BEGIN, _TELL = 0, 1


@hot_kernel
def walk(holders, slabs, rows, steps, progress, policy, ratio):
    """Take all buffers through the steps from where they stand; return why it stopped.

    A holder whose buffer becomes too short is set aside, without a slab: for it the walk ends before that step. After
    SEARCH, which comes at the end, those are to be filled anew and taken through the rest of the steps. After MORE_...
    there is to be more room, `at[NEEDED]` at least. Calling again goes on.
    """
    at = progress.at
    while at[STEP] < steps.row.size:
        if at[PHASE] == _BEGIN:
            lacks = touch(holders, slabs, rows, steps, progress)
            if lacks != DONE:
                return lacks
            _expire(holders, slabs, rows, steps, progress)
            _arrive(holders, slabs, rows, steps, progress, policy, ratio)
            _set_aside_short(holders, slabs, rows, progress)
            at[PHASE] = _TELL
        at[NEEDED] = at[N_EVENTS] + most_events(holders, progress)
        if at[NEEDED] > progress.event_row.size:
            return MORE_EVENTS
        tell(holders, slabs, rows, steps, progress)
        _fit(holders, slabs, progress)
        at[PHASE] = _BEGIN
        at[STEP] += 1
    return SEARCH if at[N_SHORT] > 0 else DONE


@inlined
def _expire(holders, slabs, rows, steps, progress):
    """Take what expires out of every buffer whose oldest message it is."""
    step_ = progress.at[STEP]
    for e in range(steps.expired_start[step_], steps.expired_start[step_ + 1]):
        row = steps.expired[e]
        holder = take_list(rows, row)
        while holder >= 0:
            fetch_next(holders, slabs, rows, steps, progress)
            after = holders.record[holder]["next"]
            _leave(holders, slabs, progress, holder, row)
            link_to_oldest(holders, holder, rows, slabs)
            holder = after


@inlined
def _leave(holders, slabs, progress, holder, row):
    """Take a message out of a buffer, if it is still there."""
    own = holders.record[holder]
    entries = entries_at(slabs, own["slab"], own["size_class"])
    size = own["size"]
    position = find_row(entries, size, row)
    if position == size:
        return
    if position < own["k"]:
        nth = own["nth"]
        progress.left_row[nth], progress.left_score[nth] = row, entries.score[position]
        progress.left_rank[nth] = position + 1
    own["size"] = drop_at(entries, size, position)


@inlined
def _arrive(holders, slabs, rows, steps, progress, policy, ratio):
    """Put what arrives into the buffers it belongs to."""
    step_ = progress.at[STEP]
    row = steps.row[step_]
    for c in range(steps.start[step_], steps.start[step_ + 1]):
        if steps.holder[c] >= 0:
            fetch_next(holders, slabs, rows, steps, progress)
            _enter(holders, slabs, rows, progress, steps.holder[c], steps.score[c], row, policy, ratio)


@inlined
def _enter(holders, slabs, rows, progress, holder, score, row, policy, ratio):
    own = holders.record[holder]
    if own["slab"] < 0 or not is_kept(holders, holder, rows, score, row):
        return
    size, k = own["size"], own["k"]
    if size == slabs.sizes[own["size_class"]]:
        _move(holders, slabs, holder, longer_class(slabs, own["size_class"], own["target"]))
    entries = entries_at(slabs, own["slab"], own["size_class"])
    position = position_in(rows, entries, size, score, row)
    dominators, dropped = 0, size
    if policy != KMAX:
        # By arrival nothing is newer than what arrives; by time it may come late.
        dominators = dominators_before(rows, entries, position, row) if rows.by_time else 0
        if dominators >= k:
            return
    if position < k:
        _note_entered(holders, rows, progress, entries, holder, size, position, score)
    if policy != KMAX:
        dropped = dominate(rows, entries, position, size, row, k)
    open_gap(entries, position, dropped)
    write(entries, position, score, row, dominators)
    if dropped < size:
        own["size"] = drop_dominated(entries, dropped + 1, size, k)
    else:
        own["size"] = size + 1
    link_if_older(holders, holder, rows, row)
    _cut(holders, rows, entries, progress, holder, ratio)


@inlined
def _note_entered(holders, rows, progress, entries, holder, size, position, score):
    """Note a message that is about to enter the first k, and the one it pushes out, unless one has left before."""
    own = holders.record[holder]
    nth, k = own["nth"], own["k"]
    progress.entered_score[nth], progress.entered_rank[nth] = score, position + 1
    if progress.left_rank[nth] == 0 and size >= k:
        progress.left_row[nth], progress.left_score[nth] = row_at(rows, entries, k - 1), entries.score[k - 1]
        progress.left_rank[nth] = k


@inlined
def _move(holders, slabs, holder, new_class):
    """Move a buffer to a slab of another size class."""
    own = holders.record[holder]
    old, old_class, size = own["slab"], own["size_class"], own["size"]
    new = take_slab(slabs, new_class)
    source, target = entries_at(slabs, old, old_class), entries_at(slabs, new, new_class)
    for i in range(size):
        copy(target, i, source, i)
    give_slab(slabs, old, old_class)
    own["slab"], own["size_class"] = new, new_class


@inlined
def _fit(holders, slabs, progress):
    """Move buffers that have become short to shorter slabs, as far as there is room."""
    for t in range(progress.at[N_TOUCHED]):
        holder = progress.touched[t]
        own = holders.record[holder]
        if own["slab"] < 0:
            continue  # set aside
        size_class = own["size_class"]
        shorter = shorter_class(slabs, size_class, own["size"], own["target"])
        if shorter < size_class and (slabs.free[shorter] >= 0 or words_of(slabs, shorter) <= room_left(slabs)):
            _move(holders, slabs, holder, shorter)


@inlined
def _cut(holders, rows, entries, progress, holder, ratio):
    """Shorten a buffer that is longer than its policy wants, and move its bound to what is cut off."""
    own = holders.record[holder]
    size, k = own["size"], own["k"]
    if size <= own["limit"]:
        return
    kept = own["target"]
    if ratio > 0.0:
        least = ratio * entries.score[k - 1]
        kept = k
        while kept < size and entries.score[kept] >= least:
            kept += 1
        if kept == size:
            return
    bound = row_at(rows, entries, kept)
    own["theta"] = entries.score[kept]
    holders.bound_row[holder] = bound
    holders.bound_time[holder] = rows.time[bound & rows.mask]
    own["is_whole"] = 0
    own["size"] = kept
    _note_untold(holders, progress, holder)


@inlined
def _note_untold(holders, progress, holder):
    """Note that the threshold of a holder is, or will be, another than the index knows."""
    own = holders.record[holder]
    if own["is_untold"] == 0:
        own["is_untold"] = 1
        progress.untold[progress.at[N_UNTOLD]] = holder
        progress.at[N_UNTOLD] += 1


@inlined
def is_short(holders, holder):
    """Tell whether a buffer is too short to hold the top-k for certain."""
    own = holders.record[holder]
    return own["size"] < own["k"] and own["is_whole"] == 0


@inlined
def _set_aside_short(holders, slabs, rows, progress):
    """Take the slabs of those whose buffers have become too short: no later step of the walk then concerns them.

    What arrives makes none short: the first k are dominated by fewer than k.
    """
    for t in range(progress.at[N_EXPIRING]):
        holder = progress.touched[t]
        own = holders.record[holder]
        if is_short(holders, holder):
            unlink(holders, holder, rows)
            give_slab(slabs, own["slab"], own["size_class"])
            own["slab"], own["size"] = -1, 0
            _note_untold(holders, progress, holder)
            progress.at[N_SHORT] += 1
