"""Routes of messages, locations, events and streams, called without the layers that the framework puts around one.

They are routes of the app as well: other methods get 405 there, and the OpenAPI description knows them. The layers
cost more than these requests themselves, of which there are thousands a second; every event of a stream would go
through them, and they take memory as long as it is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from nearcast.errors import NearcastError
from nearcast.server.parameters import Endpoint
from nearcast.server.problems import Problem, answer_of
from nearcast.server.request_watch import RequestWatch

#: Which part of a path is the id, in `/v1/subscribers/{id}/stream`.
_ID_PART = 3


class HotRequest(Request):
    """A request whose headers are a dict: each lookup among those of Starlette walks through all of them."""

    @property
    def headers(self) -> Headers:
        """Return the headers by their names in lower case; of several with one name the first counts, as ever."""
        if not hasattr(self, "_by_name"):
            given = reversed(self.scope["headers"])
            self._by_name = {name.decode("latin-1"): value.decode("latin-1") for name, value in given}
        return cast(Headers, self._by_name)


class ServerApp(FastAPI):
    """An app that answers its hot routes by itself, and leaves all others to FastAPI.

    A hot route is a method and a path, of which one part may be `{id}`.
    """

    def __init__(self, hot: Mapping[tuple[str, str], Endpoint], **options: Any):
        super().__init__(**options)
        self._hot, self._watch = hot, RequestWatch(self._answer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        endpoint, parameters = self._endpoint_of(scope) if scope["type"] == "http" else (None, {})
        if endpoint is None:
            await super().__call__(scope, receive, send)
            return
        scope["app"], scope["endpoint"], scope["path_params"] = self, endpoint, parameters
        await self._watch(scope, receive, send)

    def _endpoint_of(self, scope: Scope) -> tuple[Endpoint | None, dict[str, str]]:
        """Return the endpoint of a request of a hot route, else None, and the parameters of its path."""
        method, path = scope["method"], scope["path"]
        found = self._hot.get((method, path))
        if found is not None and "{id}" not in path:  # which somebody may be called
            return found, {}
        parts = path.split("/", _ID_PART + 2)
        if len(parts) != _ID_PART + 2 or not parts[_ID_PART]:
            return None, {}
        id_, parts[_ID_PART] = parts[_ID_PART], "{id}"
        return self._hot.get((method, "/".join(parts))), {"id": id_}

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a hot route; errors are answered as the handlers of the app do."""
        endpoint = scope["endpoint"]
        request = HotRequest(scope, receive, send)
        try:
            response = await endpoint(request)
        except (Problem, NearcastError) as error:
            response = answer_of(request, error)
        except ClientDisconnect:
            response = Response(status_code=400)  # nobody reads it
        await response(scope, receive, send)
