"""Why the trigger index looked at a subscription, or did not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nearcast.indexes.trigger.components import Component, SegmentComponent
from nearcast.indexes.trigger.rows import Rows, rarest_terms, take_rows
from nearcast.indexes.trigger.segment import WILDCARD

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
    """Return a line for each row: its trigger, and whether the message set it off."""
    kept = take_rows(component.rows, rows)
    triggers = _triggers(component, rows, kept, popularity)
    has = set(messages.terms_of(message).tolist())
    near = [_near(part, messages.box[message]) for part in kept.part]
    # A region in two parts has each trigger twice; being near one of them is near.
    reached = {trigger for trigger, is_near in zip(triggers, near, strict=True) if is_near}
    lines = []
    for trigger in dict.fromkeys(triggers):
        name = "no word" if trigger == WILDCARD else repr(word(trigger))
        if trigger != WILDCARD and trigger not in has:
            lines.append(f"trigger {name}: the message lacks it, never looked at")
        elif trigger not in reached:
            lines.append(f"trigger {name}: the message is not near, never verified")
        else:
            lines.append(f"trigger {name}: set off, verified in full")
    return lines or ["no triggers: the query contradicts itself"]


def _triggers(component: Component, rows: NDArray[np.int64], kept: Rows, popularity: NDArray[np.int32]) -> list[int]:
    """Return the trigger term of each row: a segment's is read from its lists, a delta's chosen again."""
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
