"""A plain HTTP/1.1 client on asyncio, one request at a time on a connection that stays open, and streams of events."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from nearcast.errors import NearcastError

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_SUBJECT = re.compile(rb'"subject":"(\d+)"')
LINES, ARROW, JSON = "application/x-ndjson", "application/vnd.apache.arrow.stream", "application/json"


class HttpClient:
    """A connection that stays open."""

    def __init__(self, port: int):
        self._port = port
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> HttpClient:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def call(self, method: str, path: str, body: bytes = b"", content_type: str = JSON) -> Any:
        """Make a request; return its answer, decoded, and raise for one that is no 2xx."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(answer)
        content = await self._reader.readexactly(int(length[1])) if length else b""
        if not answer.startswith(b"HTTP/1.1 2"):
            raise NearcastError(f"{method} {path}: {answer.splitlines()[0].decode()} {content[:300].decode()}")
        return msgspec.json.decode(content) if content else None

    async def publish(self, body: bytes, content_type: str = JSON) -> str:
        """Publish messages, none of which may be rejected; return the cursor after them."""
        answer = await self.call("POST", "/v1/messages", body, content_type)
        if answer["rejected"]:
            raise NearcastError(f"the server rejected {answer['rejected'][0]}")
        return str(answer["cursor"])


#: Called with the number of a message and when its event was read.
OnEvent = Callable[[int, float], None]


class SseReader(asyncio.Protocol):
    """An open stream of a subscriber from a cursor on: tells of each event, by the number of its message."""

    def __init__(self, port: int, subscriber: str, after: str, on_event: OnEvent):
        self._request = _asked(port, subscriber, after)
        self._on_event, self._rest = on_event, b""
        self.transport: Any = None
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the stream."""
        self.transport = transport
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Take what was sent; events that are not whole wait for the rest."""
        now = time.perf_counter()
        if not self.opened.done() and b"retry:" in self._rest + data:
            self.opened.set_result(None)
        whole, end, rest = (self._rest + data).rpartition(b"\n\n")
        self._rest = rest if end else self._rest + data
        for subject in _SUBJECT.findall(whole):
            self._on_event(int(subject), now)

    def connection_lost(self, error: Exception | None) -> None:
        """Tell whoever waits for the stream that it will not come."""
        if not self.opened.done():
            said = self._rest[:300].decode(errors="replace")
            self.opened.set_exception(NearcastError(f"a stream was refused: {error or said}"))


def _asked(port: int, subscriber: str, after: str) -> bytes:
    path = f"/v1/subscribers/{subscriber}/stream"
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nLast-Event-ID: {after}\r\n\r\n".encode()


async def open_streams(port: int, subscribers: list[str], after: str, on_event: OnEvent) -> list[SseReader]:
    """Open the streams of subscribers, some at a time."""
    loop, found = asyncio.get_running_loop(), []
    for first in range(0, len(subscribers), 200):
        made = [SseReader(port, name, after, on_event) for name in subscribers[first : first + 200]]
        for each in made:
            await loop.create_connection(partial(_itself, each), "127.0.0.1", port)
        await asyncio.gather(*(each.opened for each in made))
        found += made
    return found


def _itself(stream: SseReader) -> SseReader:
    return stream


async def open_stalled(port: int, subscriber: str, after: str) -> socket.socket:
    """Open a stream that is never read, and of which the system takes little."""
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stalled.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(stalled, ("127.0.0.1", port))
    await loop.sock_sendall(stalled, _asked(port, subscriber, after))
    await loop.sock_recv(stalled, 12)
    return stalled
