"""`Idempotency-Key`: a POST under a key that was used before gets the answer it got then; another body is refused.

Answers are rows of `server.db`, kept for 24 hours. Messages are safe beyond that: the hub takes the key into its log
together with them, so that a crash between the two cannot publish them twice. An answer with a secret is not kept: a
repeat is told that it was shown.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from nearcast.errors import FileUnavailable
from nearcast.server.problems import Problem
from nearcast.server.server_db import ServerDb

_MOST_CHARS = 255
#: Stands for whichever subscribers the ids in rejected rows are of; no subscriber has such a name.
_ANYBODY = "*"
#: Headers of an answer that are kept with it.
_KEPT_HEADERS = ("location", "etag", "content-type")


class KeptAnswers:
    """Answers of one tenant by key, and the requests under way."""

    def __init__(self, db: ServerDb, hours: float):
        self._db, self._seconds = db, hours * 3600
        self._under_way: dict[str, asyncio.Future[None]] = {}
        #: Subscribers that were erased while requests were under way, by the number of requests before that.
        self._erased: dict[str, int] = {}
        self._n_requests = 0
        self._swept = 0.0

    async def once(
        self,
        request: Request,
        body: bytes,
        make: Callable[[], Awaitable[Response]],
        token_id: str,
        instead: Callable[[Response], Response] = lambda response: response,
    ) -> Response:
        """Return what `make` returns, or, under a key that was used for the same request, what it returned then.

        `instead` makes of an answer what is kept of it.
        """
        key = key_of(request, token_id)
        if key is None:
            return await make()
        digest = hashlib.sha256(b"\0".join((request.url.path.encode(), request.url.query.encode(), body))).digest()
        while key in self._under_way:
            await asyncio.wait([self._under_way[key]])
        done = self._under_way[key] = asyncio.get_running_loop().create_future()
        self._n_requests += 1
        number = self._n_requests
        try:
            known = self._known(key, digest)
            if known is not None:
                return known
            response = await make()
            kept = instead(response)
            if number > self._last_erasure_about(kept):
                await self._keep(key, digest, kept)
            return response
        finally:
            del self._under_way[key]
            done.set_result(None)
            if not self._under_way:
                self._erased.clear()

    def forget(self, subscriber: str) -> None:
        """Keep no answer of the requests under way about a subscriber that is being erased."""
        if self._under_way:
            self._erased[subscriber] = self._n_requests

    def _known(self, key: str, digest: bytes) -> Response | None:
        statement = "SELECT digest, status, headers, body FROM answers WHERE key = ? AND at > ?"
        for found, status, headers, body in self._db.read(statement, (key, time.time() - self._seconds)):
            if found != digest:
                raise Problem(422, "key-reused", "the Idempotency-Key was used for another request; give another")
            return Response(_repeated(body), status, msgspec.json.decode(headers))
        return None

    def _last_erasure_about(self, response: Response) -> int:
        """Return how many requests there were before the last erasure that an answer may tell of."""
        about = _subject_of(response)
        if about == _ANYBODY:
            return max(self._erased.values(), default=0)
        return self._erased.get(about, 0)

    async def _keep(self, key: str, digest: bytes, response: Response) -> None:
        """Keep an answer, unless the server was to blame for it: then the same request may be made again."""
        if response.status_code >= 500 or response.status_code == 429:
            return
        headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
        now = time.time()
        row = (key, digest, response.status_code, msgspec.json.encode(headers).decode(), bytes(response.body), now)
        sweeps = now - self._swept > 60
        self._swept = now if sweeps else self._swept

        def write(connection: Any) -> None:
            if sweeps:
                connection.execute("DELETE FROM answers WHERE at <= ?", (now - self._seconds,))
            connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)", row)

        with suppress(FileUnavailable):  # what was asked for is done, and of messages the hub knows the key
            await asyncio.wrap_future(self._db.write(write))


def shown_once(request: Request, what: str, next_step: str, subscriber: str | None = None) -> Response:
    """Return what is kept of an answer with a secret: a repeat gets no answer that could be taken for the first.

    It names the subscriber that it is about, so that it goes when that one is erased.
    """
    detail = f"this Idempotency-Key was used: {what} was made, and its secret shown in that answer alone; {next_step}"
    more = {} if subscriber is None else {"subscriber": subscriber}
    return Problem(409, "shown-once", detail, more=more).response(request.url.path)


def key_of(request: Request, token_id: str) -> str | None:
    """Return the key of a request, which is one of its token alone; None if it has none."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not key or len(key) > _MOST_CHARS or not key.isprintable():
        raise Problem(400, "idempotency-key", f"Idempotency-Key must be 1 to {_MOST_CHARS} printable characters")
    return f"{token_id}:{key}"


def _subject_of(response: Response) -> str:
    """Return the subscriber of a subscription that was made; `_ANYBODY` of rejected rows, empty if there is none."""
    try:
        found = msgspec.json.decode(response.body)
    except msgspec.DecodeError:
        return ""
    if not isinstance(found, dict):
        return ""
    return _ANYBODY if found.get("rejected") else str(found.get("subscriber") or "")


def _repeated(body: bytes) -> bytes:
    """Return an answer with `repeated` set, where it has that field."""
    return body.replace(b'"repeated":false', b'"repeated":true', 1)
