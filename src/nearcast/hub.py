"""Hub: publish/subscribe in one process, over one engine."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from nearcast import _arrow, engine
from nearcast._ids import first_times, listed_ids
from nearcast._saved import Writes
from nearcast.columns import NO_TIME, Subscriptions, datetime_of, microseconds_of
from nearcast.deliveries import Deliveries, Published
from nearcast.delivery_ids import delivery_id
from nearcast.engine import Advance, Move, Publish, Subscribe, Unsubscribe, UseVocabulary, step
from nearcast.engine.items import check_vocabulary
from nearcast.engine.known_moves import KnownMove
from nearcast.engine.life import relevant_now
from nearcast.engine.lifetime import Lifetime
from nearcast.engine.move_items import MoveItems, clock_item, untimely_reports
from nearcast.engine.moves import place_at, point_of
from nearcast.engine.rectangles import centres_in_box, touching_rectangles
from nearcast.engine.snapshot import open_state, save_state, take_state
from nearcast.engine.stored_values import table_of, value_of
from nearcast.engine.value_columns import message_columns, subscription_columns
from nearcast.errors import (
    IncompatibleStore,
    InvalidInput,
    InvalidMessage,
    InvalidSubscription,
    NotSupported,
    UnknownSubscription,
)
from nearcast.estimate import Estimate, estimate
from nearcast.estimate.inputs import check_kind, read_sample, subscription_of_table
from nearcast.estimate.recent_messages import RecentMessages
from nearcast.explain import CurrentTopK, ExplainRequest, Explanation, Step, explain
from nearcast.explain.nearly import NearMiss, near_misses
from nearcast.fork_locks import watch
from nearcast.geo import Space
from nearcast.geo.shapes import Box, is_number, shorten
from nearcast.indexes import DEFAULT_INDEX, create
from nearcast.indexes.shared.slot_checks import only_kinds
from nearcast.model import (
    Delivery,
    Message,
    Subscription,
    TopK,
    checked_time,
    message_from,
    subscription_from,
)
from nearcast.tables import Rejected, messages_table, read_messages, read_subscriptions, subscriptions_table
from nearcast.tables.inputs import table_or_values
from nearcast.tables.mixed_ids import parts_of_one_id_type
from nearcast.tables.moves import moves_table, read_moves
from nearcast.tables.scored_rows import NO_WINDOW
from nearcast.tables.time_limits import MaxAhead, why_expired
from nearcast.text import Analyzer, Vocabulary
from nearcast.text.weights import TermWeights
from nearcast.text.words import WordTable
from nearcast.window import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast._ids import Id, IdSnapshot
    from nearcast.geo import Regions

#: Ids that are made at a time when they are iterated over.
_BLOCK = 4096
#: Subscriptions that are looked at for near misses while the lock is held.
_NEAR_BLOCK = 50_000
#: The head of a folder that holds a durable hub.
DURABLE_HEAD = "durable.json"


class Hub:
    """Subscriptions in memory, and the messages that reach them.

    Every message reaches every subscription it satisfies, exactly, in the order of registration.

    >>> hub = Hub("earth")
    >>> hub.subscribe({"id": "anna", "query": "ipad AND NOT used", "lon": 13.4, "lat": 52.5, "radius_m": 800})
    'anna'
    >>> [d.subscription_id for d in hub.publish({"id": 1, "text": "iPad at a discount", "lon": 13.401, "lat": 52.5})]
    ['anna']

    Thread-safe: any method may be called from any thread. Calls take their turn on one lock, so a publish sees
    every change made before it and none made during it; `publish_many(threads=N)` uses several cores for one call.
    Merging of the index runs beside them and holds nobody up. A process that forks waits for the calls that are under
    way, and the child has the hub as it was between two calls.

    `space` is "earth" (longitude, latitude, metres) or "plane"; `index` a name from `nearcast indexes`, with options;
    `analyzer` says how text and queries become words; `vocabulary` holds the document frequencies that weights come
    from, as they are when it is given; `max_distance` is for scored subscriptions that give none, in metres on the
    earth. `window` is what top-k subscriptions look at: a number of messages, or event time like "30s", "15m", "2h",
    "7d" or a timedelta; without it there are none. `max_ahead`, a stretch of time in the same forms, refuses messages
    whose time lies further ahead of event time, the largest time accepted so far; the first time is always accepted.

    With a `lifetime` messages count for a while: a subscription that comes, moves or changes later is told what became
    relevant to it (`+`) and what stopped being so (`-`). "expires" lets messages live until their `expires`; a time
    like "10m" is for those that give none. `live` names the store of live messages, "cells" or "scan", unless
    the option `live` of the index does. With `tell_expiry` the end of a message is a `-`, too. docs/moving.md has all
    of it.

    What a call delivers it returns. Only `subscribe` and `subscribe_many` return something else: what a new
    subscription finds in the window or among live messages, and how the answers of a replaced one differ, comes first
    in what the next call returns; `poll` returns it at once.
    """

    def __init__(
        self,
        space: str | Space = "earth",
        *,
        index: str = DEFAULT_INDEX,
        analyzer: Analyzer | None = None,
        vocabulary: Vocabulary | None = None,
        max_distance: float | None = None,
        window: Window | int | str | timedelta | None = None,
        max_ahead: MaxAhead | str | timedelta | None = None,
        lifetime: Lifetime | str | timedelta | None = None,
        live: str = "",
        tell_expiry: bool = False,
    ):
        if tell_expiry and lifetime is None:
            raise InvalidInput("tell_expiry needs a lifetime: without one no message expires", field="tell_expiry")
        if analyzer is not None and not isinstance(analyzer, Analyzer):
            raise InvalidInput(f"analyzer is {shorten(analyzer)}; expected an Analyzer", field="analyzer")
        if vocabulary is not None:
            check_vocabulary(vocabulary)
        self.space = _space(space)
        self.max_distance = _checked_distance(max_distance)
        self.max_ahead = MaxAhead.of(max_ahead)
        self._lock = threading.RLock()
        self._recent = RecentMessages()
        self._counters = Counters()
        watch(self)
        self._state = engine.State(
            create(index, self.space),
            analyzer=Analyzer() if analyzer is None else analyzer,
            vocabulary=Vocabulary() if vocabulary is None else vocabulary,
            window=None if window is None else Window.of(window),
            lifetime=None if lifetime is None else Lifetime.of(lifetime),
            live_store=live,
            tell_expiry=tell_expiry,
        )
        self._state.waiting = []

    def _whole(self) -> engine.State:
        """Return the state, made good where an earlier call was interrupted; the lock is held."""
        engine.make_good(self._state)
        return self._state

    def _locks(self) -> Iterator[threading.RLock]:
        """Yield the locks that a call takes, in this order: whoever holds them all is alone in the hub.

        The first is to be taken before the next is asked for: until then a call may put another index in place.
        """
        yield self._lock
        yield self._state.index.lock

    def _begin_child(self) -> None:
        """Forget, in a process that was forked, the threads that stayed in its parent."""
        self._state.index.begin_child()

    def __len__(self) -> int:
        if self._state.torn is not None:  # a change is under way, or one was interrupted
            with self._lock:
                return len(self._whole().index)
        return len(self._state.index)

    def __iter__(self) -> Iterator[Id]:
        """Iterate over the ids of all subscriptions there are now, in order of registration."""
        with self._lock:
            state = self._whole()
            slots, ids = state.ids.in_use(), state.ids.snapshot()
        for first in range(0, len(slots), _BLOCK):
            yield from ids.values(slots[first : first + _BLOCK])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Wait for the merging that runs in the background; what it failed with is raised here.

        Nothing is lost without it, and the hub may be used afterwards: `with Hub(...) as hub` leaves no thread behind.
        """
        self._state.index.close()

    def __contains__(self, subscription_id: Id) -> bool:
        with self._lock:
            return self._whole().ids.slot(subscription_id) >= 0

    def __repr__(self) -> str:
        name, index = type(self).__name__, self._state.index.info.name
        return f"<{name}: {len(self):,} subscriptions on the {self.space.kind}, index {index!r}>"

    # Subscriptions

    def subscribe(self, subscription: Subscription | dict[str, Any] | Any) -> Id:
        """Store a subscription and return its id; a known id is replaced and keeps its place in the order."""
        value = self._subscription(subscription)
        if isinstance(value, TopK) and self.window is None:
            raise InvalidSubscription(NO_WINDOW, field="kind")
        with self._lock:
            engine.compact_words(self._state)  # now, before the words of this one are encoded
            if value.expires is not None and microseconds_of(value.expires) <= self._state.now:
                raise InvalidSubscription(why_expired(microseconds_of(value.expires), self._state.now), field="expires")
            step(self._state, Subscribe(self._columns_of(value, self._state.words)))
        return value.id

    @property
    def lifetime(self) -> Lifetime | None:
        """Return how long messages live, None: they are instants."""
        return self._state.lifetime

    @property
    def window(self) -> Window | None:
        """Return what top-k subscriptions look at."""
        return self._state.window

    def _subscription(self, given: Any) -> Subscription:
        value = subscription_from(given, self.space)
        value.check(self.space)
        return value

    def _columns_of(self, value: Subscription, words: WordTable) -> Subscriptions:
        return subscription_columns(value, self.space, words, self._state.analyzer, self.max_distance)

    def subscribe_many(
        self,
        subscriptions: pa.Table | Iterable[Any],
        *,
        threads: int | None = None,
        source: str = "subscriptions",
        strict: bool = False,
    ) -> Rejected:
        """Store many subscriptions; return the rows that were not stored, with reasons.

        Takes a table in interchange columns, or values as `subscribe` takes them. Of rows with the same id in one
        call the first is stored and the others rejected; an id known from an earlier call is replaced. `threads` is how
        many cores search the window for new top-k subscriptions, all of them unless given. A column of a table that
        looks like a misspelt one, or belongs to another kind than the row's, is a line of `warnings` in what is
        returned; `strict` refuses the table, or the row.
        """
        rejected = Rejected()
        subscriptions = table_or_values(subscriptions, self.space)
        if not isinstance(subscriptions, pa.Table):
            subscriptions = subscriptions_table(subscriptions, self.space, rejected=rejected, source=source)
        with self._lock:
            state = self._state
            engine.compact_words(state)
            parts = [
                read_subscriptions(
                    part,
                    self.space,
                    state.words,
                    state.analyzer,
                    source=source,
                    max_distance=self.max_distance,
                    has_window=self.window is not None,
                    keep_texts=True,
                    strict=strict,
                    now=state.now,
                    rejected=rejected,
                )
                for part in parts_of_one_id_type(subscriptions, source, rejected)
            ]
            for columns in parts if len(parts) > 1 else ():
                only_kinds(columns, state.index.info)  # before the first part is stored
            for columns in parts:
                step(state, Subscribe(columns, threads=threads or os.cpu_count() or 1))
            self._counters.rejected += len(rejected)
        return rejected

    def unsubscribe(self, subscription_id: Id) -> None:
        """Forget a subscription; `UnknownSubscription` if there is none."""
        with self._lock:
            self._whole().slot(subscription_id)
            step(self._state, Unsubscribe(_arrow.one_id(subscription_id)))

    def unsubscribe_many(self, ids: pa.Table | pa.Array | Iterable[Id], *, source: str = "ids") -> Rejected:
        """Forget many subscriptions; return the ids that name none, with reasons.

        Takes ids of both types, an Arrow array of them, or a table with a column `id`.
        """
        rejected = Rejected()
        given = listed_ids(ids)
        with self._lock:
            for columns, numbers in given.good:
                slots = self._whole().ids.slots(columns)
                known = np.flatnonzero((slots >= 0) & first_times(slots))
                for row in np.setdiff1d(np.arange(len(slots)), known).tolist():
                    rejected.add(source, numbers[row], columns[row].as_py(), "id", _no_such(columns[row].as_py()))
                step(self._state, Unsubscribe(columns.take(_arrow.numbers(known))))
            self._counters.rejected += len(rejected) + len(given.bad)
        for number, value in given.bad:
            rejected.add(source, number, None, "id", f"id is {shorten(value)}; expected a str or an int of 64 bits")
        return rejected

    def move(self, subscription_id: Id, place: Any, time: datetime | str | None = None) -> Deliveries:
        """Give a subscription another place, from now on; return what that delivers.

        A region replaces the old one; a point (x, y) carries the old one along, its centre going there. A `Similar` or
        `TopK` has a point, and takes no other place. What enters and leaves a top-k by the move is delivered, with a
        lifetime for all kinds. `time` is when the place was reported, not given: now. A report older than the last one
        is late: `InvalidSubscription`.
        """
        moment = microseconds_of(checked_time(time, "time"))
        with self._lock:
            state = self._whole()
            slot = state.slot(subscription_id)
            if moment != NO_TIME:
                for _, reason in untimely_reports(state, np.array([slot]), np.array([moment]), self.max_ahead):
                    raise InvalidSubscription(reason, field="time")
            slots = np.array([slot], np.int32)
            held = state.index.subscriptions(slots)
            placement, point = place_at(state, slot, held, place), point_of(place)
            item = Move(
                ids=(subscription_id,),
                regions=placement.regions,
                points=None if point is None else np.array([point]),
                times=None if moment == NO_TIME else np.array([moment]),
                text=None if point is not None else placement.texts.get(0),
                known=KnownMove(slots, held, placement, state.movers.of(slots)),
            )
            if clock := clock_item(state, moment):
                step(state, clock)
            step(state, item)
            return self._deliveries()

    def move_many(self, moves: pa.Table | Iterable[Any], *, source: str = "moves", strict: bool = False) -> Deliveries:
        """Give many subscriptions other places, row by row in order; rows that cannot be used are in `rejected`.

        Takes a table with the columns `id`, a point or a region, and `time`, or dicts with these names. An id may come
        more than once. Rows between two of the same id are moved together, which is much faster than one by one.
        A column that looks like a misspelt one is a line of `rejected.warnings`; `strict` refuses the table.
        """
        rejected = Rejected()
        moves = table_or_values(moves, self.space)
        if not isinstance(moves, pa.Table):
            moves = moves_table(moves, self.space, rejected=rejected, source=source)
        with self._lock:
            state = self._whole()
            for part in parts_of_one_id_type(moves, source, rejected, may_repeat=True):
                read = read_moves(part, self.space, source=source, strict=strict, rejected=rejected)
                items = MoveItems(state, read, self.max_ahead)
                for item in items:
                    step(state, item)
                items.report(rejected, source)
            self._counters.rejected += len(rejected)
            return self._deliveries(rejected)

    def _deliveries(self, rejected: Rejected | None = None, published: Published | None = None) -> Deliveries:
        """Return all deliveries that wait; the last line takes them off the queue, so an interruption loses none."""
        state = self._state
        deliveries = Deliveries(state.waiting or [], rejected, published)
        self._counters.delivered += len(deliveries)
        state.waiting = []
        return deliveries

    def poll(self) -> Deliveries:
        """Return what was delivered since the last call that returned deliveries: answers of new subscriptions."""
        with self._lock:
            return self._deliveries()

    def get(self, subscription_id: Id) -> Subscription:
        """Return a subscription as it was given, at its present place; `UnknownSubscription` if there is none."""
        with self._lock:
            state = self._whole()
            return value_of(state, state.slot(subscription_id))

    def to_table(self) -> pa.Table:
        """Return all subscriptions in the interchange columns, in order of registration and at their present places.

        `subscribe_many` of another hub of the same kind takes it and then answers as this one does. Where ids are of
        both types, the column `id` is a dense union of `integer` and `text`.
        """
        with self._lock:
            return table_of(self._whole(), self.space)

    def current(self, subscription_id: Id) -> list[Delivery]:
        """Return what is relevant to a subscription now: for each message the `+` that is in force.

        Of a top-k these are the k best, the best first. With a lifetime all kinds have some, in order of arrival; their
        `delivery_id` is that of a `+` on arrival, whenever they came in.
        """
        with self._lock:
            state = self._whole()
            slot = state.slot(subscription_id)
            if state.topk is None or not state.topk.holds(slot):
                return self._current_live(subscription_id, slot)
            rows, scores = state.topk.current(slot)
            ids, _ = state.topk.names(rows)
            times = state.topk.times(rows)
            version = state.vocabulary.version
        return [
            Delivery(subscription_id, id_, score=score, rank=rank, time=datetime_of(time), version=version)
            for rank, (id_, score, time) in enumerate(zip(ids, scores.tolist(), times, strict=True), 1)
        ]

    def _current_live(self, subscription_id: Id, slot: int) -> list[Delivery]:
        """Return what is relevant to a subscription among the live messages, in order of arrival."""
        state = self._state
        if state.live is None:
            raise InvalidSubscription(
                f"subscription {subscription_id!r} is not of kind 'topk', and to others messages are instants; "
                "make the hub with Hub(lifetime=...) to have their current messages",
                field="kind",
            )
        found = relevant_now(state, state.index.subscriptions(np.array([slot], np.int32)))
        ids, version = state.live.ids(found.arrival).tolist(), state.vocabulary.version
        return [
            Delivery(
                subscription_id,
                id_,
                score=score,
                delivery_id=delivery_id(arrival, arrival, "+", subscription_id),
                version=version,
            )
            for id_, score, arrival in zip(ids, found.score.tolist(), found.arrival.tolist(), strict=True)
        ]

    def ends(self, delivery: Delivery) -> datetime | None:
        """Return when the message of a delivery of this hub dies; None if it is an instant, or dead already.

        None for a top-k, too, whose deliveries have a rank: it looks at its window alone.
        """
        with self._lock:
            live = self._whole().live
            if live is None or delivery.delivery_id is None or delivery.rank is not None:
                return None
            arrival = np.array([int(delivery.delivery_id.split(":")[1])])
            try:
                end = int(live.expires(arrival)[0])
            except IndexError:
                return None
            return datetime_of(end) if end > self._state.now else None

    def safe(self, subscription_id: Id) -> float:
        """Return how far a subscription may go, its region carried along, before a report can tell anything new.

        A lower bound, in metres on the earth, for the messages that live now: one that arrives may shrink it. 0 where
        nothing is known: scored subscriptions, polygons, those that listen anywhere. `NotSupported` without a lifetime.
        """
        with self._lock:
            state = self._whole()
            slot = state.slot(subscription_id)
            if state.live is None:
                raise NotSupported("safe distances need live messages; make the hub with a lifetime")
            held = state.index.subscriptions(np.array([slot], np.int32))
            return float(state.live.safe_distance(held, state.index.weights, np.array([state.now]))[0])

    def use_vocabulary(self, vocabulary: Vocabulary) -> Deliveries:
        """Weigh words by this vocabulary as it is now, in all subscriptions and at once.

        What enters and leaves a top-k by that is delivered, with a lifetime also that of `Similar` subscriptions.
        """
        with self._lock:
            step(self._state, UseVocabulary(vocabulary, os.cpu_count() or 1))
            return self._deliveries()

    # Messages

    def publish(self, message: Message | dict[str, Any] | Any) -> Deliveries:
        """Deliver one message; return its deliveries, made only as they are looked at."""
        value = message if isinstance(message, Message) else message_from(message, self.space)
        value.check(self.space)
        with self._lock:
            self._forget_words()
            columns = message_columns(self._state, value, is_published=True)
            for _, reason in self._why_untimely(columns.time):
                raise InvalidMessage(reason, field="time")
            for _, field, reason in self._why_over(columns.time, columns.expires):
                raise InvalidMessage(reason, field=field)
            self._counters.late += engine.count_late(self._state, columns.time)
            step(self._state, Publish(columns))
            self._recent.add(value)
            return self._deliveries(published=(self._state.next_step - 1, value))

    def publish_many(
        self, messages: pa.Table | Iterable[Any], *, threads: int = 1, source: str = "messages", strict: bool = False
    ) -> Deliveries:
        """Deliver many messages in order; rows that cannot be published are in `rejected` of the result.

        Takes a table in interchange columns, or values as `publish` takes them. An attribute that looks like a misspelt
        column is a line of `rejected.warnings`; `strict` refuses the table. Messages too late for the window are
        another such line: they reach all subscriptions but those of kind `topk`. `threads` match, and search the
        window for top-k that have run dry; how many there are changes no delivery.
        """
        if not isinstance(threads, int) or threads < 1:
            raise ValueError(f"threads is {threads!r}; expected 1 or more")
        rejected = Rejected()
        messages = table_or_values(messages, self.space)
        if not isinstance(messages, pa.Table):
            messages = messages_table(messages, self.space, rejected=rejected, source=source, strict=strict)
        with self._lock:
            self._forget_words()
            state = self._state
            columns = read_messages(
                messages,
                self.space,
                state.words,
                state.analyzer,
                source=source,
                weights=state.weights if state.needs_totals else None,
                window_words=None if state.topk is None else state.topk.word_table,
                live_words=None if state.live is None else state.live.word_table,
                why_untimely=self._why_untimely,
                why_over=self._why_over,
                strict=strict,
                rejected=rejected,
            )
            late = engine.count_late(state, columns.time)
            self._counters.late += late
            step(state, Publish(columns, threads))
            if late and self.window is not None:
                rejected.warn(engine.about_late(self.window))
            self._recent.add_table(messages)
            self._counters.rejected += len(rejected)
            return self._deliveries(rejected)

    def _forget_words(self) -> None:
        """Drop words that left the window; this renumbers words, so it comes before messages are encoded."""
        state = self._whole()
        if state.live is not None:
            state.live.tidy()
        if state.topk is not None:
            state.topk.forget_words(state.weights)

    def _why_untimely(self, times: NDArray[np.int64]) -> list[tuple[int, str]]:
        """Return which messages, arriving in this order, lie in the future or lack the time a window needs, and why."""
        ahead = self._why_ahead(times)
        kept = np.delete(np.arange(len(times)), [row for row, _ in ahead])
        return ahead + [(int(kept[row]), reason) for row, reason in engine.untimed_rows(self._state, times[kept])]

    def _why_over(self, times: NDArray[np.int64], expires: NDArray[np.int64]) -> list[tuple[int, str, str]]:
        """Return which messages, arriving in this order, are expired on arrival, with the field and the reason."""
        lifetime = self._state.lifetime
        return [] if lifetime is None else lifetime.faults(times, expires, self._state.now)

    def _why_ahead(self, times: NDArray[np.int64]) -> list[tuple[int, str]]:
        """Return which messages, arriving in this order, lie too far ahead of event time, and why."""
        return [] if self.max_ahead is None else self.max_ahead.refused(times, self._state.now)

    def advance(self, time: datetime | str) -> Deliveries:
        """Move event time forward; subscriptions that expire by then are forgotten.

        What leaves a window of time by that, and what takes its place in a top-k, is delivered; with `tell_expiry` also
        a `-` for each message that ends by then.
        """
        moment = checked_time(time, "time")
        if moment is None:
            raise ValueError("time is None; expected an aware datetime or RFC 3339 text")
        with self._lock:
            step(self._state, Advance(microseconds_of(moment)))
            return self._deliveries()

    # Explanations and estimates

    def explain(
        self, message: Message | dict[str, Any] | Any, subscription_id: Id, *, place: Any = None
    ) -> Explanation:
        """Say which step lets the message through to the subscription, or drops it; nothing is delivered.

        With `place`, which is one that `move` takes, the answer is that of the subscription there.
        """
        value = message_from(message, self.space)
        value.check(self.space)
        with self._lock:
            state = self._whole()
            slot = state.slot(subscription_id)
            held = state.index.subscriptions(np.array([slot], np.int32))
            if place is not None:
                held = held.with_regions(place_at(state, slot, held, place).regions)
            request = ExplainRequest(
                held,
                message_columns(state, value, is_published=False),
                self.space,
                state.words.word,
                state.weights,
                lambda word: message_columns(
                    state, replace(value, terms=(*(value.terms or ()), word)), is_published=False
                ),
                self._current_topk(slot, held, value),
            )
            # The index knows the subscription at its present place only.
            lines = [] if place is not None else state.index.explain(request.messages, 0, slot, state.words.word)
            found = explain(request, lines, (subscription_id, value.id))
            found = _with_expiry(found, state, slot, microseconds_of(value.time))
            return found if state.lifetime is None else _with_life(found, state, request)

    def _current_topk(self, slot: int, held: Subscriptions, message: Message) -> CurrentTopK | None:
        """Return the top-k list that a message would meet, None if the subscription is of another kind."""
        topk = self._state.topk
        if topk is None or not topk.holds(slot):
            return None
        rows, scores = topk.top_at(slot, held, microseconds_of(message.time))
        return CurrentTopK(
            topk.k_of(slot),
            scores.tolist(),
            topk.times(rows),
            topk.window.is_by_time,
            self._why_not_in_window(microseconds_of(message.time), topk.window),
        )

    def _why_not_in_window(self, time: int, window: Window) -> str | None:
        """Return why a message of this time cannot enter the window, None if it can."""
        if not window.is_late(np.array([time]), np.array([max(time, self._state.now)]))[0]:
            return None
        return engine.why_untimed(window) if time == NO_TIME else engine.why_late(window, time)

    def reached(self, message: Message | dict[str, Any] | Any, *, limit: int = 1000) -> list[Id]:
        """Return who would get a message, in order of registration and at most `limit`; nothing is delivered."""
        value = message_from(message, self.space)
        value.check(self.space)
        with self._lock:
            state = self._whole()
            matches = state.index.match(message_columns(state, value, is_published=False))
            return state.ids.snapshot().values(np.sort(matches.slots)[:limit])

    def nearly(self, message: Message | dict[str, Any] | Any, *, limit: int = 20) -> list[Explanation]:
        """Explain the message to those that one thing keeps out: its place, one word or their threshold.

        At most `limit`, the nearest first, over all subscriptions but those of kind `topk`. The hub's lock is held for
        some of them at a time only: who comes or goes meanwhile may be missed.
        """
        value = message_from(message, self.space)
        value.check(self.space)
        with self._lock:
            slots = self._whole().ids.in_use()
        found: list[tuple[NearMiss, Id]] = []
        for first in range(0, len(slots), _NEAR_BLOCK):
            found += self._near_misses(value, slots[first : first + _NEAR_BLOCK], limit)
        explained = []
        for _, id_ in sorted(found, key=lambda each: each[0].by)[:limit]:
            with suppress(UnknownSubscription):  # gone meanwhile
                explained.append(self.explain(value, id_))
        return explained

    def _near_misses(self, value: Message, slots: NDArray[np.int32], limit: int) -> list[tuple[NearMiss, Id]]:
        with self._lock:
            state = self._whole()
            slots = self._still_used(slots)
            held, weights = state.index.subscriptions(slots), state.index.weights
            columns, ids = message_columns(state, value, is_published=False), state.ids.snapshot()
        misses = near_misses(held, columns, weights, self.space, limit)
        named = ids.values(slots[[miss.row for miss in misses]]) if misses else []
        return list(zip(misses, named, strict=True))

    def in_box(self, box: Box | tuple[float, float, float, float], *, limit: int = 1000) -> tuple[list[Id], int]:
        """Return subscriptions whose rectangle, or point, touches a box, at most `limit`, and how many there are.

        The box is a `Box` or x_min, y_min, x_max, y_max; on the earth x_min > x_max crosses the dateline. In order of
        registration; those that listen anywhere are left out. The lock is held for some of them at a time only.
        """
        found: list[Id] = []
        total, bounds = 0, _bounds(box)
        for block, regions, ids in self._region_blocks():
            rows = touching_rectangles(regions, bounds)
            total += len(rows)
            found += ids.values(block[rows[: limit - len(found)]])
        return found, total

    def centres_in_box(self, box: Box | tuple[float, float, float, float]) -> NDArray[np.float64]:
        """Return x and y of the middle of the part inside a box, of every subscription that `in_box` counts.

        In a box across the dateline x goes on beyond 180.
        """
        bounds = _bounds(box)
        found = [centres_in_box(each, bounds) for _, each, _ in self._region_blocks()]
        return np.concatenate([np.empty((0, 2)), *found])

    def _region_blocks(self) -> Iterator[tuple[NDArray[np.int32], Regions, IdSnapshot]]:
        """Yield slots with their regions and ids, some at a time: the lock is held only between them."""
        with self._lock:
            slots = self._whole().ids.in_use()
        for first in range(0, len(slots), _NEAR_BLOCK):
            with self._lock:
                state = self._whole()
                block = self._still_used(slots[first : first + _NEAR_BLOCK])
                regions, ids = state.index.subscriptions(block).regions, state.ids.snapshot()
            yield block, regions, ids

    def _still_used(self, slots: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return those of these slots that have an id; the lock is held."""
        used = np.append(self._state.ids.in_use(), np.int32(-1))  # ascending but for the last, which no slot is
        kept: NDArray[np.int32] = slots[used[np.searchsorted(used[:-1], slots)] == slots]
        return kept

    def empty_copy(self) -> Hub:
        """Return a hub in memory with the options of this one and no subscriptions, to try something on."""
        state = self._state
        return Hub(
            self.space,
            index="scan",
            analyzer=state.analyzer,
            vocabulary=state.vocabulary,
            max_distance=self.max_distance,
            window=state.window,
            max_ahead=self.max_ahead,
            lifetime=state.lifetime,
        )

    def estimate(
        self,
        subscription: Subscription | dict[str, Any] | Any,
        sample: pa.Table | Iterable[Any] | None = None,
        *,
        messages_per_day: float | None = None,
        strict: bool = False,
    ) -> Estimate:
        """Say about how many messages a day a subscription would get, before it is stored.

        The subscription may also be a table of one row.
        `sample` is messages as `publish_many` takes them; without one the newest that were published serve, some
        10,000. A day's worth comes from their times, unless `messages_per_day` is given. For `Similar` the answer has a
        table over `text_weight` and `threshold`. Nothing is stored or delivered. `strict` is as in `publish_many`.
        """
        if messages_per_day is not None and not (is_number(messages_per_day) and 0 <= messages_per_day < math.inf):
            raise ValueError(f"messages_per_day is {messages_per_day!r}; expected a finite number, 0 or more")
        words, rejected = WordTable(), Rejected()
        with self._lock:
            state = self._state
            wanted = self._columns_to_estimate(subscription, words, rejected, strict=strict)
            weights = TermWeights(words, state.vocabulary)
            given = list(self._recent.samples()) if sample is None else [table_or_values(sample, self.space)]
        if sample is None and not given:
            raise InvalidInput("nothing was published yet to judge by; give a sample of messages", field="sample")
        messages = read_sample(
            given, wanted, self.space, words, state.analyzer, weights, strict=strict, rejected=rejected
        )
        return estimate(wanted, messages, weights.from_term(0), self.space, per_day=messages_per_day, rejected=rejected)

    def _columns_to_estimate(
        self, subscription: Any, words: WordTable, warned: Rejected, *, strict: bool
    ) -> Subscriptions:
        """Return the columns of a subscription to estimate, a value or a table of one row."""
        if isinstance(subscription, pa.Table):
            columns = subscription_of_table(
                subscription,
                self.space,
                words,
                self._state.analyzer,
                max_distance=self.max_distance,
                strict=strict,
                warned=warned,
            )
        else:
            columns = self._columns_of(self._subscription(subscription), words)
        check_kind(columns)
        return columns

    # Files and counts

    def save(self, folder: str | Path) -> None:
        """Write the hub into a new or empty folder, with its window and what every top-k holds.

        A folder that holds an older save is replaced in one step: until the new one is complete and on disk (fsync),
        the old one is what `open` finds, also after a kill or with a full disk. A folder that holds anything else is
        refused (`FileExistsError`). A hub that was opened from a folder may be saved onto it.

        What is saved is the hub at one moment. Other calls wait while what may change is copied, not while it is
        written; the copies need memory for that long.

        `ValueError` while deliveries wait that only `poll` or another call can hand out: they would be lost.
        """
        with self._lock:
            self._check_none_wait()
        save_state(folder, self._take_whole)

    def _check_none_wait(self) -> None:
        if any(map(len, self._whole().waiting or [])):
            raise ValueError("deliveries of new subscriptions are waiting; take them with poll() before saving")

    def _take_whole(self, folder: Path) -> tuple[dict[str, Any], Writes]:
        """Take the state to be saved, if no deliveries wait."""
        with self._lock:
            self._check_none_wait()
            return self._take(folder)

    def _take(self, folder: Path, **more: Any) -> tuple[dict[str, Any], Writes]:
        """Take the state to be saved, without deliveries that wait, and `more` for its head."""
        with self._lock:
            return take_state(
                self._whole(),
                folder,
                max_distance=self.max_distance,
                max_ahead=None if self.max_ahead is None else self.max_ahead.length,
                counters=asdict(self._counters),
                **more,
            )

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool | None = None) -> Hub:
        """Return the hub that was saved in a folder; it goes on as the one that was saved would.

        Only the sample that `estimate` judges by begins anew. Arrays are mapped, not read. That every file is there in
        its size, and that nothing in it leads out of bounds, is always checked; `verify=True` also compares the content
        of every file with its checksum, `verify=False` does not. By default contents are compared up to 1 GiB, which
        takes about a second. Damage is `IncompatibleStore` with the name of the file.
        """
        if Path(folder, DURABLE_HEAD).exists():
            raise IncompatibleStore(f"{folder} holds a durable hub; open it with DurableHub.open")
        state, about = open_state(folder, verify=verify)
        state.by_slot, state.names = {}, {}  # of a durable hub: who its subscribers are
        hub = cls(state.index.space, index="scan", max_distance=about["max_distance"])
        hub._take_over(state, about)
        return hub

    def _take_over(self, state: engine.State, about: dict[str, Any]) -> None:
        """Go on from a state that was saved, with what the head says of it."""
        self._state = state
        self.max_ahead = None if about.get("max_ahead") is None else MaxAhead(about["max_ahead"])
        self._counters = Counters(**about.get("counters", {}))
        state.waiting = []

    def count_refused(self, n: int) -> None:
        """Count rows as rejected that were refused before they reached the hub."""
        with self._lock:
            self._counters.rejected += n

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes of the hub and its index; docs/hub.md says what each is."""
        with self._lock:
            state = self._whole()
            return {
                "space": self.space.kind,
                "subscriptions": len(state.index),
                "published": state.published,
                **asdict(self._counters),
                "words": len(state.words),
                "vocabulary_version": state.vocabulary.version,
                "max_distance": self.max_distance,
                "id_bytes": state.ids.nbytes + state.expires.nbytes,
                "text_bytes": state.texts.nbytes,
                "now": _rfc_3339(state.now),
                "index": state.index.stats(),
                **({} if state.live is None else {"live": {"lifetime": str(state.lifetime), **state.live.stats()}}),
                **({} if state.topk is None else {"topk": state.topk.stats()}),
            }


@dataclass
class Counters:
    """Counters since a hub was made: deliveries it returned, rejected rows, and messages that were late."""

    delivered: int = 0
    rejected: int = 0
    late: int = 0


def _no_such(subscription_id: Id) -> str:
    return f"there is no subscription {subscription_id!r}, or it is named twice; leave it out"


def _bounds(box: Any) -> tuple[float, float, float, float]:
    """Return x_min, y_min, x_max, y_max of a box."""
    corners = (box.x_min, box.y_min, box.x_max, box.y_max) if isinstance(box, Box) else box
    try:
        x_min, y_min, x_max, y_max = (float(each) for each in corners)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"box is {shorten(box)}; expected a Box or (x_min, y_min, x_max, y_max)", field="box"
        ) from None
    return x_min, y_min, x_max, y_max


