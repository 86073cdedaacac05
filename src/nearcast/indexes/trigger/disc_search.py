"""The search for scored rows of a segment: discs that hold a message, for a chunk of messages at a time.

A message may score thousands of rows, and what that costs is fetching them. So a chunk is not searched message by
message but list by list: the discs that are tested wherever a message is, term by term, and then group by group, each
for all the messages it concerns while it is in the processor's cache. The larger the chunk, the less is fetched for
each answer: 64 messages hardly ever share a row, hundreds do.
"""

from __future__ import annotations

import math

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.geo import cos_latitude, haversine_by_cosines, place_distance
from nearcast.indexes.shared.word_order import comes_before
from nearcast.indexes.trigger.discs import FETCHED, NOWHERE
from nearcast.indexes.trigger.reach import WILDCARD, frame_place
from nearcast.indexes.trigger.rows import (
    FUNCTION,
    MAX_DISTANCE,
    N_WORDS,
    OWN,
    RIM,
    SCORE_COLUMNS,
    TEXT_WEIGHT,
    THRESHOLD,
    WORDS,
    X,
    Y,
)
from nearcast.indexes.trigger.runs import note_run
from nearcast.indexes.trigger.scratch import HITS, LOOKED_AT, RUNS, VERIFIED, has_term
from nearcast.indexes.trigger.tables import find_list
from nearcast.similarity import JACCARD, counts_weights, near_of, score_of, text_of

#: What `text_here` returns for a row that another of its triggers finds.
ELSEWHERE = -1.0
#: Discs tested at a time, before those that hold the message are scored.
_STRETCH = 512


@hot_kernel
def search_discs(segment, notes, batch, owner, number, scratch):
    """Add the rows that the messages of a chunk satisfy to the hits; False when room ran out: try again with more.

    The terms of the messages are marked (`mark_chunk`). A row counts only while `owner[slot] == number`.
    """
    discs, places = segment.discs, scratch.places
    for i in range(batch.order.size):
        message = batch.order[i]
        places[i, 0], places[i, 1], places[i, 2], places[i, 3] = frame_place(discs.frame, batch.box, message)
        places[i, 4] = cos_latitude(batch.box[message, 1]) if segment.earth[0] == 1 else 0.0
    for j in range(batch.by_term.size):
        term, i = batch.distinct[batch.by_term[j]], batch.message_of[batch.by_term[j]]
        if term - WILDCARD < discs.is_spread.size and not _search_term(
            segment, notes, NOWHERE, term, 0.0, batch, i, owner, number, scratch
        ):
            return False
    for i in range(batch.order.size):
        if not _search_term(segment, notes, NOWHERE, WILDCARD, 0.0, batch, i, owner, number, scratch):
            return False
    _keep_spread_terms(discs.is_spread, batch, scratch)
    for group in range(1, discs.group_reach.size):
        if not _search_group(segment, notes, group, batch, owner, number, scratch):
            return False
    return True


@inlined
def _keep_spread_terms(is_spread, batch, scratch):
    """Write the terms of each message that have lists in groups, the wildcard first, to `scratch.local`."""
    n = 0
    for i in range(batch.order.size):
        scratch.local_start[i] = n
        for j in range(batch.distinct_start[i] - 1, batch.distinct_start[i + 1]):
            term = WILDCARD if j < batch.distinct_start[i] else batch.distinct[j]
            if term - WILDCARD < is_spread.size and is_spread[term - WILDCARD]:
                scratch.local[n] = term
                n += 1
    scratch.local_start[batch.order.size] = n


@inlined
def _search_group(segment, notes, group, batch, owner, number, scratch):
    """Search one group for all messages that its farthest disc may reach; False when room ran out."""
    discs, places = segment.discs, scratch.places
    for i in range(batch.order.size):
        gap = _gap(discs.box, group, places[i, 0], places[i, 1], places[i, 2]) - places[i, 3]
        if gap > discs.group_reach[group]:
            continue
        for j in range(scratch.local_start[i], scratch.local_start[i + 1]):
            if not _search_term(segment, notes, group, scratch.local[j], gap, batch, i, owner, number, scratch):
                return False
    return True


