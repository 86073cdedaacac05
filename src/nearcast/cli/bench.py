"""`nearcast bench`: time the indexes, having checked their answers; or redo a paper's experiments and draw them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
from nearcast.cli._bench_options import (
    ChurnOption,
    JsonFileOption,
    MaxDistanceOption,
    OutOption,
    ScaleOption,
    check_json,
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
from nearcast.cli.bench_first_use import first_use
from nearcast.cli.bench_spark import spark

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
) -> int:
    """Time similarity matching: index, hub, and with --churn matching under change; or draw a --figure."""
    from nearcast.bench.report import print_report
    from nearcast.bench.run import run_similar

    if figure == "list":
        return list_figures("similar")
    check_json(json_file)
    reach = reach_of(max_distance, max_distance_share)
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
        with StepProgress() as steps:
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
    reach = reach_of(max_distance, max_distance_share, usual_share=1.0)
    length = window_of(window, is_figure=figure is not None)
    choice = DataChoice("topk", TOPK_MESSAGES, workload, subscriptions, messages, source, data, seed, space)
    specs = None if indexes is None and figure is not None else split_indexes(indexes or every_index("topk"), "topk")
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
        with StepProgress() as steps:
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


app.command("boolean")(boolean)
app.command("calls")(calls)
app.command("spark")(spark)
app.command("first-use")(first_use)
