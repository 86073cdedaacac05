"""The queries of a join: their words in the order in which they are searched for, and their best messages so far."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.similarity import MARGIN
from nearcast.topk.window.best_heap import BestHeap, bar_of, new_kept, write_in_rank
from nearcast.topk.window.blocks.search import fill_greatest
from nearcast.topk.window.segment_search import begin_query

if TYPE_CHECKING:
    from numpy.typing import NDArray


class PlannedQueries(NamedTuple):
    """Queries of a join, in the order of `which`, with their plans and what they have found so far.

    Query n has the words `word[start[n]:start[n] + n_words[n]]` in the order of its plan, with the columns of
    `WordPlan`; `gain` is what a word adds to the text score for each time it is said, over the message's length. It
    keeps up to `first[n + 1] - first[n]` messages from `first[n]` on, of which it has `n_kept[n]`.
    """

    which: NDArray[np.int64]
    start: NDArray[np.int64]
    n_words: NDArray[np.int64]
    word: NDArray[np.int32]
    unit: NDArray[np.float64]
    rest: NDArray[np.float64]
    most: NDArray[np.float64]
    gain: NDArray[np.float64]
    first: NDArray[np.int64]
    n_kept: NDArray[np.int64]
    kept: BestHeap


def new_planned(which: NDArray[np.int64], n_words: NDArray[np.int64], keep: NDArray[np.int64]) -> PlannedQueries:
    """Return room for the plans of queries with so many words, and for so many messages of each."""
    start, first = np.append(0, np.cumsum(n_words)), np.append(0, np.cumsum(keep))
    n = int(start[-1])
    return PlannedQueries(
        which=which,
        start=start,
        n_words=np.zeros(len(which), np.int64),
        word=np.empty(n, np.int32),
        unit=np.empty(n),
        rest=np.empty(n),
        most=np.empty(n),
        gain=np.empty(n),
        first=first,
        n_kept=np.zeros(len(which), np.int64),
        kept=new_kept(int(first[-1])),
    )


@hot_kernel
def plan_queries(request, lists, planned, plan):
    """Fill in the plans of all queries, and keep the best messages of the tail for each."""
    for n in range(planned.which.size):
        which = planned.which[n]
        if request.keep[which] <= 0:
            continue
        n_words, planned.n_kept[n] = begin_query(request, which, plan, heap_of(planned, n))
        fill_greatest(lists, plan, n_words)
        length = math.sqrt(request.queries.own[which])
        for i in range(n_words):
            at = planned.start[n] + i
            planned.word[at], planned.unit[at] = plan.word[i], plan.unit[i]
            planned.rest[at], planned.most[at] = plan.rest[i], plan.most[i]
            planned.gain[at] = plan.unit[i] * plan.unit[i] * length
        planned.n_words[n] = n_words


@hot_kernel
def write_answers(planned, row, score):
    """Write what all queries keep, best first, one after the other; the heaps are used up."""
    written = 0
    for n in range(planned.which.size):
        write_in_rank(heap_of(planned, n), planned.n_kept[n], row, score, written)
        written += planned.n_kept[n]


@inlined
def capacity_of(planned, n):
    """Return how many messages a query keeps."""
    return planned.first[n + 1] - planned.first[n]


@inlined
def heap_of(planned, n):
    """Return where a query keeps its messages."""
    first, last = planned.first[n], planned.first[n + 1]
    return BestHeap(planned.kept.score[first:last], planned.kept.time[first:last], planned.kept.row[first:last])


@inlined
def query_bar(request, planned, n):
    """Return the score that a bound must reach for a query to look further."""
    floor = request.floor[planned.which[n]]
    return bar_of(heap_of(planned, n), planned.n_kept[n], capacity_of(planned, n), floor) - MARGIN
