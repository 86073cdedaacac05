"""Requests to a server: for each method of a client the verb, the path and the body, and how the answer is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa

from nearcast.client.events import RemotePage
from nearcast.client.problems import ServerProblem
from nearcast.errors import InvalidInput
from nearcast.geo import Space
from nearcast.geo.shapes import shape_from, shorten
from nearcast.json_forms import message_feature, region_json, rfc_3339, subscription_json
from nearcast.model import Message, Similar, TopK, Within

Answer = TypeVar("Answer")
_MOST_KEY_CHARS = 255
_LINES = "application/x-ndjson"


@dataclass(frozen=True)
class ServerCall(Generic[Answer]):
    """A request and how its answer is read. Each may be made twice: what is not so by itself has an idempotency key."""

    method: str
    path: str
    read: Callable[[Any], Answer]
    body: bytes | None = None
    content_type: str = "application/json"
    params: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    #: Seconds that the server may take beyond the usual, because it was asked to wait.
    wait_s: float = 0.0
    #: Whether None is returned for what is not there.
    may_be_missing: bool = False


@dataclass(frozen=True)
class PublishResult:
    """What the server took: how many messages, the rows it rejected with reasons, and the cursor after them.

    `repeated`: the same was published before under its key, and nothing was published now.
    """

    accepted: int
    rejected: list[dict[str, Any]]
    cursor: str | None
    repeated: bool


@dataclass(frozen=True)
class BatchResult:
    """What the server took of a batch: how many items, and those that it rejected, each with its row and the reason."""

    accepted: int
    rejected: list[dict[str, Any]]


# Subscriptions


def subscribe(
    given: Any, space: Space, subscriber: str | None, labels: dict[str, str] | None, max_events: int | None
) -> ServerCall[str]:
    """Store a subscription, or replace the one that has its id; the id is read from the answer."""
    body = _with_own(_subscription(given, space), _given(subscriber=subscriber, labels=labels, max_events=max_events))
    inner = body["properties"] if body.get("type") == "Feature" else {}
    id_ = body.get("id") if inner.get("id") is None else inner["id"]
    if id_ is None:
        return ServerCall("POST", "/v1/subscriptions", _id, _json(body), headers=_key(None))
    return ServerCall("PUT", _path("subscriptions", id_), _id, _json(body))


def subscribe_many(given: pa.Table | Iterable[Any], space: Space, subscriber: str | None) -> ServerCall[BatchResult]:
    """Store many subscriptions as lines of JSON; those whose ids are known are replaced."""
    own = _given(subscriber=subscriber)
    body = b"".join(_json(_with_own(_subscription(each, space), own)) + b"\n" for each in _rows(given))
    return ServerCall("POST", "/v1/subscriptions", _batch, body, _LINES, headers=_key(None))


def move(subscription_id: Any, place: Any, time: datetime | str | None, space: Space) -> ServerCall[None]:
    """Give a subscription another place."""
    item = {"id": subscription_id, **_place(place, space), **_given(time=time)}
    return ServerCall("POST", "/v1/locations", _moved, _json([item]), headers=_key(None))


def move_many(given: pa.Table | Iterable[dict[str, Any]]) -> ServerCall[BatchResult]:
    """Give many subscriptions, or all those of subscribers, other places."""
    body = b"".join(_json(each) + b"\n" for each in _rows(given))
    return ServerCall("POST", "/v1/locations", _batch, body, _LINES, headers=_key(None))


def subscriber_of(subscription_id: Any) -> ServerCall[str | None]:
    """Read whose a subscription is."""
    return ServerCall("GET", _path("subscriptions", subscription_id), lambda found: found.get("subscriber"))


def subscription(subscription_id: Any) -> ServerCall[dict[str, Any]]:
    """Read a subscription."""
    return ServerCall("GET", _path("subscriptions", subscription_id), dict)


def subscriptions(subscriber: str | None, cursor: str | None, limit: int) -> ServerCall[dict[str, Any]]:
    """Read a page of subscriptions."""
    return ServerCall(
        "GET", "/v1/subscriptions", dict, params=_given(subscriber=subscriber, cursor=cursor, limit=limit)
    )


def unsubscribe(subscription_id: Any) -> ServerCall[None]:
    """Forget a subscription."""
    return ServerCall("DELETE", _path("subscriptions", subscription_id), _nothing)


def set_paused(subscription_id: Any, *, is_paused: bool) -> ServerCall[None]:
    """Take a subscription out of matching, or bring it back."""
    verb = "pause" if is_paused else "resume"
    return ServerCall("POST", f"{_path('subscriptions', subscription_id)}:{verb}", _nothing)


def current(subscription_id: Any) -> ServerCall[list[dict[str, Any]]]:
    """Read what is relevant to a subscription now."""
    return ServerCall("GET", f"{_path('subscriptions', subscription_id)}/current", lambda found: list(found["items"]))


# Messages


def publish(given: Any, key: str | None) -> ServerCall[PublishResult]:
    """Publish one message, under a key, so that it can be sent again."""
    return ServerCall("POST", "/v1/messages", _published, _json(_message(given)), "application/json", headers=_key(key))


def publish_many(given: pa.Table | Iterable[Any], key: str | None) -> ServerCall[PublishResult]:
    """Publish a table as an Arrow stream, anything else as lines of JSON."""
    if isinstance(given, pa.Table) or hasattr(given, "__arrow_c_stream__"):
        body, content_type = _arrow(pa.table(given)), "application/vnd.apache.arrow.stream"
    else:
        body = b"".join(_json(_message(each)) + b"\n" for each in given)
        content_type = _LINES
    return ServerCall("POST", "/v1/messages", _published, body, content_type, headers=_key(key))


def kept_message(message_id: Any) -> ServerCall[dict[str, Any] | None]:
    """Read the newest message with an id, while it is kept."""
    return ServerCall("GET", _path("messages", message_id), lambda found: found, may_be_missing=True)


# Subscribers


def move_subscriber(
    subscriber: str, place: Any, time: datetime | str | None, space: Space
) -> ServerCall[dict[str, Any]]:
    """Tell where a subscriber is."""
    point = _point(place, space)
    if point is None:
        names = "lon, lat" if space.is_earth else "x, y"
        raise InvalidInput(f"place is {shorten(place)}; expected ({names})", field="place")
    body = point | _given(time=time)
    return ServerCall("PUT", f"{_path('subscribers', subscriber)}/location", dict, _json(body))


def events(subscriber: str, after: str | None, limit: int, wait_s: float) -> ServerCall[RemotePage]:
    """Read the next events of a subscriber; the server waits for the first one as long as it is told."""
    params = _given(cursor=after, limit=limit, wait=wait_s or None)
    path = f"{_path('subscribers', subscriber)}/events"
    return ServerCall("GET", path, RemotePage.from_json, params=params, wait_s=wait_s)


def ack(subscriber: str, cursor: str) -> ServerCall[None]:
    """Tell that all events up to a cursor are done."""
    return ServerCall("POST", f"{_path('subscribers', subscriber)}/ack", _nothing, _json({"cursor": str(cursor)}))


def acked(subscriber: str) -> ServerCall[str]:
    """Read up to which cursor a subscriber has acknowledged its events."""
    return ServerCall("GET", _path("subscribers", subscriber), lambda found: str(found["acked"]))


def put_subscriber(subscriber: str, settings: dict[str, Any]) -> ServerCall[dict[str, Any]]:
    """Set the sink and the rules of a subscriber."""
    return ServerCall("PUT", _path("subscribers", subscriber), dict, _json(settings))


def erase(subscriber: str) -> ServerCall[None]:
    """Forget a subscriber with all that is its own."""
    return ServerCall("DELETE", _path("subscribers", subscriber), _nothing)


def stream_path(subscriber: str) -> str:
    """Return where the events of a subscriber are streamed."""
    return f"{_path('subscribers', subscriber)}/stream"


# Questions


def explain(message: Any, subscription_: Any, place: Any, space: Space) -> ServerCall[dict[str, Any]]:
    """Ask why a message reaches a subscription or not; without one, whom it reached and who nearly got it."""
    asked = (
        subscription_
        if subscription_ is None or isinstance(subscription_, (str, int))
        else _subscription(subscription_, space)
    )
    body = {"message": _message(message)} | _given(subscription=asked, place=None if place is None else list(place))
    return ServerCall("POST", "/v1/explain", dict, _json(body))


def reached(message: Any) -> ServerCall[list[str]]:
    """Ask whom a message would reach."""
    return ServerCall(
        "POST", "/v1/explain", lambda found: list(found["reached"]), _json({"message": _message(message)})
    )


def nearly(message: Any) -> ServerCall[list[dict[str, Any]]]:
    """Ask who would nearly get a message."""
    return ServerCall("POST", "/v1/explain", lambda found: list(found["nearly"]), _json({"message": _message(message)}))


def estimate(given: Any, space: Space) -> ServerCall[dict[str, Any]]:
    """Ask how many messages a day a subscription would get."""
    return ServerCall("POST", "/v1/estimate", dict, _json({"subscription": _subscription(given, space)}))


def backup(name: str) -> ServerCall[None]:
    """Have the server copy its data under a name."""
    return ServerCall("POST", "/v1/backup", _nothing, _json({"name": name}))


def health() -> ServerCall[dict[str, Any]]:
    """Ask whether the server takes requests."""
    return ServerCall("GET", "/readyz", dict)


# Bodies


def _subscription(given: Any, space: Space) -> dict[str, Any]:
    if isinstance(given, (Within, Similar, TopK)):
        return subscription_json(given, space)
    if isinstance(given, dict):
        return dict(given)
    raise InvalidInput(f"subscription is {shorten(given)}; expected a dict, Within, Similar or TopK")


def _with_own(body: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return a subscription with what the server keeps beside it; of a Feature these are properties."""
    if body.get("type") == "Feature":
        return {**body, "properties": {**(body.get("properties") or {}), **own}}
    return {**body, **own}