@inlined
def _gap(box, group, x, y, z):
    """Return the distance from a point of the frame to the box of a group."""
    dx = max(box[group, 0] - x, 0.0, x - box[group, 3])
    dy = max(box[group, 1] - y, 0.0, y - box[group, 4])
    dz = max(box[group, 2] - z, 0.0, z - box[group, 5])
    return math.sqrt(dx * dx + dy * dy + dz * dz)


@inlined
def _search_term(segment, notes, group, term, gap, batch, i, owner, number, scratch):
    """Find the discs of a term in a group that reach `gap` and hold the message, and score their rows."""
    discs, places, waiting = segment.discs, scratch.places, scratch.waiting
    at = find_list(discs.table_start, discs.table, group, term)
    if discs.table[at, 0] != term:
        return True
    first, last = discs.table[at, 1], discs.table[at, 2]
    if gap > 0.0:
        last = _reaching(discs.disc, first, last, gap)
    x, y, z = np.float32(places[i, 0]), np.float32(places[i, 1]), np.float32(places[i, 2])
    spread = np.float32(places[i, 3])
    scratch.tally[LOOKED_AT] += last - first
    begin = scratch.tally[HITS]
    if group == NOWHERE:
        everywhere = _reaching(discs.disc, first, last, np.inf)
        if not _search_everywhere(segment, notes, term, first, everywhere, batch, i, owner, number, scratch):
            return False
        first = everywhere
    while first < last:
        stop, n = min(last, first + _STRETCH), 0
        for e in range(first, stop):
            dx, dy, dz = discs.disc[e, 0] - x, discs.disc[e, 1] - y, discs.disc[e, 2] - z
            reach = discs.disc[e, 3] + spread
            # Each disc is written and the cursor moves only on a hit: no branch to mispredict.
            waiting[n] = e
            n += dx * dx + dy * dy + dz * dz <= reach * reach
        first = stop
        if n and not _score_waiting(segment, notes, term, n, batch, i, owner, number, scratch):
            return False
    note_run(i, begin, scratch.tally[HITS], scratch)
    return True


@inlined
def _search_everywhere(segment, notes, term, first, last, batch, i, owner, number, scratch):
    """Do what `_search_term` does for discs that hold every message; False when room ran out.

    Most rows there have one word in common with a message that is too far away for place to count. These have the score
    that is noted beside the disc, and neither the row is fetched nor anything computed.
    """
    discs, waiting, tally = segment.discs, scratch.waiting, scratch.tally
    x, y, z = np.float32(scratch.places[i, 0]), np.float32(scratch.places[i, 1]), np.float32(scratch.places[i, 2])
    spread, bits, first_row = np.float32(scratch.places[i, 3]), batch.bits[i], discs.first_row[0]
    while first < last:
        stop, n, at = min(last, first + _STRETCH), 0, tally[HITS]
        if at + (stop - first) > scratch.hit_slot.size or tally[RUNS] == scratch.run.shape[0]:
            return False
        for e in range(first, stop):
            dx, dy, dz = discs.disc[e, 0] - x, discs.disc[e, 1] - y, discs.disc[e, 2] - z
            rim, lone = notes.rim[e] + spread, notes.lone[e]
            is_far = dx * dx + dy * dy + dz * dz > rim * rim
            is_lone = is_far & (lone != FETCHED) & (notes.others[e] & bits == 0)
            slot = segment.rows.slot[first_row + discs.scored[e]]
            # Each is written as a hit and as waiting, and one cursor moves: no branch to mispredict.
            scratch.hit_slot[at], scratch.hit_score[at] = slot, lone
            at += is_lone & (owner[slot] == number)
            waiting[n] = e
            n += not is_lone
        tally[HITS] = at
        tally[VERIFIED] += stop - first - n
        first = stop
        if n and not _score_waiting(segment, notes, term, n, batch, i, owner, number, scratch):
            return False
    return True


