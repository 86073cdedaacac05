"""Publishing messages and moving event time: how `step` applies `Publish` and `Advance`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast.columns import NO_TIME, Messages, datetime_of, gathered
from nearcast.deliveries import ChangeDeliveries, MatchDeliveries, Piece, as_changes, in_order
from nearcast.engine.answers import pieces_named, step_after
from nearcast.engine.expiry import are_alive, forget_expired, without_expired
from nearcast.engine.life import settle, store, told_expiry, with_expiry
from nearcast.engine.live_undo import LiveUndo
from nearcast.engine.recovery import ArrivalUndo
from nearcast.errors import InvalidMessage
from nearcast.indexes import Matches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.engine.items import Advance, MatchFunction, Publish
    from nearcast.engine.state import State
    from nearcast.topk.events import Events
    from nearcast.topk.keeper import Keeper, Named
    from nearcast.window import Window


def publish(state: State, item: Publish) -> list[Piece]:
    """Match messages against the subscriptions as they are now, one step each."""
    messages, match = item.messages, item.match
    if match is None:
        match = lambda part, _: state.index.match(part, threads=item.threads)  # noqa: E731
    if state.live is not None and len(messages):
        store(state, messages, _clock(state, messages), _steps_of(state, messages))
    if state.topk is not None:
        return _publish_to_window(state, state.topk, messages, match, item.threads)
    # The ids are taken before those of what expires go.
    piece = deliveries_of(state, messages, match(messages, 0))
    pieces = _count_published(state, [piece], messages, int(piece.times[-1]) if len(messages) else state.now)
    forget_expired(state)
    return pieces


def deliveries_of(state: State, messages: Messages, matches: Matches) -> MatchDeliveries:
    """Return what matches of `within` and `similar` subscriptions deliver, without the expired; nothing is changed."""
    times = _clock(state, messages)
    if len(times) and times[-1] >= state.next_expiry:
        matches = without_expired(state, matches, times)
    steps = _steps_of(state, messages)
    return MatchDeliveries(matches, messages.ids, times, steps, state.ids.snapshot(), state.vocabulary.version)


def _steps_of(state: State, messages: Messages) -> NDArray[np.int64]:
    """Return the numbers of the messages' steps."""
    return np.arange(state.next_step, state.next_step + len(messages)) if messages.steps is None else messages.steps


def _count_published(state: State, pieces: list[Piece], messages: Messages, now: int) -> list[Piece]:
    """Commit messages as published at this time, together with what they and the clock deliver; return that."""
    n = len(messages)
    if state.live is not None:
        pieces = with_expiry(told_expiry(state, _clock(state, messages), _steps_of(state, messages)), pieces)
    next_step = state.next_step + n if messages.steps is None else step_after(state, n, messages.steps)
    state.commit(pieces, torn=None, now=now, next_step=next_step, published=state.published + n)
    settle(state)
    return pieces


def _publish_to_window(
    state: State, topk: Keeper, messages: Messages, match: MatchFunction, threads: int
) -> list[Piece]:
    """Publish messages to the window in portions; the index gets new thresholds after each portion."""
    from nearcast.topk.keeper import BATCH

    for _, reason in untimed_rows(state, messages.time):
        raise InvalidMessage(reason, field="time")
    if not len(messages):
        return []
    steps, now = _steps_of(state, messages), state.now
    before = topk.undo_point(int(steps[0]))
    pieces: list[Piece] = []
    for first in range(0, len(messages), BATCH):
        last = min(first + BATCH, len(messages))
        if first:
            topk.forget(before)
        part, clock = messages.part(first, last), _clock_of(messages, first, last, now)
        matches = match(part, first)
        if clock[-1] >= state.next_expiry:
            matches = without_expired(state, matches, clock)
        state.torn = ArrivalUndo(before)
        pieces.append(_publish_portion(state, topk, part, clock, steps[first:last], matches, threads))
        now = int(clock[-1])
    pieces = _count_published(state, pieces, messages, now)
    topk.forget()
    forget_expired(state)
    return pieces


def _clock(state: State, messages: Messages) -> NDArray[np.int64]:
    """Return event time at each message: the largest seen so far; a message without a time does not move it."""
    if len(messages) == 1 and messages.clock is None and messages.time[0] <= state.now:
        return np.array([state.now])
    return _clock_of(messages, 0, len(messages), state.now)


def _clock_of(messages: Messages, first: int, last: int, now: int) -> NDArray[np.int64]:
    """Return event time at each of these messages: the largest seen so far."""
    times = messages.time if messages.clock is None else messages.clock
    clock: NDArray[np.int64] = np.maximum.accumulate(np.maximum(times[first:last], now))
    return clock


