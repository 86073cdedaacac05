"""Server-sent events: a subscriber's events as a stream that resumes by `Last-Event-ID` and queues at most a page.

A client that does not read for `stall_seconds` is told so, `event: close` with the reason `ConsumerTooSlow`, and the
stream ends; it resumes from the last id it has seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from nearcast.errors import NearcastError
from nearcast.server.events import subscriber_caller
from nearcast.server.feeds import EncodedEvent, EventPage, encoded_gap
from nearcast.server.metrics import TenantMetrics
from nearcast.server.problems import Problem
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


class TooSlow(Exception):
    """A client has not read what it was sent in time."""


class Disconnected(Exception):
    """A client has gone."""


def written(event: EncodedEvent) -> bytes:
    """Return an event in the form of the stream."""
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (event.cursor.encode(), event.kind.encode(), event.data)


def close_event(reason: str) -> bytes:
    """Return the last event of a stream that the server ends."""
    return b'event: close\ndata: {"reason":"%s"}\n\n' % reason.encode()


class SseConnection:
    """The open answer of a stream: writes chunks, each in time, and notices when the client goes."""

    def __init__(self, receive: Receive, send: Send, stall_seconds: float):
        self._receive, self._send, self._stall = receive, send, stall_seconds
        self.gone: asyncio.Future[None] = asyncio.ensure_future(self._disconnected())

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
        message = {"type": "http.response.body", "body": data, "more_body": not is_last}
        try:
            async with asyncio.timeout(self._stall * (LAST_STALLS if is_last else 1)):
                await self._send(message)
        except TimeoutError:
            raise TooSlow from None
        except OSError:
            raise Disconnected from None

    async def end(self, reason: str | None) -> None:
        """End the answer, where given with the reason as its last event."""
        with suppress(TooSlow, Disconnected):
            await self.write(b"" if reason is None else close_event(reason), is_last=True)
        self.gone.cancel()


class SseResponse(Response):
    """An answer that runs a stream until it ends, its client goes, or the server stops."""

    def __init__(self, run: Callable[[SseConnection], Awaitable[None]], stall_seconds: float, metrics: TenantMetrics):
        super().__init__()
        self._run, self._stall, self._metrics = run, stall_seconds, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the stream."""
        connection = SseConnection(receive, send, self._stall)
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
    settings = request.app.state.settings
    cursor = request.headers.get("last-event-id") or request.query_params.get("cursor") or None
    first = await caller.tenant.feeds.page(subscriber, cursor, STREAM_PAGE)  # a bad cursor is a problem, not a stream
    stream = EventStream(caller.tenant, subscriber, first, request.app.state.stopped)
    return SseResponse(stream.run, settings.limits.stall_seconds, caller.tenant.metrics)


class EventStream:
    """The events of one subscriber, page by page."""

    def __init__(self, tenant: Tenant, subscriber: str, page: EventPage, stopped: asyncio.Future[None]):
        self._tenant, self._subscriber, self._stopped = tenant, subscriber, stopped
        self._after, self._first = page.begin, page

    async def run(self, connection: SseConnection) -> None:
        """Write events until the client goes or the server stops."""
        self._tenant.n_streams += 1
        try:
            await self._write(connection, self._first)
            while not self._stopped.done():
                with self._tenant.feeds.waiting(self._subscriber) as woken:  # before looking, so that none is missed
                    page = await self._tenant.feeds.page(self._subscriber, self._after, STREAM_PAGE)
                    await self._write(connection, page)
                    if not page.is_full:
                        await self._wait(connection, woken)
        finally:
            self._tenant.n_streams -= 1

    async def _write(self, connection: SseConnection, page: EventPage) -> None:
        if page.events or page.gap:
            gap = [encoded_gap(self._subscriber, page)] if page.gap else []
            await connection.write(b"".join(map(written, [*gap, *page.events])))
            self._tenant.metrics.events.labels("sse").inc(len(page.events))
        self._after = page.cursor

    async def _wait(self, connection: SseConnection, woken: asyncio.Future[None]) -> None:
        """Wait for an event; a comment now and then keeps proxies from closing the stream."""
        wait, first = self._tenant.settings.limits.keep_alive_seconds, asyncio.FIRST_COMPLETED
        while not (await asyncio.wait([woken, connection.gone, self._stopped], timeout=wait, return_when=first))[0]:
            await connection.write(b": keep-alive\n\n")
        if connection.gone.done():
            raise Disconnected
