"""`nearcast bench spark`: the stream beside the local engine; the paper's experiments on plans; a soak."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

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
from nearcast.cli._bench_figure import draw_figure, sized_figure
from nearcast.cli._bench_master import bench_session, slots_of
from nearcast.cli._bench_options import check_json, write_json
from nearcast.cli._console import StepProgress, UsageMistake, stdout
from nearcast.cli._options import SeedOption, SpaceOption
from nearcast.cli.stream import WindowModeName

if TYPE_CHECKING:
    from nearcast.bench.data.distances import MaxDistance
    from nearcast.bench.request import BenchRequest
    from nearcast.bench.spark.data import StreamWorkload
    from nearcast.window import Window

MESSAGES, TOPK_MESSAGES, BATCH, TOPK_BATCH = 200_000, 10_000, 50_000, 1_000


#: Asks for a broker that is started here.
LOCAL_BROKER = "local"


class StreamFiles(NamedTuple):
    """How messages arrive: so many a batch, in so many files."""

    batch: int
    per_batch: int


class StreamKind(StrEnum):
    """Kinds of subscription that the stream is timed with."""

    WITHIN = "within"
    TOPK = "topk"


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
    window_mode: Annotated[
        list[WindowModeName] | None,
        typer.Option(help="Of topk: where the stream holds the window; shared unless given, each of several is timed."),
    ] = None,
    plan: Annotated[str, typer.Option(metavar="NAME", help="How subscriptions are spread.")] = "trigger",
    partitions: Annotated[int | None, typer.Option(min=1, help="Parts they are spread over; one a slot.")] = None,
    master: Annotated[str, typer.Option(help="Spark master, local.")] = "local[2]",
    with_steps: Annotated[
        bool, typer.Option("--steps/--no-steps", help="Also time the steps of a batch, in this process.")
    ] = True,
    with_match: Annotated[
        bool, typer.Option("--match/--no-match", help="Also match all messages at once, and locally once more.")
    ] = True,
    tiny: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Batches of ten messages that are measured at the end; 15.")
    ] = None,
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Also time an empty topic, kafka://host:port/topic, which is filled; local: of a broker started here.",
        ),
    ] = None,
    soak: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Let messages and changes arrive for so long, such as 1h, and watch memory and files."
        ),
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
    given = BenchArguments(
        "spark", **{**locals(), "kind": kind.value, "window_mode": [mode.value for mode in window_mode or ()]}
    )
    if figure == "list":
        return _list_figures()
    check_json(json_file)
    given = _with_partitions(given)
    _check_together(given)
    if figure is not None:
        report = _draw(given)
    else:
        choice = DataChoice(given, TOPK_MESSAGES if kind is StreamKind.TOPK else MESSAGES)
        report = _run(choice) if soak is None else _soak(choice, _soak_seconds(soak))
    write_json(report, json_file)
    return 0


def _with_partitions(given: BenchArguments) -> BenchArguments:
    """Return the arguments with the number of partitions, one a slot unless given; the plan must fit it."""
    from nearcast.plans import parse_spec

    slots = slots_of(given.master)
    partitions = given.partitions or slots
    parse_spec(given.plan, partitions)
    return replace(given, partitions=partitions)


def _check_together(given: BenchArguments) -> None:
    """Refuse options that do not go together."""
    if not (given.out or Path()).is_dir():
        raise UsageMistake(f"--out {given.out}: there is no such folder; make it first")
    if given.kafka is not None and (given.figure is not None or given.soak is not None):
        raise UsageMistake("--kafka goes with neither --figure nor --soak")
    if given.figure is not None:
        if given.workload is not None or given.soak is not None:
            raise UsageMistake("a --figure makes its own data; leave out --workload and --soak")
    elif given.scale is not None:
        raise UsageMistake("--scale is for a --figure; --figure list shows them")
    elif given.soak is None and given.out is not None:
        raise UsageMistake("--out is for a --figure or a --soak; --json FILE writes the report")


def _reach() -> MaxDistance:
    """Return the `max_distance` of top-k subscriptions that have none: the diameter of the data."""
    from nearcast.bench.data.distances import MaxDistance

    return MaxDistance(usual_share=1.0)


def _command(given: BenchArguments, **more: Any) -> str:
    """Return the command that repeats a run or a soak."""
    repeated = ("kind", "batch", "files", "window", "warm_up", "window_mode", "tiny", "plan", "partitions", "kafka")
    without = {"no_steps": not given.with_steps, "no_match": not given.with_match}
    return given.command(repeated, **without, master=given.master, **more)


def _draw(given: BenchArguments) -> dict[str, Any]:
    """Measure and draw a figure; all of them are over top-k subscriptions."""
    from nearcast.bench.spark.figures import FIGURES

    figure = sized_figure(given, {figure.name: figure for figure in FIGURES})
    choice = DataChoice(replace(given, kind="topk"), TOPK_MESSAGES)
    return draw_figure(figure, choice, _reach().applied, given.command(("figure", "scale", "out")))


def _run(choice: DataChoice) -> dict[str, Any]:
    """Time the stream beside the local engine; print and return the report."""
    from nearcast.bench.report import machine
    from nearcast.bench.request import BenchRequest
    from nearcast.bench.spark.aims import aims_of
    from nearcast.bench.spark.comparison import QUESTION, run_spark
    from nearcast.bench.spark.report import print_spark

    given, slots = choice.given, slots_of(choice.given.master)
    of_window = (given.window, given.warm_up, given.window_mode or None)
    if given.kind != StreamKind.TOPK and any(each is not None for each in of_window):
        raise UsageMistake("--window, --warm-up and --window-mode are for --kind topk")
    if given.kafka is not None:
        _check_topic(given)
    batch = given.batch or (TOPK_BATCH if given.kind == StreamKind.TOPK else BATCH)
    request = BenchRequest(
        space=given.space,
        command=_command(given),
        max_distance=_reach(),
        window=_window(given.window),
        n_measured=choice.n_measured,
        n_warm_up=given.warm_up,
        plan=given.plan,
        partitions=given.partitions or slots,
        threads=slots,
        with_steps=given.with_steps,
        with_match=given.with_match,
        window_modes=[WindowModeName(mode).value for mode in given.window_mode or ("shared",)],
        topic=given.kafka,
        batch=batch,
    )
    files = StreamFiles(batch, given.files or slots)
    with StepProgress() as steps, _folder() as folder, _broker(given, Path(folder), steps) as (topic, settings):
        steps.begin("preparing the workload")
        workload, about = _prepared(choice, request, files, Path(folder) / "messages")
        request = replace(request, topic=topic)
        start = partial(bench_session, given.master, settings)
        results = run_spark(workload, Path(folder), request, start, steps.begin)
    chosen = {"batch": files.batch, "files_per_batch": files.per_batch, "plan": request.plan}
    chosen |= {"partitions": request.partitions, "master": given.master}
    chosen |= {"java_options": os.environ.get("SPARK_SUBMIT_OPTS")}
    about = {"question": QUESTION, **about, **chosen, "command": request.command}
    report = {"workload": about, "machine": machine(), "results": results, "aims": aims_of(about, results)}
    print_spark(report, stdout())
    return report


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="nearcast-bench-")


@contextmanager
def _broker(given: BenchArguments, folder: Path, steps: StepProgress) -> Iterator[tuple[str | None, dict[str, str]]]:
    """Start a broker where one is asked for; give the address of the topic, and what Spark's session needs for it."""
    if given.kafka != LOCAL_BROKER:
        yield given.kafka, {}
        return
    from nearcast import _jit
    from nearcast.bench.spark.kafka_jars import BROKER, fetched_jars
    from nearcast.bench.spark.local_broker import LocalBroker
    from nearcast.pipeline.kafka_topics import CONNECTOR_JARS

    steps.begin("starting a broker of Kafka, whose jars are fetched the first time")
    kept = _jit.cache_root() / "kafka"
    connector = fetched_jars(kept / f"connector-{CONNECTOR_JARS[0][2]}", CONNECTOR_JARS, transitive=False)
    jars = fetched_jars(kept / f"broker-{BROKER[2]}", [BROKER], transitive=True)
    own = folder / "broker"
    own.mkdir()
    with LocalBroker(own, jars) as broker:
        named = ",".join(str(path) for path in sorted(connector.glob("*.jar")))
        yield f"kafka://{broker.plain}/bench", {"spark.jars": named}


