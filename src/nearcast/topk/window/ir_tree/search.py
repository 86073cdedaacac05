"""Best-first search of `ir-tree`: the node of the best bound first, until no bound reaches the worst answer."""

from __future__ import annotations

import math

from nearcast._jit import hot_kernel, inlined
from nearcast.similarity import MARGIN, score_of
from nearcast.topk.window.best_heap import bar_of
from nearcast.topk.window.bounds import LAST_ROW, near_to_group
from nearcast.topk.window.frontier import pop, push
from nearcast.topk.window.ir_tree.tree import FILES, NODES, POSITIONS, ROWS
from nearcast.topk.window.scores import is_alive, near_to
from nearcast.topk.window.segment_search import answer_each
from nearcast.topk.window.single_messages import offer
from nearcast.topk.window.word_plan import all_marks

#: A code is the number of a segment, then of a node.
_NODE_BITS = 32


@hot_kernel
def search_trees(request, trees, these, scratch, answers, work):
    """Answer the queries `these` from the trees of all segments; return how many as `answer_each` does."""
    return answer_each(_look_at_trees, request, trees, these, scratch, answers, work)


@inlined
def _look_at_trees(request, trees, which, n_words, n_kept, scratch, work):
    """Visit the nodes of all trees, best bound first; return how many messages are kept."""
    queries, held, alive, is_earth = request.queries, request.held, request.alive, request.is_earth
    plan, frontier, kept = scratch.plan, scratch.frontier, scratch.kept
    floor, capacity = request.floor[which], request.keep[which]
    cosine = max(math.cos(math.radians(queries.point[which, 1])) - 1e-15, 0.0) if is_earth else 0.0
    marks = all_marks(plan, n_words)
    bar = bar_of(kept, n_kept, capacity, floor) - MARGIN
    n_open = 0
    for g in range(trees.segment.shape[0] - 1):
        if trees.segment[g + 1, ROWS] > alive.first and trees.segment[g, ROWS] < alive.last:
            root = trees.segment[g + 1, NODES] - trees.segment[g, NODES] - 1
            push(frontier, n_open, math.inf, (g << _NODE_BITS) | root)
            n_open += 1
    while n_open > 0 and frontier.bound[0] >= bar:
        g, node = frontier.code[0] >> _NODE_BITS, frontier.code[0] & ((1 << _NODE_BITS) - 1)
        pop(frontier, n_open)
        n_open -= 1
        at = trees.segment[g, NODES] + node
        if trees.is_leaf[at] == 0:
            for child in range(int(trees.first[at]), int(trees.last[at])):
                bound = _bound(queries, which, trees, g, child, plan, n_words, cosine, is_earth, alive)
                work[which] += 1
                if bound >= bar:
                    push(frontier, n_open, bound, (g << _NODE_BITS) | child)
                    n_open += 1
            continue
        first = trees.segment[g, POSITIONS]
        for position in range(first + trees.first[at], first + trees.last[at]):
            work[which] += 1
            if held.mark[position] & marks != 0 and is_alive(held, position, alive):
                near = near_to(queries, which, held, position, is_earth)
                if score_of(queries.text_weight[which], 1.0, near) >= bar:
                    n_kept = offer(queries, which, held, position, near, floor, request.by_time, kept, n_kept, capacity)
                    bar = bar_of(kept, n_kept, capacity, floor) - MARGIN
    return n_kept


@inlined
def _bound(queries, which, trees, g, node, plan, n_words, cosine, is_earth, alive):
    """Return the best score that a message below a node can have, -inf if none shares a word or is alive."""
    at = trees.segment[g, NODES] + node
    if trees.summary[at, LAST_ROW] < alive.first:
        return -math.inf
    text, shares = 0.0, False
    first_file = trees.segment[g, FILES]
    for i in range(n_words):
        entry = _find_word(trees, first_file + trees.file_first[at], first_file + trees.file_last[at], plan.word[i])
        if entry >= 0:
            shares = True
            text += plan.unit[i] * trees.u[entry]
    if not shares:
        return -math.inf
    x, y = queries.point[which, 0], queries.point[which, 1]
    near = near_to_group(is_earth, x, y, cosine, queries.max_distance[which], trees.summary, at)
    return score_of(queries.text_weight[which], min(text, 1.0), near)


@inlined
def _find_word(trees, first, end, word):
    """Return where a word stands in a file, -1 if it does not."""
    low, high = first, end
    while low < high:
        middle = (low + high) >> 1
        if trees.word[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low if low < end and trees.word[low] == word else -1
