"""`nearcast bench`: time the indexes, having checked their answers; or redo a paper's experiments and draw them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._bench_arguments import BenchArguments
from nearcast.cli._bench_data import (
    DataChoice,
    DataOption,
    MessagesOption,
    SourceOption,
    SubscriptionsOption,
    WorkloadOption,
)
from nearcast.cli._bench_figure import chosen_figure, draw_figure, list_figures
from nearcast.cli._bench_options import (
    ChurnOption,
    JsonFileOption,
    LimitOption,
    MaxDistanceOption,
    OutOption,
    ResumeOption,
    ScaleOption,
    check_json,
    check_limit,
    every_index,
    reach_of,
    split_indexes,
    window_of,
    write_json,
)
from nearcast.cli._console import StepProgress, UsageMistake, stdout
from nearcast.cli._options import SeedOption, SpaceOption
from nearcast.cli.bench_boolean import boolean
from nearcast.cli.bench_calls import calls
from nearcast.cli.bench_cluster import cluster
from nearcast.cli.bench_durable import durable
from nearcast.cli.bench_figures import figures
from nearcast.cli.bench_first_use import first_use
from nearcast.cli.bench_moving import moving
from nearcast.cli.bench_peers import peers
from nearcast.cli.bench_server import server
from nearcast.cli.bench_spark import spark

if TYPE_CHECKING:
    from nearcast.bench.data.distances import MaxDistance
    from nearcast.window import Window

SIMILAR_MESSAGES, TOPK_MESSAGES = 1_000, 2_000
SIMILAR_INDEXES = "trigger,stamp,scan"

app = typer.Typer(help="Time the indexes; the answers are checked first.")


@app.callback()
def bench() -> None:
    """Time the indexes; the answers are checked first."""


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
    limit_s: LimitOption = None,
    resume: ResumeOption = False,
) -> int:
    """Time similarity matching: index, hub, and with --churn matching under change; or draw a --figure."""
    given = BenchArguments("similar", "similar", **locals())
    if figure == "list":
        return list_figures("similar")
    check_json(json_file)
    reach = reach_of(given)
    given, specs = _with_indexes(given, SIMILAR_INDEXES)
    _check_figure(given)
    choice = DataChoice(given, SIMILAR_MESSAGES)
    if figure is not None:
        report = draw_figure(chosen_figure(given, choice, specs), choice, reach.applied, given.command())
    else:
        report = _time_similar(choice, specs or [], reach)
    write_json(report, json_file)
    return 0


def _time_similar(choice: DataChoice, specs: list[str], reach: MaxDistance) -> dict[str, Any]:
    """Time the indexes on one workload; print and return the report."""
    from nearcast.bench.report import print_report
    from nearcast.bench.request import BenchRequest
    from nearcast.bench.run import run_similar

    given = choice.given
    request = BenchRequest(specs, space=given.space, command=given.command(), churn=given.churn, max_distance=reach)
    with StepProgress() as steps:
        steps.begin("preparing the workload")
        report = run_similar(choice.workload(), request, steps.begin)
    print_report(report, stdout())
    return report


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
    limit_s: LimitOption = None,
    resume: ResumeOption = False,
) -> int:
    """Time arrivals in a full window over top-k subscriptions, searches included; or draw a --figure."""
    given = BenchArguments("topk", "topk", **locals())
    if figure == "list":
        return list_figures("topk")
    check_json(json_file)
    reach = reach_of(given, usual_share=1.0)
    length = window_of(given)
    given, specs = _with_indexes(given, every_index("topk"))
    _check_figure(given)
    choice = DataChoice(given, TOPK_MESSAGES)
    if figure is not None:
        chosen = chosen_figure(given, choice, specs)
        chosen = chosen.with_window(None if length is None else length.count, warm_up)
        report = draw_figure(chosen, choice, reach.applied, given.command())
    else:
        report = _time_topk(choice, specs or [], reach, length)
    write_json(report, json_file)
    return 0


def _time_topk(choice: DataChoice, specs: list[str], reach: MaxDistance, length: Window | None) -> dict[str, Any]:
    """Time the indexes on one stream; print and return the report."""
    from nearcast.bench.report import print_topk_report
    from nearcast.bench.request import BenchRequest
    from nearcast.bench.topk import run_topk

    given = choice.given
    with StepProgress() as steps:
        steps.begin("preparing the workload")
        made, length = choice.stream(length, given.warm_up)
        request = BenchRequest(
            specs,
            space=given.space,
            command=given.command(),
            max_distance=reach,
            window=length,
            n_measured=choice.n_measured,
            n_warm_up=given.warm_up,
        )
        report = run_topk(made, request, steps.begin)
    print_topk_report(report, stdout())
    return report


def _with_indexes(given: BenchArguments, usual: str) -> tuple[BenchArguments, list[str] | None]:
    """Return the arguments with all indexes that are measured, and these as a list; None for those of a figure."""
    if given.indexes is None and given.figure is not None:
        return given, None
    specs = split_indexes(given.indexes or usual, given.kind)
    return replace(given, indexes=",".join(specs)), specs


def _check_figure(given: BenchArguments) -> None:
    """Refuse options that do not go together with a figure, or without one."""
    check_limit(given.limit_s)
    if given.figure is None:
        if given.scale is not None or given.out is not None or given.limit_s is not None or given.resume:
            raise UsageMistake("--scale, --out, --limit-s and --resume are for a --figure; --figure list shows them")
    elif given.kind == "topk":
        if given.workload is not None:
            raise UsageMistake("a --figure makes its own data; leave out --workload")
    elif given.workload is not None or given.churn:
        raise UsageMistake("a --figure makes its own data and has no churn; leave out --workload and --churn")


app.command("boolean")(boolean)
app.command("moving")(moving)
app.command("calls")(calls)
app.command("durable")(durable)
app.command("server")(server)
app.command("peers")(peers)
app.command("spark")(spark)
app.command("cluster")(cluster)
app.command("figures")(figures)
app.command("first-use")(first_use)
