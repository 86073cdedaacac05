"""The search of one leaf: the lists of the prefix, then further ones or verifying, whichever costs less (Algorithm 3).

From beyond a leaf, lists and entries that reach less far than the message is away were skipped when looking for
candidates. They may hold a candidate's second word, so they are walked before the first spatio-textual lists, and count
as part of that cost.

Reaches are stored as float32 and read as float64: as a float32, a comparison would round the distance it is made with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import inlined
from nearcast.indexes.papers.stamp.bounds import LEVELS, cost_of_filtering
from nearcast.indexes.papers.stamp.candidates import (
    ALWAYS,
    COST,
    DEEPER,
    FIRST,
    MODEL,
    N_OPEN,
    NEXT,
    PREFIX,
    SKIPPED,
    close_hopeless,
    verify_open,
    visit,
)
from nearcast.indexes.papers.stamp.lists import END, NO_LIST, find_list
from nearcast.indexes.papers.stamp.prefixes import BEYOND, HERE

#: More entries than there are.
_NO_LIMIT = 2**31 - 1
#: Where a list begins that was not walked at all.
_NOT_WALKED = -1


class Leaf(NamedTuple):
    """A leaf as a message meets it: from inside (`is_here`) or from a distance of at least `gap`."""

    node: int
    is_here: bool
    gap: float
    is_earth: bool
    strategy: int
    message: int
    n_places: int
    n_tokens: int


@inlined
def search_leaf(held, batch, scratch, found, leaf, at):
    """Write the answers among the members of a leaf, whose lists are open; return where the answers end."""
    members, side = held.members, 0 if leaf.is_here else 1
    members.number[FIRST] = members.number[NEXT]
    members.number[N_OPEN] = 0
    members.number[COST] = 0
    level, phase = np.int64(0), np.int64(PREFIX)
    while True:
        at = _walk(held, batch, scratch, found, leaf, phase, level, at)
        if phase == SKIPPED:
            phase = DEEPER
            continue
        if leaf.is_here or phase == DEEPER:
            close_hopeless(members, scratch, side, level)
        level += 1
        if members.number[N_OPEN] == 0 or not _goes_on(held, scratch, leaf, side, level):
            break
        phase = DEEPER if leaf.is_here or level > 1 else SKIPPED
    return verify_open(held, batch, scratch, found, leaf, at)


@inlined
def _goes_on(held, scratch, leaf, side, level):
    """Find the lists of a level; tell whether to walk them before verifying what is open (Section V-C)."""
    if (leaf.strategy != MODEL and leaf.strategy != ALWAYS) or level == LEVELS:
        return False
    total = held.level_total[leaf.node, side, level]
    if total == 0:
        return False
    number = held.members.number
    limit = number[COST] if leaf.strategy == MODEL else _NO_LIMIT
    listed = _find_level(held, scratch, leaf, level, limit)
    skipped = 0
    if level == 1 and not leaf.is_here and listed < limit:
        skipped = _find_skipped(held, scratch, leaf, limit - listed)
    return limit > skipped + cost_of_filtering(number[COST], number[N_OPEN], listed, total)


# --- walking ----------------------------------------------------------------------------------------------------


@inlined
def _walk(held, batch, scratch, found, leaf, phase, level, at):
    """Visit the entries of the lists that a phase calls for, token by token; return where the answers end."""
    lists, entries, late = held.lists, held.entries, held.late
    side = HERE if leaf.is_here else BEYOND
    for t in range(leaf.n_tokens):
        number = scratch.level_list[t] if phase == DEEPER else scratch.found_list[t]
        if number == NO_LIST:
            continue
        e, last = _bulk_part(lists, scratch, leaf, phase, t, number)
        least = leaf.gap if phase == PREFIX else -1.0
        below = leaf.gap if phase == SKIPPED and scratch.resume[t] != _NOT_WALKED else np.inf
        is_late = False
        while True:
            if is_late:
                if e == END:
                    break
                member, reach, rest = late.member[e], np.float64(late.reach[e]), late.rest[e]
                is_asked = late.side[e] & side and reach >= least and (reach < below or below == np.inf)
                e = late.next[e]
                if not is_asked:
                    continue
            elif e < last and np.float64(entries.reach[e]) >= least:
                member, reach, rest = entries.member[e], np.float64(entries.reach[e]), entries.rest[e]
                e += 1
            else:
                if phase == PREFIX:
                    scratch.resume[t] = e
                e, is_late = lists.head[number], True
                continue
            at = visit(
                held, batch, scratch, found, leaf, phase, level, scratch.token[t], member, reach, rest, at
            )  # fmt: skip
    return at


@inlined
def _bulk_part(lists, scratch, leaf, phase, t, number):
    """Return the first and the end of the entries of a list, but for the late ones, that a phase visits."""
    if phase == PREFIX or (phase == DEEPER and leaf.is_here):
        return lists.start[number] if leaf.is_here else lists.both[number, 0], lists.both[number, 1]
    if phase == SKIPPED:
        return _first_skipped(lists, scratch, t), lists.both[number, 1]
    return lists.both[number, 0], lists.start[number + 1]


@inlined
def _first_skipped(lists, scratch, t):
    """Return where the part of a token's list in the prefix begins that was not walked."""
    resume = scratch.resume[t]
    return lists.both[scratch.found_list[t], 0] if resume == _NOT_WALKED else resume


