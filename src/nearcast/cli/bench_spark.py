"""`nearcast bench spark`: the stream beside the local engine; the paper's experiments on plans; a soak."""

from __future__ import annotations

import re
import tempfile
from enum import StrEnum
from functools import partial
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
from nearcast.cli._bench_figure import draw_figure
from nearcast.cli._bench_options import check_json, check_scale, write_json
from nearcast.cli._console import StepProgress, UsageMistake, stdout
from nearcast.cli._options import SeedOption, SpaceOption

if TYPE_CHECKING:
    from nearcast.bench.data.distances import MaxDistance
    from nearcast.bench.figures.figure import Figure
    from nearcast.bench.spark.data import StreamWorkload
    from nearcast.window import Window

MESSAGES, TOPK_MESSAGES, BATCH, TOPK_BATCH = 200_000, 10_000, 50_000, 1_000
_LOCAL = re.compile(r"local\[(\d+|\*)(,\d+)?\]")


class StreamKind(StrEnum):
    """Kinds of subscription that the stream is timed with."""

    WITHIN = "within"
    TOPK = "topk"


class SparkChoice(DataChoice):
    """The data of a figure: top-k subscriptions, in files named after Spark."""

    def _asked(self, subscriptions: int, messages: int) -> dict[str, Any]:
        return {**super()._asked(subscriptions, messages), "kind": "topk"}


def spark(
    workload: WorkloadOption = None,
    subscriptions: SubscriptionsOption = None,
    messages: MessagesOption = None,
    kind: Annotated[StreamKind, typer.Option(help="Of all subscriptions.")] = StreamKind.WITHIN,
    batch: Annotated[
        int | None, typer.Option(min=1, help=f"Messages a batch; {BATCH:,} unless given, {TOPK_BATCH:,} for topk.")
    ] = None,
    files: Annotated[int | None, typer.Option(min=1, help="Files a batch; as many as tasks run at once.")] = None,
    window: Annotated[
        str | None, typer.Option(metavar="N", help="Of topk: messages in the window; 100,000 unless given.")
    ] = None,
    warm_up: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Of topk: messages between those that fill the window and the measured."),
    ] = None,
    plan: Annotated[str, typer.Option(metavar="NAME", help="How subscriptions are spread.")] = "trigger",
    partitions: Annotated[int | None, typer.Option(min=1, help="Parts they are spread over; one a slot.")] = None,
    master: Annotated[str, typer.Option(help="Spark master, local.")] = "local[2]",
    with_steps: Annotated[
        bool, typer.Option("--steps/--no-steps", help="Also time the steps of a batch, in this process.")
    ] = True,
    soak: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Let messages and changes arrive for so long, and watch the memory."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the report here.")
    ] = None,
    source: SourceOption = None,
    data: DataOption = None,
    seed: SeedOption = 1,
    space: SpaceOption = None,
    figure: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Redo an experiment of the Skype paper on plans and draw it; list: which."),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(metavar="S", help="Of a figure: multiplies subscriptions and window; 1 unless given."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Of a figure or a soak: folder for PNG and CSV; here unless given."),
    ] = None,
) -> int:
    """Time the stream beside the local engine on the same files, answers compared; or draw a --figure; or --soak."""
    from nearcast.bench.data.distances import MaxDistance
    from nearcast.plans import parse_spec

    if figure == "list":
        return _list_figures()
    check_json(json_file)
    slots = _slots(master)
    parts = partitions or slots
    parse_spec(plan, parts)
    kinds = {"kind": kind.value, "batch": batch, "files": files, "window": window, "warm_up": warm_up}
    kinds |= {"plan": plan, "partitions": parts, "no_steps": not with_steps}
    usual = TOPK_MESSAGES if kind is StreamKind.TOPK else MESSAGES
    choice = DataChoice(kind.value, usual, workload, subscriptions, messages, source, data, seed, space)
    reach = MaxDistance(usual_share=1.0)
    where = out or Path()
    if not where.is_dir():
        raise UsageMistake(f"--out {out}: there is no such folder; make it first")
    if figure is not None:
        if workload is not None or soak is not None:
            raise UsageMistake("a --figure makes its own data; leave out --workload and --soak")
        command = choice.command("spark", figure=figure, scale=scale, out=out)
        asked = SparkChoice("spark", usual, None, subscriptions, messages, source, data, seed, space)
        chosen = _figure(figure, subscriptions, messages, scale)
        report = draw_figure(chosen, asked, reach.applied, where, command)
    elif scale is not None:
        raise UsageMistake("--scale is for a --figure; --figure list shows them")
    elif soak is not None:
        command = choice.command("spark", **kinds, master=master, soak=soak, out=out)
        report = _soak(choice, reach, soak, window, plan, parts, master, where, command)
    else:
        if out is not None:
            raise UsageMistake("--out is for a --figure or a --soak; --json FILE writes the report")
        command = choice.command("spark", **kinds, master=master)
        size = batch or (TOPK_BATCH if kind is StreamKind.TOPK else BATCH)
        report = _run(choice, reach, (window, warm_up), size, files or slots, plan, parts, master, command, with_steps)
    write_json(report, json_file)
    return 0


def _slots(master: str) -> int:
    import os

    found = _LOCAL.fullmatch(master)
    if found is None:
        raise UsageMistake(
            f"--master {master}: expected local[N], such as local[2]; a cluster is timed by its own logs"
        )
    slots = len(os.sched_getaffinity(0)) if found[1] == "*" else int(found[1])
    if not slots:
        raise UsageMistake(f"--master {master}: expected one slot or more")
    return slots


