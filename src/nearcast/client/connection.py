"""What both clients share of a connection: headers, and reading an answer."""

from __future__ import annotations

from typing import Any, TypeVar

import httpx2

from nearcast.client.calls import ServerCall
from nearcast.client.problems import ServerProblem, check_response

Answer = TypeVar("Answer")


def headers_of(token: str | None) -> dict[str, str]:
    """Return the headers of every request."""
    found = {"user-agent": "nearcast", "accept": "application/json"}
    return found if token is None else {**found, "authorization": f"Bearer {token}"}


def stream_headers(after: str | None) -> dict[str, str]:
    """Return the headers of a stream that goes on after a cursor."""
    found = {"accept": "text/event-stream"}
    return found if after is None else {**found, "last-event-id": after}


def request_options(call: ServerCall[Answer], timeout: float) -> dict[str, Any]:
    """Return the options of a request, as both kinds of httpx clients take them."""
    return {
        "params": call.params,
        "content": call.body,
        "headers": {"content-type": call.content_type, **call.headers},
        "timeout": timeout + call.wait_s,
    }


def read_answer(call: ServerCall[Answer], response: httpx2.Response) -> Answer:
    """Return what a call returns; raise the problem that the server had with it."""
    check_response(response)
    if not response.content:
        return call.read(None)
    try:
        return call.read(response.json())
    except (ValueError, KeyError, TypeError) as error:
        detail = f"the answer of {call.path} cannot be read: {error!r}; is this a nearcast server?"
        raise ServerProblem(response.status_code, "unexpected answer", detail, [], None) from None
