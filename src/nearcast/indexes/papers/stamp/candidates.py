"""The candidates of one leaf: when a member becomes one, its common words so far, and when it is decided.

A candidate is *open* while its common words so far are not enough and more may follow. It is verified as soon as they
are enough; for tsim and overlap it then is an answer, for the others the words of the message that it lacks decide.
It is closed without that when its words are all known, or too few of those that must be there are.
"""

from __future__ import annotations

import math

import numpy as np

from nearcast._jit import inlined
from nearcast.geo import EARTH_RADIUS_M, box_distance
from nearcast.indexes.papers.stamp.bounds import amount_of
from nearcast.indexes.papers.stamp.prefixes import DUMMY
from nearcast.indexes.shared.one_by_one import LOOKED_AT, VERIFIED
from nearcast.indexes.shared.scores import text_score
from nearcast.similarity import MARGIN, most_text, near_of, score_of

#: How to go on with candidates: as the cost model says, always filtering on, never; or without counting words at all.
MODEL, ALWAYS, NEVER, NOT_AT_ALL = 0, 1, 2, -1
#: What is walked: the lists of the prefix; what of them was skipped; those of a spatio-textual prefix.
PREFIX, SKIPPED, DEEPER = 0, 1, 2
#: Fields of `Members.number`: the next number to stamp with, that of this leaf's first candidate, how many candidates
#: are open, and what it costs to verify them (COST_V).
NEXT, FIRST, N_OPEN, COST = 0, 1, 2, 3
#: Common words of a candidate that is no longer open.
CLOSED = -1

#: Metres to a degree of latitude, less what rounding may do.
_DEGREE_M = EARTH_RADIUS_M * math.pi / 180.0 * (1.0 - 1e-9)
_ROUNDING = 1.0 + 1e-9


@inlined
def visit(held, batch, scratch, found, leaf, phase, level, token, member, reach, rest, at):
    """Look at an entry; return where the answers end."""
    scratch.tally[LOOKED_AT] += 1
    members = held.members
    c = members.stamp[member] - members.number[FIRST]
    if c < 0:
        if phase != PREFIX:
            return at
        distance = _distance_within(members.scored, member, leaf.is_earth, scratch.place, leaf.n_places, reach)
        if distance > reach:
            return at
        c = _enter(members, scratch, member, distance, rest)
    elif scratch.n_common[c] == CLOSED or (phase == DEEPER and not _counts(scratch, c, level, reach)):
        return at
    is_enough = leaf.strategy == NOT_AT_ALL or _is_enough_with(members.scored, scratch, c, token)
    if is_enough or (rest == 0 and _is_sure(scratch, c, leaf, phase, reach)):
        _close(members, scratch, c)
    if is_enough:
        at = _verify(held, batch, scratch, found, leaf.message, member, scratch.distance[c], at)
    return at


@inlined
def _enter(members, scratch, member, distance, rest):
    """Make a member a candidate and return its place among them."""
    c = members.number[NEXT] - members.number[FIRST]
    members.stamp[member] = members.number[NEXT]
    members.number[NEXT] += 1
    members.number[N_OPEN] += 1
    members.number[COST] += rest
    scratch.candidate[c], scratch.distance[c], scratch.cost[c] = member, distance, rest
    scratch.amount[c], scratch.n_common[c] = 0.0, 0
    return c


@inlined
def _counts(scratch, c, level, reach):
    """Tell whether a word on this level counts: where it is the deciding one, only within its reach (Eq. 15).

    With more than `level` words in common already, the bound of the list says nothing about the candidate.
    """
    return scratch.n_common[c] > level or (scratch.n_common[c] == level and scratch.distance[c] <= reach)


@inlined
def _is_enough_with(scored, scratch, c, token):
    """Count one more common word; tell whether the best message with those words would reach the threshold (UPDATE)."""
    member = scratch.candidate[c]
    function, own = scored.similarity[member], scored.own[member]
    if token != DUMMY:
        scratch.n_common[c] += 1
        scratch.amount[c] += amount_of(scored.weight, function, token - 1)
    share = min(scratch.amount[c] / own, 1.0) if own > 0.0 else 0.0
    near = near_of(scratch.distance[c], scored.max_distance[member])
    most = score_of(scored.text_weight[member], most_text(function, share), near)
    return most >= scored.threshold[member] - MARGIN


@inlined
def _is_sure(scratch, c, leaf, phase, reach):
    """Tell whether all heavier words of a candidate were counted before this one.

    From beyond a leaf, lists of the prefix were skipped here or in a region above; not those that reach as far.
    """
    return phase != PREFIX or leaf.is_here or scratch.distance[c] <= reach


@inlined
def _close(members, scratch, c):
    scratch.n_common[c] = CLOSED
    members.number[N_OPEN] -= 1
    members.number[COST] -= scratch.cost[c]


@inlined
def close_hopeless(members, scratch, side, level):
    """Close the candidates whose words are all known, or that have no more than `level` words up to this level."""
    for c in range(members.number[NEXT] - members.number[FIRST]):
        n_common = scratch.n_common[c]
        if n_common != CLOSED and (n_common <= level or members.depth[scratch.candidate[c], side] <= level):
            _close(members, scratch, c)


@inlined
def verify_open(held, batch, scratch, found, leaf, at):
    """Verify what is still open; return where the answers end."""
    number = held.members.number
    if number[N_OPEN] > 0:
        for c in range(number[NEXT] - number[FIRST]):
            if scratch.n_common[c] != CLOSED:
                member, distance = scratch.candidate[c], scratch.distance[c]
                at = _verify(held, batch, scratch, found, leaf.message, member, distance, at)
    return at


@inlined
def _verify(held, batch, scratch, found, message, member, distance, at):
    """Score a member in full, as `scores.full_score` does with the distance known, and write it down as an answer.

    Returns where the answers end. Members that were removed have no slot any more.
    """
    scratch.tally[VERIFIED] += 1
    scored = held.members.scored
    text = text_score(scored, member, scratch.has, batch.totals, message)
    near = near_of(distance, scored.max_distance[member])
    score = score_of(scored.text_weight[member], text, near)
    if score >= scored.threshold[member]:
        slot = found.slot_of[held.members.row[member]]
        if slot >= 0:
            found.slots[at], found.scores[at] = slot, score
            at += 1
    return at


@inlined
def _distance_within(scored, member, is_earth, place, n_places, reach):
    """Return a member's distance to a message's place; or inf, sooner, where it is surely beyond the reach."""
    x, y = scored.point[member, 0], scored.point[member, 1]
    up = max(place[0, 1] - y, 0.0, y - place[0, 3])
    if is_earth:
        if up * _DEGREE_M > reach:
            return np.inf
    else:
        across = max(place[0, 0] - x, 0.0, x - place[0, 2])
        if across > reach or up > reach:
            return np.inf
        # Where any distance is within reach the squares might be too large for a float, and there is nothing to save.
        if reach < np.inf and across * across + up * up > reach * reach * _ROUNDING:
            return np.inf
    distance = np.inf
    for p in range(n_places):
        part = box_distance(is_earth, x, y, place[p, 0], place[p, 1], place[p, 2], place[p, 3])
        distance = min(distance, part)
    return distance
