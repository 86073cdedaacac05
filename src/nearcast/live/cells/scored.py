"""Tests of a message for a scored row at two places: does it reach the threshold at one of them only?

A message has at least the text score of the word whose list found it, and at most that of the words from there on. So
it matters only where it lies within reach of one of the places, and not within the sure reach of both. On a plane the
squares of distances tell that of most messages; the distances of the others decide, as in `indexes.scan`.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined
from nearcast.live.cells.found import AFTER, BEFORE, note
from nearcast.live.cells.queries import NOWHERE
from nearcast.live.cells.triggers import text_reach
from nearcast.live.cells.verify import distance_at, has_word, score_within, text_of_common, text_of_message
from nearcast.live.cells.walk import are_on_one_side, farthest, is_within, narrower
from nearcast.similarity import MARGIN, counts_weights

#: Words of a row that the bits of a number stand for.
_MOST_BITS = 62


@inlined
def try_found(
    table, message, radius, sure, trigger, n_words,
    queries, before, after, row, is_earth, order, n, found,
):  # fmt: skip
    """Test a live message that a word's list has found, unless it has an earlier word; `trigger` = n_words: no list.

    The words of the row are tried in `order`; it matters within `radius` of one place, if not within `sure` of
    both, which on a plane `is_settled` has told.
    """
    if is_earth:
        away, ahead = _distances(table, message, before, after, row, is_earth)
        if not is_within(is_earth, min(away, ahead), radius) or max(away, ahead) < sure:
            return n
        text = _text_found(table, message, trigger, n_words, queries, row, order)
        if text < 0.0:
            return n
        return _note_score(text, away, ahead, message, queries, before, row, n, found)
    was, will = _square(table, message, before, row), _square(table, message, after, row)
    text = _text_found(table, message, trigger, n_words, queries, row, order)
    if text < 0.0 or _has_same_answer(text, was, will, queries, row):
        return n
    away, ahead = _distances(table, message, before, after, row, is_earth)
    return _note_score(text, away, ahead, message, queries, before, row, n, found)


@inlined
def is_settled(table, message, radius, sure, before, after, row, is_earth):
    """Tell whether a message on a plane certainly lies beyond a radius of both places, or within a sure one of both."""
    if is_earth:  # to measure how far it is takes long, and is done once
        return False
    return are_on_one_side(_square(table, message, before, row), _square(table, message, after, row), radius, sure)


@inlined
def is_cell_settled(cell, radius, sure, before, after, row):
    """Tell what `is_settled` tells of every point of a rectangle on a plane."""
    was = _square_to(cell[0], cell[1], cell[2], cell[3], before, row)
    will = _square_to(cell[0], cell[1], cell[2], cell[3], after, row)
    if are_on_one_side(was, will, radius, -1.0):
        return True
    return sure > 0.0 and are_on_one_side(_farthest(cell, before, row), _farthest(cell, after, row), np.inf, sure)


@inlined
def try_score(table, message, queries, before, after, row, is_earth, n, found):
    """Test a message of which nothing is known."""
    away, ahead = _distances(table, message, before, after, row, is_earth)
    text = text_of_message(queries, row, table, message)
    return _note_score(text, away, ahead, message, queries, before, row, n, found)


@inlined
def _square(table, message, places, row):
    """Return the square of the distance of a message from the place of a row on a plane, infinite from nowhere."""
    box = table.box
    return _square_to(box[message, 0], box[message, 1], box[message, 2], box[message, 3], places, row)


@inlined
def _square_to(x_min, y_min, x_max, y_max, places, row):
    """Return the square of the distance of a rectangle from the place of a row on a plane, infinite from nowhere."""
    if places.kind[row] == NOWHERE:
        return np.inf
    at = places.part_start[row]
    x, y = places.part[at, 0], places.part[at, 1]
    across, along = max(x_min - x, 0.0, x - x_max), max(y_min - y, 0.0, y - y_max)
    return across * across + along * along


@inlined
def _farthest(cell, places, row):
    """Return the square of the distance of a rectangle's farthest point, infinite from nowhere."""
    if places.kind[row] == NOWHERE:
        return np.inf
    at = places.part_start[row]
    x, y = places.part[at, 0], places.part[at, 1]
    across, along = max(cell[2] - x, x - cell[0]), max(cell[3] - y, y - cell[1])
    return across * across + along * along


@inlined
def _text_found(table, message, trigger, n_words, queries, row, order):
    """Return the text score of a message that has the trigger's word, -1 if it has an earlier one.

    Common words are summed in the row's order, as everywhere.
    """
    first = queries.word_start[row]
    n = queries.word_start[row + 1] - first
    for k in range(min(trigger, n_words)):
        if has_word(table, message, queries.word[order[k]]):
            return -1.0
    if n > _MOST_BITS:
        return text_of_message(queries, row, table, message)
    bits = np.int64(0)
    if trigger < n_words:
        bits = np.int64(1) << (order[trigger] - first)
    for k in range(trigger + 1, n_words):
        if has_word(table, message, queries.word[order[k]]):
            bits |= np.int64(1) << (order[k] - first)
    weighs, common = counts_weights(queries.similarity[row]), 0.0
    for i in range(n):
        if (bits >> i) & 1:
            common += queries.weight[first + i] if weighs else 1.0
    return text_of_common(queries, row, table, message, common)


@inlined
def _has_same_answer(text, was, will, queries, row):
    """Tell whether a message of this text score certainly reaches the threshold at both of two squared distances.

    Or at neither.
    """
    radius = text_reach(queries, row, text, 0.0)
    if radius < 0.0:
        return True
    return are_on_one_side(was, will, radius, narrower(False, text_reach(queries, row, text, 2.0 * MARGIN)))


@inlined
def _distances(table, message, before, after, row, is_earth):
    """Return how far a message is from the two places of a scored row, infinite from nowhere."""
    away = np.inf
    if before.kind[row] != NOWHERE:
        away = distance_at(is_earth, before, row, table, message)
    return away, distance_at(is_earth, after, row, table, message)


@inlined
def _note_score(text, away, ahead, message, queries, before, row, n, found):
    """Score a message at both distances, and note it where it reaches the threshold at one of them only."""
    here, was = 0.0, before.kind[row] != NOWHERE
    if was:
        here = score_within(queries, row, text, away)
        was = here >= queries.threshold[row]
    there = score_within(queries, row, text, ahead)
    now_is = there >= queries.threshold[row]
    if was == now_is:
        return n
    return note(row, message, AFTER if now_is else BEFORE, there if now_is else here, n, found)


@inlined
def is_sure_of(is_earth, places, row, sure, cell):
    """Tell whether all of a cell certainly lies within the sure reach of the place of a scored row."""
    if places.kind[row] == NOWHERE or sure <= 0.0:
        return False
    at = places.part_start[row]
    return farthest(is_earth, places.part[at, 0], places.part[at, 1], cell) < sure
