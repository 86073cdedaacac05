"""Subscriptions as rows of triggers: one row for each clause of each rectangle of the region."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast import _arrow
from nearcast._jit import kernel
from nearcast.columns import SIMILAR, WITHIN, HeldSubscription, ScoreParameters, Subscriptions, gathered, joined
from nearcast.geo import ANYWHERE, BOX, CIRCLE, POLYGON, Regions
from nearcast.indexes.shared.clause_rows import expanded, shape_codes
from nearcast.indexes.shared.filters import term_bit
from nearcast.indexes.shared.predicates import NO_SHAPE
from nearcast.indexes.shared.scores import own_amounts

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TriggerRows(NamedTuple):
    """Rows in flat arrays: what must hold, beside its trigger, for a row to match.

    Row r belongs to `slot[r]`, needs the clause `code[code_start[r]:code_start[r + 1]]` and the rectangle
    `part[r]`. `shape[r]` is -1 where that rectangle is the region, 2·c for row c of `circle`, 2·g + 1 for
    polygon g. `clause[r]` numbers the clauses of a slot and `side[r]` its rectangles, so that
    the subscription can be put together again.

    A scored subscription is one row: its code is its words, its rectangle its point, and `shape[r]` is -2 - k for
    row k of `score`, whose columns are named below. What scoring reads stands there side by side, two lines of the
    processor's cache, because a message scores rows from all over a segment.
    """

    slot: NDArray[np.int32]
    code_start: NDArray[np.int64]
    code: NDArray[np.int32]
    part: NDArray[np.float64]
    shape: NDArray[np.int32]
    clause: NDArray[np.uint16]
    side: NDArray[np.uint8]
    circle: NDArray[np.float64]
    score: NDArray[np.float64]


#: Columns of `TriggerRows.score`. OWN is what all words amount to. Beyond RIM, in the frame of a segment, nothing is
#: near.
#: From WORDS on stand the first of its N_WORDS words, the others only in the row's code.
X, Y, TEXT_WEIGHT, THRESHOLD, MAX_DISTANCE, OWN, RIM, FUNCTION, N_WORDS, WORDS = range(10)
SCORE_COLUMNS = 16
#: Shapes from here down are scored rows.
SCORED = -2


def rows_of(
    slots: NDArray[np.int32], subscriptions: Subscriptions, weight: NDArray[np.float64]
) -> tuple[TriggerRows, NDArray[np.object_]]:
    """Expand subscriptions to rows; return them and the polygons their shapes point to."""
    regions = subscriptions.regions
    is_one_row = len(slots) == len(regions.part) == len(subscriptions.code_start) - 1 == 1
    if is_one_row and subscriptions.scoring is None:
        return _one_row(slots, subscriptions), regions.geometry
    circle = np.ascontiguousarray(regions.circle).reshape(-1, 3)
    shape = shape_codes(regions)
    score = np.empty((0, SCORE_COLUMNS))
    if subscriptions.scoring is not None:
        scored = np.flatnonzero(subscriptions.kind != WITHIN)
        shape[scored] = SCORED - np.arange(len(scored))
        score = _score_columns(subscriptions, scored, weight)
    parts = expanded(subscriptions)
    own = slots if parts.owner is None else np.ascontiguousarray(slots[parts.owner], np.int32)
    shapes = shape if parts.owner is None else shape[parts.owner]
    rows = TriggerRows(
        slot=own,
        code_start=parts.code_start,
        code=parts.code,
        part=parts.box,
        shape=shapes,
        clause=parts.clause,
        side=parts.side,
        circle=circle,
        score=score,
    )
    return rows, regions.geometry


def _one_row(slots: NDArray[np.int32], subscriptions: Subscriptions) -> TriggerRows:
    """Return the row of one boolean subscription with one clause and one rectangle: that of a single change."""
    regions = subscriptions.regions
    shape = int(regions.shape[0]) * 2 + (regions.kind[0] == POLYGON) if regions.shape[0] >= 0 else NO_SHAPE
    return TriggerRows(
        slot=slots,
        code_start=subscriptions.code_start,
        code=subscriptions.code,
        part=regions.part,
        shape=np.array([shape], np.int32),
        clause=np.zeros(1, np.uint16),
        side=np.zeros(1, np.uint8),
        circle=regions.circle,
        score=np.empty((0, SCORE_COLUMNS)),
    )


def _score_columns(
    subscriptions: Subscriptions, scored: NDArray[np.int64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return `TriggerRows.score` of the scored subscriptions."""
    scoring = subscriptions.scoring
    assert scoring is not None
    score = np.zeros((len(scored), SCORE_COLUMNS))
    score[:, X : Y + 1] = subscriptions.regions.part[subscriptions.regions.part_start[scored], :2]
    score[:, TEXT_WEIGHT] = scoring.text_weight[scored]
    score[:, THRESHOLD] = scoring.threshold[scored]
    score[:, MAX_DISTANCE] = scoring.max_distance[scored]
    score[:, FUNCTION] = scoring.similarity[scored]
    start, positions = gathered(subscriptions.code_start, subscriptions.clause_start[scored])
    words, own = subscriptions.code[positions], np.empty(len(scored))
    own_amounts(start, words, scoring.similarity[scored], weight, own)
    score[:, OWN] = own
    _copy_words(start, words, score)
    return score


