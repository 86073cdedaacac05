"""The stream: one Structured Streaming query that hands each of its batches to the pipeline. Imports pyspark."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nearcast.errors import IncompatibleStore, NearcastError
from nearcast.pipeline.driver.pipeline import Pipeline, Report
from nearcast.pipeline.sinks import FileSink, RejectedSink, sink_of
from nearcast.pipeline.store.places import local_root, spark_url
from nearcast.pipeline.store.store import Store
from nearcast.spark.runner import SparkRunner
from nearcast.spark.session import check_opens, session, use_checkpoint
from nearcast.spark.shared_folders import check_seen, is_embedded
from nearcast.spark.sources import arrivals_of, listed_files, source_frame, with_wall_clock
from nearcast.spark.stream_options import Clock, StreamOptions, WindowMode
from nearcast.tables import Rejected
from nearcast.text import Analyzer, Vocabulary
from nearcast.window import Window

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from nearcast.geo import Space
    from nearcast.pipeline.driver.state import Snapshots

#: Batches between two snapshots: what a restart replays at most, and a few more while they are written.
SNAPSHOT_EVERY = 20

OnBatch = Callable[["BatchProgress"], object]


@dataclass(frozen=True)
class BatchProgress:
    """What a batch did, and how far behind its input the stream is: seconds since the newest of it arrived."""

    report: Report
    lag: float | None


class Stream:
    """A running stream; made by `nearcast.spark.stream`."""

    def __init__(self, pipeline: Pipeline, roots: dict[str, str], on_batch: OnBatch | None):
        self.pipeline = pipeline
        self.rejected = Rejected()
        self.query: StreamingQuery | None = None
        self._roots, self._on_batch = roots, on_batch
        #: Held while a batch runs: a stream stops between two of them.
        self._running = threading.Lock()
        self._error: BaseException | None = None
        self._snapshots: _SnapshotWriter | None = None
        self._is_stopping = False

    def _run(self, frame: DataFrame, batch: int) -> None:
        with self._running:
            if self._is_stopping:
                raise NearcastError("the stream is stopping")
            try:
                self._run_batch(frame, batch)
            except BaseException as error:
                self._error = error
                raise

    def _run_batch(self, frame: DataFrame, batch: int) -> None:
        pipeline = self.pipeline
        if pipeline.query_id is None and self.query is not None:
            pipeline.query_id = str(self.query.id)
        found = arrivals_of(frame, self._roots, listed_files(self.query))
        self._take_snapshots()
        report = pipeline.run(batch, found.given, beat=found.beat, wall=found.wall)
        if report is None:
            return
        if self._snapshots is None and pipeline.snapshots_due(SNAPSHOT_EVERY):
            self._snapshots = _SnapshotWriter(pipeline)
        if self._on_batch is not None:
            lag = None if found.newest is None else max(0.0, time.time() - found.newest)
            self._on_batch(BatchProgress(report, lag))

    def _take_snapshots(self) -> None:
        if self._snapshots is not None and self._snapshots.is_done:
            found = self._snapshots.result()
            if found is not None:
                self.pipeline.take_snapshots(found)
            self._snapshots = None

    @property
    def is_active(self) -> bool:
        """Tell whether the stream runs."""
        return self.query is not None and self.query.isActive

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the stream ends, or for some seconds; tell whether it has ended. Raises what ended it."""
        from pyspark.errors import StreamingQueryException

        assert self.query is not None
        try:
            if seconds is None:
                self.query.awaitTermination()
                ended: bool | None = True
            else:
                ended = self.query.awaitTermination(seconds)  # type: ignore[arg-type]
        except StreamingQueryException as error:
            raise self._reason(error) from error
        if ended and self._error is not None and not self._is_stopping:
            raise self._error
        return bool(ended)

    def _reason(self, error: Exception) -> BaseException:
        """Return what went wrong in a batch; else what Spark says, in one line."""
        if self._error is not None:
            return self._error
        from nearcast.spark.failures import in_one_line

        return in_one_line(error, "the stream")

    def stop(self) -> None:
        """Stop after the batch under way; the next start goes on behind it."""
        if self.query is None:
            return
        self._is_stopping = True
        with self._running:
            self.query.stop()
        if self._snapshots is not None:
            self._snapshots.join()


