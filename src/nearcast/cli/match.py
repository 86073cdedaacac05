"""`nearcast match`: files of subscriptions and messages in, a file of deliveries out."""

from __future__ import annotations

import json
import re
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._console import StepProgress, UsageMistake
from nearcast.cli._inputs import (
    InputFile,
    check_max_distance,
    lifetime_of,
    need_window,
    open_inputs,
    renames_from,
    space_of_inputs,
    vocabulary_of,
    window_of,
)
from nearcast.cli._options import (
    DeliveryIdsOption,
    EngineName,
    JsonOption,
    LifetimeOption,
    MapOption,
    MaxDistanceOption,
    MessagesFile,
    SpaceOption,
    StrictOption,
    SubscriptionsFile,
    VocabularyOption,
    WindowOption,
)
from nearcast.cli._rejected import EXIT_REJECTED, hint_at_max_distance, show_rejected, show_warnings
from nearcast.cli._spark_match import match_on_spark
from nearcast.errors import InvalidColumns

if TYPE_CHECKING:
    from nearcast.files import DeliveryWriter
    from nearcast.geo import Space
    from nearcast.hub import Hub
    from nearcast.tables import Rejected
    from nearcast.window import Window


def match(
    subscriptions: SubscriptionsFile,
    messages: MessagesFile,
    out: Annotated[Path, typer.Option(help="File of deliveries: .parquet, .jsonl, .ndjson or .csv.")],
    space: SpaceOption = None,
    index: Annotated[
        str, typer.Option(metavar="NAME[:KEY=VALUE,…]", help="Index to match with; nearcast indexes lists them.")
    ] = "trigger",
    threads: Annotated[int, typer.Option(min=1, help="Cores to match with.")] = 1,
    engine: Annotated[
        EngineName, typer.Option(help="Match in this process, or as Spark jobs: .parquet is then a folder of parts.")
    ] = EngineName.LOCAL,
    plan: Annotated[
        str, typer.Option(help="With Spark and top-k subscriptions: how these are spread over partitions.")
    ] = "trigger",
    partitions: Annotated[int | None, typer.Option(min=1, help="Parts they are spread over; one a core.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark master; else --threads cores of this machine.")] = None,
    vocabulary: VocabularyOption = None,
    max_distance: MaxDistanceOption = None,
    window: WindowOption = None,
    lifetime: LifetimeOption = None,
    changes: Annotated[
        Path | None,
        typer.Option(help="File of changes (op, id, time, …), carried out between messages in the order of a stream."),
    ] = None,
    maps: MapOption = None,
    rejected: Annotated[
        Path | None, typer.Option(help="File for rows that cannot be used, with reasons; formats as for --out.")
    ] = None,
    delivery_ids: DeliveryIdsOption = False,
    strict: StrictOption = False,
    as_json: JsonOption = False,
) -> int:
    """Deliver every message to every subscription it satisfies; exit 3 if some rows were rejected.

    Subscriptions of kind topk need --window; what enters their best k is a +, what leaves it a -.
    """
    given = MatchArguments(**locals())
    began = time.perf_counter()
    _check(given)
    job = MatchJob.of(given)
    summary = _carry_out(job)
    summary |= {"rejected": len(job.rejected), "seconds": round(time.perf_counter() - began, 3)}
    keys = ("messages", "subscriptions", "deliveries", "rejected", "seconds", "index", "vocabulary_version")
    typer.echo(json.dumps({key: summary[key] for key in keys}) if as_json else _sentence(summary, out))
    if rejected is None:
        show_rejected(job.rejected, "--rejected FILE writes them all")
    else:
        show_warnings(job.rejected)
    hint_at_max_distance(job.rejected, max_distance)
    return EXIT_REJECTED if len(job.rejected) else 0


@dataclass(frozen=True)
class MatchArguments:
    """What the command was given, named as its parameters."""

    subscriptions: Path
    messages: Path
    out: Path
    space: str | None = None
    index: str = "trigger"
    threads: int = 1
    engine: EngineName = EngineName.LOCAL
    plan: str = "trigger"
    partitions: int | None = None
    master: str | None = None
    vocabulary: Path | None = None
    max_distance: float | None = None
    window: str | None = None
    lifetime: str | None = None
    changes: Path | None = None
    maps: list[str] | None = None
    rejected: Path | None = None
    delivery_ids: bool = False
    strict: bool = False
    as_json: bool = False


def _check(given: MatchArguments) -> None:
    """Refuse, before files are read, what could not be carried out."""
    _check_outputs(given)
    _check_index(given.index)
    check_max_distance(given.max_distance)
    lifetime_of(given.lifetime)
    if given.engine is EngineName.SPARK and (given.changes is not None or given.lifetime is not None):
        raise UsageMistake("--changes and --lifetime are for --engine local; nearcast stream takes changes with Spark")
    if given.strict and given.engine is EngineName.SPARK:
        raise UsageMistake("--strict is for --engine local; without it Spark tells of such columns as well")


