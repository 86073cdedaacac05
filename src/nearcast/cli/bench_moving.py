"""`nearcast bench moving`: how fast subscriptions move among live messages, or an experiment of the AP-Tree paper."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._bench_arguments import must_fit
from nearcast.cli._bench_data import DataOption, SourceOption, data_folders
from nearcast.cli._bench_figure import draw_on, without_lacking
from nearcast.cli._bench_master import bench_session, slots_of
from nearcast.cli._bench_options import (
    JsonFileOption,
    OutOption,
    ResumeOption,
    check_json,
    check_scale,
    split_indexes,
    write_json,
)
from nearcast.cli._console import StepProgress, UsageMistake, complain, stdout
from nearcast.cli._options import SeedOption

if TYPE_CHECKING:
    from nearcast.bench.figures.figure import Figure, Point
    from nearcast.bench.moving.aims import AimsRequest
    from nearcast.bench.moving.measurement import MovingData
    from nearcast.bench.moving.settings import MovingSetting, SettingData

FIGURE_TIMESTAMPS = 5
SUBSCRIPTIONS, BATCH = 100_000, 10_000


def moving(
    subscriptions: Annotated[
        int | None, typer.Option(min=1, help=f"How many; {SUBSCRIPTIONS:,} unless given, of a figure its own.")
    ] = None,
    messages: Annotated[
        int | None, typer.Option(min=1, help="How many live at any time; as many as subscriptions unless given.")
    ] = None,
    timestamps: Annotated[
        int | None,
        typer.Option(min=1, help=f"Of a figure: how many are measured at most; {FIGURE_TIMESTAMPS} unless given."),
    ] = None,
    mobility: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Who moves at each timestamp; 0.2 unless given.")
    ] = None,
    moves: Annotated[
        int | None, typer.Option(min=1, help="Of the table: how many moves are timed; two for each unless given.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help=f"Of the table: moves in a call; {BATCH:,} unless given.")
    ] = (None),
    indexes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Of a figure, in its order, its own unless given; of the table one, trigger unless given.",
        ),
    ] = None,
    source: SourceOption = None,
    roads: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Network in road_*_nodes.parquet of --data, town for a made-up one; oldenburg where it is there.",
        ),
    ] = None,
    data: DataOption = None,
    seed: SeedOption = 1,
    json_file: JsonFileOption = None,
    figure: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Redo an experiment of the AP-Tree paper on moving ones and draw it; list shows them."
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(metavar="S", help="Of a figure: multiplies its subscriptions and messages; 50 is the paper's."),
    ] = None,
    out: OutOption = None,
    resume: ResumeOption = False,
    spark: Annotated[
        str | None,
        typer.Option(
            metavar="MASTER",
            help="Time moves on Spark, such as local[2], beside a hub instead; a batch moves all subscriptions.",
        ),
    ] = None,
) -> int:
    """Time moves of subscriptions among live messages, single and in batches; or draw a --figure; or on --spark."""
    given = MovingBenchArguments(**locals())
    if figure == "list":
        return _list_figures()
    check_json(json_file)
    given.check()
    report = _draw(given) if figure is not None else _table(given) if spark is None else _stream(given)
    write_json(report, json_file)
    return 0


@dataclass(frozen=True)
class MovingBenchArguments:
    """What the command was given, named as its parameters; None is one that was not given."""

    subscriptions: int | None
    messages: int | None
    timestamps: int | None
    mobility: float | None
    moves: int | None
    batch: int | None
    indexes: str | None
    source: str | None
    roads: str | None
    data: Path | None
    seed: int
    json_file: Path | None
    figure: str | None
    scale: float | None
    out: Path | None
    resume: bool
    spark: str | None

    def check(self) -> None:
        """Refuse values out of range, and options that do not go together."""
        for option, n in (("--subscriptions", self.subscriptions), ("--messages", self.messages)):
            must_fit(option, n or 1)
        if self.mobility is not None and not 0 < self.mobility <= 1:
            raise UsageMistake(f"--mobility {self.mobility}: give a share above 0 and up to 1")
        of_figures = (self.scale, self.out, self.timestamps, self.resume or None)
        if self.figure is None and of_figures != (None,) * 4:
            raise UsageMistake("--scale, --timestamps, --out and --resume are for a --figure; --figure list shows them")
        if self.spark is not None and (self.figure, self.moves, self.batch, self.mobility) != (None,) * 4:
            raise UsageMistake(
                "--spark moves all subscriptions in each batch; leave out --figure, --moves, --batch and --mobility"
            )
        if self.figure is not None and (self.moves is not None or self.batch is not None):
            raise UsageMistake("--moves and --batch are for the table; leave them out of a --figure")

    def command(self) -> str:
        """Return the command that repeats the run."""
        words = ["nearcast", "bench", "moving"]
        for name, value in vars(self).items():
            if value is not None and name not in ("json_file", "data", "resume"):
                words += [f"--{name.replace('_', '-')}", str(value)]
        return shlex.join(words)

    def setting(self, files: SettingData) -> MovingSetting:
        """Return what is measured, unless a point of a figure says otherwise: the paper's data where it is there."""
        from nearcast.bench.moving.settings import MAPS, SYNTHETIC, TOWN, WORD_SETS, MovingSetting

        usual = MovingSetting(
            self.subscriptions or SUBSCRIPTIONS,
            self.messages or self.subscriptions or SUBSCRIPTIONS,
            self.timestamps or FIGURE_TIMESTAMPS,
            words=WORD_SETS["TWEETS"],
            roads=MAPS["ODB"],
            mobility=0.2 if self.mobility is None else self.mobility,
            seed=self.seed,
        )
        if self.source is not None or files.lacks(replace(usual, roads=TOWN)):
            usual = replace(usual, words=self.source or SYNTHETIC)
        if self.roads is not None or files.lacks(replace(usual, words=SYNTHETIC)):
            usual = replace(usual, roads=self.roads or TOWN)
        lacking = files.lacks(usual)
        if lacking is not None:
            option = "--source" if lacking == self.source else "--roads"
            raise UsageMistake(f"{option} {lacking}: there is none in {' or '.join(map(str, files.folders))}")
        return usual


