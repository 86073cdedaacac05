"""Errors of a server as exceptions: problems of RFC 9457, and a server that cannot be reached."""

from __future__ import annotations

from typing import Any

import httpx2

from nearcast.errors import NearcastError

_UNAUTHORIZED, _GONE = 401, 404
_TYPE = "urn:nearcast:problem:"
#: What may pass by itself: too many requests, a server that stops or starts, a full disk.
MAY_PASS = frozenset((429, 502, 503, 504, 507))
#: Answers of a proxy before the server, which may have lost its answer, and of a hub whose disk failed in the call.
_MAY_BE_DONE = frozenset((502, 503, 504))
#: Those of them after which a token that is refused may have ended by the call: a proxy says 503 if it reached nobody.
_MAY_END_TOKEN = frozenset((502, 504))
_STOPPED = "hub-stopped"


class ServerProblem(NearcastError):
    """A request that the server refused. `errors` has what is wrong with which part of it: pointer and message.

    `slug` is the name of the problem, such as `unknown-message`; None if the answer is of no nearcast server.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        errors: list[dict[str, Any]],
        retry_after_s: float | None,
        slug: str | None = None,
    ):
        self.status, self.title, self.detail, self.errors = status, title, detail, errors
        self.retry_after_s, self.slug = retry_after_s, slug
        self.may_pass = status in MAY_PASS
        parts = [f"{status} {title}".strip(), detail, *(_told(each, detail) for each in errors)]
        super().__init__("; ".join(part for part in parts if part))

    @property
    def may_be_done(self) -> bool:
        """Tell whether what was asked for may have been done all the same."""
        return self.status in _MAY_BE_DONE

    @property
    def may_have_ended_token(self) -> bool:
        """Tell whether the token may have ended by what was asked for."""
        return self.status in _MAY_END_TOKEN or self.slug == _STOPPED

    @property
    def is_unknown(self) -> bool:
        """Tell whether what was asked for is not there."""
        return self.status == _GONE

    @property
    def is_unauthorized(self) -> bool:
        """Tell whether the token is none that the server knows."""
        return self.status == _UNAUTHORIZED


def _told(error: dict[str, Any], detail: str) -> str:
    """Return where an error is, and what it is unless the detail says it."""
    return f"at {error.get('pointer')}" + ("" if error.get("message") == detail else f": {error.get('message')}")


class ServerUnavailable(NearcastError):
    """The server cannot be reached, or the connection broke: whether a request was taken is not known."""

    may_pass = True
    #: Whether the server may have done what was asked for: not if there was no connection.
    may_be_done = True

    @property
    def may_have_ended_token(self) -> bool:
        """Tell whether the token may have ended by what was asked for."""
        return self.may_be_done


def check_response(response: httpx2.Response) -> httpx2.Response:
    """Return a response; raise `ServerProblem` if it is none of success."""
    if response.is_success:
        return response
    try:
        found = response.json()
    except ValueError:
        found = {}
    found = found if isinstance(found, dict) else {}
    errors = found.get("errors")
    raise ServerProblem(
        response.status_code,
        str(found.get("title") or response.reason_phrase),
        str(found.get("detail") or ""),
        errors if isinstance(errors, list) else [],
        _seconds(response.headers.get("retry-after")),
        slug_of(found),
    )


def slug_of(found: dict[str, Any]) -> str | None:
    """Return the name of a problem from its `type`, None if that is none of nearcast."""
    kind = str(found.get("type"))
    return kind.removeprefix(_TYPE) if kind.startswith(_TYPE) else None


def unreadable(path: str, status: int, error: object) -> ServerProblem:
    """Return the error of an answer that no nearcast server gives."""
    detail = f"the answer of {path} cannot be read: {error}; is this a nearcast server?"
    return ServerProblem(status, "unexpected answer", detail, [], None)


def unavailable(url: str, error: Exception) -> ServerUnavailable:
    """Return the error of a connection that failed."""
    found = ServerUnavailable(f"{url} cannot be reached ({type(error).__name__}: {error}); is the server running?")
    found.may_be_done = not isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout))
    return found


def _seconds(given: str | None) -> float | None:
    return float(given) if given is not None and given.isdecimal() else None
