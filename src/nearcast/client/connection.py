"""What both clients share of a connection: its options, checked, and reading answers and streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import httpx2

from nearcast.client.calls import ServerCall, stream_path
from nearcast.client.events import EventStreamParser, RemoteEvent
from nearcast.client.problems import ServerProblem, ServerUnavailable, check_response, unreadable
from nearcast.client.retries import Retrying
from nearcast.errors import InvalidInput
from nearcast.geo import Space
from nearcast.geo.shapes import shorten

Answer = TypeVar("Answer")
#: A stream that says nothing for so long is broken, whatever the timeout of requests: servers say something every 15 s.
_SILENCE_S = 60.0


def client_options(url: str, token: str | None, timeout: float) -> dict[str, Any]:
    """Return the options of an httpx client; `InvalidInput` if it could not send anything with them."""
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise InvalidInput(f"url is {shorten(url)}; expected one like http://127.0.0.1:8080", field="url")
    headers = {"user-agent": "nearcast", "accept": "application/json"}
    if token is not None:
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise InvalidInput("token is empty, or has spaces, line ends or letters that no token has", field="token")
        headers["authorization"] = f"Bearer {token}"
    try:
        return {"base_url": httpx2.URL(url), "headers": headers, "timeout": timeout, "trust_env": False}
    except httpx2.InvalidURL as error:
        raise InvalidInput(f"url is {shorten(url)}: {error}", field="url") from None


def checked_space(given: str | Space) -> Space:
    """Return the space of a server's hub, given by name or as itself."""
    if isinstance(given, Space):
        return given
    if given not in ("earth", "plane"):
        raise InvalidInput(f"space is {shorten(given)}; expected 'earth', 'plane' or a Space", field="space")
    return Space.earth() if given == "earth" else Space.plane()


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
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(call.path, response.status_code, repr(error)) from None


def is_done(call: ServerCall[Answer], error: ServerProblem | ServerUnavailable, retrying: Retrying) -> bool:
    """Tell whether a refusal is as good as an answer: what is not there may be missing, or the answer was lost.

    A deletion that was made finds nothing when it is made again, or its token has ended with what it deleted.
    """
    if not isinstance(error, ServerProblem):
        return False
    if call.missing_slug is not None and error.slug == call.missing_slug:
        return True
    if call.method != "DELETE":
        return False
    has_ended = call.may_end_token and retrying.may_have_ended_token and error.is_unauthorized
    return has_ended or (retrying.is_unsure and error.is_unknown)


class OpenStream:
    """One connection of a subscriber's stream: how it is asked for, and how its bytes are read."""

    def __init__(self, subscriber: str, after: str | None, timeout: float):
        self._path, self._parser = stream_path(subscriber), EventStreamParser()
        headers = {"accept": "text/event-stream"} | ({} if after is None else {"last-event-id": after})
        limits = httpx2.Timeout(timeout, read=max(timeout, _SILENCE_S))
        self.request: dict[str, Any] = {"method": "GET", "url": self._path, "headers": headers, "timeout": limits}

    @property
    def has_lasted(self) -> bool:
        """Tell whether the stream has stood for a while."""
        return self._parser.has_lasted

    def check(self, response: httpx2.Response) -> None:
        """Raise if an answer, whose body was read unless it is one of success, is no stream of events."""
        check_response(response)
        kind = response.headers.get("content-type", "")
        if not kind.startswith("text/event-stream"):
            raise unreadable(self._path, response.status_code, f"it is {kind or 'of no type'}, not text/event-stream")

    def events(self, chunk: bytes) -> Iterator[RemoteEvent]:
        """Yield the events that some bytes complete."""
        try:
            yield from self._parser.feed(chunk)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise unreadable(self._path, 200, repr(error)) from None

    def ended(self) -> ServerUnavailable:
        """Return the error of a stream that the server ended: it stops, or the client reads too slowly."""
        reason = self._parser.close_reason
        return ServerUnavailable("the server ended the stream" + (f": {reason}" if reason else ""))
