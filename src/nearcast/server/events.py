"""`/v1/subscribers/{id}/events` and `/ack`: events pulled in pages, with a wait for the next, and acknowledged."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from nearcast.geo.shapes import shorten
from nearcast.server.access import Caller
from nearcast.server.bodies import object_of, only
from nearcast.server.feeds import EventPage
from nearcast.server.problems import Problem, at, invalid
from nearcast.server.tokens import is_name


async def subscriber_caller(request: Any, *scopes: str) -> tuple[Caller, str]:
    """Return who calls and the subscriber of the path, for which they may act."""
    caller: Caller = await request.app.state.access.caller(request, *scopes)
    subscriber = request.path_params["id"]
    if not is_name(subscriber):
        raise Problem(404, "unknown-subscriber", "no subscriber can have that id")
    caller.check_subscriber(subscriber)
    return caller, subscriber


def number_of(request: Request, name: str, default: float, most: float) -> float:
    """Return a number of the query, at most `most`."""
    given = request.query_params.get(name)
    if given is None:
        return default
    try:
        found = float(given)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        message = f"{name} is {given[:40]!r}; expected a number, 0 or more"
        raise Problem(422, "invalid-parameter", message, [at(f"?{name}", message)])
    return min(found, most)


async def get_events(request: Request) -> Response:
    """Return the next events of a subscriber; with `wait`, when there is one or the seconds are over."""
    caller, subscriber = await subscriber_caller(request, "subscribe")
    limits = request.app.state.settings.limits
    limit = max(1, int(number_of(request, "limit", 100, limits.page)))
    wait = number_of(request, "wait", 0, limits.wait_seconds)
    cursor = request.query_params.get("cursor") or None
    feeds = caller.tenant.feeds
    with feeds.waiting(subscriber) as woken:
        page = await feeds.page(subscriber, cursor, limit)
        if not page.events and not page.gap and wait:
            stopping = request.app.state.stopped
            await asyncio.wait([woken, stopping], timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            request.app.state.access.check_again(caller.token)
            page = await feeds.page(subscriber, cursor, limit)
    caller.tenant.metrics.events.labels("pull").inc(len(page.events))
    return Response(_page_json(subscriber, page), media_type="application/json")


def _page_json(subscriber: str, page: EventPage) -> bytes:
    events = [msgspec.Raw(event.data) for event in page.with_gap(subscriber)]
    return msgspec.json.encode({"events": events, "cursor": page.cursor, "gap": page.gap})


async def post_ack(request: Request) -> Response:
    """Acknowledge all events of a subscriber up to a cursor; 204 says that it is on disk."""
    caller, subscriber = await subscriber_caller(request, "subscribe")
    given = await object_of(request, request.app.state.settings.limits.body_bytes)
    only(given, "cursor")
    if not isinstance(given.get("cursor"), str):
        message = f"cursor is {shorten(given['cursor'])}" if "cursor" in given else "cursor is missing"
        raise invalid("/cursor", f"{message}; expected the cursor of an event, as text")
    await caller.tenant.call(caller.tenant.hub.ack, subscriber, given["cursor"])
    return Response(status_code=204)
