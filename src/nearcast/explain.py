"""Why did this subscription get, or not get, this message?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.columns import Messages, Subscriptions
from nearcast.geo import Area, Box, Circle, Shape, Space
from nearcast.query import NOT, PHRASE

if TYPE_CHECKING:
    from nearcast._ids import Id


@dataclass(frozen=True)
class Step:
    """One check on the way: `name` is words, place, expiry or index; `passed` is None where nothing was decided."""

    name: str
    passed: bool | None
    detail: str

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
            "steps": [{"name": s.name, "passed": s.passed, "detail": s.detail} for s in self.steps],
        }


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
            occurs = any(terms[i : i + length] == phrase for i in range(len(terms) - length + 1))
            shown = '"' + " ".join(map(word, phrase)) + '"'
            if op == PHRASE and not occurs and set(phrase) <= has:
                against.append(f"the words of {shown} do not stand side by side in this order")
            elif op != PHRASE and occurs:
                against.append(f"NOT {shown} was hit")
            at += 2 + length
    return _Verdict(found, against)


def explain_place(held: Subscriptions, box: np.ndarray, space: Space) -> Step:
    """Explain the region of the one row of `held`."""
    shape = held.regions.shape_of(0)
    if shape is None:
        return Step("place", True, "anywhere")
    from nearcast.geo import touches

    if touches(held.regions, np.array([0]), box.reshape(1, 4), space)[0]:
        return Step("place", True, f"inside {_named(shape, space)}")
    away = held.regions.distance_to(0, box, space)
    return Step("place", False, f"outside {_named(shape, space)} by {_length(away, space)}")


def _named(shape: Shape, space: Space) -> str:
    if isinstance(shape, Circle):
        return f"the circle of {_length(shape.radius, space)} around ({shape.x:g}, {shape.y:g})"
    if isinstance(shape, Box):
        return f"the box ({shape.x_min:g}, {shape.y_min:g}) to ({shape.x_max:g}, {shape.y_max:g})"
    assert isinstance(shape, Area)
    return "the polygon"


def _length(value: float, space: Space) -> str:
    if not space.is_earth:
        return f"{value:g}"
    return f"{value / 1000:,.1f} km" if value >= 10_000 else f"{value:,.0f} m" if value >= 10 else f"{value:.2g} m"


def explain(
    held: Subscriptions,
    messages: Messages,
    space: Space,
    word: Callable[[int], str],
    index_lines: list[str],
    ids: tuple[Id, Id],
) -> Explanation:
    """Explain the one message of `messages` to the one subscription of `held`; `ids` are the two ids."""
    words = explain_words(held, messages.terms_of(0).tolist(), word)
    place = explain_place(held, messages.box[0], space)
    steps = (words, place, *(Step("index", None, line) for line in index_lines))
    return Explanation(*ids, bool(words.passed and place.passed), steps)
