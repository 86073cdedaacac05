"""The one engine that every surface runs: a `State`, and `step`, which takes changes and messages in order.

Plain Python over the indexes, without threads, clocks or files of its own. The hub calls it for one process;
a pipeline calls it for each partition. Time is event time: it moves with the messages' `time` and with `Advance`,
never with the wall clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearcast._ids import IdTable
from nearcast.columns import NO_TIME, WITHIN, Messages, Subscriptions
from nearcast.deliveries import Delivered, Deliveries
from nearcast.errors import InvalidSubscription, UnknownSubscription
from nearcast.geo import BOX
from nearcast.indexes import Index, Matches
from nearcast.indexes._scored import needs_totals
from nearcast.text import Analyzer, Vocabulary
from nearcast.text.weights import TermWeights
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Regions


_NEVER = np.iinfo(np.int64).max
#: Dead slots tolerated beside as many as are alive.
SPARE_SLOTS = 1 << 20


@dataclass(frozen=True)
class Subscribe:
    """Store these subscriptions; a known id is replaced and keeps its place in the order of registration."""

    subscriptions: Subscriptions


@dataclass(frozen=True)
class Unsubscribe:
    """Forget the subscriptions with these ids."""

    ids: pa.Array


@dataclass(frozen=True)
class Move:
    """Give the subscriptions with these ids other regions, from now on; a scored one has a box of one point."""

    ids: pa.Array
    regions: Regions


@dataclass(frozen=True)
class Publish:
    """Match these messages, one step each; they have `totals` where the state needs them."""

    messages: Messages
    threads: int = 1


@dataclass(frozen=True)
class Advance:
    """Move event time to this many microseconds, unless it is there already."""

    time: int


Item = Subscribe | Unsubscribe | Move | Publish | Advance


@dataclass
class State:
    """All an engine knows: subscriptions in an index under ids, the words they use, weights, and the time.

    `needs_totals` tells that a text function among the subscriptions reads all words of a message: whoever encodes
    messages works out their `totals` with `weights`.
    """

    index: Index
    words: WordTable = field(default_factory=WordTable)
    analyzer: Analyzer = field(default_factory=Analyzer)
    vocabulary: Vocabulary = field(default_factory=lambda: Vocabulary().snapshot())
    ids: IdTable = field(default_factory=IdTable)
    now: int = NO_TIME
    next_step: int = 0
    #: When each slot expires, NO_TIME for never; as long as the last slot that does.
    expires: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    #: No slot expires before this; it may lie too early, after a slot has gone by another way.
    next_expiry: int = _NEVER
    weights: TermWeights = field(init=False)
    #: The index knows the weights of the terms below this; none while nothing is scored.
    n_weighed: int = 0
    needs_totals: bool = False

    def __post_init__(self) -> None:
        self.vocabulary = _pinned(self.vocabulary)
        self.weights = TermWeights(self.words, self.vocabulary)

    def slot(self, subscription_id: str | int) -> int:
        """Return the slot of an id, or raise `UnknownSubscription`."""
        slot = self.ids.slot(subscription_id)
        if slot < 0:
            raise UnknownSubscription(f"there is no subscription {subscription_id!r}")
        return slot


def step(state: State, items: Iterable[Item]) -> Deliveries:
    """Apply changes and messages in the order given; return what is delivered, in the order of delivery."""
    delivered = []
    for item in items:
        if isinstance(item, Publish):
            delivered.append(publish(state, item.messages, item.threads))
        elif isinstance(item, Subscribe):
            subscribe(state, item.subscriptions)
        elif isinstance(item, Unsubscribe):
            unsubscribe(state, item.ids)
        elif isinstance(item, Move):
            move(state, item.ids, item.regions)
        else:
            advance(state, item.time)
    return Deliveries(delivered)


def subscribe(state: State, subscriptions: Subscriptions) -> None:
    """Store subscriptions, replacing those whose id is known."""
    _weigh_new_words(state, subscriptions)
    slots = state.ids.slots(subscriptions.ids)
    known, new = np.flatnonzero(slots >= 0), np.flatnonzero(slots < 0)
    fresh = subscriptions if len(new) == len(slots) else subscriptions.take(new)
    inserted = _insert(state, fresh)
    if len(known):
        try:
            state.index.replace(slots[known], subscriptions.take(known))
        except BaseException:
            _forget(state, inserted)  # all or nothing
            raise
    slots[new] = inserted
    _set_expiry(state, slots, subscriptions.expires)
    if state.index.n_slots > 2 * len(state.index) + SPARE_SLOTS:
        _renumber(state)


def _insert(state: State, subscriptions: Subscriptions) -> NDArray[np.int32]:
    """Store subscriptions under new ids; a slot without an id could never be named again, so both or neither."""
    slots = state.index.insert(subscriptions)
    try:
        state.ids.bind(subscriptions.ids, slots)
    except BaseException:
        state.index.remove(slots)
        raise
    return slots


def _weigh_new_words(state: State, subscriptions: Subscriptions) -> None:
    """Tell the index what words weigh before it holds them, and note whether messages need totals from now on."""
    if subscriptions.scoring is None:
        return
    if len(state.words) > state.n_weighed:
        state.index.set_weights(state.weights.from_term(state.n_weighed), state.n_weighed)
        state.n_weighed = len(state.words)
    state.needs_totals = state.needs_totals or needs_totals(subscriptions)


def use_vocabulary(state: State, vocabulary: Vocabulary) -> None:
    """Weigh all words by a snapshot of this vocabulary, from now on."""
    pinned = _pinned(vocabulary)
    weights = TermWeights(state.words, pinned)
    if state.n_weighed:
        state.index.set_weights(weights.from_term(0))
        state.n_weighed = len(state.words)
    state.vocabulary, state.weights = pinned, weights


def _pinned(vocabulary: Vocabulary) -> Vocabulary:
    return vocabulary if vocabulary.is_snapshot else vocabulary.snapshot()


def move(state: State, ids: pa.Array, regions: Regions) -> None:
    """Give the subscriptions with these ids other regions, all of them or none."""
    slots = _known_slots(state, ids)
    if state.n_weighed:
        is_scored = state.index.subscriptions(slots).kind != WITHIN
        for row in np.flatnonzero(is_scored & ~_is_point(regions))[:1].tolist():
            raise InvalidSubscription(
                f"subscription {ids[row].as_py()!r} is scored by the distance to a point; move it to a point (x, y)",
                field="place",
            )
    state.index.move(slots, regions)


def _is_point(regions: Regions) -> NDArray[np.bool_]:
    """Tell which regions are boxes of one point."""
    part = regions.part[regions.part_start[:-1]]
    is_point: NDArray[np.bool_] = (regions.kind == BOX) & (np.diff(regions.part_start) == 1)
    is_point &= (part[:, 0] == part[:, 2]) & (part[:, 1] == part[:, 3])
    return is_point


def unsubscribe(state: State, ids: pa.Array) -> None:
    """Forget the subscriptions with these ids."""
    _forget(state, _known_slots(state, ids))


def publish(state: State, messages: Messages, threads: int = 1) -> Delivered:
    """Match messages against the subscriptions as they are now, one step each."""
    matches = state.index.match(messages, threads=threads)
    first, state.next_step = state.next_step, state.next_step + len(messages)
    times = _clock(state, messages.time)
    if state.now >= state.next_expiry:
        matches = _without_expired(state, matches, times)
        advance(state, state.now)
    return Delivered(matches, messages.ids, times, first, state.ids.snapshot(), state.vocabulary.version)


def advance(state: State, time: int) -> None:
    """Move event time forward and forget what expires by then."""
    state.now = max(state.now, time)
    if state.now < state.next_expiry:
        return
    given = state.expires != NO_TIME
    due = np.flatnonzero(given & (state.expires <= state.now)).astype(np.int32)
    state.next_expiry = int(state.expires[given & (state.expires > state.now)].min(initial=_NEVER))
    if len(due):
        _forget(state, due)


def _clock(state: State, time: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return event time at each message: the largest seen so far; a message without a time does not move it."""
    if len(time) == 1 and time[0] <= state.now:
        return np.array([state.now])
    times = np.maximum.accumulate(np.maximum(time, state.now))
    if len(times):
        state.now = int(times[-1])
    return times


