"""The search of `stamp`: descends the regions, merges the token lists, and scores the candidates that are left."""

from __future__ import annotations

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.papers.stamp.candidates import NEXT
from nearcast.indexes.papers.stamp.leaves import Leaf, open_lists, search_leaf
from nearcast.indexes.papers.stamp.lists import NO_LIST, find_list
from nearcast.indexes.papers.stamp.prefixes import DUMMY
from nearcast.indexes.shared.gather import search_each
from nearcast.indexes.shared.packed_rtree import place_gap, place_touches
from nearcast.indexes.shared.predicates import mark_terms, message_parts
from nearcast.indexes.shared.word_order import comes_before

#: Numbers that a stamp can hold.
_MOST_NUMBERS = 2**31 - 1


@hot_kernel
def search_messages(held, batch, scratch, found, is_earth, strategy, n_bits, first, counts):
    """Search for messages with the index as `search_each` does; return the first that was not searched for."""
    index = (held, is_earth, strategy)
    return search_each(_search_one, index, held.members.row.size, batch, scratch, found, n_bits, first, counts)


@inlined
def _search_one(index, batch, scratch, found, message, at):
    """Write the answers to one message from `at` on; return how many (Algorithm 2)."""
    held, is_earth, strategy = index
    first, last = batch.term_start[message], batch.term_start[message + 1]
    n_tokens = _sorted_tokens(held.members.scored.weight, batch.terms, first, last, scratch)
    n_places = message_parts(batch.box, message, scratch.place)
    _renew_stamps(held.members)
    tree, n_levels = held.tree, held.tree.level_start.size - 1
    begin, level = at, n_levels
    scratch.cursor[level], scratch.end[level] = tree.box.shape[0] - 1, tree.box.shape[0]
    scratch.n_alive[level] = n_tokens
    for i in range(n_tokens):
        scratch.alive[level, i] = i
    while level <= n_levels:
        node = scratch.cursor[level]
        if node == scratch.end[level]:
            level += 1
            continue
        scratch.cursor[level] += 1
        is_here = place_touches(scratch.place, n_places, tree.box, node)
        gap = 0.0 if is_here else place_gap(is_earth, scratch.place, n_places, tree.box, node)
        if level > 1:
            if _enter_region(held, scratch, node, level, is_here, gap):
                level -= 1
        elif open_lists(held, scratch, node, n_tokens, is_here, gap):
            leaf = Leaf(node, is_here, gap, is_earth, strategy, message, n_places, n_tokens)
            at = search_leaf(held, batch, scratch, found, leaf, at)
    mark_terms(batch.terms, first, last, scratch.has, 0)
    return at - begin


@inlined
def _renew_stamps(members):
    """Take a new number, and begin again at 0 before they are exhausted."""
    members.number[NEXT] += 1
    if members.number[NEXT] >= _MOST_NUMBERS - members.stamp.size:
        for member in range(members.stamp.size):
            members.stamp[member] = -1
        members.number[NEXT] = 0


@inlined
def _sorted_tokens(weight, terms, first, last, scratch):
    """Mark the terms of a message and write its tokens in the paper's order, the dummy last; return how many."""
    n = 0
    for i in range(first, last):
        term = terms[i]
        if term < 0 or term >= scratch.has.size or scratch.has[term] == 1:
            continue
        scratch.has[term] = 1
        j = n
        while j > 0 and comes_before(weight, term, scratch.token[j - 1] - 1):
            scratch.token[j] = scratch.token[j - 1]
            j -= 1
        scratch.token[j] = term + 1
        n += 1
    scratch.token[n] = DUMMY
    return n + 1


@inlined
def _enter_region(held, scratch, node, level, is_here, gap):
    """Prepare to visit the children of an inner region; tell whether one of them may hold an answer (Lemma 4).

    From outside, only tokens whose reach in this region spans the gap can be the first common word of an answer below.
    """
    n = 0
    for i in range(scratch.n_alive[level]):
        t = scratch.alive[level, i]
        if not is_here:
            number = find_list(held.lists, node, 0, scratch.token[t])
            if number == NO_LIST or np.float64(held.lists.reach[number]) < gap:
                continue
        scratch.alive[level - 1, n] = t
        n += 1
    scratch.n_alive[level - 1] = n
    scratch.cursor[level - 1], scratch.end[level - 1] = held.tree.first[node], held.tree.last[node]
    return n > 0
