"""`/v1/explain` and `/v1/estimate`: why a message reaches a subscription or not, and how many a day would."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from nearcast.errors import InvalidInput, InvalidMessage, NotSupported
from nearcast.geo.shapes import as_float, is_number, shorten
from nearcast.server.bodies import object_of, only
from nearcast.server.message_pointers import names_of
from nearcast.server.parameters import only_known_parameters
from nearcast.server.problems import Problem, at, invalid, problem_of
from nearcast.server.subscription_bodies import names_in_subscription, read_row
from nearcast.server.tenants import Tenant

router = APIRouter(prefix="/v1", tags=["explain"], dependencies=[Depends(only_known_parameters)])
_MOST_REACHED, _MOST_NEARLY = 1000, 20


@router.post("/explain")
async def explain(request: Request) -> Response:
    """Say why a message reaches a subscription, stored or not, or why not; without one, whom it reaches and nearly."""
    caller = await request.app.state.access.caller(request, "subscribe")
    given = await object_of(request, request.app.state.settings.limits.body_bytes)
    only(given, "message", "subscription", "place")
    tenant, subscription = caller.tenant, given.get("subscription")
    if subscription is None:
        caller.check_unbound()
        found = await tenant.call(_reached, tenant, given.get("message"))
        return Response(msgspec.json.encode(found), media_type="application/json")
    if caller.token.subscriber is not None and not isinstance(subscription, dict):
        row = tenant.rows.get(str(subscription))
        if row is None or row.subscriber != caller.token.subscriber:
            raise Problem(404, "unknown-subscription", "there is no subscription with that id")
    found = await tenant.call(explained, tenant, given)
    return Response(msgspec.json.encode(found), media_type="application/json")


def _reached(tenant: Tenant, message: Any) -> dict[str, Any]:
    """Return who would get a message, and who nearly would; in a thread."""
    _check_message(message)
    try:
        reached = tenant.hub.reached(message, limit=_MOST_REACHED + 1)
        nearly = [each.to_dict() for each in tenant.hub.nearly(message, limit=_MOST_NEARLY)]
    except InvalidInput as error:
        raise _problem(error, tenant, {"message": message}) from None
    return {"reached": reached[:_MOST_REACHED], "more": len(reached) > _MOST_REACHED, "nearly": nearly}


def explained(tenant: Tenant, given: dict[str, Any], *, is_known: bool = False) -> dict[str, Any]:
    """Return the explanation of a message to a subscription, an id or an object, which may be known; in a thread."""
    message, subscription, place = given.get("message"), given.get("subscription"), given.get("place")
    if isinstance(place, dict):
        place = (place.get("lon", place.get("x")), place.get("lat", place.get("y")))
    elif isinstance(place, list) and len(place) == 2:
        place = tuple(place)
    _check_message(message)
    try:
        if not isinstance(subscription, dict):
            return tenant.hub.explain(message, subscription, place=place).to_dict()  # type: ignore[arg-type]
        row, value = read_row(subscription, tenant.hub.space, tenant.settings.limits, is_known=is_known)
        with tenant.hub.empty_copy() as hub:
            hub.subscribe(value)
            return hub.explain(message, row.id, place=place).to_dict()
    except InvalidInput as error:
        raise _problem(error, tenant, given) from None


def _check_message(given: Any) -> None:
    """Raise if there is no message, or one that is no object."""
    if not isinstance(given, dict):
        found = "message is missing" if given is None else f"message is {shorten(given)}"
        raise invalid("/message", f"{found}; expected a Feature, or an object in columns", "invalid-message")


def _problem(error: InvalidInput, tenant: Tenant, given: dict[str, Any]) -> Problem:
    """Return the problem of a message or a subscription in a body; its pointer leads into what was sent."""
    if error.field == "place" and given.get("place") is not None and not isinstance(error, InvalidMessage):
        return problem_of(error)
    if isinstance(error, InvalidMessage) or "subscription" not in given:
        names = names_of(given.get("message"), error.field, is_earth=tenant.hub.space.is_earth)
        return problem_of(error, "/message", names=names)
    return problem_of(error, "/subscription", names=names_in_subscription(given["subscription"], error.field))


@router.post("/estimate")
async def estimate(request: Request) -> Response:
    """Say about how many messages a day a subscription would get, judged by the newest messages or by a sample."""
    caller = await request.app.state.access.caller(request, "subscribe")
    given = await object_of(request, request.app.state.settings.limits.body_bytes)
    only(given, "subscription", "sample", "messages_per_day")
    found = await caller.tenant.call(_estimated, caller.tenant, given)
    return Response(msgspec.json.encode(found), media_type="application/json")


def _estimated(tenant: Tenant, given: dict[str, Any]) -> dict[str, Any]:
    subscription, per_day = given.get("subscription"), given.get("messages_per_day")
    if not isinstance(subscription, dict):
        message = "subscription is missing" if subscription is None else f"subscription is {shorten(subscription)}"
        message += "; expected an object in the columns of a subscription"
        raise Problem(422, "invalid-content", message, [at("/subscription", message)])
    if per_day is not None and not (is_number(per_day) and 0 <= as_float(per_day) < math.inf):
        message = "messages_per_day is no number, 0 or more"
        raise Problem(422, "invalid-content", message, [at("/messages_per_day", message)])
    sample = given.get("sample")
    if sample is not None and not isinstance(sample, list):
        raise Problem(422, "invalid-content", "sample is not a list", [at("/sample", "expected a list of messages")])
    try:
        _, value = read_row(subscription, tenant.hub.space, tenant.settings.limits)
        return tenant.hub.estimate(value, sample, messages_per_day=per_day).to_dict()
    except InvalidInput as error:
        raise (problem_of(error) if error.field == "sample" else _problem(error, tenant, given)) from None
    except NotSupported as error:
        raise problem_of(error, "/subscription/kind") from None
