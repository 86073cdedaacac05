"""The one engine that every surface runs: a `State`, and `step`, which takes changes and messages in order.

Plain Python over the indexes, without threads, clocks or files of its own. The hub calls it for one process;
a pipeline calls it for each partition. Time is event time: it moves with the messages' `time` and with `Advance`,
never with the wall clock. A call that raises has changed nothing; `recovery` says how.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

from nearcast._ids import IdTable
from nearcast.columns import NO_TIME, TOPK, WITHIN, Messages, Subscriptions, datetime_of
from nearcast.deliveries import Changed, Delivered, Deliveries, Piece, changed_of, in_order
from nearcast.engine.recovery import ArrivalUndo, ChangeRecord, RemovalRedo, RenumberingRedo, StoringUndo, WeighingUndo
from nearcast.errors import InvalidMessage, InvalidSubscription, UnknownSubscription
from nearcast.geo import BOX
from nearcast.indexes import Index, Matches
from nearcast.indexes.shared.scores import needs_totals
from nearcast.request_texts import RequestTexts
from nearcast.text import Analyzer, Vocabulary
from nearcast.text.weights import TermWeights
from nearcast.text.words import WordTable
from nearcast.topk.buffers.holders import NOBODY
from nearcast.window import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Regions
    from nearcast.topk.events import Events
    from nearcast.topk.keeper import Keeper, Named


_NEVER = np.iinfo(np.int64).max
#: Dead slots tolerated beside as many as are alive.
SPARE_SLOTS = 1 << 20
#: Words that no subscription uses, tolerated beside as many as are in use.
SPARE_WORDS = 100_000


@dataclass(frozen=True)
class Subscribe:
    """Store these subscriptions; a known id is replaced and keeps its place in the order of registration.

    `steps`, here and below, are the numbers of the steps where changes were put in order elsewhere.
    """

    subscriptions: Subscriptions
    steps: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Unsubscribe:
    """Forget the subscriptions with these ids."""

    ids: pa.Array
    steps: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Move:
    """Give the subscriptions with these ids other regions, from now on; a scored one has a box of one point."""

    ids: pa.Array
    regions: Regions
    steps: NDArray[np.int64] | None = None


#: Returns whom messages concern, of the first of which it is told the row in what is published.
Match = Callable[[Messages, int], Matches]


@dataclass(frozen=True)
class Publish:
    """Match these messages, one step each; they have `totals` where the state needs them.

    `match` takes the place of the index's own, where more is known about whom messages concern.
    """

    messages: Messages
    threads: int = 1
    match: Match | None = None


@dataclass(frozen=True)
class Advance:
    """Move event time to this many microseconds, unless it is there already."""

    time: int


Item = Subscribe | Unsubscribe | Move | Publish | Advance


@dataclass
class State:
    """All an engine knows: subscriptions in an index under ids, the words they use, weights, and the time.

    `needs_totals` tells that a text function among the subscriptions reads all words of a message: whoever encodes
    messages works out their `totals` with `weights`. With a `window` there are top-k subscriptions, which `topk` keeps:
    then every message needs its `totals` and its `window_terms`, and every changed subscription is a step, as every
    message is.
    """

    index: Index
    words: WordTable = field(default_factory=WordTable)
    analyzer: Analyzer = field(default_factory=Analyzer)
    vocabulary: Vocabulary = field(default_factory=lambda: Vocabulary().snapshot())
    ids: IdTable = field(default_factory=IdTable)
    now: int = NO_TIME
    next_step: int = 0
    published: int = 0
    #: When each slot expires, NO_TIME for never; as long as the last slot that does.
    expires: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    #: No slot expires before this; it may lie too early, after a slot has gone by another way.
    next_expiry: int = _NEVER
    #: Columns by slot that whoever runs the engine keeps here; they follow when slots get other numbers.
    by_slot: dict[str, NDArray[Any]] = field(default_factory=dict)
    #: What subscriptions said, for whoever gives them back as values and stores their texts here.
    texts: RequestTexts = field(default_factory=RequestTexts)
    #: Whether slots get other numbers by themselves, when subscriptions come; else `renumber_if_sparse` is called.
    renumbers: bool = True
    window: Window | None = None
    topk: Keeper | None = field(init=False, default=None)
    weights: TermWeights = field(init=False)
    #: The index knows the weights of the terms below this; none while nothing is scored.
    n_weighed: int = 0
    needs_totals: bool = False
    #: How many words there were when `compact_words` last counted those in use.
    n_words_counted: int = 0
    #: What was delivered and nobody has taken yet, None where whoever calls takes what is returned.
    waiting: list[Piece] | None = None
    #: The record of a change under way, or of one that was interrupted.
    torn: ChangeRecord | None = None

    def __post_init__(self) -> None:
        self.vocabulary = _pinned(self.vocabulary)
        self.weights = TermWeights(self.words, self.vocabulary)
        if self.window is not None:
            # Here, as in the other places: `import nearcast` should not pay for what a hub without a window never uses.
            from nearcast.indexes.topk_options import TopKOptions
            from nearcast.topk.keeper import Keeper

            self.topk = Keeper(self.index, self.window, self.words, TopKOptions.of(self.index.topk_options))
            self.needs_totals = True

    def commit(self, pieces: list[Piece] | None = None, **changes: Any) -> None:
        """Set attributes, and let deliveries wait, in one step: nothing can come between."""
        if pieces and self.waiting is not None:
            changes["waiting"] = [*self.waiting, *pieces]
        self.__dict__.update(changes)

    def slot(self, subscription_id: str | int) -> int:
        """Return the slot of an id, or raise `UnknownSubscription`."""
        slot = self.ids.slot(subscription_id)
        if slot < 0:
            raise UnknownSubscription(f"there is no subscription {subscription_id!r}")
        return slot


def step(state: State, items: Iterable[Item]) -> Deliveries:
    """Apply changes and messages in the order given; return what is delivered, in the order of delivery."""
    delivered: list[Piece] = []
    for item in items:
        if isinstance(item, Publish):
            delivered += publish(state, item.messages, item.threads, item.match)
        elif isinstance(item, Subscribe):
            delivered += subscribe(state, item.subscriptions, steps=item.steps)
        elif isinstance(item, Unsubscribe):
            unsubscribe(state, item.ids, item.steps)
        elif isinstance(item, Move):
            delivered += move(state, item.ids, item.regions, item.steps)
        else:
            delivered += advance(state, item.time)
    return Deliveries(delivered)


_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")


def _whole(
    change: Callable[Concatenate[State, _Given], _Returned],
) -> Callable[Concatenate[State, _Given], _Returned]:
    """Make a change begin with a whole state, and leave one when it raises."""

    @functools.wraps(change)
    def call(state: State, /, *given: _Given.args, **options: _Given.kwargs) -> _Returned:
        make_good(state)
        try:
            return change(state, *given, **options)
        except BaseException:
            make_good(state)
            raise

    return call


def make_good(state: State) -> None:
    """Undo or complete a change that was interrupted; nothing is to be done after any other."""
    if state.torn is not None:
        state.torn.mend(state)
    if state.now >= state.next_expiry:
        _forget_expired(state)


@_whole
def subscribe(
    state: State, subscriptions: Subscriptions, threads: int = 1, steps: NDArray[np.int64] | None = None
) -> list[Piece]:
    """Store subscriptions, replacing those whose id is known; return the first answers of those of kind `topk`."""
    has_topk = subscriptions.scoring is not None and bool((subscriptions.kind == TOPK).any())
    if state.topk is None and has_topk:
        raise InvalidSubscription("a top-k subscription needs a window, and there is none here", field="kind")
    slots, known = _store(state, subscriptions)
    pieces = _first_answers(state, slots, subscriptions, threads, steps) if has_topk else []
    next_step = _step_after(state, len(subscriptions), steps)
    next_expiry = _next_expiry(state, subscriptions.expires)
    others = _held_no_more(state, slots[known], subscriptions.kind[known])
    state.commit(pieces, torn=others, next_step=next_step, next_expiry=next_expiry)
    make_good(state)
    if state.texts.is_sparse:
        state.texts.compact(state.ids.in_use())
    if state.renumbers:
        renumber_if_sparse(state)
    return pieces


def _held_no_more(state: State, slots: NDArray[np.int32], kind: NDArray[np.uint8]) -> ChangeRecord | None:
    """Return the record that releases the top-k subscriptions of these slots that are of another kind now."""
    if state.topk is None:
        return None
    slots = slots[kind != TOPK]
    held = slots[state.topk.holding.of_slots(slots) != NOBODY]
    return RemovalRedo(held, -1) if len(held) else None


@_whole
def adopt(state: State, subscriptions: Subscriptions) -> NDArray[np.int32]:
    """Store new subscriptions whose answers are known elsewhere: nothing is searched for; return their slots."""
    slots, _ = _store(state, subscriptions)
    state.commit(torn=None, next_expiry=_next_expiry(state, subscriptions.expires))
    make_good(state)
    return slots


def _store(state: State, subscriptions: Subscriptions) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Store subscriptions under a record of undoing it; return their slots, and which of them were known."""
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
    _set_expiry(state, slots, subscriptions.expires)
    return slots, known


