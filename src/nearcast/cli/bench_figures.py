"""`nearcast bench figures`: the papers' experiments at the papers' sizes, one after the other, in hours."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearcast.cli._bench_data import DataOption
from nearcast.cli._bench_options import check_limit
from nearcast.cli._console import UsageMistake, complain

if TYPE_CHECKING:
    from nearcast.bench.figures.paper_runs import FinishedRuns, PaperRun

LIMIT_S = 120.0


def figures(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of all results; made where it is missing.")],
    only: Annotated[
        str | None, typer.Option(metavar="A,B", help="Runs whose name has one of these in it; --list shows the names.")
    ] = None,
    limit_s: Annotated[
        float, typer.Option(metavar="S", help="Skip an index that would take longer at a point, with the estimate.")
    ] = LIMIT_S,
    times: Annotated[float, typer.Option(metavar="X", help="Multiplies the papers' sizes.")] = 1.0,
    data: DataOption = None,
    show: Annotated[bool, typer.Option("--list", help="Show the runs, and how long those took that are done.")] = False,
) -> int:
    """Redo the papers' figures at the papers' sizes; started again, it goes on where it was stopped."""
    from nearcast import __version__
    from nearcast.bench.figures.paper_runs import FinishedRuns

    check_limit(limit_s)
    runs = _chosen(only, times, limit_s)
    finished = FinishedRuns(out)
    if show:
        for run in runs:
            took = finished.seconds(run, __version__)
            typer.echo(f"{run.name:38}{run.paper:25}{'' if took is None else f'done in {took:,.0f} s'}")
        return 0
    failed = [run.name for run in runs if not _finish(run, finished, __version__, out, data)]
    if failed:
        complain(f"{len(failed)} of {len(runs)} runs failed: {', '.join(failed)}; the reasons stand above")
    return 1 if failed else 0


def _chosen(only: str | None, times: float, limit_s: float) -> list[PaperRun]:
    """Return the runs whose names were asked for."""
    from nearcast.bench.figures.paper_runs import paper_runs

    if not 0 < times < float("inf"):
        raise UsageMistake(f"--times {times}: give a number above 0")
    every = paper_runs(times, limit_s)
    if only is None:
        return every
    parts = [part for part in only.split(",") if part]
    chosen = [run for run in every if any(part in run.name for part in parts)]
    if not chosen:
        raise UsageMistake(f"--only {only}: no run has that in its name; --list shows them")
    return chosen


def _finish(run: PaperRun, finished: FinishedRuns, version: str, out: Path, data: Path | None) -> bool:
    """Do one run unless it is done; tell how long it took, or return False."""
    took = finished.seconds(run, version)
    if took is not None:
        typer.echo(f"{run.name}: done before, in {took:,.0f} s")
        return True
    folder = out / run.data
    folder.mkdir(parents=True, exist_ok=True)
    words: Sequence[str] = (*run.arguments, "--resume", "--out", str(folder))
    words = (*words, *(() if data is None else ("--data", str(data))))
    typer.echo(f"{run.name} ({run.paper}): nearcast bench {' '.join(words)}")
    began = time.perf_counter()
    # A process each: what one leaves in memory is not taken from the next, and one that is killed stops no other.
    with (out / f"{run.name}.txt").open("w") as tables:
        ended = subprocess.run([sys.executable, "-m", "nearcast", "bench", *words], stdout=tables, check=False)
    if ended.returncode == 130:
        raise KeyboardInterrupt
    if ended.returncode:
        return False
    seconds = time.perf_counter() - began
    finished.note(run, version, seconds)
    typer.echo(f"{run.name}: {seconds:,.0f} s")
    return True
