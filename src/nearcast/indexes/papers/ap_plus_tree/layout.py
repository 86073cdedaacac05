"""The m-lists of an AP+-Tree: live messages by slot of the tree, in flat arrays (paper, section 4.2.2).

List 0 is that of the root, list s + 1 that of slot s, whether or not a node hangs there. Lists belong to slots so that
a leaf that is made later finds the messages that came before it. What a list held before it moved to larger room stays
behind as waste until `packed` copies what counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.indexes.papers.ap_tree.layout import (
    COUNT,
    DEAD,
    FIRST,
    KEYWORD,
    KIND,
    LEAF,
    NO_CHILD,
    NODES,
    ROOM,
    ROOT,
    ApTreeArrays,
    n_slots,
    resized,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Columns of `MessageListArrays.held`.
FIRST_HELD, COUNT_HELD, ROOM_HELD = range(3)
#: Columns of `MessageListArrays.used`.
MEMBERS, FILED = range(2)
#: The rank of a word that no subscription has: above all others.
NO_RANK = np.iinfo(np.int32).max
#: Members that may be waste beside as many as count.
LITTLE_WASTE = 4096


class MessageListArrays(NamedTuple):
    """Lists of messages, by their row in the table of live messages.

    List i has the rows `member[first:first + count]` and room for more, by `held[i]`. `point` has the place of each
    member, rounded, so that most of a list is read without the table; not a number for what is no point. `copies` says
    by row how many lists hold it. `used` counts the members, waste included, and the rows that have been filed; `need`
    is the room that a kernel asked for before it gave up.
    """

    held: NDArray[np.int64]
    member: NDArray[np.int32]
    point: NDArray[np.float32]
    copies: NDArray[np.int32]
    used: NDArray[np.int64]
    need: NDArray[np.int64]


def empty_lists() -> MessageListArrays:
    """Return lists without members."""
    return MessageListArrays(
        held=np.zeros((1, 3), np.int64),
        member=np.zeros(64, np.int32),
        point=np.zeros((64, 2), np.float32),
        copies=np.zeros(64, np.int32),
        used=np.zeros(2, np.int64),
        need=np.zeros(1, np.int64),
    )


def with_room(lists: MessageListArrays, n_lists: int, n_rows: int) -> MessageListArrays:
    """Return the lists with room for so many of them and so many rows, and for the members that a kernel asked for."""
    held, member, point, copies = lists.held, lists.member, lists.point, lists.copies
    if n_lists > len(held):
        held = resized(held, n_lists + n_lists // 4, len(held))
    if n_rows > len(copies):
        copies = resized(copies, n_rows + n_rows // 4, len(copies))
    wanted = int(lists.used[MEMBERS] + lists.need[0])
    if wanted > len(member):
        n = max(wanted, len(member) + len(member) // 2)
        member, point = (resized(array, n, int(lists.used[MEMBERS])) for array in (member, point))
    lists.need[0] = 0
    return lists._replace(held=held, member=member, point=point, copies=copies)


def packed(lists: MessageListArrays) -> MessageListArrays:
    """Return the lists without waste, where it is the greater part of them, with some room in each and behind all."""
    count = lists.held[:, COUNT_HELD]
    if lists.used[MEMBERS] <= 2 * int(count.sum()) + LITTLE_WASTE:
        return lists
    room = np.where(count > 0, count + count // 4 + 1, 0)
    total = int(room.sum())
    held = np.column_stack([np.cumsum(room) - room, count, room])
    fresh = lists._replace(
        held=np.ascontiguousarray(held),
        member=np.empty(total + total // 4, np.int32),
        point=np.empty((total + total // 4, 2), np.float32),
        used=np.array([total, lists.used[FILED]]),
    )
    _copy_members(lists, fresh)
    return fresh


@hot_kernel
def _copy_members(lists, fresh):
    """Copy the members of all lists to where others of the same numbers have room for them."""
    for at in range(fresh.held.shape[0]):
        source, target = lists.held[at, FIRST_HELD], fresh.held[at, FIRST_HELD]
        for i in range(fresh.held[at, COUNT_HELD]):
            fresh.member[target + i] = lists.member[source + i]
            for k in range(2):
                fresh.point[target + i, k] = lists.point[source + i, k]


def renumbered(lists: MessageListArrays, before: ApTreeArrays, after: ApTreeArrays) -> MessageListArrays:
    """Return the lists under the slots of a tree that was compacted."""
    node = before.node[: int(before.used[NODES])]
    live = np.flatnonzero(node[:, KIND] != DEAD)
    is_parted = node[live, KIND] != LEAF
    parted = node[live[is_parted]].astype(np.int64)
    n = np.where(parted[:, KIND] == KEYWORD, parted[:, COUNT], parted[:, COUNT] * parted[:, ROOM]) + 1
    behind = np.repeat(np.cumsum(n) - n, n)
    within = np.arange(int(n.sum())) - behind
    old = np.repeat(parted[:, FIRST], n) + within
    new = np.repeat(after.node[: len(live)][is_parted, FIRST], n) + within
    held = np.zeros((len(after.child) + 1, 3), np.int64)
    held[0] = lists.held[0]
    known = old + 1 < len(lists.held)
    held[new[known] + 1] = lists.held[old[known] + 1]
    return lists._replace(held=held)


def lists_of_nodes(tree: ApTreeArrays, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the list of each of these live nodes."""
    slot = np.flatnonzero(np.isin(tree.child, nodes))
    at = np.zeros(int(tree.used[NODES]), np.int64)
    at[tree.child[slot]] = slot + 1
    at[ROOT] = 0
    return at[nodes]


def taken_below(tree: ApTreeArrays, lists: MessageListArrays, start: int) -> NDArray[np.int32]:
    """Empty one list and all below it; return the rows that were there, each once."""
    queue = np.empty(len(lists.held), np.int64)
    n_lists, n_rows = _collect(tree, lists, start, queue)
    rows = np.empty(n_rows, np.int32)
    _empty(lists, queue[:n_lists], rows)
    return np.unique(rows)


@hot_kernel
def _collect(tree, lists, start, queue):
    """Write the lists at and below one that hold something; return how many, and how many rows they have."""
    # The queue is both: lists that are to be looked at from the end, lists that hold something from the beginning.
    n, n_rows, top = 0, 0, queue.size - 1
    queue[top] = start
    while top < queue.size:
        at = queue[top]
        top += 1
        node = tree.child[at - 1] if at > 0 else ROOT
        if lists.held[at, COUNT_HELD] > 0:
            queue[n] = at
            n, n_rows = n + 1, n_rows + lists.held[at, COUNT_HELD]
        if node != NO_CHILD and tree.node[node, KIND] != LEAF:
            for slot in range(tree.node[node, FIRST], tree.node[node, FIRST] + n_slots(tree, node)):
                if slot + 1 < lists.held.shape[0] and (tree.child[slot] != NO_CHILD or _holds(lists, slot)):
                    top -= 1
                    queue[top] = slot + 1
    return n, n_rows


@hot_kernel
def _holds(lists, slot):
    return lists.held[slot + 1, COUNT_HELD] > 0


@hot_kernel
def _empty(lists, which, rows):
    """Write the rows of some lists end to end, and leave these empty."""
    n = 0
    for at in which:
        first = lists.held[at, FIRST_HELD]
        for i in range(first, first + lists.held[at, COUNT_HELD]):
            rows[n] = lists.member[i]
            lists.copies[rows[n]] -= 1
            n += 1
        for k in range(3):
            lists.held[at, k] = 0
