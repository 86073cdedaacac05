"""`/v1/tokens`: the tokens of the caller's tenant, made, listed and revoked by admins."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from nearcast.geo.shapes import shorten
from nearcast.model import checked_time
from nearcast.server.bodies import object_of, only
from nearcast.server.problems import Problem, invalid

router = APIRouter(prefix="/v1/tokens", tags=["tokens"])


def _answer(found: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(found), status, {"Cache-Control": "no-store"}, media_type="application/json")


@router.post("", status_code=201)
async def post_token(request: Request) -> Response:
    """Make a token of the caller's tenant; its secret is in this answer and never again."""
    access = request.app.state.access
    caller = await access.caller(request, "admin")
    given = await object_of(request, request.app.state.settings.limits.body_bytes)
    only(given, "scopes", "subscriber", "name", "expires")
    name = given.get("name", "")
    if not isinstance(name, str) or len(name) > 200:
        raise invalid("/name", f"name is {shorten(name)}; expected text of at most 200 characters")
    expires = checked_time(given.get("expires"), "expires")
    if expires is not None and expires.timestamp() <= time.time():
        raise invalid("/expires", "expires is in the past; give a later time")
    secret, kept = await caller.tenant.call(
        access.tokens.create,
        caller.tenant.name,
        given.get("scopes"),
        subscriber=given.get("subscriber"),
        name=name,
        expires=None if expires is None else expires.timestamp(),
    )
    return _answer({**kept.to_json(), "token": secret}, 201)


@router.get("")
async def get_tokens(request: Request) -> Response:
    """List the tokens of the caller's tenant, without their secrets."""
    access = request.app.state.access
    caller = await access.caller(request, "admin")
    return _answer({"items": [token.to_json() for token in access.tokens.of_tenant(caller.tenant.name)]})


@router.delete("/{id}", status_code=204)
async def delete_token(request: Request, id: str) -> Response:  # noqa: A002  the name in the path
    """Revoke a token."""
    access = request.app.state.access
    caller = await access.caller(request, "admin")
    if not await caller.tenant.call(access.tokens.revoke, caller.tenant.name, id):
        raise Problem(404, "unknown-token", "there is no token with that id")
    return Response(status_code=204)
