"""The app factory: routes, handlers of errors, metrics of requests, and the life of the tenants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute

from nearcast.errors import NearcastError
from nearcast.server import backups, deliveries, explaining, subscribers, subscriptions, token_routes
from nearcast.server.access import Access
from nearcast.server.admin_stream import get_admin_stream
from nearcast.server.events import get_events, post_ack
from nearcast.server.free_memory import FreeMemory
from nearcast.server.health import healthz, readyz
from nearcast.server.hot_routes import ServerApp
from nearcast.server.locations import post_locations, put_location
from nearcast.server.map_view import get_map
from nearcast.server.messages import find_message, get_message, post_messages
from nearcast.server.metrics import metrics
from nearcast.server.openapi import describe
from nearcast.server.page_files import get_page
from nearcast.server.parameters import Endpoint, with_known_parameters
from nearcast.server.problems import Problem, answer_of, at, of_http_error, pointer_to
from nearcast.server.request_watch import RequestWatch
from nearcast.server.settings import Settings
from nearcast.server.sse import get_stream
from nearcast.server.subscription_changes import end_subscription
from nearcast.server.tenants import Tenant, Tenants
from nearcast.server.tokens import TokenStore
from nearcast.server.ws import subscriber_socket


def create_app(settings: Settings) -> FastAPI:
    """Return the server as an ASGI application; its tenants are opened when it starts."""
    options: dict[str, Any] = {"docs_url": None, "redoc_url": None, "redirect_slashes": False}
    app = ServerApp(_HOT, title="nearcast", version="1", lifespan=_life, **options)
    app.state.settings, app.state.failure = settings, None
    _add_plain_routes(app)  # first: the others are asked in vain for each request of these
    for module in (subscriptions, subscribers, deliveries, backups, explaining, token_routes):
        app.include_router(module.router)
    _add_handlers(app)
    app.add_middleware(RequestWatch)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]  # as FastAPI says to
    return app


#: Routes that are plain Starlette: no parameters are read by pydantic, and answers are bytes.
_PLAIN: dict[tuple[str, str], Endpoint] = {
    (method, path): with_known_parameters(endpoint, method, path)
    for method, path, endpoint in (
        ("POST", "/v1/messages", post_messages),
        ("GET", "/v1/messages", find_message),
        ("GET", "/v1/messages/{id:any}", get_message),
        ("POST", "/v1/locations", post_locations),
        ("PUT", "/v1/subscribers/{id}/location", put_location),
        ("GET", "/v1/subscribers/{id}/events", get_events),
        ("POST", "/v1/subscribers/{id}/ack", post_ack),
        ("GET", "/v1/subscribers/{id}/stream", get_stream),
        ("GET", "/v1/stream", get_admin_stream),
        ("GET", "/v1/map", get_map),
    )
}
#: Those of them that answer requests of which there may be thousands a second, or thousands at a time.
_HOT = {
    each: _PLAIN[each]
    for each in (
        ("POST", "/v1/messages"),
        ("POST", "/v1/locations"),
        ("GET", "/v1/subscribers/{id}/events"),
        ("POST", "/v1/subscribers/{id}/ack"),
        ("GET", "/v1/subscribers/{id}/stream"),
    )
}


def _add_plain_routes(app: FastAPI) -> None:
    """Add the plain routes, and those of who watches the server: these may be asked with whatever parameters."""
    for (method, path), endpoint in _PLAIN.items():
        app.add_route(path, endpoint, [method])
    app.router.routes.append(WebSocketRoute("/v1/subscribers/{id}/ws", subscriber_socket))
    app.add_route("/healthz", healthz, ["GET"])
    app.add_route("/", get_page, ["GET"], include_in_schema=False)
    app.add_route("/page/{name:path}", get_page, ["GET"], include_in_schema=False)
    app.add_route("/readyz", readyz, ["GET"])
    app.add_route("/metrics", metrics, ["GET"])


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    settings: Settings = app.state.settings
    tokens = TokenStore(Path(settings.server.data) / "tokens.db")
    app.state.tenants = tenants = Tenants(settings, tokens)
    app.state.access = Access(settings, tokens, tenants)
    tenants.on_open = _end_after_last_events
    app.state.stopped = asyncio.get_running_loop().create_future()
    releases = asyncio.create_task(FreeMemory().run())
    try:
        try:
            await tenants.start()
        except NearcastError as error:  # whoever runs the server stops it, and says why in one line
            app.state.failure = error
        yield
    finally:
        releases.cancel()
        await tenants.close()
        tokens.close()


def _end_after_last_events(tenant: Tenant) -> None:
    """Let subscriptions with `max_events` end when they had all of them."""
    ends: set[asyncio.Task[None]] = set()

    def end(subscription_id: str) -> None:
        task = asyncio.get_running_loop().create_task(end_subscription(tenant, subscription_id))
        ends.add(task)  # the loop alone would forget it
        task.add_done_callback(ends.discard)

    tenant.on_last_event = end
    for subscription_id in tenant.limits.ended():  # a crash may have come before the end
        end(subscription_id)


def _add_handlers(app: FastAPI) -> None:
    async def refused(request: Request, error: Exception) -> Response:
        return answer_of(request, error)

    async def of_framework(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return of_http_error(error.status_code, str(error.detail), error.headers).response(request.url.path)

    async def bad_parameter(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        found = [at(_where(each["loc"]), f"{each['loc'][-1]}: {each['msg']}") for each in error.errors()]
        return Problem(422, "invalid-parameter", found[0]["message"], found).response(request.url.path)

    async def gone(_: Request, __: Exception) -> Response:
        return Response(status_code=400)  # nobody reads it: half a body came, and then nothing

    for kind in (Problem, NearcastError):
        app.add_exception_handler(kind, refused)
    app.add_exception_handler(HTTPException, of_framework)
    app.add_exception_handler(RequestValidationError, bad_parameter)
    app.add_exception_handler(ClientDisconnect, gone)


def _where(location: tuple[Any, ...]) -> str:
    """Return where a parameter is: `?limit` in the query, else a pointer."""
    return f"?{location[-1]}" if location and location[0] == "query" else pointer_to(*location[1:])