def _carry_out(job: MatchJob) -> dict[str, Any]:
    """Match everything and write both files; return the counts."""
    from nearcast.files import DeliveryWriter

    given = job.given
    with ExitStack() as outputs:
        # Both files are opened before the work and put in place after it: no half of an answer is left behind.
        refused = None if given.rejected is None else outputs.enter_context(DeliveryWriter(given.rejected))
        with StepProgress() as steps:
            if given.engine is EngineName.SPARK:
                counts = match_on_spark(job, steps)
            else:
                writer = outputs.enter_context(DeliveryWriter(given.out, delivery_ids=given.delivery_ids or None))
                counts = job.run(writer, steps)
        if refused is not None:
            refused.write(job.rejected.to_table())
    return counts


@dataclass(frozen=True)
class MatchJob:
    """Two files that are matched as the arguments say, and the rows that were left out."""

    given: MatchArguments
    subscriptions: InputFile
    messages: InputFile
    space: Space
    window: Window | None
    rejected: Rejected
    changes: InputFile | None = None

    @classmethod
    def of(cls, given: MatchArguments) -> MatchJob:
        """Return the job of checked arguments; both files are opened."""
        from nearcast.tables import Rejected

        changes = None if given.changes is None else InputFile(given.changes, "changes", renames_from(given.maps or []))
        inputs = open_inputs(given.subscriptions, given.messages, given.maps or [], changes)
        space = space_of_inputs(inputs, given.space)
        return cls(given, *inputs, space, window_of(given.window), Rejected(), changes)

    def run(self, out: DeliveryWriter, steps: StepProgress) -> dict[str, Any]:
        """Match everything into `out`; return the counts."""
        from nearcast.hub import Hub

        given = self.given
        steps.begin("reading subscriptions", self.subscriptions.total())
        subscriptions = self.subscriptions.table(self.rejected)
        need_window(subscriptions, self.window)
        words = vocabulary_of(given.vocabulary, self.messages, self.space, steps)
        hub = Hub(
            self.space,
            index=given.index,
            vocabulary=words,
            max_distance=given.max_distance,
            window=self.window,
            lifetime=lifetime_of(given.lifetime),
        )
        steps.begin("storing subscriptions", subscriptions.num_rows)
        self.rejected.extend(hub.subscribe_many(subscriptions, strict=given.strict))
        deliveries = self._publish(hub, out, steps) if self.changes is None else self._change(hub, out, steps)
        stats = hub.stats()
        return {
            "messages": stats["published"],
            "subscriptions": stats["subscriptions"],
            "deliveries": deliveries,
            "index": given.index,
            "vocabulary_version": stats["vocabulary_version"],
        }

    def _change(self, hub: Hub, out: DeliveryWriter, steps: StepProgress) -> int:
        """Write what all messages and changes deliver, in the order of a stream; return how many deliveries that is."""
        from nearcast.cli._match_changes import ChangedMatch

        assert self.changes is not None
        messages, changes = self.messages.table(self.rejected), self.changes.table(self.rejected)
        steps.begin("matching messages and changes", None)
        count, given = 0, self.given
        for deliveries in ChangedMatch(
            hub, messages, changes, self.rejected, threads=given.threads, strict=given.strict
        ):
            for table in deliveries.tables(dictionaries=True):
                out.write(table)
            count += len(deliveries)
        return count

    def _publish(self, hub: Hub, out: DeliveryWriter, steps: StepProgress) -> int:
        """Write what all messages deliver; return how many deliveries that were."""
        from nearcast.deliveries import MessagePortions

        given, portions = self.given, MessagePortions()
        steps.begin("matching messages", self.messages.total())
        for batch in self.messages.batches(self.rejected):
            for first, last in portions.of(batch.num_rows):
                piece = batch.slice(first, last - first)
                deliveries = hub.publish_many(piece, threads=given.threads, strict=given.strict)
                self.rejected.extend(deliveries.rejected)
                for table in deliveries.tables(dictionaries=True):
                    out.write(table)
                portions.deliveries += len(deliveries)
                steps.advance(piece.num_rows)
        return portions.deliveries


def _check_outputs(given: MatchArguments) -> None:
    """Refuse, before any work is done, outputs that could not be written or would overwrite an input."""
    from nearcast.files import DeliveryWriter

    inputs = (given.subscriptions, given.messages, given.vocabulary, given.changes)
    read = {path.resolve() for path in inputs if path is not None}
    for option, path in (("--out", given.out), ("--rejected", given.rejected)):
        if path is None:
            continue
        if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+:/", str(path)):
            raise UsageMistake(f"{option} {path} is no path of this host; match writes a file there, stream a bucket")
        try:
            DeliveryWriter(path)
        except InvalidColumns as error:
            raise UsageMistake(f"{option} {error}") from None
        if path.resolve() in read:
            raise UsageMistake(f"{option} {path} is an input; choose another name")
        if not path.resolve().parent.is_dir():
            raise UsageMistake(f"{option} {path}: there is no folder {path.parent}; make it first")
        read.add(path.resolve())


def _check_index(spec: str) -> None:
    """Raise `UnknownIndex` before files are read."""
    from nearcast.geo import Space
    from nearcast.indexes import create

    create(spec, Space.plane())


def _sentence(summary: dict[str, Any], out: Path) -> str:
    rejected = f", {summary['rejected']:,} rows rejected" if summary["rejected"] else ""
    return (
        f"{summary['messages']:,} messages to {summary['subscriptions']:,} subscriptions:"
        f" {summary['deliveries']:,} deliveries in {out}{rejected}; {summary['seconds']:.1f} s"
    )
