"""Changes of subscriptions and of word weights: how `step` applies all items but messages and time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast.columns import NO_TIME, TOPK
from nearcast.engine.answers import pieces_of, step_after
from nearcast.engine.expiry import are_alive, expiry_with, forget, forget_expired, set_expiry
from nearcast.engine.known_moves import KnownMove
from nearcast.engine.life import (
    joined,
    scored_answers,
    settle,
    tell_left_topk,
    tell_moves,
    tell_registered,
    tell_reweighed,
    told_expiry,
    with_expiry,
)
from nearcast.engine.live_undo import LiveUndo
from nearcast.engine.move_columns import place_rows
from nearcast.engine.move_times import check_move, clock_of, next_event
from nearcast.engine.recovery import RemovalRedo, StoringUndo, WeighingUndo
from nearcast.engine.small_moves import without_small_moves
from nearcast.engine.upkeep import make_good, renumber_if_sparse, whole
from nearcast.errors import InvalidSubscription
from nearcast.indexes.shared.scores import needs_totals
from nearcast.text.weights import TermWeights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.deliveries import ChangeDeliveries, Piece
    from nearcast.engine.items import Move, Subscribe, Unsubscribe, UseVocabulary
    from nearcast.engine.known_moves import MovePlaces
    from nearcast.engine.recovery import ChangeRecord
    from nearcast.engine.state import State


_NO_IDS = pa.nulls(0, pa.string())


def subscribe(state: State, item: Subscribe) -> list[Piece]:
    """Store subscriptions, replacing those whose id is known; return the first answers of those of kind `topk`."""
    subscriptions, steps = item.subscriptions, item.steps
    has_topk = subscriptions.scoring is not None and bool((subscriptions.kind == TOPK).any())
    if state.topk is None and has_topk:
        raise InvalidSubscription("a top-k subscription needs a window, and there is none here", field="kind")
    slots, known = _store(state, subscriptions)
    pieces = _first_answers(state, slots, item) if has_topk else []
    if state.live is not None:
        assert isinstance(state.torn, StoringUndo)
        held = state.torn.held
        changed = tell_registered(state, slots, known, held, item)
        pieces = joined(changed, tell_left_topk(state, slots, known, held, item), pieces)
    next_step = step_after(state, len(subscriptions), steps)
    next_expiry = expiry_with(state, subscriptions.expires)
    others = _held_no_more(state, slots[known], subscriptions.kind[known])
    state.commit(pieces, torn=others, next_step=next_step, next_expiry=next_expiry)
    make_good(state)
    if state.texts.is_sparse:
        state.texts.compact(state.ids.in_use())
    if state.renumbers:
        renumber_if_sparse(state)
    return pieces


def _held_no_more(state: State, slots: NDArray[np.int32], kind: NDArray[np.uint8]) -> ChangeRecord | None:
    """Return the redo record that releases the buffers of slots that were of kind `topk` and are not any more."""
    if state.topk is None:
        return None
    slots = slots[kind != TOPK]
    held = slots[state.topk.is_held(slots)]
    return RemovalRedo(held, -1) if len(held) else None


@whole
def adopt(state: State, subscriptions: Subscriptions) -> NDArray[np.int32]:
    """Store new subscriptions whose top-k lists come from elsewhere, without searching the window; return their slots.

    This is how a state is filled before its first input, so it is no item.
    """
    slots, _ = _store(state, subscriptions)
    state.commit(torn=None, next_expiry=expiry_with(state, subscriptions.expires))
    make_good(state)
    return slots


def _store(state: State, subscriptions: Subscriptions) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Store subscriptions under an undo record; return their slots, and which rows replaced a known id."""
    _weigh_new_words(state, subscriptions)
    slots = state.ids.slots(subscriptions.ids)
    known, new = np.flatnonzero(slots >= 0), np.flatnonzero(slots < 0)
    fresh = subscriptions if len(new) == len(slots) else subscriptions.take(new)
    state.torn = StoringUndo.before(state, fresh.ids, slots[known])
    if len(new):
        slots[new] = state.index.insert(fresh)
        state.ids.bind(fresh.ids, slots[new])
    if len(known):
        state.index.replace(slots[known], subscriptions.take(known))
    state.texts.put(slots, subscriptions.texts)
    set_expiry(state, slots, subscriptions.expires)
    state.movers.begin(slots, subscriptions.min_move)
    return slots, known


def _first_answers(state: State, slots: NDArray[np.int32], item: Subscribe) -> list[Piece]:
    """Fill the buffers of new top-k subscriptions from the window, each a step; expired ones are left out."""
    subscriptions = item.subscriptions
    assert state.topk is not None
    assert subscriptions.scoring is not None
    is_alive = (subscriptions.expires == NO_TIME) | (subscriptions.expires > state.now)
    held = np.flatnonzero((subscriptions.kind == TOPK) & is_alive)
    events = state.topk.hold(slots[held], subscriptions.scoring.k[held], state.weights, item.threads)
    return pieces_of(state, events.at_steps(held[events.step]), state.vocabulary.version, item.steps)


def _weigh_new_words(state: State, subscriptions: Subscriptions) -> None:
    """Give the index the weights of new words before it stores them; note whether messages need totals from now on."""
    if subscriptions.scoring is None:
        return
    if len(state.words) > state.n_weighed:
        state.index.set_weights(state.weights.from_term(state.n_weighed), state.n_weighed)
        state.n_weighed = len(state.words)
    state.needs_totals = state.needs_totals or needs_totals(subscriptions)


