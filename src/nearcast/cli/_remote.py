"""What the commands that talk to a server share: its address, the token, and how answers are printed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._console import UsageMistake

if TYPE_CHECKING:
    from nearcast.client import Client

UrlOption = Annotated[
    str, typer.Option("--url", metavar="URL", envvar="NEARCAST_URL", help="Where the server listens.")
]
SubscriberOption = Annotated[str | None, typer.Option("--subscriber", metavar="ID", help="Whose subscription it is.")]
DEFAULT_URL = "http://127.0.0.1:8080"


def connect(url: str, *, retry_for: float = 10.0) -> Client:
    """Return a client of a server, with the token of the environment: on a command line others could read it."""
    try:
        from nearcast.client import Client
    except ImportError as error:
        raise UsageMistake(f"this needs more packages; pip install 'nearcast[client]' ({error})") from None
    if not url.startswith(("http://", "https://")):
        raise UsageMistake(f"--url is {url!r}; expected something like {DEFAULT_URL}")
    return Client(url, os.environ.get("NEARCAST_TOKEN") or None, retry_for=retry_for)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False))
