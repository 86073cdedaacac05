"""Scored subscriptions in a segment: (group of neighbours, term) → the discs a message must lie in.

A scored row stays in one place, its point. Rows are taken in groups of neighbours, the leaves of a k-d tree; a message
asks the groups near enough that some disc of theirs could hold it, and in each the lists of its words, sorted by
falling reach so that a list is cut off where the group's own distance is more than is left. Group 0 is nowhere: it
holds the discs that cover everything, and terms so rare that one short list is quicker than one in every group.

Every disc belongs to the first of a subscription's words that the message has, in the order of prefixes; a row is
found through that one only, so no message finds a row twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import kernel
from nearcast.geo import cos_latitude
from nearcast.indexes.shared.filters import term_bit
from nearcast.indexes.trigger.places import cells_of_boxes, cut_space
from nearcast.indexes.trigger.reach import WILDCARD, frame_around, frame_length, frame_point, scored_triggers
from nearcast.indexes.trigger.rows import FUNCTION, MAX_DISTANCE, OWN, RIM, SCORED, TEXT_WEIGHT, THRESHOLD, X, Y
from nearcast.indexes.trigger.tables import VACANT, by_cell_and_term, make_tables
from nearcast.similarity import counts_weights, reads_whole_message, score_of, text_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.trigger.rows import TriggerRows

#: The group of discs that are tested wherever the message is.
NOWHERE = 0
#: In `DiscNotes.lone`: the row must be fetched, as nothing can be said of its score.
FETCHED = -1.0


class Discs(NamedTuple):
    """The triggers of scored rows.

    Group g owns the hash table `table[table_start[g]:table_start[g + 1]]` of (term, first, last), as the cells of a
    segment do. Disc e is (x, y, z, reach) in `disc[e]`, its centre and its radius in the frame, and belongs to
    row `scored[e]` of `TriggerRows.score`; the rows of these begin at row `first_row[0]` of the segment, in the same
    order. `box[g]` (three lows, three highs) holds the points of a group, `group_reach[g]` is the largest radius
    there. `is_spread[term - WILDCARD]` tells whether a term has lists outside group 0.
    """

    frame: NDArray[np.float64]
    table_start: NDArray[np.int64]
    table: NDArray[np.int32]
    disc: NDArray[np.float32]
    scored: NDArray[np.int32]
    first_row: NDArray[np.int64]
    box: NDArray[np.float64]
    group_reach: NDArray[np.float64]
    is_spread: NDArray[np.uint8]


class DiscNotes(NamedTuple):
    """What the search reads beside the discs of a segment, derived from its rows and not saved with them.

    `others[e]` is the signature of the words that the row of disc e has beside the term of the disc. `cosine[k]` is the
    cosine of the latitude of row k of `TriggerRows.score`; there are none on a plane. Every process computes its own:
    with the cosines of another machine a distance might differ in the last bit.

    `rim` and `lone` are for the discs of group 0. `rim[e]` is the RIM of the row of disc e. `lone[e]` is, if the disc
    holds everything, the score of the row for a message beyond its rim that has the term of the disc in common with it
    and no other word: FETCHED where that misses the threshold, or depends on the message.
    """

    others: NDArray[np.uint64]
    cosine: NDArray[np.float64]
    rim: NDArray[np.float32]
    lone: NDArray[np.float64]


class DiscLayout(NamedTuple):
    """The triggers of scored rows before they are laid out: row, term and reach of each, and the group of each row."""

    row: NDArray[np.int32]
    term: NDArray[np.int32]
    distance: NDArray[np.float64]
    group_of: NDArray[np.int32]


def plan_discs(rows: TriggerRows, weight: NDArray[np.float64], group_rows: int) -> tuple[DiscLayout, NDArray[np.int64]]:
    """Return the triggers of the scored rows, and the order to lay these rows out in.

    Rows that will be looked at together are to stand together. What reaches everywhere is found through its words
    alone and stands by its most common one; all else by group, and in it by its most common trigger again.
    """
    scored = np.flatnonzero(rows.shape <= SCORED)
    part = np.ascontiguousarray(rows.part[scored])
    cell = np.empty(len(scored), np.int32)
    cells_of_boxes(cut_space(part, group_rows), part, cell)
    group_of = np.zeros(len(rows.slot), np.int32)
    group_of[scored] = cell
    row, term, distance = scored_triggers(rows, weight)
    counts = np.bincount(term - WILDCARD)
    home, is_everywhere = np.full(len(rows.slot), WILDCARD - 1, np.int32), np.zeros(len(rows.slot), np.uint8)
    reach = np.zeros(len(rows.slot))
    _choose_homes(row, term, distance, counts, home, is_everywhere, reach)
    stands_in = np.where(is_everywhere[scored] == 1, NOWHERE, cell)
    order = scored[np.lexsort((-reach[scored], home[scored], stands_in))]
    return DiscLayout(row, term, distance, group_of), order


@kernel
def _choose_homes(row, term, distance, counts, home, is_everywhere, reach):
    """Write the most common trigger of each row, among those that reach everywhere if there are any, and its reach."""
    for t in range(row.size):
        r, everywhere = row[t], np.uint8(distance[t] == np.inf)
        if everywhere < is_everywhere[r]:
            continue
        is_first = home[r] < WILDCARD or everywhere > is_everywhere[r]
        if is_first or counts[term[t] - WILDCARD] > counts[home[r] - WILDCARD]:
            home[r], is_everywhere[r], reach[r] = term[t], everywhere, distance[t]


def build_discs(rows: TriggerRows, layout: DiscLayout, order: NDArray[np.int64], *, is_earth: bool, few: int) -> Discs:
    """Lay out the triggers of rows that have been put in order, scored ones last; sets their rims."""
    frame = frame_around(rows.score[:, X], rows.score[:, Y], is_earth=is_earth)
    n_groups = int(layout.group_of.max(initial=0)) + 1
    number_of = np.empty(len(rows.slot), np.int32)
    number_of[order] = np.arange(len(order), dtype=np.int32)
    scored, term, distance = number_of[layout.row], layout.term, layout.distance
    n_terms = int(term.max(initial=0)) + 1 - WILDCARD
    is_rare = np.bincount(term - WILDCARD, minlength=n_terms) <= few
    is_nowhere = np.isinf(distance) | is_rare[term - WILDCARD]
    group = np.where(is_nowhere, NOWHERE, layout.group_of[layout.row]).astype(np.int32)
    by_reach = np.lexsort((scored, -distance))
    sorted_ = by_reach[by_cell_and_term(group[by_reach], (term - WILDCARD)[by_reach], n_terms)]
    scored, term, distance, group = scored[sorted_], term[sorted_], distance[sorted_], group[sorted_]
    disc = np.empty((len(scored), 4), np.float32)
    box, group_reach = np.empty((n_groups, 6)), np.zeros(n_groups)
    _place_discs(frame, rows.score, scored, distance, group, disc, box, group_reach)
    table_start, table = make_tables(group, term, n_groups)
    is_spread = np.zeros(n_terms, np.uint8)
    is_spread[(term - WILDCARD)[group != NOWHERE]] = 1
    first_row = np.array([len(rows.slot) - len(order)], np.int64)
    return Discs(
        frame=frame,
        table_start=table_start,
        table=table,
        disc=disc,
        scored=scored,
        first_row=first_row,
        box=box,
        group_reach=group_reach,
        is_spread=is_spread,
    )


def note_discs(rows: TriggerRows, discs: Discs, weight: NDArray[np.float64], *, is_earth: bool) -> DiscNotes:
    """Return the notes on the discs of a segment with these rows, laid out when terms weighed the same."""
    others = np.zeros(len(discs.scored), np.uint64)
    cosine = np.empty(len(rows.score) if is_earth else 0)
    nowhere = discs.table[: discs.table_start[1]]
    n_nowhere = int(nowhere[:, 2].max(initial=0))
    rim, lone = np.empty(n_nowhere, np.float32), np.full(n_nowhere, FETCHED)
    if len(rows.score):  # who has boolean subscriptions alone need not wait until these are compiled
        _sign_others(rows.code_start, rows.code, discs, others)
        _fill_cosines(rows.score, cosine)
        _score_alone(nowhere, rows.score, discs, weight, rim, lone)
    return DiscNotes(others, cosine, rim, lone)


@kernel
def _sign_others(code_start, code, discs, others):
    for at in range(discs.table.shape[0]):
        term = discs.table[at, 0]
        if term == VACANT:
            continue
        for e in range(discs.table[at, 1], discs.table[at, 2]):
            row = discs.first_row[0] + discs.scored[e]
            for i in range(code_start[row], code_start[row + 1]):
                if code[i] != term:
                    others[e] |= term_bit(code[i])


@kernel
def _score_alone(nowhere, score, discs, weight, rim, lone):
    """Fill `rim`, and `lone` for the discs that hold everything, of the lists of group 0."""
    for at in range(nowhere.shape[0]):
        term = nowhere[at, 0]
        if term == VACANT:
            continue
        for e in range(nowhere[at, 1], nowhere[at, 2]):
            k = discs.scored[e]
            rim[e] = score[k, RIM]
            function = int(score[k, FUNCTION])
            if discs.disc[e, 3] < np.inf or reads_whole_message(function):
                continue
            common = 0.0
            if term != WILDCARD:
                common = weight[term] if counts_weights(function) else 1.0
            reached = score_of(score[k, TEXT_WEIGHT], text_of(function, common, score[k, OWN], 0.0), 0.0)
            if reached >= score[k, THRESHOLD]:
                lone[e] = reached


@kernel
def _fill_cosines(score, cosine):
    for k in range(cosine.size):
        cosine[k] = cos_latitude(score[k, Y])


@kernel
def _place_discs(frame, score, scored, distance, group, disc, box, group_reach):
    """Write the discs into the frame, bound every group, and set the rim of every row."""
    for g in range(box.shape[0]):
        for k in range(3):
            box[g, k], box[g, k + 3] = np.inf, -np.inf
    for k in range(score.shape[0]):
        score[k, RIM] = frame_length(frame, score[k, MAX_DISTANCE])
    for e in range(scored.size):
        at = frame_point(frame, score[scored[e], X], score[scored[e], Y])
        reach = frame_length(frame, distance[e])
        g = group[e]
        group_reach[g] = max(group_reach[g], reach)
        disc[e, 3] = reach
        for k in range(3):
            disc[e, k] = at[k]
            box[g, k], box[g, k + 3] = min(box[g, k], at[k]), max(box[g, k + 3], at[k])
