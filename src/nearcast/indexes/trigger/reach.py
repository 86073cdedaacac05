"""The triggers of scored subscriptions: each word of the prefix, and how far it reaches.

A frame maps places to points whose straight-line distance orders them as distance does: on the earth the unit sphere,
on a plane the square around the points held. Frame coordinates are float32, and everything that is compared there is
rounded outward by far more than that can lose; what decides is computed from the original numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.geo import EARTH_RADIUS_M
from nearcast.indexes.shared.word_order import comes_before
from nearcast.indexes.trigger.rows import (
    FUNCTION,
    MAX_DISTANCE,
    OWN,
    SCORED,
    TEXT_WEIGHT,
    THRESHOLD,
)
from nearcast.similarity import counts_weights, most_text, near_needed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.trigger.rows import TriggerRows

#: The term of triggers that need no word.
WILDCARD = -2
#: A hundred times what float32 coordinates and sums can be off by.
_SLACK = 1e-6
#: Frame coordinates beyond this are cut off, so that their squares are numbers.
_FARTHEST = 1e18

# Fields of a frame.
_CENTRE_X, _CENTRE_Y, _SCALE, _IS_EARTH = 0, 1, 2, 3


def frame_around(x: NDArray[np.float64], y: NDArray[np.float64], *, is_earth: bool) -> NDArray[np.float64]:
    """Return the frame of these points."""
    if is_earth or not len(x):
        return np.array([0.0, 0.0, 1.0, float(is_earth)])
    middle = [float(values.min() / 2 + values.max() / 2) for values in (x, y)]
    half = max(float(values.max() / 2 - values.min() / 2) for values in (x, y))
    return np.array([*middle, 1.0 / half if half > 1e-300 else 1.0, 0.0])


@inlined
def _cut_off(value):
    return min(max(value, -_FARTHEST), _FARTHEST)


@inlined
def frame_point(frame, x, y):
    """Return a place in the frame."""
    x, y = float(x), float(y)
    if frame[_IS_EARTH] == 1.0:
        cosine = math.cos(math.radians(y))
        return cosine * math.cos(math.radians(x)), cosine * math.sin(math.radians(x)), math.sin(math.radians(y))
    # Halves, for the difference of two huge numbers overflows.
    scale = float(frame[_SCALE])
    along = (x / 2 - float(frame[_CENTRE_X]) / 2) * scale
    across = (y / 2 - float(frame[_CENTRE_Y]) / 2) * scale
    return _cut_off(along), _cut_off(across), 0.0


@inlined
def frame_length(frame, distance):
    """Return a distance in the frame, rounded up; inf if it goes all around, or beyond all."""
    if distance == np.inf:
        return np.inf
    if frame[_IS_EARTH] == 1.0:
        angle = distance / EARTH_RADIUS_M
        if angle >= math.pi:
            return np.inf
        return 2.0 * math.sin(angle / 2.0) * (1.0 + _SLACK) + _SLACK
    length = float(distance) / 2 * float(frame[_SCALE])
    # What reaches nearly as far as coordinates are cut off reaches everything that was cut off.
    return length * (1.0 + _SLACK) + _SLACK if length < _FARTHEST / 10 else np.inf


@inlined
def frame_place(frame, box, message):
    """Return the middle of a message's place in the frame, and how far from it the place and rounding may reach."""
    x_min, y_min, x_max, y_max = box[message, 0], box[message, 1], box[message, 2], box[message, 3]
    if x_min == x_max and y_min == y_max:
        x, y, z = frame_point(frame, x_min, y_min)
        return x, y, z, _SLACK * (1.0 + abs(x) + abs(y))
    width, height = x_max / 2 - x_min / 2, y_max / 2 - y_min / 2
    if frame[_IS_EARTH] == 1.0:
        if width < 0.0:
            width += 180.0
        middle = y_min / 2 + y_max / 2
        x, y, z = frame_point(frame, x_min + width, middle)
        # Along the middle parallel and then along a meridian every point of the rectangle is reached.
        angle = math.radians(width) * math.cos(math.radians(middle)) + math.radians(height)
        return x, y, z, 2.0 * math.sin(min(angle, math.pi) / 2.0) + 3.0 * _SLACK
    x, y, z = frame_point(frame, x_min / 2 + x_max / 2, y_min / 2 + y_max / 2)
    scale = float(frame[_SCALE])
    radius = math.hypot(_cut_off(float(width) / 2 * scale), _cut_off(float(height) / 2 * scale)) * 2.0
    return x, y, z, radius + _SLACK * (1.0 + abs(x) + abs(y) + radius)


def scored_triggers(
    rows: TriggerRows, weight: NDArray[np.float64]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Return the row, the term and the reach, as a distance, of every trigger of the scored rows."""
    scored = np.flatnonzero(rows.shape <= SCORED)
    words = rows.code_start[scored + 1] - rows.code_start[scored]
    room = int(words.sum()) + len(scored)
    row, term, reach = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room)
    scratch = np.empty(int(words.max(initial=0)), np.int32)
    n = _write_triggers(rows.code_start, rows.code, rows.shape, rows.score, scored, weight, scratch, row, term, reach)
    return row[:n], term[:n], reach[:n]


@kernel
def _write_triggers(code_start, code, shape, score, scored, weight, scratch, row_of, term_of, reach_of):
    """Write the triggers of each row; return how many.

    With the words by falling weight, a message whose first of them is the i-th has at most the i-th and those behind
    it: that bounds its text score, and so says how near it must be. The reach only falls from word to word, and
    `*`, no word at all, reaches least.
    """
    n = 0
    for s in range(scored.size):
        row = scored[s]
        k = SCORED - shape[row]
        first, last = code_start[row], code_start[row + 1]
        _by_falling_weight(code, first, last, weight, scratch)
        text_weight, threshold, max_distance = score[k, TEXT_WEIGHT], score[k, THRESHOLD], score[k, MAX_DISTANCE]
        function = int(score[k, FUNCTION])
        weighs, own = counts_weights(function), score[k, OWN]
        rest = 0.0
        # From the last word to the first, what is left behind each is a growing sum.
        for i in range(last - first - 1, -1, -1):
            rest += weight[scratch[i]] if weighs else 1.0
            share = min(rest / own, 1.0) if own > 0.0 else 0.0
            near = near_needed(text_weight, threshold, most_text(function, share))
            if near <= 1.0:
                row_of[n], term_of[n] = row, scratch[i]
                reach_of[n] = np.inf if near <= 0.0 else (1.0 - near) * max_distance
                n += 1
        near = near_needed(text_weight, threshold, 0.0)
        if near <= 1.0:
            row_of[n], term_of[n] = row, WILDCARD
            reach_of[n] = np.inf if near <= 0.0 else (1.0 - near) * max_distance
            n += 1
    return n


@inlined
def _by_falling_weight(code, first, last, weight, out):
    """Write the terms of a row by falling weight, of equal weights the smaller term first."""
    for i in range(last - first):
        term = code[first + i]
        j = i
        while j > 0 and comes_before(weight, term, out[j - 1]):
            out[j] = out[j - 1]
            j -= 1
        out[j] = term
