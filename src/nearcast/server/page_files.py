"""`/` and `/page/…`: the page that shows the server at work: static files of the package, under a strict policy."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from nearcast.server.hosts import check_host
from nearcast.server.problems import Problem

_FOLDER = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
#: No script but ours, no inline script or style, no other host, no frames.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@cache
def _files() -> dict[str, Path]:
    """Return the files of the page by their path; nothing else can be asked for."""
    found = (path for path in _FOLDER.rglob("*") if path.is_file() and path.suffix in _TYPES)
    return {path.relative_to(_FOLDER).as_posix(): path for path in found}


async def get_page(request: Request) -> Response:
    """Return the page, or one of its files."""
    settings = request.app.state.settings
    if settings.is_loopback:
        check_host(request.headers, settings.server.allowed_hosts)
    name = request.path_params.get("name", "index.html")
    if name == "overlay.geojson":
        return await _overlay(settings.server.overlay)
    path = _files().get(name)
    if path is None:
        raise Problem(404, "unknown-file", "the page has no such file")
    content = await run_in_threadpool(path.read_bytes)
    return Response(content, headers=_HEADERS, media_type=_TYPES[path.suffix])


async def _overlay(file: str | None) -> Response:
    """Return what is drawn under all else, 204 if nothing is."""
    if file is None:
        return Response(status_code=204, headers=_HEADERS)
    content = await run_in_threadpool(Path(file).read_bytes)
    return Response(content, headers=_HEADERS, media_type="application/geo+json")
