"""`nearcast bench`: time the indexes, having checked their answers; or redo a paper's experiments and draw them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._bench_data import (
    DataChoice,
    DataOption,
    MessagesOption,
    SourceOption,
    SubscriptionsOption,
    WorkloadOption,
)
from nearcast.cli._bench_figure import chosen_figure, draw_figure, list_figures
from nearcast.cli._console import Steps, UsageMistake, stdout
from nearcast.cli._options import SeedOption, SpaceOption
from nearcast.cli.bench_spark import spark

if TYPE_CHECKING:
    from nearcast.bench.distances import MaxDistance
    from nearcast.sliding import Window

BOOLEAN_MESSAGES, SIMILAR_MESSAGES, TOPK_MESSAGES = 5_000, 1_000, 2_000
SIMILAR_INDEXES = "trigger,stamp,scan"

app = typer.Typer(help="Time the indexes; the answers are checked first.")

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


@app.callback()
def bench() -> None:
    """Time the indexes; the answers are checked first."""


@app.command("boolean")
def boolean(
    workload: WorkloadOption = None,
    subscriptions: SubscriptionsOption = None,
    messages: MessagesOption = None,
    indexes: Annotated[
        str, typer.Option(metavar="A,B", help="Indexes, in the order of the report; options as NAME:KEY=VALUE.")
    ] = "trigger,scan",
    json_file: JsonFileOption = None,
    source: SourceOption = None,
    data: DataOption = None,
    seed: SeedOption = 1,
    space: SpaceOption = None,
    churn: ChurnOption = False,
) -> int:
    """Time boolean matching: index, hub, and with --churn matching under change."""
    from nearcast.bench.report import print_report
    from nearcast.bench.run import run_boolean

    specs = split_indexes(indexes, "within")
    check_json(json_file)
    choice = DataChoice("within", BOOLEAN_MESSAGES, workload, subscriptions, messages, source, data, seed, space)
    command = choice.command("boolean", indexes=indexes, churn=churn)
    with Steps() as steps:
        steps.begin("preparing the workload")
        report = run_boolean(choice.workload(), specs, space=space, command=command, churn=churn, say=steps.begin)
    print_report(report, stdout())
    write_json(report, json_file)
    return 0


@app.command("similar")
def similar(
    workload: WorkloadOption = None,
    subscriptions: SubscriptionsOption = None,
    messages: MessagesOption = None,
    indexes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Indexes, in the order of the report; options as NAME:KEY=VALUE."
            f" {SIMILAR_INDEXES} unless given, of a figure its own.",
        ),
    ] = None,
    max_distance: MaxDistanceOption = None,
    max_distance_share: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="The same as a share of the data's diameter; 0.05 where subscriptions have none."
        ),
    ] = None,
    json_file: JsonFileOption = None,
    source: SourceOption = None,
    data: DataOption = None,
    seed: SeedOption = 1,
    space: SpaceOption = None,
    churn: ChurnOption = False,
    figure: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Redo an experiment of the STAMP paper and draw it; list shows them."),
    ] = None,
    scale: ScaleOption = None,
    out: OutOption = None,
) -> int:
    """Time similarity matching: index, hub, and with --churn matching under change; or draw a --figure."""
    from nearcast.bench.report import print_report
    from nearcast.bench.run import run_similar

    if figure == "list":
        return list_figures("similar")
    check_json(json_file)
    reach = _reach(max_distance, max_distance_share)
    choice = DataChoice("similar", SIMILAR_MESSAGES, workload, subscriptions, messages, source, data, seed, space)
    specs = None if indexes is None and figure is not None else split_indexes(indexes or SIMILAR_INDEXES, "similar")
    command = choice.command(
        "similar",
        indexes=specs and ",".join(specs),
        max_distance=max_distance,
        max_distance_share=max_distance_share,
        churn=churn,
        figure=figure,
        scale=scale,
        out=out,
    )
    if figure is not None:
        if workload is not None or churn:
            raise UsageMistake("a --figure makes its own data and has no churn; leave out --workload and --churn")
        chosen = chosen_figure("similar", figure, choice, specs, scale)
        report = draw_figure(chosen, choice, reach.applied, out or Path(), command)
    else:
        if scale is not None or out is not None:
            raise UsageMistake("--scale and --out are for a --figure; --figure list shows them")
        with Steps() as steps:
            steps.begin("preparing the workload")
            report = run_similar(
                choice.workload(),
                specs or [],
                max_distance=reach,
                space=space,
                command=command,
                churn=churn,
                say=steps.begin,
            )
        print_report(report, stdout())
    write_json(report, json_file)
    return 0


@app.command("topk")
def topk(
    workload: WorkloadOption = None,
    subscriptions: SubscriptionsOption = None,
    messages: Annotated[
        int | None, typer.Option(min=1, help=f"How many arrivals are measured; {TOPK_MESSAGES:,} unless given.")
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Messages in the window, or a time like 15m; 100,000 unless given, or as many as fit."
        ),
    ] = None,
    warm_up: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Arrivals before those measured; a tenth of the window unless given, at least 512."
        ),
    ] = None,
    indexes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Indexes, in the order of the report; options as NAME:buffer=kmax,kmax=40. All that match top-k"
            " subscriptions unless given, of a figure its own.",
        ),
    ] = None,
    max_distance: MaxDistanceOption = None,
    max_distance_share: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="The same as a share of the data's diameter; 1 where subscriptions have none."
        ),
    ] = None,
    json_file: JsonFileOption = None,
    source: SourceOption = None,
    data: DataOption = None,
    seed: SeedOption = 1,
    space: SpaceOption = None,
    figure: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Redo an experiment of the Skype paper and draw it; list shows them."),
    ] = None,
    scale: ScaleOption = None,
    out: OutOption = None,
) -> int:
    """Time arrivals in a full window over top-k subscriptions, searches included; or draw a --figure."""
    from nearcast.bench.report import print_topk_report
    from nearcast.bench.topk import run_topk

    if figure == "list":
        return list_figures("topk")
    check_json(json_file)
    reach = _reach(max_distance, max_distance_share, usual_share=1.0)
    length = _window(window, is_figure=figure is not None)
    choice = DataChoice("topk", TOPK_MESSAGES, workload, subscriptions, messages, source, data, seed, space)
    specs = None if indexes is None and figure is not None else split_indexes(indexes or _every("topk"), "topk")
    command = choice.command(
        "topk",
        window=window,
        warm_up=warm_up,
        indexes=specs and ",".join(specs),
        max_distance=max_distance,
        max_distance_share=max_distance_share,
        figure=figure,
        scale=scale,
        out=out,
    )
    if figure is not None:
        if workload is not None:
            raise UsageMistake("a --figure makes its own data; leave out --workload")
        chosen = chosen_figure("topk", figure, choice, specs, scale)
        chosen = chosen.with_window(None if length is None else length.count, warm_up)
        report = draw_figure(chosen, choice, reach.applied, out or Path(), command)
    else:
        if scale is not None or out is not None:
            raise UsageMistake("--scale and --out are for a --figure; --figure list shows them")
        with Steps() as steps:
            steps.begin("preparing the workload")
            made, length = choice.stream(length, warm_up)
            report = run_topk(
                made,
                specs or [],
                max_distance=reach,
                window=length,
                n_measured=choice.n_measured,
                n_warm_up=warm_up,
                space=space,
                command=command,
                say=steps.begin,
            )
        print_topk_report(report, stdout())
    write_json(report, json_file)
    return 0


def _every(kind: str) -> str:
    """Return all indexes of a kind: the usual one first, and `scan`, the slowest, last."""
    from nearcast.indexes import DEFAULT_INDEX, available

    names = [info.name for info in available() if kind in info.kinds]
    return ",".join(sorted(names, key=lambda name: (name == "scan", name != DEFAULT_INDEX, name)))


def _window(given: str | None, *, is_figure: bool) -> Window | None:
    """Return the window that was asked for; that of a figure is a number of messages."""
    from nearcast.errors import InvalidInput
    from nearcast.sliding import Window

    if given is None:
        return None
    try:
        window = Window.of(given)
    except InvalidInput as error:
        raise UsageMistake(f"--window {given}: {error}") from None
    if is_figure and window.is_by_time:
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


def _reach(distance: float | None, share: float | None, usual_share: float | None = None) -> MaxDistance:
    """Return what is said about `max_distance`, which must be above 0 and finite."""
    from nearcast.bench.distances import DEFAULT_SHARE, MaxDistance

    if distance is not None and share is not None:
        raise UsageMistake("--max-distance and --max-distance-share say the same; give one")
    for option, value in (("--max-distance", distance), ("--max-distance-share", share)):
        if value is not None and not 0 < value < float("inf"):
            raise UsageMistake(f"{option} {value}: give a number above 0")
    return MaxDistance(distance, share, usual_share or DEFAULT_SHARE)


def check_json(path: Path | None) -> None:
    """Refuse, before any work is done, a report that could not be written."""
    if path is not None and not path.resolve().parent.is_dir():
        raise UsageMistake(f"--json {path}: there is no folder {path.parent}; make it first")


def write_json(report: dict[str, Any], path: Path | None) -> None:
    """Write a report where one is asked for."""
    from nearcast._saved import replace_file

    if path is not None:
        text = json.dumps(report, indent=2) + "\n"
        replace_file(path, lambda temporary: temporary.write_text(text))


app.command("spark")(spark)
