"""What is done around every request: counting, headers that keep browsers safe, and an answer to defects.

Defects are logged without what the error says: it may hold a place or a text.
"""

from __future__ import annotations

import logging
import time
import traceback

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nearcast.server.problems import Problem

_log = logging.getLogger("nearcast.server")
_SAFE_HEADERS = [
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


class RequestWatch:
    """Passes requests on and looks at their answers."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; count it by route and status in the metrics of the caller's tenant."""
        if scope["type"] == "websocket":
            await self._app(scope, *_watched_socket(scope, receive, send))
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name for name, _ in message.get("headers", ())}
                message["headers"] = [*message.get("headers", ()), *(h for h in _SAFE_HEADERS if h[0] not in given)]
            elif message.get("more_body"):
                _check_token(scope)
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:  # noqa: BLE001  a defect: it is answered and logged, and stops nobody else
            _log_defect(error)
            if not status:
                detail = f"the server failed ({type(error).__name__}); its log says where"
                await Problem(500, "defect", detail).response(scope["path"])(scope, receive, watched)
        finally:
            _count(scope, status, time.perf_counter() - begin)


def _watched_socket(scope: Scope, receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Return the two ends of a socket that pass nothing on when its token has ended."""

    async def received() -> Message:
        message = await receive()
        if message["type"] == "websocket.receive":
            _check_token(scope)
        return message

    async def sent(message: Message) -> None:
        if message["type"] == "websocket.send":
            _check_token(scope)
        await send(message)

    return received, sent


def _check_token(scope: Scope) -> None:
    """Raise if the token of a stream has expired, or was revoked, since it was opened: whoever runs it ends it."""
    watch = scope.get("state", {}).get("watch")
    if watch is not None:
        watch.check()


def _log_defect(error: BaseException) -> None:
    where = "".join(traceback.format_tb(error.__traceback__)[-5:])
    _log.error("defect: %s\n%s", type(error).__name__, where)


def _count(scope: Scope, status: int, seconds: float) -> None:
    metrics = scope.get("state", {}).get("metrics")
    if metrics is not None:
        metrics.count_request(getattr(scope.get("endpoint"), "__name__", "other"), status, seconds)
