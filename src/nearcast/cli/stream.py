"""`nearcast stream`: messages and changes arrive in folders or topics, deliveries come out, until it is stopped."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._console import UsageMistake, complain, leave_if_told, stderr
from nearcast.cli._inputs import check_max_distance, lifetime_of, need_window, renames_from, window_of
from nearcast.cli._kafka_options import kafka_options_in
from nearcast.cli._options import (
    DeliveryIdsOption,
    JsonOption,
    LifetimeOption,
    MapOption,
    MaxDistanceOption,
    SpaceName,
    SpaceOption,
    StrictOption,
    WindowOption,
)
from nearcast.cli._rejected import EXIT_REJECTED, show_rejected

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Group

    from nearcast.pipeline.driver.batch_report import PartitionLoad
    from nearcast.spark.batch_progress import BatchProgress
    from nearcast.spark.stream import Stream
    from nearcast.text import Vocabulary

#: Batches that a terminal shows.
_SHOWN = 12
_TRIGGER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)\s*")
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}


class ClockName(StrEnum):
    """What moves event time."""

    EVENT = "event"
    WALL = "wall"


class FoldersName(StrEnum):
    """How part files are put into folders."""

    ONE = "one"
    HOUR = "hour"


class WindowModeName(StrEnum):
    """Where the messages of a window are held."""

    SHARED = "shared"
    HOST = "host"
    PARTITIONED = "partitioned"


def stream(
    subscriptions: Annotated[
        str,
        typer.Option(metavar="FILE|STORE", help="Subscriptions it begins with: a file, or what nearcast prepare made."),
    ],
    messages: Annotated[
        str, typer.Option(metavar="FOLDER|kafka://HOST/TOPIC", help="Where messages arrive: files, or records of JSON.")
    ],
    out: Annotated[
        str, typer.Option(metavar="FOLDER|kafka://HOST/TOPIC|console", help="Where deliveries go; .jsonl: JSON lines.")
    ],
    checkpoint: Annotated[str, typer.Option(metavar="FOLDER", help="What the stream needs to go on after a stop.")],
    changes: Annotated[
        str | None,
        typer.Option(metavar="FOLDER|kafka://HOST/TOPIC", help="Where subscriptions come, go and move: column op."),
    ] = None,
    window: WindowOption = None,
    window_mode: Annotated[
        WindowModeName,
        typer.Option(help="Hold the window in every part, once a host, or divide it where it outgrows a machine."),
    ] = WindowModeName.SHARED,
    lifetime: LifetimeOption = None,
    tell_expiry: Annotated[
        bool, typer.Option("--tell-expiry", help="With --lifetime: deliver the end of a message as a -.")
    ] = False,
    plan: Annotated[
        str, typer.Option(help="How subscriptions are spread: trigger, hash, location, keyword, prefix, space-first, …")
    ] = "trigger",
    partitions: Annotated[int | None, typer.Option(min=1, help="Parts they are spread over; one a core.")] = None,
    trigger: Annotated[str, typer.Option(metavar="TIME", help="A batch at most so often: 500ms, 1s, 2m.")] = "1s",
    clock: Annotated[
        ClockName | None, typer.Option(help="What moves time: messages, or also the wall clock (default for Kafka).")
    ] = None,
    max_ahead: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|off", help="Reject messages further ahead of time; 5m where the wall clock moves it."
        ),
    ] = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="Parquet file of what words weigh; without it all words weigh alike.")
    ] = None,
    space: SpaceOption = None,
    max_distance: MaxDistanceOption = None,
    maps: MapOption = None,
    index: Annotated[
        str, typer.Option(metavar="NAME[:KEY=VALUE,…]", help="Index to match with; nearcast indexes lists them.")
    ] = "trigger",
    at_once: Annotated[
        int | None, typer.Option("--at-once", min=1, help="Files, or records of Kafka, in a batch at most.")
    ] = None,
    kafka_options: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Options for Kafka, a line each: kafka.security.protocol=SASL_SSL."),
    ] = None,
    rebalance_above: Annotated[
        float | None, typer.Option(min=1.0, help="Spread anew when load, or the ways of movers, grew so many times.")
    ] = None,
    skip_missing_files: Annotated[
        bool, typer.Option("--skip-missing-files", help="Go on without files that are gone, and reject them.")
    ] = False,
    delivery_ids: DeliveryIdsOption = False,
    part_folders: Annotated[
        FoldersName, typer.Option(help="Part files in one folder, or by hour of event time, for nearcast compact.")
    ] = FoldersName.ONE,
    master: Annotated[str | None, typer.Option(help="Spark master; else all cores of this machine.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Work off what is there, then end.")] = False,
    strict: StrictOption = False,
    as_json: JsonOption = False,
) -> int:
    """Deliver messages as they arrive, exactly once, and go on after a stop where it ended.

    Ctrl-C ends it after the batch under way. Rejected rows are in the folder _rejected of the output or, if that is no
    folder, of the checkpoint.
    """
    given = StreamArguments(**locals())
    first = _subscriptions(given)
    _check_folders(messages, changes)
    show = _BatchDisplay(as_json=as_json)
    with show:
        show.say("starting Spark")
        running = _start(given, first, show)
        show.say("waiting for messages")
        _until_stopped(running)
    is_folder = out != "console" and not out.startswith("kafka://")
    show_rejected(running.rejected, f"they are in {out if is_folder else checkpoint}/_rejected")
    typer.echo(show.summary(out, f"{(out if is_folder else checkpoint).rstrip('/')}/_rejected"))
    return EXIT_REJECTED if show.rejected + len(running.rejected) else 0


@dataclass(frozen=True)
class StreamArguments:
    """What the command was given, named as its parameters; its texts are checked when it is made."""

    subscriptions: str
    messages: str
    out: str
    checkpoint: str
    changes: str | None
    window: str | None
    window_mode: WindowModeName
    lifetime: str | None
    tell_expiry: bool
    plan: str
    partitions: int | None
    trigger: str
    clock: ClockName | None
    max_ahead: str | None
    vocabulary: Path | None
    space: SpaceName | None
    max_distance: float | None
    maps: list[str] | None
    index: str
    at_once: int | None
    kafka_options: Path | None
    rebalance_above: float | None
    skip_missing_files: bool
    delivery_ids: bool
    part_folders: FoldersName
    master: str | None
    once: bool
    strict: bool
    as_json: bool

    def __post_init__(self) -> None:
        check_max_distance(self.max_distance)
        window_of(self.window)
        lifetime_of(self.lifetime)
        if self.tell_expiry and self.lifetime is None:
            raise UsageMistake("--tell-expiry needs --lifetime: without it no message expires")
        _every(self.trigger)
        _check_max_ahead(self.max_ahead)
        self.kafka  # noqa: B018 - which refuses a file that is none

    @cached_property
    def kafka(self) -> dict[str, str]:
        """The options for Kafka in the file that was given."""
        return kafka_options_in(self.kafka_options)

    @property
    def renames(self) -> dict[str, str]:
        """Return the columns that are used under another name: {new: old}."""
        return renames_from(self.maps or [])


def _subscriptions(given: StreamArguments) -> pa.Table | str:
    """Return the subscriptions that the stream begins with: those of a file, or the folder that was prepared."""
    from nearcast.pipeline.preparation.prepared_store import PREPARED
    from nearcast.pipeline.store.store import Store

    if not Path(given.subscriptions).is_file() and Store(given.subscriptions).exists(PREPARED):
        return given.subscriptions
    table = _table(given.subscriptions, given.renames, strict=given.strict)
    need_window(table, window_of(given.window))
    return table


def _start(given: StreamArguments, subscriptions: pa.Table | str, show: _BatchDisplay) -> Stream:
    """Start Spark and the stream."""
    from nearcast.spark.session import session
    from nearcast.spark.stream import stream as start

    return start(
        given.messages,
        subscriptions,
        out=given.out,
        checkpoint=given.checkpoint,
        changes=given.changes,
        window=window_of(given.window),
        window_mode=given.window_mode.value,
        lifetime=lifetime_of(given.lifetime),
        tell_expiry=given.tell_expiry,
        plan=given.plan,
        partitions=given.partitions,
        trigger=_every(given.trigger),
        clock=None if given.clock is None else given.clock.value,
        max_ahead=given.max_ahead,
        vocabulary=_vocabulary(given.vocabulary),
        space=None if given.space is None else given.space.value,
        max_distance=given.max_distance,
        index=given.index,
        renames=given.renames,
        sample=_sample(given.messages),
        once=given.once,
        at_once=given.at_once,
        kafka_options=given.kafka,
        rebalance_above=given.rebalance_above,
        skip_missing_files=given.skip_missing_files,
        delivery_ids=given.delivery_ids,
        part_folders=given.part_folders.value,
        spark=session(given.master),
        on_batch=show.add,
    )


def _until_stopped(running: Stream) -> None:
    """Wait for the end of a stream; an interrupt ends it after the batch under way."""
    try:
        while not running.wait(0.2):
            leave_if_told()
            if running.hook_error is not None:  # nobody reads what is shown: to go on would be of no use
                running.stop()
                raise running.hook_error
    except (KeyboardInterrupt, SystemExit) as interrupt:
        complain("stopping after the batch under way")
        running.stop()
        if isinstance(interrupt, SystemExit):
            raise


def _every(trigger: str) -> str:
    """Return how often a batch begins, as Spark spells it; a usage mistake if that is no time."""
    found = _TRIGGER.fullmatch(trigger)
    if found is None:
        raise UsageMistake(f"--trigger is {trigger!r}; expected a time like 500ms, 1s, 2m")
    return f"{found[1]} {_UNITS[found[2]]}"


def _check_max_ahead(given: str | None) -> None:
    """Refuse what is no stretch of time."""
    from nearcast.errors import InvalidInput
    from nearcast.tables.time_limits import MaxAhead

    try:
        MaxAhead.of(given)
    except InvalidInput as error:
        raise UsageMistake(f"--{str(error).replace('_', '-', 1)}") from None


def _table(path: str, renames: dict[str, str], *, strict: bool) -> pa.Table:
    from nearcast.files import read_table
    from nearcast.geo import Space
    from nearcast.pipeline.worker.source_reader import fetched
    from nearcast.tables import Rejected, rename_known
    from nearcast.tables.column_names import check_subscription_names

    rejected = Rejected()
    with fetched(path) as here:
        table = read_table(here, source="subscriptions", rejected=rejected)
    for space in (Space.earth(), Space.plane()):
        names = rename_known(table, renames).column_names
        check_subscription_names(names, space, "subscriptions", rejected, strict=strict)
    show_rejected(rejected, "correct them and begin anew")
    return table


def _check_folders(messages: str, changes: str | None) -> None:
    for option, given in (("--messages", messages), ("--changes", changes)):
        if given is not None and "://" not in given and not Path(given).is_dir():
            what = "is a file" if Path(given).is_file() else "is not there"
            raise UsageMistake(
                f"{option} {given} {what}; expected a folder that files arrive in, or kafka://host/topic"
            )


def _vocabulary(path: Path | None) -> Vocabulary | None:
    from nearcast.text import Vocabulary

    return None if path is None else Vocabulary.from_parquet(path)


def _sample(messages: str) -> pa.Table | None:
    """Return the first rows of the first file, which tell the space and what messages are like."""
    from nearcast.errors import NearcastError
    from nearcast.files import READABLE, read_batches
    from nearcast.tables import Rejected

    if "://" in messages:
        return None
    for path in sorted(Path(messages).rglob("*")):
        if path.is_file() and path.name[0] not in "._" and any(each in path.name for each in READABLE):
            try:
                return next(iter(read_batches(path, rejected=Rejected())))
            except NearcastError:
                continue  # it is told when its batch comes
    return None


class _BatchDisplay:
    """The last batches as a table on a terminal, else a line for each."""

    def __init__(self, *, as_json: bool):
        self._as_json = as_json
        self._console = stderr()
        self._live: Any = None
        self._last: list[BatchProgress] = []
        self._title = ""
        self.messages = self.deliveries = self.rejected = self.batches = 0
        self._began = time.perf_counter()

    def __enter__(self) -> _BatchDisplay:
        if self._console.is_terminal and not self._as_json:
            from rich.live import Live

            self._live = Live(console=self._console, refresh_per_second=4, transient=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, title: str) -> None:
        """Tell what is going on."""
        self._title = title
        if self._live is not None:
            self._live.update(self._drawn())

    def add(self, progress: BatchProgress) -> None:
        """Show a batch."""
        report = progress.report
        self.batches += 1
        self.messages += report.messages
        self.deliveries += report.deliveries
        self.rejected += report.rejected
        self._last = [*self._last, progress][-_SHOWN:]
        if progress.complaint is not None:
            complain(progress.complaint)
        if self._live is not None:
            self._live.update(self._drawn())
        elif self._as_json:
            typer.echo(json.dumps(_as_json(progress)))
            sys.stdout.flush()
        else:
            complain(_line(progress))

    def _drawn(self) -> Group:
        from rich.console import Group
        from rich.table import Table

        if not self._last:
            return Group(self._title)
        table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
        for name in ("batch", "messages", "messages/s", "changes", "deliveries", "rejected", "lag", "load"):
            table.add_column(name, justify="left" if name == "load" else "right")
        for each in self._last:
            report = each.report
            table.add_row(
                str(report.batch),
                f"{report.messages:,}",
                f"{_rate(each):,.0f}",
                f"{report.changes:,}",
                f"{report.deliveries:,}",
                f"{report.rejected:,}" if report.rejected else "",
                _lag(each),
                _bars(report.load),
            )
        return Group(table)

    def summary(self, out: str, why: str) -> str:
        """Return what the stream did, as a sentence or as JSON; `why` is where rejected rows are."""
        seconds = time.perf_counter() - self._began
        if self._as_json:
            keys = ("batches", "messages", "deliveries", "rejected")
            return json.dumps({**{key: getattr(self, key) for key in keys}, "seconds": round(seconds, 3)})
        rejected = f", {self.rejected:,} rows rejected, why is in {why}" if self.rejected else ""
        return (
            f"{self.messages:,} messages in {self.batches:,} batches: {self.deliveries:,} deliveries in"
            f" {out}{rejected}; {seconds:.1f} s"
        )


def _rate(progress: BatchProgress) -> float:
    return progress.report.messages / max(progress.report.seconds, 1e-9)


def _lag(progress: BatchProgress) -> str:
    return "" if progress.lag is None else f"{progress.lag:.1f} s"


def _bars(load: list[PartitionLoad]) -> str:
    """Return how busy each partition was, as bars of eighths."""
    most = max((each["seconds"] for each in load), default=0.0) or 1.0
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(8 * each["seconds"] / most))] for each in load)


def _line(progress: BatchProgress) -> str:
    report = progress.report
    busiest = max((each["seconds"] for each in report.load), default=0.0)
    return (
        f"batch {report.batch}: {report.messages:,} messages, {_rate(progress):,.0f}/s, {report.changes:,} changes,"
        f" {report.deliveries:,} deliveries, {report.rejected:,} rejected, {report.late:,} late,"
        f" lag {_lag(progress) or '-'},"
        f" busiest partition {busiest:.2f} s"
    )


def _as_json(progress: BatchProgress) -> dict[str, Any]:
    report, numbers = progress.report, progress.numbers()
    return {
        **{
            name: numbers[name] for name in ("batch", "messages", "changes", "deliveries", "rejected", "late", "tuples")
        },
        "seconds": round(report.seconds, 4),
        "messages_per_s": round(_rate(progress), 1),
        "lag_s": None if progress.lag is None else round(progress.lag, 3),
        "load": report.load,
        "snapshot_failures": progress.snapshot_failures,
        "event_lag_s": None if progress.event_lag is None else round(progress.event_lag, 3),
        "snapshot_age": {"batches": progress.snapshot_age.batches, "seconds": round(progress.snapshot_age.seconds, 3)},
        "phases": {name: round(seconds, 4) for name, seconds in asdict(report.phases).items()},
        "asked": {"questions": report.asked.questions, "rounds": report.asked.rounds},
    }
