"""Files live messages in the m-lists of an AP+-Tree: the paths that Algorithm 1 takes, empty cuts and cells included.

A message goes to the lists of all slots in which its path ends: leaves, and cells and cuts that hold nothing yet, so
that a leaf made there later has its messages. At a k-node it also goes to the dummy cut, which so has every message
that came to the node: whoever asks for a word in no cut reads there. At an s-node it goes to the cells alone, which
hold every place.

A message may have at most so many copies. A node whose slots would exceed that keeps the message in its own list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.papers.ap_plus_tree.layout import COUNT_HELD, FILED, FIRST_HELD, MEMBERS, NO_RANK, ROOM_HELD
from nearcast.indexes.papers.ap_tree.layout import (
    AUX,
    COUNT,
    FIRST,
    KEYWORD,
    KIND,
    LEAF,
    NO_CHILD,
    ROOM,
    ROOT,
    cut_index,
    line_index,
)
from nearcast.indexes.papers.ap_tree.order import insert_ascending
from nearcast.indexes.shared.predicates import message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAST_ROOM = 4
#: A float32 is within `ROUNDING` times its size plus `LEAST` of what was rounded, up to `_LARGEST`.
ROUNDING, LEAST, _LARGEST = 1.2e-7, 1e-37, 1e37
_STAYS = -1


class FilingScratch(NamedTuple):
    """Scratch arrays for one message.

    The ranks of its words, a stack of (list, first word that counts), the lists that it goes to, and its rectangles.
    """

    rank: NDArray[np.int32]
    stack: NDArray[np.int64]
    target: NDArray[np.int64]
    place: NDArray[np.float64]

    @classmethod
    def new(cls, most_words: int, limit: int) -> FilingScratch:
        """Return scratch for messages of so many words with so many copies."""
        return cls(
            rank=np.empty(most_words + 1, np.int32),
            stack=np.empty((limit + 2, 2), np.int64),
            target=np.empty(2 * limit + 4, np.int64),
            place=np.empty((2, 4)),
        )


@hot_kernel
def file_rows(tree, lists, table, rank_of_word, first, last, dropped, limit, scratch):
    """File new rows, in order; return the first that there is no room for, or `last`.

    Rows that have copies, and those dropped, with `expires` <= `dropped`, are passed over. `used[FILED]` counts the
    rows that are done.
    """
    for row in range(first, last):
        is_new = table.expires[row] > dropped and lists.copies[row] == 0
        if is_new and not _file(tree, lists, table, rank_of_word, row, 0, dropped, limit, scratch):
            return row
        lists.used[FILED] = row + 1
    return last


@hot_kernel
def file_below(tree, lists, table, rank_of_word, rows, done, start, dropped, limit, scratch):
    """File rows below the node of one list, from number `done` on; return the first there is no room for, or all."""
    for i in range(done, rows.size):
        if not _file(tree, lists, table, rank_of_word, rows[i], start, dropped, limit, scratch):
            return i
    return rows.size


@inlined
def _file(tree, lists, table, rank_of_word, row, start, dropped, limit, scratch):
    """Enter a row in all lists it goes to; return whether there was room, without which nothing is changed."""
    n = _find_targets(tree, table, rank_of_word, row, start, limit - lists.copies[row], scratch)
    return enter_in_all(lists, table, scratch.target, n, row, dropped)


@inlined
def enter_in_all(lists, table, target, n, row, dropped):
    """Append a row to the first n lists that are named; return whether there was room, else what is needed is noted."""
    held, need = lists.held, 0
    for i in range(n):
        if held[target[i], COUNT_HELD] == held[target[i], ROOM_HELD]:
            need += max(2 * held[target[i], ROOM_HELD], _LEAST_ROOM)
    if lists.used[MEMBERS] + need > lists.member.size:
        lists.need[0] = need
        return False
    x, y = point_of(table.box, row)
    for i in range(n):
        _enter_row(lists, table.expires, target[i], row, x, y, dropped)
    return True


@inlined
def point_of(box, row):
    """Return a point as float32 holds it; not a number where a place is none, or too far off."""
    x, y = box[row, 0], box[row, 1]
    if x != box[row, 2] or y != box[row, 3] or abs(x) > _LARGEST or abs(y) > _LARGEST:
        return np.float32(np.nan), np.float32(np.nan)
    return np.float32(x), np.float32(y)


@inlined
def _enter_row(lists, expires, at, row, x, y, dropped):
    """Append a row to a list, unless it is the last one there: a message of two rectangles can come twice."""
    held, member = lists.held, lists.member
    first, count = held[at, FIRST_HELD], held[at, COUNT_HELD]
    if count > 0 and member[first + count - 1] == row:
        return
    if count == held[at, ROOM_HELD]:
        count = _purge(lists, expires, first, count, dropped)
        if 2 * count > held[at, ROOM_HELD] or count == held[at, ROOM_HELD]:
            new, room = lists.used[MEMBERS], max(2 * count, _LEAST_ROOM)
            for i in range(count):
                copy_member(lists, first + i, new + i)
            lists.used[MEMBERS] = new + room
            held[at, FIRST_HELD], held[at, ROOM_HELD] = new, room
            first = new
    member[first + count] = row
    lists.point[first + count, 0], lists.point[first + count, 1] = x, y
    held[at, COUNT_HELD] = count + 1
    lists.copies[row] += 1


@inlined
def _purge(lists, expires, first, count, dropped):
    """Take the rows that are over out of a list of so many; return how many remain."""
    i, end = first, first + count
    while i < end:
        if expires[lists.member[i]] > dropped:
            i += 1
        else:
            end -= 1
            lists.copies[lists.member[i]] -= 1
            copy_member(lists, end, i)
    return end - first


@inlined
def copy_member(lists, source, target):
    """Copy a member to another place."""
    lists.member[target] = lists.member[source]
    for k in range(2):
        lists.point[target, k] = lists.point[source, k]


@inlined
def _find_targets(tree, table, rank_of_word, row, start, budget, scratch):
    """Write the lists that a row goes to, from that of number `start` downwards; return how many."""
    stack, target = scratch.stack, scratch.target
    n_ranks = write_ranks(table, row, rank_of_word, scratch.rank)
    n = 0
    for part in range(message_parts(table.box, row, scratch.place)):
        stack[0, 0], stack[0, 1] = start, 0
        depth = 1
        while depth > 0:
            depth -= 1
            at = stack[depth, 0]
            node = tree.child[at - 1] if at > 0 else ROOT
            is_end = node == NO_CHILD or tree.node[node, KIND] == LEAF
            below = _STAYS if is_end else _push_slots(tree, node, n_ranks, part, depth, budget - n, scratch)
            if below == _STAYS:
                target[n] = at
                n += 1
            else:
                depth = below
    return n


@inlined
def write_ranks(table, row, rank_of_word, ranks):
    """Write the ranks of a message's words, ascending, each once; return how many."""
    n = 0
    for i in range(table.term_start[row], table.term_start[row + 1]):
        word = table.term[i]
        rank = rank_of_word[word] if word >= 0 else NO_RANK
        if rank != NO_RANK:
            at = 0
            while at < n and ranks[at] != rank:
                at += 1
            if at == n:
                insert_ascending(ranks, 0, n, rank)
                n += 1
    return n


