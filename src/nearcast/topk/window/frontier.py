"""The priority queue of a best-first search: groups of messages in a heap, the best score bound on top."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcast._jit import inlined


class Frontier(NamedTuple):
    """Groups in the order of a heap: the best score each can hold, and a code that names it."""

    bound: NDArray[np.float64]
    code: NDArray[np.int64]


def new_frontier(capacity: int) -> Frontier:
    """Return room for that many groups."""
    return Frontier(np.empty(capacity), np.empty(capacity, np.int64))


@inlined
def push(frontier, n, bound, code):
    """Add a group to a heap of n."""
    at = n
    while at > 0:
        above = (at - 1) >> 1
        if frontier.bound[above] >= bound:
            break
        frontier.bound[at], frontier.code[at] = frontier.bound[above], frontier.code[above]
        at = above
    frontier.bound[at], frontier.code[at] = bound, code


@inlined
def pop(frontier, n):
    """Take the top off a heap of n, which the caller has read."""
    bound, code = frontier.bound[n - 1], frontier.code[n - 1]
    n -= 1
    at = 0
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and frontier.bound[child + 1] > frontier.bound[child]:
            child += 1
        if frontier.bound[child] <= bound:
            break
        frontier.bound[at], frontier.code[at] = frontier.bound[child], frontier.code[child]
        at = child
    frontier.bound[at], frontier.code[at] = bound, code