def _first_answers(
    state: State,
    slots: NDArray[np.int32],
    subscriptions: Subscriptions,
    threads: int,
    steps: NDArray[np.int64] | None,
) -> list[Piece]:
    """Search the window for those of kind `topk`, each a step; those that have expired already get nothing."""
    assert state.topk is not None
    assert subscriptions.scoring is not None
    is_alive = (subscriptions.expires == NO_TIME) | (subscriptions.expires > state.now)
    held = np.flatnonzero((subscriptions.kind == TOPK) & is_alive)
    events = state.topk.hold(slots[held], subscriptions.scoring.k[held], state.weights, threads)
    return _pieces_of(state, events.at_steps(held[events.step]), state.vocabulary.version, steps)


def _step_after(state: State, n: int, steps: NDArray[np.int64] | None = None) -> int:
    """Return the number of the step after n changes, which are steps where there is a window."""
    if steps is not None:
        return int(steps.max(initial=state.next_step - 1)) + 1
    return state.next_step + n if state.topk is not None else state.next_step


def _pieces_of(state: State, events: Events, version: str, steps: NDArray[np.int64] | None = None) -> list[Piece]:
    """Return the events of changes that no message caused, their steps these or counted from the next."""
    assert state.topk is not None
    return _pieces_named(state, events, state.topk.names(events.row), state.now, version, steps)


