"""The progress of a walk: its arrays made larger while it runs, and its events in order at the end."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.topk.buffers.walk_state import (
    BY_TOUCHED,
    MORE_EVENTS,
    MORE_OLD,
    N_EVENTS,
    NEEDED,
    WalkProgress,
)
from nearcast.topk.events import Events

if TYPE_CHECKING:
    from numpy.typing import NDArray


def with_room(progress: WalkProgress, code: int) -> WalkProgress:
    """Return the same progress with twice the room for what there was too little of."""
    needed = 2 * int(progress.at[NEEDED])
    if code == MORE_OLD:
        return progress._replace(old_score=np.empty(needed), old_row=np.empty(needed, np.int64))
    if code == MORE_EVENTS:
        names = [name for name in WalkProgress._fields if name.startswith("event_")]
        n = int(progress.at[N_EVENTS])
        return progress._replace(**{name: _lengthened(getattr(progress, name), n, needed) for name in names})
    return progress._replace(**{name: np.empty(needed + 1, getattr(progress, name).dtype) for name in BY_TOUCHED})


def _lengthened(column: NDArray[Any], n: int, length: int) -> NDArray[Any]:
    longer = np.empty(length, column.dtype)
    longer[:n] = column[:n]
    return longer


def events_of(progress: WalkProgress, in_order: int | None = None) -> Events:
    """Return the events by step and slot; they were noted in that order, or only the first `in_order` of them."""
    n = int(progress.at[N_EVENTS])
    columns: Any = (
        progress.event_step,
        progress.event_slot,
        progress.event_row,
        progress.event_score,
        progress.event_rank,
        progress.event_enters,
    )
    if in_order is None or in_order == n:
        return Events(*(column[:n].copy() for column in columns))
    order = np.lexsort((progress.event_slot[in_order:n], progress.event_step[in_order:n]))
    later = Events(*(column[in_order:n][order] for column in columns))
    places = _places(progress.event_step[:in_order], progress.event_slot[:in_order], later)
    both = zip(
        (column[:in_order] for column in columns), (getattr(later, each.name) for each in fields(later)), strict=True
    )
    return Events(*(_spliced(column, more, places) for column, more in both))


def _places(step: NDArray[np.int64], slot: NDArray[np.int32], later: Events) -> list[tuple[int, int]]:
    """Return where among events in order runs of later ones belong, and with which of these each run begins."""
    is_first = np.append(True, (np.diff(later.step) != 0) | (np.diff(later.slot) != 0))
    begins = np.flatnonzero(is_first)
    low, high = (np.searchsorted(step, later.step[begins], side=side) for side in ("left", "right"))
    return [
        (int(a + np.searchsorted(slot[a:b], later.slot[begin])), begin)
        for a, b, begin in zip(low.tolist(), high.tolist(), begins.tolist(), strict=True)
    ]


def _spliced(column: NDArray[Any], later: NDArray[Any], places: list[tuple[int, int]]) -> NDArray[Any]:
    """Return a column with later values put in: runs are few and short, so that most is copied in long pieces."""
    pieces = [column[: places[0][0]]]
    for (place, begin), (next_place, end) in pairwise([*places, (len(column), len(later))]):
        pieces += [later[begin:end], column[place:next_place]]
    return np.concatenate(pieces)
