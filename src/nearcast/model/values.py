"""The values people hand in and get back: messages, the three kinds of subscription, and deliveries.

They are frozen and validated when made, so whatever holds one need not check it again. What depends on the space
(a latitude of 91 is fine on a plane) is checked by `check(space)`, which the hub calls.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields
from datetime import UTC, date, datetime
from numbers import Integral
from typing import Any, ClassVar, Literal

from nearcast.columns import MAX_K
from nearcast.errors import InvalidInput, InvalidMessage, InvalidQuery, InvalidSubscription
from nearcast.geo.shapes import Shape, as_float, is_number, shape_from, shorten
from nearcast.geo.space import Space
from nearcast.model.places import check_place, place_from
from nearcast.nesting import MAX_DEPTH, has_half_character, is_deep, is_encodable
from nearcast.query import Query, parse

Id = str | int
Point = tuple[float, float]
Rectangle = tuple[float, float, float, float]

#: How `Similar` compares words.
SIMILARITIES = ("tsim", "overlap", "jaccard", "dice", "cosine")

_INT64 = range(-(2**63), 2**63)
_OPERATORS = re.compile(r'(?<![^\s()])(?:AND|OR|NOT)(?![^\s()])|["“”„]')
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class _Value:
    """Base of all values: a repr that can be typed in again and leaves out what was not given."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = []
        for each in fields(self):  # type: ignore[arg-type]
            if not each.repr:
                continue
            value = getattr(self, each.name)
            default = each.default if each.default_factory is MISSING else each.default_factory()
            if value != default:
                shown.append(f"{each.name}={(_rfc_3339(value) if isinstance(value, datetime) else value)!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, slots=True, repr=False)
class Message(_Value):
    """Something published: words and a place.

    `place` is a point (x, y) or a rectangle (x_min, y_min, x_max, y_max), longitude first on the earth, where
    x_min > x_max crosses the dateline; a `Box`, a GeoJSON geometry or anything with `__geo_interface__` will do.
    `terms` are words taken as they are, beside or instead of those of `text`. Times are aware datetimes or RFC 3339
    text.
    `attributes` travel along; treat them as read-only. A message without words reaches only requests for a place.

    >>> Message("m1", "iPad at a discount", (13.4, 52.5), time="2026-05-01T09:00:00+02:00")
    Message(id='m1', text='iPad at a discount', place=(13.4, 52.5), time='2026-05-01T07:00:00Z')
    """

    id: Id
    text: str | None = None
    place: Point | Rectangle = None  # type: ignore[assignment]  # refused when made
    _: KW_ONLY
    terms: tuple[str, ...] | None = None
    time: datetime | None = None
    expires: datetime | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _set(self, "id", _checked_id(self.id, InvalidMessage))
        if self.text is not None and not isinstance(self.text, str):
            raise InvalidMessage(f"text is {shorten(self.text)}; expected a str", field="text")
        if self.text is not None:
            _check_encodable(self.text, "text", InvalidMessage)
        if self.place is None:
            raise InvalidMessage("the message has no place; give (x, y) or (x_min, y_min, x_max, y_max)", field="place")
        _set(self, "place", place_from(self.place, InvalidMessage))
        _set(self, "terms", _checked_terms(self.terms, InvalidMessage))
        _set(self, "time", checked_time(self.time, "time", InvalidMessage))
        _set(self, "expires", checked_time(self.expires, "expires", InvalidMessage))
        if self.expires is not None and self.time is not None and self.expires <= self.time:
            raise InvalidMessage(
                f"expires is {self.expires}, not after time, which is {self.time}; correct one of them", field="expires"
            )
        _set(self, "attributes", _checked_attributes(self.attributes))

    @property
    def box(self) -> Rectangle:
        """The place as a rectangle: for a point both corners are equal."""
        return self.place if len(self.place) == 4 else self.place + self.place

    def check(self, space: Space) -> None:
        """Raise `InvalidMessage` unless the place lies in the space."""
        check_place(self.place, space, InvalidMessage)


@dataclass(frozen=True, slots=True, repr=False)
class Within(_Value):
    """A request for messages whose words satisfy a boolean query and whose place touches a region.

    `query` is text, its JSON form or a parsed `Query`, and kept as text; `region` is a shape or anything `shape_from`
    takes, None meaning anywhere. A query that can be true without any word needs a region. `min_move`, of all kinds, is
    how far a report must lie from the present place to count as a move, in metres on the earth.

    >>> from nearcast.geo import Circle
    >>> Within("s1", "ipad AND NOT used", Circle(13.4, 52.5, 800))
    Within(id='s1', query='ipad AND NOT used', region=Circle(x=13.4, y=52.5, radius=800.0))
    """

    kind: ClassVar[Literal["within"]] = "within"

    id: Id
    query: str = ""
    region: Shape | None = None
    _: KW_ONLY
    expires: datetime | None = None
    min_move: float | None = None

    def __post_init__(self) -> None:
        _set(self, "id", _checked_id(self.id, InvalidSubscription))
        _set(self, "region", None if self.region is None else shape_from(self.region))
        _check_storable(self.query, "query", InvalidSubscription)
        tree = parse("" if self.query is None else self.query)
        tree.clauses()  # a query beyond the limit of its normal form is refused here, not when first matched
        if self.region is None and tree.needs_region:
            raise InvalidSubscription(
                f"the query {shorten(str(self.query))} can be true without any word; add a word or a region",
                field="query",
            )
        _set(self, "query", self.query if isinstance(self.query, str) else str(tree))
        _set(self, "expires", checked_time(self.expires, "expires", InvalidSubscription))
        _set(self, "min_move", _checked_min_move(self.min_move))

    def check(self, space: Space) -> None:
        """Raise `InvalidRegion` unless the region lies in the space."""
        if self.region is not None:
            self.region.check(space)


@dataclass(frozen=True, slots=True, repr=False)
class Similar(_Value):
    """A request for messages that score at least `threshold` in words and nearness together.

    score = text_weight · similarity of the words + (1 - text_weight) · max(0, 1 - distance / max_distance).
    `query` is plain text, without operators and quotes; `terms` are words taken as they are, beside or instead of
    those of `query`; repeats count once. `similarity` is one of tsim, overlap, jaccard, dice and cosine.
    `max_distance` is in metres on the earth; None stands for the hub's, and without one for the diagonal of a plane
    that has bounds; where there is neither, a hub refuses the subscription.

    >>> Similar("s2", "ramen noodles", (13.4, 52.5), threshold=0.6, max_distance=2000)
    Similar(id='s2', query='ramen noodles', place=(13.4, 52.5), threshold=0.6, max_distance=2000.0)
    """

    kind: ClassVar[Literal["similar"]] = "similar"

    id: Id
    query: str = ""
    place: Point = None  # type: ignore[assignment]  # refused when made
    _: KW_ONLY
    threshold: float
    text_weight: float = 0.5
    max_distance: float | None = None
    similarity: str = "tsim"
    terms: tuple[str, ...] | None = None
    expires: datetime | None = None
    min_move: float | None = None

    def __post_init__(self) -> None:
        _check_scored(self)
        _set(self, "threshold", _checked_share(self.threshold, "threshold"))
        if self.threshold == 0:
            raise InvalidSubscription("threshold is 0.0, which everything reaches; expected above 0", field="threshold")
        if not isinstance(self.similarity, str) or self.similarity not in SIMILARITIES:
            names = ", ".join(SIMILARITIES)
            raise InvalidSubscription(
                f"similarity is {shorten(self.similarity)}; expected one of {names}", field="similarity"
            )
        if not _has_words(self) and self.threshold > 1 - self.text_weight:
            raise InvalidSubscription(unreachable(self.threshold, self.text_weight), field="query")

    def check(self, space: Space) -> None:
        """Raise `InvalidSubscription` unless the place lies in the space."""
        check_place(self.place, space, InvalidSubscription)


@dataclass(frozen=True, slots=True, repr=False)
class TopK(_Value):
    """A request to be kept informed of the `k` best messages of the sliding window; what enters and leaves is told.

    The score is that of `Similar`; a message needs at least one word in common.

    >>> TopK("s3", "jazz concert", (13.4, 52.5), k=5, text_weight=0.7, max_distance=10_000)
    TopK(id='s3', query='jazz concert', place=(13.4, 52.5), k=5, text_weight=0.7, max_distance=10000.0)
    """

    kind: ClassVar[Literal["topk"]] = "topk"

    id: Id
    query: str = ""
    place: Point = None  # type: ignore[assignment]  # refused when made
    _: KW_ONLY
    k: int = 10
    text_weight: float = 0.5
    max_distance: float | None = None
    terms: tuple[str, ...] | None = None
    expires: datetime | None = None
    min_move: float | None = None

    def __post_init__(self) -> None:
        _check_scored(self)
        if isinstance(self.k, bool) or not isinstance(self.k, Integral) or not 1 <= self.k <= MAX_K:
            raise InvalidSubscription(f"k is {shorten(self.k)}; expected a whole number, 1 to {MAX_K}", field="k")
        _set(self, "k", int(self.k))
        if not _has_words(self):
            raise InvalidSubscription("the query has no word; a top-k request needs one", field="query")

    def check(self, space: Space) -> None:
        """Raise `InvalidSubscription` unless the place lies in the space."""
        check_place(self.place, space, InvalidSubscription)


Subscription = Within | Similar | TopK


@dataclass(frozen=True, slots=True, repr=False)
class Delivery(_Value):
    """One message becoming relevant to one subscription (`change` "+"), or no longer so ("-").

    `rank` is 1 for the best and None but for top-k; on a "-" score and rank are the last ones held. `cause_id` is the
    message whose arrival caused it, None for a move, a registration or the clock. `time` is event time.

    `message` is the message itself with its attributes, where the call that delivers it has it at hand: `Hub.publish`
    has, if it is the one that was published. It takes no part in comparing and is not shown.

    >>> Delivery("s1", "m1")
    Delivery(subscription_id='s1', message_id='m1')
    """

    subscription_id: Id
    message_id: Id
    change: Literal["+", "-"] = "+"
    score: float | None = None
    rank: int | None = None
    cause_id: Id | None = None
    time: datetime | None = None
    delivery_id: str | None = None
    version: str | None = None
    message: Message | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.change != "+" and self.change != "-":
            raise InvalidInput(f"change is {shorten(self.change)}; expected '+' or '-'", field="change")


# --- checks -----------------------------------------------------------------------------------------------------

_set = object.__setattr__


def _checked_id(value: Any, error: type[InvalidInput]) -> Id:
    if isinstance(value, str):
        _check_encodable(value, "id", error)
        if "\0" in value:
            raise error(f"id {shorten(value)} holds a zero byte; remove it", field="id")
        return value if type(value) is str else str.__str__(value)  # one of NumPy's or of an enum
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) in _INT64:
        return int(value)
    raise error(f"id is {shorten(value)}; expected a str or an int of 64 bits", field="id")


