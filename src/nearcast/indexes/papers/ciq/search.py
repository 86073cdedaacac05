"""The search of `ciq`: down the quadtree to the leaf of a message, merging the lists of each cell by subscription."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.papers.ciq.tree import NO_CHILD
from nearcast.indexes.papers.skype.bounds import has_length
from nearcast.indexes.shared.gather import search_each
from nearcast.indexes.shared.one_by_one import LOOKED_AT, VERIFIED
from nearcast.indexes.shared.packed_rtree import place_touches
from nearcast.indexes.shared.predicates import message_parts
from nearcast.indexes.shared.scores import topk_score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.papers.ciq.lists import CiqSegment

#: Marks begin again before they are as large as this.
_MOST_MARKS = 2**31 - 1
#: No cover has this number.
_END = 2**31 - 1


class CiqScratch(NamedTuple):
    """Scratch arrays of a search in one segment.

    `times` tells how often each term is said, 0 between messages. `spoken` are the words of the message that have
    lists, `share` what each of them adds to the text of a member, before that is divided by the member's length. Of the
    lists in one node, `at` and `end` are where each has come to and ends, `head` is the cover there, `factor` their
    words' share.
    """

    times: NDArray[np.float64]
    spoken: NDArray[np.int32]
    share: NDArray[np.float64]
    at: NDArray[np.int64]
    end: NDArray[np.int64]
    head: NDArray[np.int32]
    factor: NDArray[np.float64]
    place: NDArray[np.float64]
    waiting: NDArray[np.int32]
    tally: NDArray[np.int64]
    spare_slots: NDArray[np.int32]
    spare_scores: NDArray[np.float64]
    digits: NDArray[np.int64]


def new_scratch(segment: CiqSegment, n_weights: int, longest: int) -> CiqScratch:
    """Return scratch arrays for messages of up to `longest` words."""
    n = len(segment.row)
    return CiqScratch(
        times=np.zeros(n_weights),
        spoken=np.empty(longest, np.int32),
        share=np.empty(longest),
        at=np.empty(longest, np.int64),
        end=np.empty(longest, np.int64),
        head=np.empty(longest, np.int32),
        factor=np.empty(longest),
        place=np.empty((2, 4)),
        waiting=np.empty(len(segment.tree.child) + 4, np.int32),
        tally=np.zeros(2, np.int64),
        spare_slots=np.empty(n, np.int32),
        spare_scores=np.empty(n),
        digits=np.empty(256, np.int64),
    )


@hot_kernel
def search_messages(segment, scored, batch, scratch, found, is_earth, n_bits, first, counts):
    """Search for messages with the index as `search_each` does; return the first that was not searched for."""
    index = (segment, scored, is_earth)
    return search_each(_search_one, index, segment.row.size, batch, scratch, found, n_bits, first, counts)


@inlined
def _search_one(index, batch, scratch, found, message, at):
    """Write the answers to one message from `at` on; return how many."""
    segment, scored, is_earth = index
    first, last = batch.term_start[message], batch.term_start[message + 1]
    other = batch.totals[message, 2]
    n_words = _spoken_words(segment, scored.weight, batch.terms, first, last, scratch, other)
    # Where the message has no length to divide by, its text may be anything.
    is_unsure = other > 0.0 and not has_length(other)
    n_places = message_parts(batch.box, message, scratch.place)
    number = _next_number(segment)
    n, tree = 0, segment.tree
    n_waiting = 1
    scratch.waiting[0] = 0
    while n_waiting > 0 and n_words > 0:
        n_waiting -= 1
        node = scratch.waiting[n_waiting]
        n_lists = _open_lists(segment, scratch, n_words, node)
        n = _walk(segment, scored, batch, scratch, found, is_earth, message, number, is_unsure, n_lists, n, at)
        if tree.child[node] != NO_CHILD:
            for k in range(tree.child[node], tree.child[node] + 4):
                if place_touches(scratch.place, n_places, tree.box, k):
                    scratch.waiting[n_waiting] = k
                    n_waiting += 1
    for i in range(first, last):
        t = batch.terms[i]
        if 0 <= t < scratch.times.size:
            scratch.times[t] = 0.0
    return n


@inlined
def _spoken_words(segment, weight, terms, first, last, scratch, other):
    """Count the words of a message, and list those that have lists, each once, with their shares; return how many."""
    times = scratch.times
    n = 0
    for i in range(first, last):
        t = terms[i]
        if t < 0 or t >= times.size:
            continue
        times[t] += 1.0
        if times[t] == 1.0 and t + 1 < segment.term_start.size and segment.term_start[t] < segment.term_start[t + 1]:
            scratch.spoken[n] = t
            n += 1
    length = math.sqrt(other) if has_length(other) else np.inf
    for j in range(n):
        t = scratch.spoken[j]
        scratch.share[j] = weight[t] * (times[t] * weight[t] / length)
    return n


@inlined
def _next_number(segment):
    """Return the mark of this message; marks begin again at 0 before they are exhausted."""
    segment.number[0] += 1
    if segment.number[0] >= _MOST_MARKS:
        segment.mark[:] = -1
        segment.number[0] = 0
    return segment.number[0]


@inlined
def _open_lists(segment, scratch, n_words, node):
    """Put the cursors at the beginning of the lists that the message's words have in a node; return how many."""
    n = 0
    for j in range(n_words):
        t = scratch.spoken[j]
        low, high = segment.term_start[t], segment.term_start[t + 1]
        while low < high:
            middle = (low + high) // 2
            if segment.list_node[middle] < node:
                low = middle + 1
            else:
                high = middle
        if low < segment.term_start[t + 1] and segment.list_node[low] == node:
            scratch.at[n], scratch.end[n] = segment.list_start[low], segment.list_start[low + 1]
            scratch.factor[n], scratch.head[n] = scratch.share[j], segment.entry[scratch.at[n]]
            n += 1
    return n


@inlined
def _walk(segment, scored, batch, scratch, found, is_earth, message, number, is_unsure, n_lists, n, at):
    """Merge the lists of a node by subscription, and verify who has enough text; return the number of answers."""
    head, factor = scratch.head, scratch.factor
    while n_lists > 0:
        cover = _END
        for j in range(n_lists):
            cover = min(cover, head[j])
        text = 0.0
        j = 0
        while j < n_lists:
            if head[j] != cover:
                j += 1
                continue
            text += factor[j]
            scratch.tally[LOOKED_AT] += 1
            scratch.at[j] += 1
            if scratch.at[j] < scratch.end[j]:
                head[j] = segment.entry[scratch.at[j]]
                j += 1
            else:
                n_lists -= 1
                scratch.at[j], scratch.end[j] = scratch.at[n_lists], scratch.end[n_lists]
                head[j], factor[j] = head[n_lists], factor[n_lists]
        if text >= segment.least_text[cover] or is_unsure:
            i = segment.member[cover]
            if segment.mark[i] != number:
                segment.mark[i] = number
                n += _verify(scored, batch, scratch, found, is_earth, message, segment.row[i], at + n)
    return n


@inlined
def _verify(scored, batch, scratch, found, is_earth, message, row, at):
    """Write the row at `at` if the message concerns it; return 1 then, else 0."""
    if found.slot_of[row] < 0:
        return 0
    scratch.tally[VERIFIED] += 1
    score = topk_score(scored, row, scratch.times, batch.totals, is_earth, batch.box, message)
    if score < 0.0 or score < scored.threshold[row]:
        return 0
    found.slots[at], found.scores[at] = found.slot_of[row], score
    return 1
