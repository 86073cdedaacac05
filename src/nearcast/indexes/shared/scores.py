"""Scored subscriptions as kernels read them, and the one place that scores a message for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined, kernel
from nearcast.columns import WITHIN, Messages, ScoreParameters, Subscriptions
from nearcast.errors import InvalidColumns
from nearcast.geo import place_distance
from nearcast.indexes.shared.predicates import mark_terms
from nearcast.similarity import JACCARD, TFIDF, counts_weights, near_of, score_of, text_of, tfidf_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NO_TOTALS = np.zeros((0, 3))


class ScoredColumns(NamedTuple):
    """Scored subscriptions in flat arrays.

    Row r has the words `term[term_start[r]:term_start[r + 1]]`, in the order of their strings, and the place
    `point[r]`. `own[r]` is what all its words amount to, as its text function counts. `weight` is by term.
    """

    term_start: NDArray[np.int64]
    term: NDArray[np.int32]
    point: NDArray[np.float64]
    text_weight: NDArray[np.float64]
    threshold: NDArray[np.float64]
    max_distance: NDArray[np.float64]
    similarity: NDArray[np.uint8]
    own: NDArray[np.float64]
    weight: NDArray[np.float64]


def scored_of(subscriptions: Subscriptions, weight: NDArray[np.float64]) -> ScoredColumns:
    """Return the kernel columns of subscriptions, by the same rows; those of kind `within` have no words here."""
    n = len(subscriptions)
    is_scored = subscriptions.kind != WITHIN
    scoring = subscriptions.scoring or ScoreParameters.none(n)
    first_clause = subscriptions.clause_start[:-1]
    if is_scored.all():
        start, term = (
            subscriptions.code_start[np.append(first_clause, subscriptions.clause_start[-1])],
            subscriptions.code,
        )
    else:
        from nearcast.columns import gathered

        clauses = np.flatnonzero(is_scored)
        listed, positions = gathered(subscriptions.code_start, first_clause[clauses])
        length = np.zeros(n, np.int64)
        length[clauses] = np.diff(listed)
        start, term = np.append(0, np.cumsum(length)), np.ascontiguousarray(subscriptions.code[positions])
    point = np.zeros((n, 2))
    point[is_scored] = subscriptions.regions.part[subscriptions.regions.part_start[:-1][is_scored], :2]
    own = np.zeros(n)
    own_amounts(start, term, scoring.similarity, weight, own)
    return ScoredColumns(
        term_start=np.ascontiguousarray(start),
        term=term,
        point=point,
        text_weight=scoring.text_weight,
        threshold=scoring.threshold,
        max_distance=scoring.max_distance,
        similarity=scoring.similarity,
        own=own,
        weight=weight,
    )


@inlined
def own_amount(weight, function):
    """Return what a word of this weight adds to what the words of a subscription amount to."""
    if function == TFIDF:
        return weight * weight
    return weight if counts_weights(function) else 1.0


@kernel
def own_amounts(term_start, term, similarity, weight, own):
    """Fill in what the words of each row amount to, summed in their order."""
    for row in range(own.size):
        total = 0.0
        for i in range(term_start[row], term_start[row + 1]):
            total += own_amount(weight[term[i]], similarity[row])
        own[row] = total


@inlined
def common_of(term, first, last, weight, has, function):
    """Return what the words `term[first:last]` that are marked in `has` amount to."""
    common = 0.0
    weighs = counts_weights(function)
    for i in range(first, last):
        t = term[i]
        if t < has.size and has[t] == 1:
            common += weight[t] if weighs else 1.0
    return common


@inlined
def text_score(scored, row, has, totals, message):
    """Return the text score of row `row` for the message whose terms are marked in `has`."""
    function = scored.similarity[row]
    common = common_of(scored.term, scored.term_start[row], scored.term_start[row + 1], scored.weight, has, function)
    other = 0.0
    if function >= JACCARD and common > 0.0:
        other = totals[message, 1 if function == JACCARD else 0]
    return text_of(function, common, scored.own[row], other)


@inlined
def near_score(scored, row, is_earth, box, message):
    """Return how near row `row` is to the place of the message."""
    distance = place_distance(
        is_earth,
        scored.point[row, 0],
        scored.point[row, 1],
        box[message, 0],
        box[message, 1],
        box[message, 2],
        box[message, 3],
    )
    return near_of(distance, scored.max_distance[row])


@inlined
def count_words(terms, first, last, count):
    """Add to `count` how often each word stands in `terms[first:last]`; terms beyond it are of no subscription."""
    for i in range(first, last):
        if 0 <= terms[i] < count.size:
            count[terms[i]] += 1.0


@inlined
def forget_words(terms, first, last, count):
    """Set the counts of these words back to 0."""
    for i in range(first, last):
        if 0 <= terms[i] < count.size:
            count[terms[i]] = 0.0


@inlined
def tfidf_common(term, first, last, weight, count):
    """Return the product of the tf-idf vectors of the words `term[first:last]` and a message, -1 with none in common.

    `count` tells how often the message says each word.
    """
    common, shares = 0.0, False
    for i in range(first, last):
        t = term[i]
        if t < count.size and count[t] > 0.0:
            shares = True
            common += weight[t] * (count[t] * weight[t])
    return common if shares else -1.0


@inlined
def topk_score(scored, row, count, totals, is_earth, box, message):
    """Return the score of top-k row `row` for a message whose words are counted in `count`; -1 without a common word.

    It concerns the row from `threshold` on.
    """
    common = tfidf_common(scored.term, scored.term_start[row], scored.term_start[row + 1], scored.weight, count)
    if common < 0.0:
        return -1.0
    text = tfidf_of(common, scored.own[row], totals[message, 2])
    return score_of(scored.text_weight[row], text, near_score(scored, row, is_earth, box, message))


@inlined
def full_score(scored, row, has, totals, is_earth, box, message):
    """Return the score of row `row` for the message whose terms are marked in `has`; it matches from `threshold` on."""
    text = text_score(scored, row, has, totals, message)
    return score_of(scored.text_weight[row], text, near_score(scored, row, is_earth, box, message))


def totals_for(messages: Messages, *, needed: bool) -> NDArray[np.float64]:
    """Return the totals of messages for kernels; `InvalidColumns` where they are needed and not there."""
    if messages.totals is None:
        if needed and len(messages):
            raise InvalidColumns(
                "jaccard, dice, cosine and top-k need all words of a message counted; give the messages their totals",
                field="totals",
            )
        return _NO_TOTALS
    return messages.totals


def needs_totals(subscriptions: Subscriptions) -> bool:
    """Tell whether a text function among these reads the whole message."""
    scoring = subscriptions.scoring
    return scoring is not None and bool((scoring.similarity >= JACCARD).any())


@hot_kernel
def score_parts(scored, row, term_start, terms, totals, box, is_earth, has, text, near):
    """Write the text score and the nearness of one row for every message; `has` is cleared again."""
    for message in range(text.size):
        first, last = term_start[message], term_start[message + 1]
        mark_terms(terms, first, last, has, 1)
        text[message] = text_score(scored, row, has, totals, message)
        near[message] = near_score(scored, row, is_earth, box, message)
        mark_terms(terms, first, last, has, 0)