def _check_topic(given: BenchArguments) -> None:
    from nearcast.errors import InvalidInput
    from nearcast.pipeline.kafka_topics import KafkaTopic

    if given.kind == StreamKind.TOPK:
        raise UsageMistake("--kafka is for --kind within: a topic has no order over its partitions")
    if given.kafka == LOCAL_BROKER:
        return
    try:
        KafkaTopic.of(str(given.kafka))
    except InvalidInput as error:
        raise UsageMistake(f"--kafka: {error}") from None


def _prepared(
    choice: DataChoice, request: BenchRequest, files: StreamFiles, folder: Path
) -> tuple[StreamWorkload, dict[str, Any]]:
    """Write the workload as files in a folder; return it, and what there is to tell of it."""
    from nearcast.bench.spark.data import stream_workload, window_warm_up

    if choice.given.kind != StreamKind.TOPK:
        workload = choice.workload()
        given = stream_workload(
            workload,
            folder,
            kind=choice.given.kind,
            batch=files.batch,
            files_per_batch=files.per_batch,
            n_tiny=choice.given.tiny,
            space=request.space,
        )
        return given, workload.about | {"window": None}
    warm_up = request.n_warm_up or window_warm_up(files.batch)
    workload, length = choice.stream(request.window, warm_up)
    workload = request.max_distance.applied(workload)
    given = stream_workload(
        workload,
        folder,
        kind="topk",
        batch=files.batch,
        files_per_batch=files.per_batch,
        window=length,
        n_before=workload.messages.num_rows - request.n_measured - warm_up,
        n_warm_up=warm_up,
        n_tiny=choice.given.tiny,
        space=request.space,
        window_first=True,
    )
    given = replace(given, window_mode=request.window_modes[0])
    return given, workload.about | {"window": str(length), "window_mode": given.window_mode}


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


