"""`nearcast match --engine spark`: the same command with the work done by Spark jobs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearcast.cli._inputs import need_window, vocabulary_of

if TYPE_CHECKING:
    import pyarrow as pa

    from nearcast.cli._console import StepProgress
    from nearcast.cli._match_job import MatchJob
    from nearcast.text import Vocabulary


def match_on_spark(job: MatchJob, steps: StepProgress) -> dict[str, Any]:
    """Match everything, and write the file of deliveries; return the counts."""
    from nearcast.pipeline.file_match import FileMatch
    from nearcast.pipeline.settings import PipelineSettings
    from nearcast.plans import parse_spec
    from nearcast.spark.runner import SparkRunner
    from nearcast.spark.session import session
    from nearcast.spark.shared_folders import check_seen, is_embedded
    from nearcast.tables import first_topk
    from nearcast.text import Vocabulary

    given, out = job.given, job.given.out
    steps.begin("reading subscriptions", job.subscriptions.total())
    subscriptions = job.subscriptions.table(job.rejected)
    need_window(subscriptions, job.window)
    steps.begin("starting Spark")
    spark = session(given.master or f"local[{given.threads},4]")
    slots = spark.sparkContext.defaultParallelism
    if not is_embedded(str(spark.sparkContext.master)):
        check_seen(SparkRunner(spark), [str(out.resolve().parent)], slots)
    partitions = given.partitions or slots
    parse_spec(given.plan, partitions)
    settings = PipelineSettings(
        job.space,
        index=given.index,
        window=job.window,
        max_distance=given.max_distance,
        plan=given.plan,
        partitions=partitions,
    )
    words = None if given.vocabulary is None else Vocabulary.from_parquet(given.vocabulary)
    with tempfile.TemporaryDirectory(prefix=".nearcast-", dir=out.resolve().parent) as folder:
        names = given.delivery_ids or None
        run = FileMatch(settings, SparkRunner(spark), Path(folder), steps.begin, delivery_ids=names)
        if job.window is not None and first_topk(subscriptions) is not None:
            return {**_in_order(job, run, subscriptions, words, out, steps), "index": given.index}
        return {**_in_pieces(job, run, subscriptions, words, out), "index": given.index}


def _in_pieces(job: MatchJob, run: Any, subscriptions: pa.Table, given: Vocabulary | None, out: Path) -> dict[str, Any]:
    from nearcast.pipeline.file_match import put_together

    messages = job.messages.batches(job.rejected)
    parts, counts = run.run(subscriptions, messages, given, job.rejected, suffix=out.suffix.lower())
    put_together(parts, out)
    return dict(counts)


def _in_order(
    job: MatchJob, run: Any, subscriptions: pa.Table, given: Vocabulary | None, out: Path, steps: StepProgress
) -> dict[str, Any]:
    from nearcast.files import DeliveryWriter

    words = given if given is not None else vocabulary_of(None, job.messages, job.space, steps)
    with DeliveryWriter(out, delivery_ids=job.given.delivery_ids or None) as writer:
        messages = job.messages.batches(job.rejected)
        counts = run.run_in_order(subscriptions, messages, words, job.rejected, write=writer.write)
    return dict(counts)
