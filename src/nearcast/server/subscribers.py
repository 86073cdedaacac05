"""`/v1/subscribers/{id}`: where a subscriber's events are sent, how quietly, and its erasure."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from nearcast.errors import InvalidInput
from nearcast.geo.shapes import shorten
from nearcast.server.bodies import body_of, object_of, only
from nearcast.server.erasure import begin_erasure, end_erasure
from nearcast.server.events import subscriber_caller
from nearcast.server.idempotency import shown_once
from nearcast.server.parameters import only_known_parameters
from nearcast.server.problems import Problem, problem_of
from nearcast.server.subscription_bodies import merged
from nearcast.server.tenants import Tenant
from nearcast.server.webhooks import AddressPolicy, HookSink, QuietRules
from nearcast.server.webhooks.quiet import QUIET_FIELDS

router = APIRouter(prefix="/v1/subscribers", tags=["subscribers"], dependencies=[Depends(only_known_parameters)])
_DEFAULTS: dict[str, Any] = {
    "sink": None,
    "paused": False,
    "cooldown": None,
    "digest": None,
    "once_per_message": False,
    "debounce": None,
}
#: Fields of a sink that are shown, and not taken.
_SHOWN = {"n_secrets", "failures", "disabled", "held_back"}


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
        tenant.check_not_half_erased(subscriber)
        before = _body(tenant, subscriber)
        body = _checked(change(before, given), subscriber, before, tenant.hooks.policy)
        await _store(tenant, subscriber, body)
    return _answer(await tenant.call(_resource, tenant, subscriber, body, _new_secrets(body, before)))


async def _store(tenant: Tenant, subscriber: str, body: dict[str, Any]) -> None:
    """Keep the settings of a subscriber, and serve it by them."""
    text = msgspec.json.encode(body).decode()
    statement = "INSERT OR REPLACE INTO subscribers VALUES (?, ?)"
    await tenant.write(lambda connection: connection.execute(statement, (subscriber, text)) and None)
    tenant.hooks.serve(subscriber, body)


@router.post("/{id}:rotate")
async def rotate_secret(request: Request, id: str) -> Response:  # noqa: A002, ARG001  as above
    """Make a new secret for a subscriber's sink, which is in this answer and never again; the last two go on."""
    caller, subscriber = await subscriber_caller(request, "subscribe")
    body = await body_of(request, request.app.state.settings.limits.body_bytes)

    async def rotate() -> Response:
        return _answer(await _rotated(caller.tenant, subscriber))

    def instead(_: Response) -> Response:
        return shown_once(request, "a secret", "rotate again under another key", subscriber)

    answer: Response = await caller.tenant.answers.once(request, body, rotate, caller.token.id, instead)
    return answer


async def _rotated(tenant: Tenant, subscriber: str) -> dict[str, Any]:
    """Give the sink of a subscriber another secret; return the subscriber with it."""
    async with tenant.lock(subscriber):
        before = _body(tenant, subscriber)
        if before["sink"] is None:
            raise _no_sink()
        sink = HookSink(before["sink"]["url"], tuple(before["sink"]["secrets"])).rotated()
        body = {**before, "sink": {"url": sink.url, "secrets": list(sink.secrets)}}
        await _store(tenant, subscriber, body)
    return await tenant.call(_resource, tenant, subscriber, body, _new_secrets(body, before))


@router.post("/{id}:enable", status_code=204)
async def enable_sink(request: Request, id: str) -> Response:  # noqa: A002, ARG001  as above
    """Send to a subscriber's sink again that was disabled or is left alone for its failures."""
    caller, subscriber = await subscriber_caller(request, "subscribe")
    async with caller.tenant.lock(subscriber):
        if _body(caller.tenant, subscriber)["sink"] is None:
            raise _no_sink()
        await caller.tenant.hooks.dispatcher.enable(subscriber)
    return Response(status_code=204)


@router.delete("/{id}", status_code=204)
async def delete_subscriber(request: Request, id: str) -> Response:  # noqa: A002, ARG001  as above
    """Erase a subscriber: its settings, subscriptions, waiting events, acknowledgements, and tokens bound to it."""
    caller, subscriber = await subscriber_caller(request, "subscribe")
    tenant = caller.tenant
    async with tenant.erasing():
        tenant.half_erased.add(subscriber)  # until the end: should something fail, the next start erases all it finds
        await tenant.write(begin_erasure(subscriber))
        await tenant.hooks.dispatcher.erase(subscriber)
        await tenant.call(tenant.hub.erase, subscriber)
        await tenant.call(tenant.revoke_tokens, subscriber)
        tenant.limits.forget(subscriber)
        tenant.answers.forget(subscriber)
        await tenant.write(end_erasure(subscriber))
        tenant.half_erased.discard(subscriber)
    return Response(status_code=204)


def _no_sink() -> Problem:
    return Problem(409, "no-sink", "the subscriber has no sink")


def _body(tenant: Tenant, subscriber: str) -> dict[str, Any]:
    rows = tenant.db.read("SELECT body FROM subscribers WHERE id = ?", (subscriber,))
    stored = msgspec.json.decode(rows[0][0]) if rows else {}  # or the note of an erasure
    return {name: stored.get(name, default) for name, default in _DEFAULTS.items()}


def _resource(
    tenant: Tenant, subscriber: str, body: dict[str, Any], secrets: list[str] | None = None
) -> dict[str, Any]:
    """Return a subscriber as the API shows it; `secrets` are those that were just made."""
    sink = body["sink"]
    shown = None if sink is None else tenant.hooks.shown(subscriber, sink)
    if shown is not None and secrets:
        shown["secrets"] = secrets
    n = len(tenant.hub.subscriptions_of(subscriber))
    return {"id": subscriber, **body, "sink": shown, "acked": str(tenant.hub.acked(subscriber)), "subscriptions": n}


def _new_secrets(body: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Return the secrets that a sink did not have before."""
    known = set() if before["sink"] is None else set(before["sink"]["secrets"])
    return [] if body["sink"] is None else [each for each in body["sink"]["secrets"] if each not in known]


def _checked(given: dict[str, Any], subscriber: str, before: dict[str, Any], policy: AddressPolicy) -> dict[str, Any]:
    """Return the settings that a body gives, each of its type."""
    only(given, "id", "acked", "subscriptions", *_DEFAULTS)
    if given.get("id", subscriber) != subscriber:
        raise InvalidInput("id is not that of the path", field="id")
    found = {name: given[name] for name in _DEFAULTS if given.get(name) is not None}
    if not isinstance(found.get("paused", False), bool):
        raise InvalidInput(f"paused is {shorten(found['paused'])}; expected true or false", field="paused")
    QuietRules.from_json({name: found[name] for name in QUIET_FIELDS if name in found})
    if "sink" in found:
        found["sink"] = _sink(found["sink"], before["sink"], policy)
    return {**_DEFAULTS, **found}


def _sink(given: Any, before: dict[str, Any] | None, policy: AddressPolicy) -> dict[str, Any]:
    """Return a sink with its secrets: those given, else those that its URL had, else a new one."""
    if isinstance(given, dict):
        given = {name: value for name, value in given.items() if name not in _SHOWN and value is not None}
        if before is not None and given.get("url") == before["url"]:
            given = {"secrets": before["secrets"], **given}
    try:
        sink = HookSink.from_json(given, policy)
    except InvalidInput as error:
        raise problem_of(error, "" if error.field == "sink" else "/sink") from None
    return {"url": sink.url, "secrets": list(sink.secrets)}


def _answer(resource: Any) -> Response:
    return Response(msgspec.json.encode(resource), media_type="application/json")
