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
from nearcast.errors import InvalidInput
from nearcast.geo import Space
from nearcast.geo.shapes import shorten
from nearcast.json_forms import message_feature, rfc_3339, subscription_json
from nearcast.model import Message, Similar, TopK, Within

Answer = TypeVar("Answer")
_MOST_KEY_CHARS = 255


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


@dataclass(frozen=True)
class PublishResult:
    """What the server took: how many messages, the rows it rejected with reasons, and the cursor after them.

    `repeated`: the same was published before under its key, and nothing was published now.
    """

    accepted: int
    rejected: list[dict[str, Any]]
    cursor: str | None
    repeated: bool


# Subscriptions


def subscribe(
    given: Any, space: Space, subscriber: str | None, labels: dict[str, str] | None, max_events: int | None
) -> ServerCall[str]:
    """Store a subscription, or replace the one that has its id; the id is read from the answer."""
    body, id_ = _subscription(given, space), None
    own = _given(subscriber=subscriber, labels=labels, max_events=max_events)
    if body.get("type") == "Feature":  # its own fields are properties
        properties = body.get("properties") or {}
        body["properties"], id_ = {**properties, **own}, properties.get("id")
    else:
        body |= own
    id_ = body.get("id") if id_ is None else id_
    if id_ is None:
        return ServerCall("POST", "/v1/subscriptions", _id, _json(body), headers=_key(None))
    return ServerCall("PUT", _path("subscriptions", id_), _id, _json(body))


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
        content_type = "application/x-ndjson"
    return ServerCall("POST", "/v1/messages", _published, body, content_type, headers=_key(key))


# Subscribers


def move_subscriber(
    subscriber: str, place: Any, time: datetime | str | None, space: Space
) -> ServerCall[dict[str, Any]]:
    """Tell where a subscriber is."""
    names = ("lon", "lat") if space.is_earth else ("x", "y")
    try:
        x, y = (float(each) for each in place)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"place is {shorten(place)}; expected ({', '.join(names)})", field="place") from None
    moment = rfc_3339(time) if isinstance(time, datetime) else time
    body = dict(zip(names, (x, y), strict=True)) | _given(time=moment)
    return ServerCall("PUT", f"{_path('subscribers', subscriber)}/location", dict, _json(body))


def events(subscriber: str, after: str | None, limit: int, wait_s: float) -> ServerCall[RemotePage]:
    """Read the next events of a subscriber; the server waits for the first one as long as it is told."""
    params = _given(cursor=after, limit=limit, wait=wait_s or None)
    path = f"{_path('subscribers', subscriber)}/events"
    return ServerCall("GET", path, RemotePage.from_json, params=params, wait_s=wait_s)


def ack(subscriber: str, cursor: str) -> ServerCall[None]:
    """Tell that all events up to a cursor are done."""
    return ServerCall("POST", f"{_path('subscribers', subscriber)}/ack", _nothing, _json({"cursor": str(cursor)}))


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


def _published(found: Any) -> PublishResult:
    return PublishResult(found["accepted"], found["rejected"], found.get("cursor"), bool(found.get("repeated")))
