"""A receiver of webhooks on loopback that refuses some events at first, so that retries can be seen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

#: The first of so many new events is refused once; few enough that the server goes on calling.
_REFUSE_EVERY = 4
_NO_CONTENT = b"HTTP/1.1 204 x\r\ncontent-length: 0\r\n\r\n"
_BROKEN = b"HTTP/1.1 500 x\r\ncontent-length: 0\r\n\r\n"


class FlakyReceiver:
    """Answers 500 to the first attempt of every fourth event and 204 to all else; knows events by `webhook-id`."""

    def __init__(self) -> None:
        self.url = ""
        self._known: set[str] = set()
        self._refused: set[str] = set()
        self.n_accepted = self.n_refused = self.n_mended = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[FlakyReceiver]:
        """Listen on a port that the system chooses."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection until it ends."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:-2]
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head)}
                await reader.readexactly(int(headers["content-length"]))
                writer.write(_NO_CONTENT if self._accepts(headers["webhook-id"]) else _BROKEN)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass  # the other side is done, or the town is
        finally:
            writer.close()

    def _accepts(self, event_id: str) -> bool:
        """Tell whether an event is taken now, and count it."""
        is_new = event_id not in self._known
        self._known.add(event_id)
        if is_new and len(self._known) % _REFUSE_EVERY == 1:
            self._refused.add(event_id)
            self.n_refused += 1
            return False
        self.n_accepted += 1
        if event_id in self._refused:
            self._refused.discard(event_id)
            self.n_mended += 1
        return True
