"""Requests with an object as their body, answered once under an `Idempotency-Key`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from nearcast.server.access import Caller
from nearcast.server.bodies import JSON, body_of, check_type, decoded_object


async def object_once(
    request: Request,
    caller: Caller,
    make: Callable[[dict[str, Any]], Awaitable[Response]],
    instead: Callable[[Response], Response] = lambda response: response,
) -> Response:
    """Return what `make` makes of the object that a request has as its body, once under a key."""
    check_type(request, *JSON)
    body = await body_of(request, request.app.state.settings.limits.body_bytes)

    async def read_and_make() -> Response:
        return await make(decoded_object(body))

    return await caller.tenant.answers.once(request, body, read_and_make, caller.token.id, instead)
