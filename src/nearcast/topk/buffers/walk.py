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
from nearcast.topk.buffers.touch import touch
from nearcast.topk.buffers.walk_state import (
    DONE,
    MORE_EVENTS,
    N_EVENTS,
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
            after = holders.next[holder]
            _leave(holders, slabs, progress, holder, row)
            link_to_oldest(holders, holder, rows, slabs)
            holder = after


@inlined
def _leave(holders, slabs, progress, holder, row):
    """Take a message out of a buffer, if it is still there."""
    entries = entries_at(slabs, holders.slab[holder], holders.size_class[holder])
    size = holders.size[holder]
    position = find_row(entries, size, row)
    if position == size:
        return
    if position < holders.k[holder]:
        nth = holders.nth[holder]
        progress.left_row[nth], progress.left_score[nth] = row, entries.score[position]
        progress.left_rank[nth] = position + 1
    holders.size[holder] = drop_at(entries, size, position)


@inlined
def _arrive(holders, slabs, rows, steps, progress, policy, ratio):
    """Put what arrives into the buffers it belongs to."""
    step_ = progress.at[STEP]
    row = steps.row[step_]
    for c in range(steps.start[step_], steps.start[step_ + 1]):
        if steps.holder[c] >= 0:
            _enter(holders, slabs, rows, progress, steps.holder[c], steps.score[c], row, policy, ratio)


@inlined
def _enter(holders, slabs, rows, progress, holder, score, row, policy, ratio):
    if holders.slab[holder] < 0 or not is_kept(holders, holder, rows, score, row):
        return
    size, k = holders.size[holder], holders.k[holder]
    if size == slabs.sizes[holders.size_class[holder]]:
        _move(holders, slabs, holder, longer_class(slabs, holders.size_class[holder], holders.target[holder]))
    entries = entries_at(slabs, holders.slab[holder], holders.size_class[holder])
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
        holders.size[holder] = drop_dominated(entries, dropped + 1, size, k)
    else:
        holders.size[holder] = size + 1
    link_if_older(holders, holder, rows, row)
    _cut(holders, rows, entries, progress, holder, ratio)


@inlined
def _note_entered(holders, rows, progress, entries, holder, size, position, score):
    """Note a message that is about to enter the first k, and the one it pushes out, unless one has left before."""
    nth, k = holders.nth[holder], holders.k[holder]
    progress.entered_score[nth], progress.entered_rank[nth] = score, position + 1
    if progress.left_rank[nth] == 0 and size >= k:
        progress.left_row[nth], progress.left_score[nth] = row_at(rows, entries, k - 1), entries.score[k - 1]
        progress.left_rank[nth] = k


@inlined
def _move(holders, slabs, holder, new_class):
    """Move a buffer to a slab of another size class."""
    old, old_class, size = holders.slab[holder], holders.size_class[holder], holders.size[holder]
    new = take_slab(slabs, new_class)
    source, target = entries_at(slabs, old, old_class), entries_at(slabs, new, new_class)
    for i in range(size):
        copy(target, i, source, i)
    give_slab(slabs, old, old_class)
    holders.slab[holder], holders.size_class[holder] = new, new_class


@inlined
def _fit(holders, slabs, progress):
    """Move buffers that have become short to shorter slabs, as far as there is room."""
    for t in range(progress.at[N_TOUCHED]):
        holder = progress.touched[t]
        if holders.slab[holder] < 0:
            continue  # set aside
        size_class = holders.size_class[holder]
        shorter = shorter_class(slabs, size_class, holders.size[holder], holders.target[holder])
        if shorter < size_class and (slabs.free[shorter] >= 0 or words_of(slabs, shorter) <= room_left(slabs)):
            _move(holders, slabs, holder, shorter)


@inlined
def _cut(holders, rows, entries, progress, holder, ratio):
    """Shorten a buffer that is longer than its policy wants, and move its bound to what is cut off."""
    size, k = holders.size[holder], holders.k[holder]
    if size <= holders.limit[holder]:
        return
    kept = holders.target[holder]
    if ratio > 0.0:
        least = ratio * entries.score[k - 1]
        kept = k
        while kept < size and entries.score[kept] >= least:
            kept += 1
        if kept == size:
            return
    bound = row_at(rows, entries, kept)
    holders.theta[holder] = entries.score[kept]
    holders.bound_row[holder] = bound
    holders.bound_time[holder] = rows.time[bound & rows.mask]
    holders.is_whole[holder] = 0
    holders.size[holder] = kept
    _note_untold(holders, progress, holder)


@inlined
def _note_untold(holders, progress, holder):
    """Note that the threshold of a holder is, or will be, another than the index knows."""
    if holders.is_untold[holder] == 0:
        holders.is_untold[holder] = 1
        progress.untold[progress.at[N_UNTOLD]] = holder
        progress.at[N_UNTOLD] += 1


@inlined
def is_short(holders, holder):
    """Tell whether a buffer is too short to hold the top-k for certain."""
    return holders.size[holder] < holders.k[holder] and holders.is_whole[holder] == 0


@inlined
def _set_aside_short(holders, slabs, rows, progress):
    """Take the slabs of those whose buffers have become too short: no later step of the walk then concerns them."""
    for t in range(progress.at[N_TOUCHED]):
        holder = progress.touched[t]
        if is_short(holders, holder):
            unlink(holders, holder, rows)
            give_slab(slabs, holders.slab[holder], holders.size_class[holder])
            holders.slab[holder], holders.size[holder] = -1, 0
            _note_untold(holders, progress, holder)
            progress.at[N_SHORT] += 1