@kernel
def _copy_words(start, words, score):
    for k in range(score.shape[0]):
        score[k, N_WORDS] = start[k + 1] - start[k]
        for i in range(min(start[k + 1] - start[k], SCORE_COLUMNS - WORDS)):
            score[k, WORDS + i] = words[start[k] + i]


def weigh_rows(rows: TriggerRows, weight: NDArray[np.float64]) -> TriggerRows:
    """Return the same rows with what their words amount to under other weights."""
    scored = np.flatnonzero(rows.shape <= SCORED)
    at = SCORED - rows.shape[scored]
    start, positions = gathered(rows.code_start, scored)
    own = np.empty(len(scored))
    own_amounts(start, rows.code[positions], rows.score[at, FUNCTION].astype(np.uint8), weight, own)
    score = rows.score.copy()
    score[at, OWN] = own
    return rows._replace(score=score)


def take_rows(rows: TriggerRows, keep: NDArray[np.int64]) -> TriggerRows:
    """Return these rows in this order; circles stay as they are, scores come in the order of their rows."""
    code_start, positions = gathered(rows.code_start, keep)
    shape = rows.shape[keep]
    scored = np.flatnonzero(shape <= SCORED)
    score = rows.score[SCORED - shape[scored]]
    shape[scored] = SCORED - np.arange(len(scored))
    return TriggerRows(
        slot=np.ascontiguousarray(rows.slot[keep]),
        code_start=code_start,
        code=np.ascontiguousarray(rows.code[positions]),
        part=np.ascontiguousarray(rows.part[keep]),
        shape=shape,
        clause=rows.clause[keep],
        side=rows.side[keep],
        circle=rows.circle,
        score=score,
    )


