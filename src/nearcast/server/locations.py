"""Where subscribers are: `PUT /v1/subscribers/{id}/location` for one, `POST /v1/locations` for many."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from nearcast.errors import InvalidInput
from nearcast.geo.shapes import check_position
from nearcast.model import checked_time
from nearcast.server.access import Caller
from nearcast.server.activity import SAMPLED
from nearcast.server.bodies import body_of, check_type, decoded_items, decoded_lines, lines_in, object_of, only
from nearcast.server.events import subscriber_caller
from nearcast.server.json_faults import may_have_faults
from nearcast.server.location_columns import SubscriberMoves, moves_of_points, nothing_to_move, plain_points
from nearcast.server.message_bodies import LINES
from nearcast.server.problems import Problem, at, names_of_pointer, pointer_to
from nearcast.server.tenants import Tenant
from nearcast.tables.rejected_rows import RejectedRow


async def put_location(request: Request) -> Response:
    """Move all subscriptions of a subscriber that can follow a point; list the others."""
    caller, subscriber = await subscriber_caller(request, "location")
    given = await object_of(request, request.app.state.settings.limits.body_bytes)
    caller.tenant.check_disk()
    found = await moved(caller.tenant, subscriber, given)
    return Response(msgspec.json.encode(found), media_type="application/json")


async def moved(tenant: Tenant, subscriber: str, given: dict[str, Any]) -> dict[str, Any]:
    """Move a subscriber to a point; return how many subscriptions went there, and why the others did not."""
    x, y = ("lon", "lat") if tenant.hub.space.is_earth else ("x", "y")
    only(given, x, y, "time")
    for name in (x, y):
        if isinstance(given.get(name), bool) or not isinstance(given.get(name), int | float):
            raise InvalidInput(f"{name} is missing or no number; give {x} and {y}", field=name)
    if tenant.hub.space.is_earth:
        check_position(given[x], given[y])
    time = checked_time(given.get("time"), "time")
    return await tenant.call(_moved, tenant, subscriber, (given[x], given[y]), time)


def _moved(tenant: Tenant, subscriber: str, place: tuple[float, float], time: Any) -> dict[str, Any]:
    found = tenant.hub.move_subscriber(subscriber, place, time)
    n = len(tenant.hub.subscriptions_of(subscriber)) - len(found.stayed)
    tenant.activity.moved(1, lambda: [{"subscriber": subscriber, "place": list(place)}], found.deliveries)
    stayed = [{"id": id_, "reason": reason} for id_, reason in found.stayed.items()]
    return {"moved": max(0, n), "stayed": stayed}


async def post_locations(request: Request) -> Response:
    """Move many subscribers or subscriptions, in order; 202 says that the moves are on disk."""
    caller = await request.app.state.access.caller(request, "location")
    limits = request.app.state.settings.limits
    content_type = check_type(request, "application/json", *LINES)
    body = await body_of(request, limits.body_bytes)
    caller.tenant.check_disk()

    async def move() -> Response:
        found = await caller.tenant.call(_moved_many, caller, body, limits.batch, is_lines=content_type in LINES)
        return Response(msgspec.json.encode(found), 202, media_type="application/json")

    answer: Response = await caller.tenant.answers.once(request, body, move, caller.token.id)
    return answer


def _moved_many(caller: Caller, body: bytes, most: int, *, is_lines: bool) -> dict[str, Any]:
    """Make the moves of a body; in a thread."""
    hub = caller.tenant.hub
    is_plain = hub.space.is_earth and caller.token.subscriber is None
    points = plain_points(body, is_lines=is_lines) if is_plain and not may_have_faults(body) else None
    if points is not None:
        _check_number(len(points), most)
        moves = moves_of_points(points, hub)
        if moves is not None:
            return _moved_columns(caller.tenant, moves)
    given = lines_in(body) if is_lines else decoded_items(body)
    if not isinstance(given, list):
        raise Problem(422, "invalid-content", "the body is not a list", [at("", "expected a list of locations")])
    _check_number(len(given), most)
    return _moved_rows(caller, decoded_lines(given) if is_lines else given)


def _check_number(n: int, most: int) -> None:
    if n > most:
        raise Problem(413, "too-many-items", f"{n:,} locations in one request; send at most {most:,}")


def _moved_columns(tenant: Tenant, moves: SubscriberMoves) -> dict[str, Any]:
    """Make the moves of points of subscribers by one call of the hub."""
    rejected = [_fault_json(item, error) for item, error in moves.faults]
    if len(moves.table):
        made = tenant.hub.move_many(moves.table)
        tenant.activity.moved(len(moves.table), moves.table.slice(0, SAMPLED).to_pylist, made)
        rejected += [_row_json(row, int(moves.items[row.row])) for row in made.rejected]
    return _answer(tenant, moves.n_items, rejected)


def _moved_rows(caller: Caller, given: list[Any]) -> dict[str, Any]:
    """Make the moves of all items by one call of the hub; each item is one row for each subscription that it moves."""
    tenant = caller.tenant
    rejected: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    items: list[int] = []
    for item, each in enumerate(given):
        try:
            found = _rows_of(caller, each)
        except (InvalidInput, Problem) as error:
            rejected.append(_fault_json(item, error))
            continue
        rows += found
        items += [item] * len(found)
    if rows:
        made = tenant.hub.move_many(rows)
        tenant.activity.moved(len(rows), lambda: rows[:SAMPLED], made)
        rejected += [_row_json(row, items[row.row]) for row in made.rejected]
    return _answer(tenant, len(given), rejected)


def _row_json(row: RejectedRow, item: int) -> dict[str, Any]:
    """Return a move that the hub refused, as one of its item."""
    return _rejected(item, row.id, row.field, row.reason)


def _fault_json(item: int, error: InvalidInput | Problem) -> dict[str, Any]:
    """Return an item that moves nothing; of a problem its `type` tells which, as where a whole request is refused."""
    if isinstance(error, InvalidInput):
        return _rejected(item, None, error.field, str(error))
    names = names_of_pointer(error.errors[0]["pointer"]) if error.errors else ()
    found = _rejected(item, None, names[0] if names else None, error.detail)
    return {**found, "pointer": pointer_to(item, *names), "type": error.type}


def _rejected(item: int, id_: Any, field: str | None, reason: str) -> dict[str, Any]:
    """Return a rejected item; its pointer is into the list of items, also where these came as lines."""
    pointer = pointer_to(item) if field is None else pointer_to(item, field)
    return {"row": item, "id": id_, "field": field, "pointer": pointer, "reason": reason}


def _answer(tenant: Tenant, n_items: int, rejected: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer to a batch: an item is accepted if all its moves are made."""
    tenant.metrics.rejected.inc(len(rejected))
    lost = {each["row"] for each in rejected}
    return {"accepted": n_items - len(lost), "rejected": sorted(rejected, key=lambda each: each["row"])}


