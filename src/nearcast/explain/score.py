"""Explains a scored subscription: what words and place add up to, and what would have sufficed."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from nearcast import _arrow
from nearcast.columns import Messages
from nearcast.explain.explanation import ExplainRequest, Step
from nearcast.explain.lengths import length_text
from nearcast.geo import Space, place_distance
from nearcast.similarity import (
    COSINE,
    DICE,
    JACCARD,
    SIMILARITY_NAMES,
    TFIDF,
    counts_weights,
    near_of,
    reads_whole_message,
    score_of,
    text_of,
    tfidf_of,
)

#: Words named one by one in an explanation.
_NAMED_WORDS = 10


@dataclass(frozen=True)
class Score:
    """The score of a message for a scored subscription, taken apart.

    `shared`, `own` and `other` are what the common words, those of the subscription and those of the message amount
    to, as the text function counts; `other` is 0 where it does not matter.
    """

    common: list[str]
    missing: list[str]
    shared: float
    own: float
    other: float
    text: float
    distance: float
    near: float
    score: float


def score_of_message(request: ExplainRequest, messages: Messages) -> Score:
    """Return the score of the one message of `messages`, worked out as every index does."""
    held, scoring = request.held, request.held.scoring
    assert scoring is not None
    function = int(scoring.similarity[0])
    terms = held.code.tolist()
    names = [request.word(term) for term in terms]
    has = Counter(messages.terms_of(0).tolist())
    shared, own, other = _amounts(request, messages, names, [has[term] for term in terms])
    text = tfidf_of(shared, own, other) if function == TFIDF else text_of(function, shared, own, other)
    distance = place_distance(request.space.is_earth, *held.regions.part[0, :2].tolist(), *messages.box[0].tolist())
    near = near_of(distance, float(scoring.max_distance[0]))
    score = score_of(float(scoring.text_weight[0]), text, near)
    common = [name for term, name in zip(terms, names, strict=True) if term in has]
    missing = [name for term, name in zip(terms, names, strict=True) if term not in has]
    return Score(
        common=common,
        missing=missing,
        shared=shared,
        own=own,
        other=other,
        text=text,
        distance=distance,
        near=near,
        score=score,
    )


def _amounts(
    request: ExplainRequest, messages: Messages, names: list[str], count: list[int]
) -> tuple[float, float, float]:
    """Return `shared`, `own` and `other` of a score; `count` is how often the message says each word."""
    scoring = request.held.scoring
    assert scoring is not None
    function = int(scoring.similarity[0])
    is_weighed = counts_weights(function) or function == TFIDF
    weights = request.weights.of_column(_arrow.strings(names)).tolist() if is_weighed else [1.0] * len(names)
    shared = own = other = 0.0
    for weight, said in zip(weights, count, strict=True):
        own += weight * weight if function == TFIDF else weight
        if said:
            shared += weight * (said * weight) if function == TFIDF else weight
    if reads_whole_message(function) and messages.totals is not None:
        other = float(messages.totals[0, {JACCARD: 1, TFIDF: 2}.get(function, 0)])
    return shared, own, other


def explain_score(request: ExplainRequest) -> tuple[Step, ...]:
    """Explain a scored subscription: its words, its place, and what they add up to."""
    scoring = request.held.scoring
    assert scoring is not None
    found = score_of_message(request, request.messages)
    return (
        Step("words", None, explained_text(found, int(scoring.similarity[0])), {"text": found.text}),
        explained_distance(request, found),
        _explained_score(request, found, float(scoring.text_weight[0]), float(scoring.threshold[0])),
    )


def explained_distance(request: ExplainRequest, found: Score) -> Step:
    """Return the step that tells how near the message is."""
    scoring = request.held.scoring
    assert scoring is not None
    away, farthest = found.distance, float(scoring.max_distance[0])
    detail = f"{length_text(away, request.space)} away, max_distance {length_text(farthest, request.space)}"
    return Step("place", None, f"{detail}: near {found.near:.4g}", {"distance": away, "near": found.near})


def explained_sum(text_weight: float, found: Score, shown: str) -> str:
    """Return how the parts of a score add up to what is shown."""
    return f"{text_weight:.4g} · {found.text:.4g} + {1 - text_weight:.4g} · {found.near:.4g} = {shown}"


def explained_text(found: Score, function: int) -> str:
    """Say which words are in common and what their share comes to."""
    shared, own, other = (f"{amount:.4g}" for amount in (found.shared, found.own, found.other))
    parts = {
        JACCARD: f"{shared} / ({own} + {other} - {shared})",
        DICE: f"2 · {shared} / ({own} + {other})",
        COSINE: f"{shared} / √({own} · {other})",
        TFIDF: f"{shared} / √({own} · {other})",
    }.get(function, f"{shared} / {own}")
    if found.text == 0.0:
        parts = "0"
    none = "no word in common" if found.missing else "no word is asked for"
    common = f"{listed(found.common)} in common" if found.common else none
    missing = f", without {listed(found.missing)}" if found.common and found.missing else ""
    name = "tfidf" if function == TFIDF else SIMILARITY_NAMES[function]
    return f"{common}{missing}: {name} {parts}{f' = {found.text:.4g}' if found.text else ''}"


def listed(words: list[str]) -> str:
    """Return words in quotes, the first few of many."""
    more = f" and {len(words) - _NAMED_WORDS:,} more" if len(words) > _NAMED_WORDS else ""
    return ", ".join(map(repr, words[:_NAMED_WORDS])) + more


def _explained_score(request: ExplainRequest, found: Score, text_weight: float, threshold: float) -> Step:
    passed = bool(found.score >= threshold)
    shown, wanted = f"{found.score:.4g}", f"{threshold:.4g}"
    if (float(shown) >= float(wanted)) != passed:
        shown, wanted = repr(found.score), repr(threshold)
    total = explained_sum(text_weight, found, shown)
    detail = f"{total} {'>=' if passed else '<'} threshold {wanted}"
    if not passed:
        detail += _what_would_do(request, found, text_weight, threshold)
    return Step("score", passed, detail, {"score": found.score, "threshold": threshold})


def _what_would_do(request: ExplainRequest, found: Score, text_weight: float, threshold: float) -> str:
    """Return, for a message that scores too little, each one change that would let it through."""
    ways = []
    if found.score > 0:
        ways.append(f"threshold <= {_rounded_down(found.score)}")
    distance = distance_that_would_do(request, found, text_weight, threshold)
    if distance is not None:
        ways.append(f"within {distance}" if distance else "on the spot")
    words = [word for word in found.missing if score_of_message(request, request.with_word(word)).score >= threshold]
    if words:
        ways.append(more_words(words))
    return f"; would match if {', or '.join(ways)}" if ways else ""


def more_words(words: list[str]) -> str:
    """Say that any one of these words would do."""
    return f"with {'the word' if len(words) == 1 else 'one of the words'} {listed(words)} as well"


def _rounded_down(value: float) -> str:
    """Return a positive number in few digits that is not above it."""
    for digits in (2, 4, 6):
        shown = round(value, digits)
        if shown > value:
            shown = round(shown - 10**-digits, digits)
        if shown > 0:
            return f"{shown:g}"
    return repr(value)


def distance_that_would_do(request: ExplainRequest, found: Score, text_weight: float, threshold: float) -> str | None:
    """Return the distance within which the message would be let through: "" for none but 0, None for none at all."""
    scoring = request.held.scoring
    assert scoring is not None
    farthest = float(scoring.max_distance[0])

    def would_do(distance: float) -> bool:
        return bool(score_of(text_weight, found.text, near_of(distance, farthest)) >= threshold)

    if not would_do(0.0):
        return None
    needed = (threshold - text_weight * found.text) / (1 - text_weight)
    limit = max(0.0, (1 - needed) * farthest)
    step = _length_step(limit, request.space)
    for steps in range(math.floor(limit / step), 0, -1):
        shown = float(f"{steps * step:.6g}")
        if would_do(shown):
            return length_text(shown, request.space)
    return ""


def _length_step(value: float, space: Space) -> float:
    """Return the unit to which a length of this size is rounded down: as coarse as `_length` tells it, or coarser."""
    if space.is_earth and value >= 10:
        return 100.0 if value >= 10_000 else 1.0
    digits = 2 if space.is_earth else 3
    return float(10.0 ** (math.floor(math.log10(value)) + 1 - digits)) if value > 0 else 1.0
