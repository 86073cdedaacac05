"""`nearcast compact`: few large files in place of the many small ones that a stream delivers."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from nearcast.cli._console import UsageMistake, complain
from nearcast.cli._options import JsonOption

if TYPE_CHECKING:
    from nearcast.pipeline.sinks.compaction import CompactionReport

_SIZE = re.compile(r"([0-9]+)\s*(MB|GB)")
_BYTES = {"MB": 10**6, "GB": 10**9}
_KEEP = re.compile(r"([0-9]+)\s*(s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def compact(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="What a stream with --part-folders hour delivers to.")
    ],
    file_size: Annotated[
        str, typer.Option("--file-size", metavar="SIZE", help="Of the files at most: 512MB, 2GB.")
    ] = "512MB",
    keep: Annotated[
        str,
        typer.Option(metavar="TIME", help="How long readers under way may need replaced parts: 30s, 10m, 2h."),
    ] = "10m",
    as_json: JsonOption = False,
) -> int:
    """Replace the part files of hours that are over by few large ones, each hour in one step.

    Readers see every row once, before, meanwhile and after. The stream may go on. A later call deletes what was
    replaced.
    """
    from nearcast.errors import InvalidInput
    from nearcast.pipeline.sinks.compaction import compact as run

    file_bytes = _in_units("--file-size", file_size, _SIZE, _BYTES, "512MB")
    keep_s = _in_units("--keep", keep, _KEEP, _SECONDS, "10m")
    try:
        report = run(folder, now=time.time(), keep_s=keep_s, file_bytes=file_bytes)
    except InvalidInput as error:
        raise UsageMistake(str(error)) from None
    for hour, reason in report.skipped:
        complain(f"{folder}/{hour} is left alone: {reason}")
    typer.echo(json.dumps(asdict(report)) if as_json else _sentence(folder, report))
    return 0


def _in_units(option: str, given: str, form: re.Pattern[str], units: dict[str, int], example: str) -> int:
    found = form.fullmatch(given.strip())
    if found is None:
        raise UsageMistake(f"{option} is {given!r}; expected a number and one of {', '.join(units)}, such as {example}")
    return int(found[1]) * units[found[2]]


def _sentence(folder: str, report: CompactionReport) -> str:
    parts, files = (sum(getattr(each, name) for each in report.compacted) for name in ("parts", "files"))
    before, after = (sum(getattr(each, f"bytes_{name}") for each in report.compacted) for name in ("before", "after"))
    n = len(report.compacted)
    return (
        f"{folder}: {n:,} hour{'' if n == 1 else 's'} compacted, {parts:,} parts into {files:,} files"
        f" ({before / 1e6:,.1f} MB into {after / 1e6:,.1f} MB)"
    )
