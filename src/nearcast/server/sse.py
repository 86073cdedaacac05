"""Server-sent events: a subscriber's events as a stream that resumes by `Last-Event-ID` and queues at most a page.

A client that does not read for `stall_seconds` is told so, `event: close` with the reason `ConsumerTooSlow`, and the
stream ends; it resumes from the last id it has seen. Events are written when they are read: the task of a stream is
woken only for a client that must be waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from nearcast.errors import NearcastError
from nearcast.server.begun_calls import BegunCall, begun
from nearcast.server.encoded_events import EncodedEvent
from nearcast.server.events import subscriber_caller
from nearcast.server.feeds import EventFollower, EventPage
from nearcast.server.problems import Problem
from nearcast.server.stalls import StallWatch, TooSlow
from nearcast.server.tenants import Tenant

#: Events of one page of a stream: what one client may hold in memory.
STREAM_PAGE = 100
#: A client that is too slow has this many times as long to read that it was.
LAST_STALLS = 10
_RETRY_MS = 2000
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class Disconnected(Exception):
    """A client has gone."""


def close_event(reason: str) -> bytes:
    """Return the last event of a stream that the server ends."""
    return b'event: close\ndata: {"reason":"%s"}\n\n' % reason.encode()


class SseConnection:
    """The open answer of a stream: writes chunks, each in time, and notices when the client goes."""

    def __init__(self, receive: Receive, send: Send, stall_seconds: float, stalls: StallWatch):
        self._receive, self._send, self._stall, self._stalls = receive, send, stall_seconds, stalls
        self.gone: asyncio.Future[None] = asyncio.ensure_future(self._disconnected())
        #: A chunk that the client did not take at once.
        self._begun: BegunCall | None = None

    async def _disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            continue

    async def begin(self) -> None:
        """Send the head of the answer."""
        await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self.write(b"retry: %d\n\n" % _RETRY_MS)

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        """Send a chunk; raise if the client has gone, or does not read."""
        if self.gone.done():
            raise Disconnected
        await self._limited(self._send(_chunk(data, is_last=is_last)), self._stall * (LAST_STALLS if is_last else 1))

    def write_now(self, data: bytes) -> bool:
        """Send a chunk if no other is under way; tell whether the client took it. Else `finish` is to be awaited."""
        if self.gone.done():
            raise Disconnected
        try:
            self._begun = begun(self._send(_chunk(data)))
        except OSError:
            raise Disconnected from None
        return self._begun is None

    async def finish(self) -> bool:
        """Wait until the client has taken the last chunk; tell whether there was something to wait for."""
        writing, self._begun = self._begun, None
        if writing is not None:
            await self._limited(writing, self._stall)
        return writing is not None

    async def _limited(self, writing: Awaitable[None], seconds: float) -> None:
        try:
            await self._stalls.limited(writing, seconds)
        except OSError:
            raise Disconnected from None

    async def end(self, reason: str | None) -> None:
        """End the answer, where given with the reason as its last event."""
        with suppress(TooSlow, Disconnected):
            await self.write(b"" if reason is None else close_event(reason), is_last=True)
        self.gone.cancel()


def _chunk(data: bytes, *, is_last: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": not is_last}


class SseResponse(Response):
    """An answer that runs a stream until it ends, its client goes, or the server stops."""

    def __init__(self, run: Callable[[SseConnection], Awaitable[None]], tenant: Tenant):
        super().__init__()
        self._run, self._tenant, self._metrics = run, tenant, tenant.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the stream."""
        connection = SseConnection(receive, send, self._tenant.settings.limits.stall_seconds, self._tenant.stalls)
        reason: str | None = None
        self._metrics.clients.labels("sse").inc()
        try:
            await connection.begin()
            await self._run(connection)
        except TooSlow:
            reason = "ConsumerTooSlow"
            self._metrics.closed.labels(reason).inc()
        except Disconnected:
            connection.gone.cancel()
            return
        except NearcastError as error:  # the hub stopped
            reason = type(error).__name__
            self._metrics.closed.labels(reason).inc()
        finally:
            self._metrics.clients.labels("sse").dec()
        await connection.end(reason)


def check_streams(tenant: Tenant) -> None:
    """Raise if the tenant has as many streams open as it may."""
    if tenant.n_streams >= tenant.settings.limits.streams:
        raise Problem(429, "too-many-streams", "too many streams are open; close some", headers={"Retry-After": "10"})


async def get_stream(request: Request) -> Response:
    """Stream the events of a subscriber from a cursor on, unless given from its last acknowledgement."""
    caller, subscriber = await subscriber_caller(request, "subscribe")
    if request.method == "HEAD":
        return Response(media_type="text/event-stream")
    check_streams(caller.tenant)
    asked = request.query_params
    cursor = request.headers.get("last-event-id") or asked.get("lastEventId") or asked.get("cursor") or None
    first = await caller.tenant.feeds.page(subscriber, cursor, STREAM_PAGE)  # a bad cursor is a problem, not a stream
    stream = EventStream(caller.tenant, subscriber, first, request.app.state.stopped)
    return SseResponse(stream.run, caller.tenant)


class EventStream:
    """The events of one subscriber, page by page."""

    def __init__(self, tenant: Tenant, subscriber: str, page: EventPage, stopped: asyncio.Future[None]):
        self._tenant, self._subscriber, self._stopped, self._first = tenant, subscriber, stopped, page
        self._sent = tenant.metrics.events.labels("sse")

    async def run(self, connection: SseConnection) -> None:
        """Write events until the client goes or the server stops."""
        self._tenant.n_streams += 1
        try:
            first = self._first
            if first.events or first.gap:
                await self._write(connection, first)
            wait, feeds = self._tenant.settings.limits.keep_alive_seconds, self._tenant.feeds

            def write(page: EventPage) -> bool:
                return self._write_now(connection, page)

            with feeds.following(self._subscriber, first.read_to, STREAM_PAGE, wait, write) as follower:
                connection.gone.add_done_callback(follower.interrupt)
                self._stopped.add_done_callback(follower.interrupt)
                try:
                    await self._follow(connection, follower)
                finally:
                    connection.gone.remove_done_callback(follower.interrupt)
                    self._stopped.remove_done_callback(follower.interrupt)
        finally:
            self._tenant.n_streams -= 1

    async def _follow(self, connection: SseConnection, follower: EventFollower) -> None:
        """Have events written as they come; a comment now and then keeps proxies from closing the stream."""
        while not self._stopped.done():
            if connection.gone.done():  # while something was written, say
                raise Disconnected
            await follower.next()
            if not await connection.finish() and not self._stopped.done() and not connection.gone.done():
                await connection.write(b": keep-alive\n\n")

    async def _write(self, connection: SseConnection, page: EventPage) -> None:
        await connection.write(self._counted(page))

    def _write_now(self, connection: SseConnection, page: EventPage) -> bool:
        """Write a page that was just read."""
        return connection.write_now(self._counted(page))

    def _counted(self, page: EventPage) -> bytes:
        """Return a page as it is sent, and count its events."""
        self._sent.inc(len(page.events))
        return b"".join(map(EncodedEvent.sse, page.with_gap(self._subscriber)))
