"""The steps of a walk through all buffers, and how far it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Why a walk stopped: all steps are done, or are but for holders that need a search; a pool or an array is too small.
DONE, SEARCH, MORE_SLABS, MORE_TOUCHED, MORE_OLD, MORE_EVENTS = 0, 1, 2, 3, 4, 5

#: Places in `WalkProgress.at`. The first N_EXPIRING of the touched have a message that expires. Of memory that was
#: asked for ahead: of how many touched holders the entries (N_FETCHED); of the lists of the next step the next one
#: (LIST), and the last holder (IN_LIST).
STEP, PHASE, N_TOUCHED, N_OLD, N_EVENTS, NEEDED, N_UNTOLD, N_SHORT = 0, 1, 2, 3, 4, 5, 6, 7
N_EXPIRING, N_FETCHED, LIST, IN_LIST = 8, 9, 10, 11
N_PLACES = 12


class WalkSteps(NamedTuple):
    """The steps of a batch: what arrives, what expires, and which holders each arrival may concern.

    Step i has number `number[i]`; `row[i]` arrives (-1: nothing does), the rows `expired[expired_start[i]:...]` leave
    in order of age, and `holder[start[i]:...]` with their `score` may want what arrives.
    """

    number: NDArray[np.int64]
    row: NDArray[np.int64]
    expired_start: NDArray[np.int64]
    expired: NDArray[np.int64]
    start: NDArray[np.int64]
    holder: NDArray[np.int32]
    score: NDArray[np.float64]


class WalkProgress(NamedTuple):
    """The state of a walk that may stop for want of room: how far it is, and its events so far.

    `touched` are the holders of the step under way. For each: the message that left its top-k and the one that entered
    it, with the rank there, 0 if there is none; or, where more may change, the first k before the step in `old_score`
    and `old_row`, from `old_start` on. `order` sorts those with events by slot. Events are one row for each message
    that entered or left a top-k. `untold` are the holders whose threshold is another than the index knows; those
    of them without a slab became short, and were set aside at their `step`.
    """

    at: NDArray[np.int64]
    touched: NDArray[np.int32]
    left_row: NDArray[np.int64]
    left_score: NDArray[np.float64]
    left_rank: NDArray[np.int32]
    entered_score: NDArray[np.float64]
    entered_rank: NDArray[np.int32]
    order: NDArray[np.int64]
    spare: NDArray[np.int64]
    digits: NDArray[np.int64]
    old_start: NDArray[np.int64]
    old_score: NDArray[np.float64]
    old_row: NDArray[np.int64]
    event_step: NDArray[np.int64]
    event_slot: NDArray[np.int32]
    event_row: NDArray[np.int64]
    event_score: NDArray[np.float64]
    event_rank: NDArray[np.int32]
    event_enters: NDArray[np.uint8]
    untold: NDArray[np.int32]


#: The columns of `WalkProgress` with a row for each holder that is touched.
BY_TOUCHED = (
    "touched",
    "left_row",
    "left_score",
    "left_rank",
    "entered_score",
    "entered_rank",
    "order",
    "spare",
    "old_start",
)


def new_progress(n_touched: int, n_old: int, n_events: int, n_holders: int) -> WalkProgress:
    """Return room for this much."""
    return WalkProgress(
        at=np.zeros(N_PLACES, np.int64),
        touched=np.empty(n_touched, np.int32),
        left_row=np.empty(n_touched, np.int64),
        left_score=np.empty(n_touched, np.float64),
        left_rank=np.empty(n_touched, np.int32),
        entered_score=np.empty(n_touched, np.float64),
        entered_rank=np.empty(n_touched, np.int32),
        order=np.empty(n_touched, np.int64),
        spare=np.empty(n_touched, np.int64),
        digits=np.empty(256, np.int64),
        old_start=np.empty(n_touched + 1, np.int64),
        old_score=np.empty(n_old, np.float64),
        old_row=np.empty(n_old, np.int64),
        event_step=np.empty(n_events, np.int64),
        event_slot=np.empty(n_events, np.int32),
        event_row=np.empty(n_events, np.int64),
        event_score=np.empty(n_events, np.float64),
        event_rank=np.empty(n_events, np.int32),
        event_enters=np.empty(n_events, np.uint8),
        untold=np.empty(n_holders, np.int32),
    )
