"""`/v1/subscribers/{id}/ws`: events out; acknowledgements and locations in. A close has the name of its reason.

Out go CloudEvents. In come `{"ack": cursor}` and `{"location": {"lon", "lat", "time"?}}`, each answered by
`{"acked": cursor}`, `{"moved": …}` or `{"problem": …}`, which are told from events by having no `specversion`. Each
counts as a request of its token.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from nearcast.errors import FutureCursor, HubStopped, NearcastError
from nearcast.server.access import Access, Caller
from nearcast.server.bodies import decoded
from nearcast.server.events import subscriber_caller
from nearcast.server.feeds import EventFollower, EventPage
from nearcast.server.locations import moved
from nearcast.server.parameters import check_parameters
from nearcast.server.problems import Problem, problem_of
from nearcast.server.sse import LAST_STALLS, STREAM_PAGE, check_streams
from nearcast.server.stalls import TooSlow

#: Codes of closes that the server makes: policy, going away.
_POLICY, _GOING_AWAY = 1008, 1001
#: A socket that waits for events is left alone for so long at a time.
_LOOK_S = 3600.0


class SocketClose(Exception):
    """A socket is to be closed by the server."""

    def __init__(self, code: int, reason: str):
        super().__init__(reason)
        self.code, self.reason = code, reason


async def subscriber_socket(socket: WebSocket) -> None:
    """Hand the events of a subscriber over a WebSocket, and take what the client says."""
    try:
        check_parameters(socket, ("cursor",))
        caller, subscriber = await subscriber_caller(socket, "subscribe")
        check_streams(caller.tenant)
    except Problem as problem:
        await socket.send_denial_response(problem.response(socket.url.path))
        return
    await socket.accept()
    caller.tenant.metrics.clients.labels("ws").inc()
    caller.tenant.n_streams += 1
    try:
        await EventSocket(socket, caller, subscriber).run()
    finally:
        caller.tenant.n_streams -= 1
        caller.tenant.metrics.clients.labels("ws").dec()


class EventSocket:
    """An open WebSocket of one subscriber."""

    def __init__(self, socket: WebSocket, caller: Caller, subscriber: str):
        self._socket, self._caller, self._subscriber = socket, caller, subscriber
        self._tenant = caller.tenant
        self._access: Access = socket.app.state.access
        self._stopped: asyncio.Future[None] = socket.app.state.stopped
        self._sending = asyncio.Lock()

    async def run(self) -> None:
        """Send and receive until one of them ends, and close by name."""
        tasks = [asyncio.ensure_future(self._send_events()), asyncio.ensure_future(self._receive())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(found, SocketClose):
                await self._close(found)
            elif isinstance(found, Exception) and not isinstance(found, WebSocketDisconnect):
                await self._close(SocketClose(1011, type(found).__name__))

    async def _close(self, close: SocketClose) -> None:
        self._tenant.metrics.closed.labels(close.reason).inc()
        try:
            async with asyncio.timeout(self._stall * LAST_STALLS):
                await self._socket.close(close.code, close.reason)
        except (TimeoutError, RuntimeError, OSError):  # it does not read, or has gone
            return

    @property
    def _stall(self) -> float:
        return self._tenant.settings.limits.stall_seconds

    async def _send(self, data: bytes) -> None:
        async with self._sending:
            try:
                await self._tenant.stalls.limited(self._socket.send_text(data.decode()), self._stall)
            except TooSlow:
                raise SocketClose(_POLICY, "ConsumerTooSlow") from None

    async def _send_events(self) -> None:
        """Send events, page by page; a cursor of the future closes by name."""
        after = self._socket.query_params.get("cursor") or None
        sent = self._tenant.metrics.events.labels("ws")
        with self._tenant.feeds.following(self._subscriber, after, STREAM_PAGE, _LOOK_S) as follower:
            self._stopped.add_done_callback(follower.interrupt)
            try:
                while not self._stopped.done():
                    page = await self._next_page(follower)
                    for event in () if page is None else page.with_gap(self._subscriber):
                        await self._send(event.data)
                    sent.inc(0 if page is None else len(page.events))
            finally:
                self._stopped.remove_done_callback(follower.interrupt)
        raise SocketClose(_GOING_AWAY, "ServerStopping")

    async def _next_page(self, follower: EventFollower) -> EventPage | None:
        try:
            return await follower.next()
        except HubStopped:
            raise SocketClose(_GOING_AWAY, "HubStopped") from None
        except NearcastError as error:
            name = "FutureCursor" if isinstance(error, FutureCursor) else "InvalidCursor"
            raise SocketClose(_POLICY, name) from None

    async def _receive(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1000))
            data = message.get("bytes") or (message.get("text") or "").encode("utf-8", "replace")
            try:
                self._access.take(self._caller.token)
                answer = await self._answer(decoded(data))
            except Problem as problem:
                answer = {"problem": problem.to_json(self._socket.url.path)}
            except NearcastError as error:
                answer = {"problem": problem_of(error).to_json(self._socket.url.path)}
            await self._send(msgspec.json.encode(answer))

    async def _answer(self, given: Any) -> dict[str, Any]:
        """Do what a message of the client asks for."""
        if isinstance(given, dict) and isinstance(given.get("ack"), str):
            await self._tenant.call(self._tenant.hub.ack, self._subscriber, given["ack"])
            return {"acked": given["ack"]}
        if isinstance(given, dict) and isinstance(given.get("location"), dict):
            self._caller.check_scope("location")
            self._tenant.check_disk()
            return await moved(self._tenant, self._subscriber, given["location"])
        raise Problem(422, "invalid-content", 'expected {"ack": cursor} or {"location": {"lon", "lat"}}')
