"""What the commands of `nearcast bench` share: options, lists of indexes, reports as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._bench_arguments import MOST_ROWS, BenchArguments
from nearcast.cli._console import UsageMistake

if TYPE_CHECKING:
    from nearcast.bench.data.distances import MaxDistance
    from nearcast.window import Window

JsonFileOption = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write the report here.")]
ChurnOption = Annotated[
    bool, typer.Option("--churn", help="Also match while 10,000 subscriptions a second come and go.")
]

MaxDistanceOption = Annotated[
    float | None, typer.Option(metavar="D", help="Of all subscriptions: metres on the earth, units on a plane.")
]
ScaleOption = Annotated[
    float | None,
    typer.Option(
        metavar="S", help="Of a figure: multiplies its subscriptions, and of top-k its window; 1 unless given."
    ),
]
OutOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Of a figure: folder for its PNG and CSV; here unless given.")
]

LimitOption = Annotated[
    float | None,
    typer.Option(metavar="S", help="Of a figure: skip an index that would take longer at a point, with the estimate."),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Of a figure: keep rows in --out, and go on where a run was stopped.")
]


def check_limit(limit_s: float | None) -> None:
    """Refuse a limit that is none."""
    if limit_s is not None and not 0 < limit_s < float("inf"):
        raise UsageMistake(f"--limit-s {limit_s}: give a number above 0")


def every_index(kind: str) -> str:
    """Return all indexes of a kind: the usual one first, and `scan`, the slowest, last."""
    from nearcast.indexes import DEFAULT_INDEX, available

    names = [info.name for info in available() if kind in info.kinds]
    return ",".join(sorted(names, key=lambda name: (name == "scan", name != DEFAULT_INDEX, name)))


def window_of(arguments: BenchArguments) -> Window | None:
    """Return the window that was asked for; that of a figure is a number of messages."""
    from nearcast.errors import InvalidInput
    from nearcast.window import Window

    given = arguments.window
    if given is None:
        return None
    try:
        window = Window.of(given)
    except InvalidInput as error:
        raise UsageMistake(f"--window {given}: {error}") from None
    if arguments.figure is not None and window.is_by_time:
        raise UsageMistake(f"--window {given}: of a --figure give a number of messages; time-window makes a time of it")
    return window


def split_indexes(given: str, kind: str) -> list[str]:
    """Return the specifications of a list such as `trigger:few=4,leaf_rows=2000,scan`; each must match the kind.

    A semicolon may stand between two of them.
    """
    from nearcast.geo import Space
    from nearcast.indexes import available, create

    specs: list[str] = []
    for piece in filter(None, given.replace(";", ",").split(",")):
        if specs and "=" in piece and ":" not in piece:
            specs[-1] += f",{piece}"  # a further option of the index before
        else:
            specs.append(piece)
    if not specs:
        raise UsageMistake("--indexes names none; nearcast indexes lists them")
    if len(set(specs)) < len(specs):
        raise UsageMistake(f"--indexes {given} names one twice; name each once")
    for spec in specs:
        info = create(spec, Space.plane()).info
        if kind not in info.kinds:
            can = ", ".join(each.name for each in available() if kind in each.kinds)
            raise UsageMistake(f"the index {info.name!r} does not match {kind} subscriptions; choose from {can}")
    return specs


def reach_of(given: BenchArguments, usual_share: float | None = None) -> MaxDistance:
    """Return what is said about `max_distance`, which must be above 0 and finite."""
    from nearcast.bench.data.distances import DEFAULT_SHARE, MaxDistance

    distance, share = given.max_distance, given.max_distance_share
    if distance is not None and share is not None:
        raise UsageMistake("--max-distance and --max-distance-share say the same; give one")
    for option, value in (("--max-distance", distance), ("--max-distance-share", share)):
        if value is not None and not 0 < value < float("inf"):
            raise UsageMistake(f"{option} {value}: give a number above 0")
    return MaxDistance(distance, share, usual_share or DEFAULT_SHARE)


def check_json(path: Path | None) -> None:
    """Refuse, before any work is done, a report that could not be written."""
    if path is not None and path.is_dir():
        raise UsageMistake(f"--json {path}: that is a folder; name a file")
    if path is not None and not path.resolve().parent.is_dir():
        raise UsageMistake(f"--json {path}: there is no folder {path.parent}; make it first")


def check_scale(scale: float | None, usual: int) -> None:
    """Refuse a factor that is none, or that makes too much of the usual number of subscriptions, window or warm-up."""
    if scale is None:
        return
    if not 0 < scale < float("inf"):
        raise UsageMistake(f"--scale {scale}: give a number above 0")
    if usual * scale > MOST_ROWS:
        raise UsageMistake(f"--scale {scale}: that makes more than {MOST_ROWS:,} of {usual:,}, which do not fit")


def write_json(report: dict[str, Any], path: Path | None) -> None:
    """Write a report where one is asked for."""
    from nearcast._saved import replace_file

    if path is not None:
        text = json.dumps(report, indent=2) + "\n"
        replace_file(path, lambda temporary: temporary.write_text(text))


def with_indexes(given: BenchArguments, usual: str) -> tuple[BenchArguments, list[str] | None]:
    """Return the arguments with all indexes that are measured, and these as a list; None for those of a figure."""
    if given.indexes is None and given.figure is not None:
        return given, None
    specs = split_indexes(given.indexes or usual, given.kind)
    return replace(given, indexes=",".join(specs)), specs


def check_figure_options(given: BenchArguments) -> None:
    """Refuse options that do not go together with a figure, or without one."""
    check_limit(given.limit_s)
    if given.figure is None:
        if given.scale is not None or given.out is not None or given.limit_s is not None or given.resume:
            raise UsageMistake("--scale, --out, --limit-s and --resume are for a --figure; --figure list shows them")
    elif given.kind == "topk":
        if given.workload is not None:
            raise UsageMistake("a --figure makes its own data; leave out --workload")
        if given.threads is not None:
            raise UsageMistake("a --figure is measured on one core; leave out --threads")
    elif given.workload is not None or given.churn:
        raise UsageMistake("a --figure makes its own data and has no churn; leave out --workload and --churn")
