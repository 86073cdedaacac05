"""Connections of webhooks that are kept open, by origin: a stack for each, and all that are idle in order of age.

httpcore's own pool looks at every connection, and asks the system about it, for each request: with some hundreds of
endpoints that costs more than the request.
"""

from __future__ import annotations

import ssl
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import httpcore2

#: Scheme, host and port.
OriginKey: TypeAlias = tuple[bytes, bytes, int]
#: Seconds after which a connection that nobody used is closed.
_IDLE_S = 30.0


class OpenConnections:
    """Connections to origins, each used by one request at a time; of more than `most` the longest idle ones go."""

    def __init__(self, backend: httpcore2.AsyncNetworkBackend, ssl_context: ssl.SSLContext, most: int):
        self._backend, self._ssl_context, self._most = backend, ssl_context, most
        self._n_used = 0
        self._by_origin: dict[OriginKey, list[httpcore2.AsyncHTTPConnection]] = {}
        #: The moment since which each connection is idle, and its origin; the longest first.
        self._idle: OrderedDict[httpcore2.AsyncHTTPConnection, tuple[float, OriginKey]] = OrderedDict()

    @asynccontextmanager
    async def response(self, request: httpcore2.Request) -> AsyncIterator[httpcore2.Response]:
        """Send a request over an idle connection, or a new one, which is kept where its answer is read to the end."""
        origin, self._n_used = request.url.origin, self._n_used + 1
        key = (origin.scheme, origin.host, origin.port)
        try:
            connection = await self._taken(origin, key)
            try:
                response = await connection.handle_async_request(request)
                try:
                    yield response
                finally:
                    await response.aclose()
            finally:
                if connection.is_idle() and not connection.is_closed():
                    self._idle[connection] = (time.monotonic(), key)
                    self._by_origin.setdefault(key, []).append(connection)
                else:
                    await connection.aclose()
        finally:
            self._n_used -= 1

    async def _taken(self, origin: httpcore2.Origin, key: OriginKey) -> httpcore2.AsyncHTTPConnection:
        """Return the connection to an origin that was used last, unless its other end has closed it; else a new one."""
        await self._close_idle_since(time.monotonic() - _IDLE_S)
        while key in self._by_origin:
            connection = self._by_origin[key][-1]
            self._forget(connection)
            if not connection.has_expired():
                return connection
            await connection.aclose()
        if self._idle and len(self._idle) + self._n_used > self._most:
            await self._close_idle_since(next(iter(self._idle.values()))[0])
        return httpcore2.AsyncHTTPConnection(
            origin, self._ssl_context, keepalive_expiry=_IDLE_S, network_backend=self._backend
        )

    async def _close_idle_since(self, moment: float) -> None:
        """Close what is idle since a moment, or for longer."""
        while self._idle:
            oldest, (since, _) = next(iter(self._idle.items()))
            if since > moment:
                return
            self._forget(oldest)
            await oldest.aclose()

    def _forget(self, connection: httpcore2.AsyncHTTPConnection) -> None:
        _, key = self._idle.pop(connection)
        own = self._by_origin[key]
        own.remove(connection)
        if not own:
            del self._by_origin[key]

    async def close(self) -> None:
        """Close all that are idle; those in use are closed by their requests."""
        for connection in list(self._idle):
            self._forget(connection)
            await connection.aclose()