def _pieces_named(
    state: State,
    events: Events,
    named: tuple[NDArray[np.object_], NDArray[np.int64]],
    now: int,
    version: str,
    steps: NDArray[np.int64] | None = None,
) -> list[Piece]:
    n = len(events)
    if not n:
        return []
    return [
        Changed(
            state.next_step + events.step if steps is None else steps[events.step],
            np.full(n, now),
            events.slot,
            *named,
            events.score,
            events.rank,
            events.enters,
            np.full(n, None, object),
            state.ids.snapshot(),
            version,
        )
    ]


def _weigh_new_words(state: State, subscriptions: Subscriptions) -> None:
    """Tell the index what words weigh before it holds them, and note whether messages need totals from now on."""
    if subscriptions.scoring is None:
        return
    if len(state.words) > state.n_weighed:
        state.index.set_weights(state.weights.from_term(state.n_weighed), state.n_weighed)
        state.n_weighed = len(state.words)
    state.needs_totals = state.needs_totals or needs_totals(subscriptions)


@_whole
def use_vocabulary(state: State, vocabulary: Vocabulary, threads: int = 1) -> list[Piece]:
    """Weigh all words by a snapshot of this vocabulary, from now on; return how top-k answers differ, in one step."""
    pinned = _pinned(vocabulary)
    weights, n_weighed = TermWeights(state.words, pinned), 0
    state.torn = WeighingUndo(state.weights)
    if state.n_weighed:
        n_weighed = len(state.words)
        state.index.set_weights(weights.from_term(0))
    pieces: list[Piece] = []
    if state.topk is not None:
        pieces = _pieces_of(state, state.topk.look_again_at_all(weights, threads), pinned.version)
    next_step = _step_after(state, 1)
    state.commit(pieces, torn=None, vocabulary=pinned, weights=weights, n_weighed=n_weighed, next_step=next_step)
    return pieces


