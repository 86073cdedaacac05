"""The stream: one Structured Streaming query that hands each of its batches to the pipeline. Imports pyspark."""

from __future__ import annotations

import atexit
import gc
import json
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nearcast.errors import IncompatibleStore, InvalidInput, NearcastError
from nearcast.geo.shapes import shorten
from nearcast.pipeline.driver.background_snapshots import BackgroundSnapshots
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.kafka_topics import KafkaOptions
from nearcast.pipeline.sinks import FileSink, PartFolders, RejectedSink, sink_of
from nearcast.pipeline.store.local_place import one_line
from nearcast.pipeline.store.manifest import Manifest, Manifests
from nearcast.pipeline.store.places import local_root, spark_url
from nearcast.pipeline.store.store import Store
from nearcast.spark.arrivals import BatchArrivals, arrivals_of, file_arrivals, listed_files
from nearcast.spark.backlog import BacklogGauge
from nearcast.spark.batch_gate import STOPPING, BatchGate
from nearcast.spark.batch_progress import BatchProgress, SnapshotAgeGauge, event_lag_of
from nearcast.spark.keep_warm import KEEP_WARM_S, WarmKeeper
from nearcast.spark.observed_metrics import observed, tell
from nearcast.spark.row_reader import RowReader
from nearcast.spark.runner import SparkRunner
from nearcast.spark.session import (
    check_opens,
    interpreting_plans,
    refuse_connect,
    session,
    slots_of,
    use_checkpoint,
    work_off_in_batches,
)
from nearcast.spark.shared_folders import check_seen, is_embedded
from nearcast.spark.sources import InputFolders, clock_frame, source_frame
from nearcast.spark.stream_options import Clock, StreamOptions, WindowMode
from nearcast.tables import Rejected
from nearcast.text import Analyzer, Vocabulary
from nearcast.window import Window

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from nearcast.engine.lifetime import Lifetime
    from nearcast.geo import Space
#: Batches between two snapshots of a partition; more where one takes long.
SNAPSHOT_EVERY = 20
#: How long a stop waits for snapshots under way. Without executors they take for ever, and no batch names them.
SNAPSHOTS_END_S = 30.0
#: Seconds between two full collections of garbage in the driver.
COLLECT_EVERY_S = 600.0

OnBatch = Callable[[BatchProgress], object]