def _check_encodable(value: str, name: str, error: type[InvalidInput]) -> None:
    if not is_encodable(value):
        raise error(f"{name} {shorten(value)} holds half a character and cannot be stored; correct it", field=name)


def _check_storable(value: Any, name: str, error: type[InvalidInput]) -> None:
    """Raise for a value, nested or not, that no file can hold."""
    if value is None or isinstance(value, int | float):
        return  # most values are, and messages are many
    if isinstance(value, str):
        _check_encodable(value, name, error)
    elif is_deep(value):
        raise error(f"{name} is nested more than {MAX_DEPTH} deep; make it flatter", field=name)
    elif has_half_character(value):
        raise error(f"{name} {shorten(value)} holds half a character and cannot be stored; correct it", field=name)


def _checked_terms(value: Any, error: type[InvalidInput]) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise error(f"terms is {shorten(value)}; expected a list of words, or use text", field="terms")
    terms = tuple(value)
    for term in terms:
        if not isinstance(term, str):
            raise error(f"terms holds {shorten(term)}; expected only str", field="terms")
        _check_encodable(term, "terms", error)
    return terms


def _checked_attributes(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidMessage(f"attributes is {shorten(value)}; expected a dict", field="attributes")
    for name, each in value.items():
        if not isinstance(name, str):
            raise InvalidMessage(f"an attribute is called {shorten(name)}; expected text", field="attributes")
        _check_encodable(name, "attributes", InvalidMessage)
        _check_storable(each, name, InvalidMessage)
    return dict(value)


def checked_time(value: Any, name: str, error: type[InvalidInput] = InvalidInput) -> datetime | None:
    """Return an aware datetime, a date (midnight UTC) or RFC 3339 text as a datetime in UTC; None as None."""
    if value is None:
        return None
    given = value
    if type(value) is date:
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, str) and _RFC_3339.fullmatch(value):
        try:
            value = datetime.fromisoformat(value.upper())
        except ValueError as reason:
            raise error(f"{name} is {given!r}: {reason}; expected a time that exists", field=name) from None
    if not isinstance(value, datetime) or value != value or value.utcoffset() is None:  # NaT is a datetime, too
        raise error(
            f"{name} is {shorten(given)}; expected an aware datetime or RFC 3339 text like 2026-05-01T09:00:00Z",
            field=name,
        )
    try:
        at = value.astimezone(UTC)
    except OverflowError:
        raise error(f"{name} is {given}, out of range in UTC; expected years 1 to 9999", field=name) from None
    if type(at) is datetime:
        return at
    # A subclass, such as a pandas Timestamp, would not compare and pickle as our own.
    return datetime(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond, UTC)


