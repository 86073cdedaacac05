"""Expiry times of subscriptions by slot, and the removal of subscriptions, expired or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.columns import NO_TIME
from nearcast.engine.recovery import RemovalRedo
from nearcast.engine.state import NEVER
from nearcast.indexes import Matches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.engine.state import State


def forget(state: State, slots: NDArray[np.int32], **then: Any) -> None:
    """Remove subscriptions from index, buffers and ids, and set these attributes in the last step.

    When it is interrupted after the index has removed them, the rest is completed by the redo record.
    """
    if len(slots):
        state.torn = RemovalRedo(slots, len(state.index), then)
        state.index.remove(slots)
        if state.topk is not None:
            state.topk.release(slots)
        state.ids.release(slots)
        state.expires[slots[slots < len(state.expires)]] = NO_TIME
    state.commit(torn=None, **then)


def forget_expired(state: State) -> None:
    """Remove the subscriptions whose expiry is not after event time."""
    if state.now < state.next_expiry:
        return
    given = state.expires != NO_TIME
    due = np.flatnonzero(given & (state.expires <= state.now)).astype(np.int32)
    forget(state, due, next_expiry=int(state.expires[given & (state.expires > state.now)].min(initial=NEVER)))


def set_expiry(state: State, slots: NDArray[np.int32], expires: NDArray[np.int64]) -> None:
    """Store the expiry times of slots; there is no column while nobody expires."""
    if not len(state.expires) and (expires == NO_TIME).all():
        return  # nobody expires: keep no column
    highest = int(slots.max(initial=-1)) + 1
    if highest > len(state.expires):
        grown = np.full(max(highest, 2 * len(state.expires)), NO_TIME, np.int64)
        grown[: len(state.expires)] = state.expires
        state.expires = grown
    state.expires[slots] = expires


def expiry_with(state: State, expires: NDArray[np.int64]) -> int:
    """Return the earliest expiry of all subscriptions and these times; it may be too early, never too late."""
    if len(expires) == 1:
        return state.next_expiry if expires[0] == NO_TIME else min(state.next_expiry, int(expires[0]))
    return min(state.next_expiry, int(expires[expires != NO_TIME].min(initial=NEVER)))


def without_expired(state: State, matches: Matches, times: NDArray[np.int64]) -> Matches:
    """Return the matches without those of subscriptions that had expired by the time of the message."""
    if not len(state.expires):
        return matches
    rows = matches.rows()
    alive = are_alive(state, matches.slots, times[rows])
    start = np.zeros(len(matches) + 1, np.int64)
    np.cumsum(np.bincount(rows[alive], minlength=len(matches)), out=start[1:])
    return Matches(start, matches.slots[alive], matches.score[alive], matches.candidates, matches.verified)


def are_alive(state: State, slots: NDArray[np.int32], times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which slots have not expired; each is looked at at a time of its own."""
    if not len(state.expires):
        return np.ones(len(slots), np.bool_)
    known = np.minimum(slots, len(state.expires) - 1)
    limit = np.where(slots < len(state.expires), state.expires[known], NO_TIME)
    alive: NDArray[np.bool_] = (limit == NO_TIME) | (times < limit)
    return alive
