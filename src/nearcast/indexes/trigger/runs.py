"""Runs of hits: what searches for scored rows found, joined into one list of slots for each message of a chunk.

Searches go list by list and take a message out of each what it wants, so that its hits come in runs, many side by side.
Runs of a message are chained: none is copied before the place of each hit in the answer is known.
"""

from __future__ import annotations

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.shared.gather import drop_repeats_scored, mark_slots, rank_marks, rank_of, sort_scored
from nearcast.indexes.trigger.scratch import RUNS

#: The run before the first of a message.
NO_RUN = -1
# Columns of `TriggerScratch.run`: its hits, and the run of the message before it.
_FIRST, _LAST, _BEFORE = 0, 1, 2
#: Marking slots pays where there is a hit for so many words of marks: they have to be cleared and counted.
WORTH_MARKING = 24


@inlined
def note_run(i, first, last, scratch):
    """Note that hits first to last are those of message i; there is room for a run."""
    run, n = scratch.run, scratch.tally[RUNS]
    if first == last:
        return
    if n > 0 and scratch.last_run[i] == n - 1:
        run[n - 1, _LAST] = last
        return
    run[n, _FIRST], run[n, _LAST], run[n, _BEFORE] = first, last, scratch.last_run[i]
    scratch.last_run[i] = n
    scratch.tally[RUNS] = n + 1


@hot_kernel
def merge_runs(found, starts, scratch, position_of, begin, n_bits, marks, rank, out, score):
    """Join the slots that searches found, each worth 1, and runs of hits; return the number of slots written.

    What was found is as for `merge_found`. `out` and `score` get all lists end to end, slots ascending, each once.
    List m is that of position `position_of[m]` and begins at `begin[m]`, whose last place is the end of them all.
    """
    end = 0
    for message in range(position_of.size):
        i = position_of[message]
        begin[message] = end
        n = _count(starts, scratch, i)
        if n * WORTH_MARKING > marks.size:
            end += _place_marked(found, starts, scratch, i, marks, rank, end, out, score)
        else:
            end += _place_sorted(found, starts, scratch, i, n, n_bits, end, out, score)
    begin[position_of.size] = end
    return end


@inlined
def _count(starts, scratch, i):
    """Return how many hits there are for a position, repeats counted."""
    n = 0
    for k in range(starts.shape[0]):
        n += starts[k, i + 1] - starts[k, i]
    r = scratch.last_run[i]
    while r != NO_RUN:
        n += scratch.run[r, _LAST] - scratch.run[r, _FIRST]
        r = scratch.run[r, _BEFORE]
    return n


@inlined
def _place_marked(found, starts, scratch, i, marks, rank, begin, out, score):
    """Write the list of a position from `begin` on, each slot at its rank among all marked ones; return its length.

    A slot found twice is written twice to the same place, with the same score.
    """
    marks[:] = 0
    for k in range(starts.shape[0]):
        mark_slots(found, starts[k, i], starts[k, i + 1], marks)
    r = scratch.last_run[i]
    while r != NO_RUN:
        mark_slots(scratch.hit_slot, scratch.run[r, _FIRST], scratch.run[r, _LAST], marks)
        r = scratch.run[r, _BEFORE]
    n = rank_marks(marks, rank)
    for k in range(starts.shape[0]):
        for j in range(starts[k, i], starts[k, i + 1]):
            to = begin + rank_of(found[j], marks, rank)
            out[to], score[to] = found[j], 1.0
    r = scratch.last_run[i]
    while r != NO_RUN:
        for h in range(scratch.run[r, _FIRST], scratch.run[r, _LAST]):
            to = begin + rank_of(scratch.hit_slot[h], marks, rank)
            out[to], score[to] = scratch.hit_slot[h], scratch.hit_score[h]
        r = scratch.run[r, _BEFORE]
    return n


@inlined
def _place_sorted(found, starts, scratch, i, n, n_bits, begin, out, score):
    """Do the same for few hits: copy them there and sort."""
    at = begin
    for k in range(starts.shape[0]):
        for j in range(starts[k, i], starts[k, i + 1]):
            out[at], score[at] = found[j], 1.0
            at += 1
    r = scratch.last_run[i]
    while r != NO_RUN:
        for h in range(scratch.run[r, _FIRST], scratch.run[r, _LAST]):
            out[at], score[at] = scratch.hit_slot[h], scratch.hit_score[h]
            at += 1
        r = scratch.run[r, _BEFORE]
    sort_scored(out, score, begin, n, n_bits, scratch.spare, scratch.spare_score, scratch.digits)
    return drop_repeats_scored(out, score, begin, at) - begin
