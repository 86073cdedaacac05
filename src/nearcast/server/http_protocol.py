"""HTTP as uvicorn reads it, but for what is no HTTP: that is refused as a problem, too."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nearcast.server.problems import PROBLEM_TYPE, Problem

_DETAIL = (
    "the request is no HTTP that is known here: another method, a length that is none, or a character that no header "
    "or path may have (a zero byte, a line end)"
)


class ProblemProtocol(HttpToolsProtocol):
    """A connection whose unreadable requests are answered with `application/problem+json`."""

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be read, and close."""
        body = bytes(Problem(400, "invalid-http", _DETAIL).response("").body)
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: {PROBLEM_TYPE}\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(head.encode("ascii") + b"connection: close\r\n\r\n" + body)
        self.transport.close()
