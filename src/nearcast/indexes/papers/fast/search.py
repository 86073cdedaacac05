"""The search of `fast`: visits the cells of a message from the coarsest to the finest, with ever fewer of its words.

A message first gathers the lists that it must read, from cells and from nodes of tries, and then reads them: so the
processor can look up the next word while it still waits for the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.papers.fast.layout import (
    ATOM,
    BELOW,
    HOLDS,
    KEY,
    MASK,
    N_CELLS,
    N_CHILDREN,
    NO_LIST,
    OWN,
    ROW_MASK,
    STEP_BITS,
    VACANT,
    WORD,
    WORDLESS,
    X_MAX,
    X_MIN,
    Y_MAX,
    Y_MIN,
    cell_prefix,
    first_of,
    home_of,
    key_of,
    length_of,
    step_of,
    term_bit,
)
from nearcast.indexes.shared.boolean_index import LOOKED_AT, VERIFIED, enter, finish_message, verify
from nearcast.indexes.shared.kernel_message import begin_message, sort_words
from nearcast.indexes.shared.predicates import boxes_overlap, message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Columns of a stop on the way of a message: a cell (S_NODE is -1), or a node of a trie in a cell of this level, where
#: the cell's frequent words from S_FROM on are looked up.
S_LEVEL, S_X, S_Y, S_NODE, S_FROM = range(5)
_A_CELL = -1
#: Columns of a lookup: where its slot should be, its key, the level, and from where the words of a next node count
#: (-1: the lookup is to a cell). A_FIRST is only read ahead.
A_SLOT, A_KEY, A_LEVEL, A_FROM, A_FIRST = range(5)
#: Columns of a frequent keyword or a node that was found: its node, and what the lookup was.
F_NODE, F_TERM, F_LEVEL, F_FROM, F_FIRST = range(5)
#: As many lookups at a time as the processor can wait for together, and more.
_AT_ONCE = 128
_MANY_LISTS = 1024


class FastScratch(NamedTuple):
    """Scratch arrays for one message: the stack of cells and trie nodes to visit, and the lists found so far.

    `alive[l, :n_alive[l]]` are the words to look up in a cell of level l, those of its parent that go on;
    `frequent[l, :n_frequent[l]]` those of them that are frequent there. Both have the rarest first.
    """

    alive: NDArray[np.int32]
    n_alive: NDArray[np.int64]
    frequent: NDArray[np.int32]
    n_frequent: NDArray[np.int64]
    stop: NDArray[np.int64]
    lookup: NDArray[np.int64]
    frequent_found: NDArray[np.int64]
    a_list: NDArray[np.int64]
    ahead: NDArray[np.int32]
    rect: NDArray[np.int64]
    cell: NDArray[np.int64]


def room_for(n_levels: int, n_message_words: int, n_atom_words: int) -> FastScratch:
    """Return room for messages with so many words at most, of a pyramid whose atoms have so many at most."""
    n_words = n_message_words + 1
    rows, at_once = (n_levels + 1, n_words), max(_AT_ONCE, n_words)
    return FastScratch(
        alive=np.empty(rows, np.int32),
        n_alive=np.zeros(n_levels + 1, np.int64),
        frequent=np.empty(rows, np.int32),
        n_frequent=np.zeros(n_levels + 1, np.int64),
        stop=np.empty(((n_levels + n_atom_words + 1) * (at_once + 4), 5), np.int64),
        lookup=np.empty((at_once, 5), np.int64),
        frequent_found=np.empty((at_once, 5), np.int64),
        a_list=np.empty(_MANY_LISTS + at_once, np.int64),
        ahead=np.empty(_MANY_LISTS + at_once, np.int32),
        rect=np.empty(4, np.int64),
        cell=np.empty(3, np.int64),
    )


@hot_kernel
def search_pyramid(pyramid, atoms, batch, room, first, found):
    """Search the messages from `first` on; return the first that is not done."""
    at = found.end[first - 1] if first > 0 else 0
    for message in range(first, found.end.size):
        looked_at, verified = found.tally[LOOKED_AT], found.tally[VERIFIED]
        n_words = begin_message(batch, message)
        n_places = message_parts(batch.box, message, batch.place)
        room.n_alive[0] = _words_in_order(pyramid, batch, n_words, room.alive)
        for part in range(n_places):
            for k in range(4):
                room.rect[k] = step_of(pyramid.frame, k % 2, batch.place[part, k])
            n_stops = _add_stop(room.stop, 0, 0, 0, 0, _A_CELL, 0)
            while n_stops > 0:
                n_stops, n_lists = _gather(pyramid, room, n_stops)
                for i in range(n_lists):
                    looked_at += length_of(room.a_list[i])
                verified, at = _read(pyramid, atoms, batch, message, part, n_places, room, n_lists, found, verified, at)
        if not finish_message(batch, message, n_words, found, at, looked_at, verified):
            return message
    return found.end.size


@inlined
def _words_in_order(pyramid, batch, n_words, alive):
    """Write the words of a message in the order of tries, what every message has first; return how many."""
    sort_words(batch.word, n_words, pyramid.rank)
    alive[0, 0] = WORDLESS
    for i in range(n_words):
        alive[0, i + 1] = batch.word[i]
    return n_words + 1


@inlined
def _add_stop(stop, n, level, x, y, node, start):
    stop[n, S_LEVEL], stop[n, S_X], stop[n, S_Y], stop[n, S_NODE], stop[n, S_FROM] = level, x, y, node, start
    return n + 1


@inlined
def _gather(pyramid, room, n_stops):
    """Go on until no stop is left or the lists are many; return how many stops are left and how many lists there are.

    Stops are taken last in, first out: all of a cell and below it before its neighbour, so that the words of the cell
    stand in their rows of `room` as long as they are needed. A point has one cell a level, so several stops are taken
    at a time, as many as there is room for their lookups.
    """
    is_point = room.rect[0] == room.rect[2] and room.rect[1] == room.rect[3]
    at_once = room.lookup.shape[0] // room.alive.shape[1] if is_point else 1
    n_lists = 0
    while n_stops > 0 and n_lists + room.lookup.shape[0] <= room.a_list.size:
        first = max(0, n_stops - at_once)
        n_lookups = _plan_lookups(pyramid, room, first, n_stops)
        n_found, n_lists = _look_up(pyramid, room, n_lookups, n_lists)
        n_stops, n_lists = _go_on(pyramid, room, n_found, first, n_lists)
        n_stops = _add_children(room, n_stops)
    return n_stops, n_lists


@inlined
def _plan_lookups(pyramid, room, first, n_stops):
    """List the keys that the stops from `first` on must look up; return how many. A cell among them is noted."""
    room.cell[0] = -1
    n = 0
    for s in range(first, n_stops):
        level, node, start = room.stop[s, S_LEVEL], room.stop[s, S_NODE], room.stop[s, S_FROM]
        if node == _A_CELL:
            room.cell[0], room.cell[1], room.cell[2] = level, room.stop[s, S_X], room.stop[s, S_Y]
            room.n_frequent[level] = room.n_alive[level + 1] = 0
            prefix = cell_prefix(level, room.stop[s, S_X], room.stop[s, S_Y])
            for i in range(room.n_alive[level]):
                _add_lookup(pyramid.slot, room.lookup, n, prefix, room.alive[level, i], level, -1)
                n += 1
        else:
            prefix, mask = pyramid.state[N_CELLS] + node, pyramid.node[node, MASK]
            for i in range(start, room.n_frequent[level]):
                if mask & term_bit(room.frequent[level, i]):
                    _add_lookup(pyramid.slot, room.lookup, n, prefix, room.frequent[level, i], level, i + 1)
                    n += 1
    return n


@inlined
def _add_lookup(slot, lookup, n, prefix, term, level, start):
    at = home_of(prefix, term, slot.shape[0])
    lookup[n, A_SLOT], lookup[n, A_KEY], lookup[n, A_LEVEL], lookup[n, A_FROM] = (
        at,
        key_of(prefix, term),
        level,
        start,
    )
    lookup[n, A_FIRST] = slot[at, KEY]


@inlined
def _look_up(pyramid, room, n_lookups, n_lists):
    """Look up the listed keys: lists are gathered, nodes kept for the next step; return how many of both there are."""
    slot, node, lookup, found = pyramid.slot, pyramid.node, room.lookup, room.frequent_found
    last, n = slot.shape[0] - 1, 0
    for q in range(n_lookups):
        at, key = lookup[q, A_SLOT], lookup[q, A_KEY]
        while slot[at, KEY] != key and slot[at, KEY] != VACANT:
            at = (at + 1) & last
        if slot[at, KEY] == VACANT:
            continue
        holds = slot[at, HOLDS]
        if holds >= 0:
            n_lists = _add_list(pyramid.entry, room, holds, n_lists)
            continue
        found[n, F_NODE], found[n, F_TERM] = ~holds, (key & ROW_MASK) - 1
        found[n, F_LEVEL], found[n, F_FROM] = lookup[q, A_LEVEL], lookup[q, A_FROM]
        found[n, F_FIRST] = node[~holds, OWN]
        n += 1
    return n, n_lists


@inlined
def _add_list(entry, room, a_list, n_lists):
    room.a_list[n_lists] = a_list
    first = first_of(a_list)
    room.ahead[n_lists] = entry[first, ATOM] ^ entry[first + length_of(a_list) - 1, ATOM]
    return n_lists + 1


@inlined
def _go_on(pyramid, room, n_found, n_stops, n_lists):
    """Gather the lists of the nodes found and stop at those with children; frequent words of a cell stay alive.

    Those under which no atom has gone down from the cell do not: nobody below it needs them.
    """
    nodes, found = pyramid.node, room.frequent_found
    for f in range(n_found):
        node, level, start = found[f, F_NODE], found[f, F_LEVEL], found[f, F_FROM]
        if start < 0:
            room.frequent[level, room.n_frequent[level]] = found[f, F_TERM]
            room.n_frequent[level] += 1
            start = room.n_frequent[level]
            if nodes[node, BELOW] > 0:
                room.alive[level + 1, room.n_alive[level + 1]] = found[f, F_TERM]
                room.n_alive[level + 1] += 1
        if nodes[node, OWN] != NO_LIST:
            n_lists = _add_list(pyramid.entry, room, nodes[node, OWN], n_lists)
        if nodes[node, N_CHILDREN] > 0:
            n_stops = _add_stop(room.stop, n_stops, level, 0, 0, node, start)
    return n_stops, n_lists


@inlined
def _add_children(room, n_stops):
    """Go on from the cell just looked up, if any, to the cells below it that the message touches with a word alive."""
    level, x, y = room.cell[0], room.cell[1], room.cell[2]
    if level >= 0 and room.n_alive[level + 1] > 0:
        rect, shift = room.rect, STEP_BITS - level - 1
        for cy in range(max(2 * y, rect[1] >> shift), min(2 * y + 1, rect[3] >> shift) + 1):
            for cx in range(max(2 * x, rect[0] >> shift), min(2 * x + 1, rect[2] >> shift) + 1):
                n_stops = _add_stop(room.stop, n_stops, level + 1, cx, cy, _A_CELL, 0)
    return n_stops


@inlined
def _read(pyramid, atoms, batch, message, part, n_places, room, n_lists, found, verified, at):
    """Read the gathered lists and enter the atoms that hold; return how many were verified, and how many entered."""
    entry, has, place = pyramid.entry, batch.has, batch.place
    x_min, y_min, x_max, y_max = room.rect[0], room.rect[1], room.rect[2], room.rect[3]
    for i in range(n_lists):
        first = first_of(room.a_list[i])
        for row in range(first, first + length_of(room.a_list[i])):
            meets = (entry[row, X_MIN] <= x_max) & (entry[row, X_MAX] >= x_min)
            meets &= (entry[row, Y_MIN] <= y_max) & (entry[row, Y_MAX] >= y_min)
            if not meets or not _inline_words_hold(entry, row, has):
                continue
            verified += 1
            atom = entry[row, ATOM]
            if atom < 0:
                at = verify(atoms, ~atom, batch, message, n_places, found, at)
                continue
            # Borders a step apart, on all sides, overlap for certain; others are asked in full.
            inside = (entry[row, X_MIN] < x_max) & (entry[row, X_MAX] > x_min)
            inside &= (entry[row, Y_MIN] < y_max) & (entry[row, Y_MAX] > y_min)
            if inside or boxes_overlap(atoms.box, atom, place[part, 0], place[part, 1], place[part, 2], place[part, 3]):
                at = enter(atom, found, at)
    return verified, at


@inlined
def _inline_words_hold(entry, row, has):
    """Tell whether a message has the words that stand in an entry, the first of them being the rarest."""
    for k in range(WORD, ATOM):
        term = entry[row, k]
        if term < 0:
            return True
        if has[term] == 0:
            return False
    return True
