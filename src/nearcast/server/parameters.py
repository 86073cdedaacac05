"""Parameters of requests: ids in paths, and names in queries, of which those that a route does not take are refused."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeAlias

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import HTTPConnection
from starlette.responses import Response

from nearcast.model.spelling import did_you_mean
from nearcast.server.problems import Problem, at

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "number"}
_PAGE = {"cursor": _TEXT, "limit": _NUMBER}
#: Parameters that routes read by themselves, by method and path, with schemas. Those of other routes FastAPI knows.
QUERIES: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
    ("GET", "/v1/messages"): {"id": _TEXT},
    ("GET", "/v1/subscribers/{id}/events"): {**_PAGE, "wait": _NUMBER},
    # Who cannot set a header when it connects again sends its last event in the query, by this name.
    ("GET", "/v1/subscribers/{id}/stream"): {"cursor": _TEXT, "lastEventId": _TEXT},
    ("GET", "/v1/deliveries"): {"message": _TEXT, "subscriber": _TEXT, "status": _TEXT, **_PAGE},
    ("GET", "/v1/dead-letters"): {"subscriber": _TEXT, **_PAGE},
    ("GET", "/v1/map"): {"bbox": _TEXT, "zoom": _NUMBER},
}
#: Those of them without which there is no answer.
REQUIRED = frozenset({("GET", "/v1/messages", "id")})


class AnyTextConvertor(Convertor[str]):
    """The rest of a path, whatever it holds: `{id:any}` takes slashes and line ends, and may be empty."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        """Return the text as it is; percent signs were decoded before."""
        return value

    def to_string(self, value: str) -> str:
        """Return the text as it is."""
        return value


register_url_convertor("any", AnyTextConvertor())


def check_parameters(connection: HTTPConnection, names: Collection[str]) -> None:
    """Raise if the query has another name than these: who misspells `cursor` would get all from the beginning.

    No value may hold a zero byte, and none may be given twice: one of them would be left out.
    """
    if not connection.scope["query_string"]:
        return
    given = connection.query_params.multi_items()
    for name, value in given:
        if name not in names:
            instead = did_you_mean(name, names) or f"; expected {', '.join(names) or 'no parameters'}"
            message = f"{name[:40]!r} means nothing here{instead}"
            raise Problem(422, "invalid-parameter", message, [at(f"?{name[:40]}", message)])
        if len(given) > len(connection.query_params) and len(connection.query_params.getlist(name)) > 1:
            message = f"{name} is given more than once; give one"
            raise Problem(422, "invalid-parameter", message, [at(f"?{name}", message)])
        if "\0" in value:
            message = f"{name} holds a zero byte (U+0000); remove it"
            raise Problem(422, "zero-byte", message, [at(f"?{name}", message)])


async def only_known_parameters(request: Request) -> None:
    """Raise if the query has a name that the route of a router does not know; a dependency of the router."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    names = [each.alias for each in route.dependant.query_params]  # codespell:ignore dependant  FastAPI's word
    check_parameters(request, [*names, *QUERIES.get((request.method, route.path), ())])


def with_known_parameters(endpoint: Endpoint, method: str, path: str) -> Endpoint:
    """Return the endpoint of a plain route, which refuses parameters that the route does not take."""
    names = QUERIES.get((method, path), {})

    @functools.wraps(endpoint)
    async def checked(request: Request) -> Response:
        check_parameters(request, names)
        return await endpoint(request)

    return checked
