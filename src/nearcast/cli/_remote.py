"""What the commands that talk to a server share: its address, the token, and how answers are printed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._console import UsageMistake, complain

if TYPE_CHECKING:
    from nearcast.client import Client

UrlOption = Annotated[
    str, typer.Option("--url", metavar="URL", envvar="NEARCAST_URL", help="Where the server listens.")
]
SubscriberOption = Annotated[str | None, typer.Option("--subscriber", metavar="ID", help="Whose subscription it is.")]
DEFAULT_URL = "http://127.0.0.1:8080"
#: A command that waits longer for a server says so.
_QUIET_S = 10.0


def connect(url: str, *, retry_for: float = 10.0) -> Client:
    """Return a client of a server, with the token of the environment: on a command line others could read it."""
    try:
        from nearcast.client import Client
    except ImportError as error:
        raise UsageMistake(f"this needs more packages; pip install 'nearcast[client]' ({error})") from None
    if not url.startswith(("http://", "https://")):
        raise UsageMistake(f"--url is {url!r}; expected something like {DEFAULT_URL}")
    client = Client(url, os.environ.get("NEARCAST_TOKEN") or None, retry_for=retry_for)
    if retry_for > _QUIET_S:
        _tell_if_away(client, retry_for)
    return client


def _tell_if_away(client: Client, retry_for: float) -> None:
    """Say that there is no server yet: the calls that follow wait for one without a word."""
    from nearcast.client import ServerProblem, ServerUnavailable

    try:
        client.health()
    except ServerUnavailable as error:
        complain(f"{error}; trying again for {retry_for:.0f} s, Ctrl-C ends it")
    except ServerProblem:
        pass  # it answers: what it minds, the calls tell


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False))
