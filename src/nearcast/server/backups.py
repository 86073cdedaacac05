"""`/v1/backup`: a copy of the caller's tenant, made while it goes on, in a folder beside the server's data."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from nearcast.server.bodies import only
from nearcast.server.data_folders import backup_tenant
from nearcast.server.keyed_objects import object_once
from nearcast.server.parameters import only_known_parameters
from nearcast.server.problems import Problem, invalid
from nearcast.server.tokens import is_name

router = APIRouter(prefix="/v1", tags=["backup"], dependencies=[Depends(only_known_parameters)])


@router.post("/backup", status_code=201)
async def post_backup(request: Request) -> Response:
    """Copy the caller's tenant into `backups/NAME` of the server's data folder; calls go on meanwhile."""
    caller = await request.app.state.access.caller(request, "admin")
    caller.check_unbound()

    async def make(given: dict[str, Any]) -> Response:
        name = _name_in(given)
        tenant = caller.tenant
        target = tenant.folder.parent.parent / "backups" / name / "tenants" / tenant.name
        try:
            await tenant.call(backup_tenant, tenant.hub, tenant.folder, target)
        except FileExistsError:
            raise Problem(409, "backup-exists", "there is a backup of that name; choose another") from None
        return Response(msgspec.json.encode({"name": name}), 201, media_type="application/json")

    return await object_once(request, caller, make)


def _name_in(given: dict[str, Any]) -> str:
    """Return the name that a body gives a backup."""
    only(given, "name")
    name = given.get("name")
    if not is_name(name):
        raise invalid("/name", "name is missing or no name; expected letters, digits, dots and dashes, at most 100")
    return name