@inlined
def _push_slots(tree, node, n_ranks, part, depth, most, scratch):
    """Put the lists of a node's slots that a message meets on the stack in place of its own; return the new depth.

    It is `_STAYS` if there would be more than `most` lists on the stack.
    """
    row, first_word = tree.node[node], scratch.stack[depth, 1]
    if row[KIND] == KEYWORD:
        return _push_cuts(tree, row, n_ranks, first_word, depth, most, scratch)
    place, columns, rows, line = scratch.place, row[COUNT], row[ROOM], row[AUX]
    y_line = line + columns - 1
    left = line_index(tree, line, columns - 1, place[part, 0])
    right = line_index(tree, line, columns - 1, place[part, 2])
    top = line_index(tree, y_line, rows - 1, place[part, 1])
    bottom = line_index(tree, y_line, rows - 1, place[part, 3])
    if depth + (right - left + 1) * (bottom - top + 1) > most:
        return _STAYS
    for i in range(left, right + 1):
        for j in range(top, bottom + 1):
            depth = _push(row[FIRST] + i * rows + j, first_word, scratch.stack, depth)
    return depth


@inlined
def _push_cuts(tree, row, n_ranks, first_word, depth, most, scratch):
    """Push the dummy cut, and every cut once that a word of the message hits, with the words behind that one."""
    at, i = 0, first_word
    if depth + 1 > most:
        return _STAYS
    depth = _push(row[FIRST] + row[COUNT], first_word, scratch.stack, depth)
    while i < n_ranks and at < row[COUNT]:
        at += cut_index(tree, row[AUX] + at, row[COUNT] - at, scratch.rank[i])
        if at == row[COUNT]:
            break
        if scratch.rank[i] < tree.cut[row[AUX] + at, 0]:
            i += 1
            continue
        if depth + 1 > most:
            return _STAYS
        depth = _push(row[FIRST] + at, i + 1, scratch.stack, depth)
        while i < n_ranks and scratch.rank[i] <= tree.cut[row[AUX] + at, 1]:
            i += 1
        at += 1
    return depth


@inlined
def _push(slot, first_word, stack, depth):
    stack[depth, 0], stack[depth, 1] = slot + 1, first_word
    return depth + 1
