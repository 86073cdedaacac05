"""Problems: how a request is refused, as `application/problem+json` (RFC 9457) with pointers into what was sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from nearcast.errors import (
    FileUnavailable,
    HubStopped,
    InvalidInput,
    InvalidQuery,
    NotSupported,
    UnknownSubscription,
)

PROBLEM_TYPE = "application/problem+json"

_TITLES = {
    400: "The request cannot be read",
    401: "A token is needed",
    403: "The token does not allow this",
    404: "There is no such thing",
    405: "The method is not allowed here",
    406: "No such form of answer",
    408: "The request took too long",
    409: "The request contradicts what is there",
    412: "The resource has changed",
    413: "The request is too large",
    415: "The content type is not understood",
    421: "The request was sent to the wrong server",
    422: "The content cannot be used",
    429: "Too many requests",
    500: "The server failed",
    501: "Not available here",
    503: "The server cannot take this now",
    507: "The disk is full",
}


class OverLimit(InvalidInput):
    """Something given is more than a setting of the server allows."""

    def __init__(self, message: str, *, field: str, limit: str, given: int, allowed: int):
        super().__init__(message, field=field)
        #: The name of the setting, what was given, and what it allows.
        self.members = {"limit": limit, "given": given, "allowed": allowed}


@dataclass
class Problem(Exception):
    """A refusal: status, slug of its type, detail, errors with pointers, `more` members; `headers` go with it."""

    status: int
    slug: str
    detail: str
    errors: list[dict[str, Any]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.detail

    @property
    def type(self) -> str:
        """Return the name of the problem as a URI."""
        return f"urn:nearcast:problem:{self.slug}"

    def to_json(self, instance: str) -> dict[str, Any]:
        """Return the problem as the object of RFC 9457."""
        found: dict[str, Any] = {
            "type": self.type,
            "title": _TITLES.get(self.status, "The request was refused"),
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
            **self.more,
        }
        return {**found, "errors": self.errors} if self.errors else found

    def response(self, instance: str) -> Response:
        """Return the answer."""
        content = msgspec.json.encode(self.to_json(instance))
        return Response(content, self.status, headers=self.headers, media_type=PROBLEM_TYPE)


def at(pointer: str, message: str, **more: Any) -> dict[str, Any]:
    """Return an error of a problem: what is wrong at a JSON pointer."""
    return {"pointer": pointer, "message": message, **more}


def invalid(pointer: str, message: str, slug: str = "invalid-content") -> Problem:
    """Return the problem of a value that cannot be used."""
    return Problem(422, slug, message, [at(pointer, message)])


def pointer_to(*names: str | int) -> str:
    """Return the JSON pointer (RFC 6901) to a place in nested values."""
    return "".join(f"/{str(name).replace('~', '~0').replace('/', '~1')}" for name in names)


def names_of_pointer(pointer: str) -> tuple[str, ...]:
    """Return the names on the way that a JSON pointer leads."""
    return tuple(name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:])


def problem_of(error: Exception, prefix: str = "", *, names: tuple[str, ...] | None = None) -> Problem:
    """Return the problem of an error of nearcast.

    `prefix` points at the value that it is about, `names` lead from there to what is wrong: the field unless given.
    """
    detail = str(error)
    if isinstance(error, InvalidInput):
        pointer = prefix + pointer_to(*(names if names is not None else (error.field,) if error.field else ()))
        if isinstance(error, InvalidQuery):
            return _of_query(error, pointer)
        more = error.members if isinstance(error, OverLimit) else {}
        return Problem(422, _slug(error), detail, [at(pointer, detail, **more)])
    if isinstance(error, UnknownSubscription):
        return Problem(404, "unknown-subscription", detail)
    if isinstance(error, FileUnavailable):
        return Problem(507, "disk-full", detail, headers={"Retry-After": "5"})
    if isinstance(error, HubStopped):
        return Problem(503, "hub-stopped", detail)
    if isinstance(error, NotSupported):
        return Problem(422, "not-supported", detail, [at(prefix, detail)])
    return Problem(500, "failed", detail)


def _of_query(error: InvalidQuery, pointer: str) -> Problem:
    lines = str(error).splitlines()
    caret = {"caret": "\n".join(lines[-2:])} if len(lines) > 2 else {}
    where = {} if error.line is None else {"line": error.line, "column": error.column}
    return Problem(422, "invalid-query", error.reason, [at(pointer, error.reason, **where, **caret)])


def _slug(error: InvalidInput) -> str:
    """Return the name of a class of errors in lower case with dashes."""
    name = type(error).__name__
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")


def answer_of(request: Request, error: Exception) -> Response:
    """Return the answer to a request that raised; one that has no body is wrong in its parameters."""
    problem = error if isinstance(error, Problem) else problem_of(error)
    if request.method == "GET":
        for each in problem.errors:
            each["pointer"] = each["pointer"].replace("/", "?", 1) if each["pointer"][:1] == "/" else each["pointer"]
    return problem.response(request.url.path)


def of_http_error(status: int, detail: str, headers: Mapping[str, str] | None) -> Problem:
    """Return the problem of an error of the framework: no such route, a method that is not allowed."""
    slugs = {404: "no-such-route", 405: "method-not-allowed"}
    details = {404: "there is no such route; /openapi.json lists them", 405: "this route does not take the method"}
    return Problem(status, slugs.get(status, "refused"), details.get(status, detail), headers=dict(headers or {}))
