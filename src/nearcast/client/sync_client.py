"""`Client`: a hub on a server, call by call."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import httpx2

from nearcast.client import calls
from nearcast.client.calls import BatchResult, PublishResult, ServerCall
from nearcast.client.connection import OpenStream, checked_space, client_options, is_done, read_answer, request_options
from nearcast.client.events import RemoteEvent, RemotePage
from nearcast.client.problems import ServerProblem, ServerUnavailable, unavailable
from nearcast.client.retries import Retrying
from nearcast.geo import Space

if TYPE_CHECKING:
    from typing import Self

    import pyarrow as pa

Answer = TypeVar("Answer")


class Client:
    """A connection to `nearcast serve`; its methods are those of a hub.

    A call that fails because the server is away or busy is made again for up to `retry_for` seconds. None of them
    does anything twice: messages go under a key, made up unless one is given. `timeout` bounds one request. `space` is
    that of the server's hub: on a plane, places are (x, y).

        with Client("http://127.0.0.1:8080") as client:
            tea = {"id": "tea", "query": "tea", "lon": 13.4, "lat": 52.5, "radius_m": 800}
            client.subscribe(tea, subscriber="anna")
            client.publish({"id": 1, "text": "tea", "lon": 13.4, "lat": 52.5})
            for event in client.stream("anna"):
                print(event.type, event.data["message_id"])
                client.ack("anna", event.cursor)
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        space: str | Space = "earth",
        timeout: float = 30.0,
        retry_for: float = 60.0,
    ):
        self._space = checked_space(space)
        self._http = httpx2.Client(**client_options(url, token, timeout))
        self._timeout, self._retry_for = timeout, retry_for

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # Subscriptions

    def subscribe(
        self,
        subscription: Any,
        *,
        subscriber: str | None = None,
        labels: dict[str, str] | None = None,
        max_events: int | None = None,
    ) -> str:
        """Store a subscription and return its id; a known id is replaced. Its events are those of `subscriber`."""
        return self._run(calls.subscribe(subscription, self._space, subscriber, labels, max_events))

    def subscribe_many(self, subscriptions: pa.Table | Iterable[Any], *, subscriber: str | None = None) -> BatchResult:
        """Store subscriptions; known ids are replaced, and rows that cannot be used are in `rejected`, with reasons."""
        return self._run(calls.subscribe_many(subscriptions, self._space, subscriber))

    def move(self, subscription_id: str, place: Any, time: datetime | str | None = None) -> None:
        """Give a subscription another place: a region, or a point that carries its region along."""
        self._run(calls.move(subscription_id, place, time, self._space))

    def move_many(self, moves: pa.Table | Iterable[dict[str, Any]]) -> BatchResult:
        """Give subscriptions (`id`), or all those of a `subscriber`, other places, row by row in order."""
        return self._run(calls.move_many(moves, self._space))

    def get(self, subscription_id: str) -> dict[str, Any]:
        """Return a subscription with what the server knows of it."""
        return self._run(calls.subscription(subscription_id))

    def subscriber_of(self, subscription_id: str) -> str | None:
        """Return whose a subscription is, None if it is nobody's."""
        return self._run(calls.subscriber_of(subscription_id))

    def subscriptions(self, subscriber: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield all subscriptions, or those of a subscriber."""
        cursor: str | None = None
        while True:
            page = self._run(calls.subscriptions(subscriber, cursor, 1000))
            yield from page["items"]
            cursor = page.get("next")
            if cursor is None:
                return

    def unsubscribe(self, subscription_id: str) -> None:
        """Forget a subscription."""
        self._run(calls.unsubscribe(subscription_id))

    def pause(self, subscription_id: str) -> None:
        """Take a subscription out of matching until `resume`."""
        self._run(calls.set_paused(subscription_id, is_paused=True))

    def resume(self, subscription_id: str) -> None:
        """Bring a paused subscription back, as if it were new."""
        self._run(calls.set_paused(subscription_id, is_paused=False))

    def current(self, subscription_id: str) -> list[dict[str, Any]]:
        """Return what is relevant to a subscription now."""
        return self._run(calls.current(subscription_id))

    # Messages

    def publish(self, message: Any, *, key: str | None = None) -> PublishResult:
        """Publish a message; under a `key` that was used for it before, nothing is published again."""
        return self._run(calls.publish(message, key))

    def publish_many(self, messages: pa.Table | Iterable[Any], *, key: str | None = None) -> PublishResult:
        """Publish messages in order; rows that cannot be used are in `rejected`, with reasons."""
        return self._run(calls.publish_many(messages, self._space, key))

    def kept_message(self, message_id: str | int) -> dict[str, Any] | None:
        """Return the newest message with an id as a Feature, None if none is kept."""
        return self._run(calls.kept_message(message_id))

    # Subscribers

    def move_subscriber(self, subscriber: str, place: Any, time: datetime | str | None = None) -> dict[str, Any]:
        """Tell where a subscriber is: all its subscriptions that can follow a point move there."""
        return self._run(calls.move_subscriber(subscriber, place, time, self._space))

    def put_subscriber(self, subscriber: str, **settings: Any) -> dict[str, Any]:
        """Set a subscriber's `sink`, `cooldown`, `digest`, `once_per_message`, `debounce`; return it as it is now."""
        return self._run(calls.put_subscriber(subscriber, settings))

    def erase(self, subscriber: str) -> None:
        """Forget a subscriber, its subscriptions and its events."""
        self._run(calls.erase(subscriber))

    def events(self, subscriber: str, *, after: str | None = None, limit: int = 1000, wait: float = 0.0) -> RemotePage:
        """Return the next events after a cursor, or after the last one acknowledged; wait for the first, in seconds."""
        return self._run(calls.events(subscriber, after, limit, wait))

    def ack(self, subscriber: str, cursor: str) -> None:
        """Tell that all events up to a cursor are done."""
        self._run(calls.ack(subscriber, cursor))

    def acked(self, subscriber: str) -> str:
        """Return up to which cursor a subscriber has acknowledged its events."""
        return self._run(calls.acked(subscriber))

    def stream(self, subscriber: str, *, after: str | None = None) -> Iterator[RemoteEvent]:
        """Yield events as they come, without end; a connection that breaks is opened again after the last event."""
        retrying = Retrying(self._retry_for)
        while True:
            opened = OpenStream(subscriber, after, self._timeout)
            try:
                for event in self._stream_once(opened):
                    yield event
                    after = event.cursor
                raise opened.ended()
            except (ServerProblem, ServerUnavailable) as error:
                if opened.has_lasted:
                    retrying = Retrying(self._retry_for)
                time.sleep(retrying.pause_s(error))

    def _stream_once(self, opened: OpenStream) -> Iterator[RemoteEvent]:
        """Yield the events of one connection; it ends when the server ends it."""
        try:
            with self._http.stream(**opened.request) as response:
                if not response.is_success:
                    response.read()
                opened.check(response)
                for chunk in response.iter_bytes():
                    yield from opened.events(chunk)
        except httpx2.TransportError as error:
            raise unavailable(str(self._http.base_url), error) from None

    # Questions

    def explain(self, message: Any, subscription: Any = None, *, place: Any = None) -> dict[str, Any]:
        """Return why a message reaches a subscription or not; without one, whom it reaches, and who nearly got it."""
        return self._run(calls.explain(message, subscription, place, self._space))

    def reached(self, message: Any) -> list[str]:
        """Return the subscriptions that a message would reach, at most 1,000."""
        return self._run(calls.reached(message))

    def nearly(self, message: Any) -> list[dict[str, Any]]:
        """Return up to 20 subscriptions that one thing keeps from a message, the nearest first, with explanations."""
        return self._run(calls.nearly(message))

    def estimate(self, subscription: Any) -> dict[str, Any]:
        """Return about how many messages a day a subscription would get, judged by recent ones."""
        return self._run(calls.estimate(subscription, self._space))

    def backup(self, name: str) -> None:
        """Have the server copy the tenant into `backups/NAME` of its data folder, while it goes on."""
        self._run(calls.backup(name))

    def health(self) -> dict[str, Any]:
        """Return whether the server takes requests; raise `ServerProblem` if it does not."""
        return self._once(calls.health())

    def _run(self, call: ServerCall[Answer]) -> Answer:
        """Make a call, and again while it may pass."""
        retrying = Retrying(self._retry_for)
        while True:
            try:
                return self._once(call)
            except (ServerProblem, ServerUnavailable) as error:
                if is_done(call, error, retrying):
                    return call.read(None)
                time.sleep(retrying.pause_s(error))

    def _once(self, call: ServerCall[Answer]) -> Answer:
        try:
            response = self._http.request(call.method, call.path, **request_options(call, self._timeout))
        except httpx2.TransportError as error:
            raise unavailable(str(self._http.base_url), error) from None
        return read_answer(call, response)
