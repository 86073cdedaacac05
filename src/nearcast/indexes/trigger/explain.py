"""Explains `trigger`: which trigger of a subscription a message set off, or why none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nearcast.geo import place_distance
from nearcast.indexes.trigger.components import Component, SegmentComponent
from nearcast.indexes.trigger.mobile.component import MobileComponent
from nearcast.indexes.trigger.reach import WILDCARD, scored_triggers
from nearcast.indexes.trigger.rows import SCORED, TriggerRows, X, Y, rarest_terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages


def trigger_lines(
    component: Component,
    rows: NDArray[np.int64],
    messages: Messages,
    message: int,
    popularity: NDArray[np.int32],
    word: Callable[[int], str],
) -> list[str]:
    """Return a line for each trigger of a boolean subscription, and whether the message set it off."""
    kept = component.taken(rows)
    triggers = _triggers(component, rows, kept, popularity)
    has = set(messages.terms_of(message).tolist())
    near = [_near(part, messages.box[message]) for part in kept.part]
    # A region in two parts has each trigger twice; being near one of them is near.
    reached = {trigger for trigger, is_near in zip(triggers, near, strict=True) if is_near}
    lines = []
    for trigger in dict.fromkeys(triggers):
        name = _named(trigger, word)
        if trigger != WILDCARD and trigger not in has:
            lines.append(f"trigger {name}: the message lacks it, never looked at")
        elif trigger not in reached:
            lines.append(f"trigger {name}: the message is not near, never verified")
        else:
            lines.append(f"trigger {name}: set off, verified in full")
    return lines or ["no triggers: the query contradicts itself"]


def disc_lines(
    component: Component,
    row: int,
    messages: Messages,
    message: int,
    weight: NDArray[np.float64],
    word: Callable[[int], str],
    *,
    is_earth: bool,
) -> list[str]:
    """Return a line for each trigger of a scored subscription: how far it reaches, and what became of it."""
    kept = component.taken(np.array([row]))
    x, y = kept.score[0, X], kept.score[0, Y]
    away = float(place_distance(is_earth, x, y, *messages.box[message].tolist()))
    has = set(messages.terms_of(message).tolist())
    unit = " m" if is_earth else ""
    _, terms, reaches = scored_triggers(kept, weight)
    lines, is_found = [], False
    # The words by falling weight, which is by falling reach, and last no word at all.
    for term, reach in sorted(zip(terms.tolist(), reaches.tolist(), strict=True), key=lambda each: -each[1]):
        head = f"trigger {_named(term, word)} reaches {'everywhere' if np.isinf(reach) else f'{reach:,.6g}{unit}'}"
        if term != WILDCARD and term not in has:
            lines.append(f"{head}: the message lacks it, never looked at")
        elif is_found:
            lines.append(f"{head}: left to the words before it")
        elif away > reach:
            is_found = True
            lines.append(f"{head}: the message is {away:,.6g}{unit} away, never scored")
        else:
            is_found = True
            lines.append(f"{head}: set off, scored in full")
    return lines or ["no triggers: no message can reach the threshold"]


def is_scored(component: Component, rows: NDArray[np.int64]) -> bool:
    """Tell whether the rows of a slot are one scored row."""
    return len(rows) == 1 and bool(component.taken(rows).shape[0] <= SCORED)


def _named(trigger: int, word: Callable[[int], str]) -> str:
    return "no word" if trigger == WILDCARD else repr(word(trigger))


def _triggers(
    component: Component, rows: NDArray[np.int64], kept: TriggerRows, popularity: NDArray[np.int32]
) -> list[int]:
    """Return the trigger term of each row: a segment's is read from its lists, a delta's chosen again."""
    if isinstance(component, MobileComponent):
        return component.triggers(rows)
    if isinstance(component, SegmentComponent):
        segment = component.segment
        entry = [int(np.flatnonzero(segment.row == row)[0]) for row in rows]
        first, last = segment.table[:, 1], segment.table[:, 2]
        return [int(segment.table[np.flatnonzero((first <= e) & (e < last))[0], 0]) for e in entry]
    chosen, signature = np.empty(len(rows), np.int32), np.empty(len(rows), np.uint64)
    rarest_terms(kept.code_start, kept.code, popularity, chosen, signature)
    return chosen.tolist()


def _near(part: NDArray[np.float64], box: NDArray[np.float64]) -> bool:
    """Tell whether the rectangles overlap, a message across the dateline counting as both its halves."""
    x_min, y_min, x_max, y_max = box
    in_y = part[1] <= y_max and part[3] >= y_min
    if x_min <= x_max:
        return bool(in_y and part[0] <= x_max and part[2] >= x_min)
    return bool(in_y and (part[2] >= x_min or part[0] <= x_max))