def _pinned(vocabulary: Vocabulary) -> Vocabulary:
    return vocabulary if vocabulary.is_snapshot else vocabulary.snapshot()


@_whole
def move(
    state: State,
    ids: pa.Array,
    regions: Regions,
    steps: NDArray[np.int64] | None = None,
    text: bytes | None = None,
    known: tuple[NDArray[np.int32], Subscriptions] | None = None,
) -> list[Piece]:
    """Give the subscriptions with these ids other regions, all of them or none; return how top-k answers differ.

    `text` is the new request text of a single subscription, where its place changes that. `known` are their slots
    and what the index holds there, from whoever has looked already.
    """
    if known is None:
        slots = _known_slots(state, ids)
        known = slots, state.index.subscriptions(slots)
    slots, held = known
    is_step = state.topk is not None or steps is not None
    moved_there = held.with_regions(regions)
    kind = held.kind
    if held.scoring is not None and (is_misplaced := (kind != WITHIN) & ~_is_point(regions)).any():
        row = int(np.argmax(is_misplaced))
        raise InvalidSubscription(
            f"subscription {ids[row].as_py()!r} is scored by the distance to a point; move it to a point (x, y)",
            field="place",
        )
    if not is_step and text is None:
        state.index.replace(slots, moved_there)  # there is nothing else to change
        return []
    state.torn = StoringUndo.before(state, ids[:0], slots, held)
    state.index.replace(slots, moved_there)
    if text is not None:
        state.texts.put_one(int(slots[0]), text)
    pieces: list[Piece] = []
    moved = np.flatnonzero(kind == TOPK)
    if state.topk is not None and len(moved):
        events = state.topk.look_again(slots[moved], state.weights)
        pieces = _pieces_of(state, events.at_steps(moved[events.step]), state.vocabulary.version, steps)
    state.commit(pieces, torn=None, next_step=_step_after(state, len(slots), steps))
    return pieces


def _is_point(regions: Regions) -> NDArray[np.bool_]:
    """Tell which regions are boxes of one point."""
    part = regions.part[regions.part_start[:-1]]
    is_point: NDArray[np.bool_] = (regions.kind == BOX) & (np.diff(regions.part_start) == 1)
    is_point &= (part[:, 0] == part[:, 2]) & (part[:, 1] == part[:, 3])
    return is_point


@_whole
def unsubscribe(state: State, ids: pa.Array, steps: NDArray[np.int64] | None = None) -> None:
    """Forget the subscriptions with these ids."""
    _forget(state, _known_slots(state, ids), next_step=_step_after(state, len(ids), steps))


@_whole
def publish(state: State, messages: Messages, threads: int = 1, match: Match | None = None) -> list[Piece]:
    """Match messages against the subscriptions as they are now, one step each."""
    if match is None:
        match = lambda part, _: state.index.match(part, threads=threads)  # noqa: E731
    if state.topk is not None:
        return _publish_to_window(state, state.topk, messages, match)
    matches = match(messages, 0)
    times = _clock(state, messages)
    now = int(times[-1]) if len(times) else state.now
    if now >= state.next_expiry:
        matches = without_expired(state, matches, times)
    steps = _steps_of(state, messages)
    # The ids are taken before those of what expires go.
    piece = Delivered(matches, messages.ids, times, steps, state.ids.snapshot(), state.vocabulary.version)
    _count_published(state, [piece], messages, now)
    _forget_expired(state)
    return [piece]


def _steps_of(state: State, messages: Messages) -> NDArray[np.int64]:
    """Return the numbers of the messages' steps."""
    return np.arange(state.next_step, state.next_step + len(messages)) if messages.steps is None else messages.steps


