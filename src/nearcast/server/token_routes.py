"""`/v1/tokens`: the tokens of the caller's tenant, made, listed and revoked by admins."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from nearcast.geo.shapes import shorten
from nearcast.server.bodies import only
from nearcast.server.idempotency import shown_once
from nearcast.server.keyed_objects import object_once
from nearcast.server.parameters import only_known_parameters
from nearcast.server.problems import Problem, invalid
from nearcast.server.tokens import Token, TokenStore, checked_end

router = APIRouter(prefix="/v1/tokens", tags=["tokens"], dependencies=[Depends(only_known_parameters)])


def _answer(found: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(found), status, {"Cache-Control": "no-store"}, media_type="application/json")


@router.post("", status_code=201)
async def post_token(request: Request) -> Response:
    """Make a token of the caller's tenant; its secret is in this answer and never again."""
    access = request.app.state.access
    caller = await access.caller(request, "admin")
    made: list[Token] = []

    async def make(given: dict[str, Any]) -> Response:
        secret, token = await caller.tenant.call(_made, access.tokens, caller.tenant.name, given)
        made.append(token)
        return _answer({**token.to_json(), "token": secret}, 201)

    def instead(_: Response) -> Response:
        next_step = f"revoke it (DELETE /v1/tokens/{made[0].id}) and make another under another key"
        return shown_once(request, f"the token {made[0].id}", next_step)

    return await object_once(request, caller, make, instead)


def _made(tokens: TokenStore, tenant: str, given: dict[str, Any]) -> tuple[str, Token]:
    """Return the secret of a new token, and what is kept of it; in a thread."""
    only(given, "scopes", "subscriber", "name", "expires")
    name = given.get("name", "")
    if not isinstance(name, str) or len(name) > 200:
        raise invalid("/name", f"name is {shorten(name)}; expected text of at most 200 characters")
    expires = checked_end(given.get("expires"))
    return tokens.create(tenant, given.get("scopes"), subscriber=given.get("subscriber"), name=name, expires=expires)


@router.get("")
async def get_tokens(request: Request) -> Response:
    """List the tokens of the caller's tenant, without their secrets."""
    access = request.app.state.access
    caller = await access.caller(request, "admin")
    found = await caller.tenant.call(access.tokens.of_tenant, caller.tenant.name)
    return _answer({"items": [token.to_json() for token in found]})


@router.delete("/{id}", status_code=204)
async def delete_token(request: Request, id: str) -> Response:  # noqa: A002  the name in the path
    """Revoke a token."""
    access = request.app.state.access
    caller = await access.caller(request, "admin")
    if not await caller.tenant.call(access.tokens.revoke, caller.tenant.name, id):
        raise Problem(404, "unknown-token", "there is no token with that id")
    return Response(status_code=204)