def _rows(given: pa.Table | Iterable[Any]) -> Iterable[Any]:
    """Return the items of a batch; of a table, its rows without what is null."""
    if isinstance(given, pa.Table) or hasattr(given, "__arrow_c_stream__"):
        return [_given(**row) for row in pa.table(given).to_pylist()]
    return given


def _place(place: Any, space: Space) -> dict[str, Any]:
    """Return a point or a region in its columns."""
    point = _point(place, space)
    return region_json(shape_from(place, space), space) if point is None else point


def _point(place: Any, space: Space) -> dict[str, Any] | None:
    """Return a point in its columns, None if the place is none."""
    try:
        x, y = (float(each) for each in place)
    except (TypeError, ValueError, OverflowError):
        return None
    return {"lon": x, "lat": y} if space.is_earth else {"x": x, "y": y}


def _message(given: Any) -> dict[str, Any]:
    if isinstance(given, Message):
        return message_feature(given)
    if isinstance(given, dict):
        return given
    if hasattr(given, "__geo_interface__"):
        return dict(given.__geo_interface__)
    raise InvalidInput(f"message is {shorten(given)}; expected a dict, a Feature or a Message")


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError, UnicodeEncodeError) as error:
        raise InvalidInput(f"it cannot be sent as JSON: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return rfc_3339(value)
    if hasattr(value, "item"):  # a number of NumPy
        return value.item()
    raise TypeError(f"{shorten(value)} is no value of JSON")


def _arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _key(key: str | None) -> dict[str, str]:
    """Return the header under which a request may be sent again; the key is made up if none is given."""
    if key is None:
        return {"idempotency-key": uuid4().hex}
    if not isinstance(key, str) or not 0 < len(key) <= _MOST_KEY_CHARS or not key.isascii() or not key.isprintable():
        raise InvalidInput(
            f"key is {shorten(key)}; expected 1 to {_MOST_KEY_CHARS} printable ASCII characters", field="key"
        )
    return {"idempotency-key": key}


def _path(kind: str, name: Any) -> str:
    """Return the path of a subscription or a subscriber; which other ids there can be, the server says."""
    if name is None or name == "":
        raise InvalidInput(f"the id of a {kind[:-1]} is {name!r}; expected text", field="id")
    return f"/v1/{kind}/{quote(str(name), safe='')}"


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


# Answers


def _nothing(_: Any) -> None:
    return None


def _id(found: Any) -> str:
    return str(found["id"])


def _batch(found: Any) -> BatchResult:
    return BatchResult(found["accepted"], found["rejected"])


def _moved(found: Any) -> None:
    """Raise if the one move of a request was rejected: a subscription that is not there is 404."""
    for row in found["rejected"]:
        status = 404 if row["field"] == "id" else 422
        where = {"pointer": row["pointer"], "message": row["reason"]}
        raise ServerProblem(status, "The subscription was not moved", row["reason"], [where], None)


def _published(found: Any) -> PublishResult:
    return PublishResult(found["accepted"], found["rejected"], found.get("cursor"), bool(found.get("repeated")))
