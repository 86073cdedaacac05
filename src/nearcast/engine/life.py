"""Life of messages: how steps differ in a state with a lifetime, where messages count until they expire.

A message is delivered as it arrives, and stored where it lives on. A move, a registration, a replacement and another
vocabulary tell the difference between what was relevant among the stored messages and what is. Expiry tells nothing,
unless `State.tell_expiry`: then the messages that are over are matched once more.

The store changes before the rest of a step. It is put back where the step was not committed: every committed step has
raised `State.next_step`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.columns import NO_TIME, TOPK
from nearcast.deliveries import ChangeDeliveries, as_changes, by_step, in_order
from nearcast.engine.expiry import are_alive
from nearcast.engine.live_undo import LiveUndo
from nearcast.errors import InvalidMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions
    from nearcast.deliveries import Piece
    from nearcast.engine.items import Subscribe
    from nearcast.engine.state import State
    from nearcast.live.answers import RelevantMessages
    from nearcast.live.contract import LiveStore


def settle(state: State) -> None:
    """Put the store of live messages back where its step was not committed; forget what is over."""
    undo, live = state.live_undo, state.live
    if undo is None or live is None:
        return
    if state.next_step == undo.step:
        live.rewind(undo.mark)
    else:
        live.drop(state.now)
    state.live_undo = None


# --- messages ---------------------------------------------------------------------------------------------------


def store(state: State, messages: Messages, clock: NDArray[np.int64], steps: NDArray[np.int64]) -> None:
    """Store the messages of a step that live on; raise `InvalidMessage` for one that is over already."""
    assert state.live is not None
    assert state.lifetime is not None
    for _, field, reason in state.lifetime.faults(messages.time, messages.expires, state.now):
        raise InvalidMessage(reason, field=field)
    ends = state.lifetime.ends(messages.time, messages.expires, clock)
    lasting = np.flatnonzero(ends != NO_TIME)
    state.live_undo = LiveUndo(state.next_step, state.live.mark())
    if len(lasting):
        kept = messages if len(lasting) == len(messages) else messages.take(lasting)
        state.live.append(kept, steps[lasting], ends[lasting])


def told_expiry(state: State, clock: NDArray[np.int64], steps: NDArray[np.int64]) -> list[ChangeDeliveries]:
    """Return what the expiry of messages delivers in steps at these event times, all subscriptions staying the same."""
    live = state.live
    if live is None or not state.tell_expiry or not len(clock) or clock[-1] < live.next_expiry:
        return []
    over = live.expired(int(clock[-1]))
    ends = live.expires(over)
    over, ends = over[ends > state.now], ends[ends > state.now]  # the others have been told
    if not len(over):
        return []
    at = np.searchsorted(clock, ends)
    rows, slots, score = _matched(state, live, over)
    alive = are_alive(state, slots, clock[at[rows]])
    rows, slots, score = rows[alive], slots[alive], score[alive]
    return _pieces(state, steps[at[rows]], clock[at[rows]], slots, over[rows], score, np.zeros(len(rows), np.uint8))


def _matched(
    state: State, live: LiveStore, arrivals: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Return (row, slot, score) of the subscriptions, but for those of kind `topk`, that stored messages match."""
    messages = live.messages(arrivals)
    if messages.totals is not None:
        messages.totals[:, 2] = 1.0  # only top-k subscriptions read it, and these are left out
    matches = state.index.match(messages)
    if state.topk is not None:
        matches = state.topk.without_topk(matches)
    return matches.rows(), matches.slots, matches.score


def with_expiry(expiry: list[ChangeDeliveries], pieces: list[Piece]) -> list[Piece]:
    """Return what steps deliver, in each step the expiry of messages first."""
    if not expiry:
        return pieces
    changes = [each if isinstance(each, ChangeDeliveries) else as_changes(each) for each in (*expiry, *pieces)]
    return [by_step(changes)]


# --- changes of subscriptions -----------------------------------------------------------------------------------


def relevant_now(state: State, subscriptions: Subscriptions) -> RelevantMessages:
    """Return what is relevant to subscriptions now."""
    assert state.live is not None
    return state.live.relevant(subscriptions, state.index.weights, np.full(len(subscriptions), state.now))


def tell_moves(
    state: State,
    slots: NDArray[np.int32],
    before: Subscriptions,
    after: Subscriptions,
    clock: NDArray[np.int64],
    steps: NDArray[np.int64] | None,
) -> list[ChangeDeliveries]:
    """Return how answers differ between two places of subscriptions, each a step at its own event time."""
    assert state.live is not None
    found = state.live.difference(before, after, state.index.weights, clock)
    if not len(found.arrival):
        return []
    rows = found.rows()
    numbers = state.next_step + np.arange(len(slots)) if steps is None else steps
    return _pieces(state, numbers[rows], clock[rows], slots[rows], found.arrival, found.score, found.enters)


