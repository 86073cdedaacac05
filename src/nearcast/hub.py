"""Hub: publish/subscribe in one process, over one engine."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import engine
from nearcast.columns import NO_TIME, Messages, Subscriptions, datetime_of, microseconds_of
from nearcast.deliveries import Deliveries
from nearcast.errors import InvalidColumns, InvalidRegion, InvalidSubscription, NotSupported
from nearcast.explain import Explanation, Step, explain
from nearcast.geo import Area, Box, Circle, Regions, Shape, Space, shape_from
from nearcast.indexes import DEFAULT_INDEX, create
from nearcast.model import Message, Subscription, Within, checked_time, message_from, subscription_from
from nearcast.model.places import is_number
from nearcast.query import compile_queries
from nearcast.tables import Rejected, messages_table, read_messages, read_subscriptions, subscriptions_table
from nearcast.text import Analyzer, Vocabulary
from nearcast.text.words import UNKNOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast._ids import Id

_NO_TERMS = np.empty(0, np.int32)
_NEVER = np.array([NO_TIME])
_GAP = np.array([UNKNOWN], np.int32)


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
    Merging of the index runs beside them and holds nobody up.

    `space` is "earth" (longitude, latitude, metres) or "plane"; `index` a name from `nearcast indexes`, with options;
    `analyzer` says how text and queries become words; `vocabulary` holds the document
    frequencies that weights come from.
    """

    def __init__(
        self,
        space: str | Space = "earth",
        *,
        index: str = DEFAULT_INDEX,
        analyzer: Analyzer | None = None,
        vocabulary: Vocabulary | None = None,
    ):
        self.space = _space(space)
        self._lock = threading.RLock()
        self._state = engine.State(create(index, self.space))
        if analyzer is not None:
            self._state.analyzer = analyzer
        if vocabulary is not None:
            self._state.vocabulary = vocabulary.snapshot()

    def __len__(self) -> int:
        return len(self._state.index)

    def __contains__(self, subscription_id: Id) -> bool:
        with self._lock:
            return self._state.ids.slot(subscription_id) >= 0

    def __repr__(self) -> str:
        return f"<Hub: {len(self):,} subscriptions on the {self.space.kind}, index {self._state.index.info.name!r}>"

    # Subscriptions

    def subscribe(self, subscription: Subscription | dict[str, Any] | Any) -> Id:
        """Store a subscription and return its id; a known id is replaced and keeps its place in the order."""
        value = _only_within(subscription_from(subscription, self.space))
        value.check(self.space)
        with self._lock:
            engine.subscribe(self._state, self._columns_of(value))
        return value.id

    def subscribe_many(self, subscriptions: pa.Table | Iterable[Any], *, source: str = "subscriptions") -> Rejected:
        """Store many subscriptions; return the rows that were not stored, with reasons.

        Takes a table in interchange columns, or values as `subscribe` takes them. Of rows with the same id in one
        call the first is stored and the others rejected; an id known from an earlier call is replaced.
        """
        rejected = Rejected()
        subscriptions = _table_or_values(subscriptions)
        if not isinstance(subscriptions, pa.Table):
            subscriptions = subscriptions_table(subscriptions, self.space, rejected=rejected, source=source)
        with self._lock:
            state = self._state
            columns = read_subscriptions(
                subscriptions, self.space, state.words, state.analyzer, source=source, rejected=rejected
            )
            engine.subscribe(state, columns)
        return rejected

    def unsubscribe(self, subscription_id: Id) -> None:
        """Forget a subscription; `UnknownSubscription` if there is none."""
        with self._lock:
            self._state.slot(subscription_id)
            engine.unsubscribe(self._state, pa.array([subscription_id]))

    def move(self, subscription_id: Id, place: Any) -> None:
        """Give a subscription another place, from now on.

        A region replaces the old one; a point (x, y) carries the old one along, its centre going there.
        """
        with self._lock:
            slot = self._state.slot(subscription_id)
            point = _point(place)
            if point is not None:
                old = self._state.index.subscriptions(np.array([slot], np.int32)).regions.shape_of(0)
                shape = _centred_at(old, *point, self.space)
            else:
                shape = shape_from(place, self.space)
            shape.check(self.space)
            self._state.index.move(np.array([slot], np.int32), Regions.from_shapes([shape], self.space))

    def _columns_of(self, value: Within) -> Subscriptions:
        has_region = np.array([value.region is not None])
        state = self._state
        compiled = compile_queries(pa.array([value.query]), state.words, analyzer=state.analyzer, has_region=has_region)
        if compiled.errors:
            raise compiled.errors[0][1]
        return Subscriptions.of(
            compiled.clause_start,
            compiled.code_start,
            compiled.code,
            Regions.from_shapes([value.region], self.space),
            ids=pa.array([value.id]),
            expires=np.array([microseconds_of(value.expires)]),
        )

    # Messages

    def publish(self, message: Message | dict[str, Any] | Any) -> Deliveries:
        """Deliver one message; return its deliveries, made only as they are looked at."""
        value = message if isinstance(message, Message) else message_from(message, self.space)
        value.check(self.space)
        with self._lock:
            return Deliveries([engine.publish(self._state, self._message_columns(value))])

    def publish_many(
        self, messages: pa.Table | Iterable[Any], *, threads: int = 1, source: str = "messages"
    ) -> Deliveries:
        """Deliver many messages in order; rows that cannot be published are in `rejected` of the result.

        Takes a table in interchange columns, or values as `publish` takes them.
        """
        if not isinstance(threads, int) or threads < 1:
            raise ValueError(f"threads is {threads!r}; expected 1 or more")
        rejected = Rejected()
        messages = _table_or_values(messages)
        if not isinstance(messages, pa.Table):
            messages = messages_table(messages, self.space, rejected=rejected, source=source)
        with self._lock:
            state = self._state
            columns = read_messages(messages, self.space, state.words, state.analyzer, source=source, rejected=rejected)
            return Deliveries([engine.publish(state, columns, threads)], rejected)

    def advance(self, time: datetime | str) -> None:
        """Move event time forward; subscriptions that expire by then are forgotten."""
        moment = checked_time(time, "time")
        if moment is None:
            raise ValueError("time is None; expected an aware datetime or RFC 3339 text")
        with self._lock:
            engine.advance(self._state, microseconds_of(moment))

    def _message_columns(self, value: Message) -> Messages:
        terms = self._terms_of(value)
        return Messages(
            [value.id],
            np.array([0, len(terms)]),
            terms,
            np.array([value.box]),
            _NEVER if value.time is None else np.array([microseconds_of(value.time)]),
            _NEVER if value.expires is None else np.array([microseconds_of(value.expires)]),
        )

    def _terms_of(self, value: Message) -> NDArray[np.int32]:
        """Return the words of the text, then the given terms, with a gap that no phrase reaches over."""
        known = self._state.words
        given = known.ids_of(value.terms, add=False) if value.terms else _NO_TERMS
        if not value.text:
            return given
        read = known.ids_of(self._state.analyzer.tokens(value.text), add=False)
        return np.concatenate([read, _GAP, given]) if len(given) else read

    # Answers about answers

    def explain(self, message: Message | dict[str, Any] | Any, subscription_id: Id) -> Explanation:
        """Say which step lets the message through to the subscription, or drops it; nothing is delivered."""
        value = message_from(message, self.space)
        value.check(self.space)
        with self._lock:
            state = self._state
            slot = state.slot(subscription_id)
            messages = self._message_columns(value)
            held = state.index.subscriptions(np.array([slot], np.int32))
            lines = state.index.explain(messages, 0, slot, state.words.word)
            found = explain(held, messages, self.space, state.words.word, lines, (subscription_id, value.id))
            return _with_expiry(found, state, slot, microseconds_of(value.time))

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes of the hub and its index."""
        with self._lock:
            state = self._state
            return {
                "space": self.space.kind,
                "subscriptions": len(state.index),
                "published": state.next_step,
                "words": len(state.words),
                "vocabulary_version": state.vocabulary.version,
                "id_bytes": state.ids.nbytes + state.expires.nbytes,
                "now": _rfc_3339(state.now),
                "index": state.index.stats(),
            }


def _space(space: str | Space) -> Space:
    if isinstance(space, Space):
        return space
    known = {"earth": Space.earth, "plane": Space.plane}
    if space not in known:
        raise ValueError(f"there is no space {space!r}; choose 'earth', 'plane' or a Space")
    return known[space]()


def _only_within(value: Subscription) -> Within:
    if not isinstance(value, Within):
        raise NotSupported(
            f"a subscription of kind {value.kind!r} is not matched yet by this version; only 'within' is"
        )
    return value


def _table_or_values(given: Any) -> pa.Table | Iterable[Any]:
    """Return what speaks Arrow as a table and other iterables as they are; refuse what only looks like one."""
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if hasattr(given, "__arrow_c_stream__"):
        return pa.table(given)
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise InvalidColumns(f"{type(given).__name__} was given; expected a table or a list of values")
    return given


def _point(place: Any) -> tuple[float, float] | None:
    """Return a place that is a point as (x, y), None if it is anything else."""
    geometry = getattr(place, "__geo_interface__", place)
    if isinstance(geometry, Mapping):
        geometry = geometry.get("coordinates") if geometry.get("type") == "Point" else None
    if isinstance(geometry, (Sequence, np.ndarray)) and len(geometry) == 2 and all(map(is_number, geometry)):
        return float(geometry[0]), float(geometry[1])
    return None


def _centred_at(shape: Shape | None, x: float, y: float, space: Space) -> Shape:
    """Return the same region with its centre at (x, y)."""
    if shape is None:
        raise InvalidSubscription("the subscription listens anywhere and has no place to move; give it a region")
    if isinstance(shape, Circle):
        return Circle(x, y, shape.radius)
    if isinstance(shape, Area):
        raise InvalidRegion("a polygon cannot follow a point; move it to another polygon")
    width = shape.x_max - shape.x_min + (360.0 if shape.x_max < shape.x_min else 0.0)
    height = shape.y_max - shape.y_min
    west, east = x - width / 2, x + width / 2
    if space.is_earth:
        west, east = (-180.0, 180.0) if width >= 360.0 else (_wrapped(west), _wrapped(east))
    south, north = y - height / 2, y + height / 2
    if space.is_earth and max(-south, north) > 90.0:
        raise InvalidRegion(f"a box {height:g} degrees high does not fit around latitude {y:g}; give it another box")
    return Box(west, south, east, north)


def _wrapped(lon: float) -> float:
    return lon - 360.0 if lon > 180.0 else lon + 360.0 if lon < -180.0 else lon


def _with_expiry(found: Explanation, state: engine.State, slot: int, time: int) -> Explanation:
    """Add the step of expiry, where the subscription has one."""
    limit = int(state.expires[slot]) if slot < len(state.expires) else NO_TIME
    if limit == NO_TIME:
        return found
    alive = max(time, state.now) < limit
    step = Step("expiry", alive, f"{'expires' if alive else 'expired'} at {_rfc_3339(limit)}")
    return Explanation(found.subscription_id, found.message_id, found.matched and alive, (*found.steps, step))


def _rfc_3339(microseconds: int) -> str | None:
    moment = datetime_of(microseconds)
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