def _draw(given: MovingBenchArguments) -> dict[str, Any]:
    """Measure and draw a figure; print and return the report."""
    from nearcast.bench.moving.figures import DATA_OF, FIGURES
    from nearcast.bench.moving.measurement import MovingData, over_settings
    from nearcast.bench.moving.settings import SettingData

    known = {figure.name: figure for figure in FIGURES}
    if given.figure not in known:
        raise UsageMistake(f"--figure {given.figure}: there is no such figure; choose one of {', '.join(known)}")
    files = SettingData(data_folders(given.data))
    data = MovingData(given.setting(files), files)
    chosen = _sized(known[given.figure], given)
    if chosen.measure is over_settings:
        chosen = _with_series(_with_points(chosen, given, data), given)
    elif given.indexes is not None:
        raise UsageMistake(f"--figure {chosen.name} has its own indexes; leave out --indexes")
    return draw_on(
        chosen, lambda: DATA_OF[chosen.measure](data), given.out, "moving", given.command(), resume=given.resume
    )


def _with_series(figure: Figure, given: MovingBenchArguments) -> Figure:
    """Return a figure of the indexes that are asked for, else of those of its own that are there."""
    if given.indexes is None:
        return without_lacking("within", figure)
    return figure.with_indexes(split_indexes(given.indexes, "within"))


def _sized(figure: Figure, given: MovingBenchArguments) -> Figure:
    """Return a figure with the sizes asked for; its `history`, if it has one, are the live messages."""
    n, scale = given.subscriptions or figure.subscriptions, 1.0 if given.scale is None else given.scale
    m = given.messages or (given.subscriptions if not figure.history else None) or figure.messages
    check_scale(given.scale, max(n, m, figure.history))
    n, m = (max(1, round(each * scale)) for each in (n, m))
    return replace(figure, subscriptions=n, messages=m, history=round(figure.history * scale))


def _with_points(figure: Figure, given: MovingBenchArguments, data: MovingData) -> Figure:
    """Return a figure without what is given otherwise, and without the points whose data file is not there."""
    from nearcast.bench.moving.measurement import setting_at

    fixed = {name for name, value in (("words", given.source), ("roads", given.roads)) if value is not None}
    points = [replace(point, options=_without(point.options, fixed)) for point in figure.points]
    points = [point for at, point in enumerate(points) if point not in points[:at]]
    lacking = {at: data.source.lacks(setting_at(figure, data.setting, point)) for at, point in enumerate(points)}
    names = list(dict.fromkeys(name for name in lacking.values() if name is not None))
    there = [point for at, point in enumerate(points) if lacking[at] is None]
    if names and not there and "replay" in points[0].options:
        raise UsageMistake(f"--figure {figure.name} needs the data file {names[0]}; --data says where it is")
    if names:
        complain(f"left out, for want of a data file (--data says where they are): {', '.join(names)}")
    return replace(figure, points=there or _bare(points))


def _bare(points: Sequence[Point]) -> list[Point]:
    """Return the first point with the data that there is."""
    return [replace(points[0], options=_without(points[0].options, {"words", "roads"}))]


def _without(options: Any, names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}


def _list_figures() -> int:
    from nearcast.bench.moving.figures import FIGURES

    for figure in FIGURES:
        typer.echo(f"{figure.name:20}{figure.paper:30}{figure.title}")
    return 0


def _table(given: MovingBenchArguments) -> dict[str, Any]:
    """Time the moves of one setting; print and return the report."""
    from nearcast.bench.moving.aims import run_aims
    from nearcast.bench.report import print_moving_report

    with StepProgress() as steps:
        report = run_aims(_request(given), steps.begin, steps.tell)
    print_moving_report(report, stdout())
    return report


def _request(given: MovingBenchArguments) -> AimsRequest:
    """Return what a table is about."""
    from nearcast.bench.moving.aims import AimsRequest
    from nearcast.bench.moving.settings import SettingData

    specs = split_indexes(given.indexes or "trigger", "within")
    if len(specs) > 1:
        raise UsageMistake(f"--indexes {given.indexes}: the table has one; name one, or a --figure")
    files = SettingData(data_folders(given.data))
    setting = given.setting(files)
    return AimsRequest(
        setting,
        files,
        specs[0],
        moves=given.moves or 2 * setting.subscriptions,
        batch=given.batch or BATCH,
        command=given.command(),
    )


def _stream(given: MovingBenchArguments) -> dict[str, Any]:
    """Time moves on Spark beside a hub; print and return the report."""
    from nearcast.bench.moving.stream_moves import run_stream_moves
    from nearcast.bench.report import print_moving_report

    master = str(given.spark)
    slots = slots_of(master, "--spark")
    with StepProgress() as steps, tempfile.TemporaryDirectory(prefix="nearcast-bench-") as folder:
        start = partial(bench_session, master)
        report = run_stream_moves(_request(given), Path(folder), slots, start, steps.begin, steps.tell)
    print_moving_report(report, stdout())
    return report
