"""A figure on the command line: measured with progress, drawn, printed as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nearcast.cli._console import Steps, UsageMistake, complain, stdout

if TYPE_CHECKING:
    from nearcast.bench.figures.figure import Figure
    from nearcast.bench.workloads import Workload
    from nearcast.cli._bench_data import DataChoice


def list_figures(kind: str) -> int:
    """Print the figures there are, a line each."""
    from nearcast.bench.figures import figures_of

    for figure in figures_of(kind).values():
        typer.echo(f"{figure.name:20}{figure.paper:30}{figure.title}")
    return 0


def chosen_figure(kind: str, name: str, choice: DataChoice, specs: Sequence[str] | None, scale: float | None) -> Figure:
    """Return the figure of a name with the sizes and indexes asked for; a wrong name is answered with all names.

    Of its own indexes those that this version lacks are left out, with a line.
    """
    from nearcast.bench.figures import figures_of

    known = figures_of(kind)
    if name not in known:
        raise UsageMistake(f"--figure {name}: there is no such figure; choose one of {', '.join(known)}")
    if scale is not None and not 0 < scale < float("inf"):
        raise UsageMistake(f"--scale {scale}: give a number above 0")
    figure = known[name].sized(choice.subscriptions, choice.messages, 1.0 if scale is None else scale)
    return _without_lacking(kind, figure) if specs is None else figure.with_indexes(specs)


def _without_lacking(kind: str, figure: Figure) -> Figure:
    """Leave out the series whose index is not there."""
    from nearcast.indexes import available

    there = {info.name for info in available() if kind in info.kinds}
    names = {series.label: series.spec.partition(":")[0] for series in figure.series}
    lacking = list(dict.fromkeys(name for name in names.values() if name not in there))
    if not lacking:
        return figure
    if not there.intersection(names.values()):
        raise UsageMistake(
            f"--figure {figure.name} compares {', '.join(lacking)}, which do not match {kind} subscriptions here;"
            f" name others with --indexes, of {', '.join(sorted(there))}"
        )
    complain(f"left out, for want of an index that matches {kind} subscriptions: {', '.join(lacking)}")
    return replace(figure, series=[series for series in figure.series if names[series.label] in there])


def draw_figure(
    figure: Figure, choice: DataChoice, prepare: Callable[[Workload], Workload], out: Path, command: str
) -> dict[str, Any]:
    """Measure a figure and write its picture and table; return the report."""
    from nearcast.bench.figures.drawing import must_be_able_to_draw, write_figure
    from nearcast.bench.figures.measuring import Data
    from nearcast.bench.report import machine

    if not out.is_dir():
        raise UsageMistake(f"--out {out}: there is no such folder; make it first")
    must_be_able_to_draw()
    with Steps() as steps:
        steps.begin("preparing the data")
        draw = choice.drawer()
        data = Data(lambda *asked: prepare(draw(*asked)), choice.space)
        rows = list(figure.measure(figure, data, steps.begin))
    sizes = {"subscriptions": figure.subscriptions, "messages": figure.messages}
    if figure.window is not None:
        sizes |= {"window": figure.window, "warm_up_messages": figure.warm_up or 0}
    about = {"question": figure.title, "figure": figure.name, "paper": figure.paper, **data.about, **sizes}
    about |= {"checked": figure.checked, "command": command}
    report = {"workload": about, "machine": machine(), "results": rows}
    paths = write_figure(figure, rows, _note(report), out, f"{choice.kind}-{figure.name}")
    _print(figure, report, paths)
    return report


def _note(report: dict[str, Any]) -> str:
    """Return what stands below the picture: the data, and the machine."""
    about, on = report["workload"], report["machine"]
    counts = f"{about['subscriptions']:,} subscriptions, {about['messages']:,} messages"
    if "window" in about:
        counts += f" in a window of {about['window']:,}"
    counts += f", {about['source']}"
    return f"{counts}; nearcast {on['nearcast']}, {on['cores']} cores, {on['cpu']}"


def _print(figure: Figure, report: dict[str, Any], paths: Sequence[Path]) -> None:
    from nearcast.bench.report import distance_lines, print_rows

    about, console = report["workload"], stdout()
    for line in (
        f"{figure.title} ({figure.paper}).",
        f"Data and machine: {_note(report)}.",
        *distance_lines(about),
        f"Answers: {about['checked']}.",
        f"Command: {about['command']}",
        f"Written: {', '.join(map(str, paths))}",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print()
    for panel in figure.panels:
        columns = {"x": (figure.x_label, "{}")}
        columns |= {each.label: (each.label, "{:,.4g}") for each in figure.series}
        if panel.is_common:
            columns = {"x": columns["x"], figure.series[0].label: ("all", "{:,.4g}")}
        console.print(f"{panel.label}:", highlight=False, markup=False)
        print_rows(console, _by_x(report["results"], panel.column), columns)


def _by_x(rows: Sequence[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    """Return a row for each x, with the value that a column has for each series."""
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        found.setdefault(row["x"], {"x": row["x"]})[row["series"]] = row[column]
    return list(found.values())
