"""Triggers of a subscription in one segment: lists of which one must hold a message that it wants.

A clause has one, the shortest list of its required words and of the words of its phrases; a clause that needs no word
has the list of all positions. A scored row has one for each word, shortest first. A message is found at the first
trigger that has it: with only the words from there on it must be near, which the radius of the trigger says.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined
from nearcast.live.cells.queries import NO_WORD
from nearcast.live.cells.segments import all_postings, list_of, no_postings, postings_of
from nearcast.live.cells.walk import narrower
from nearcast.query import NOT, PHRASE
from nearcast.similarity import MARGIN, counts_weights, most_text, near_needed, reads_whole_message


@inlined
def clause_trigger(queries, clause, segments, at):
    """Return the list of a clause, that of all positions if it needs no word; empty if it cannot hold."""
    i, end = queries.code_start[clause], queries.code_start[clause + 1]
    shortest, number = np.int64(-1), np.int64(0)
    while i < end:
        op = queries.code[i]
        begin, n = i, 1
        if op == NOT:
            i += 2
            continue
        if op < 0:
            begin, n = i + 2, queries.code[i + 1]
            i += 1
        i = begin + n
        if op >= 0 or op == PHRASE:
            for k in range(begin, begin + n):
                if queries.code[k] == NO_WORD:
                    return no_postings()
                each, length = list_of(segments, at, queries.code[k])
                if length == 0:
                    return no_postings()
                if shortest < 0 or length < shortest:
                    number, shortest = each, length
    return all_postings(segments, at) if shortest < 0 else postings_of(segments, at, number)


@inlined
def order_words(queries, row, segments, at, order, number, length):
    """Write the lists of a scored row's words, shortest first, those without postings left out; return how many."""
    n = 0
    for i in range(queries.word_start[row], queries.word_start[row + 1]):
        if queries.word[i] == NO_WORD:
            continue
        each, n_postings = list_of(segments, at, queries.word[i])
        if n_postings == 0:
            continue
        k = n
        while k > 0 and length[k - 1] > n_postings:
            order[k], number[k], length[k] = order[k - 1], number[k - 1], length[k - 1]
            k -= 1
        order[k], number[k], length[k] = i, each, n_postings
        n += 1
    return n


@inlined
def reach(queries, row, order, k, n):
    """Return how far a message may be that has none of the row's words before the k-th in order; -1 if it cannot be.

    With k = n, one that has none at all.
    """
    function = queries.similarity[row]
    amount = 0.0
    for i in range(k, n):
        amount += queries.weight[order[i]] if counts_weights(function) else 1.0
    share = min(amount / queries.own[row], 1.0) if queries.own[row] > 0.0 else 0.0
    return text_reach(queries, row, most_text(function, share), 0.0)


@inlined
def text_reach(queries, row, text, more):
    """Return how far a message with this text score may be and reach the threshold and `more`; -1 if it cannot be.

    Less the margin of bounds. With twice that margin for `more`, whatever is nearer surely reaches the threshold.
    """
    needed = near_needed(queries.text_weight[row], queries.threshold[row] + more, text)
    if needed <= 0.0:
        return np.inf
    return (1.0 - needed) * queries.max_distance[row] if needed <= 1.0 else -1.0


@inlined
def sure_reach(queries, row, order, k, n, is_earth):
    """Return within which distance every message is relevant that has the k-th word in order; k = n for no word.

    Functions that read the whole message may give a single word any text score, however small.
    """
    function, text = queries.similarity[row], 0.0
    if k < n and queries.own[row] > 0.0 and not reads_whole_message(function):
        amount = queries.weight[order[k]] if counts_weights(function) else 1.0
        text = min(amount / queries.own[row], 1.0)
    return narrower(is_earth, text_reach(queries, row, text, 2.0 * MARGIN))
