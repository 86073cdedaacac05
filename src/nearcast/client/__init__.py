"""Clients of `nearcast serve` with the names of a hub: `Client` waits, `AsyncClient` is for event loops.

`calls` says what each method asks of the server, `events` reads what comes back, and both clients only carry it.
"""

from nearcast.client.async_client import AsyncClient
from nearcast.client.calls import BatchResult, PublishResult
from nearcast.client.events import RemoteEvent, RemotePage
from nearcast.client.problems import ServerProblem, ServerUnavailable
from nearcast.client.sync_client import Client

__all__ = [
    "AsyncClient",
    "BatchResult",
    "Client",
    "PublishResult",
    "RemoteEvent",
    "RemotePage",
    "ServerProblem",
    "ServerUnavailable",
]
