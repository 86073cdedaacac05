"""Explains `trigger` for a top-k subscription: the word a message meets it through, and what bounds say."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nearcast.geo import place_distance
from nearcast.indexes.trigger.thresholds.components import Component, ThresholdSegment
from nearcast.indexes.trigger.thresholds.rows import (
    FIRST,
    LAST,
    MAX_DISTANCE,
    OWN,
    TEXT_WEIGHT,
    THRESHOLD,
    X,
    Y,
)
from nearcast.similarity import MARGIN, near_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages


def trigger_lines(
    component: Component,
    row: int,
    messages: Messages,
    message: int,
    weight: NDArray[np.float64],
    word: Callable[[int], str],
    *,
    is_earth: bool,
) -> list[str]:
    """Return the word that a message meets a row through, what its trigger needs, and what it can reach."""
    record = component.rows.record[row]
    words = component.rows.term[int(record[FIRST]) : int(record[LAST])].tolist()
    said = messages.terms_of(message).tolist()
    common = [term for term in words if term in said]
    if not common:
        return ["no word of it is in the message: never looked at"]
    if not isinstance(component, ThresholdSegment):
        return ["among the newest subscriptions, which every message looks at"]

    def order(term: int) -> tuple[float, int]:
        return -float(weight[term]), term

    term = min(common, key=order)
    text = _most_text(term, words, said, messages, message, weight, float(record[OWN]), order)
    away = float(place_distance(is_earth, record[X], record[Y], *messages.box[message].tolist()))
    near = float(near_of(away, record[MAX_DISTANCE]))
    w, threshold = float(record[TEXT_WEIGHT]), float(record[THRESHOLD])
    reached = w * text + (1.0 - w) * near
    verdict = "scored in full" if reached >= threshold - MARGIN else "never scored"
    can = f"at most {text:.6g} of text and {near:.6g} of nearness give {reached:.6g}"
    return [
        f"trigger {word(term)!r}: its first word in the message, rare ones first",
        f"{can} where {threshold:.6g} is needed: {verdict}",
    ]


def _most_text(
    term: int,
    words: list[int],
    said: list[int],
    messages: Messages,
    message: int,
    weight: NDArray[np.float64],
    own: float,
    order: Callable[[int], tuple[float, int]],
) -> float:
    """Return the most text score that the trigger of a word allows for."""
    total = float(messages.totals[message, 2]) if messages.totals is not None else 0.0
    if own <= 0.0 or total <= 0.0:
        return 0.0

    def share(of: int) -> float:
        return said.count(of) * float(weight[of]) / math.sqrt(total)

    later = sum(float(weight[other]) ** 2 for other in words if order(other) > order(term))
    after = sum(share(o) ** 2 for o in set(said) if 0 <= o < len(weight) and order(o) > order(term))
    if not set(said) & {other for other in words if order(other) > order(term)}:
        after = 0.0
    return min(1.0, share(term) * float(weight[term]) / math.sqrt(own) + math.sqrt(later / own * after))
