"""`nearcast prepare`: raw files in, a store that matches and streams begin from."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli._console import StepProgress, complain
from nearcast.cli._inputs import check_max_distance, lifetime_of, renames_from, window_of
from nearcast.cli._options import JsonOption, LifetimeOption, MapOption, MaxDistanceOption, SpaceOption, WindowOption
from nearcast.cli._rejected import EXIT_REJECTED
from nearcast.errors import InvalidColumns


def prepare(
    raw: Annotated[
        list[str],
        typer.Argument(metavar="RAW…", help="Files or folders of messages and subscriptions, told by their columns."),
    ],
    out: Annotated[str, typer.Option(metavar="STORE", help="A new folder for what is prepared: a path or s3://….")],
    space: SpaceOption = None,
    maps: MapOption = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="Parquet file of what words weigh; else it is learned from the messages.")
    ] = None,
    max_distance: MaxDistanceOption = None,
    window: WindowOption = None,
    lifetime: LifetimeOption = None,
    plan: Annotated[str, typer.Option(help="How subscriptions are spread over partitions.")] = "trigger",
    partitions: Annotated[int | None, typer.Option(min=1, help="Parts they are spread over; one a core.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark master; else all cores of this machine.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Check raw data, learn words and a plan, and build the partitions, as Spark jobs; exit 3 if rows were rejected."""
    from nearcast.files import read_batches
    from nearcast.pipeline.preparation.prepared_store import new_store, raw_files
    from nearcast.pipeline.preparation.prepared_store import prepare as run
    from nearcast.pipeline.settings import PipelineSettings
    from nearcast.pipeline.worker.source_reader import fetched
    from nearcast.plans import parse_spec
    from nearcast.spark.runner import SparkRunner
    from nearcast.spark.session import session, slots_of
    from nearcast.tables import Rejected, rename_known, space_of
    from nearcast.text import Vocabulary

    began = time.perf_counter()
    check_max_distance(max_distance)
    chosen, lives = window_of(window), lifetime_of(lifetime)
    renames = renames_from(maps or [])
    names: list[str] = []
    for path in raw_files(raw):
        try:
            with fetched(path) as here:
                first = next(iter(read_batches(here, rejected=Rejected())))
        except InvalidColumns:
            continue  # the file is rejected, with the reason, when its turn comes
        names += rename_known(first, renames).column_names
    where = space_of(names, None if space is None else space.value)
    words = None if vocabulary is None else Vocabulary.from_parquet(vocabulary)
    new_store(out)
    with StepProgress() as steps:
        steps.begin("starting Spark")
        spark = session(master)
        parts = partitions or slots_of(spark)
        parse_spec(plan, parts)
        settings = PipelineSettings(
            where,
            window=chosen,
            lifetime=lives,
            max_distance=max_distance,
            plan=plan,
            partitions=parts,
            renames=renames,
        )
        about = run(raw, out, settings, SparkRunner(spark), vocabulary=words, on_step=steps.begin)
    about["seconds"] = round(time.perf_counter() - began, 3)
    if as_json:
        typer.echo(json.dumps(about))
    else:
        typer.echo(
            f"{about['messages']:,} messages and {about['subscriptions']:,} subscriptions in {out},"
            f" {about['words']:,} words, {parts} partitions by {plan}; {about['seconds']:.1f} s"
        )
    if about["rejected"]:
        complain(f"{about['rejected']:,} rows were rejected; why is in {out}/rejected.parquet")
        return EXIT_REJECTED
    return 0
