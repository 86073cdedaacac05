"""The search of an AP+-Tree that files messages by the way: one descent finds leaves and m-lists (Algorithm 5).

A message goes on to all leaves, whatever the limit of its copies. Below a node that keeps it, and in dummy cells,
where it has no list, it is searched and not filed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.papers.ap_plus_tree.filing import enter_in_all
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
from nearcast.indexes.papers.ap_tree.order import rank_message
from nearcast.indexes.papers.ap_tree.search import (
    BLOCK,
    WAITING,
    message_bits,
    set_corners,
    sift,
    verify_entry,
)
from nearcast.indexes.shared.boolean_index import LOOKED_AT, VERIFIED, finish_message
from nearcast.indexes.shared.kernel_message import begin_message
from nearcast.indexes.shared.predicates import message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray


class DescentScratch(NamedTuple):
    """Scratch arrays for one message: the leaves that it reaches, the lists that it goes to, and a stack.

    The stack has a list, the first word that counts there, and whether the message is filed there or below.
    """

    leaf: NDArray[np.int64]
    target: NDArray[np.int64]
    stack: NDArray[np.int64]

    @classmethod
    def new(cls, n_slots: int, limit: int) -> DescentScratch:
        """Return scratch for a tree of so many slots, and so many copies of a message."""
        return cls(
            np.empty(n_slots + 1, np.int64), np.empty(2 * limit + 4, np.int64), np.empty((n_slots + 1, 3), np.int64)
        )


@hot_kernel
def search_and_file(tree, rank, atoms, batch, first, found, scratch, lists, table, rows, dropped, limit, descent):
    """Search the messages from `first` on, and file each as a row; return the first that is not done.

    A row that its lists have no room for is not filed: `copies` tells.
    """
    at = found.end[first - 1] if first > 0 else 0
    for message in range(first, found.end.size):
        looked_at, verified = found.tally[LOOKED_AT], found.tally[VERIFIED]
        n_words = begin_message(batch, message)
        rank_message(batch.word, n_words, rank, scratch.rank)
        absent, n_targets = ~message_bits(batch.word, n_words), 0
        n_places = message_parts(batch.box, message, batch.place)
        for part in range(n_places):
            set_corners(batch.place, part, scratch.corner, scratch.inner)
            n_leaves, n_targets = _descend(tree, scratch.rank, n_words, batch.place, part, limit, descent, n_targets)
            for i in range(n_leaves):
                row = tree.node[descent.leaf[i]]
                looked_at += row[COUNT]
                entry, last = row[FIRST], row[FIRST] + row[COUNT]
                while entry < last:
                    n, entry = _sift_some(tree, entry, last, absent, scratch)
                    verified += n
                    for k in range(n):
                        waiting = scratch.waiting[k]
                        at = verify_entry(tree, waiting, atoms, batch, message, part, n_places, scratch, found, at)
        if not finish_message(batch, message, n_words, found, at, looked_at, verified):
            return message
        if lists.copies[rows[message]] == 0:
            enter_in_all(lists, table, descent.target, n_targets, rows[message], dropped)
    return found.end.size


@inlined
def _sift_some(tree, entry, last, absent, scratch):
    """Sift entries as long as there is room for those that wait; return how many do, and the next entry."""
    n = 0
    while entry < last and n <= WAITING - BLOCK:
        stop = min(last, entry + BLOCK)
        n = sift(tree, entry, stop, absent, scratch, n)
        entry = stop
    return n, entry


@inlined
def _descend(tree, ranks, n_ranks, place, part, limit, descent, n_targets):
    """Write the leaves that a rectangle of a message reaches; return how many, and how many lists it goes to by now."""
    stack, n_leaves, depth = descent.stack, 0, 1
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, 1
    n_open = 1  # lists on the stack in or below which it is still to be filed
    while depth > 0:
        depth -= 1
        at, first_word, is_filed = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        n_open -= is_filed
        node = tree.child[at - 1] if at > 0 else ROOT
        is_end = node == NO_CHILD or tree.node[node, KIND] == LEAF
        top = depth
        if not is_end:
            depth = _push_slots(tree, node, ranks, n_ranks, place, part, first_word, is_filed, stack, depth)
            n_new = 0
            for i in range(top, depth):
                n_new += stack[i, 2]
            if is_filed and n_targets + n_open + n_new > limit:
                is_end = True
                for i in range(top, depth):
                    stack[i, 2] = 0
            else:
                n_open += n_new
        elif node != NO_CHILD:
            descent.leaf[n_leaves] = node
            n_leaves += 1
        if is_end and is_filed:
            descent.target[n_targets] = at
            n_targets += 1
    return n_leaves, n_targets


@inlined
def _push_slots(tree, node, ranks, n_ranks, place, part, first_word, is_filed, stack, depth):
    """Put the lists of a node's slots that a message meets on the stack; return the new depth."""
    row = tree.node[node]
    if row[KIND] == KEYWORD:
        depth = _push(row[FIRST] + row[COUNT], first_word, is_filed, stack, depth)
        at, i = 0, first_word
        while i < n_ranks and at < row[COUNT]:
            at += cut_index(tree, row[AUX] + at, row[COUNT] - at, ranks[i])
            if at == row[COUNT]:
                break
            if ranks[i] < tree.cut[row[AUX] + at, 0]:
                i += 1
                continue
            depth = _push(row[FIRST] + at, i + 1, is_filed, stack, depth)
            while i < n_ranks and ranks[i] <= tree.cut[row[AUX] + at, 1]:
                i += 1
            at += 1
        return depth
    columns, rows, line = row[COUNT], row[ROOM], row[AUX]
    y_line = line + columns - 1
    if tree.child[row[FIRST] + columns * rows] != NO_CHILD:
        depth = _push(row[FIRST] + columns * rows, first_word, 0, stack, depth)
    top, bottom = line_index(tree, y_line, rows - 1, place[part, 1]), line_index(tree, y_line, rows - 1, place[part, 3])
    left, right = (
        line_index(tree, line, columns - 1, place[part, 0]),
        line_index(tree, line, columns - 1, place[part, 2]),
    )
    for i in range(left, right + 1):
        for j in range(top, bottom + 1):
            depth = _push(row[FIRST] + i * rows + j, first_word, is_filed, stack, depth)
    return depth


@inlined
def _push(slot, first_word, is_filed, stack, depth):
    stack[depth, 0], stack[depth, 1], stack[depth, 2] = slot + 1, first_word, is_filed
    return depth + 1
