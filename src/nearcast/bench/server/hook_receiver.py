"""Endpoints of webhooks on loopback: live ones that answer 204 and are counted, and dead ones."""

from __future__ import annotations

import asyncio
import re
import socket
import time

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_LIVE, _SILENT = "/live", "/silent"


class HookReceiver:
    """A server for webhooks; `arrivals` are the times at which a live endpoint got one."""

    def __init__(self) -> None:
        self.arrivals: list[float] = []
        self._server: asyncio.Server
        self._closed = socket.socket()  # bound, but not listening: who connects is refused

    async def __aenter__(self) -> HookReceiver:
        self._closed.bind(("127.0.0.1", 0))
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=2048)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self._closed.close()

    def live_url(self) -> str:
        """Return the URL of a live endpoint."""
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{_LIVE}"

    def dead_url(self, number: int) -> str:
        """Return the URL of a dead endpoint: every other one refuses connections, the rest never answer."""
        if number % 2:
            return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{_SILENT}"
        return f"http://127.0.0.1:{self._closed.getsockname()[1]}/"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                await reader.readexactly(int(length[1]) if length else 0)
                if head.split(b" ", 2)[1] == _SILENT.encode():
                    await reader.read()  # until the sender gives up
                    return
                self.arrivals.append(time.perf_counter())
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return  # the sender has gone, or the row is over
        finally:
            writer.close()
