"""Scores messages one by one: the unindexed tail of the window, and candidates that bounds could not prune."""

from __future__ import annotations

from nearcast._jit import inlined
from nearcast.topk.window.best_heap import keep
from nearcast.topk.window.scores import is_alive, near_to, row_of, score_with
from nearcast.topk.window.word_plan import all_marks


@inlined
def offer(queries, which, held, position, near, floor, by_time, kept, n_kept, capacity):
    """Score a message at this proximity and keep it if it is good enough; return how many are kept."""
    score = score_with(queries, which, held, position, near)
    if score < 0.0 or score < floor:
        return n_kept
    return keep(kept, n_kept, capacity, score, held.time[position] if by_time else 0, row_of(held, position))


@inlined
def look_at_tail(queries, which, held, tail, alive, floor, by_time, is_earth, plan, n_words, kept, capacity):
    """Score the messages at the positions `tail[0]` to `tail[1]`; return how many are kept."""
    n_kept = 0
    marks = all_marks(plan, n_words)
    for position in range(tail[0], tail[1]):
        if held.mark[position] & marks != 0 and is_alive(held, position, alive):
            near = near_to(queries, which, held, position, is_earth)
            n_kept = offer(queries, which, held, position, near, floor, by_time, kept, n_kept, capacity)
    return n_kept
