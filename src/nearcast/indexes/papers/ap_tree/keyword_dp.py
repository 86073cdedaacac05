"""The optimal keyword partition, in O(f·|V|·log |V|) (paper, Algorithm 2, needs O(f·|V|²)).

The cost of a cut is W·P, two sums over its words. For a ≤ b ≤ c ≤ d with W and P both sums of what is not negative,
cost(a, c) + cost(b, d) ≤ cost(a, d) + cost(b, c): the quadrangle inequality. So the best last border of the first j
words never moves back as j grows, and each round of the dynamic programme is solved by halves.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import kernel
from nearcast.indexes.papers.ap_tree.model import part_cost


@kernel
def optimal_cuts(weight, met, n_cuts):
    """Return the borders of the n_cuts cuts that cost least; words must be as many as cuts at least.

    More cuts never cost more, so fewer need not be tried.
    """
    n_words = weight.size - 1
    border = np.arange(n_cuts + 1)
    if n_cuts == n_words:
        return border
    cost, before = np.zeros(n_words + 1), np.empty(n_words + 1)
    for j in range(1, n_words + 1):
        cost[j] = part_cost(weight, weight, met, 0, j)
    chosen = np.zeros((n_cuts + 1, n_words + 1), np.int32)
    for k in range(2, n_cuts + 1):
        for j in range(n_words + 1):
            before[j] = cost[j]
        # Of the first j words k cuts can be made from j = k on; the last round is asked for all words only.
        _one_more_cut(weight, met, n_words if k == n_cuts else k, n_words, k, before, cost, chosen)
    border[n_cuts] = n_words
    for k in range(n_cuts, 1, -1):
        border[k - 1] = chosen[k, border[k]]
    border[0] = 0
    return border


@kernel
def _one_more_cut(weight, met, low, high, k, before, cost, chosen):
    """Set cost[j] of k cuts and their last border for j from low to high, `before` being the costs with a cut less."""
    todo = np.empty((128, 4), np.int64)  # j from, j to, border from, border to
    todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3] = low, high, k - 1, high
    n_todo = 1
    while n_todo > 0:
        n_todo -= 1
        j_low, j_high, b_low, b_high = todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3]
        j = (j_low + j_high) // 2
        best, lowest = b_low, np.inf
        for b in range(b_low, min(b_high, j - 1) + 1):
            found = before[b] + part_cost(weight, weight, met, b, j)
            if found < lowest:
                best, lowest = b, found
        cost[j], chosen[k, j] = lowest, best
        if j_low < j:
            todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3] = j_low, j - 1, b_low, best
            n_todo += 1
        if j < j_high:
            todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3] = j + 1, j_high, best, b_high
            n_todo += 1
    return n_todo