class Stream:
    """A running stream; made by `nearcast.spark.stream`."""

    def __init__(
        self,
        pipeline: Pipeline,
        folders: InputFolders,
        on_batch: OnBatch | None,
        gauge: BacklogGauge | None = None,
        kafka: KafkaOptions | None = None,
    ):
        self.pipeline = pipeline
        self.rejected = Rejected()
        self.query: StreamingQuery | None = None
        self._folders, self._on_batch = folders, on_batch
        self._kafka = KafkaOptions() if kafka is None else kafka
        #: Where the wall clock moves time; it waits while there is a backlog.
        self._gauge = gauge
        self._gate = BatchGate()
        self._error: BaseException | None = None
        self._snapshots = BackgroundSnapshots(pipeline, SNAPSHOT_EVERY)
        self._ages = SnapshotAgeGauge()
        #: How often `on_batch` raised, and what it raised last.
        self.hook_failures = 0
        self.hook_error: Exception | None = None
        self._is_observed = True
        self._keeper: WarmKeeper | None = None
        self._collected = time.monotonic()

    def _run(self, frame: DataFrame, batch: int) -> None:
        with self._gate.entered():
            try:
                self._run_batch(frame, batch)
            except BaseException as error:
                self._error = error
                raise

    def _run_batch(self, frame: DataFrame, batch: int) -> None:
        pipeline = self.pipeline
        if pipeline.query_id is None and self.query is not None:
            pipeline.query_id = str(self.query.id)
        complaint = self._snapshots.take()
        if complaint is not None and self._on_batch is None:
            _warn(complaint)
        began = time.perf_counter()
        found = self._arrivals(frame, batch)
        arrived = time.perf_counter() - began
        gauge = self._gauge
        is_backlog = gauge is not None and gauge.is_full(batch, found.given)
        wall = None if gauge is None else gauge.wall(batch)
        report = pipeline.run(batch, found.given, beat=found.beat, wall=wall, is_backlog=is_backlog)
        if self._keeper is not None:
            self._keeper.note()
        if report is None:
            return
        self._snapshots.begin_if_due(report)
        self._collect_garbage()
        progress = BatchProgress(
            report=replace(report, phases=replace(report.phases, arrive=arrived)),
            lag=None if found.newest is None else max(0.0, time.time() - found.newest),
            complaint=complaint,
            snapshot_failures=self._snapshots.failures,
            event_lag=event_lag_of(report),
            snapshot_age=self._ages.age_in(pipeline.state.manifest),
            hook_failures=self.hook_failures,
        )
        self._observe(frame, progress)
        self._call_hook(progress)

    def _collect_garbage(self) -> None:
        """Collect cycles of objects now and then: what DataFrames of past batches hold in Spark's JVM stays until then.

        Python by itself does so rarely, once a quarter of all objects are new.
        """
        if time.monotonic() - self._collected >= COLLECT_EVERY_S:
            gc.collect()
            self._collected = time.monotonic()

    def _observe(self, frame: DataFrame, progress: BatchProgress) -> None:
        """Let Spark's listeners see the numbers of a batch; where that fails they are left out from then on."""
        if not self._is_observed or self.query is None:
            return
        try:
            tell(self.query, frame, progress)
        except Exception as error:  # noqa: BLE001 - whatever another Spark raises, the batch is committed
            self._is_observed = False
            _warn(f"the numbers of batches are not in observedMetrics: {one_line(error)}")

    def _call_hook(self, progress: BatchProgress) -> None:
        """Call `on_batch`. What it raises is counted and told: the batch is committed, and the stream goes on."""
        if self._on_batch is None:
            return
        try:
            self._on_batch(progress)
        except Exception as error:  # noqa: BLE001 - a defect of the hook is none of the stream
            self.hook_failures += 1
            self.hook_error = error
            batch, why = progress.report.batch, f"{type(error).__name__}: {one_line(error)}"
            _warn(f"on_batch raised in batch {batch}, and the stream goes on: {why}")

    def _arrivals(self, frame: DataFrame, batch: int) -> BatchArrivals:
        """Return what came with a batch; rows of it are encoded unless it was committed before."""
        listed = None if self.query is None else listed_files(self.query)
        if listed is not None and self._folders.tell_all:
            return file_arrivals(self._folders, listed)
        reader = RowReader(self.pipeline.row_tasks(batch)) if self._folders.has_rows else None
        with self.pipeline.naming_winner():
            return arrivals_of(frame, self._folders, listed or [], reader)

    def _keep_warm(self, spark: SparkSession) -> None:
        """Keep the workers while no batch comes, and those that wait for the others of a long batch."""
        context = spark.sparkContext
        is_here = is_embedded(str(context.master))

        def tasks() -> int:
            return 1 if is_here else context.defaultParallelism  # one for each slot: some come to each executor

        self._keeper = WarmKeeper(self.pipeline.runner, tasks, lambda: self.is_active, KEEP_WARM_S)

    def _let_workers_go(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()

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
            self._let_workers_go()
            if self._gate.is_closed and self._error is None and STOPPING in str(error):
                return True  # a batch began between the last one and the end, and was refused
            raise self._reason(error) from self._without_secrets(error)
        if not ended:
            return False
        self._let_workers_go()
        if self._error is not None and not self._gate.is_closed:
            raise self._error
        return True

    def _reason(self, error: Exception) -> BaseException:
        """Return what went wrong in a batch; else what Spark says, in one line."""
        if self._error is not None:
            return self._error
        # Spark, too, notices two drivers, and cannot tell who the other one is.
        conflict = self.pipeline.conflict()
        if conflict is not None:
            return conflict
        from nearcast.spark.failures import in_one_line

        return in_one_line(self._without_secrets(error), "the stream")

    def _without_secrets(self, error: Exception) -> Exception:
        """Return the error, or one with its text and `[hidden]` in place of secrets, where it shows some."""
        shown = self._kafka.without_secrets(str(error))
        return error if shown == str(error) else NearcastError(shown)

    def stop(self) -> None:
        """Stop after the batch under way; the next start goes on behind it.

        In a call of `on_batch` it returns at once, and the stream ends behind that batch: `wait` tells when.
        """
        self._gate.close()
        if self._gate.is_entered_here:
            threading.Thread(target=self._end, name="nearcast stop").start()
        else:
            self._end()

    def _end(self) -> None:
        """End the query when no batch runs; one that would begin meanwhile is refused."""
        self._gate.wait_until_left()
        self._let_workers_go()
        if self.query is not None:
            self.query.stop()
        self._snapshots.join(SNAPSHOTS_END_S)


def _warn(text: str) -> None:
    """Warn, and no more than that: where warnings are errors, too, the stream goes on."""
    with suppress(RuntimeWarning):
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def stream(
    messages: str | Path | DataFrame,
    subscriptions: pa.Table | DataFrame | str | Path,
    *,
    out: Any,
    checkpoint: str | Path,
    changes: str | Path | DataFrame | None = None,
    window: Window | int | str | timedelta | None = None,
    window_mode: WindowMode = "shared",
    lifetime: Lifetime | str | timedelta | None = None,
    tell_expiry: bool = False,
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
    kafka_options: Mapping[str, str] | None = None,
    rebalance_above: float | None = None,
    skip_missing_files: bool = False,
    delivery_ids: bool = False,
    part_folders: PartFolders = "one",
    spark: SparkSession | None = None,
    on_batch: OnBatch | None = None,
) -> Stream:
    """Start a stream, or let it go on from its checkpoint; return it running.

    `messages` and `changes` are folders that files arrive in, `kafka://host:port/topic`, or streaming DataFrames with
    the columns. `subscriptions` are those it begins with; a stream that goes on has its own, and they are not read.
    They are a table, a DataFrame, or the folder of what `nearcast prepare` made of them.
    `out` is a folder (of Parquet, or of JSON lines if its name ends so), `kafka://host:port/topic`, "console",
    "memory", or a function of a DataFrame and the number of the batch. `delivery_ids` adds that column to Parquet and
    memory; `nearcast.delivery_id` makes it of `step`, `arrival`, `change` and `subscription_id`, too. With the
    `part_folders` "hour" part files lie in folders by hour of event time, whose files `nearcast compact` makes few of.

    `once` works off what is there and ends. `clock` "wall" lets time go on by itself, a beat a second, else messages
    move it; it is "event" unless messages come from Kafka. `max_ahead`, such as "5m", rejects messages whose time lies
    further ahead: of the wall clock when their batch began, or of event time where messages alone move it. Unless
    given it is 5 minutes by the wall clock and "off" by event time. `at_once` is how many files, or records of Kafka,
    make a batch at most. `kafka_options` are options of Spark's connector for Kafka under its names, such as
    "kafka.security.protocol", for all topics of the stream. `sample` are messages that a new plan is balanced by.
    `rebalance_above` spreads subscriptions anew when the busiest partition has had so many times the mean load for a
    while, or when they have moved so far that messages go to so many times as many partitions.

    A file that cannot be read for now is tried as often as Spark tries a task; then the stream ends, with nothing of
    the batch committed. With `skip_missing_files` it goes on without a file that is gone, which becomes a rejected row.

    With the `window_mode` "shared" every partition holds all messages of the window; with "host" all workers of a host
    map one index of them. With "partitioned" they are divided over as many parts as there are partitions when the
    stream begins, where a subscription that needs to look at them asks.

    `on_batch` is called with a `BatchProgress` after each batch. What it raises is a warning, and counted: the stream
    goes on. The same numbers are in `observedMetrics["nearcast"]` of the query's progress, for Spark's listeners.

    `lifetime` and `tell_expiry` are those of `Hub`: messages live, and moves tell what came in and went out. Every
    partition holds all messages that live.
    """
    refuse_connect(messages, subscriptions, changes, spark)
    if on_batch is not None and not callable(on_batch):
        raise InvalidInput(f"on_batch is {shorten(on_batch)}; expected a function of a BatchProgress", field="on_batch")
    options = StreamOptions(
        messages=messages,
        subscriptions=subscriptions,
        out=out,
        checkpoint=str(checkpoint),
        changes=changes,
        window=window,
        window_mode=window_mode,
        lifetime=lifetime,
        tell_expiry=tell_expiry,
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
        kafka_options=kafka_options or {},
        rebalance_above=rebalance_above,
        skip_missing_files=skip_missing_files,
        delivery_ids=delivery_ids,
        part_folders=part_folders,
    )
    return _start(options, session() if spark is None else spark, on_batch)


def _start(options: StreamOptions, spark: SparkSession, on_batch: OnBatch | None) -> Stream:
    if local_root(options.checkpoint) is None:
        check_opens(spark, options.checkpoint)
    pipeline = _pipeline(options, spark)
    frame = _frame(options, spark)
    folders = InputFolders.of(
        spark,
        options.folders,
        are_all_files=options.is_cut_by_spark,
        has_rows=options.has_rows,
        has_clock=options.is_by_wall,
    )
    running = Stream(pipeline, folders, on_batch, _gauge(options), options.kafka)
    pipeline.query_id = _query_id(options.checkpoint)
    if pipeline.resume(lambda manifest: _check_halves(manifest, pipeline.query_id, options.checkpoint)):
        if options.vocabulary is not None:
            pipeline.use_vocabulary(options.vocabulary)
    else:
        running.rejected = _begin(pipeline, options)
    running.query = _started(spark, running, frame, options)
    running._keep_warm(spark)
    return running


def _gauge(options: StreamOptions) -> BacklogGauge | None:
    """Return what tells the wall clock of a backlog; None where messages alone move time."""
    if not options.is_by_wall:
        return None
    return BacklogGauge(_spark_half(options.checkpoint), options.most_files, options.most_records, options.topics)


def _pipeline(options: StreamOptions, spark: SparkSession) -> Pipeline:
    store = options.store
    _check_seen(options, spark)
    settings = options.settings(options.partitions or _partitions(options, spark))
    sink = sink_of(options.out, store, options.kafka, delivery_ids=options.delivery_ids, folders=options.part_folders)
    pipeline = Pipeline(
        store,
        settings,
        SparkRunner(spark),
        sink,
        RejectedSink(sink.store.root if isinstance(sink, FileSink) else options.checkpoint),
        claims=f"{local_root(store.root) or _folder_of_this_host()}/claims",
        rebalance_above=options.rebalance_above,
        max_ahead=options.ahead_limit,
    )
    pipeline.skip_missing_files = options.skip_missing_files
    return pipeline


def _folder_of_this_host() -> str:
    """Return a new folder for claims, where the checkpoint lies elsewhere; it is removed when this process ends."""
    folder = tempfile.mkdtemp(prefix="nearcast-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _partitions(options: StreamOptions, spark: SparkSession) -> int:
    """Return how many partitions there are where none are given: those of the checkpoint, prepared ones, or slots."""
    last = Manifests(options.store).last()
    if last is not None:
        return last.plan.partitions
    return slots_of(spark) if options.prepared is None else int(options.prepared["partitions"])


def _check_seen(options: StreamOptions, spark: SparkSession) -> None:
    """Refuse a checkpoint, or a folder of deliveries, that workers on other hosts do not see."""
    context = spark.sparkContext
    if not is_embedded(str(context.master)):
        sink = sink_of(options.out, options.store, options.kafka)
        folders = {options.store.root, sink.stager.store.root}
        check_seen(SparkRunner(spark), sorted(folders), context.defaultParallelism)


def _frame(options: StreamOptions, spark: SparkSession) -> DataFrame:
    """Return messages, changes and, where the wall clock moves time, its beats as one streaming DataFrame."""
    frames = [
        source_frame(spark, given, kind, options.most_of(given), options.kafka, lists_always=options.is_by_wall)
        for kind, given in options.sources.items()
    ]
    frame = reduce(lambda one, other: one.unionByName(other), frames)
    return observed(frame.unionByName(clock_frame(spark)) if options.is_by_wall else frame)


def _check_halves(manifest: Manifest, query_id: str | None, checkpoint: str) -> None:
    """Refuse to go on from a checkpoint without Spark's half, which must be there once a batch of it ran."""
    if query_id is None and manifest.query_id is not None:
        raise _half_missing(checkpoint, there="nearcast", missing="spark")


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
    work_off_in_batches(spark, options.once and options.is_by_wall and options.is_cut_by_spark)
    place = f"{spark_url(options.checkpoint)}/spark"
    writer = frame.writeStream.foreachBatch(running._run).option("checkpointLocation", place)
    writer = writer.trigger(availableNow=True) if options.once else writer.trigger(processingTime=options.trigger)
    # A function may compute DataFrames of its own in the query's session.
    nobody_computes = running._folders.tell_all and not callable(options.out)
    with running._gate.entered(), interpreting_plans(spark, nobody_computes):
        # The first batch waits until the query has a name to note.
        running.query = writer.start()
        return running.query


def _spark_half(checkpoint: str) -> Store:
    return Store(f"{checkpoint.rstrip('/')}/spark")


def _query_id(checkpoint: str) -> str | None:
    """Return the id of the query that Spark's half of a checkpoint belongs to, None if there is none."""
    place = _spark_half(checkpoint)
    if not place.exists("metadata"):
        return None
    try:
        return str(json.loads(place.read_bytes("metadata"))["id"])
    except (ValueError, KeyError):
        raise IncompatibleStore(f"{checkpoint}/spark/metadata is damaged; begin anew with another checkpoint") from None
