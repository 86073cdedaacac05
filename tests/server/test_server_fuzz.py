"""Requests at random: never a 5xx, never a change by what was refused, and every refusal is a problem of RFC 9457.

`make test` has the first 400 of two rounds, `make test-faults` NEARCAST_FUZZ of them from number NEARCAST_FUZZ_FROM on.
A failure names its number: `NEARCAST_FUZZ=1 NEARCAST_FUZZ_FROM=4711 pytest tests/server/test_server_fuzz.py -k many`
repeats it, unless it depends on those before it, of which ROUND at most count.
"""

import asyncio
import contextlib
import json
import os
import shutil
from urllib.parse import quote

import pytest
from fuzzed_requests import fuzzed

from nearcast.server.app import create_app
from support.http_server import settings_for

MANY, FIRST = int(os.environ.get("NEARCAST_FUZZ") or 0), int(os.environ.get("NEARCAST_FUZZ_FROM") or 0)
#: Requests that one data folder gets; every other one has a window, and so takes top-k subscriptions.
ROUND, FEW = 1_000, 400


class AsgiServer:
    """An app without sockets: headers come through that no client would send."""

    def __init__(self, app):
        self._app = app

    @property
    def tenant(self):
        return self._app.state.tenants._open["default"]

    async def answer(self, request):
        """Return status, headers and body of the answer to a request; who asked is gone after the body."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": request.path,
            "raw_path": quote(request.path).encode(),
            "query_string": request.query.encode("utf-8", "replace"),
            "root_path": "",
            "headers": self._headers(request),
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        coming = [request.body[: len(request.body) // 2], request.body[len(request.body) // 2 :]]
        sent = []

        async def receive():
            if not coming:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": coming.pop(0), "more_body": bool(coming)}

        async def send(message):
            sent.append(message)

        await self._app(scope, receive, send)
        head = next(each for each in sent if each["type"] == "http.response.start")
        body = b"".join(each.get("body", b"") for each in sent if each["type"] == "http.response.body")
        return head["status"], dict(head["headers"]), body

    @staticmethod
    def _headers(request):
        given = [(name.encode(), value.encode("latin-1")) for name, value in request.headers]
        has_host = any(name == b"host" for name, _ in given)
        return given if has_host else [(b"host", b"127.0.0.1"), *given]

    def state(self):
        """Return what a change would change."""
        stats = self.tenant.hub.stats()
        rows = [
            self.tenant.db.read(f"SELECT {columns} ORDER BY 1")
            for columns in (
                "* FROM subscriptions",
                "* FROM subscribers",
                "id, subscriber, most, since FROM event_limits",
            )
        ]
        # A webhook's events are acknowledged when they are taken over, whoever asks for what meanwhile.
        with_sink = {name for name, settings in rows[1] if json.loads(settings)["sink"]}
        acked = [str(self.tenant.hub.acked(name)) for name in ("anna", "f1", "f2", "f3") if name not in with_sink]
        return stats["subscriptions"], stats["published"], stats["delivered"], rows, acked


@contextlib.asynccontextmanager
async def serving(data, window=None):
    """Run an app over a data folder, without sockets."""
    limits = {"rate": "", "wait_seconds": 0.0, "body_bytes": 50_000, "batch": 100}
    app = create_app(settings_for(data, limits=limits, hub={} if window is None else {"window": window}))
    async with app.router.lifespan_context(app):
        yield AsgiServer(app)


def check_problem(status, headers, body, request):
    """Check that a refusal is a problem that helps."""
    if request.method == "HEAD":
        return
    assert b"application/problem+json" == headers[b"content-type"]
    found = json.loads(body)
    assert {"type", "title", "status", "detail", "instance"} <= set(found)
    assert status == found["status"]
    assert found["type"].startswith("urn:nearcast:problem:")
    assert all(isinstance(found[name], str) for name in ("type", "title", "detail", "instance"))
    assert "\n" not in found["detail"]
    for each in found.get("errors", []):
        assert isinstance(each["pointer"], str)
        assert isinstance(each["message"], str)


async def fuzz(data, first, last):
    """Send the requests of a round to one server; return how many were refused, and how many were not."""
    refused = taken = 0
    async with serving(data, window="50" if first // ROUND % 2 else None) as server:
        before = server.state()
        for number in range(first, last):
            request = fuzzed(number)
            try:
                status, headers, body = await server.answer(request)
                assert status < 500, body
                if status >= 400:
                    refused += 1
                    check_problem(status, headers, body, request)
                    assert not request.may_change or before == server.state(), "what was refused made a change"
                else:
                    taken += 1
                    before = server.state() if request.may_change else before
            except Exception as error:
                raise AssertionError(f"number {number}: {request}") from error
    return refused, taken


def test_no_request_makes_the_server_fail_or_change_by_what_it_refuses(tmp_path):
    """Queries, GeoJSON, bodies, headers, parameters and paths; part of them is in order, and is taken."""
    for first in (0, ROUND):
        refused, taken = asyncio.run(fuzz(tmp_path / str(first), first, first + FEW))
        assert min(refused, taken) > FEW // 10


@pytest.mark.skipif(not MANY, reason="make test-faults")
def test_many_requests(tmp_path):
    """As above, with other numbers."""
    first, end = FIRST, FIRST + MANY
    while first < end:
        last = min(end, (first // ROUND + 1) * ROUND)
        refused, taken = asyncio.run(fuzz(tmp_path / str(first), first, last))
        shutil.rmtree(tmp_path / str(first))
        print(f"fuzz: numbers {first:,} to {last - 1:,}, {refused:,} refused, {taken:,} taken", flush=True)  # noqa: T201
        first = last
