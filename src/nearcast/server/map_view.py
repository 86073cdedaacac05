"""`/v1/map`: what a page draws of a rectangle: subscriptions and the newest messages in it, bounded in number."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from nearcast.errors import UnknownSubscription
from nearcast.json_forms import subscription_feature, subscription_json
from nearcast.server.problems import Problem, at
from nearcast.server.tenants import Tenant

_MOST = 500


async def get_map(request: Request) -> Response:
    """Return subscriptions and the newest messages in a rectangle as GeoJSON, at most some hundreds of each."""
    caller = await request.app.state.access.caller(request, "admin")
    box = _box(request.query_params.get("bbox", ""))
    found = await caller.tenant.call(_drawn, caller.tenant, box)
    return Response(msgspec.json.encode(found, enc_hook=str), media_type="application/geo+json")


def _box(given: str) -> tuple[float, float, float, float]:
    if not given:
        return (-180.0, -90.0, 180.0, 90.0)
    try:
        west, south, east, north = map(float, given.split(","))
        if -90 <= south <= north <= 90 and abs(west) <= 180 and abs(east) <= 180:
            return (west, south, east, north)
    except ValueError:
        pass
    message = f"bbox is {given[:80]!r}; expected west,south,east,north in degrees"
    raise Problem(422, "invalid-parameter", message, [at("?bbox", message)])


def _drawn(tenant: Tenant, box: tuple[float, float, float, float]) -> dict[str, Any]:
    ids, total = tenant.hub.in_box(box, limit=_MOST)
    features = []
    for id_ in ids:
        try:
            feature = subscription_feature(subscription_json(tenant.hub.get(id_), tenant.hub.space))
        except UnknownSubscription:  # gone meanwhile
            continue
        features.append({**feature, "properties": {"layer": "subscription", **feature["properties"]}})
    messages = [each for each in tenant.activity.newest(1000) if _is_in(each["geometry"], box)][:_MOST]
    features += [{**each, "properties": {"layer": "message", **each["properties"]}} for each in messages]
    counts = {"subscriptions": total, "messages": tenant.activity.counts["messages"]}
    return {"type": "FeatureCollection", "features": features, "counts": counts}


def _is_in(geometry: dict[str, Any], box: tuple[float, float, float, float]) -> bool:
    """Tell whether a message's first point lies in the rectangle."""
    x, y = _first_point(geometry["coordinates"])
    west, south, east, north = box
    is_between = west <= x <= east if west <= east else x >= west or x <= east
    return is_between and south <= y <= north


def _first_point(coordinates: Any) -> tuple[float, float]:
    while isinstance(coordinates[0], list):
        coordinates = coordinates[0]
    return coordinates[0], coordinates[1]