def join_rows(
    pieces: list[tuple[TriggerRows, NDArray[np.object_]]],
) -> tuple[TriggerRows, NDArray[np.object_]]:
    """Return all rows of all pieces, with their circles and polygons renumbered and the unused ones dropped."""
    shapes: list[NDArray[np.int32]] = []
    circles: list[NDArray[Any]] = []
    polygons: list[NDArray[Any]] = []
    n_circles = n_polygons = n_scored = 0
    for rows, geometry in pieces:
        shape = rows.shape.copy()
        shape[rows.shape <= SCORED] -= n_scored
        n_scored += len(rows.score)
        for kind, table, kept, base in ((0, rows.circle, circles, n_circles), (1, geometry, polygons, n_polygons)):
            of_kind = (rows.shape >= 0) & (rows.shape % 2 == kind)
            used, renumbered = np.unique(rows.shape[of_kind] // 2, return_inverse=True)
            shape[of_kind] = (renumbered + base) * 2 + kind
            kept.append(table[used])
        n_circles += len(circles[-1])
        n_polygons += len(polygons[-1])
        shapes.append(shape.astype(np.int32))
    rows = TriggerRows(
        slot=np.concatenate([rows.slot for rows, _ in pieces]),
        code_start=joined([rows.code_start for rows, _ in pieces]),
        code=np.concatenate([rows.code for rows, _ in pieces]),
        part=np.concatenate([rows.part for rows, _ in pieces]),
        shape=np.concatenate(shapes),
        clause=np.concatenate([rows.clause for rows, _ in pieces]),
        side=np.concatenate([rows.side for rows, _ in pieces]),
        circle=np.concatenate(circles).reshape(-1, 3),
        score=np.concatenate([rows.score for rows, _ in pieces]),
    )
    return rows, np.concatenate(polygons)


def subscriptions_of(rows: TriggerRows, geometry: NDArray[np.object_], slots: NDArray[np.int32]) -> Subscriptions:
    """Put subscriptions together again from all their rows (in any order), one per slot of `slots`.

    A slot without rows is a subscription without clauses: it never matches and has no region.
    """
    order = np.lexsort((rows.side, rows.clause, rows.slot))
    rows = take_rows(rows, order)
    firsts = np.flatnonzero(rows.side == 0)
    clauses = take_rows(rows, firsts)
    clause_start = _starts(clauses.slot, slots)
    parts = np.flatnonzero(rows.clause == 0)
    part_start = _starts(rows.slot[parts], slots)
    kind, shape = _region_columns(rows, part_start, parts)
    regions = Regions(kind, part_start, np.ascontiguousarray(rows.part[parts]), shape, rows.circle, geometry)
    asked, scoring = _scoring_columns(rows, slots)
    return Subscriptions.of(
        clause_start,
        clauses.code_start,
        clauses.code,
        regions,
        ids=_arrow.numbers(slots),
        kind=asked,
        scoring=scoring,
    )


def one_row_each(rows: TriggerRows, geometry: NDArray[np.object_], slots: NDArray[np.int32]) -> Subscriptions | None:
    """Put subscriptions together from all their rows, as `subscriptions_of` would, for slots in any order.

    None if one is scored or has another number of rows than one: in bulk nearly all have one, and need no sorting by
    clause and side.
    """
    if len(rows.slot) != len(slots) or not len(slots) or len(rows.score):
        return None
    by_slot = np.argsort(rows.slot, kind="stable")
    order = by_slot[np.minimum(np.searchsorted(rows.slot, slots, sorter=by_slot), len(slots) - 1)]
    if not np.array_equal(rows.slot[order], slots):
        return None
    rows, starts = take_rows(rows, order), np.arange(len(slots) + 1)
    kind, shape = _region_columns(rows, starts, starts[:-1])
    regions = Regions(kind, starts, rows.part, shape, rows.circle, geometry)
    return Subscriptions.of(starts, rows.code_start, rows.code, regions, ids=_arrow.numbers(slots))


def subscription_of_row(
    rows: TriggerRows, geometry: NDArray[np.object_], row: int, slots: NDArray[np.int32]
) -> Subscriptions | None:
    """Put one subscription together that has this row and no other, as `subscriptions_of` would; None if it is scored.

    Every move of a subscription needs this.
    """
    shape = int(rows.shape[row])
    if shape <= SCORED:
        return None
    code = rows.code[rows.code_start[row] : rows.code_start[row + 1]].copy()
    part = rows.part[row : row + 1].copy()
    at = slice(shape // 2, shape // 2 + 1)
    if shape < 0:
        regions = Regions.of_one_part(ANYWHERE if part[0, 0] == -np.inf else BOX, part)
    elif shape % 2 == 0:
        regions = Regions.of_one_part(CIRCLE, part, circle=rows.circle[at].copy())
    else:
        regions = Regions.of_one_part(POLYGON, part, geometry=geometry[at].copy())
    return HeldSubscription.at(slots, code, regions)


def _scoring_columns(rows: TriggerRows, slots: NDArray[np.int32]) -> tuple[NDArray[np.uint8], ScoreParameters | None]:
    """Return the kind of each slot, and how those that are scored are scored."""
    kind = np.full(len(slots), WITHIN, np.uint8)
    scored = np.flatnonzero(rows.shape <= SCORED)
    if not len(scored):
        return kind, None
    at = np.searchsorted(slots, rows.slot[scored])
    score = rows.score[SCORED - rows.shape[scored]]
    kind[at] = SIMILAR
    scoring = ScoreParameters.none(len(slots))
    scoring.text_weight[at] = score[:, TEXT_WEIGHT]
    scoring.threshold[at] = score[:, THRESHOLD]
    scoring.max_distance[at] = score[:, MAX_DISTANCE]
    scoring.similarity[at] = score[:, FUNCTION]
    return kind, scoring


def _starts(owner: NDArray[np.int32], slots: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the list starts of values sorted by owner, for each of the ascending `slots`."""
    return np.append(np.searchsorted(owner, slots), len(owner)).astype(np.int64)


def _region_columns(
    rows: TriggerRows, part_start: NDArray[np.int64], parts: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    n = len(part_start) - 1
    kind, shape = np.full(n, ANYWHERE, np.uint8), np.full(n, -1, np.int32)
    present = np.flatnonzero(np.diff(part_start))
    first = parts[part_start[present]]
    code = rows.shape[first]
    everywhere = np.isneginf(rows.part[first, 0])
    kind[present] = np.where(code < 0, np.where(everywhere, ANYWHERE, BOX), np.where(code % 2 == 0, CIRCLE, POLYGON))
    shape[present] = np.where(code < 0, -1, code // 2)
    return kind, shape


@kernel
def rarest_terms(code_start, code, count, trigger, signature):
    """Choose each row's trigger, its required term of lowest `count` (-2: none), and a signature of the others.

    For rows of boolean subscriptions; those of scored ones have triggers of their own.

    The signature has a bit for every required term but the trigger: a message whose own bits do not
    cover it cannot hold the row.
    """
    for row in range(trigger.size):
        best = -2
        for i in range(code_start[row], code_start[row + 1]):
            if code[i] < 0:
                break
            if best < 0 or count[code[i]] < count[best]:
                best = code[i]
        trigger[row] = best
        bits = np.uint64(0)
        for i in range(code_start[row], code_start[row + 1]):
            if code[i] < 0:
                break
            if code[i] != best:
                bits |= term_bit(code[i])
        signature[row] = bits


@kernel
def mark_rest(rows, trigger, signature):
    """Give every boolean row that needs more than words and a rectangle the bit of its own trigger.

    Whoever is found through a trigger has that bit, so it dismisses nothing; and no bits at all then say that there is
    nothing left to ask.
    """
    for row in range(trigger.size):
        has_rest = False
        for i in range(rows.code_start[row], rows.code_start[row + 1]):
            has_rest = has_rest or rows.code[i] < 0
        if trigger[row] >= 0 and (has_rest or rows.shape[row] != NO_SHAPE):
            signature[row] |= term_bit(trigger[row])


@kernel
def count_terms(code, count):
    """Count how often each term is required; operands of NOT and phrases may count too, it is only a ranking."""
    for i in range(code.size):
        if code[i] >= 0:
            count[code[i]] += 1
