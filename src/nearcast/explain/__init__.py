"""Why did this subscription get, or not get, this message?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast import _arrow
from nearcast.columns import WITHIN, Messages, Subscriptions
from nearcast.geo import Area, Box, Circle, Shape, Space, place_distance
from nearcast.query import NOT, PHRASE
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

if TYPE_CHECKING:
    from nearcast._ids import Id
    from nearcast.text.weights import TermWeights

#: Words named one by one in an explanation.
_NAMED_WORDS = 10


@dataclass(frozen=True)
class Step:
    """One check on the way: `name` is words, place, score, rank, window, expiry or index.

    `passed` is None where nothing was decided. `values` are the numbers of the step, by name.
    """

    name: str
    passed: bool | None
    detail: str
    values: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        mark = {True: "yes", False: "NO", None: "-"}[self.passed]
        return f"{self.name + ':':8}{mark:>4}  {self.detail}"


@dataclass(frozen=True)
class Explanation:
    """The steps that let a message through to a subscription, or dropped it."""

    subscription_id: Id
    message_id: Id
    matched: bool
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        verb = "gets" if self.matched else "does not get"
        head = f"subscription {self.subscription_id!r} {verb} message {self.message_id!r}"
        return "\n".join([head, *(f"  {step}" for step in self.steps)])

    @property
    def reason(self) -> str:
        """Return the first step that dropped the message, or what let it through, in one line."""
        decisive = [step for step in self.steps if step.passed is False] or [s for s in self.steps if s.passed]
        return "; ".join(step.detail for step in decisive)

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON-ready values."""
        return {
            "subscription_id": self.subscription_id,
            "message_id": self.message_id,
            "matched": self.matched,
            "steps": [{"name": s.name, "passed": s.passed, "detail": s.detail, **s.values} for s in self.steps],
        }


@dataclass(frozen=True)
class Question:
    """One subscription, one message, and what it takes to look at them.

    `held` and `messages` have one row each; `word` names a term; `with_word` is the message with a word more.
    """

    held: Subscriptions
    messages: Messages
    space: Space
    word: Callable[[int], str]
    weights: TermWeights
    with_word: Callable[[str], Messages]
    standing: Standing | None = None


@dataclass(frozen=True)
class Standing:
    """The top-k of a subscription as it stands: scores and times, best first, of at most `k` messages.

    `why_late` says why the message cannot enter the window, where it comes too late.
    """

    k: int
    scores: list[float]
    times: list[int]
    is_by_time: bool
    why_late: str | None = None


def explain(question: Question, index_lines: list[str], ids: tuple[Id, Id]) -> Explanation:
    """Explain the message to the subscription; `ids` are their ids."""
    if question.standing is not None:
        from nearcast.explain.topk import explain_topk

        asked = explain_topk(question, question.standing)
    else:
        asked = explain_boolean(question) if question.held.kind[0] == WITHIN else explain_score(question)
    steps = (*asked, *(Step("index", None, line) for line in index_lines))
    return Explanation(*ids, all(step.passed is not False for step in steps), steps)


# --- boolean ----------------------------------------------------------------------------------------------------


def explain_boolean(question: Question) -> tuple[Step, ...]:
    """Explain a subscription of kind `within`."""
    messages = question.messages
    words = explain_words(question.held, messages.terms_of(0).tolist(), question.word)
    return words, explain_place(question.held, messages.box[0], question.space)


@dataclass(frozen=True)
class _Verdict:
    """What one clause says of a message: the words found, and what speaks against it."""

    found: list[str]
    against: list[str]


def explain_words(held: Subscriptions, terms: list[int], word: Callable[[int], str]) -> Step:
    """Explain the clauses of the one row of `held`; of several failing alternatives the closest is shown."""
    verdicts = [_verdict(code, terms, word) for code in _clauses(held)]
    if not verdicts:
        return Step("words", False, "the query contradicts itself and can never be true")
    best = min(verdicts, key=lambda verdict: len(verdict.against))
    if best.against:
        others = f" (the closest of {len(verdicts)} alternatives)" if len(verdicts) > 1 else ""
        return Step("words", False, "; ".join(best.against) + others)
    return Step("words", True, f"found {', '.join(best.found)}" if best.found else "no word is required")


