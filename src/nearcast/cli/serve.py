"""`nearcast serve`: the HTTP server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearcast.cli._console import UsageMistake

_NEEDS_EXTRA = "the server needs more packages; install them with: pip install 'nearcast[server]'"


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; 127.0.0.1 unless given.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port, 0 for any; 8080 unless given.")] = None,
    data: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Where all is kept; nearcast-data unless given.")
    ] = None,
    overlay: Annotated[
        Path | None, typer.Option(metavar="GEOJSON", help="A file that the page draws under all else: streets, say.")
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="TOML", help="A file of settings.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="A setting, for instance limits.batch=500."),
    ] = None,
) -> int:
    """Serve subscriptions, messages and events over HTTP until interrupted; what was answered with 2xx is on disk.

    Settings come from the command line, else from the environment (NEARCAST_LIMITS__BATCH=500), else from the file.
    """
    try:
        from nearcast.server.run import serve as run
        from nearcast.server.settings import load_settings
    except ImportError as error:
        raise UsageMistake(f"{_NEEDS_EXTRA} ({error})") from None
    given: dict[str, dict[str, Any]] = {"server": {}}
    for name, value in (("host", host), ("port", port), ("data", data), ("overlay", overlay)):
        if value is not None:
            given["server"][name] = str(value) if isinstance(value, Path) else value
    for each in setting or []:
        path, is_set, value = each.partition("=")
        section, is_named, key = path.partition(".")
        if not is_set or not is_named:
            raise UsageMistake(f"--set {each} is no setting; expected SECTION.KEY=VALUE")
        given.setdefault(section, {})[key] = value
    run(load_settings(config, given=given), lambda url: typer.echo(f"nearcast listens on {url}", err=True))
    return 0