def _count_published(state: State, pieces: list[Piece], messages: Messages, now: int) -> None:
    """Let messages count as published at this time, in one step with what they deliver."""
    n = len(messages)
    next_step = state.next_step + n if messages.steps is None else _step_after(state, n, messages.steps)
    state.commit(pieces, torn=None, now=now, next_step=next_step, published=state.published + n)


def _publish_to_window(state: State, topk: Keeper, messages: Messages, match: Match) -> list[Piece]:
    """Let messages arrive in the window, in portions between which thresholds are set."""
    from nearcast.topk.keeper import BATCH

    late = np.flatnonzero(topk.sliding.is_late(messages.time, state.now))
    if len(late):
        raise InvalidMessage(why_late(topk.sliding.window, int(messages.time[late[0]])), field="time")
    if not len(messages):
        return []
    steps, now = _steps_of(state, messages), state.now
    before = topk.checkpoint(int(steps[0]))
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
        pieces.append(_publish_portion(state, topk, part, clock, steps[first:last], matches))
        now = int(clock[-1])
    _count_published(state, pieces, messages, now)
    topk.forget()
    _forget_expired(state)
    return pieces


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
) -> Piece:
    ids = messages.ids.to_pylist() if isinstance(messages.ids, pa.Array) else list(messages.ids)
    told = topk.publish(messages, matches, numbers, clock, ids, state.weights)
    events, named = _before_expiry(state, *told, clock)
    snapshot, version = state.ids.snapshot(), state.vocabulary.version
    delivered = Delivered(topk.without_topk(matches), messages.ids, clock, numbers, snapshot, version)
    if not len(events):
        return delivered
    causes = np.empty(len(ids), object)
    causes[:] = ids
    changed = Changed(
        numbers[events.step],
        clock[events.step],
        events.slot,
        *named,
        events.score,
        events.rank,
        events.enters,
        causes[events.step],
        snapshot,
        version,
    )
    return in_order(changed_of(delivered), changed) if len(delivered) else changed


def _before_expiry(state: State, events: Events, named: Named, clock: NDArray[np.int64]) -> tuple[Events, Named]:
    """Leave out what changed for subscriptions that had expired by the time of the step."""
    if clock[-1] < state.next_expiry:
        return events, named
    alive = np.flatnonzero(_is_alive(state, events.slot, clock[events.step]))
    return events.take(alive), (named[0][alive], named[1][alive])


def why_late(window: Window, time: int) -> str:
    """Return why a message cannot be published to a window of time."""
    if time == NO_TIME:
        return f"time is not given; a window of {window} needs to know it"
    return f"time is {datetime_of(time)}, before the window of {window}; the message came too late"


@_whole
def advance(state: State, time: int) -> list[Piece]:
    """Move event time forward, forget what expires by then, and let the window follow."""
    now = max(state.now, time)
    if state.topk is None:
        state.commit(now=now)
        _forget_expired(state)
        return []
    state.torn = ArrivalUndo(state.topk.checkpoint(state.next_step))
    events, named = _before_expiry(state, *state.topk.advance(now, state.next_step), np.array([now]))
    pieces = _pieces_named(state, events, named, now, state.vocabulary.version)
    state.commit(pieces, torn=None, now=now, next_step=_step_after(state, 1))
    state.topk.forget()
    _forget_expired(state)
    return pieces


def _forget_expired(state: State) -> None:
    """Forget the subscriptions that expire by now."""
    if state.now < state.next_expiry:
        return
    given = state.expires != NO_TIME
    due = np.flatnonzero(given & (state.expires <= state.now)).astype(np.int32)
    _forget(state, due, next_expiry=int(state.expires[given & (state.expires > state.now)].min(initial=_NEVER)))


def _clock(state: State, messages: Messages) -> NDArray[np.int64]:
    """Return event time at each message: the largest seen so far; a message without a time does not move it."""
    if len(messages) == 1 and messages.clock is None and messages.time[0] <= state.now:
        return np.array([state.now])
    return _clock_of(messages, 0, len(messages), state.now)