def _without_expired(state: State, matches: Matches, times: NDArray[np.int64]) -> Matches:
    """Leave out matches of subscriptions that had expired by the time of the message."""
    rows = matches.rows()
    slots = np.minimum(matches.slots, len(state.expires) - 1)
    limit = np.where(matches.slots < len(state.expires), state.expires[slots], NO_TIME)
    alive = (limit == NO_TIME) | (times[rows] < limit)
    start = np.zeros(len(matches) + 1, np.int64)
    np.cumsum(np.bincount(rows[alive], minlength=len(matches)), out=start[1:])
    return Matches(start, matches.slots[alive], matches.score[alive], matches.candidates, matches.verified)


def _set_expiry(state: State, slots: NDArray[np.int32], expires: NDArray[np.int64]) -> None:
    if not len(state.expires) and (expires == NO_TIME).all():
        return  # nobody expires: keep no column
    highest = int(slots.max(initial=-1)) + 1
    if highest > len(state.expires):
        grown = np.full(max(highest, 2 * len(state.expires)), NO_TIME, np.int64)
        grown[: len(state.expires)] = state.expires
        state.expires = grown
    state.expires[slots] = expires
    state.next_expiry = min(state.next_expiry, int(expires[expires != NO_TIME].min(initial=_NEVER)))
    advance(state, state.now)


def _renumber(state: State) -> None:
    """Give the live slots new numbers, so that subscriptions that come and go do not fill memory."""
    old = state.index.renumber()
    state.ids.renumber(old)
    if len(state.expires):
        known = old[old < len(state.expires)]
        state.expires = state.expires[known]


def _forget(state: State, slots: NDArray[np.int32]) -> None:
    state.index.remove(slots)
    state.ids.release(slots)
    state.expires[slots[slots < len(state.expires)]] = NO_TIME


def _known_slots(state: State, ids: pa.Array) -> NDArray[np.int32]:
    slots = state.ids.slots(ids)
    if (slots < 0).any():
        raise UnknownSubscription(f"there is no subscription {ids[int(np.argmin(slots))].as_py()!r}")
    return slots
