"""HTTP POST to vetted addresses: no redirects, no proxies of the environment, bounded time, bounded answer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import httpcore2

from nearcast.server.webhooks.addresses import AddressPolicy, NameLookups, Resolver, UnsafeAddress
from nearcast.server.webhooks.connections import OpenConnections
from nearcast.server.webhooks.lanes import ConnectionLanes, Lane

SocketOption: TypeAlias = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]

#: Bytes of an answer that are read; more of it, and the connection is closed.
_MOST_ANSWER_BYTES = 16 << 10
#: URLs that are remembered as they were parsed.
_PARSED_URLS = 4096


@dataclass(frozen=True)
class HookResponse:
    """What a receiver answered: the status and headers by lower-case name. Status 0: no answer, `error` says why."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


class VettedBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections to the addresses of a name, after all of them were vetted."""

    def __init__(
        self,
        policy: AddressPolicy,
        resolver: Resolver,
        sockets: httpcore2.AsyncNetworkBackend | None = None,
    ):
        self._policy, self._resolver = policy, resolver
        self._sockets = sockets or httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first vetted address that answers. TLS, which comes after, still checks the name."""
        addresses = self._policy.vetted(host, await self._resolver(host, port))
        for address in addresses[:-1]:
            try:
                return await self._sockets.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._sockets.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def connect_unix_socket(self, path: str, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        """Refuse: no URL of a webhook names one."""
        raise UnsafeAddress(f"webhooks do not go to the socket {path}", field="url")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._sockets.sleep(seconds)


class HookTransport:
    """Connections for webhooks, which are kept open for a while, each to an address that was vetted."""

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: Resolver | None = None,
        sockets: httpcore2.AsyncNetworkBackend | None = None,
        ssl_context: ssl.SSLContext | None = None,
        timeout_s: float = 15.0,
        most_connections: int = 512,
    ):
        self._policy, self._timeout_s = policy, timeout_s
        self._lanes = ConnectionLanes(most_connections)
        self._lookups = NameLookups(self._lanes.n_connections)
        #: URLs that were parsed; the addresses of their names are vetted whenever a connection is made.
        self._target_of = lru_cache(_PARSED_URLS)(self._vetted_target)
        self._connections = OpenConnections(
            VettedBackend(policy, resolver or self._lookups.resolve, sockets),
            ssl_context or ssl.create_default_context(),
            self._lanes.n_connections,
        )

    def slot(self, lane: Lane) -> AbstractAsyncContextManager[None]:
        """Return the right to one connection, to be held around a `post`, so that the pool is never full."""
        return self._lanes.slot(lane)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> HookResponse:
        """Send a request; what goes wrong on the way is in the response, nothing is raised for it."""
        timeout = dict.fromkeys(("connect", "read", "write"), self._timeout_s)
        try:
            target, host = self._target_of(url)
            given = {"host": host, "content-length": str(len(body)), **headers}
            request = httpcore2.Request(
                "POST", target, headers=[*given.items()], content=body, extensions={"timeout": timeout}
            )
            # These limits hold for each read; one who answers byte by byte is stopped by the whole.
            async with asyncio.timeout(2 * self._timeout_s), self._connections.response(request) as response:
                await _read_some(response)
                return HookResponse(response.status, _lower(response.headers))
        except UnsafeAddress as error:
            return HookResponse(0, error=str(error))
        except (httpcore2.TimeoutException, TimeoutError):
            return HookResponse(0, error="no answer in time")
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
            return HookResponse(0, error=f"{type(error).__name__}: {error}"[:300])

    def _vetted_target(self, url: str) -> tuple[httpcore2.URL, str]:
        """Return a URL that may be called as it is connected to, and its host as a header names it."""
        parsed = self._policy.check_url(url)
        target = httpcore2.URL(scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path)
        return target, parsed.netloc.decode("ascii")

    async def close(self) -> None:
        """Close all connections."""
        self._lookups.close()
        await self._connections.close()


async def _read_some(response: httpcore2.Response) -> None:
    """Read a short answer to its end, so that the connection can be used again; of a long one, only the beginning."""
    n_bytes = 0
    async for piece in response.aiter_stream():
        n_bytes += len(piece)
        if n_bytes > _MOST_ANSWER_BYTES:
            return


def _lower(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
