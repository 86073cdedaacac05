"""The search of `ir-tree-1` and `ir-tree-100`: a breadth-first walk that prunes nodes by score bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.papers.ir_similar.bounds import node_near, node_score, node_text
from nearcast.indexes.shared.forest import skip_to
from nearcast.indexes.shared.kernel_message import begin_message, end_message
from nearcast.indexes.shared.one_by_one import LOOKED_AT
from nearcast.indexes.shared.packed_rtree import place_gap
from nearcast.indexes.shared.predicates import message_parts
from nearcast.indexes.shared.rebuilt_index import score_or_less
from nearcast.indexes.shared.word_lists import HAS, NEEDS, text_at_most
from nearcast.similarity import MARGIN, score_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.papers.ir_similar.tree import IrTree


class IrSimilarScratch(NamedTuple):
    """Scratch arrays for one message: the queue of nodes with proximity bounds, and the touched positions of a leaf.

    `weight` and `n_words` are what nodes have of the message's words, by node, 0 between messages.
    """

    queue: NDArray[np.int32]
    near: NDArray[np.float64]
    weight: NDArray[np.float64]
    n_words: NDArray[np.float64]
    touched: NDArray[np.int32]
    place: NDArray[np.float64]


class IrSimilarCursors(NamedTuple):
    """Where the search is in the two lists of each word of a message, and where these end."""

    node: NDArray[np.int64]
    node_end: NDArray[np.int64]
    position: NDArray[np.int64]
    position_end: NDArray[np.int64]


def new_scratch(tree: IrTree) -> IrSimilarScratch:
    """Return scratch arrays to search a tree."""
    n_nodes = len(tree.forest.box)
    largest = int((tree.forest.last - tree.forest.first)[tree.forest.is_leaf > 0].max(initial=0))
    return IrSimilarScratch(
        np.empty(n_nodes, np.int32),
        np.empty(n_nodes),
        np.zeros(n_nodes),
        np.zeros(n_nodes),
        np.empty(largest, np.int32),
        np.empty((2, 4)),
    )


def new_cursors(n_words: int) -> IrSimilarCursors:
    """Return cursors for messages of up to so many words."""
    return IrSimilarCursors(*(np.empty(n_words, np.int64) for _ in IrSimilarCursors._fields))


@hot_kernel
def search_trees(tree, slot_of, batch, is_earth, scratch, cursors, message, slots, scores, tally):
    """Write the slots that want a message; return how many there are.

    Tree by tree, level by level: nodes come up in ascending order, and so the cursors only move forward.
    """
    n_words = begin_message(batch, message)
    n_places = message_parts(batch.box, message, scratch.place)
    _set_cursors(tree, batch, n_words, cursors)
    n_found = 0
    for i in range(tree.forest.root.size):
        root = tree.forest.root[i]
        n_waiting = _wait_if_in_reach(tree, root, 1.0, is_earth, n_places, scratch, 0, tally)
        at = 0
        while at < n_waiting:
            node = scratch.queue[at]
            if tree.forest.is_leaf[node]:
                near = scratch.near[at]
                n_touched = _add_up_positions(tree, node, n_words, scratch, cursors, tally)
                n_found = _try_wordless(
                    tree, node, near, slot_of, batch, is_earth, message, n_found, slots, scores, tally
                )
                n_found = _try_touched(
                    tree, n_touched, near, slot_of, batch, is_earth, scratch, message, n_found, slots, scores, tally
                )
            else:
                _add_up_children(tree, node, batch, n_words, scratch, cursors)
                n_waiting = _queue_children(tree, node, is_earth, n_places, scratch, n_waiting, tally)
            at += 1
    end_message(batch, n_words)
    return n_found


@inlined
def _set_cursors(tree, batch, n_words, cursors):
    for j in range(n_words):
        term = batch.word[j]
        is_held = term + 1 < tree.lists.start.size
        cursors.node[j] = tree.term_nodes.start[term] if is_held else 0
        cursors.node_end[j] = tree.term_nodes.start[term + 1] if is_held else 0
        cursors.position[j] = tree.lists.start[term] if is_held else 0
        cursors.position_end[j] = tree.lists.start[term + 1] if is_held else 0


@inlined
def _wait_if_in_reach(tree, node, text, is_earth, n_places, scratch, n_waiting, tally):
    """Queue a node with at most this text score below it, unless nothing there can match; return the queue's end."""
    bounds = tree.bounds
    tally[LOOKED_AT] += 1
    least = bounds.threshold[node] - MARGIN
    if node_score(bounds, node, text, 1.0) < least:
        return n_waiting
    near = node_near(bounds, node, place_gap(is_earth, scratch.place, n_places, tree.forest.box, node))
    if node_score(bounds, node, text, near) < least:
        return n_waiting
    scratch.queue[n_waiting], scratch.near[n_waiting] = node, near
    return n_waiting + 1


