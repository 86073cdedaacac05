"""Best-first search of `blocks`: the run or block of the best bound first, until no bound reaches the worst answer."""

from __future__ import annotations

import math

from nearcast._jit import hot_kernel, inlined
from nearcast.similarity import MARGIN, score_of
from nearcast.topk.window.best_heap import bar_of
from nearcast.topk.window.blocks.lists import BLOCKS, LISTS, POSITIONS, POSTINGS, ROUND_DOWN, ROWS, RUNS
from nearcast.topk.window.bounds import LAST_ROW, U_MAX, U_MIN, most_text_between, near_to_group, rest_of
from nearcast.topk.window.frontier import pop, push
from nearcast.topk.window.scores import count_of, is_alive, near_to
from nearcast.topk.window.segment_search import answer_each
from nearcast.topk.window.single_messages import offer

#: A code is the number of a word and a segment, then the number of a block or run, then which of the two.
_NUMBER_BITS = 32


@hot_kernel
def search_lists(request, lists, these, scratch, answers, work):
    """Answer the queries `these` from the lists of all segments; return how many as `answer_each` does."""
    return answer_each(_look_at_lists, request, lists, these, scratch, answers, work)


@inlined
def _look_at_lists(request, lists, which, n_words, n_kept, scratch, work):
    """Visit the runs and blocks of all lists, best bound first; return how many messages are kept."""
    queries, held, alive, is_earth = request.queries, request.held, request.alive, request.is_earth
    plan, frontier, kept = scratch.plan, scratch.frontier, scratch.kept
    floor, capacity = request.floor[which], request.keep[which]
    x, y = queries.point[which, 0], queries.point[which, 1]
    cosine = max(math.cos(math.radians(y)) - 1e-15, 0.0) if is_earth else 0.0
    w, max_distance = queries.text_weight[which], queries.max_distance[which]
    n_segments = lists.segment.shape[0] - 1
    bar = bar_of(kept, n_kept, capacity, floor) - MARGIN
    n_open = _open_lists(lists, plan, n_words, x, y, cosine, w, max_distance, is_earth, alive, bar, frontier)
    looked = 0
    while n_open > 0 and frontier.bound[0] >= bar:
        code = frontier.code[0]
        pop(frontier, n_open)
        n_open -= 1
        i, g = (code >> _NUMBER_BITS) // n_segments, (code >> _NUMBER_BITS) % n_segments
        number = (code & ((1 << _NUMBER_BITS) - 1)) >> 1
        own, others = plan.unit[i], plan.rest[i]
        if code & 1 == 0:
            first_block = lists.segment[g, BLOCKS]
            run = lists.segment[g, RUNS] + number
            for b in range(int(lists.run_block[run]), int(lists.run_block[run + 1])):
                bound = bound_of(
                    lists.block_summary,
                    first_block + b,
                    own,
                    others,
                    plan.most[i],
                    x,
                    y,
                    cosine,
                    w,
                    max_distance,
                    is_earth,
                    alive,
                )
                if bound >= bar:
                    push(frontier, n_open, bound, ((i * n_segments + g) << _NUMBER_BITS) | (b << 1) | 1)
                    n_open += 1
            continue
        block = lists.segment[g, BLOCKS] + number
        near_most = near_to_group(is_earth, x, y, cosine, max_distance, lists.block_summary, block)
        first_position, first_posting = lists.segment[g, POSITIONS], lists.segment[g, POSTINGS]
        for j in range(first_posting + lists.block_posting[block], first_posting + lists.block_posting[block + 1]):
            looked += 1
            u = float(lists.u[j])
            left = rest_of(u * ROUND_DOWN)
            if score_of(w, own * u + min(others * left, plan.most[i]), near_most) < bar:
                continue
            text = own * u + _marked_rest(plan, i, n_words, lists.mark[j], u, left)
            if score_of(w, text, near_most) < bar:
                continue
            position = first_position + lists.position[j]
            near = near_to(queries, which, held, position, is_earth)
            if score_of(w, text, near) < bar or not is_alive(held, position, alive):
                continue
            if lists.mark[j] & plan.before[i] != 0 and _is_elsewhere(held, position, plan, i, lists.mark[j]):
                continue
            n_kept = offer(queries, which, held, position, near, floor, request.by_time, kept, n_kept, capacity)
            bar = bar_of(kept, n_kept, capacity, floor) - MARGIN
    work[which] += looked
    return n_kept


