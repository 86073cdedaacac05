"""Exact tests of one message for one subscription, on the columns of live messages.

The same predicates and scores as `indexes.scan` has, with a message's words looked up in its text instead of marked: a
move tries one subscription on many messages, where an index tries one message on many subscriptions.
"""

from __future__ import annotations

import math

from nearcast._jit import inlined
from nearcast.geo import ANYWHERE, CIRCLE, EARTH_RADIUS_M, circle_holds, place_distance
from nearcast.indexes.shared.predicates import boxes_overlap, message_parts, phrase_occurs
from nearcast.query import NOT, PHRASE
from nearcast.similarity import JACCARD, counts_weights, near_of, score_of, text_of

#: Circles and differences of coordinates up to this many radians are told apart by bounds of the haversine.
_SMALL_ANGLE = 0.1
#: Bounds decide where they differ by more than these, far above rounding; so small a circle is measured.
_UNSURE, _UNSURE_M, _LEAST_RADIUS_M = 1e-9, 1e-6, 1e-3
#: What `side_of_circle` returns.
_INSIDE, _OUTSIDE, _EITHER_SIDE = 1, -1, 0


@inlined
def has_word(table, message, word):
    """Tell whether a message has a word."""
    for i in range(table.term_start[message], table.term_start[message + 1]):
        if table.term[i] == word:
            return True
    return False


@inlined
def holds_clause(code, first, last, table, message):
    """Tell whether a message satisfies the clause `code[first:last]`."""
    i = first
    while i < last:
        op = code[i]
        if op >= 0:
            if not has_word(table, message, op):
                return False
            i += 1
        elif op == NOT:
            if has_word(table, message, code[i + 1]):
                return False
            i += 2
        else:
            length = code[i + 1]
            begin, end = table.term_start[message], table.term_start[message + 1]
            if phrase_occurs(code, i + 2, length, table.term, begin, end) != (op == PHRASE):
                return False
            i += 2 + length
    return True


@inlined
def holds_any_before(queries, row, clause, table, message):
    """Tell whether a message satisfies a clause of the row before the given one."""
    for c in range(queries.clause_start[row], clause):
        if holds_clause(queries.code, queries.code_start[c], queries.code_start[c + 1], table, message):
            return True
    return False


@inlined
def touches_place(is_earth, places, row, table, message, place):
    """Tell whether a region touches the place of a message; of a polygon, whether the boxes around it do."""
    if places.kind[row] == ANYWHERE:
        return True
    for k in range(message_parts(table.box, message, place)):
        x_min, y_min, x_max, y_max = place[k, 0], place[k, 1], place[k, 2], place[k, 3]
        overlaps = False
        for p in range(places.part_start[row], places.part_start[row + 1]):
            overlaps = overlaps or boxes_overlap(places.part, p, x_min, y_min, x_max, y_max)
        if overlaps and places.kind[row] == CIRCLE:  # its parts cover it
            at = places.shape[row]
            x, y, radius = places.circle[at, 0], places.circle[at, 1], places.circle[at, 2]
            side = _EITHER_SIDE
            if is_earth and x_min == x_max and y_min == y_max:
                side = side_of_circle(x, y, radius, x_min, y_min)
            overlaps = side == _INSIDE
            if side == _EITHER_SIDE:
                overlaps = circle_holds(is_earth, x, y, radius, x_min, y_min, x_max, y_max)
        if overlaps:
            return True
    return False


@inlined
def side_of_circle(x, y, radius, lon, lat):
    """Tell by bounds of the haversine formula whether a point of the earth lies in a circle or outside, if they can.

    The chord's square is 4·sin²(Δlat/2) + 4·cos(y)·cos(lat)·sin²(Δlon/2). A sine is at most its angle, and
    z²·(1 - z²/3) at most sin²(z); cosines differ by no more than their angles do. This takes one cosine, where the
    distance takes two, two sines, a root and an arcsine.
    """
    along, across, angle = math.radians(abs(lat - y)), math.radians(abs(lon - x)), radius / EARTH_RADIUS_M
    if not (along <= _SMALL_ANGLE and across <= _SMALL_ANGLE and angle <= _SMALL_ANGLE and radius >= _LEAST_RADIUS_M):
        return _EITHER_SIDE
    cosine, aside = math.cos(math.radians(y)), across * across
    least_angle, most_angle = angle - _UNSURE_M / EARTH_RADIUS_M, angle + _UNSURE_M / EARTH_RADIUS_M
    most = along * along + cosine * (cosine + along) * aside
    if most * (1.0 + _UNSURE) < least_angle * least_angle * (1.0 - angle * angle / 12.0):
        return _INSIDE
    least = along * along * (1.0 - along * along / 12.0)
    least += cosine * max(cosine - along, 0.0) * aside * (1.0 - aside / 12.0)
    return _OUTSIDE if least > most_angle * most_angle * (1.0 + _UNSURE) else _EITHER_SIDE


@inlined
def text_of_message(queries, row, table, message):
    """Return the text score of a scored row for a message, common words summed in the row's order."""
    function = queries.similarity[row]
    weighs = counts_weights(function)
    common = 0.0
    for i in range(queries.word_start[row], queries.word_start[row + 1]):
        if has_word(table, message, queries.word[i]):
            common += queries.weight[i] if weighs else 1.0
    return text_of_common(queries, row, table, message, common)


@inlined
def text_of_common(queries, row, table, message, common):
    """Return the text score of a scored row for a message with which it has words in common that amount to this."""
    function, other = queries.similarity[row], 0.0
    if function >= JACCARD and common > 0.0:
        other = table.total[message, 1 if function == JACCARD else 0]
    return text_of(function, common, queries.own[row], other)


@inlined
def distance_at(is_earth, places, row, table, message):
    """Return how far a message is from the place of a scored row."""
    at = places.part_start[row]
    return place_distance(
        is_earth, places.part[at, 0], places.part[at, 1],
        table.box[message, 0], table.box[message, 1], table.box[message, 2], table.box[message, 3],
    )  # fmt: skip


@inlined
def score_within(queries, row, text, distance):
    """Return the score of a scored row for a message with this text score at this distance."""
    return score_of(queries.text_weight[row], text, near_of(distance, queries.max_distance[row]))
