"""Serves the app by uvicorn, on one socket and in one process."""

from __future__ import annotations

import gc
import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from nearcast.allocator import use_one_allocator
from nearcast.errors import FileUnavailable, InvalidInput
from nearcast.hub import DURABLE_HEAD, Hub
from nearcast.server.app import create_app
from nearcast.server.data_folders import check_finished
from nearcast.server.http_protocol import ProblemProtocol
from nearcast.server.settings import Settings
from nearcast.server.tenants import retention_of, window_of
from nearcast.server.tokens import TokenStore
from nearcast.server.webhooks import AddressPolicy

#: So many new objects are a young generation, so many of these a middle one; the old one is left to `FreeMemory`.
_COLLECTED_AFTER = 5_000, 10, 1_000_000
#: Seconds after which a thread gives the interpreter to one that waits for it. A request goes through several threads,
#: and waits for each: with Python's 5 ms a page of events took twice as long under load.
_SWITCH_S = 0.0005


class HttpServer(uvicorn.Server):
    """A uvicorn that tells streams to end when it is asked to, so that it need not wait for their clients."""

    def __init__(self, config: uvicorn.Config, app: FastAPI):
        super().__init__(config)
        self.app = app
        self.on_ready: Callable[[], None] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the tenants and listen; stop at once if one cannot be opened."""
        await super().startup(sockets)
        if self.app.state.failure is not None:
            self.should_exit = True
        else:
            self.on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams, wait for calls under way, and close."""
        if not self.app.state.stopped.done():
            self.app.state.stopped.set_result(None)
        await super().shutdown(sockets)


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; one line says why where it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise FileUnavailable(f"cannot listen on {host}:{port} ({reason}); choose another --host or --port") from None
    return listening


def make_server(settings: Settings) -> HttpServer:
    """Return a server that is not started yet."""
    _check_data(settings)
    _check_options(settings)
    _check_tokens(settings)
    _check_overlay(settings.server.overlay)
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=ProblemProtocol,
        ws="websockets-sansio",
        ws_max_size=settings.limits.body_bytes,
        ws_ping_timeout=120.0,  # a first call may wait for the compiler
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=max(1, int(settings.server.grace_seconds)),
        backlog=4096,
    )
    return HttpServer(config, app)


def _check_data(settings: Settings) -> None:
    """Raise if the data cannot lie where they shall: before anything is made there."""
    folder = Path(settings.server.data)
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"data is {folder}, which is a file; give a folder")
    if any((folder / name).exists() for name in (DURABLE_HEAD, "hub.json")):
        raise InvalidInput(f"data is {folder}, which holds a hub of its own; give a new folder, or that of a server")
    check_finished(folder)


def _check_options(settings: Settings) -> None:
    """Raise if no hub, or no webhook, could have its options: before anything is made."""
    given = settings.hub
    options: dict[str, Any] = {"window": window_of(given.window), "lifetime": given.lifetime}
    options |= {"tell_expiry": given.tell_expiry, "max_distance": given.max_distance}
    Hub(given.space, index=given.index, **options).close()
    retention_of(settings)
    AddressPolicy.allowing(settings.webhooks.allow)


def _check_tokens(settings: Settings) -> None:
    """Raise if tokens are needed and there are none: nobody could ever call."""
    if not settings.needs_tokens:
        return
    store = TokenStore(Path(settings.server.data) / "tokens.db")
    is_empty = not store.of_tenant(None)
    store.close()
    if is_empty:
        raise InvalidInput(
            f"on {settings.server.host} every call needs a token, and there is none; make one first: "
            f"nearcast token create --data {settings.server.data} --scopes admin"
        )


def _check_overlay(file: str | None) -> None:
    """Raise if the page could not draw what it shall: better now than when somebody looks."""
    if file is None:
        return
    try:
        found = json.loads(Path(file).read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"overlay is {file}, which cannot be read as GeoJSON ({error})") from None
    if not isinstance(found, dict) or "type" not in found:
        raise InvalidInput(f"overlay is {file}, which is no GeoJSON; expected an object with a type")


def _freeze_objects() -> None:
    """Freeze all live objects (`gc.freeze`), so that later collections skip them; full ones are made now and then.

    Some 200,000 stay as long as the server runs, most of them of libraries. A full collection of these takes a tenth
    of a second, in which no request is answered, and of those of 10,000 open streams half a second. By themselves they
    would come every few seconds. What is not in a cycle is freed at once all the same.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)


def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until interrupted; `announce` gets the address when calls are answered."""
    use_one_allocator()  # before there are threads, each of which would get a heap
    sys.setswitchinterval(_SWITCH_S)
    server = make_server(settings)
    listening = bound_socket(settings.server.host, settings.server.port)
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def begin() -> None:
        _freeze_objects()
        announce(address)

    server.on_ready = begin
    server.run([listening])
    if server.app.state.failure is not None:
        raise server.app.state.failure