def tell_registered(
    state: State, slots: NDArray[np.int32], known: NDArray[np.int64], held: Subscriptions | None, item: Subscribe
) -> list[ChangeDeliveries]:
    """Return the first answers of new subscriptions, and how those of replaced ones differ, each a step.

    `known` are the rows that replaced what `held` holds. Top-k lists are not looked at.
    """
    assert state.live is not None
    given, n = item.subscriptions, len(slots)
    before, after = np.full(n, -1, np.int64), np.arange(n)
    before[known] = np.arange(len(known))
    is_alive = (given.expires == NO_TIME) | (given.expires > state.now)
    fresh = after[(before < 0) & is_alive]
    first = relevant_now(state, given.take(fresh))
    rows, arrival, score = fresh[first.rows()], first.arrival, first.score
    enters = np.ones(len(rows), np.uint8)
    kept = known[is_alive[known]]
    if held is not None and len(kept):
        was, now = held.take(before[kept]), given.take(kept)
        found = state.live.difference(was, now, state.index.weights, np.full(len(kept), state.now))
        rows, arrival = np.append(rows, kept[found.rows()]), np.append(arrival, found.arrival)
        score, enters = np.append(score, found.score), np.append(enters, found.enters)
        order = np.argsort(rows, kind="stable")
        rows, arrival, score, enters = rows[order], arrival[order], score[order], enters[order]
    numbers = state.next_step + after if item.steps is None else item.steps
    return _pieces(state, numbers[rows], np.full(len(rows), state.now), slots[rows], arrival, score, enters)


def joined(*pieces: Sequence[Piece]) -> list[Piece]:
    """Return the changes of live answers and of top-k lists, by step and registration, `-` before `+`.

    What a step takes back is left out: a subscription that becomes one of another kind may keep a message.
    """
    given = [piece for each in pieces for piece in each if isinstance(piece, ChangeDeliveries)]
    if len(given) < 2:
        return [*given]
    changes = given[0]
    for other in given[1:]:
        changes = in_order(changes, other)
    key = np.column_stack([changes.steps, changes.slots, changes.message_numbers])
    _, place, count = np.unique(key, axis=0, return_inverse=True, return_counts=True)
    once = np.flatnonzero(count[place.reshape(-1)] == 1)
    return [changes.take(once[np.lexsort((changes.enters[once], changes.slots[once], changes.steps[once]))])]


def tell_left_topk(
    state: State,
    slots: NDArray[np.int32],
    known: NDArray[np.int64],
    held: Subscriptions | None,
    item: Subscribe,
) -> list[Piece]:
    """Return what leaves the lists of top-k subscriptions that become some of another kind, each a step."""
    if state.topk is None or held is None:
        return []
    is_other = (held.kind == TOPK) & (item.subscriptions.kind[known] != TOPK)
    pieces: list[list[Piece]] = []
    for row in known[is_other].tolist():
        if not state.topk.holds(int(slots[row])):
            continue
        rows, scores = state.topk.current(int(slots[row]))
        ids, numbers = state.topk.names(rows)
        n, step = len(rows), state.next_step + row if item.steps is None else int(item.steps[row])
        gone = _pieces(
            state,
            np.full(n, step),
            np.full(n, state.now),
            np.full(n, slots[row], np.int32),
            numbers,
            scores,
            np.zeros(n, np.uint8),
            ids,
        )
        ranks = np.arange(1, n + 1, dtype=np.int32)
        pieces.append([replace(piece, ranks=ranks) for piece in gone])
    return joined(*pieces)


class ScoredAnswers(NamedTuple):
    """What is relevant to all `similar` subscriptions, by slot, before their words get other weights."""

    slots: NDArray[np.int32]
    found: RelevantMessages


def scored_answers(state: State) -> ScoredAnswers:
    """Return what is relevant to the subscriptions whose answers depend on the weights of words."""
    slots = state.ids.in_use()
    held = state.index.subscriptions(slots)
    scored = np.flatnonzero(held.kind != 0)
    return ScoredAnswers(slots[scored], relevant_now(state, held.take(scored)))


def tell_reweighed(state: State, before: ScoredAnswers, version: str) -> list[ChangeDeliveries]:
    """Return how answers differ since, in one step."""
    from nearcast.live.answers import changes_between

    after = relevant_now(state, state.index.subscriptions(before.slots))
    found = changes_between(before.found, after)
    rows = found.rows()
    n = len(rows)
    pieces = _pieces(
        state,
        np.full(n, state.next_step),
        np.full(n, state.now),
        before.slots[rows],
        found.arrival,
        found.score,
        found.enters,
    )
    return [replace(piece, version=version) for piece in pieces]


def _pieces(
    state: State,
    steps: NDArray[np.int64],
    times: NDArray[np.int64],
    slots: NDArray[np.int32],
    arrivals: NDArray[np.int64],
    scores: NDArray[np.float64],
    enters: NDArray[np.uint8],
    ids: NDArray[np.object_] | None = None,
) -> list[ChangeDeliveries]:
    """Return changes of answers as deliveries that no message caused; `ids` are the messages', if not of the store."""
    n = len(steps)
    if not n:
        return []
    assert state.live is not None
    return [
        ChangeDeliveries(
            steps=steps,
            times=times,
            slots=slots,
            message_ids=state.live.id_column(arrivals) if ids is None else ids,
            message_numbers=arrivals,
            scores=scores,
            ranks=np.zeros(n, np.int32),
            enters=enters,
            cause_ids=np.full(n, None, object),
            ids=state.ids.snapshot(),
            version=state.vocabulary.version,
        )
    ]