@inlined
def _open_lists(lists, plan, n_words, x, y, cosine, w, max_distance, is_earth, alive, bar, frontier):
    """Put the runs of all lists into the frontier, a block in place of a run of one; return how many."""
    n_open = 0
    n_segments = lists.segment.shape[0] - 1
    fill_greatest(lists, plan, n_words)
    for g in range(n_segments):
        if lists.segment[g + 1, ROWS] <= alive.first or lists.segment[g, ROWS] >= alive.last:
            continue
        first_run = lists.segment[g, RUNS]
        for i in range(n_words):
            at = find_list(lists, g, plan.word[i])
            if at < 0:
                continue
            for run in range(int(lists.run[at]), int(lists.run[at + 1])):
                bound = bound_of(
                    lists.run_summary,
                    first_run + run,
                    plan.unit[i],
                    plan.rest[i],
                    plan.most[i],
                    x,
                    y,
                    cosine,
                    w,
                    max_distance,
                    is_earth,
                    alive,
                )
                if bound < bar:
                    continue
                code = (i * n_segments + g) << _NUMBER_BITS
                block = lists.run_block[first_run + run]
                is_single = lists.run_block[first_run + run + 1] - block == 1
                code |= (int(block) << 1) | 1 if is_single else int(run) << 1
                push(frontier, n_open, bound, code)
                n_open += 1
    return n_open


@inlined
def fill_greatest(lists, plan, n_words):
    """Fill in the greatest component that a message has of each word, and a bound on what the words after it add."""
    most = 0.0
    for i in range(n_words - 1, -1, -1):
        greatest = 0.0
        for g in range(lists.segment.shape[0] - 1):
            at = find_list(lists, g, plan.word[i])
            if at >= 0:
                greatest = max(greatest, lists.list_u[at])
        plan.greatest[i], plan.most[i] = greatest, most
        most += plan.unit[i] * greatest


@inlined
def find_list(lists, g, word):
    """Return where the list of a word stands in a segment, -1 if it has none."""
    low, high = lists.segment[g, LISTS], lists.segment[g + 1, LISTS] - 1
    while low < high:
        middle = (low + high) >> 1
        if lists.word[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low if lists.word[low] == word else -1


@inlined
def bound_of(summary, group, own, others, most, x, y, cosine, w, max_distance, is_earth, alive):
    """Return the best score that a message of a group can have, -inf if none is alive."""
    if summary[group, LAST_ROW] < alive.first:
        return -math.inf
    text = most_text_between(own, others, most, summary[group, U_MIN], summary[group, U_MAX])
    return score_of(w, text, near_to_group(is_earth, x, y, cosine, max_distance, summary, group))


@inlined
def _marked_rest(plan, i, n_words, mark, u, left):
    """Return a bound on the text score that words after the i-th add for a message with these bits.

    If it says each word once, its components are to `u` as the weights of the words are to that of the i-th.
    """
    squares, most = 0.0, 0.0
    for j in range(i + 1, n_words):
        if mark & plan.mark[j] != 0:
            squares += plan.unit[j] * plan.unit[j]
            most += plan.unit[j] * plan.greatest[j]
    if mark >= 0 and plan.unit[i] > 0.0:
        return u * (squares / plan.unit[i])
    return min(math.sqrt(squares) * left, most)


@inlined
def _is_elsewhere(held, position, plan, i, mark):
    """Tell whether a message with these bits has a word before the i-th, and so belongs to the list of that one."""
    for j in range(i):
        if mark & plan.mark[j] != 0 and count_of(held, position, plan.word[j]) > 0:
            return True
    return False
