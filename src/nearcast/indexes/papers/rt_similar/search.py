"""The search of `rt++-similar`: a breadth-first walk that reads the lists of the message's words in every node."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.shared.forest import skip_to
from nearcast.indexes.shared.kernel_message import begin_message, end_message
from nearcast.indexes.shared.one_by_one import LOOKED_AT, VERIFIED
from nearcast.indexes.shared.packed_rtree import place_gap
from nearcast.indexes.shared.predicates import message_parts
from nearcast.indexes.shared.rebuilt_index import axis_gap
from nearcast.indexes.shared.scores import near_score, text_score
from nearcast.indexes.shared.search_arrays import FoundSlots
from nearcast.similarity import near_of, score_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.papers.rt_similar.tree import RtTree


class RtSimilarScratch(NamedTuple):
    """Scratch arrays for one message: the queue of nodes with a bound on their proximity, and the positions verified.

    `is_seen` marks verified positions, 0 between messages; `seen` lists them.
    """

    queue: NDArray[np.int32]
    near: NDArray[np.float64]
    is_seen: NDArray[np.uint8]
    seen: NDArray[np.int32]
    place: NDArray[np.float64]


class RtSimilarCursors(NamedTuple):
    """Where the search is in the runs of each word of a message, the dummy last, and where these end."""

    run: NDArray[np.int64]
    end: NDArray[np.int64]


def new_scratch(tree: RtTree) -> RtSimilarScratch:
    """Return scratch arrays to search a tree."""
    n_nodes, n_positions = len(tree.forest.box), len(tree.row)
    is_seen, seen = np.zeros(n_positions, np.uint8), np.empty(n_positions, np.int32)
    return RtSimilarScratch(np.empty(n_nodes, np.int32), np.empty(n_nodes), is_seen, seen, np.empty((2, 4)))


def new_cursors(n_words: int) -> RtSimilarCursors:
    """Return cursors for messages of up to so many words."""
    return RtSimilarCursors(np.empty(n_words + 1, np.int64), np.empty(n_words + 1, np.int64))


@hot_kernel
def search_tree(tree, slot_of, batch, is_earth, scratch, cursors, message, slots, scores, tally):
    """Write the slots that want a message; return how many there are.

    Level by level: nodes come up in ascending order, and so the cursors only move forward.
    """
    found = FoundSlots(slots, scores, slot_of)
    n_words = begin_message(batch, message)
    n_places = message_parts(batch.box, message, scratch.place)
    _set_cursors(tree.lists.start, batch, n_words, cursors)
    n_seen, n_found, n_waiting, at = 0, 0, 0, 0
    for i in range(tree.forest.root.size):
        n_waiting = _wait_if_in_reach(tree, tree.forest.root[i], is_earth, n_places, scratch, n_waiting, tally)
    while at < n_waiting:
        node, near = scratch.queue[at], scratch.near[at]
        for j in range(n_words + 1):
            run = skip_to(tree.lists.node, cursors.run[j], cursors.end[j], node)
            cursors.run[j] = run
            if run < cursors.end[j] and tree.lists.node[run] == node:
                n_seen, n_found = _try_list(
                    tree, run, near, batch, is_earth, scratch, message, n_seen, found, n_found, tally
                )
        if not tree.forest.is_leaf[node]:
            for child in range(tree.forest.first[node], tree.forest.last[node]):
                n_waiting = _wait_if_in_reach(tree, child, is_earth, n_places, scratch, n_waiting, tally)
        at += 1
    for i in range(n_seen):
        scratch.is_seen[scratch.seen[i]] = 0
    end_message(batch, n_words)
    return n_found


@inlined
def _set_cursors(start, batch, n_words, cursors):
    dummy = start.size - 2
    for j in range(n_words):
        is_held = batch.word[j] < dummy
        cursors.run[j] = start[batch.word[j]] if is_held else 0
        cursors.end[j] = start[batch.word[j] + 1] if is_held else 0
    cursors.run[n_words], cursors.end[n_words] = start[dummy], start[dummy + 1]


@inlined
def _wait_if_in_reach(tree, node, is_earth, n_places, scratch, n_waiting, tally):
    """Queue a node unless everything there and below needs a message nearer than this one; return the queue's end."""
    tally[LOOKED_AT] += 1
    near = near_of(place_gap(is_earth, scratch.place, n_places, tree.forest.box, node), tree.max_distance[node])
    if near < tree.near[node]:
        return n_waiting
    scratch.queue[n_waiting], scratch.near[n_waiting] = node, near
    return n_waiting + 1


@inlined
def _try_list(tree, run, near, batch, is_earth, scratch, message, n_seen, found, n_found, tally):
    """Try the entries of a list of a node that may be this near; return how many were verified and found so far."""
    lists, scored = tree.lists, tree.scored
    tally[LOOKED_AT] += lists.first[run + 1] - lists.first[run]
    for i in range(lists.first[run], lists.first[run + 1]):
        position = lists.position[i]
        if near < lists.near[i] or scratch.is_seen[position]:
            continue
        own_near = _near_or_less(scored, position, lists.near[i], batch, is_earth, message)
        if own_near < 0.0:
            continue
        scratch.is_seen[position], scratch.seen[n_seen] = 1, position
        n_seen += 1
        tally[VERIFIED] += 1
        text = text_score(scored, position, batch.has, batch.totals, message)
        score = score_of(scored.text_weight[position], text, own_near)
        slot = found.slot_of[tree.row[position]]
        if score >= scored.threshold[position] and slot >= 0:
            found.slots[n_found], found.scores[n_found] = slot, score
            n_found += 1
    return n_seen, n_found


@inlined
def _near_or_less(scored, position, needed, batch, is_earth, message):
    """Return how near a position is to a message, or -1 if that is less than needed."""
    gap = axis_gap(scored.point[position, 0], scored.point[position, 1], is_earth, batch.box, message)
    if gap > 0.0 and near_of(gap, scored.max_distance[position]) < needed:
        return -1.0
    near = near_score(scored, position, is_earth, batch.box, message)
    return near if near >= needed else -1.0