def _rows_of(caller: Caller, given: Any) -> list[dict[str, Any]]:
    """Return the moves of one item: of a subscription, or of all those of a subscriber."""
    if isinstance(given, Problem):  # a line that is no JSON
        raise given
    if not isinstance(given, dict):
        raise InvalidInput("a location must be an object with subscriber or id, and a place")
    place = {name: value for name, value in given.items() if name not in ("subscriber", "id")}
    if (given.get("subscriber") is None) == (given.get("id") is None):
        raise InvalidInput("a location has both a subscriber and an id, or neither; give one", field="subscriber")
    if given.get("id") is not None:
        row = caller.tenant.rows.get(str(given["id"]))
        caller.check_subscriber(None if row is None else row.subscriber)
        return [{**place, "id": given["id"]}]
    caller.check_subscriber(given["subscriber"])
    _check_point(place, is_earth=caller.tenant.hub.space.is_earth)
    ids = caller.tenant.hub.subscriptions_of(given["subscriber"])
    if not ids:
        raise nothing_to_move()
    return [{**place, "id": id_} for id_ in ids]


def _check_point(place: dict[str, Any], *, is_earth: bool) -> None:
    """Raise if the point of an item, where it has one, is not on the earth: once, not for each subscription."""
    if is_earth and all(type(place.get(name)) in (int, float) for name in ("lon", "lat")):
        check_position(place["lon"], place["lat"])