def _clauses(held: Subscriptions) -> Iterator[list[int]]:
    for c in range(held.clause_start[0], held.clause_start[1]):
        yield held.code[held.code_start[c] : held.code_start[c + 1]].tolist()


def _verdict(code: list[int], terms: list[int], word: Callable[[int], str]) -> _Verdict:
    has, found, against = set(terms), [], []
    at = 0
    while at < len(code):
        op = code[at]
        if op >= 0:
            if op in has:
                found.append(repr(word(op)))
            else:
                against.append(f"the word {word(op)!r} is missing")
            at += 1
        elif op == NOT:
            if code[at + 1] in has:
                against.append(f"NOT {word(code[at + 1])!r} was hit")
            at += 2
        else:
            length = code[at + 1]
            phrase = code[at + 2 : at + 2 + length]
            occurs = _stand_together(phrase, terms)
            shown = '"' + " ".join(map(word, phrase)) + '"'
            if op == PHRASE and not occurs and set(phrase) <= has:
                against.append(f"the words of {shown} do not stand side by side in this order")
            elif op != PHRASE and occurs:
                against.append(f"NOT {shown} was hit")
            at += 2 + length
    return _Verdict(found, against)


def _stand_together(phrase: list[int], terms: list[int]) -> bool:
    """Tell whether a phrase stands in the terms, as a search of text: that takes linear time."""
    letters = {term: chr(at) for at, term in enumerate(dict.fromkeys(phrase), 1)}
    return "".join([letters[term] for term in phrase]) in "".join([letters.get(term, "\0") for term in terms])


def explain_place(held: Subscriptions, box: np.ndarray, space: Space) -> Step:
    """Explain the region of the one row of `held`."""
    shape = held.regions.shape_of(0)
    if shape is None:
        return Step("place", True, "anywhere")
    from nearcast.geo import touches

    if touches(held.regions, np.array([0]), box.reshape(1, 4), space)[0]:
        return Step("place", True, f"inside {_named(shape, space)}")
    away = held.regions.distance_to(0, box, space)
    return Step("place", False, f"outside {_named(shape, space)} by {length_text(away, space)}")


def _named(shape: Shape, space: Space) -> str:
    if isinstance(shape, Circle):
        return f"the circle of {length_text(shape.radius, space)} around ({shape.x:g}, {shape.y:g})"
    if isinstance(shape, Box):
        return f"the box ({shape.x_min:g}, {shape.y_min:g}) to ({shape.x_max:g}, {shape.y_max:g})"
    assert isinstance(shape, Area)
    return "the polygon"


def length_text(value: float, space: Space) -> str:
    """Return a length as people read it, with its unit on the earth."""
    if not space.is_earth:
        return f"{value:g}"
    return f"{value / 1000:,.1f} km" if value >= 10_000 else f"{value:,.0f} m" if value >= 10 else f"{value:.2g} m"


# --- scored -----------------------------------------------------------------------------------------------------


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


def score_of_message(question: Question, messages: Messages) -> Score:
    """Return the score of the one message of `messages`, worked out as every index does."""
    held, scoring = question.held, question.held.scoring
    assert scoring is not None
    function = int(scoring.similarity[0])
    terms = held.code.tolist()
    names = [question.word(term) for term in terms]
    has = Counter(messages.terms_of(0).tolist())
    shared, own, other = _amounts(question, messages, names, [has[term] for term in terms])
    text = tfidf_of(shared, own, other) if function == TFIDF else text_of(function, shared, own, other)
    distance = place_distance(question.space.is_earth, *held.regions.part[0, :2].tolist(), *messages.box[0].tolist())
    near = near_of(distance, float(scoring.max_distance[0]))
    score = score_of(float(scoring.text_weight[0]), text, near)
    common = [name for term, name in zip(terms, names, strict=True) if term in has]
    missing = [name for term, name in zip(terms, names, strict=True) if term not in has]
    return Score(common, missing, shared, own, other, text, distance, near, score)