def _soak_seconds(given: str) -> float:
    """Return a length of time in seconds: a number of them, or such as 20m and 1h."""
    from nearcast.errors import InvalidInput
    from nearcast.window import Window

    try:
        seconds = float(given)
    except ValueError:
        try:
            seconds = (Window.of(given).length or 0) / 1e6
        except InvalidInput:
            seconds = 0.0
    if not 1 <= seconds < float("inf"):
        raise UsageMistake(f"--soak {given}: give seconds, 1 or more, or such as 1h")
    return seconds


def _soak(choice: DataChoice, seconds: float) -> dict[str, Any]:
    """Let messages and changes arrive for some time; draw how much memory that takes and return the report."""
    from nearcast.bench.figures.plot import must_be_able_to_draw
    from nearcast.bench.report import machine
    from nearcast.bench.spark.soak import Soak, draw_soak, summary

    must_be_able_to_draw()
    given, is_topk = choice.given, choice.given.kind == StreamKind.TOPK
    length = _window(given.window)
    if is_topk and length is None:
        length = _window("10000")
    workload = _reach().applied(choice.workload()) if is_topk else choice.workload()
    with StepProgress() as steps, tempfile.TemporaryDirectory(prefix="nearcast-soak-") as folder:
        steps.begin("starting Spark")
        spark = bench_session(given.master)
        soak = Soak(workload, Path(folder), length, given.space)
        partitions = given.partitions or slots_of(given.master)
        rows = soak.run(spark, seconds, plan=given.plan, partitions=partitions, say=steps.begin)
    found = summary(rows)
    about = {"question": "Does the memory of a stream stay as it is?", **workload.about}
    about["command"] = _command(given, soak=seconds, out=given.out)
    report = {"workload": about, "machine": machine(), "results": found, "samples": rows}
    paths = draw_soak(rows, report, given.out or Path())
    for line in (f"Soak of {seconds:,.0f} s: {found['verdict']}", f"Written: {', '.join(map(str, paths))}"):
        typer.echo(line)
    return report