class _SnapshotWriter:
    """Snapshots of all partitions, written by a job beside the batches."""

    def __init__(self, pipeline: Pipeline):
        self._found: Snapshots | None = None
        write = pipeline.snapshots_to_write()
        self._thread = threading.Thread(target=self._write, args=(write,), name="nearcast snapshots", daemon=True)
        self._thread.start()

    def _write(self, write: Callable[[], Snapshots]) -> None:
        # After an error the history stays longer; the next attempt comes with the next batch.
        with suppress(NearcastError):
            self._found = write()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> Snapshots | None:
        return self._found

    def join(self) -> None:
        self._thread.join()


def stream(
    messages: str | Path | DataFrame,
    subscriptions: pa.Table | DataFrame | str | Path,
    *,
    out: Any,
    checkpoint: str | Path,
    changes: str | Path | DataFrame | None = None,
    window: Window | int | str | timedelta | None = None,
    window_mode: WindowMode = "shared",
    plan: str = "trigger",
    partitions: int | None = None,
    trigger: str = "1 seconds",
    clock: Clock | None = None,
    max_ahead: str | timedelta | None = None,
    vocabulary: Vocabulary | None = None,
    space: str | Space | None = None,
    max_distance: float | None = None,
    analyzer: Analyzer | None = None,
    index: str = "trigger",
    renames: dict[str, str] | None = None,
    sample: pa.Table | None = None,
    once: bool = False,
    at_once: int | None = None,
    rebalance_above: float | None = None,
    skip_missing_files: bool = False,
    spark: SparkSession | None = None,
    on_batch: OnBatch | None = None,
) -> Stream:
    """Start a stream, or let it go on from its checkpoint; return it running.

    `messages` and `changes` are folders that files arrive in, `kafka://host:port/topic`, or streaming DataFrames with
    the columns. `subscriptions` are those it begins with; a stream that goes on has its own, and they are not read.
    They are a table, a DataFrame, or the folder of what `nearcast prepare` made of them.
    `out` is a folder (of Parquet, or of JSON lines if its name ends so), `kafka://host:port/topic`, "console",
    "memory", or a function of a DataFrame and the number of the batch.

    `once` works off what is there and ends. `clock` "wall" lets time go on by itself, a beat a second, else messages
    move it; it is "event" unless messages come from Kafka. `max_ahead`, such as "5m", rejects messages whose time lies
    further ahead: of the wall clock when their batch began, or of event time where messages alone move it. Unless
    given it is 5 minutes by the wall clock and "off" by event time. `at_once` is how many files, or records of Kafka,
    make a batch at most. `sample` are messages that a new plan is balanced by. `rebalance_above` spreads subscriptions
    anew when the busiest partition has had so many times the mean load for a while.

    A file that cannot be read for now is tried as often as Spark tries a task; then the stream ends, with nothing of
    the batch committed. With `skip_missing_files` it goes on without a file that is gone, which becomes a rejected row.

    With the `window_mode` "partitioned" the messages of the window are divided over as many parts as there are
    partitions when the stream begins, where a subscription that needs to look at them asks; else every partition holds
    all of them.
    """
    options = StreamOptions(
        messages=messages,
        subscriptions=subscriptions,
        out=out,
        checkpoint=str(checkpoint),
        changes=changes,
        window=window,
        window_mode=window_mode,
        plan=plan,
        partitions=partitions,
        trigger=trigger,
        clock=clock,
        max_ahead=max_ahead,
        vocabulary=vocabulary,
        space=space,
        max_distance=max_distance,
        analyzer=analyzer,
        index=index,
        renames=renames or {},
        sample=sample,
        once=once,
        at_once=at_once,
        rebalance_above=rebalance_above,
        skip_missing_files=skip_missing_files,
    )
    return _start(options, session() if spark is None else spark, on_batch)


def _start(options: StreamOptions, spark: SparkSession, on_batch: OnBatch | None) -> Stream:
    if local_root(options.checkpoint) is None:
        check_opens(spark, options.checkpoint)
    pipeline = _pipeline(options, spark)
    running = Stream(pipeline, options.folders, on_batch)
    frame = _frame(options, spark)
    pipeline.query_id = _query_id(options.checkpoint)
    if pipeline.resume():
        _go_on(pipeline, options)
    else:
        running.rejected = _begin(pipeline, options)
    running.query = _started(spark, running, frame, options)
    return running


