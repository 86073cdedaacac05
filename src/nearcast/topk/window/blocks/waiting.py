"""Candidates that wait in the lanes of a group: scored up to rounding, sifted, and scored exactly if they are left."""

from __future__ import annotations

from nearcast._jit import inlined
from nearcast.similarity import MARGIN, score_of
from nearcast.topk.window.blocks.group_lanes import (
    BAR,
    LIMIT,
    MOST_PER_DISTANCE,
    PER_DISTANCE,
    SPARE,
    TEXT_WEIGHT,
    plane_nearness,
)
from nearcast.topk.window.blocks.planned_queries import capacity_of, heap_of, query_bar
from nearcast.topk.window.scores import is_alive, near_to
from nearcast.topk.window.single_messages import offer


@inlined
def note_candidate(request, planned, position, text, lane, lanes):
    """Let a message with this text score wait in a lane, if it is good enough."""
    if request.is_earth or lanes.fact[PER_DISTANCE + lane] >= MOST_PER_DISTANCE:
        near = near_to(request.queries, planned.which[lanes.query[lane]], request.held, position, request.is_earth)
    else:
        near = plane_nearness(lanes.fact, lane, request.held.card, position)
    score = score_of(lanes.fact[TEXT_WEIGHT + lane], text, near)
    if score < lanes.fact[BAR + lane] or not is_alive(request.held, position, request.alive):
        return
    at = lanes.n_waiting[lane]
    lanes.waiting[lane, at], lanes.waiting_score[lane, at] = position, score
    lanes.n_waiting[lane] = at + 1
    if at + 1 == lanes.waiting.shape[1]:
        sift(planned, lanes, lane)
        if 2 * (lanes.waiting.shape[1] - lanes.n_waiting[lane]) < SPARE:
            keep_waiting(request, planned, lanes, lane)


@inlined
def sift(planned, lanes, lane):
    """Drop those waiting in a lane that as many others as it keeps are better than, and raise its bar."""
    capacity, n_waiting = capacity_of(planned, lanes.query[lane]), lanes.n_waiting[lane]
    if n_waiting <= capacity:
        return
    score, position = lanes.waiting_score[lane], lanes.waiting[lane]
    _select(score, position, n_waiting, capacity - 1)
    _raise_bar(lanes.fact, lane, score[capacity - 1] - MARGIN)
    left = capacity
    for i in range(capacity, n_waiting):
        if score[i] >= lanes.fact[BAR + lane]:
            score[left], position[left] = score[i], position[i]
            left += 1
    lanes.n_waiting[lane] = left


@inlined
def keep_waiting(request, planned, lanes, lane):
    """Score those waiting in a lane exactly, and keep the best."""
    n = lanes.query[lane]
    which, capacity = planned.which[n], capacity_of(planned, n)
    for i in range(lanes.n_waiting[lane]):
        if lanes.waiting_score[lane, i] < lanes.fact[BAR + lane]:
            continue
        position = lanes.waiting[lane, i]
        planned.n_kept[n] = offer(
            request.queries,
            which,
            request.held,
            position,
            near_to(request.queries, which, request.held, position, request.is_earth),
            request.floor[which],
            request.by_time,
            heap_of(planned, n),
            planned.n_kept[n],
            capacity,
        )
        _raise_bar(lanes.fact, lane, query_bar(request, planned, n))
    lanes.n_waiting[lane] = 0


@inlined
def _raise_bar(fact, lane, bar):
    if bar > fact[BAR + lane]:
        fact[LIMIT + lane] += bar - fact[BAR + lane]
        fact[BAR + lane] = bar


@inlined
def _select(score, position, n, nth):
    """Put the nth greatest score in its place, greater ones before it and lesser ones behind; Hoare's selection."""
    low, high = 0, n - 1
    while low < high:
        pivot = score[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while score[i] > pivot:
                i += 1
            while score[j] < pivot:
                j -= 1
            if i <= j:
                score[i], score[j] = score[j], score[i]
                position[i], position[j] = position[j], position[i]
                i += 1
                j -= 1
        if nth <= j:
            high = j
        elif nth >= i:
            low = i
        else:
            break