@inlined
def _add_up_children(tree, node, batch, n_words, scratch, cursors):
    """Add up which words of the message, and of what weight, each child of an inner node has below it."""
    first, last = tree.forest.first[node], tree.forest.last[node]
    term_nodes = tree.term_nodes.node
    for j in range(n_words):
        at, end = cursors.node[j], cursors.node_end[j]
        if at == end:
            continue
        weight = tree.scored.weight[batch.word[j]]
        at = skip_to(term_nodes, at, end, first)
        while at < end and term_nodes[at] < last:
            scratch.weight[term_nodes[at]] += weight
            scratch.n_words[term_nodes[at]] += 1.0
            at += 1
        cursors.node[j] = at


@inlined
def _queue_children(tree, node, is_earth, n_places, scratch, n_waiting, tally):
    for child in range(tree.forest.first[node], tree.forest.last[node]):
        text = node_text(tree.bounds, child, scratch.weight[child], scratch.n_words[child])
        scratch.weight[child] = scratch.n_words[child] = 0.0
        n_waiting = _wait_if_in_reach(tree, child, text, is_earth, n_places, scratch, n_waiting, tally)
    return n_waiting


@inlined
def _add_up_positions(tree, node, n_words, scratch, cursors, tally):
    """Enter in the ledger what each position of a leaf has in common with the message; return how many have any."""
    first, last = tree.forest.first[node], tree.forest.last[node]
    listed, ledger = tree.lists.row, tree.ledger
    n_touched = 0
    for j in range(n_words):
        at, end = cursors.position[j], cursors.position_end[j]
        if at == end:
            continue
        at = skip_to(listed, at, end, first)
        begin = at
        while at < end and listed[at] < last:
            position = listed[at]
            if ledger[position, HAS] == 0.0:
                scratch.touched[n_touched] = position
                n_touched += 1
            ledger[position, HAS] += tree.lists.share[at]
            at += 1
        tally[LOOKED_AT] += at - begin
        cursors.position[j] = at
    return n_touched


@inlined
def _try_wordless(tree, node, near, slot_of, batch, is_earth, message, n_found, slots, scores, tally):
    """Try the positions of a leaf that have no word of the message and need none."""
    if node_score(tree.bounds, node, 0.0, near) < tree.bounds.threshold[node] - MARGIN:
        return n_found
    tally[LOOKED_AT] += tree.wordless_last[node] - tree.wordless_first[node]
    for i in range(tree.wordless_first[node], tree.wordless_last[node]):
        position = tree.wordless[i]
        if tree.ledger[position, HAS] == 0.0:
            score = score_or_less(tree.scored, position, 0.0, batch, is_earth, message, tally)
            slot = slot_of[tree.row[position]]
            if score >= 0.0 and slot >= 0:
                slots[n_found], scores[n_found] = slot, score
                n_found += 1
    return n_found


@inlined
def _is_in_reach(scored, position, near):
    """Tell whether a position in a leaf that may be this near can match with all its words."""
    return score_of(scored.text_weight[position], 1.0, near) >= scored.threshold[position] - MARGIN


@inlined
def _try_touched(tree, n_touched, near, slot_of, batch, is_earth, scratch, message, n_found, slots, scores, tally):
    """Try the positions of a leaf that have a word of the message, and empty the ledger."""
    for i in range(n_touched):
        position = scratch.touched[i]
        share = tree.ledger[position, HAS]
        tree.ledger[position, HAS] = 0.0
        if share >= tree.ledger[position, NEEDS] and _is_in_reach(tree.scored, position, near):
            text = text_at_most(tree.scored, position, share, batch, message)
            score = score_or_less(tree.scored, position, text, batch, is_earth, message, tally)
            slot = slot_of[tree.row[position]]
            if score >= 0.0 and slot >= 0:
                slots[n_found], scores[n_found] = slot, score
                n_found += 1
    return n_found
