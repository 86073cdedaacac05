"""What subscriptions need: the words without which no message can match them, and where with each of these.

A boolean subscription needs the rarest word of each clause. A scored one needs the words of its loose prefix
(Def. 12 of the Skype paper): by falling weight, a message whose first common word is the i-th has at most the i-th and
those behind it, which bounds its text score and so says how near it must be. Words from which even a message on the
spot falls short are not needed. Skype's Eq. 18 is the same bound with the nearest place there is, and for text alone
(text weight 1) or place alone (0) `near_needed` is defined, which the equation is not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.columns import TOPK, WITHIN
from nearcast.geo import CIRCLE
from nearcast.geo.parts import covering_parts
from nearcast.indexes.shared.scores import own_amount, scored_of
from nearcast.indexes.shared.word_order import comes_before
from nearcast.indexes.trigger.rows import rarest_terms
from nearcast.plans.base import ANY_WORD, SEVERAL_WORDS, topk_thresholds
from nearcast.similarity import MARGIN, TFIDF, most_text, near_needed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.geo import Space


class Needs(NamedTuple):
    """The needs of subscriptions: `row` needs `word`, or ANY_WORD, within `reach` of its place; sorted by row.

    `reach` is infinite where the place does not matter, and NaN for boolean subscriptions, whose region says where.
    A row without needs matches nothing. `threshold` is by subscription: no more is needed while that of a top-k
    subscription is not below, but for the place.
    """

    row: NDArray[np.int64]
    word: NDArray[np.int32]
    reach: NDArray[np.float64]
    threshold: NDArray[np.float64]


def needs_of(
    subscriptions: Subscriptions,
    weights: NDArray[np.float64],
    thresholds: NDArray[np.float64] | None,
    frequency: NDArray[np.int64],
) -> Needs:
    """Return what subscriptions need; of the words of a clause that of the lowest `frequency`, which is by word."""
    threshold = topk_thresholds(subscriptions, thresholds)
    row, word = _clause_words(subscriptions, frequency)
    reach = np.full(len(row), np.nan)
    if subscriptions.scoring is None:
        return Needs(row, word, reach, threshold)
    scored_row, scored_word, scored_reach = _scored_words(subscriptions, weights, threshold)
    if not len(row):
        return Needs(scored_row, scored_word, scored_reach, threshold)
    row = np.concatenate([row, scored_row])
    order = np.argsort(row, kind="stable")
    word, reach = np.concatenate([word, scored_word]), np.concatenate([reach, scored_reach])
    return Needs(row[order], word[order], reach[order], threshold)


def single_words(subscriptions: Subscriptions, frequency: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return what boolean subscriptions of one clause need; SEVERAL_WORDS for all others."""
    row, word = _clause_words(subscriptions, frequency)
    is_single = np.diff(subscriptions.clause_start)[row] == 1
    found = np.full(len(subscriptions), SEVERAL_WORDS, np.int32)
    found[row[is_single]] = word[is_single]
    return found


def all_words_of(subscriptions: Subscriptions, frequency: NDArray[np.int64]) -> Needs:
    """Return what subscriptions need if every word of a scored one counts as needed; one without words needs any."""
    row, word = _clause_words(subscriptions, frequency)
    clause_row = np.repeat(np.arange(len(subscriptions)), np.diff(subscriptions.clause_start))
    code_row = np.repeat(clause_row, np.diff(subscriptions.code_start))
    is_scored = subscriptions.kind != WITHIN
    mine = is_scored[code_row]
    needs_any = np.flatnonzero(is_scored & (subscriptions.kind != TOPK) & _needs_no_word(subscriptions))
    row = np.concatenate([row, code_row[mine], needs_any])
    word = np.concatenate([word, subscriptions.code[mine], np.full(len(needs_any), ANY_WORD, np.int32)])
    order = np.argsort(row, kind="stable")
    n = len(subscriptions)
    return Needs(row[order], word[order].astype(np.int32), np.full(len(row), np.nan), np.zeros(n))


def _needs_no_word(subscriptions: Subscriptions) -> NDArray[np.bool_]:
    """Tell which scored subscriptions a message on the spot matches without a word in common."""
    scoring = subscriptions.scoring
    if scoring is None:
        return np.zeros(len(subscriptions), np.bool_)
    enough: NDArray[np.bool_] = scoring.threshold - MARGIN <= 1.0 - scoring.text_weight
    return enough


