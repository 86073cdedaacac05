"""`nearcast bench topk`: one stream over top-k subscriptions, or an experiment of the Skype paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._bench_arguments import BenchArguments
from nearcast.cli._bench_data import (
    DataChoice,
    DataOption,
    SourceOption,
    SubscriptionsOption,
    WorkloadOption,
)
from nearcast.cli._bench_figure import chosen_figure, draw_figure, list_figures
from nearcast.cli._bench_options import (
    JsonFileOption,
    LimitOption,
    MaxDistanceOption,
    OutOption,
    ResumeOption,
    ScaleOption,
    check_figure_options,
    check_json,
    every_index,
    reach_of,
    window_of,
    with_indexes,
    write_json,
)
from nearcast.cli._console import StepProgress, stdout
from nearcast.cli._options import SeedOption, SpaceOption

if TYPE_CHECKING:
    from nearcast.bench.data.distances import MaxDistance
    from nearcast.window import Window

MESSAGES = 2_000


def topk(
    workload: WorkloadOption = None,
    subscriptions: SubscriptionsOption = None,
    messages: Annotated[
        int | None, typer.Option(min=1, help=f"How many arrivals are measured; {MESSAGES:,} unless given.")
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
    threads: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Threads that share the subscriptions of each message; 1 unless given."),
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
    given, specs = with_indexes(given, every_index("topk"))
    check_figure_options(given)
    choice = DataChoice(given, MESSAGES)
    if figure is not None:
        chosen = chosen_figure(given, choice, specs)
        chosen = chosen.with_window(None if length is None else length.count, warm_up)
        report = draw_figure(chosen, choice, reach.applied, given.command())
    else:
        report = _time(choice, specs or [], reach, length)
    write_json(report, json_file)
    return 0


def _time(choice: DataChoice, specs: list[str], reach: MaxDistance, length: Window | None) -> dict[str, Any]:
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
            threads=given.threads or 1,
        )
        report = run_topk(made, request, steps.begin)
    print_topk_report(report, stdout())
    return report
