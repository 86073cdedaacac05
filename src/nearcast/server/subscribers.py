"""`/v1/subscribers/{id}`: where a subscriber's events are sent, how quietly, and its erasure."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from nearcast.errors import InvalidInput
from nearcast.geo.shapes import shorten
from nearcast.server.bodies import object_of, only
from nearcast.server.erasure import begin_erasure, end_erasure
from nearcast.server.events import subscriber_caller
from nearcast.server.subscription_bodies import merged
from nearcast.server.tenants import Tenant
from nearcast.window import length_of

router = APIRouter(prefix="/v1/subscribers", tags=["subscribers"])
_DEFAULTS: dict[str, Any] = {
    "sink": None,
    "paused": False,
    "cooldown": None,
    "digest": None,
    "once_per_message": False,
    "debounce": None,
}
_LENGTHS = ("cooldown", "digest", "debounce")


@router.get("/{id}")
async def get_subscriber(request: Request, id: str) -> Response:  # noqa: A002, ARG001  the name in the path, for OpenAPI
    """Return the settings of a subscriber, and how far it has acknowledged its events."""
    caller, subscriber = await subscriber_caller(request, "subscribe")
    return _answer(await caller.tenant.call(_resource, caller.tenant, subscriber, _body(caller.tenant, subscriber)))


@router.put("/{id}")
async def put_subscriber(request: Request, id: str) -> Response:  # noqa: A002, ARG001  as above
    """Set the settings of a subscriber; those that are not given are as in the beginning."""
    return await _changed(request, lambda _, given: given)


@router.patch("/{id}")
async def patch_subscriber(request: Request, id: str) -> Response:  # noqa: A002, ARG001  as above
    """Change some settings of a subscriber by a merge patch."""
    return await _changed(request, merged, "application/merge-patch+json", "application/json")


async def _changed(request: Request, change: Any, *types: str) -> Response:
    caller, subscriber = await subscriber_caller(request, "subscribe")
    tenant = caller.tenant
    given = await object_of(request, request.app.state.settings.limits.body_bytes, *types)
    async with tenant.lock(subscriber):
        body = _checked(change(_body(tenant, subscriber), given), subscriber)
        text = msgspec.json.encode(body).decode()
        statement = "INSERT OR REPLACE INTO subscribers VALUES (?, ?)"
        await tenant.write(lambda connection: connection.execute(statement, (subscriber, text)) and None)
    return _answer(await tenant.call(_resource, tenant, subscriber, body))


@router.delete("/{id}", status_code=204)
async def delete_subscriber(request: Request, id: str) -> Response:  # noqa: A002, ARG001  as above
    """Erase a subscriber: its settings, subscriptions, waiting events and acknowledgements."""
    caller, subscriber = await subscriber_caller(request, "subscribe")
    tenant = caller.tenant
    async with tenant.lock(subscriber):
        await tenant.write(begin_erasure(subscriber))
        await tenant.call(tenant.hub.erase, subscriber)
        await tenant.write(end_erasure(subscriber))
    return Response(status_code=204)


def _body(tenant: Tenant, subscriber: str) -> dict[str, Any]:
    rows = tenant.db.read("SELECT body FROM subscribers WHERE id = ?", (subscriber,))
    return {**_DEFAULTS, **(msgspec.json.decode(rows[0][0]) if rows else {})}


def _resource(tenant: Tenant, subscriber: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a subscriber as the API shows it: never its secrets."""
    sink = body["sink"]
    shown = None if sink is None else {"url": sink["url"], "n_secrets": len(sink.get("secrets") or [])}
    n = len(tenant.hub.subscriptions_of(subscriber))
    return {"id": subscriber, **body, "sink": shown, "acked": str(tenant.hub.acked(subscriber)), "subscriptions": n}


def _checked(given: dict[str, Any], subscriber: str) -> dict[str, Any]:
    """Return the settings that a body gives, each of its type."""
    only(given, "id", "acked", "subscriptions", *_DEFAULTS)
    if given.get("id", subscriber) != subscriber:
        raise InvalidInput("id is not that of the path", field="id")
    found = {name: given[name] for name in _DEFAULTS if given.get(name) is not None}
    for name in ("paused", "once_per_message"):
        if not isinstance(found.get(name, False), bool):
            raise InvalidInput(f"{name} is {shorten(found[name])}; expected true or false", field=name)
    for name in _LENGTHS:
        if name in found:
            _check_length(name, found[name])
    if "sink" in found:
        _check_sink(found["sink"])
    return {**_DEFAULTS, **found}


def _check_length(name: str, value: Any) -> None:
    expected = "expected a time like 30s, 15m, 2h"
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is {shorten(value)}; {expected}", field=name)
    length_of(value, name, expected)


def _check_sink(sink: Any) -> None:
    if not isinstance(sink, dict) or not isinstance(sink.get("url"), str):
        raise InvalidInput('sink must be an object like {"url": "https://…"}, or null', field="sink")
    try:
        url = urlsplit(sink["url"])
    except ValueError:
        url = urlsplit("")
    if url.scheme != "https" or not url.hostname or len(sink["url"]) > 2000:
        raise InvalidInput("the url of sink must begin with https:// and name a host", field="sink")


def _answer(resource: Any) -> Response:
    return Response(msgspec.json.encode(resource), media_type="application/json")