def _publish_portion(
    state: State,
    topk: Keeper,
    messages: Messages,
    clock: NDArray[np.int64],
    numbers: NDArray[np.int64],
    matches: Matches,
    threads: int,
) -> Piece:
    ids = messages.ids.to_pylist() if isinstance(messages.ids, pa.Array) else list(messages.ids)
    arrived = _arrive(state, topk, messages, clock, numbers, matches, ids, threads)
    events, named = _before_expiry(state, *arrived, clock)
    snapshot, version = state.ids.snapshot(), state.vocabulary.version
    delivered = MatchDeliveries(topk.without_topk(matches), messages.ids, clock, numbers, snapshot, version)
    if not len(events):
        return delivered
    causes = np.empty(len(ids), object)
    causes[:] = ids
    changed = ChangeDeliveries(
        steps=numbers[events.step],
        times=clock[events.step],
        slots=events.slot,
        message_ids=named[0],
        message_numbers=named[1],
        scores=events.score,
        ranks=events.rank,
        enters=events.enters,
        cause_ids=causes[events.step],
        ids=snapshot,
        version=version,
    )
    return in_order(as_changes(delivered), changed) if len(delivered) else changed


def _arrive(
    state: State,
    topk: Keeper,
    messages: Messages,
    clock: NDArray[np.int64],
    numbers: NDArray[np.int64],
    matches: Matches,
    ids: list[Any],
    threads: int,
) -> tuple[Events, Named]:
    """Let messages arrive in the window, late ones apart: these take no part in any top-k."""
    late = topk.window.is_late(messages.time, clock)
    if not late.any():
        return topk.publish(messages, matches, numbers, clock, ids, state.weights, threads)
    from nearcast.topk.events import Events

    kept = np.flatnonzero(~late)
    if not len(kept):
        return Events.none(), (np.empty(0, object), np.empty(0, np.int64))
    start, at = gathered(matches.start, kept)
    on_time = Matches(start, matches.slots[at], matches.score[at], matches.candidates, matches.verified)
    names = [ids[row] for row in kept.tolist()]
    timely = messages.take(kept)
    events, named = topk.publish(timely, on_time, numbers[kept], clock[kept], names, state.weights, threads)
    return events.at_steps(kept[events.step]), named


def _before_expiry(state: State, events: Events, named: Named, clock: NDArray[np.int64]) -> tuple[Events, Named]:
    """Return the events without those of subscriptions that had expired by the time of the step."""
    if clock[-1] < state.next_expiry:
        return events, named
    alive = np.flatnonzero(are_alive(state, events.slot, clock[events.step]))
    return events.take(alive), (named[0][alive], named[1][alive])


def untimed_rows(state: State, times: NDArray[np.int64]) -> list[tuple[int, str]]:
    """Return which messages cannot be published to a window of time because they have none, and why."""
    if state.topk is None or not state.topk.window.is_by_time:
        return []
    return [(row, why_untimed(state.topk.window)) for row in np.flatnonzero(times == NO_TIME).tolist()]


def why_untimed(window: Window) -> str:
    """Return why a message without a time cannot be published to a window of time."""
    return f"time is not given; a window of {window} needs to know it"


def count_late(state: State, times: NDArray[np.int64]) -> int:
    """Return how many messages with a time, arriving in this order, come too late for the window."""
    if state.topk is None:
        return 0
    clock = np.maximum.accumulate(np.maximum(times, state.now))
    return int(np.count_nonzero(state.topk.window.is_late(times, clock) & (times != NO_TIME)))


def why_late(window: Window, time: int) -> str:
    """Return why a message of this time cannot enter a top-k."""
    return f"time is {datetime_of(time)}, before the window of {window}; the message came too late"


def about_late(window: Window) -> str:
    """Return what became of messages that came too late, whichever they are."""
    return f"messages came too late for the window of {window}; they reach within and similar, and enter no top-k"


def advance(state: State, item: Advance) -> list[Piece]:
    """Move event time forward, drop messages that leave the window, and remove subscriptions that expire by then."""
    now = max(state.now, item.time)
    expiry: list[Piece] = [*told_expiry(state, np.array([now]), np.array([state.next_step]))]
    if state.live is not None:
        state.live_undo = LiveUndo(state.next_step, state.live.mark())
    if state.topk is None:
        state.commit(expiry, now=now, next_step=step_after(state, 1))
        settle(state)
        forget_expired(state)
        return expiry
    state.torn = ArrivalUndo(state.topk.undo_point(state.next_step))
    events, named = _before_expiry(state, *state.topk.advance(now, state.next_step), np.array([now]))
    pieces = expiry + pieces_named(state, events, named, now, state.vocabulary.version)
    state.commit(pieces, torn=None, now=now, next_step=step_after(state, 1))
    state.topk.forget()
    settle(state)
    forget_expired(state)
    return pieces
