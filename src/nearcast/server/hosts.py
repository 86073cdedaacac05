"""The check of `Host` and `Origin` on loopback, against pages that rename themselves to 127.0.0.1 (DNS rebinding)."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from nearcast.server.problems import Problem

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def check_host(headers: Headers, allowed: tuple[str, ...]) -> None:
    """Raise unless `Host` is a name of loopback or an allowed one, and `Origin`, where given, is the same."""
    names = (*_LOOPBACK, *allowed)
    host = headers.get("host", "")
    if _name(f"//{host}") not in names:
        raise Problem(421, "wrong-host", "Host is not a name of this server; add it to allowed_hosts if it should be")
    origin = headers.get("origin")
    if origin is not None and _name(origin) not in names:
        raise Problem(
            403, "wrong-origin", "Origin is not a name of this server; add it to allowed_hosts if it should be"
        )


@lru_cache(maxsize=64)  # few hosts make all requests
def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""