def _space(space: str | Space) -> Space:
    if isinstance(space, Space):
        return space
    known = {"earth": Space.earth, "plane": Space.plane}
    if not isinstance(space, str) or space not in known:
        raise InvalidInput(f"there is no space {space!r}; choose 'earth', 'plane' or a Space", field="space")
    return known[space]()


def _checked_distance(given: float | None) -> float | None:
    if given is None:
        return None
    if not is_number(given) or not 0 < given < math.inf:
        raise InvalidInput(f"max_distance is {given!r}; expected a finite number above 0", field="max_distance")
    return float(given)


def _with_expiry(found: Explanation, state: engine.State, slot: int, time: int) -> Explanation:
    """Add the step of expiry, where the subscription has one."""
    limit = int(state.expires[slot]) if slot < len(state.expires) else NO_TIME
    if limit == NO_TIME:
        return found
    alive = max(time, state.now) < limit
    expiry = Step("expiry", alive, f"{'expires' if alive else 'expired'} at {_rfc_3339(limit)}")
    return Explanation(found.subscription_id, found.message_id, found.matched and alive, (*found.steps, expiry))


def _with_life(found: Explanation, state: engine.State, request: ExplainRequest) -> Explanation:
    """Add the step of life: until when the message counts, or why it does not."""
    assert state.lifetime is not None
    time, expires = request.messages.time, request.messages.expires
    faults = state.lifetime.faults(time, expires, state.now)
    end = int(state.lifetime.ends(time, expires, np.maximum(time, state.now))[0])
    if faults:
        life = Step("life", False, faults[0][2])
    elif request.topk is not None:
        life = Step("life", None, "a top-k looks at its window alone: in it, expires plays no part")
    elif end == NO_TIME:
        life = Step("life", True, "an instant, since it gives no expires: told on arrival and never again")
    else:
        life = Step("life", True, f"lives until {_rfc_3339(end)}")
    return Explanation(found.subscription_id, found.message_id, found.matched and not faults, (*found.steps, life))


def _rfc_3339(microseconds: int) -> str | None:
    moment = datetime_of(microseconds)
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
