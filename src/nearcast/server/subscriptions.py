"""`/v1/subscriptions`: made, read, replaced, patched, paused, resumed, tried and deleted."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from nearcast.errors import UnknownSubscription
from nearcast.geo.shapes import shorten
from nearcast.json_forms import subscription_feature, subscription_json
from nearcast.model import message_from
from nearcast.server.access import Caller
from nearcast.server.bodies import body_of, check_type, object_of, only
from nearcast.server.explaining import explained
from nearcast.server.idempotency import key_of
from nearcast.server.ids import id_under, new_id
from nearcast.server.message_bodies import LINES
from nearcast.server.parameters import only_known_parameters
from nearcast.server.problems import Problem, at, invalid
from nearcast.server.subscription_batches import items_of, post_many
from nearcast.server.subscription_bodies import merged
from nearcast.server.subscription_changes import intent_of, make_change
from nearcast.server.subscription_checks import check_room, checked_for
from nearcast.server.subscription_rows import SubscriptionRow, with_next_version
from nearcast.server.tenants import Tenant

router = APIRouter(prefix="/v1/subscriptions", tags=["subscriptions"], dependencies=[Depends(only_known_parameters)])
_TYPES = ("application/json", "application/geo+json")
_MOST_ROWS = 1000


async def _caller(request: Request, *scopes: str) -> Caller:
    found: Caller = await request.app.state.access.caller(request, *(scopes or ("subscribe",)))
    return found


# Reading


def _resource(tenant: Tenant, row: SubscriptionRow) -> dict[str, Any] | None:
    """Return a subscription as it is now, None if it has come to its end; in a thread."""
    columns = row.body
    if not row.is_paused:
        try:
            columns = subscription_json(tenant.hub.get(row.id), tenant.hub.space)
        except UnknownSubscription:
            if row.is_settled:  # it has expired; one that is not settled is on its way into the hub
                tenant.db.write(tenant.rows.forget(row))
            return None
    return {
        **columns,
        "subscriber": row.subscriber,
        "labels": row.labels,
        "max_events": row.max_events,
        "paused": row.is_paused,
        "version": row.version,
    }


async def _found(caller: Caller, subscription_id: str) -> tuple[SubscriptionRow, dict[str, Any]]:
    """Return a subscription that the caller may see."""
    row = caller.tenant.rows.get(subscription_id)
    bound = caller.token.subscriber
    if row is not None and (bound is None or row.subscriber == bound):
        resource = await caller.tenant.call(_resource, caller.tenant, row)
        if resource is not None:
            return row, resource
    raise Problem(404, "unknown-subscription", "there is no subscription with that id")


def _answer(resource: Any, status: int = 200, version: int | None = None, **headers: str) -> Response:
    if version is not None:
        headers["ETag"] = _etag(version)
    return Response(msgspec.json.encode(resource), status, headers, media_type="application/json")


def _etag(version: int) -> str:
    return f'"{version}"'


@router.get("")
async def list_subscriptions(
    request: Request, cursor: str = "", limit: int = 100, subscriber: str = "", label: str = "", f: str = "json"
) -> Response:
    """List subscriptions in order of registration, some at a time; `next` is the cursor of the next page."""
    caller = await _caller(request)
    _check_form(f)
    if caller.token.subscriber is not None:
        caller.check_subscriber(subscriber or caller.token.subscriber)
    name, is_named, value = label.partition(":")
    if label and not is_named:
        raise Problem(422, "invalid-parameter", "label has no ':'", [at("?label", "expected name:value")])
    if not (cursor or "0").isdecimal() or len(cursor) > 18:
        raise Problem(422, "invalid-parameter", "cursor is none of this list", [at("?cursor", "expected `next`")])
    if limit < 1:
        message = f"limit is {limit}; expected 1 or more"
        raise Problem(422, "invalid-parameter", message, [at("?limit", message)])
    limit = min(limit, _MOST_ROWS)
    rows = await caller.tenant.call(
        caller.tenant.rows.page,
        int(cursor or 0),
        limit + 1,
        subscriber or caller.token.subscriber,
        (name, value) if label else None,
    )
    following = str(rows[limit - 1].number) if len(rows) > limit else None
    found = await caller.tenant.call(lambda: [_resource(caller.tenant, row) for row in rows[:limit]])
    items = [each for each in found if each is not None]
    if f == "geojson" or request.headers.get("accept", "").startswith("application/geo+json"):
        features = [subscription_feature(each) for each in items]
        collection = {"type": "FeatureCollection", "features": features, "next": following}
        return Response(msgspec.json.encode(collection), media_type="application/geo+json")
    return _answer({"items": items, "next": following})


def _check_form(given: str) -> None:
    if given not in ("json", "geojson"):
        raise Problem(422, "invalid-parameter", "f is neither json nor geojson", [at("?f", "expected json or geojson")])


@router.get("/{id}")
async def get_subscription(request: Request, id: str, f: str = "json") -> Response:  # noqa: A002  the name in the path
    """Return a subscription at its present place."""
    row, resource = await _found(await _caller(request), id)
    _check_form(f)
    if f == "geojson":
        return Response(msgspec.json.encode(subscription_feature(resource)), media_type="application/geo+json")
    return _answer(resource, version=row.version)


@router.get("/{id}/current")
async def get_current(request: Request, id: str) -> Response:  # noqa: A002  as above
    """Return what is relevant to a subscription now: the list of a top-k, or live messages."""
    caller = await _caller(request)
    row, _ = await _found(caller, id)
    if row.is_paused:
        return _answer({"items": []})
    return _answer({"items": await caller.tenant.call(_current, caller.tenant, id)})


def _current(tenant: Tenant, subscription_id: str) -> list[dict[str, Any]]:
    return [
        {
            "subscription_id": each.subscription_id,
            "message_id": each.message_id,
            "change": each.change,
            "score": each.score,
            "rank": each.rank,
        }
        for each in tenant.hub.current(subscription_id)
    ]


# Changing


@router.post("", status_code=201)
async def post_subscription(request: Request, validateOnly: bool = False, initialEvent: bool = False) -> Response:  # noqa: N803
    """Make a subscription, or many: then 200 says which were rejected; with `validateOnly` only check one."""
    caller = await _caller(request)
    limits = request.app.state.settings.limits
    content_type = check_type(request, *_TYPES, *LINES)
    body = await body_of(request, limits.body_bytes)
    key = key_of(request, caller.token.id)

    def make_id(row: int) -> str:
        return new_id() if key is None else id_under(key, body, row)

    async def make() -> Response:
        given = items_of(body, is_lines=content_type in LINES, most=limits.batch)
        if given.items is not None:
            return await post_many(caller, given, make_id)
        if not isinstance(given.value, dict):
            raise Problem(422, "invalid-content", "the body is not an object", [at("", "expected a JSON object")])
        row = checked_for(caller, given.value, partial(make_id, 0))
        if validateOnly:
            await caller.tenant.call(_tried, caller.tenant, row)
            return _answer({**row.body, "valid": True})
        return await _posted(caller, row, with_current=initialEvent, may_be_made=key is not None)

    return await caller.tenant.answers.once(request, body, make, caller.token.id)


def _tried(tenant: Tenant, row: SubscriptionRow) -> None:
    with tenant.hub.empty_copy() as hub:
        hub.subscribe(row.body)


async def _posted(caller: Caller, row: SubscriptionRow, *, with_current: bool, may_be_made: bool) -> Response:
    """Make a subscription; where it `may_be_made` already, since a crash took the answer, the same one is as good."""
    tenant = caller.tenant
    async with tenant.lock(row.id):
        known = tenant.rows.get(row.id)
        if known is None or await tenant.call(_resource, tenant, known) is None:
            check_room(tenant)
            await make_change(tenant, row, None, intent_of(row))
        elif not may_be_made or known.values() != row.values():
            raise Problem(409, "known-subscription", "there is a subscription with that id; replace it with PUT")
    resource = await tenant.call(_resource, tenant, row) or {}
    if with_current and not row.is_paused and (tenant.hub.lifetime is not None or row.body["kind"] == "topk"):
        resource["current"] = await tenant.call(_current, tenant, row.id)
    return _answer(resource, 201, row.version, Location=f"/v1/subscriptions/{row.id}")


def _check_match(request: Request, before: SubscriptionRow | None) -> None:
    """Raise if the resource is not of the version that `If-Match` or `If-None-Match` asks for."""
    wanted, unwanted = request.headers.get("if-match"), request.headers.get("if-none-match")
    present = None if before is None else _etag(before.version)
    if wanted is not None and (present is None or (wanted != "*" and present not in _listed(wanted))):
        raise Problem(412, "version", f"the subscription is of version {present or 'none'}; read it and try again")
    if unwanted is not None and present is not None and (unwanted == "*" or present in _listed(unwanted)):
        raise Problem(412, "version", f"the subscription is there already, in version {present}")


def _listed(header: str) -> list[str]:
    return [each.strip() for each in header.split(",")]


@router.put("/{id}")
async def put_subscription(request: Request, id: str) -> Response:  # noqa: A002  as above
    """Replace a subscription, or make it."""
    caller = await _caller(request)
    given = await object_of(request, request.app.state.settings.limits.body_bytes, *_TYPES)
    if given.get("id", id) != id:
        message = f"id is {shorten(given['id'])}, which is not that of the path; expected {id!r}, as text"
        raise Problem(422, "invalid-subscription", message, [at("/id", message)])
    return await _replaced(request, caller, id, lambda _: {**given, "id": id}, may_make=True)


@router.patch("/{id}")
async def patch_subscription(request: Request, id: str) -> Response:  # noqa: A002  as above
    """Change some fields of a subscription by a merge patch."""
    caller = await _caller(request)
    limits = request.app.state.settings.limits
    patch = await object_of(request, limits.body_bytes, "application/merge-patch+json", "application/json")
    if patch.get("id", id) != id:
        raise Problem(422, "invalid-subscription", "the id cannot be changed", [at("/id", f"expected {id}")])
    return await _replaced(request, caller, id, lambda before: merged(before, patch))


async def _replaced(
    request: Request, caller: Caller, subscription_id: str, change: Any, *, may_make: bool = False
) -> Response:
    tenant = caller.tenant
    async with tenant.lock(subscription_id):
        before, resource = await _row_to_change(caller, subscription_id)
        _check_match(request, before)
        if before is None and not may_make:
            raise Problem(404, "unknown-subscription", "there is no subscription with that id")
        given = change(resource)
        is_known = before is not None and all(given.get(name) == resource.get(name) for name in ("query", "terms"))
        row = with_next_version(checked_for(caller, given, is_known=is_known), before)
        if before is None or (before.is_paused and not row.is_paused):  # else it takes no room that it has not
            check_room(tenant)
        await make_change(tenant, row, before, intent_of(row))
    found = await tenant.call(_resource, tenant, row) or {}
    return _answer(found, 200 if before is not None else 201, row.version)


async def _row_to_change(caller: Caller, subscription_id: str) -> tuple[SubscriptionRow | None, dict[str, Any]]:
    """Return a subscription's row and resource, None and nothing if there is none; that of another is refused."""
    row = caller.tenant.rows.get(subscription_id)
    if row is not None:
        if caller.token.subscriber is not None and row.subscriber != caller.token.subscriber:
            raise Problem(404, "unknown-subscription", "there is no subscription with that id")
        resource = await caller.tenant.call(_resource, caller.tenant, row)
        if resource is not None:
            return row, resource
    return None, {}


