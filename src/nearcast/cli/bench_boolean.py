"""`nearcast bench boolean`: one workload, one table over sizes, or an experiment of the papers."""

from __future__ import annotations

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
    must_fit,
)
from nearcast.cli._bench_figure import chosen_figure, draw_figure, list_figures
from nearcast.cli._bench_options import (
    ChurnOption,
    JsonFileOption,
    OutOption,
    ScaleOption,
    check_json,
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


class BooleanChoice(DataChoice):
    """The data of boolean subscriptions, in files named after the command."""

    def _asked(self, subscriptions: int, messages: int) -> dict[str, Any]:
        return {**super()._asked(subscriptions, messages), "kind": "within"}


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
            help=f"With --sizes: skip an index that would take longer to build, ask it no longer; {LIMIT_S:g}"
            " unless given.",
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
) -> int:
    """Time boolean matching: index, hub, and with --churn matching under change; or --sizes, or draw a --figure."""
    if figure == "list":
        return list_figures("within")
    check_json(json_file)
    choice = BooleanChoice("boolean", MESSAGES, workload, subscriptions, messages, source, data, seed, space)
    given: dict[str, Any] = {
        "indexes": indexes,
        "region_area": region_area,
        "churn": churn,
        "sizes": sizes,
        "limit_s": limit_s,
        "figure": figure,
        "scale": scale,
        "out": out,
    }
    _check_together(choice, given)
    if figure is not None:
        specs = None if indexes is None else split_indexes(indexes, "within")
        chosen = chosen_figure("within", figure, choice, specs, scale)
        command = choice.command("boolean", **given)
        report = draw_figure(chosen, choice, lambda drawn: drawn, out or Path(), command)
    else:
        given["indexes"] = indexes or (INDEXES if sizes is None else every_index("within"))
        report = _run(choice, split_indexes(given["indexes"], "within"), given)
    write_json(report, json_file)
    return 0


def _check_together(choice: DataChoice, given: dict[str, Any]) -> None:
    """Refuse options that do not go together."""
    if given["figure"] is not None:
        if choice.folder is not None or given["churn"]:
            raise UsageMistake("a --figure makes its own data and has no churn; leave out --workload and --churn")
        if given["sizes"] is not None or given["region_area"] is not None:
            raise UsageMistake("a --figure has its own sizes and regions; leave out --sizes and --region-area")
    elif given["scale"] is not None or given["out"] is not None:
        raise UsageMistake("--scale and --out are for a --figure; --figure list shows them")
    if given["sizes"] is not None and (choice.subscriptions is not None or given["churn"]):
        raise UsageMistake(
            "--sizes says how many subscriptions and has no churn; leave out --subscriptions and --churn"
        )
    if given["limit_s"] is not None:
        if given["sizes"] is None:
            raise UsageMistake("--limit-s is for --sizes")
        if not 0 < given["limit_s"] < float("inf"):
            raise UsageMistake(f"--limit-s {given['limit_s']}: give a number above 0")
    if given["region_area"] is not None and choice.folder is not None:
        raise UsageMistake("--workload is a whole workload; leave out --region-area")


def _run(choice: DataChoice, specs: list[str], given: dict[str, Any]) -> dict[str, Any]:
    """Time the indexes on one workload, or on the first rows of it; print and return the report."""
    from nearcast.bench.report import print_report, print_sizes
    from nearcast.bench.run import run_boolean
    from nearcast.bench.sizes import run_sizes

    recipe = _recipe(given["region_area"])
    sizes = None if given["sizes"] is None else _sizes(given["sizes"])
    command = choice.command("boolean", **given)
    with StepProgress() as steps:
        steps.begin("preparing the workload")
        if sizes is None:
            report = run_boolean(
                choice.workload(recipe),
                specs,
                space=choice.space,
                command=command,
                churn=given["churn"],
                say=steps.begin,
            )
        else:
            report = run_sizes(
                _of_sizes(choice, recipe, sizes),
                sizes,
                specs,
                limit_s=given["limit_s"] or LIMIT_S,
                space=choice.space,
                command=command,
                say=steps.begin,
            )
    (print_report if sizes is None else print_sizes)(report, stdout())
    return report


def _of_sizes(choice: DataChoice, recipe: Recipe, sizes: list[int]) -> Workload:
    """Return a workload with as many subscriptions as the largest size."""
    if choice.folder is None:
        return choice.drawer()(recipe, sizes[-1], choice.messages or choice.usual_messages)
    opened = choice.workload()
    if opened.subscriptions.num_rows < sizes[-1]:
        raise UsageMistake(
            f"--sizes {sizes[-1]}: {choice.folder} has {opened.subscriptions.num_rows} subscriptions; ask for no more"
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
