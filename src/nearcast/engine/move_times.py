"""Times of moves: which reports are late, and what they do to event time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.columns import NO_TIME, datetime_of
from nearcast.errors import InvalidSubscription

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.engine.items import Move
    from nearcast.engine.state import State


def late_reports(state: State, slots: NDArray[np.int32], times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which reports are older than the last one of their subscription."""
    is_timed: NDArray[np.bool_] = times != NO_TIME
    if not is_timed.any():
        return is_timed
    return is_timed & (times < state.movers.of(slots)["time"])


def why_late_report(state: State, slot: int, time: int) -> str:
    """Return why a report of a place is refused."""
    return why_late(time, int(state.movers.of(np.array([slot]))["time"][0]))


def why_late(time: int, last: int) -> str:
    """Return why a report of a place is refused whose subscription has reported at `last`."""
    return f"time is {datetime_of(time)}, and the subscription reported at {datetime_of(last)} already; leave it out"


def clock_of(state: State, item: Move, n: int) -> NDArray[np.int64]:
    """Return event time at each of the n reports of a move: with a lifetime the largest so far, else what it is."""
    times = item.times if item.clock is None else item.clock
    if state.live is None or times is None:
        return np.array([state.now]) if n == 1 else np.full(n, state.now)
    clock: NDArray[np.int64] = np.maximum.accumulate(np.maximum(times, state.now))
    return clock


def slides_window(state: State, time: int) -> bool:
    """Tell whether a report of this time slides a window of time: an `Advance` goes before it, a step of its own."""
    if state.live is None or state.topk is None or not state.topk.window.is_by_time:
        return False
    return time > state.now


def next_event(state: State) -> int:
    """Return the event time from which on the clock itself may change subscriptions or answers.

    A report that takes event time there is a `Move` by itself.
    """
    moment = state.next_expiry
    if state.tell_expiry and state.live is not None:
        moment = min(moment, state.live.next_expiry)
    if state.topk is not None and state.topk.window.is_by_time:
        moment = min(moment, state.now + 1)
    return moment


def check_move(state: State, item: Move, slots: NDArray[np.int32]) -> None:
    """Raise `InvalidSubscription` if a report is older than the last one of its subscription.

    It is a `ValueError` if the clock would have to change more than the subscriptions that move.
    """
    if item.times is None:
        return
    if slides_window(state, int(item.times.max(initial=NO_TIME))):
        raise ValueError("reports take event time to where a window slides; advance to it first")
    late = np.flatnonzero(late_reports(state, slots, item.times))
    if len(late):
        row = int(late[0])
        raise InvalidSubscription(why_late_report(state, int(slots[row]), int(item.times[row])), field="time")