def without_expired(state: State, matches: Matches, times: NDArray[np.int64]) -> Matches:
    """Leave out matches of subscriptions that had expired by the time of the message."""
    if not len(state.expires):
        return matches
    rows = matches.rows()
    alive = _is_alive(state, matches.slots, times[rows])
    start = np.zeros(len(matches) + 1, np.int64)
    np.cumsum(np.bincount(rows[alive], minlength=len(matches)), out=start[1:])
    return Matches(start, matches.slots[alive], matches.score[alive], matches.candidates, matches.verified)


def _is_alive(state: State, slots: NDArray[np.int32], times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which slots have not expired, each at its time."""
    if not len(state.expires):
        return np.ones(len(slots), np.bool_)
    known = np.minimum(slots, len(state.expires) - 1)
    limit = np.where(slots < len(state.expires), state.expires[known], NO_TIME)
    alive: NDArray[np.bool_] = (limit == NO_TIME) | (times < limit)
    return alive


def _set_expiry(state: State, slots: NDArray[np.int32], expires: NDArray[np.int64]) -> None:
    if not len(state.expires) and (expires == NO_TIME).all():
        return  # nobody expires: keep no column
    highest = int(slots.max(initial=-1)) + 1
    if highest > len(state.expires):
        grown = np.full(max(highest, 2 * len(state.expires)), NO_TIME, np.int64)
        grown[: len(state.expires)] = state.expires
        state.expires = grown
    state.expires[slots] = expires


def _next_expiry(state: State, expires: NDArray[np.int64]) -> int:
    """Return before when nobody expires, with those who do at these times as well."""
    if len(expires) == 1:
        return state.next_expiry if expires[0] == NO_TIME else min(state.next_expiry, int(expires[0]))
    return min(state.next_expiry, int(expires[expires != NO_TIME].min(initial=_NEVER)))


@_whole
def renumber_if_sparse(state: State) -> None:
    """Give the live slots new numbers if few are alive: subscriptions that come and go are not to fill memory."""
    if state.index.n_slots <= 2 * len(state.index) + SPARE_SLOTS:
        return
    old = state.ids.in_use()
    record = RenumberingRedo(
        state.index.n_slots,
        state.ids.renumbered(old),
        state.texts.renumbered(old),
        None if state.topk is None else state.topk.holding.renumbered(old),
        state.expires[old[old < len(state.expires)]],
        {name: column[old] for name, column in state.by_slot.items()},  # as long as there were slots
    )
    state.torn = record
    state.index.renumber()
    record.mend(state)


@_whole
def compact_words(state: State) -> None:
    """Forget the words that no subscription uses any more, when they are most of those known.

    Words get other numbers by that: to be called when nothing is encoded that is still to be stored or published. Words
    in use are counted when there are twice as many in all as the last time, so that most calls cost nothing.
    """
    if len(state.words) <= 2 * state.n_words_counted + SPARE_WORDS:
        return
    from nearcast.engine.word_compaction import compacted, used_words

    replaced = state.index
    try:
        is_used = used_words(state)
        if len(is_used) > 2 * int(is_used.sum()) + SPARE_WORDS:
            state.torn = compacted(state, is_used)
    except MemoryError:
        pass  # there is no room for a second index: the words stay until the next count
    make_good(state)
    if state.index is not replaced:
        replaced.abandon()
    state.n_words_counted = len(state.words)


def _forget(state: State, slots: NDArray[np.int32], **then: Any) -> None:
    """Forget subscriptions, and set these attributes with the last step; what the index has removed stays removed."""
    if len(slots):
        state.torn = RemovalRedo(slots, len(state.index), then)
        state.index.remove(slots)
        if state.topk is not None:
            state.topk.release(slots)
        state.ids.release(slots)
        state.expires[slots[slots < len(state.expires)]] = NO_TIME
    state.commit(torn=None, **then)


def _known_slots(state: State, ids: pa.Array) -> NDArray[np.int32]:
    slots = state.ids.slots(ids)
    if (slots < 0).any():
        raise UnknownSubscription(f"there is no subscription {ids[int(np.argmin(slots))].as_py()!r}")
    return slots
