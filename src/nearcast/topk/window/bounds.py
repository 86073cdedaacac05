"""Upper bounds on the score that the messages of a group can have for a query, and the columns they need.

With unit vectors, u(t) = weight(t) / ‖s‖ of the query and count(t) · weight(t) / ‖m‖ of a message, text is their
product. What a message has of one word leaves √(1 - u²) for all others, so that with a share a of the query in that
word and b in those that may follow, text ≤ a·u + b·√(1 - u²); nor can those give more than each with the greatest u
that any message has of it.

Distances are bounded without trigonometry: sin x ≥ x - x³/6 and asin x ≥ x. Everything is meant to be used with
`similarity.MARGIN`.
"""

from __future__ import annotations

import math

from nearcast._jit import inlined
from nearcast.geo import EARTH_RADIUS_M
from nearcast.similarity import near_of

#: Columns of a summary: the box around the places, the least cosine of a latitude, the least and greatest u, and the
#: last row.
X_MIN, Y_MIN, X_MAX, Y_MAX, COSINE, U_MIN, U_MAX, LAST_ROW = range(8)
N_COLUMNS = 8

#: What rounding may do to 1 - u², and far more: near 0 the root makes much of it.
ROOT_SLACK = 1e-12
_RADIANS = math.pi / 180.0
_FULL_TURN = 360.0
_LEAST_SQUARE, _MOST_SQUARE = 1e-280, 1e300


@inlined
def rest_of(u):
    """Return what is left in a unit vector beside a component, at most."""
    return math.sqrt(max(1.0 - u * u, 0.0) + ROOT_SLACK)


@inlined
def most_text_between(own, others, most, u_min, u_max):
    """Return the greatest own·u + min(others·√(1 - u²), most) for u from `u_min` to `u_max`, at most."""
    simple = own * u_max + most
    high = rest_of(u_max)
    if own * high >= others * u_max:
        return min(own * u_max + others * high, simple)
    low = rest_of(u_min)
    if own * low <= others * u_min:
        return min(own * u_min + others * low, simple)
    return min(math.sqrt(own * own + others * others) + ROOT_SLACK, simple)


@inlined
def least_cosine(y_min, y_max):
    """Return the least cosine of latitudes between these, a little less."""
    return max(math.cos(max(abs(y_min), abs(y_max)) * _RADIANS) - 1e-15, 0.0)


@inlined
def _folded(gap):
    return _FULL_TURN - gap if gap > 180.0 else gap


@inlined
def _low_sine(x):
    """Return a little less than the sine of 0 ≤ x ≤ π/2."""
    return x * (1.0 - x * x / 6.0)


@inlined
def _plane_distance(across, up):
    """Return the length of a vector up to rounding, without `hypot`, which takes longer than all else in a bound."""
    squared = across * across + up * up
    # Beyond these a square has lost digits, or is no number any more.
    return math.sqrt(squared) if _LEAST_SQUARE < squared < _MOST_SQUARE else math.hypot(across, up)


@inlined
def near_to_group(is_earth, x, y, cosine, max_distance, summary, group):
    """Return how near a message of a group can be to a point, at most; `cosine` is that of the point's latitude."""
    up = max(summary[group, Y_MIN] - y, y - summary[group, Y_MAX], 0.0)
    across = 0.0
    if x < summary[group, X_MIN] or x > summary[group, X_MAX]:
        to_left, to_right = abs(summary[group, X_MIN] - x), abs(summary[group, X_MAX] - x)
        across = min(_folded(to_left), _folded(to_right)) if is_earth else min(to_left, to_right)
    if not is_earth:
        return near_of(_plane_distance(across, up) * (1.0 - 1e-12), max_distance)
    if up == 0.0 and across == 0.0:
        return 1.0
    north, east = _low_sine(0.5 * _RADIANS * up), _low_sine(0.5 * _RADIANS * across)
    h = north * north + cosine * summary[group, COSINE] * east * east
    return near_of(max(2.0 * EARTH_RADIUS_M * math.sqrt(h) * (1.0 - 1e-12) - 1e-6, 0.0), max_distance)
