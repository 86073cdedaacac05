"""Receivers of webhooks on loopback, with manners of their own, and a clock that tests move."""

from __future__ import annotations

import asyncio
import heapq
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from nearcast.server.webhooks.attempts import AttemptStore
from nearcast.server.webhooks.quiet import CursorEvent, CursorPage

#: Longer than any of these tests takes: what must happen is waited for, and this only ends what hangs.
DEADLINE_S = 600


def status(code: int, *headers: str) -> bytes:
    """Return a response without a body."""
    return "\r\n".join((f"HTTP/1.1 {code} x", "content-length: 0", *headers, "", "")).encode()


OK = status(204)


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as it came over the socket; header names in lower case."""

    headers: dict[str, str]
    body: bytes


@dataclass(eq=False)
class HookReceiver:
    """A server that notes each request and answers as `answer` says: bytes of a response, or None to hang up."""

    answer: Callable[[int], bytes | None] = lambda _: OK
    requests: list[ReceivedRequest] = field(default_factory=list)
    n_connections: int = 0
    server_names: list[str | None] = field(default_factory=list)
    port: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ids(self) -> list[str]:
        """Return the ids of the events that came, in their order."""
        return [each.headers["webhook-id"] for each in self.requests]

    async def take(self, n: int) -> None:
        """Wait until `n` requests have come in all."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.requests) < n:
                self._came.clear()
                await self._came.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        self.n_connections += 1
        self.writers.append(writer)
        try:
            while (head := await reader.readuntil(b"\r\n\r\n")).strip():
                lines = head.decode("latin-1").split("\r\n")[1:-2]
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers["content-length"]))
                answer = self.answer(len(self.requests))
                self.requests.append(ReceivedRequest(headers, body))
                self._came.set()
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def running(self, context: ssl.SSLContext | None = None) -> AsyncIterator[HookReceiver]:
        """Listen on loopback."""
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()


class ManualClock:
    """A wall clock that stands until a test moves it."""

    def __init__(self, now: float = 1_800_000_000.0):
        self._now, self._numbers = now, count()
        self._waiting: list[tuple[float, int, asyncio.Event]] = []
        self.n_waits = 0
        self._waited = asyncio.Event()

    def now(self) -> float:
        """Return the time that was set."""
        return self._now

    async def wait(self, event: asyncio.Event, until: float | None) -> None:
        """Return when the event is set or the time has come."""
        self.n_waits += 1
        self._waited.set()
        if until is not None:
            if until <= self._now:
                return
            heapq.heappush(self._waiting, (until, next(self._numbers), event))
        await event.wait()

    def advance(self, seconds: float) -> bool:
        """Let time pass, and wake whoever waits for it; tell whether somebody does."""
        self._now += seconds
        is_due = False
        while self._waiting and self._waiting[0][0] <= self._now:
            heapq.heappop(self._waiting)[2].set()
            is_due = True
        return is_due

    async def settle(self) -> None:
        """Wait until whoever is served waits for the clock, or for events."""
        seen = self.n_waits
        async with asyncio.timeout(DEADLINE_S):
            while self.n_waits == seen:
                self._waited.clear()
                await self._waited.wait()


def page_of(events: list[CursorEvent]) -> CursorPage:
    """Return events as a page."""
    return CursorPage(events, events[-1].cursor if events else None)


class ListedEvents:
    """An outbox that is a list."""

    def __init__(self, n: int = 0):
        self.listed: list[CursorEvent] = []
        self.acked: list[str] = []
        for _ in range(n):
            self.add()

    def add(self, **data: object) -> CursorEvent:
        """Append an event, each in a step of its own."""
        step = len(self.listed) + 1
        fields = {"subscription_id": "s", "message_id": step, "change": "+", "message": {"type": "Feature"}} | data
        event = {
            "specversion": "1.0",
            "id": f"{step}:{fields['message_id']}:{fields['change']}:{fields['subscription_id']}",
            "type": "nearcast.match.v1",
            "source": f"/v1/subscriptions/{fields['subscription_id']}",
            "subject": str(fields["message_id"]),
            "sequence": f"{step}-1",
            "data": fields,
        }
        self.listed.append(CursorEvent(f"{step}-1", event))
        return self.listed[-1]

    def events(self, subscriber: str, after: str | None, limit: int) -> CursorPage:
        """Return those after a cursor; None: after the last one acknowledged."""
        after = after or (self.acked[-1] if self.acked else "0-0")
        return page_of(self.listed[int(after.partition("-")[0]) :][:limit])

    def ack(self, subscriber: str, cursor: str) -> None:
        """Note a cursor."""
        self.acked.append(cursor)


def statuses(store: AttemptStore, subscriber: str = "anna") -> list[int]:
    """Return the statuses of all attempts for a subscriber, the oldest first."""
    return [attempt.status for _, attempt in store.attempts(subscriber=subscriber, limit=1000)][::-1]