def _rfc_3339(value: datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")


def unreachable(threshold: float, text_weight: float) -> str:
    """Return why a subscription without words, whose threshold is above 1 - text_weight, cannot be stored."""
    most = 1 - text_weight
    advice = f"add words or lower the threshold to {most}" if most > 0 else "add words"
    return f"without words the score never reaches {threshold}; {advice}"


def _check_scored(value: "Similar | TopK") -> None:
    """Check what `Similar` and `TopK` have in common."""
    _set(value, "id", _checked_id(value.id, InvalidSubscription))
    _set(value, "query", _checked_plain_text(value.query))
    _set(value, "terms", _checked_terms(value.terms, InvalidSubscription))
    _check_encodable(value.query, "query", InvalidSubscription)
    if value.place is None:
        raise InvalidSubscription("the subscription has no place; give (x, y)", field="place")
    _set(value, "place", place_from(value.place, InvalidSubscription))
    if len(value.place) != 2:
        raise InvalidSubscription(f"place is {value.place}; expected a point (x, y)", field="place")
    _set(value, "text_weight", _checked_share(value.text_weight, "text_weight"))
    if value.max_distance is not None:
        _set(value, "max_distance", _checked_number(value.max_distance, "max_distance"))
        if value.max_distance <= 0:
            raise InvalidSubscription(f"max_distance is {value.max_distance}; expected above 0", field="max_distance")
    _set(value, "expires", checked_time(value.expires, "expires", InvalidSubscription))
    _set(value, "min_move", _checked_min_move(value.min_move))


def _checked_min_move(value: Any) -> float | None:
    if value is None:
        return None
    number = _checked_number(value, "min_move")
    if number <= 0:
        raise InvalidSubscription(f"min_move is {number}; expected above 0", field="min_move")
    return number


def _checked_plain_text(query: Any) -> str:
    if query is None:
        return ""
    if isinstance(query, Query) or not isinstance(query, str):
        raise InvalidSubscription(f"query is {shorten(query)}; expected plain text, or use terms", field="query")
    found = _OPERATORS.search(query)
    if found:
        line_start = query.rfind("\n", 0, found.start()) + 1
        raise InvalidQuery(
            f"{found[0]} has no meaning here: this kind takes plain words; write it in lower case or remove it",
            query=query,
            line=query.count("\n", 0, found.start()) + 1,
            column=found.start() - line_start + 1,
        )
    return query


def _has_words(value: "Similar | TopK") -> bool:
    return bool(value.terms) or bool(value.query.strip())


def _checked_share(value: Any, name: str) -> float:
    number = _checked_number(value, name)
    if not 0 <= number <= 1:
        raise InvalidSubscription(f"{name} is {number}; expected 0 to 1", field=name)
    return number


def _checked_number(value: Any, name: str) -> float:
    if not is_number(value):
        raise InvalidSubscription(f"{name} is {shorten(value)}; expected a number", field=name)
    number = as_float(value)
    if not math.isfinite(number):
        raise InvalidSubscription(f"{name} is {shorten(value)}; expected a finite number", field=name)
    return number
