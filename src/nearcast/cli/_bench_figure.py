"""Measures a figure with progress on stderr, draws it, and prints it as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nearcast.cli._bench_options import check_scale
from nearcast.cli._console import StepProgress, UsageMistake, complain, stdout

if TYPE_CHECKING:
    from nearcast.bench.data.workloads import Workload
    from nearcast.bench.figures.figure import Figure
    from nearcast.bench.figures.measurement import Draw
    from nearcast.cli._bench_arguments import BenchArguments
    from nearcast.cli._bench_data import DataChoice


def list_figures(kind: str) -> int:
    """Print the figures there are, a line each."""
    from nearcast.bench.figures import figures_of

    for figure in figures_of(kind).values():
        typer.echo(f"{figure.name:20}{figure.paper:30}{figure.title}")
    return 0


def chosen_figure(given: BenchArguments, choice: DataChoice, specs: Sequence[str] | None) -> Figure:
    """Return the figure of a name with the sizes and indexes asked for; a wrong name is answered with all names.

    Of its own indexes and data files those that are lacking are left out, with a line.
    """
    from nearcast.bench.figures import figures_of

    figure = _with_sources(sized_figure(given, figures_of(given.kind)), choice)
    figure = without_lacking(given.kind, figure) if specs is None else figure.with_indexes(specs)
    _must_vary(figure)
    return figure


def sized_figure(given: BenchArguments, known: Mapping[str, Figure]) -> Figure:
    """Return the known figure that is asked for, with the sizes asked for."""
    name = str(given.figure)
    if name not in known:
        raise UsageMistake(f"--figure {name}: there is no such figure; choose one of {', '.join(known)}")
    usual = known[name]
    check_scale(given.scale, max(given.subscriptions or usual.subscriptions, usual.window or 0, usual.warm_up or 0))
    sized = usual.sized(given.subscriptions, given.messages, 1.0 if given.scale is None else given.scale)
    return replace(sized, limit_s=given.limit_s)


def _with_sources(figure: Figure, choice: DataChoice) -> Figure:
    """Leave out the points whose data file is not there, or all but one where a source is given."""
    named = [point for point in figure.points if point.source is not None]
    if not named:
        return figure
    if choice.given.source is not None:
        return replace(figure, points=[replace(named[0], source=None)])
    lacking = [str(point.source) for point in named if choice.lacks(str(point.source))]
    if lacking:
        complain(f"left out, for want of a data file (--data says where they are): {', '.join(lacking)}")
    return replace(figure, points=[point for point in figure.points if point.source not in lacking])


def _must_vary(figure: Figure) -> None:
    """Refuse a figure over an option that none of its indexes has: all of its points would be the same."""
    from nearcast.bench.figures.figure import with_options

    options = list(dict.fromkeys(key for point in figure.points for key in point.options))
    if not options:
        return
    for series in figure.series:
        if len({with_options(series.spec, point.options) for point in figure.points}) > 1:
            return
    specs = ", ".join(series.spec for series in figure.series)
    raise UsageMistake(f"--figure {figure.name} is over the option {' and '.join(options)}, which {specs} lacks")


def without_lacking(kind: str, figure: Figure) -> Figure:
    """Leave out the series whose index, or an option of it, is not there."""
    from nearcast.indexes import available

    there = {info.name for info in available() if kind in info.kinds}
    lacking = {series.label: why for series in figure.series if (why := _what_lacks(series.spec, there))}
    if not lacking:
        return figure
    told = ", ".join(dict.fromkeys(lacking.values()))
    if len(lacking) == len(figure.series):
        raise UsageMistake(
            f"--figure {figure.name} compares {told}, which do not match {kind} subscriptions here;"
            f" name others with --indexes, of {', '.join(sorted(there))}"
        )
    complain(f"left out, for want of an index that matches {kind} subscriptions: {told}")
    return replace(figure, series=[series for series in figure.series if series.label not in lacking])


def _what_lacks(spec: str, there: set[str]) -> str | None:
    """Return the name of an index that is not there, or its specification where it lacks an option."""
    from nearcast.errors import UnknownIndex
    from nearcast.geo import Space
    from nearcast.indexes import create

    name = spec.partition(":")[0]
    if name not in there:
        return name
    try:
        create(spec, Space.plane())
    except UnknownIndex:
        return spec
    return None


def draw_figure(
    figure: Figure, choice: DataChoice, prepare: Callable[[Workload], Workload], command: str
) -> dict[str, Any]:
    """Measure a figure and write its picture and table; return the report."""
    from nearcast.bench.figures.measurement import FigureData

    def data() -> FigureData:
        return FigureData(
            _prepared(choice.drawer(), prepare),
            choice.given.space,
            draw_from=lambda source: _prepared(choice.drawer_from(source), prepare),
        )

    given = choice.given
    return draw_on(figure, data, given.out, given.bench, command, resume=given.resume)


def draw_on(
    figure: Figure, make_data: Callable[[], Any], out: Path | None, bench: str, command: str, *, resume: bool = False
) -> dict[str, Any]:
    """Measure a figure on the data that its measuring function takes; write and return as `draw_figure` does.

    With `resume` each row is kept in the folder until the figure is drawn, and a run that was stopped goes on.
    """
    from nearcast.bench.figures.journal import RowJournal, measured
    from nearcast.bench.figures.plot import must_be_able_to_draw, write_figure
    from nearcast.bench.report import machine

    out = out or Path()
    if not out.is_dir():
        raise UsageMistake(f"--out {out}: there is no such folder; make it first")
    must_be_able_to_draw()
    with StepProgress() as steps:
        steps.begin("preparing the data")
        data = make_data()
        name, run = f"{bench}-{figure.name}", f"{command}, nearcast {machine()['nearcast']}"
        journal = RowJournal(out / f"{name}.rows.jsonl", run) if resume else None
        rows = measured(figure, data, steps.begin, journal)
    sizes = {"subscriptions": figure.subscriptions, "messages": figure.messages}
    if figure.history:
        sizes["history_messages"] = figure.history
    if figure.window is not None:
        sizes |= {"window": figure.window, "warm_up_messages": figure.warm_up or 0}
    about = {"question": figure.title, "figure": figure.name, "paper": figure.paper, **data.about, **sizes}
    if any(point.source is not None for point in figure.points):
        names = list(dict.fromkeys(row["x"] for row in rows))
        about |= {"source": f"{len(names)} data sets", "sources": names, "distribution": "of each its own"}
    about |= {"checked": figure.checked, "command": command}
    report = {"workload": about, "machine": machine(), "results": rows}
    paths = write_figure(figure, rows, _note(report), out, name)
    if journal is not None:
        journal.close()
    _print(figure, report, paths)
    return report


def _prepared(draw: Draw, prepare: Callable[[Workload], Workload]) -> Draw:
    return lambda *asked: prepare(draw(*asked))


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
        *([f"Budget: {figure.budget}."] if figure.budget else []),
        *_exceptions(report),
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


def _exceptions(report: dict[str, Any]) -> list[str]:
    """Return what was measured on fewer messages than the others, and what was not measured and why: a line each."""
    from nearcast.bench.answers import is_scan

    lines, most = [], report["workload"]["messages"]
    all_timestamps = report["workload"].get("timestamps", 0)
    for row in report["results"]:
        where = f"{row['series']} at {row['x']}"
        if row.get("skipped"):
            lines.append(f"Skipped: {where}: {row['skipped']}.")
        elif "timestamps" in row:  # a life is cut short by timestamps, and points may differ by their messages
            if row["timestamps"] < all_timestamps:
                lines.append(f"Fewer timestamps, for want of time: {where}, {row['timestamps']} of {all_timestamps}.")
        elif "skipped" in row and row["messages"] < most and not is_scan(row["index"]):
            lines.append(f"Fewer messages, for want of time: {where}, {row['messages']:,} of {most:,}.")
    return lines


def _by_x(rows: Sequence[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    """Return a row for each x, with the value that a column has for each series."""
    from nearcast.bench.figures.plot import plain_number

    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        x = row["x"]
        found.setdefault(x, {"x": x if isinstance(x, str) else plain_number(x)})[row["series"]] = row[column]
    return list(found.values())
