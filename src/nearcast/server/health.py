"""`/healthz` and `/readyz`: whether the process answers, and whether its hubs take changes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response


async def healthz(_: Request) -> Response:
    """Answer that the process runs."""
    return JSONResponse({"status": "ok"})


async def readyz(request: Request) -> Response:
    """Answer whether all hubs are open and none has stopped."""
    tenants = request.app.state.tenants
    stopped = [tenant for tenant in tenants if tenant.hub.is_stopped]
    if not tenants.is_ready or stopped:
        return JSONResponse({"status": "stopped" if stopped else "starting"}, 503, {"Retry-After": "1"})
    return JSONResponse({"status": "ready"})
