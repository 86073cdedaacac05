"""Takes all buffers through the steps of a batch: expired messages leave, new ones enter, changes become events."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.shared.gather import sort_slots
from nearcast.topk.buffers.entries import (
    DOMINATOR_BITS,
    dominate,
    dominators_before,
    drop_row,
    position_in,
    put,
    ranks_before,
    row_of,
)
from nearcast.topk.buffers.holders import KMAX, is_kept, link_if_older, relink
from nearcast.topk.buffers.pool import array_of, give_slab, longer_class, place_of, room_left, take_slab

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Why a walk stopped: all steps are done; holders need a search; a pool or an array is too small.
DONE, SEARCH, MORE_SLABS, MORE_TOUCHED, MORE_OLD, MORE_EVENTS = 0, 1, 2, 3, 4, 5

#: Places in `WalkProgress.at`.
STEP, PHASE, N_TOUCHED, N_OLD, N_EVENTS, NEEDED, N_UNTOLD, TRIES = 0, 1, 2, 3, 4, 5, 6, 7
_BEGIN, _TELL = 0, 1


class WalkSteps(NamedTuple):
    """The steps of a batch: what arrives, what expires, and which holders each arrival may concern.

    Step i has number `number[i]`; `row[i]` arrives (-1: nothing does), the rows `expired[expired_start[i]:...]` leave
    in order of age, and `holder[start[i]:...]` with their `score` may want what arrives. `more[i]` begins a list of
    further such holders in `more_holder`, `more_score` and `more_next`.
    """

    number: NDArray[np.int64]
    row: NDArray[np.int64]
    expired_start: NDArray[np.int64]
    expired: NDArray[np.int64]
    start: NDArray[np.int64]
    holder: NDArray[np.int32]
    score: NDArray[np.float64]
    more: NDArray[np.int64]
    more_holder: NDArray[np.int32]
    more_score: NDArray[np.float64]
    more_next: NDArray[np.int64]


class WalkProgress(NamedTuple):
    """The state of a walk that may stop for want of room: how far it is, and its events so far.

    `touched` are the holders of the step under way, `order` sorts them by slot; `old_score` and `old_tag` are the first
    k of each before it, from `old_start` on. Events are one row for each message that entered or left a top-k. `untold`
    are the holders whose threshold is another than the index knows.
    """

    at: NDArray[np.int64]
    touched: NDArray[np.int32]
    order: NDArray[np.int64]
    spare: NDArray[np.int64]
    digits: NDArray[np.int64]
    old_start: NDArray[np.int64]
    old_score: NDArray[np.float64]
    old_tag: NDArray[np.int64]
    event_step: NDArray[np.int64]
    event_slot: NDArray[np.int32]
    event_row: NDArray[np.int64]
    event_score: NDArray[np.float64]
    event_rank: NDArray[np.int32]
    event_enters: NDArray[np.uint8]
    untold: NDArray[np.int32]


def new_progress(n_touched: int, n_old: int, n_events: int, n_holders: int) -> WalkProgress:
    """Return room for this much."""
    return WalkProgress(
        at=np.zeros(8, np.int64),
        touched=np.empty(n_touched, np.int32),
        order=np.empty(n_touched, np.int64),
        spare=np.empty(n_touched, np.int64),
        digits=np.empty(256, np.int64),
        old_start=np.empty(n_touched + 1, np.int64),
        old_score=np.empty(n_old, np.float64),
        old_tag=np.empty(n_old, np.int64),
        event_step=np.empty(n_events, np.int64),
        event_slot=np.empty(n_events, np.int32),
        event_row=np.empty(n_events, np.int64),
        event_score=np.empty(n_events, np.float64),
        event_rank=np.empty(n_events, np.int32),
        event_enters=np.empty(n_events, np.uint8),
        untold=np.empty(n_holders, np.int32),
    )


@hot_kernel
def walk(holders, slabs, rows, steps, progress, policy, ratio):
    """Take all buffers through the steps from where they stand; return why it stopped.

    After SEARCH the holders of this step whose buffer is too short are to be filled anew; after MORE_... there is to be
    more room, `at[NEEDED]` at least. Calling again goes on.
    """
    at = progress.at
    while at[STEP] < steps.row.size:
        if at[PHASE] == _BEGIN:
            lacks = _touch(holders, slabs, rows, steps, progress)
            if lacks != DONE:
                return lacks
            _expire(holders, slabs, rows, steps, at[STEP])
            _arrive(holders, slabs, rows, steps, progress, policy, ratio)
            at[PHASE] = _TELL
            if _is_any_short(holders, progress):
                return SEARCH
        at[NEEDED] = at[N_EVENTS] + at[N_OLD] + _most_new(holders, progress)
        if at[NEEDED] > progress.event_row.size:
            return MORE_EVENTS
        _tell(holders, slabs, rows, progress)
        at[PHASE] = _BEGIN
        at[STEP] += 1
    return DONE


@inlined
def _touch(holders, slabs, rows, steps, progress):
    """Note all holders that this step concerns, with the first k of each, before anything changes."""
    at = progress.at
    step_ = at[STEP]
    at[N_TOUCHED], at[N_OLD] = 0, 0
    row, entries = steps.row[step_], 0
    # A step that stops here for lack of room begins again, and counts anew.
    at[TRIES] += 1
    mark = -2 - at[TRIES]
    for e in range(steps.expired_start[step_], steps.expired_start[step_ + 1]):
        holder = rows.head[steps.expired[e] & rows.mask]
        while holder >= 0:
            if holders.step[holder] != mark:
                holders.step[holder] = mark
                at[N_TOUCHED] += 1
                at[N_OLD] += min(holders.size[holder], holders.k[holder])
            holder = holders.next[holder]
    for c in range(steps.start[step_], steps.start[step_ + 1]):
        entries += _touch_one(holders, slabs, rows, at, mark, steps.holder[c], steps.score[c], row)
    c = steps.more[step_]
    while c >= 0:
        entries += _touch_one(holders, slabs, rows, at, mark, steps.more_holder[c], steps.more_score[c], row)
        c = steps.more_next[c]
    if at[N_TOUCHED] > progress.touched.size:
        at[NEEDED] = at[N_TOUCHED]
        return MORE_TOUCHED
    if at[N_OLD] > progress.old_tag.size:
        at[NEEDED] = at[N_OLD]
        return MORE_OLD
    if entries > room_left(slabs):
        at[NEEDED] = entries
        return MORE_SLABS
    _note_old(holders, slabs, rows, steps, progress, mark)
    return DONE


@inlined
def _touch_one(holders, slabs, rows, at, mark, holder, score, row):
    """Count one holder that wants what arrives; return how many entries of a longer slab it may need."""
    if holder < 0 or holders.slab[holder] < 0 or not is_kept(holders, holder, rows, score, row):
        return 0
    if holders.step[holder] != mark:
        holders.step[holder] = mark
        at[N_TOUCHED] += 1
        at[N_OLD] += min(holders.size[holder], holders.k[holder])
    if holders.size[holder] < slabs.sizes[holders.size_class[holder]]:
        return 0
    return slabs.sizes[longer_class(slabs, holders.size_class[holder], holders.target[holder])]


@inlined
def _note_old(holders, slabs, rows, steps, progress, mark):
    """Copy the first k of every holder that is marked, and mark it with the number of the step."""
    at = progress.at
    step_ = at[STEP]
    number = steps.number[step_]
    at[N_TOUCHED], at[N_OLD] = 0, 0
    for e in range(steps.expired_start[step_], steps.expired_start[step_ + 1]):
        holder = rows.head[steps.expired[e] & rows.mask]
        while holder >= 0:
            if holders.step[holder] == mark:
                _copy_old(holders, slabs, progress, holder, number)
            holder = holders.next[holder]
    for c in range(steps.start[step_], steps.start[step_ + 1]):
        if steps.holder[c] >= 0 and holders.step[steps.holder[c]] == mark:
            _copy_old(holders, slabs, progress, steps.holder[c], number)
    c = steps.more[step_]
    while c >= 0:
        if holders.step[steps.more_holder[c]] == mark:
            _copy_old(holders, slabs, progress, steps.more_holder[c], number)
        c = steps.more_next[c]


@inlined
def _copy_old(holders, slabs, progress, holder, number):
    at = progress.at
    holders.step[holder] = number
    slab = holders.slab[holder]
    score, tag, first = slabs.score[array_of(slab)], slabs.tag[array_of(slab)], place_of(slab)
    n = min(holders.size[holder], holders.k[holder])
    # The slot leads, so that sorting puts holders in the order of registration.
    progress.order[at[N_TOUCHED]] = (np.int64(holders.slot[holder]) << 32) | at[N_TOUCHED]
    progress.touched[at[N_TOUCHED]] = holder
    progress.old_start[at[N_TOUCHED]] = at[N_OLD]
    for i in range(n):
        progress.old_score[at[N_OLD] + i] = score[first + i]
        progress.old_tag[at[N_OLD] + i] = tag[first + i]
    at[N_TOUCHED] += 1
    at[N_OLD] += n
    progress.old_start[at[N_TOUCHED]] = at[N_OLD]


@inlined
def _expire(holders, slabs, rows, steps, step_):
    """Take what expires out of every buffer whose oldest message it is."""
    for e in range(steps.expired_start[step_], steps.expired_start[step_ + 1]):
        row = steps.expired[e]
        holder = rows.head[row & rows.mask]
        while holder >= 0:
            after = holders.next[holder]
            slab = holders.slab[holder]
            score, tag, first = slabs.score[array_of(slab)], slabs.tag[array_of(slab)], place_of(slab)
            holders.size[holder] = drop_row(score, tag, first, holders.size[holder], row)
            relink(holders, holder, rows, slabs)
            holder = after


@inlined
def _arrive(holders, slabs, rows, steps, progress, policy, ratio):
    """Put what arrives into the buffers it belongs to."""
    step_ = progress.at[STEP]
    row = steps.row[step_]
    for c in range(steps.start[step_], steps.start[step_ + 1]):
        if steps.holder[c] >= 0:
            _enter(holders, slabs, rows, progress, steps.holder[c], steps.score[c], row, policy, ratio)
    c = steps.more[step_]
    while c >= 0:
        _enter(holders, slabs, rows, progress, steps.more_holder[c], steps.more_score[c], row, policy, ratio)
        c = steps.more_next[c]


@inlined
def _enter(holders, slabs, rows, progress, holder, new_score, row, policy, ratio):
    if holders.slab[holder] < 0 or not is_kept(holders, holder, rows, new_score, row):
        return
    if holders.size[holder] == slabs.sizes[holders.size_class[holder]]:
        _lengthen(holders, slabs, holder)
    slab = holders.slab[holder]
    score, tag, first = slabs.score[array_of(slab)], slabs.tag[array_of(slab)], place_of(slab)
    size, k = holders.size[holder], holders.k[holder]
    position = position_in(rows, score, tag, first, size, new_score, row)
    new_tag = row << DOMINATOR_BITS
    if policy != KMAX:
        # By arrival nothing is newer than what arrives; by time it may come late.
        dominators = dominators_before(rows, tag, first, position, row) if rows.by_time else 0
        if dominators >= k:
            return
        new_tag |= dominators
        size = dominate(rows, score, tag, first, position, size, row, k)
    holders.size[holder] = put(score, tag, first, size, position, new_score, new_tag)
    link_if_older(holders, holder, rows, row)
    _cut(holders, rows, score, tag, first, progress, holder, ratio)


@inlined
def _lengthen(holders, slabs, holder):
    """Move a buffer to a slab of the next size."""
    old, size_class = holders.slab[holder], holders.size_class[holder]
    longer = longer_class(slabs, size_class, holders.target[holder])
    new = take_slab(slabs, longer)
    score, tag, first = slabs.score[array_of(old)], slabs.tag[array_of(old)], place_of(old)
    to_score, to_tag, to = slabs.score[array_of(new)], slabs.tag[array_of(new)], place_of(new)
    for i in range(holders.size[holder]):
        to_score[to + i], to_tag[to + i] = score[first + i], tag[first + i]
    give_slab(slabs, old, size_class)
    holders.slab[holder], holders.size_class[holder] = new, longer


@inlined
def _cut(holders, rows, score, tag, first, progress, holder, ratio):
    """Shorten a buffer that is longer than its policy wants, and move its bound to what is cut off."""
    size, k = holders.size[holder], holders.k[holder]
    if size <= holders.limit[holder]:
        return
    kept = holders.target[holder]
    if ratio > 0.0:
        least = ratio * score[first + k - 1]
        kept = k
        while kept < size and score[first + kept] >= least:
            kept += 1
        if kept == size:
            return
    bound = row_of(tag[first + kept])
    holders.theta[holder] = score[first + kept]
    holders.bound_row[holder] = bound
    holders.bound_time[holder] = rows.time[bound & rows.mask]
    holders.is_whole[holder] = 0
    holders.size[holder] = kept
    if holders.is_untold[holder] == 0:
        holders.is_untold[holder] = 1
        progress.untold[progress.at[N_UNTOLD]] = holder
        progress.at[N_UNTOLD] += 1


@inlined
def is_short(holders, holder):
    """Tell whether a buffer is too short to hold the top-k for certain."""
    return holders.size[holder] < holders.k[holder] and holders.is_whole[holder] == 0


@inlined
def _is_any_short(holders, progress):
    for t in range(progress.at[N_TOUCHED]):
        if is_short(holders, progress.touched[t]):
            return True
    return False


@inlined
def _most_new(holders, progress):
    """Return how many messages may have entered."""
    most = 0
    for t in range(progress.at[N_TOUCHED]):
        holder = progress.touched[t]
        most += min(holders.size[holder], holders.k[holder])
    return most


@inlined
def _tell(holders, slabs, rows, progress):
    """Write an event for each message that left or entered the top-k of a touched holder, in order of registration."""
    n = progress.at[N_TOUCHED]
    sort_slots(progress.order, 0, n, 63, progress.spare, progress.digits)
    for t in range(n):
        nth = progress.order[t] & 0xFFFFFFFF
        holder = progress.touched[nth]
        slab = holders.slab[holder]
        score, tag, first = slabs.score[array_of(slab)], slabs.tag[array_of(slab)], place_of(slab)
        n_new = min(holders.size[holder], holders.k[holder])
        old, n_old = progress.old_start[nth], progress.old_start[nth + 1] - progress.old_start[nth]
        if n_old == n_new and _is_same(progress.old_tag, old, tag, first, n_new):
            continue
        slot = holders.slot[holder]
        _tell_missing(
            rows, progress, slot, progress.old_score, progress.old_tag, old, n_old, score, tag, first, n_new, 0
        )
        _tell_missing(
            rows, progress, slot, score, tag, first, n_new, progress.old_score, progress.old_tag, old, n_old, 1
        )


@inlined
def _is_same(old_tag, old, tag, first, n):
    for i in range(n):
        if row_of(old_tag[old + i]) != row_of(tag[first + i]):
            return False
    return True


@inlined
def _tell_missing(rows, progress, slot, score, tag, first, n, in_score, in_tag, in_first, in_n, enters):
    """Write the entries that are not among others; both are in rank order, and a message scores alike in both."""
    at = progress.at
    j = 0
    for i in range(n):
        row = row_of(tag[first + i])
        while j < in_n and row_of(in_tag[in_first + j]) != row:
            if ranks_before(rows, score[first + i], row, in_score[in_first + j], row_of(in_tag[in_first + j])):
                break
            j += 1
        if j < in_n and row_of(in_tag[in_first + j]) == row:
            continue
        event = at[N_EVENTS]
        progress.event_step[event] = at[STEP]
        progress.event_slot[event] = slot
        progress.event_row[event] = row
        progress.event_score[event] = score[first + i]
        progress.event_rank[event] = i + 1
        progress.event_enters[event] = enters
        at[N_EVENTS] += 1