def _pipeline(options: StreamOptions, spark: SparkSession) -> Pipeline:
    store = options.store
    _check_seen(options, spark)
    claims = local_root(store.root)
    settings = options.settings(spark.sparkContext.defaultParallelism)
    sink = sink_of(options.out, store)
    pipeline = Pipeline(
        store,
        settings,
        SparkRunner(spark),
        sink,
        RejectedSink(sink.store.root if isinstance(sink, FileSink) else options.checkpoint),
        claims=None if claims is None else f"{claims}/claims",
        rebalance_above=options.rebalance_above,
        max_ahead=options.ahead_limit,
    )
    pipeline.skip_missing_files = options.skip_missing_files
    return pipeline


def _check_seen(options: StreamOptions, spark: SparkSession) -> None:
    """Refuse a checkpoint, or a folder of deliveries, that workers on other hosts do not see."""
    context = spark.sparkContext
    if not is_embedded(str(context.master)):
        sink = sink_of(options.out, options.store)
        folders = {options.store.root, sink.stager.store.root}
        check_seen(SparkRunner(spark), sorted(folders), context.defaultParallelism)


def _frame(options: StreamOptions, spark: SparkSession) -> DataFrame:
    """Return messages, changes and, where the wall clock moves time, its beats as one streaming DataFrame."""
    frame = source_frame(spark, options.messages, "messages", options.most_at_once)
    if options.changes is not None:
        frame = frame.unionByName(source_frame(spark, options.changes, "changes", options.most_at_once))
    return with_wall_clock(spark, frame) if options.is_by_wall else frame


def _go_on(pipeline: Pipeline, options: StreamOptions) -> None:
    """Go on from a checkpoint, of which Spark's half must be there too once a batch of it ran."""
    if pipeline.query_id is None and pipeline.state.manifest.query_id is not None:
        raise _half_missing(options.checkpoint, there="nearcast", missing="spark")
    if options.vocabulary is not None:
        pipeline.use_vocabulary(options.vocabulary)


def _begin(pipeline: Pipeline, options: StreamOptions) -> Rejected:
    """Begin with the subscriptions given; return the rows of them that were not stored."""
    if pipeline.query_id is not None:
        raise _half_missing(options.checkpoint, there="spark", missing="nearcast")
    if options.prepared is None:
        known = Vocabulary().snapshot() if options.vocabulary is None else options.vocabulary
        return pipeline.begin(options.table, known, sample=options.sample)
    pipeline.begin_from(f"{options.subscriptions}/nearcast")
    if options.vocabulary is not None:
        pipeline.use_vocabulary(options.vocabulary)
    return Rejected()


def _half_missing(checkpoint: str, *, there: str, missing: str) -> IncompatibleStore:
    return IncompatibleStore(
        f"{checkpoint}/{there} is there and {checkpoint}/{missing} is not: half of the checkpoint is missing;"
        " bring it back, or begin anew with another checkpoint"
    )


def _started(spark: SparkSession, running: Stream, frame: DataFrame, options: StreamOptions) -> StreamingQuery:
    use_checkpoint(spark, options.checkpoint)
    place = f"{spark_url(options.checkpoint)}/spark"
    writer = frame.writeStream.foreachBatch(running._run).option("checkpointLocation", place)
    writer = writer.trigger(availableNow=True) if options.once else writer.trigger(processingTime=options.trigger)
    with running._running:
        # The first batch waits until the query has a name to note.
        running.query = writer.start()
        return running.query


def _query_id(checkpoint: str) -> str | None:
    """Return the id of the query that Spark's half of a checkpoint belongs to, None if there is none."""
    place = Store(f"{checkpoint.rstrip('/')}/spark")
    if not place.exists("metadata"):
        return None
    try:
        return str(json.loads(place.read_bytes("metadata"))["id"])
    except (ValueError, KeyError):
        raise IncompatibleStore(f"{checkpoint}/spark/metadata is damaged; begin anew with another checkpoint") from None
