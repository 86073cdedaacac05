"""Parameters in the query of a request: those that a route does not take are refused, not passed over."""

from __future__ import annotations

from fastapi import Request
from fastapi.routing import APIRoute

from nearcast.model.spelling import did_you_mean
from nearcast.server.problems import Problem, at


async def only_known_parameters(request: Request) -> None:
    """Raise if the query has a name that the route does not know: a misspelt `validateOnly` would store."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    names = [each.alias for each in route.dependant.query_params]  # codespell:ignore dependant  FastAPI's word
    for name in request.query_params:
        if name not in names:
            instead = did_you_mean(name, names) or f"; expected {', '.join(names) or 'no parameters'}"
            message = f"{name[:40]!r} means nothing here{instead}"
            raise Problem(422, "invalid-parameter", message, [at(f"?{name[:40]}", message)])