def _clause_words(
    subscriptions: Subscriptions, frequency: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the row and the rarest word of each clause of the boolean subscriptions."""
    n_clauses = len(subscriptions.code_start) - 1
    rarest, signature = np.empty(n_clauses, np.int32), np.empty(n_clauses, np.uint64)
    rarest_terms(
        np.ascontiguousarray(subscriptions.code_start),
        np.ascontiguousarray(subscriptions.code),
        frequency,
        rarest,
        signature,
    )
    row = np.repeat(np.arange(len(subscriptions)), np.diff(subscriptions.clause_start))
    here = np.flatnonzero(subscriptions.kind[row] == WITHIN)
    return row[here], np.maximum(rarest[here], ANY_WORD).astype(np.int32)


def _scored_words(
    subscriptions: Subscriptions, weights: NDArray[np.float64], threshold: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Return the row, word and reach of the needs of scored subscriptions; lowers `threshold` as far as they serve."""
    scored = scored_of(subscriptions, np.ascontiguousarray(weights, np.float64))
    rows = np.flatnonzero(subscriptions.kind != WITHIN)
    words = np.diff(scored.term_start)[rows]
    room = int(words.sum()) + len(rows)
    row, word, reach = np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room)
    scratch = np.empty(int(words.max(initial=0)), np.int32)
    kind = np.ascontiguousarray(subscriptions.kind)
    n = _write_needs(scored, kind, rows, threshold, scratch, row, word, reach)
    return row[:n], word[:n], reach[:n]


@kernel
def _write_needs(scored, kind, rows, threshold, scratch, row_of, word_of, reach_of):
    n = 0
    for r in range(rows.size):
        row = rows[r]
        first, last = scored.term_start[row], scored.term_start[row + 1]
        _by_falling_weight(scored.term, first, last, scored.weight, scratch)
        text_weight, function, is_topk = scored.text_weight[row], scored.similarity[row], kind[row] == TOPK
        aim = threshold[row] if is_topk else scored.threshold[row]
        rest, own, lowest = 0.0, scored.own[row], 0.0
        for i in range(last - first - 1, -1, -1):
            rest += own_amount(scored.weight[scratch[i]], function)
            text = _best_text(function, rest, own)
            near = near_needed(text_weight, aim, text)
            if near <= 1.0:
                row_of[n], word_of[n], reach_of[n] = row, scratch[i], _reach(near, scored.max_distance[row])
                n += 1
            else:
                lowest = text_weight * text + (1.0 - text_weight) + 2.0 * MARGIN
        if is_topk:
            threshold[row] = min(aim, lowest)
            continue
        near = near_needed(text_weight, aim, 0.0)
        if near <= 1.0:
            row_of[n], word_of[n], reach_of[n] = row, ANY_WORD, _reach(near, scored.max_distance[row])
            n += 1
    return n


@inlined
def _best_text(function, rest, own):
    """Return the best text score with at most `rest` of what all words amount to.

    Of tf-idf vectors the amounts are squares: by Cauchy and Schwarz the cosine is at most the root of their share.
    """
    share = rest / own if own > 0.0 else 0.0
    if not share <= 1.0:
        share = 1.0
    return math.sqrt(share) if function == TFIDF else most_text(function, share)


@inlined
def _reach(near, max_distance):
    return np.inf if near <= 0.0 else (1.0 - near) * max_distance


@inlined
def _by_falling_weight(term, first, last, weight, out):
    for i in range(last - first):
        j = i
        while j > 0 and comes_before(weight, term[first + i], out[j - 1]):
            out[j] = out[j - 1]
            j -= 1
        out[j] = term[first + i]


# --- where ------------------------------------------------------------------------------------------------------


class Shapes(NamedTuple):
    """The rectangles of needs: number `need[i]` of them needs messages that touch `box[i]`, among others."""

    need: NDArray[np.int64]
    box: NDArray[np.float64]


def shapes_of(subscriptions: Subscriptions, needs: Needs, space: Space) -> Shapes:
    """Return rectangles that together hold all places where a message may meet a need; none crosses the dateline."""
    regions = subscriptions.regions
    own = np.flatnonzero(np.isnan(needs.reach))
    start, count = regions.part_start[needs.row[own]], np.diff(regions.part_start)[needs.row[own]]
    first = np.cumsum(count) - count
    at = np.repeat(start - first, count) + np.arange(int(count.sum()))
    need, box = np.repeat(own, count), regions.part[at]
    discs = np.flatnonzero(np.isfinite(needs.reach))
    boundless = np.flatnonzero(np.isposinf(needs.reach))
    values = np.zeros((len(discs), 4))
    values[:, :2] = regions.part[regions.part_start[needs.row[discs]], :2]
    values[:, 2] = needs.reach[discs]
    part_start, part = covering_parts(space, np.full(len(discs), CIRCLE, np.uint8), values, {})
    everywhere = np.repeat(np.array([[-np.inf, -np.inf, np.inf, np.inf]]), len(boundless), axis=0)
    return Shapes(
        np.concatenate([need, np.repeat(discs, np.diff(part_start)), boundless]),
        np.concatenate([box, part, everywhere]),
    )
