"""Makes the arrays of a walk larger while it runs: its steps and its progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.topk.buffers.walk_state import (
    BY_TOUCHED,
    MORE_EVENTS,
    MORE_OLD,
    N_EVENTS,
    NEEDED,
    WalkProgress,
    WalkSteps,
)
from nearcast.topk.events import Events

if TYPE_CHECKING:
    from numpy.typing import NDArray


def with_more(
    steps: WalkSteps, step: NDArray[np.int64], holder: NDArray[np.int32], score: NDArray[np.float64]
) -> WalkSteps:
    """Return the steps with these holders in their lists as well."""
    first = len(steps.more_next)
    links = np.empty(len(step), np.int64)
    for i, at in enumerate(step.tolist()):
        links[i], steps.more[at] = steps.more[at], first + i
    return steps._replace(
        more_holder=np.concatenate([steps.more_holder, holder]),
        more_score=np.concatenate([steps.more_score, score]),
        more_next=np.concatenate([steps.more_next, links]),
    )


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


def events_of(progress: WalkProgress) -> Events:
    """Return the events so far."""
    n = int(progress.at[N_EVENTS])
    columns: Any = (
        progress.event_step,
        progress.event_slot,
        progress.event_row,
        progress.event_score,
        progress.event_rank,
        progress.event_enters,
    )
    return Events(*(column[:n].copy() for column in columns))
