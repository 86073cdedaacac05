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
            rejected = [(row, each) for row, each in enumerate(some) if isinstance(each, str)]
            rows = [row for row, each in enumerate(some) if not isinstance(each, str)]
            if rows:
                found = client.publish_many((some[row] for row in rows), key=None if key is None else f"{key}:{number}")
                accepted += found.accepted
                rejected += [(rows[each["row"]], each["reason"]) for each in found.rejected]
            for row, reason in sorted(rejected)[: max(0, _MOST_COMPLAINTS - n_rejected)]:
                complain(f"{file}, row {first_row + row}: {reason}")
            n_rejected += len(rejected)
            first_row += len(some)
    print_json({"accepted": accepted, "rejected": n_rejected})
    return _EXIT_PARTIAL if n_rejected else 0


def _lines(file: str) -> Iterator[dict[str, Any] | str]:
    """Yield the objects of a file of JSON lines; of a line that is none, the reason."""
    if file == "-":
        source = sys.stdin.buffer
    else:
        try:
            source = Path(file).open("rb")  # noqa: SIM115  closed below
        except OSError as error:
            raise UsageMistake(f"{file} cannot be read: {error.strerror}") from None
    with source:
        for line in source:
            if line.strip():
                yield _object(line)


def _object(line: bytes) -> dict[str, Any] | str:
    """Return the object of a line, or why it is none."""
    import json

    try:
        found = json.loads(line.decode())
    except UnicodeDecodeError:
        return "the line is not UTF-8; encode the file so"
    except (ValueError, RecursionError) as error:
        return f"the line is not JSON: {error}"
    return found if isinstance(found, dict) else "the line is no JSON object; expected a message or a Feature"


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