def _amounts(question: Question, messages: Messages, names: list[str], count: list[int]) -> tuple[float, float, float]:
    """Return `shared`, `own` and `other` of a score; `count` is how often the message says each word."""
    scoring = question.held.scoring
    assert scoring is not None
    function = int(scoring.similarity[0])
    is_weighed = counts_weights(function) or function == TFIDF
    weights = question.weights.of_column(_arrow.strings(names)).tolist() if is_weighed else [1.0] * len(names)
    shared = own = other = 0.0
    for weight, said in zip(weights, count, strict=True):
        own += weight * weight if function == TFIDF else weight
        if said:
            shared += weight * (said * weight) if function == TFIDF else weight
    if reads_whole_message(function) and messages.totals is not None:
        other = float(messages.totals[0, {JACCARD: 1, TFIDF: 2}.get(function, 0)])
    return shared, own, other


def explain_score(question: Question) -> tuple[Step, ...]:
    """Explain a scored subscription: its words, its place, and what they add up to."""
    scoring = question.held.scoring
    assert scoring is not None
    found = score_of_message(question, question.messages)
    return (
        Step("words", None, explained_text(found, int(scoring.similarity[0])), {"text": found.text}),
        explained_distance(question, found),
        _explained_score(question, found, float(scoring.text_weight[0]), float(scoring.threshold[0])),
    )


def explained_distance(question: Question, found: Score) -> Step:
    """Return the step that tells how near the message is."""
    scoring = question.held.scoring
    assert scoring is not None
    away, farthest = found.distance, float(scoring.max_distance[0])
    detail = f"{length_text(away, question.space)} away, max_distance {length_text(farthest, question.space)}"
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


def _explained_score(question: Question, found: Score, text_weight: float, threshold: float) -> Step:
    passed = bool(found.score >= threshold)
    shown, wanted = f"{found.score:.4g}", f"{threshold:.4g}"
    if (float(shown) >= float(wanted)) != passed:
        shown, wanted = repr(found.score), repr(threshold)
    total = explained_sum(text_weight, found, shown)
    detail = f"{total} {'>=' if passed else '<'} threshold {wanted}"
    if not passed:
        detail += _what_would_do(question, found, text_weight, threshold)
    return Step("score", passed, detail, {"score": found.score, "threshold": threshold})


def _what_would_do(question: Question, found: Score, text_weight: float, threshold: float) -> str:
    """Return, for a message that scores too little, each one change that would let it through."""
    ways = []
    if found.score > 0:
        ways.append(f"threshold <= {_rounded_down(found.score)}")
    distance = distance_that_would_do(question, found, text_weight, threshold)
    if distance is not None:
        ways.append(f"within {distance}" if distance else "on the spot")
    words = [word for word in found.missing if score_of_message(question, question.with_word(word)).score >= threshold]
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


def distance_that_would_do(question: Question, found: Score, text_weight: float, threshold: float) -> str | None:
    """Return the distance within which the message would be let through: "" for none but 0, None for none at all."""
    scoring = question.held.scoring
    assert scoring is not None
    farthest = float(scoring.max_distance[0])

    def would_do(distance: float) -> bool:
        return bool(score_of(text_weight, found.text, near_of(distance, farthest)) >= threshold)

    if not would_do(0.0):
        return None
    needed = (threshold - text_weight * found.text) / (1 - text_weight)
    limit = max(0.0, (1 - needed) * farthest)
    step = _length_step(limit, question.space)
    for steps in range(math.floor(limit / step), 0, -1):
        shown = float(f"{steps * step:.6g}")
        if would_do(shown):
            return length_text(shown, question.space)
    return ""


def _length_step(value: float, space: Space) -> float:
    """Return the unit to which a length of this size is rounded down: as coarse as `_length` tells it, or coarser."""
    if space.is_earth and value >= 10:
        return 100.0 if value >= 10_000 else 1.0
    digits = 2 if space.is_earth else 3
    return float(10.0 ** (math.floor(math.log10(value)) + 1 - digits)) if value > 0 else 1.0
