"""The words of a query in the order in which a search takes them, with what bounds need to know of each."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcast._jit import inlined
from nearcast.topk.window.scores import mark_of


class WordPlan(NamedTuple):
    """Words, the weightiest first and of equal ones the smaller id.

    `unit` is the component of each in the unit vector of the query, `rest` the length of all that follow, `mark` the
    bit of each, and `before` the bits of those that stand before it. A message is found in the list of its first word.
    `greatest` is the greatest component that a message has of a word, and `most` what all that follow can give at most;
    the search that uses them fills them in.
    """

    word: NDArray[np.int32]
    unit: NDArray[np.float64]
    rest: NDArray[np.float64]
    mark: NDArray[np.int64]
    before: NDArray[np.int64]
    greatest: NDArray[np.float64]
    most: NDArray[np.float64]


def new_plan(capacity: int) -> WordPlan:
    """Return room for that many words."""
    return WordPlan(
        np.empty(capacity, np.int32),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity),
        np.empty(capacity),
    )


@inlined
def make_plan(queries, which, plan):
    """Fill in the plan of a query; return how many of its words messages may have."""
    n = 0
    length = math.sqrt(queries.own[which])
    for i in range(queries.word_start[which], queries.word_start[which + 1]):
        word = queries.word[i]
        if word < 0:
            continue
        unit = queries.weight[i] / length if length > 0.0 else 0.0
        at = n
        while at > 0 and (plan.unit[at - 1] < unit or (plan.unit[at - 1] == unit and plan.word[at - 1] > word)):
            plan.word[at], plan.unit[at] = plan.word[at - 1], plan.unit[at - 1]
            at -= 1
        plan.word[at], plan.unit[at] = word, unit
        n += 1
    rest, before = 0.0, 0
    for i in range(n):
        plan.mark[i], plan.before[i] = mark_of(plan.word[i]), before
        before |= plan.mark[i]
    for i in range(n - 1, -1, -1):
        plan.rest[i] = math.sqrt(rest)
        rest += plan.unit[i] * plan.unit[i]
    return n


@inlined
def all_marks(plan, n):
    """Return the bits of all n words."""
    return plan.before[n - 1] | plan.mark[n - 1] if n > 0 else 0
