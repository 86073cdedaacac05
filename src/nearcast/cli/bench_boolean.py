"""`nearcast bench boolean`: one workload, one table over sizes, or an experiment of the papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._bench_arguments import BenchArguments, must_fit
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
    OutOption,
    ResumeOption,
    ScaleOption,
    check_json,
    check_limit,
    every_index,
    split_indexes,
    write_json,
)
from nearcast.cli._console import StepProgress, UsageMistake, stdout
from nearcast.cli._options import SeedOption, SpaceOption

if TYPE_CHECKING:
    from nearcast.bench.data.recipe import Recipe, Share
    from nearcast.bench.data.workloads import Workload

MESSAGES, INDEXES, LIMIT_S = 5_000, "trigger,scan", 60.0


def boolean(
    workload: WorkloadOption = None,
    subscriptions: SubscriptionsOption = None,
    messages: MessagesOption = None,
    indexes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Indexes, in the order of the report; options as NAME:KEY=VALUE."
            f" {INDEXES} unless given, with --sizes all, of a figure its own.",
        ),
    ] = None,
    region_area: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="Regions take up such a share of the space, as in 0.0001,0.01 (0.01 % to 1 %)."
        ),
    ] = None,
    json_file: JsonFileOption = None,
    source: SourceOption = None,
    data: DataOption = None,
    seed: SeedOption = 1,
    space: SpaceOption = None,
    churn: ChurnOption = False,
    sizes: Annotated[
        str | None,
        typer.Option(metavar="N,N", help="One table of the indexes at each number of subscriptions."),
    ] = None,
    limit_s: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help=f"With --sizes or --figure: skip an index that would take longer to build; {LIMIT_S:g} unless given.",
        ),
    ] = None,
    figure: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Redo an experiment of the Rt-tree or AP-Tree paper and draw it; list shows them."
        ),
    ] = None,
    scale: ScaleOption = None,
    out: OutOption = None,
    resume: ResumeOption = False,
) -> int:
    """Time boolean matching: index, hub, and with --churn matching under change; or --sizes, or draw a --figure."""
    given = BenchArguments("boolean", "within", **locals())
    if figure == "list":
        return list_figures("within")
    check_json(json_file)
    _check_together(given)
    if figure is not None:
        choice = DataChoice(given, MESSAGES)
        specs = None if indexes is None else split_indexes(indexes, "within")
        report = draw_figure(chosen_figure(given, choice, specs), choice, lambda drawn: drawn, given.command())
    else:
        given = replace(given, indexes=indexes or (INDEXES if sizes is None else every_index("within")))
        report = _run(DataChoice(given, MESSAGES))
    write_json(report, json_file)
    return 0


def _check_together(given: BenchArguments) -> None:
    """Refuse options that do not go together."""
    if given.figure is not None:
        if given.workload is not None or given.churn:
            raise UsageMistake("a --figure makes its own data and has no churn; leave out --workload and --churn")
        if given.sizes is not None or given.region_area is not None:
            raise UsageMistake("a --figure has its own sizes and regions; leave out --sizes and --region-area")
    elif given.scale is not None or given.out is not None or given.resume:
        raise UsageMistake("--scale, --out and --resume are for a --figure; --figure list shows them")
    if given.sizes is not None and (given.subscriptions is not None or given.churn):
        raise UsageMistake(
            "--sizes says how many subscriptions and has no churn; leave out --subscriptions and --churn"
        )
    if given.limit_s is not None and given.sizes is None and given.figure is None:
        raise UsageMistake("--limit-s is for --sizes and for a --figure")
    check_limit(given.limit_s)
    if given.region_area is not None and given.workload is not None:
        raise UsageMistake("--workload is a whole workload; leave out --region-area")


def _run(choice: DataChoice) -> dict[str, Any]:
    """Time the indexes on one workload, or on the first rows of it; print and return the report."""
    from nearcast.bench.report import print_report, print_sizes
    from nearcast.bench.request import BenchRequest
    from nearcast.bench.run import run_boolean
    from nearcast.bench.sizes import run_sizes

    given = choice.given
    specs = split_indexes(given.indexes or "", "within")
    recipe = _recipe(given.region_area)
    request = BenchRequest(
        specs,
        space=given.space,
        command=given.command(),
        churn=given.churn,
        sizes=[] if given.sizes is None else _sizes(given.sizes),
        limit_s=given.limit_s or LIMIT_S,
    )
    with StepProgress() as steps:
        steps.begin("preparing the workload")
        if request.sizes:
            report = run_sizes(_of_sizes(choice, recipe, request.sizes), request, steps.begin)
        else:
            report = run_boolean(choice.workload(recipe), request, steps.begin)
    (print_sizes if request.sizes else print_report)(report, stdout())
    return report


def _of_sizes(choice: DataChoice, recipe: Recipe, sizes: Sequence[int]) -> Workload:
    """Return a workload with as many subscriptions as the largest size."""
    folder = choice.given.workload
    if folder is None:
        return choice.drawer()(recipe, sizes[-1], choice.n_measured)
    opened = choice.workload()
    if opened.subscriptions.num_rows < sizes[-1]:
        raise UsageMistake(
            f"--sizes {sizes[-1]}: {folder} has {opened.subscriptions.num_rows} subscriptions; ask for no more"
        )
    return opened


def _sizes(given: str) -> list[int]:
    """Return the numbers of a list such as 100000,1000000, from the smallest on."""
    try:
        sizes = sorted(int(each) for each in given.split(","))
    except ValueError:
        sizes = []
    if not sizes or sizes[0] < 1 or len(set(sizes)) < len(sizes):
        raise UsageMistake(f"--sizes {given}: give different numbers of subscriptions, as in 100000,1000000")
    must_fit("--sizes", sizes[-1])
    return sizes


def _recipe(region_area: str | None) -> Recipe:
    from nearcast.bench.data.recipe import Recipe

    return Recipe() if region_area is None else Recipe(region_area=_area(region_area))


def _area(given: str) -> Share:
    """Return the shares of a list such as 0.0001,0.01; one number is both of them."""
    try:
        parts = [float(each) for each in given.split(",")]
    except ValueError:
        parts = []
    if len(parts) not in (1, 2) or not 0 < parts[0] <= parts[-1] <= 1:
        raise UsageMistake(f"--region-area {given}: give one share of the space or two, above 0 and up to 1")
    return parts[0], parts[-1]
