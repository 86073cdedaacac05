"""`/v1/stream`: what happens in a tenant, for admins, as server-sent events once a second: counts, and samples."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from nearcast.errors import NearcastError
from nearcast.json_forms import subscription_feature, subscription_json
from nearcast.server.sse import Disconnected, SseConnection, SseResponse, check_streams
from nearcast.server.tenants import Tenant

_EVERY_S = 1.0


async def get_admin_stream(request: Request) -> Response:
    """Stream counts of messages, deliveries and moves, and a sample of each, once a second."""
    caller = await request.app.state.access.caller(request, "admin")
    if request.method == "HEAD":
        return Response(media_type="text/event-stream")
    check_streams(caller.tenant)
    stream = AdminStream(caller.tenant, request.app.state.stopped)
    return SseResponse(stream.run, caller.tenant)


class AdminStream:
    """Counts and samples of one tenant."""

    def __init__(self, tenant: Tenant, stopped: asyncio.Future[None]):
        self._tenant, self._stopped = tenant, stopped

    async def run(self, connection: SseConnection) -> None:
        """Write until the client goes or the server stops."""
        activity, last = self._tenant.activity, 0
        activity.n_watchers += 1
        self._tenant.n_streams += 1
        try:
            await connection.write(_event("hub", _options(self._tenant)))
            while not self._stopped.done():
                samples = activity.samples_after(last)
                last = samples[-1][0] if samples else last
                await connection.write(await self._tenant.call(_events, self._tenant, samples))
                first = asyncio.FIRST_COMPLETED
                await asyncio.wait([connection.gone, self._stopped], timeout=_EVERY_S, return_when=first)
                if connection.gone.done():
                    raise Disconnected
        finally:
            activity.n_watchers -= 1
            self._tenant.n_streams -= 1


def _events(tenant: Tenant, samples: list[tuple[int, str, dict[str, Any]]]) -> bytes:
    """Return counts and samples as events; a delivery has its subscription and message, which a map may not show."""
    lines = [_event("counts", {**tenant.activity.counts, "cursor": str(tenant.hub.end)})]
    messages = tenant.activity.newest.with_ids({data["message_id"] for _, kind, data in samples if kind == "delivery"})
    for _, kind, data in samples:
        if kind == "delivery":
            subscription = _subscription(tenant, data["subscription_id"])
            lines.append(
                _event(kind, {**data, "subscription": subscription, "message": messages.get(data["message_id"])})
            )
        else:
            lines.append(_event(kind, data))
    return b"".join(lines)


def _options(tenant: Tenant) -> dict[str, Any]:
    """Return what of the hub a form must know."""
    given = tenant.settings.hub
    return {"window": given.window, "lifetime": given.lifetime, "max_distance": given.max_distance}


def _subscription(tenant: Tenant, id_: Any) -> dict[str, Any] | None:
    """Return a subscription as a Feature, None if it is gone."""
    try:
        return subscription_feature(subscription_json(tenant.hub.get(id_), tenant.hub.space))
    except NearcastError:
        return None


def _event(kind: str, data: dict[str, object]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(data, enc_hook=str))
