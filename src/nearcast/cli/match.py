"""`nearcast match`: files of subscriptions and messages in, a file of deliveries out."""

from __future__ import annotations

import json
import re
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from nearcast.cli._console import StepProgress, UsageMistake
from nearcast.cli._inputs import check_max_distance, lifetime_of
from nearcast.cli._match_job import MatchArguments, MatchJob
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
