"""Requests to a server: for each method of a client the verb, the path and the body, and how the answer is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa

from nearcast.client.batches import RowLines, lines_of
from nearcast.client.bodies import (
    arrow_bytes,
    given_values,
    json_bytes,
    message_body,
    move_body,
    place_body,
    point_body,
    subscription_body,
    with_own,
)
from nearcast.client.events import RemotePage
from nearcast.client.problems import ServerProblem, slug_of
from nearcast.errors import InvalidInput
from nearcast.geo import Space
from nearcast.geo.shapes import shorten
from nearcast.nesting import is_encodable
from nearcast.tables.inputs import table_or_values

Answer = TypeVar("Answer")
_MOST_KEY_CHARS = 255
_LINES, _ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
#: The problem of a token that is bound to one subscriber, and asks for what is another's.
_OTHERS = "other-subscriber"


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
    #: The problem for which None is returned: what was asked for is not there.
    missing_slug: str | None = None
    #: Whether the token may end with what the call does: made again, it is refused.
    may_end_token: bool = False


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
    body = with_own(
        subscription_body(given, space), given_values(subscriber=subscriber, labels=labels, max_events=max_events)
    )
    inner = body["properties"] if body.get("type") == "Feature" else {}
    id_ = body.get("id") if inner.get("id") is None else inner["id"]
    if id_ is None:
        return ServerCall("POST", "/v1/subscriptions", _id, json_bytes(body), headers=_key(None))
    return ServerCall("PUT", _path("subscriptions", id_), _id, json_bytes(body))


def subscribe_many(given: pa.Table | Iterable[Any], space: Space, subscriber: str | None) -> ServerCall[BatchResult]:
    """Store many subscriptions as lines of JSON; those whose ids are known are replaced."""
    own = given_values(subscriber=subscriber)
    lines = lines_of(given, space, lambda each: with_own(subscription_body(each, space), own))
    return ServerCall("POST", "/v1/subscriptions", partial(_batch, lines), lines.body, _LINES, headers=_key(None))


def move(subscription_id: Any, place: Any, time: datetime | str | None, space: Space) -> ServerCall[None]:
    """Give a subscription another place."""
    item = {"id": subscription_id, **place_body(place, space), **given_values(time=time)}
    return ServerCall("POST", "/v1/locations", _moved, json_bytes([item]), headers=_key(None))


def move_many(given: pa.Table | Iterable[dict[str, Any]], space: Space) -> ServerCall[BatchResult]:
    """Give many subscriptions, or all those of subscribers, other places."""
    lines = lines_of(given, space, lambda each: move_body(each, space))
    return ServerCall("POST", "/v1/locations", partial(_batch, lines), lines.body, _LINES, headers=_key(None))


def subscriber_of(subscription_id: Any) -> ServerCall[str | None]:
    """Read whose a subscription is."""
    return ServerCall("GET", _path("subscriptions", subscription_id), lambda found: found.get("subscriber"))


def subscription(subscription_id: Any) -> ServerCall[dict[str, Any]]:
    """Read a subscription."""
    return ServerCall("GET", _path("subscriptions", subscription_id), dict)


def subscriptions(subscriber: str | None, cursor: str | None, limit: int) -> ServerCall[dict[str, Any]]:
    """Read a page of subscriptions."""
    return ServerCall(
        "GET", "/v1/subscriptions", dict, params=given_values(subscriber=subscriber, cursor=cursor, limit=limit)
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
    return ServerCall(
        "POST", "/v1/messages", _published, json_bytes(message_body(given)), "application/json", headers=_key(key)
    )


def publish_many(given: pa.Table | Iterable[Any], space: Space, key: str | None) -> ServerCall[PublishResult]:
    """Publish a table as an Arrow stream, anything else as lines of JSON."""
    values = table_or_values(given, space)
    if isinstance(values, pa.Table):
        return ServerCall("POST", "/v1/messages", _published, arrow_bytes(values), _ARROW, headers=_key(key))
    lines = lines_of(values, space, message_body)
    return ServerCall("POST", "/v1/messages", partial(_published_lines, lines), lines.body, _LINES, headers=_key(key))


def kept_message(message_id: Any) -> ServerCall[dict[str, Any] | None]:
    """Read the newest message with an id, while it is kept."""
    # Not in the path: neither "" nor ".." nor "a//b" comes through all clients and proxies as it is.
    asked = {"id": _id_text("message", message_id)}
    return ServerCall("GET", "/v1/messages", lambda found: found, params=asked, missing_slug="unknown-message")


# Subscribers


def move_subscriber(
    subscriber: str, place: Any, time: datetime | str | None, space: Space
) -> ServerCall[dict[str, Any]]:
    """Tell where a subscriber is."""
    point = point_body(place, space)
    if point is None:
        names = "lon, lat" if space.is_earth else "x, y"
        raise InvalidInput(f"place is {shorten(place)}; expected ({names})", field="place")
    body = point | given_values(time=time)
    return ServerCall("PUT", f"{_path('subscribers', subscriber)}/location", dict, json_bytes(body))


def events(subscriber: str, after: str | None, limit: int, wait_s: float) -> ServerCall[RemotePage]:
    """Read the next events of a subscriber; the server waits for the first one as long as it is told."""
    params = given_values(cursor=after, limit=limit, wait=wait_s or None)
    path = f"{_path('subscribers', subscriber)}/events"
    return ServerCall("GET", path, RemotePage.from_json, params=params, wait_s=wait_s)


def ack(subscriber: str, cursor: str) -> ServerCall[None]:
    """Tell that all events up to a cursor are done."""
    return ServerCall("POST", f"{_path('subscribers', subscriber)}/ack", _nothing, json_bytes({"cursor": str(cursor)}))


def acked(subscriber: str) -> ServerCall[str]:
    """Read up to which cursor a subscriber has acknowledged its events."""
    return ServerCall("GET", _path("subscribers", subscriber), lambda found: str(found["acked"]))


def put_subscriber(subscriber: str, settings: dict[str, Any]) -> ServerCall[dict[str, Any]]:
    """Set the sink and the rules of a subscriber."""
    return ServerCall("PUT", _path("subscribers", subscriber), dict, json_bytes(settings))


def erase(subscriber: str) -> ServerCall[None]:
    """Forget a subscriber with all that is its own."""
    return ServerCall("DELETE", _path("subscribers", subscriber), _nothing, may_end_token=True)


def stream_path(subscriber: str) -> str:
    """Return where the events of a subscriber are streamed."""
    return f"{_path('subscribers', subscriber)}/stream"


# Questions


def explain(message: Any, subscription_: Any, place: Any, space: Space) -> ServerCall[dict[str, Any]]:
    """Ask why a message reaches a subscription or not; without one, whom it reached and who nearly got it."""
    asked = (
        subscription_
        if subscription_ is None or isinstance(subscription_, (str, int))
        else subscription_body(subscription_, space)
    )
    body = {"message": message_body(message)} | given_values(
        subscription=asked, place=None if place is None else list(place)
    )
    return ServerCall("POST", "/v1/explain", dict, json_bytes(body))


def reached(message: Any) -> ServerCall[list[str]]:
    """Ask whom a message would reach."""
    return ServerCall(
        "POST", "/v1/explain", lambda found: list(found["reached"]), json_bytes({"message": message_body(message)})
    )


def nearly(message: Any) -> ServerCall[list[dict[str, Any]]]:
    """Ask who would nearly get a message."""
    return ServerCall(
        "POST", "/v1/explain", lambda found: list(found["nearly"]), json_bytes({"message": message_body(message)})
    )


def estimate(given: Any, space: Space) -> ServerCall[dict[str, Any]]:
    """Ask how many messages a day a subscription would get."""
    return ServerCall("POST", "/v1/estimate", dict, json_bytes({"subscription": subscription_body(given, space)}))


def backup(name: str) -> ServerCall[None]:
    """Have the server copy its data under a name."""
    return ServerCall("POST", "/v1/backup", _nothing, json_bytes({"name": name}), headers=_key(None))


def health() -> ServerCall[dict[str, Any]]:
    """Ask whether the server takes requests."""
    return ServerCall("GET", "/readyz", dict)


# Keys and paths


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
    text = _id_text(kind[:-1], name)
    if text.strip(".") == "":  # a path with such a part is another path
        raise InvalidInput(f"the id of a {kind[:-1]} is {name!r}; expected text", field="id")
    return f"/v1/{kind}/{quote(text, safe='')}"


def _id_text(kind: str, given: Any) -> str:
    """Return an id as text that can be sent."""
    if given is None or not is_encodable(str(given)):
        raise InvalidInput(f"the id of a {kind} is {shorten(given)}; expected text", field="id")
    return str(given)


# Answers


def _nothing(_: Any) -> None:
    return None


def _id(found: Any) -> str:
    return str(found["id"])


def _batch(lines: RowLines, found: Any) -> BatchResult:
    return BatchResult(found["accepted"], lines.all_rejected(found["rejected"]))


def _moved(found: Any) -> None:
    """Raise if the one move of a request was rejected: one not there is 404, another subscriber's is 403."""
    for row in found["rejected"]:
        slug = slug_of(row)
        status = 403 if slug == _OTHERS else 404 if row["field"] == "id" else 422
        where = {"pointer": row["pointer"], "message": row["reason"]}
        raise ServerProblem(status, "The subscription was not moved", row["reason"], [where], None, slug)


def _published(found: Any) -> PublishResult:
    return PublishResult(found["accepted"], found["rejected"], found.get("cursor"), bool(found.get("repeated")))


def _published_lines(lines: RowLines, found: Any) -> PublishResult:
    return replace(_published(found), rejected=lines.all_rejected(found["rejected"]))
