"""Turns what a step of a walk changed into events, in the order of registration."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined
from nearcast.indexes.shared.gather import sort_by_low_bits
from nearcast.topk.buffers.entries import ranks_before, row_at
from nearcast.topk.buffers.pool import entries_at
from nearcast.topk.buffers.walk_state import N_EVENTS, N_OLD, N_TOUCHED, STEP

_SLOT_BITS = 32
_SLOT = (1 << _SLOT_BITS) - 1


@inlined
def most_events(holders, progress):
    """Return how many events the step may have."""
    most = progress.at[N_OLD]
    for t in range(progress.at[N_TOUCHED]):
        holder = progress.touched[t]
        own = holders.record[holder]
        is_copied = progress.old_start[t + 1] > progress.old_start[t]
        most += min(own["size"], own["k"]) if is_copied else 2
    return most


@inlined
def tell(holders, slabs, rows, steps, progress):
    """Write an event for each message that left or entered the top-k of a touched holder, in order of registration."""
    n = _sorted_by_slot(holders, progress)
    row = steps.row[progress.at[STEP]]
    for i in range(n):
        nth = progress.order[i] >> _SLOT_BITS
        if progress.old_start[nth + 1] > progress.old_start[nth]:
            _tell_difference(holders, slabs, rows, progress, nth)
        else:
            _tell_one(holders, slabs, rows, progress, nth, row)


@inlined
def _sorted_by_slot(holders, progress):
    """Write who has events, in the order of slots, as (place among touched, slot); return how many."""
    n, bits = 0, np.int64(0)
    for t in range(progress.at[N_TOUCHED]):
        if holders.record[progress.touched[t]]["slab"] < 0:
            continue  # set aside
        is_copied = progress.old_start[t + 1] > progress.old_start[t]
        if is_copied or progress.left_rank[t] > 0 or progress.entered_rank[t] > 0:
            slot = np.int64(holders.slot[progress.touched[t]])
            progress.order[n] = (np.int64(t) << _SLOT_BITS) | slot
            bits |= slot
            n += 1
    n_bits = 0
    while bits >> n_bits > 0:
        n_bits += 8
    sort_by_low_bits(progress.order, n, n_bits, progress.spare, progress.digits)
    return n


@inlined
def _tell_one(holders, slabs, rows, progress, nth, row):
    """Write that a message left, or entered, or both: what arrived, or what has moved up to rank k."""
    holder = progress.touched[nth]
    own = holders.record[holder]
    slot, k = holders.slot[holder], own["k"]
    has_left, rank = progress.left_rank[nth] > 0, progress.entered_rank[nth]
    if has_left:
        _write(progress, slot, progress.left_row[nth], progress.left_score[nth], progress.left_rank[nth], 0)
    if rank > 0:
        _write(progress, slot, row, progress.entered_score[nth], rank, 1)
    elif has_left and own["size"] >= k:
        entries = entries_at(slabs, own["slab"], own["size_class"])
        _write(progress, slot, row_at(rows, entries, k - 1), entries.score[k - 1], k, 1)


@inlined
def _tell_difference(holders, slabs, rows, progress, nth):
    """Write what left and what entered, from the first k before the step and now: both are in rank order."""
    holder = progress.touched[nth]
    own = holders.record[holder]
    entries = entries_at(slabs, own["slab"], own["size_class"])
    n_new = min(own["size"], own["k"])
    first, last = progress.old_start[nth], progress.old_start[nth + 1]
    slot, j = holders.slot[holder], 0
    for i in range(first, last):
        score, row = progress.old_score[i], progress.old_row[i]
        while j < n_new and ranks_before(rows, entries.score[j], row_at(rows, entries, j), score, row):
            j += 1
        if j == n_new or row_at(rows, entries, j) != row:
            _write(progress, slot, row, score, i - first + 1, 0)
    j = first
    for i in range(n_new):
        score, row = entries.score[i], row_at(rows, entries, i)
        while j < last and ranks_before(rows, progress.old_score[j], progress.old_row[j], score, row):
            j += 1
        if j == last or progress.old_row[j] != row:
            _write(progress, slot, row, score, i + 1, 1)


@inlined
def _write(progress, slot, row, score, rank, enters):
    event = progress.at[N_EVENTS]
    progress.event_step[event] = progress.at[STEP]
    progress.event_slot[event] = slot
    progress.event_row[event] = row
    progress.event_score[event] = score
    progress.event_rank[event] = rank
    progress.event_enters[event] = enters
    progress.at[N_EVENTS] = event + 1