@inlined
def _reaching(disc, first, last, gap):
    """Return the end of the discs of a list, largest first, that reach this far."""
    while first < last:
        middle = (first + last) // 2
        if disc[middle, 3] >= gap:
            first = middle + 1
        else:
            last = middle
    return first


@inlined
def _score_waiting(segment, notes, term, n, batch, i, owner, number, scratch):
    """Score the rows of the waiting discs and keep those that reach their threshold; False when room ran out."""
    discs, rows, tally, places = segment.discs, segment.rows, scratch.tally, scratch.places
    if tally[HITS] + n > scratch.hit_slot.size or tally[RUNS] == scratch.run.shape[0]:
        return False
    tally[VERIFIED] += n
    x, y, z, spread = places[i, 0], places[i, 1], places[i, 2], places[i, 3]
    bits, first_row, at = batch.bits[i], discs.first_row[0], tally[HITS]
    for w in range(n):
        e = scratch.waiting[w]
        k = discs.scored[e]
        if notes.others[e] & bits == 0:
            text = _text_of_one(rows, k, term, batch, i)
        else:
            text = text_here(rows, first_row + k, k, term, batch, i, scratch)
        if text == ELSEWHERE:
            continue
        near = 0.0
        dx, dy, dz = discs.disc[e, 0] - x, discs.disc[e, 1] - y, discs.disc[e, 2] - z
        rim = rows.score[k, RIM] + spread
        if dx * dx + dy * dy + dz * dz <= rim * rim:
            near = near_of(_distance(segment, notes, k, batch, i, places), rows.score[k, MAX_DISTANCE])
        score = score_of(rows.score[k, TEXT_WEIGHT], text, near)
        if score >= rows.score[k, THRESHOLD]:
            slot = rows.slot[first_row + k]
            scratch.hit_slot[at], scratch.hit_score[at] = slot, score
            at += owner[slot] == number
    tally[HITS] = at
    return True


@inlined
def _distance(segment, notes, k, batch, i, places):
    """Return `place_distance` of a row to a message, from known cosines where that is a point of the earth."""
    score, box, message = segment.rows.score, batch.box, batch.order[i]
    x_min, y_min, x_max, y_max = box[message, 0], box[message, 1], box[message, 2], box[message, 3]
    is_earth = segment.earth[0] == 1
    if is_earth and x_min == x_max and y_min == y_max:
        return haversine_by_cosines(score[k, X], score[k, Y], notes.cosine[k], x_min, y_min, places[i, 4])
    return place_distance(is_earth, score[k, X], score[k, Y], x_min, y_min, x_max, y_max)


@inlined
def _text_of_one(rows, k, term, batch, i):
    """Return the text score of a row that has this term in common with a message and no other, or none: `WILDCARD`."""
    function = int(rows.score[k, FUNCTION])
    common = 0.0
    if term != WILDCARD:
        common = batch.weight[term] if counts_weights(function) else 1.0
    return _text(rows, k, function, common, batch, i)


@inlined
def text_here(rows, row, k, term, batch, i, scratch):
    """Return the text score of a row, found through one of its words, or `ELSEWHERE` if an earlier one finds it too."""
    weight = batch.weight
    function = int(rows.score[k, FUNCTION])
    weighs = counts_weights(function)
    common = 0.0
    for c in range(int(rows.score[k, N_WORDS])):
        word = int(rows.score[k, WORDS + c]) if c < SCORE_COLUMNS - WORDS else rows.code[rows.code_start[row] + c]
        if has_term(scratch, i, word):
            if term == WILDCARD or comes_before(weight, word, term):
                return ELSEWHERE
            common += weight[word] if weighs else 1.0
    return _text(rows, k, function, common, batch, i)


@inlined
def _text(rows, k, function, common, batch, i):
    other = 0.0
    if function >= JACCARD and common > 0.0:
        other = batch.totals[batch.order[i], 1 if function == JACCARD else 0]
    return text_of(function, common, rows.score[k, OWN], other)
