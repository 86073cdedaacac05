"""Removes atoms from the pyramid: visits every cell that may have one, and frees what no atom needs any more.

A keyword stays frequent in a cell as long as an atom with it is in a trie of the cell or below the cell, because then
messages with it must go on; its last such atom takes the node along. What the search may leave out rests on that.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.indexes.papers.fast.layout import (
    BELOW,
    DEEPEST,
    HOLDS,
    KEY,
    MASK,
    N_CELLS,
    N_CHILDREN,
    N_FINAL,
    NO_LIST,
    NOT_YET,
    ONE,
    ONE_ENTRY,
    OWN,
    SHARED,
    STEP_BITS,
    THRESHOLD,
    USES,
    VACANT,
    ZERO,
    cell_prefix,
    copy_entry,
    entry_touches,
    find_slot,
    first_of,
    length_of,
    load_atom,
    release,
    release_node,
    row_of_atom,
    vacate,
)
from nearcast.indexes.papers.fast.shared_lists import set_list, slot_of_neighbour

#: Columns of a visit: a cell, and how often the atom had been found before its children were visited (-1: not yet).
V_LEVEL, V_X, V_Y, V_BEFORE = range(4)
N_VISIT = 4


@hot_kernel
def remove_atoms(pyramid, atoms, chosen, visit, path):
    """Take out the chosen atoms; `visit` is room for the cells to visit, `path` for the nodes of a way down a trie."""
    for k in range(chosen.size):
        atom = np.int64(chosen[k])
        n_words = load_atom(pyramid, atoms, atom)
        for i in range(n_words):
            if pyramid.word[i] >= 0:
                pyramid.wanted[pyramid.word[i]] -= 1
        found = ZERO
        n = _plan_visit(visit, ZERO, ZERO, ZERO, ZERO, NOT_YET)
        while n > 0:
            n -= 1
            level, x, y, before = visit[n, V_LEVEL], visit[n, V_X], visit[n, V_Y], visit[n, V_BEFORE]
            if before >= 0:
                if found > before:
                    _one_less(pyramid, n_words, level, x, y, ONE)
            elif _remove_from_cell(pyramid, atom, n_words, level, x, y, path):
                found += 1
            elif _may_be_below(pyramid, n_words, level, x, y):
                n = _plan_visit(visit, n, level, x, y, found)
                n = _plan_children(pyramid, visit, n, level, x, y)


@hot_kernel
def _plan_visit(visit, n, level, x, y, before):
    visit[n, V_LEVEL], visit[n, V_X], visit[n, V_Y], visit[n, V_BEFORE] = level, x, y, before
    return n + 1


@hot_kernel
def _plan_children(pyramid, visit, n, level, x, y):
    """Plan a visit to each cell one level down that the loaded atom touches; return how many are planned in all."""
    rect, shift = pyramid.rect, STEP_BITS - level - 1
    for cy in range(max(2 * y, rect[1] >> shift), min(2 * y + 1, rect[3] >> shift) + 1):
        for cx in range(max(2 * x, rect[0] >> shift), min(2 * x + 1, rect[2] >> shift) + 1):
            n = _plan_visit(visit, n, level + 1, cx, cy, NOT_YET)
    return n


@hot_kernel
def _may_be_below(pyramid, n_words, level, x, y):
    """Tell whether every word of the loaded atom is one of atoms below a cell."""
    slot = pyramid.slot
    if level == pyramid.state[DEEPEST]:
        return False
    for i in range(n_words):
        at = find_slot(slot, cell_prefix(level, x, y), pyramid.word[i])
        if slot[at, KEY] == VACANT or slot[at, HOLDS] >= 0 or pyramid.node[~slot[at, HOLDS], BELOW] == 0:
            return False
    return True


@hot_kernel
def _one_less(pyramid, n_words, level, x, y, n_below):
    """Count the loaded atom out of the tries of a cell and what is below it; nodes that are needed no more go."""
    slot, node = pyramid.slot, pyramid.node
    for i in range(n_words):
        at = find_slot(slot, cell_prefix(level, x, y), pyramid.word[i])
        root = ~slot[at, HOLDS]
        node[root, USES] -= 1
        node[root, BELOW] -= n_below
        if node[root, USES] == 0:
            vacate(slot, pyramid.state, at)
            release_node(node, pyramid.free, root)


@hot_kernel
def _remove_from_cell(pyramid, atom, n_words, level, x, y, path):
    """Take the loaded atom out of a list or a trie of a cell; False if it is in none."""
    slot, entry, prefix = pyramid.slot, pyramid.entry, cell_prefix(level, x, y)
    for i in range(n_words):
        at = find_slot(slot, prefix, pyramid.word[i])
        if slot[at, KEY] != VACANT and slot[at, HOLDS] >= 0:
            row = row_of_atom(entry, slot[at, HOLDS], atom)
            if row >= 0:
                _remove_from_list(pyramid, pyramid.word[i], level, x, y, row)
                return True
    at = find_slot(slot, prefix, pyramid.word[0])
    if slot[at, KEY] == VACANT or slot[at, HOLDS] >= 0:
        return False
    path[0] = ~slot[at, HOLDS]
    depth = _remove_from_trie(pyramid, atom, n_words, path)
    if depth < 0:
        return False
    _prune(pyramid, path, depth)
    _one_less(pyramid, n_words, level, x, y, ZERO)
    return True


@hot_kernel
def _remove_from_list(pyramid, term, level, x, y, row):
    """Take a row out of the list of a cell, and the list from every cell that none of its atoms touches any more."""
    slot, entry = pyramid.slot, pyramid.entry
    old = slot[find_slot(slot, cell_prefix(level, x, y), term), HOLDS]
    left = old - ONE_ENTRY
    copy_entry(entry, first_of(left) + length_of(left), row)
    set_list(slot, level, x, y, term, old, left)
    if left & SHARED:
        for k in range(1, 4):
            at = slot_of_neighbour(slot, level, x, y, k, term, left)
            if at >= 0 and not _touches_any(entry, left, level, x ^ (k & 1), y ^ (k >> 1)):
                vacate(slot, pyramid.state, at)
    if length_of(left) == 0:
        release(entry, pyramid.free, left)
    if not _touches_any(entry, left, level, x, y):
        vacate(slot, pyramid.state, find_slot(slot, cell_prefix(level, x, y), term))


@hot_kernel
def _touches_any(entry, a_list, level, x, y):
    first = first_of(a_list)
    for row in range(first, first + length_of(a_list)):
        if entry_touches(entry, row, level, x, y):
            return True
    return False


@hot_kernel
def _remove_from_trie(pyramid, atom, n_words, path):
    """Take the loaded atom out of the trie of `path[0]`; return the depth of the node that lost it, or -1."""
    slot, entry, node, depth = pyramid.slot, pyramid.entry, pyramid.node, 0
    while depth + 1 < n_words:
        at = find_slot(slot, pyramid.state[N_CELLS] + path[depth], pyramid.word[depth + 1])
        if slot[at, KEY] == VACANT:
            return -1
        holds = slot[at, HOLDS]
        if holds >= 0:
            row = row_of_atom(entry, holds, atom)
            if row < 0:
                return -1
            holds -= ONE_ENTRY
            copy_entry(entry, first_of(holds) + length_of(holds), row)
            slot[at, HOLDS] = holds
            if length_of(holds) == 0:
                release(entry, pyramid.free, holds)
                _drop_child(pyramid, path[depth], at)
            return depth
        depth += 1
        path[depth] = ~holds
    own = node[path[depth], OWN]
    row = row_of_atom(entry, own, atom) if own != NO_LIST else -1
    if row < 0:
        return -1
    _remove_from_own(pyramid, path[depth], row)
    return depth


@hot_kernel
def _remove_from_own(pyramid, node, row):
    """Take a row out of the list of a node, those that stay for good remaining at its front."""
    entry, nodes = pyramid.entry, pyramid.node
    left = nodes[node, OWN] - ONE_ENTRY
    if row < first_of(left) + nodes[node, N_FINAL]:
        nodes[node, N_FINAL] -= 1
        last_final = first_of(left) + nodes[node, N_FINAL]
        copy_entry(entry, last_final, row)
        row = last_final
    copy_entry(entry, first_of(left) + length_of(left), row)
    nodes[node, OWN] = left
    if length_of(left) == 0:
        release(entry, pyramid.free, left)
        nodes[node, OWN] = NO_LIST


@hot_kernel
def _drop_child(pyramid, node, at):
    vacate(pyramid.slot, pyramid.state, at)
    pyramid.node[node, N_CHILDREN] -= 1
    if pyramid.node[node, N_CHILDREN] == 0:
        pyramid.node[node, MASK] = 0


@hot_kernel
def _prune(pyramid, path, depth):
    """Make the node at the end of a path a list again if it has few entries and no children; drop it if it has none."""
    slot, node = pyramid.slot, pyramid.node
    while depth > 0:
        last, parent = path[depth], path[depth - 1]
        own = node[last, OWN]
        length = 0 if own == NO_LIST else length_of(own)
        if node[last, N_CHILDREN] > 0 or 2 * length > pyramid.state[THRESHOLD]:
            return
        at = find_slot(slot, pyramid.state[N_CELLS] + parent, pyramid.word[depth])
        release_node(node, pyramid.free, last)
        if length > 0:
            slot[at, HOLDS] = own
            return
        _drop_child(pyramid, parent, at)
        depth -= 1