def _session(master: str) -> Any:
    from nearcast.spark.session import session, warm

    started = session(master if "," in master else f"{master[:-1]},4]", app="nearcast bench")
    warm(started)
    return started


def _run(
    choice: DataChoice,
    reach: MaxDistance,
    lengths: tuple[str | None, int | None],
    batch: int,
    files: int,
    plan: str,
    partitions: int,
    master: str,
    command: str,
    with_steps: bool,
) -> dict[str, Any]:
    from nearcast.bench.report import machine
    from nearcast.bench.spark.comparison import QUESTION, run_spark
    from nearcast.bench.spark.report import print_spark

    with StepProgress() as steps, tempfile.TemporaryDirectory(prefix="nearcast-bench-") as folder:
        steps.begin("preparing the workload")
        given, about = _prepared(choice, reach, lengths, batch, files, Path(folder) / "messages")
        results = run_spark(
            given,
            Path(folder),
            plan=plan,
            partitions=partitions,
            threads=_slots(master),
            with_steps=with_steps,
            start=partial(_session, master),
            say=steps.begin,
        )
    settings = {"batch": batch, "files_per_batch": files, "plan": plan, "partitions": partitions, "master": master}
    about = {"question": QUESTION, **about, **settings, "command": command}
    report = {"workload": about, "machine": machine(), "results": results}
    print_spark(report, stdout())
    return report


def _prepared(
    choice: DataChoice,
    reach: MaxDistance,
    lengths: tuple[str | None, int | None],
    batch: int,
    files: int,
    folder: Path,
) -> tuple[StreamWorkload, dict[str, Any]]:
    from nearcast.bench.spark.data import stream_workload

    window, n_warm_up = lengths
    if choice.kind != "topk":
        if window is not None or n_warm_up is not None:
            raise UsageMistake("--window and --warm-up are for --kind topk")
        workload = choice.workload()
        given = stream_workload(
            workload, folder, kind=choice.kind, batch=batch, files_per_batch=files, space=choice.space
        )
        return given, workload.about | {"window": None}
    warm_up = n_warm_up or 2 * batch
    workload, length = choice.stream(_window(window), warm_up)
    workload = reach.applied(workload)
    n_before = workload.messages.num_rows - choice.n_measured - warm_up
    given = stream_workload(
        workload,
        folder,
        kind="topk",
        batch=batch,
        files_per_batch=files,
        window=length,
        n_before=n_before,
        n_warm_up=warm_up,
        space=choice.space,
    )
    return given, workload.about | {"window": str(length)}


def _window(given: str | None) -> Window | None:
    from nearcast.errors import InvalidInput
    from nearcast.window import Window

    if given is None:
        return None
    try:
        window = Window.of(given)
    except InvalidInput as error:
        raise UsageMistake(f"--window {given}: {error}") from None
    if window.is_by_time:
        raise UsageMistake(f"--window {given}: give a number of messages")
    return window


def _list_figures() -> int:
    from nearcast.bench.spark.figures import FIGURES

    for figure in FIGURES:
        typer.echo(f"{figure.name:20}{figure.paper:30}{figure.title}")
    return 0


def _figure(name: str, subscriptions: int | None, messages: int | None, scale: float | None) -> Figure:
    from nearcast.bench.spark.figures import FIGURES

    known = {figure.name: figure for figure in FIGURES}
    if name not in known:
        raise UsageMistake(f"--figure {name}: there is no such figure; choose one of {', '.join(known)}")
    usual = known[name]
    check_scale(scale, max(subscriptions or usual.subscriptions, usual.window or 0, usual.warm_up or 0))
    return usual.sized(subscriptions, messages, 1.0 if scale is None else scale)


def _soak(
    choice: DataChoice,
    reach: MaxDistance,
    seconds: float,
    window: str | None,
    plan: str,
    partitions: int,
    master: str,
    out: Path,
    command: str,
) -> dict[str, Any]:
    from nearcast.bench.figures.plot import must_be_able_to_draw
    from nearcast.bench.report import machine
    from nearcast.bench.spark.soak import Soak, draw_soak, summary

    if not 1 <= seconds < float("inf"):
        raise UsageMistake(f"--soak {seconds}: give seconds, 1 or more")
    must_be_able_to_draw()
    length = _window(window)
    if choice.kind == "topk" and length is None:
        length = _window("10000")
    workload = reach.applied(choice.workload()) if choice.kind == "topk" else choice.workload()
    with StepProgress() as steps, tempfile.TemporaryDirectory(prefix="nearcast-soak-") as folder:
        steps.begin("starting Spark")
        spark = _session(master)
        soak = Soak(workload, Path(folder), length, choice.space)
        rows = soak.run(spark, seconds, plan=plan, partitions=partitions, say=steps.begin)
    found = summary(rows)
    about = {"question": "Does the memory of a stream stay as it is?", **workload.about, "command": command}
    report = {"workload": about, "machine": machine(), "results": found, "samples": rows}
    paths = draw_soak(rows, report, out)
    for line in (f"Soak of {seconds:,.0f} s: {found['verdict']}", f"Written: {', '.join(map(str, paths))}"):
        typer.echo(line)
    return report
