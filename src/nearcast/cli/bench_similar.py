"""`nearcast bench similar`: one workload of similar subscriptions, or an experiment of the STAMP paper."""

from __future__ import annotations

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
    check_figure_options,
    check_json,
    reach_of,
    with_indexes,
    write_json,
)
from nearcast.cli._console import StepProgress, stdout
from nearcast.cli._options import SeedOption, SpaceOption

if TYPE_CHECKING:
    from nearcast.bench.data.distances import MaxDistance

MESSAGES, INDEXES = 1_000, "trigger,stamp,scan"


def similar(
    workload: WorkloadOption = None,
    subscriptions: SubscriptionsOption = None,
    messages: MessagesOption = None,
    indexes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Indexes, in the order of the report; options as NAME:KEY=VALUE."
            f" {INDEXES} unless given, of a figure its own.",
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
    given, specs = with_indexes(given, INDEXES)
    check_figure_options(given)
    choice = DataChoice(given, MESSAGES)
    if figure is not None:
        report = draw_figure(chosen_figure(given, choice, specs), choice, reach.applied, given.command())
    else:
        report = _time(choice, specs or [], reach)
    write_json(report, json_file)
    return 0


def _time(choice: DataChoice, specs: list[str], reach: MaxDistance) -> dict[str, Any]:
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
