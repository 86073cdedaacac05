"""Near misses of a message: subscriptions that one thing keeps out, found by a pass over columns of subscriptions.

The one thing is the place, one word (missing, or forbidden and there), or the threshold. How near a miss is, is a share
from 0 on: of the place, the distance beside the size of the region; of words, one beside the parts of the clause; of
the threshold, what the score lacks of it. Top-k subscriptions are left out: what they lack changes with every message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from nearcast.columns import SIMILAR, WITHIN, Messages, Subscriptions
from nearcast.explain.boolean import against_of
from nearcast.geo import ANYWHERE, touches
from nearcast.indexes.shared.scores import score_parts, scored_of, totals_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space

_METRES_PER_DEGREE = 111_195.0


class NearMiss(NamedTuple):
    """A subscription that a message misses by one thing; `by` is how nearly, `row` which one it is."""

    by: float
    row: int
    thing: Literal["place", "word", "threshold"]


def near_misses(
    held: Subscriptions, message: Messages, weights: NDArray[np.float64], space: Space, limit: int
) -> list[NearMiss]:
    """Return the nearest misses of one message among subscriptions, at most `limit`, the nearest first."""
    message = message.for_kernels()
    has = np.zeros(int(held.code.max(initial=0)) + 1, np.bool_)
    known = message.terms[(message.terms >= 0) & (message.terms < len(has))]
    has[known] = True
    found = _boolean(held, message, has, space, limit) + _scored(held, message, has, weights, space)
    return sorted(found)[:limit]


# --- within -----------------------------------------------------------------------------------------------------


def _boolean(
    held: Subscriptions, message: Messages, has: NDArray[np.bool_], space: Space, limit: int
) -> list[NearMiss]:
    lacking, parts = _lacking(held, message, has)
    rows = np.flatnonzero((held.kind == WITHIN) & (lacking <= 1))
    is_near = touches(held.regions, rows, np.repeat(message.box[:1], len(rows), axis=0), space)
    by_word = rows[is_near & (lacking[rows] == 1)]
    found = [NearMiss(1.0 / max(int(parts[row]), 1), int(row), "word") for row in by_word.tolist()]
    by_place = rows[~is_near & (lacking[rows] == 0)]
    return sorted(found)[:limit] + _by_place(held, message.box[0], by_place, space, limit)


def _lacking(
    held: Subscriptions, message: Messages, has: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return by row how many parts of its nearest clause speak against the message, and how many it has."""
    n_codes = np.diff(held.code_start)
    is_term = held.code >= 0
    hits = _sums(is_term & has[np.where(is_term, held.code, 0)], held.code_start)
    is_plain = _sums(~is_term, held.code_start) == 0
    against = np.where(is_plain, n_codes - hits, n_codes + 1)
    terms = message.terms.tolist()
    for clause in np.flatnonzero(~is_plain & (hits > 0)).tolist():
        code = held.code[held.code_start[clause] : held.code_start[clause + 1]].tolist()
        against[clause] = len(against_of(code, terms))
    rows = np.repeat(np.arange(len(held)), np.diff(held.clause_start))
    lacking = np.full(len(held), np.iinfo(np.int64).max)
    np.minimum.at(lacking, rows, against)
    parts = np.ones(len(held), np.int64)
    np.maximum.at(parts, rows, n_codes)
    return lacking, parts


def _sums(values: NDArray[np.bool_], start: NDArray[np.int64]) -> NDArray[np.int64]:
    total = np.append(0, np.cumsum(values))
    sums: NDArray[np.int64] = total[start[1:]] - total[start[:-1]]
    return sums


def _by_place(
    held: Subscriptions, box: NDArray[np.float64], rows: NDArray[np.int64], space: Space, limit: int
) -> list[NearMiss]:
    """Return the rows whose region is nearest, exactly for those that a rough distance to their rectangles prefers."""
    regions = held.regions
    rows = rows[(regions.kind[rows] != ANYWHERE) & (np.diff(regions.part_start)[rows] > 0)]
    first = regions.part[regions.part_start[rows]]
    last = regions.part[regions.part_start[rows + 1] - 1]
    unit = _METRES_PER_DEGREE if space.is_earth else 1.0
    narrow = np.cos(np.radians(np.clip(box[1], -89.0, 89.0))) if space.is_earth else 1.0
    away_x = np.maximum(np.maximum(first[:, 0] - box[2], box[0] - last[:, 2]), 0.0)
    if space.is_earth:
        away_x = np.minimum(away_x, np.abs(360.0 - away_x))
    away_y = np.maximum(np.maximum(first[:, 1] - box[3], box[1] - last[:, 3]), 0.0)
    rough = np.hypot(away_x * narrow, away_y) * unit
    size = np.hypot((last[:, 2] - first[:, 0]) * narrow, last[:, 3] - first[:, 1]) * unit / 2
    chosen = np.argsort(rough / (rough + size + 1e-9), kind="stable")[: 5 * limit]
    found = []
    for at in chosen.tolist():
        away = regions.distance_to(int(rows[at]), box, space)
        found.append(NearMiss(away / (away + float(size[at]) + 1e-9), int(rows[at]), "place"))
    return found


# --- similar ----------------------------------------------------------------------------------------------------


def _scored(
    held: Subscriptions, message: Messages, has: NDArray[np.bool_], weights: NDArray[np.float64], space: Space
) -> list[NearMiss]:
    """Return the subscriptions with a word of the message that score below their threshold."""
    if held.scoring is None:
        return []
    hits = _sums(has[np.maximum(held.code, 0)], held.code_start)
    rows = np.flatnonzero(held.kind == SIMILAR)
    rows = rows[hits[held.clause_start[rows]] > 0]
    scored, totals = scored_of(held, weights), totals_for(message, needed=False)
    marks = np.zeros(len(has), np.uint8)
    text, near = np.empty(1), np.empty(1)
    found = []
    for row in rows.tolist():
        columns = (message.term_start, message.terms, totals, message.box)
        score_parts(scored, row, *columns, space.is_earth, marks, text, near)
        weight, threshold = float(held.scoring.text_weight[row]), float(held.scoring.threshold[row])
        score = weight * float(text[0]) + (1.0 - weight) * float(near[0])
        if score < threshold:
            found.append(NearMiss((threshold - score) / threshold, row, "threshold"))
    return found