# --- finding ----------------------------------------------------------------------------------------------------


@inlined
def open_lists(held, scratch, node, n_tokens, is_here, gap):
    """Find the lists of a leaf's prefixes to walk, by token; tell whether there is one."""
    is_any = False
    for t in range(n_tokens):
        scratch.found_list[t] = NO_LIST
        scratch.resume[t] = _NOT_WALKED
    for i in range(scratch.n_alive[1]):
        t = scratch.alive[1, i]
        number = find_list(held.lists, node, 0, scratch.token[t])
        if number != NO_LIST and (is_here or np.float64(held.lists.reach[number]) >= gap):
            scratch.found_list[t] = number
            is_any = True
    return is_any


@inlined
def _find_level(held, scratch, leaf, level, limit):
    """Find the lists of a level; return how many entries they have for this side.

    Stops when they are as many as the limit. Common words, whose lists are long, come first; the dummy is the last of
    the tokens and on no level but the prefix.
    """
    lists, n, t = held.lists, 0, leaf.n_tokens - 1
    side = HERE if leaf.is_here else BEYOND
    scratch.level_list[t] = NO_LIST
    while t > 0 and n < limit:
        t -= 1
        number = find_list(lists, leaf.node, level, scratch.token[t])
        scratch.level_list[t] = number
        if number != NO_LIST:
            first, last = _bulk_part(lists, scratch, leaf, DEEPER, t, number)
            n += last - first + _n_late(held, number, side, np.inf)
    return n


@inlined
def _find_skipped(held, scratch, leaf, limit):
    """Find the lists of the prefix that were not opened; return how many entries have not been looked at, up to limit.

    The dummy adds no common word, and is left out.
    """
    lists, n, t = held.lists, 0, leaf.n_tokens - 1
    scratch.found_list[t] = NO_LIST
    while t > 0 and n < limit:
        t -= 1
        if scratch.resume[t] == _NOT_WALKED:
            scratch.found_list[t] = find_list(lists, leaf.node, 0, scratch.token[t])
        number = scratch.found_list[t]
        if number != NO_LIST:
            below = np.inf if scratch.resume[t] == _NOT_WALKED else leaf.gap
            n += lists.both[number, 1] - _first_skipped(lists, scratch, t) + _n_late(held, number, BEYOND, below)
    return n


@inlined
def _n_late(held, number, side, below):
    """Return how many late entries a list has for a side that reach less than `below`, for inf all of them."""
    n, e = 0, held.lists.head[number]
    while e != END:
        if held.late.side[e] & side and (np.float64(held.late.reach[e]) < below or below == np.inf):
            n += 1
        e = held.late.next[e]
    return n
