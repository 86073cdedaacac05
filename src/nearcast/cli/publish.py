"""`nearcast publish`: messages of a file to a server. `nearcast tail`: the events of a subscriber."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from nearcast.cli._console import UsageMistake, complain
from nearcast.cli._remote import DEFAULT_URL, UrlOption, connect, print_json

_EXIT_PARTIAL = 3
_MOST_COMPLAINTS = 10


def publish(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Lines of JSON, GeoJSON Features too; - is stdin.")],
    batch: Annotated[int, typer.Option(min=1, max=100_000, help="Messages of one request.")] = 1000,
    key: Annotated[
        str | None, typer.Option(help="A key for the file: sent again under it, nothing is published twice.")
    ] = None,
    url: UrlOption = DEFAULT_URL,
) -> int:
    """Publish the messages of a file, in order; print how many were accepted."""
    accepted, n_rejected, first_row = 0, 0, 0
    with connect(url, retry_for=60.0) as client:
        lines = _lines(file)
        for number, some in enumerate(iter(lambda: list(islice(lines, batch)), [])):
            found = client.publish_many(some, key=None if key is None else f"{key}:{number}")
            accepted += found.accepted
            for row in found.rejected[: max(0, _MOST_COMPLAINTS - n_rejected)]:
                complain(f"{file}, row {first_row + row['row']}: {row['reason']}")
            n_rejected += len(found.rejected)
            first_row += len(some)
    print_json({"accepted": accepted, "rejected": n_rejected})
    return _EXIT_PARTIAL if n_rejected else 0


def _lines(file: str) -> Iterator[Any]:
    """Yield the objects of a file of JSON lines."""
    import json

    if file == "-":
        source = sys.stdin
    else:
        try:
            source = Path(file).open(encoding="utf-8")  # noqa: SIM115  closed below
        except OSError as error:
            raise UsageMistake(f"{file} cannot be read: {error.strerror}") from None
    with source:
        for number, line in enumerate(source):
            if not line.strip():
                continue
            try:
                found = json.loads(line)
            except ValueError as error:
                raise UsageMistake(f"{file}, line {number + 1} is not JSON: {error}") from None
            if not isinstance(found, dict):
                raise UsageMistake(f"{file}, line {number + 1} is no object")
            yield found


def tail(
    subscriber: Annotated[str, typer.Argument(metavar="SUBSCRIBER", help="Whose events.")],
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Begin after this event.")] = None,
    acknowledge: Annotated[bool, typer.Option("--ack", help="Acknowledge each event once it is printed.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="End after so many events.")] = None,
    url: UrlOption = DEFAULT_URL,
) -> int:
    """Print the events of a subscriber as they come, one CloudEvent a line, until interrupted."""
    with connect(url, retry_for=600.0) as client:
        for n, event in enumerate(client.stream(subscriber, after=after), 1):
            print_json(event.cloud_event)
            sys.stdout.flush()
            if acknowledge:
                client.ack(subscriber, event.cursor)
            if n == limit:
                break
    return 0