@router.delete("/{id}", status_code=204)
async def delete_subscription(request: Request, id: str) -> Response:  # noqa: A002  as above
    """Delete a subscription; what it was told and was not acknowledged stays to be read."""
    caller = await _caller(request)
    async with caller.tenant.lock(id):
        row, _ = await _found(caller, id)
        _check_match(request, row)
        await make_change(caller.tenant, with_next_version(row, row), row, "forget")
    return Response(status_code=204)


@router.post("/{id}:pause")
async def pause_subscription(request: Request, id: str) -> Response:  # noqa: A002  as above
    """Take a subscription out of the index, to be registered anew when it is resumed."""
    return await _set_paused(request, id, is_paused=True)


@router.post("/{id}:resume")
async def resume_subscription(request: Request, id: str) -> Response:  # noqa: A002  as above
    """Register a paused subscription anew."""
    return await _set_paused(request, id, is_paused=False)


async def _set_paused(request: Request, subscription_id: str, *, is_paused: bool) -> Response:
    caller = await _caller(request)
    tenant = caller.tenant
    async with tenant.lock(subscription_id):
        row, resource = await _found(caller, subscription_id)
        _check_match(request, row)
        if row.is_paused != is_paused:
            if not is_paused:
                check_room(tenant)
            body = {name: value for name, value in resource.items() if name not in _BESIDE}
            before, row = row, with_next_version(row, row, is_paused=is_paused, body=body)
            await make_change(tenant, row, before, intent_of(row))
    return _answer({**resource, "paused": row.is_paused, "version": row.version}, version=row.version)


_BESIDE = ("subscriber", "labels", "max_events", "paused", "version")


@router.post("/{id}:test")
async def test_subscription(request: Request, id: str) -> Response:  # noqa: A002  as above
    """Say whether a message would reach a subscription, and why; if so, its sink gets it as a test."""
    caller = await _caller(request)
    tenant = caller.tenant
    given = await object_of(request, request.app.state.settings.limits.body_bytes)
    only(given, "message", "place", "send")
    if not isinstance(given.get("send", True), bool):
        raise invalid("/send", "send must be true or false")
    row, _ = await _found(caller, id)
    subscription: Any = row.body if row.is_paused else id
    asked = {"message": given.get("message"), "place": given.get("place"), "subscription": subscription}
    found = await tenant.call(explained, tenant, asked, is_known=True)
    sent = None
    if found["matched"] and row.subscriber is not None and given.get("send", True):
        sent = await tenant.hooks.try_out(row.subscriber, id, message_from(given["message"], tenant.hub.space))
    return _answer({**found, "sent": sent})
