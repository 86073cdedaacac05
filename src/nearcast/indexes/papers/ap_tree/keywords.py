"""The keyword partition of a node: which cuts do the next words of its atoms fall into, and at which cost?"""

from __future__ import annotations

import numpy as np

from nearcast._jit import hot_kernel, kernel
from nearcast.indexes.papers.ap_tree.keyword_dp import optimal_cuts
from nearcast.indexes.papers.ap_tree.keyword_heuristic import heuristic_cuts
from nearcast.indexes.papers.ap_tree.model import partition_cost


@kernel
def keyword_partition(members, offset, atoms, ranks, model, fan_out, is_optimal):
    """Return cuts (first and last rank), the probability of each, and their cost, all with that of the dummy cut.

    Members whose words are used up go to the dummy cut. Where all do there is no cut, and the cost is that of a leaf.
    """
    word, weight = _next_words(members, offset, atoms, ranks)
    n_dummy = members.size - weight[word.size]
    if word.size == 0:
        return np.empty((0, 2), np.int32), np.empty(0), float(members.size)
    met = _probabilities(members, word, atoms, ranks, model)
    n_cuts = min(fan_out, word.size)
    border = optimal_cuts(weight, met, n_cuts) if is_optimal else heuristic_cuts(weight, met, n_cuts)
    cut, probability = np.empty((n_cuts, 2), np.int32), np.empty(n_cuts)
    for k in range(n_cuts):
        cut[k, 0], cut[k, 1] = word[border[k]], word[border[k + 1] - 1]
        probability[k] = met[border[k + 1]] - met[border[k]]
    return cut, probability, partition_cost(weight, weight, met, border) + n_dummy


@kernel
def _next_words(members, offset, atoms, ranks):
    """Return the distinct next words of the members, ascending, and how many members have one of the first j."""
    found = np.empty(members.size)  # as floats: one sort is compiled for words and places
    n = 0
    for atom in members:
        if atoms.n_words[atom] > offset:
            found[n] = ranks[atoms.code_start[atom] + offset]
            n += 1
    found = np.sort(found[:n])
    word, weight = np.empty(n, np.int32), np.zeros(n + 1)
    n_distinct = 0
    for i in range(n):
        if i == 0 or found[i] != found[i - 1]:
            word[n_distinct] = int(found[i])
            n_distinct += 1
        weight[n_distinct] = i + 1
    return word[:n_distinct].copy(), weight[: n_distinct + 1].copy()


@kernel
def _probabilities(members, word, atoms, ranks, model):
    """Return the probability of the first j words: from the sample, or as often as the members need them."""
    met = np.zeros(word.size + 1)
    if model.hit.size > 0:
        for i in range(word.size):
            met[i + 1] = met[i] + model.hit[word[i]]
        return met
    count = model.counter
    _count(members, atoms, ranks, count, 1)
    for i in range(word.size):
        met[i + 1] = met[i] + count[word[i]]
    _count(members, atoms, ranks, count, -1)
    total = met[word.size]
    for i in range(word.size):
        met[i + 1] /= total
    return met


@hot_kernel
def count_distinct(members, atoms, ranks, counter):
    """Return how many distinct words the members need; `counter` is 0 by rank, and is so again."""
    n = 0
    for atom in members:
        first = atoms.code_start[atom]
        for i in range(first, first + atoms.n_words[atom]):
            n += counter[ranks[i]] == 0
            counter[ranks[i]] += 1
    _count(members, atoms, ranks, counter, -1)
    return n


@hot_kernel
def _count(members, atoms, ranks, count, change):
    for atom in members:
        first = atoms.code_start[atom]
        for i in range(first, first + atoms.n_words[atom]):
            count[ranks[i]] += change
