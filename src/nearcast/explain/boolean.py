"""Explains a subscription of kind `within`: its words and its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from nearcast.columns import Subscriptions
from nearcast.explain.explanation import ExplainRequest, Step
from nearcast.explain.lengths import length_text
from nearcast.geo import Area, Box, Circle, Shape, Space
from nearcast.query import NOT, PHRASE


def explain_boolean(request: ExplainRequest) -> tuple[Step, ...]:
    """Explain a subscription of kind `within`."""
    messages = request.messages
    words = explain_words(request.held, messages.terms_of(0).tolist(), request.word)
    return words, explain_place(request.held, messages.box[0], request.space)


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


def against_of(code: list[int], terms: list[int]) -> list[str]:
    """Return what speaks against a clause, with terms for words."""
    return _verdict(code, terms, str).against


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