def use_vocabulary(state: State, item: UseVocabulary) -> list[Piece]:
    """Weigh all words by another vocabulary from now on; return how top-k answers differ, in one step."""
    vocabulary = item.vocabulary
    weights, n_weighed = TermWeights(state.words, vocabulary), 0
    before = None if state.live is None else scored_answers(state)
    if state.live is not None:
        state.live_undo = LiveUndo(state.next_step, state.live.mark())
    state.torn = WeighingUndo(state.weights)
    if state.n_weighed:
        n_weighed = len(state.words)
        state.index.set_weights(weights.from_term(0))
    pieces: list[Piece] = []
    if state.topk is not None:
        pieces = pieces_of(state, state.topk.look_again_at_all(weights, item.threads), vocabulary.version)
    if state.live is not None and before is not None:
        state.live.reweigh(weights)
        pieces = joined(tell_reweighed(state, before, vocabulary.version), pieces)
    next_step = step_after(state, 1)
    state.commit(pieces, torn=None, vocabulary=vocabulary, weights=weights, n_weighed=n_weighed, next_step=next_step)
    settle(state)
    return pieces


def move(state: State, item: Move) -> list[Piece]:
    """Give subscriptions other places, all of them or none; return how answers differ."""
    slots, held, places, before = _known(state, item) if item.known is None else item.known
    check_move(state, item, slots)
    places = without_small_moves(state, held, before, item, places)
    clock = clock_of(state, item, len(slots))
    expiry = _told_before(state, slots, clock, item)
    movers = _reported(before, item, places, clock)
    is_bare = not state.has_steps and item.steps is None and not places.texts
    if is_bare and movers.tobytes() == before.tobytes():
        state.index.move(slots, places.regions)  # there is nothing else to change
        return []
    state.torn = StoringUndo.before(state, _NO_IDS, slots, held, before)
    state.index.move(slots, places.regions)
    state.movers.put(slots, movers)
    for row, text in places.texts.items():
        state.texts.put_one(int(slots[row]), text)
    pieces: list[Piece] = []
    if state.topk is not None and len(topk := np.flatnonzero(held.kind == TOPK)):
        events = state.topk.move(slots[topk], state.weights)
        events = events.at_steps(topk[events.step])
        pieces = pieces_of(state, events, state.vocabulary.version, item.steps)
        pieces = [replace(piece, times=clock[events.step]) for piece in pieces]
    if state.live is not None:
        after = held.with_regions(places.regions)
        pieces = joined(tell_moves(state, slots, held, after, clock, item.steps), pieces)
        pieces = with_expiry(expiry, pieces)
    now = clock.item(-1) if len(clock) else state.now
    state.commit(pieces, torn=None, now=now, next_step=step_after(state, len(slots), item.steps))
    if state.live is not None:
        state.live.drop(now)
        forget_expired(state)
    if places.texts and state.texts.is_sparse:
        state.texts.compact(state.ids.in_use())
    return pieces


def _told_before(
    state: State, slots: NDArray[np.int32], clock: NDArray[np.int64], item: Move
) -> list[ChangeDeliveries]:
    """Return what the clock tells before a move; `ValueError` if it changes something between two rows of it."""
    is_now = item.times is None and item.clock is None
    if state.live is None or is_now or not len(clock) or clock[-1] < max(next_event(state), state.now + 1):
        return []
    if len(slots) == 1:
        return told_expiry(state, clock, np.array([state.next_step]) if item.steps is None else item.steps)
    if (state.tell_expiry and clock[-1] >= state.live.next_expiry) or not are_alive(state, slots, clock).all():
        raise ValueError("reports take event time to where the clock changes answers; make each a move of its own")
    return []


def _known(state: State, item: Move) -> KnownMove:
    """Look up the slots of a move, and where they go; raise `InvalidSubscription` if one cannot go there."""
    slots = state.slots(item.ids)
    held, reports = state.index.subscriptions(slots), state.movers.of(slots)
    points = np.full((len(slots), 2), np.nan) if item.points is None else item.points
    placement, faults = place_rows(state, slots, held, reports, points, item.regions)
    for _, field, reason in faults:
        raise InvalidSubscription(reason, field=field)
    placement = placement._replace(texts=placement.texts if item.text is None else {0: item.text})
    return KnownMove(slots, held, placement, reports)


def _reported(before: NDArray[Any], item: Move, places: MovePlaces, clock: NDArray[np.int64]) -> NDArray[Any]:
    """Return the movers' rows after a move."""
    if item.times is None and len(before) == 1:
        last, _, _, min_move = before.item()
        return np.array([(max(last, clock.item()), *places.extents[0].tolist(), min_move)], before.dtype)
    rows = before.copy()
    reported = clock if item.times is None else np.where(item.times == NO_TIME, clock, item.times)
    rows["time"] = np.maximum(rows["time"], reported)
    rows["width"], rows["height"] = places.extents.T
    return rows


def unsubscribe(state: State, item: Unsubscribe) -> list[Piece]:
    """Forget subscriptions, which delivers nothing."""
    forget(state, state.slots(item.ids), next_step=step_after(state, len(item.ids), item.steps))
    return []
