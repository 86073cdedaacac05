"""The search of `skype` (Algorithm 1): reads the lists of a message word by word, and prunes by every bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.papers.skype.bounds import has_length, text_threshold, unseen_text
from nearcast.indexes.papers.skype.groups import (
    ALPHA,
    INNER,
    KEY,
    MOST,
    NORM,
    PART,
    REACH,
    SUFFIX_ALPHA,
    SUFFIX_KEY,
    SUFFIX_MOST,
    SUM,
    WORDS_SUM,
    tidy_cell,
    tidy_group,
)
from nearcast.indexes.shared.gather import search_each
from nearcast.indexes.shared.one_by_one import LOOKED_AT, VERIFIED
from nearcast.indexes.shared.packed_rtree import place_gap, place_touches
from nearcast.indexes.shared.predicates import message_parts
from nearcast.indexes.shared.scores import topk_score
from nearcast.indexes.shared.word_order import comes_before
from nearcast.similarity import near_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.papers.skype.segment import SkypeSegment

#: What stands for the text of a member that has been dropped, and for the nearness of a cell that has.
_DROPPED = -1.0
#: Marks begin again before they are as large as this.
_MOST_MARKS = 2**31 - 1


class SkypeScratch(NamedTuple):
    """Scratch arrays of a search in one segment.

    `times` tells how often each term is said, 0 between messages. `spoken` are the words of the message that have
    lists, in their order, `said` their columns PART, SUM, MOST, NORM, with a row of zeros behind the last. Of a cell
    that this message has marked, `gap` is how far it is, -1 if it is there, and `near` how near anyone in it can be, -1
    if it was skipped. `touched` are the members marked.
    """

    times: NDArray[np.float64]
    spoken: NDArray[np.int32]
    said: NDArray[np.float64]
    place: NDArray[np.float64]
    cell_mark: NDArray[np.int32]
    gap: NDArray[np.float64]
    near: NDArray[np.float64]
    touched: NDArray[np.int32]
    tally: NDArray[np.int64]
    spare_slots: NDArray[np.int32]
    spare_scores: NDArray[np.float64]
    digits: NDArray[np.int64]


def new_scratch(segment: SkypeSegment, n_weights: int, longest: int) -> SkypeScratch:
    """Return scratch arrays for messages of up to `longest` words."""
    n, n_cells = len(segment.row), len(segment.box)
    return SkypeScratch(
        times=np.zeros(n_weights),
        spoken=np.empty(longest, np.int32),
        said=np.zeros((longest + 1, 4)),
        place=np.empty((2, 4)),
        cell_mark=np.full(n_cells, -1, np.int32),
        gap=np.empty(n_cells),
        near=np.empty(n_cells),
        touched=np.empty(n, np.int32),
        tally=np.zeros(2, np.int64),
        spare_slots=np.empty(n, np.int32),
        spare_scores=np.empty(n),
        digits=np.empty(256, np.int64),
    )


@hot_kernel
def search_messages(segment, scored, batch, scratch, found, by_groups, is_earth, n_bits, first, counts):
    """Search for messages with the index as `search_each` does; return the first that was not searched for."""
    index = (segment, scored, by_groups, is_earth)
    return search_each(_search_one, index, segment.row.size, batch, scratch, found, n_bits, first, counts)


@inlined
def _search_one(index, batch, scratch, found, message, at):
    """Write the answers to one message from `at` on; return how many."""
    segment, scored, by_groups, is_earth = index
    first, last = batch.term_start[message], batch.term_start[message + 1]
    n_words = _spoken_words(segment, scored.weight, batch.terms, first, last, scratch)
    other = batch.totals[message, 2]
    _weigh_words(scored.weight, scratch, n_words, other)
    # Where the message has no length to divide by, its text may be anything up to 1.
    least_text = 1.0 if other > 0.0 and not has_length(other) else 0.0
    n_places = message_parts(batch.box, message, scratch.place)
    number = _next_number(segment, scratch)
    n_touched = 0
    for j in range(n_words):
        t = scratch.spoken[j]
        for k in range(segment.term_start[t], segment.term_start[t + 1]):
            c = segment.list_cell[k]
            if scratch.cell_mark[c] != number:
                _look_at_cell(segment, scored, scratch, by_groups, is_earth, n_places, c, number)
            if scratch.near[c] == _DROPPED:
                continue
            for g in range(segment.list_start[k], segment.list_start[k + 1]):
                if by_groups:
                    tidy_group(segment, g)
                    if _is_behind(segment.head, g, scratch.said, j, scratch.near[c], least_text):
                        continue
                n_touched = _walk(segment, scratch, by_groups, g, j, c, number, least_text, n_touched)
    n = _verify(segment, scored, batch, scratch, found, is_earth, message, n_touched, at)
    for i in range(first, last):
        t = batch.terms[i]
        if 0 <= t < scratch.times.size:
            scratch.times[t] = 0.0
    return n


# --- the message ------------------------------------------------------------------------------------------------


@inlined
def _spoken_words(segment, weight, terms, first, last, scratch):
    """Count the words of a message, and list those that have lists, each once and in their order; return how many."""
    times, spoken = scratch.times, scratch.spoken
    n = 0
    for i in range(first, last):
        t = terms[i]
        if t < 0 or t >= times.size:
            continue
        times[t] += 1.0
        if times[t] == 1.0 and t + 1 < segment.term_start.size and segment.term_start[t] < segment.term_start[t + 1]:
            at = n
            while at > 0 and comes_before(weight, t, spoken[at - 1]):
                spoken[at] = spoken[at - 1]
                at -= 1
            spoken[at] = t
            n += 1
    return n


@inlined
def _weigh_words(weight, scratch, n_words, other):
    """Fill in the unit vector of a message, and its sum, greatest and length from each word on (lines 2-3)."""
    said = scratch.said
    for k in range(4):
        said[n_words, k] = 0.0
    length = math.sqrt(other) if has_length(other) else 0.0
    square = 0.0
    for j in range(n_words - 1, -1, -1):
        t = scratch.spoken[j]
        part = scratch.times[t] * weight[t] / length if length > 0.0 else 0.0
        square += part * part
        said[j, PART] = part
        said[j, SUM] = said[j + 1, SUM] + part
        said[j, MOST] = max(said[j + 1, MOST], part)
        said[j, NORM] = math.sqrt(square)


@inlined
def _next_number(segment, scratch):
    """Return the mark of this message; marks begin again at 0 before they are exhausted."""
    segment.number[0] += 1
    if segment.number[0] >= _MOST_MARKS:
        segment.mark[:] = -1
        segment.number[0] = 0
    if segment.number[0] <= 1:
        scratch.cell_mark[:] = -1
    return segment.number[0]


# --- cells and groups -------------------------------------------------------------------------------------------


@inlined
def _look_at_cell(segment, scored, scratch, by_groups, is_earth, n_places, c, number):
    """Note how far a message is from a cell (Definition 7), and whether that is too far for all in it (Lemma 6)."""
    is_here = place_touches(scratch.place, n_places, segment.box, c)
    gap = 0.0 if is_here else place_gap(is_earth, scratch.place, n_places, segment.box, c)
    near = near_of(gap, segment.reach[c])
    if by_groups:
        tidy_cell(segment, scored, c)
        if segment.need[c] > near:
            near = _DROPPED
    scratch.cell_mark[c] = number
    # Who shares the cell with a message may be at its very place: no inner bound there.
    scratch.gap[c], scratch.near[c] = _DROPPED if is_here else gap, near


@inlined
def _is_behind(suffix, e, said, j, near, least_text):
    """Tell whether neither this entry nor one behind it can be reached (Theorem 4); of a head, nobody (Theorem 3)."""
    text = max(min(suffix[e, SUFFIX_MOST] * said[j, SUM], said[j, NORM]), least_text)
    return text < text_threshold(suffix[e, SUFFIX_KEY], suffix[e, SUFFIX_ALPHA], near)


# --- subscriptions ----------------------------------------------------------------------------------------------


@inlined
def _walk(segment, scratch, by_groups, g, j, c, number, least_text, n_touched):
    """Look at the entries of a group, add up the text of those that stay; return how many members are touched by now.

    The end (Theorem 4) is found on the way there: each entry looked at tells whether it is reached, where a binary
    search would have to fetch others.
    """
    field = segment.field
    gap, said = scratch.gap[c], scratch.said
    for e in range(segment.group_start[g], segment.group_start[g + 1]):
        if by_groups and _is_behind(field, e, said, j, scratch.near[c], least_text):
            break
        scratch.tally[LOOKED_AT] += 1
        near = 1.0 if gap == _DROPPED else near_of(gap + field[e, INNER], field[e, REACH])
        needed = text_threshold(field[e, KEY], field[e, ALPHA], near)
        # Theorem 1: nothing of this member before this word is in the message, or it was dropped there for good; and if
        # it was not, this word is taken up with the next one.
        if max(min(said[j, MOST] * field[e, WORDS_SUM], said[j, NORM]), least_text) < needed:
            continue
        i, w = segment.member[e], segment.word_of[e]
        if segment.mark[i] != number:
            segment.mark[i], segment.text[i], segment.last[i] = number, 0.0, w
            scratch.touched[n_touched] = i
            n_touched += 1
        elif segment.text[i] == _DROPPED:
            continue
        text = segment.text[i] + segment.word[w, PART] * said[j, PART]
        text += _passed_over(segment, scratch, segment.last[i] + 1, w)
        segment.text[i], segment.last[i] = text, w
        if max(text + _rest(segment, i, w + 1, said, j + 1), least_text) < needed:
            segment.text[i] = _DROPPED  # Theorem 2
    return n_touched


@inlined
def _passed_over(segment, scratch, first, last):
    """Return the text of words between two of a member's that a bound let pass.

    The bounds of groups and prefixes speak of members without an earlier word in common. Others stay, and what was
    passed over counts: the paper's Algorithm 1 would lose it, and with it answers.
    """
    text = 0.0
    for w in range(first, last):
        t = segment.term[w]
        if scratch.times[t] > 0.0:
            text += segment.word[w, PART] * _said_part(scratch, t)
    return text


@inlined
def _said_part(scratch, t):
    j = 0
    while scratch.spoken[j] != t:
        j += 1
    return scratch.said[j, PART]


@inlined
def _rest(segment, i, w, said, j):
    """Return the most that the words of a member from w on and those of a message from j on can add (Equation 5)."""
    if w >= segment.word_start[i + 1]:
        return 0.0
    word = segment.word
    return unseen_text(word[w, SUM], word[w, MOST], word[w, NORM], said[j, SUM], said[j, MOST], said[j, NORM])


@inlined
def _verify(segment, scored, batch, scratch, found, is_earth, message, n_touched, at):
    """Score the members that no bound has dropped, and write those that are concerned; return how many."""
    n = 0
    for k in range(n_touched):
        i = scratch.touched[k]
        row = segment.row[i]
        if segment.text[i] == _DROPPED or found.slot_of[row] < 0:
            continue
        scratch.tally[VERIFIED] += 1
        score = topk_score(scored, row, scratch.times, batch.totals, is_earth, batch.box, message)
        if score >= 0.0 and score >= scored.threshold[row]:
            found.slots[at + n], found.scores[at + n] = found.slot_of[row], score
            n += 1
    return n
