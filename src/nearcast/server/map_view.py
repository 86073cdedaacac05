"""`/v1/map`: what a page draws of a rectangle: subscriptions, or counts of them by cell, and the newest messages.

Each part is bounded, and nothing in the rectangle is left out unsaid: what is too much to draw one by one is counted.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from nearcast.columns import NO_TIME
from nearcast.errors import UnknownSubscription
from nearcast.json_forms import subscription_feature, subscription_json
from nearcast.server.map_cells import Bounds, cell_counts
from nearcast.server.newest_messages import NEWEST, NewestColumns
from nearcast.server.problems import Problem, at
from nearcast.server.tenants import Tenant

#: Subscriptions that are drawn one by one; more of them are counted by cell.
_MOST = 500
#: Bytes of ids of messages in one answer.
_MOST_ID_BYTES = 1 << 20
_WORLD = (-180.0, -90.0, 180.0, 90.0)


async def get_map(request: Request) -> Response:
    """Return subscriptions in a rectangle, or their counts by cell, and the newest messages there, in columns."""
    caller = await request.app.state.access.caller(request, "admin")
    box, zoom = _box(request.query_params.get("bbox", "")), _zoom(request.query_params.get("zoom", ""))
    found = await caller.tenant.call(_drawn, caller.tenant, box, zoom)
    return Response(found, media_type="application/geo+json")


def _box(given: str) -> Bounds:
    if not given:
        return _WORLD
    try:
        west, south, east, north = map(float, given.split(","))
        if -90 <= south <= north <= 90 and abs(west) <= 180 and abs(east) <= 180:
            return (west, south, east, north)
    except ValueError:
        pass
    raise _refused("bbox", given, "west,south,east,north in degrees")


def _zoom(given: str) -> int | None:
    try:
        zoom = float(given) if given else None
        if zoom is None or 0 <= zoom <= 30:
            return None if zoom is None else round(zoom)
    except ValueError:
        pass
    raise _refused("zoom", given, "a number from 0, the whole world in 256 pixels, to 30")


def _refused(name: str, given: str, expected: str) -> Problem:
    message = f"{name} is {given[:80]!r}; expected {expected}"
    return Problem(422, "invalid-parameter", message, [at(f"?{name}", message)])


def _drawn(tenant: Tenant, box: Bounds, zoom: int | None) -> bytes:
    centres = tenant.hub.centres_in_box(box)
    is_few = len(centres) <= _MOST
    messages, n_messages = _message_columns(tenant.activity.newest.columns(), box)
    return msgspec.json.encode(
        {
            "type": "FeatureCollection",
            "features": _features(tenant, box) if is_few else [],
            "cells": [] if is_few else cell_counts(centres, box, zoom),
            "messages": messages,
            "counts": {"subscriptions": len(centres), "messages": n_messages},
            "bounds": {"subscriptions": _MOST, "messages": NEWEST},
        },
        enc_hook=str,
    )


def _features(tenant: Tenant, box: Bounds) -> list[dict[str, Any]]:
    found = []
    for id_ in tenant.hub.in_box(box, limit=_MOST)[0]:
        try:
            found.append(subscription_feature(subscription_json(tenant.hub.get(id_), tenant.hub.space)))
        except UnknownSubscription:  # gone meanwhile
            continue
    return found


def _message_columns(newest: NewestColumns, box: Bounds) -> tuple[dict[str, Any], int]:
    """Return the messages that live and touch a rectangle, the newest first, and how many there are.

    Times are seconds from now, so that no clock but the server's counts.
    """
    now = time.time_ns() // 1000
    x_min, y_min, x_max, y_max = newest.box.T
    west, south, east, north = box
    crosses = x_max < x_min
    is_right, is_left = (x_max >= west) | crosses, (x_min <= east) | crosses
    is_beside = is_right & is_left if west <= east else is_right | is_left
    lives = (newest.expires == NO_TIME) | (newest.expires > now)
    rows = np.flatnonzero(is_beside & (y_max >= south) & (y_min <= north) & lives)[::-1]
    n = len(rows)
    ids = [newest.ids[row] for row in rows.tolist()]
    rows = rows[np.cumsum([len(each) if isinstance(each, str) else 8 for each in ids]) <= _MOST_ID_BYTES]
    left = np.where(newest.expires[rows] == NO_TIME, np.nan, (newest.expires[rows] - now) / 1e6)
    middle = (newest.box[rows, :2] + newest.box[rows, 2:]) / 2 + np.where(crosses[rows], 180.0, 0.0)[:, None] * (1, 0)
    is_wide = (newest.box[rows, :2] != newest.box[rows, 2:]).any(axis=1)
    return {
        "id": ids[: len(rows)],
        "lon": np.round(middle[:, 0], 6).tolist(),
        "lat": np.round(middle[:, 1], 6).tolist(),
        "age_s": np.round((now - newest.received[rows]) / 1e6).astype(np.int64).tolist(),
        "left_s": [None if each != each else round(each) for each in left.tolist()],
        "boxes": [[row, *newest.box[rows[row]].tolist()] for row in np.flatnonzero(is_wide).tolist()],
    }, n
