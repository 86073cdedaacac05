"""The stream: one Structured Streaming query that hands each of its batches to the pipeline. Imports pyspark."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from nearcast.errors import IncompatibleStore, InvalidInput, NearcastError
from nearcast.pipeline.driver.pipeline import Pipeline, Report
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import FileSink, RejectedSink, sink_of
from nearcast.pipeline.store.store import Store
from nearcast.plans import parse_spec
from nearcast.spark.runner import SparkRunner
from nearcast.spark.session import session, use_checkpoint
from nearcast.spark.sources import arrivals_of, source_frame, with_wall_clock
from nearcast.tables import Rejected, space_of
from nearcast.tables.time_limits import MaxAhead
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
#: How far messages may lie ahead of the wall clock, where it moves time and nothing else is said.
WALL_MAX_AHEAD = "5m"
#: Files or Kafka records that make a batch at most: a backlog is worked off in pieces.
FILES_PER_BATCH, RECORDS_PER_BATCH = 100, 500_000

Clock = Literal["event", "wall"]
WindowMode = Literal["shared", "partitioned"]
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
        found = arrivals_of(frame, self._roots)
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

    With the `window_mode` "partitioned" the messages of the window are divided over as many parts as there are
    partitions when the stream begins, where a subscription that needs to look at them asks; else every partition holds
    all of them.
    """
    spark = session() if spark is None else spark
    checkpoint = str(checkpoint)
    store = Store(f"{checkpoint.rstrip('/')}/nearcast")
    prepared = None if not isinstance(subscriptions, (str, Path)) else _prepared(subscriptions)
    table = _table(subscriptions)
    n_partitions = partitions or spark.sparkContext.defaultParallelism
    settings = PipelineSettings(
        _space(prepared["space"] if prepared else space, table, sample),
        analyzer=Analyzer() if analyzer is None else analyzer,
        index=index,
        window=None if window is None else Window.of(window),
        max_distance=max_distance,
        plan=plan,
        partitions=n_partitions,
        renames=renames or {},
        window_parts=_window_parts(window_mode, n_partitions),
    )
    parse_spec(settings.plan, settings.partitions)
    sink = sink_of(out, store)
    rejected_sink = RejectedSink(sink.store.root if isinstance(sink, FileSink) else checkpoint)
    claims = f"{store.root}/claims" if "://" not in store.root else None
    runner = SparkRunner(spark)
    is_by_wall = _is_by_wall(messages, clock)
    pipeline = Pipeline(
        store,
        settings,
        runner,
        sink,
        rejected_sink,
        claims=claims,
        rebalance_above=rebalance_above,
        max_ahead=MaxAhead.of(WALL_MAX_AHEAD if max_ahead is None and is_by_wall else max_ahead),
    )
    roots = {kind: str(each) for kind, each in (("messages", messages), ("changes", changes)) if _is_place(each)}
    running = Stream(pipeline, roots, on_batch)
    frame = _frame(spark, messages, changes, at_once)
    if is_by_wall:
        frame = with_wall_clock(spark, frame)
    pipeline.query_id = _query_id(checkpoint)
    if not pipeline.resume():
        if pipeline.query_id is not None:
            raise IncompatibleStore(
                f"{checkpoint}/spark is there and {checkpoint}/nearcast is not: half of the checkpoint is missing;"
                " bring it back, or begin anew with another checkpoint"
            )
        known = vocabulary if vocabulary is not None else Vocabulary().snapshot()
        if prepared is not None:
            pipeline.begin_from(f"{subscriptions}/nearcast")
            if vocabulary is not None:
                pipeline.use_vocabulary(vocabulary)
        else:
            running.rejected = pipeline.begin(table, known, sample=sample)
    elif pipeline.query_id is None and pipeline.state.manifest.query_id is not None:
        raise IncompatibleStore(
            f"{checkpoint}/nearcast is there and {checkpoint}/spark is not: half of the checkpoint is missing;"
            " bring it back, or begin anew with another checkpoint"
        )
    elif vocabulary is not None:
        pipeline.use_vocabulary(vocabulary)
    running.query = _started(spark, running, frame, checkpoint, trigger, once=once)
    return running


def _started(
    spark: SparkSession, running: Stream, frame: DataFrame, checkpoint: str, trigger: str, *, once: bool
) -> StreamingQuery:
    use_checkpoint(spark, checkpoint)
    writer = frame.writeStream.foreachBatch(running._run).option("checkpointLocation", f"{checkpoint}/spark")
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=trigger)
    with running._running:
        # The first batch waits until the query has a name to note.
        running.query = writer.start()
        return running.query


def _is_by_wall(messages: Any, clock: Clock | None) -> bool:
    """Tell whether the wall clock moves time, too."""
    if clock not in (None, "event", "wall"):
        raise InvalidInput(f"clock is {clock!r}; expected event or wall")
    return clock == "wall" or (clock is None and str(messages).startswith("kafka://"))


def _frame(spark: SparkSession, messages: Any, changes: Any, at_once: int | None) -> DataFrame:
    """Return messages and changes as one streaming DataFrame."""
    is_kafka = str(messages).startswith("kafka://")
    most = at_once or (RECORDS_PER_BATCH if is_kafka else FILES_PER_BATCH)
    frame = source_frame(spark, messages, "messages", most)
    if changes is not None:
        frame = frame.unionByName(source_frame(spark, changes, "changes", most))
    return frame


def _query_id(checkpoint: str) -> str | None:
    """Return the id of the query that Spark's half of a checkpoint belongs to, None if there is none."""
    place = Store(f"{checkpoint.rstrip('/')}/spark")
    if not place.exists("metadata"):
        return None
    try:
        return str(json.loads(place.read_bytes("metadata"))["id"])
    except (ValueError, KeyError):
        raise IncompatibleStore(f"{checkpoint}/spark/metadata is damaged; begin anew with another checkpoint") from None


def _window_parts(mode: WindowMode, partitions: int) -> int:
    if mode not in ("shared", "partitioned"):
        raise InvalidInput(f"window_mode is {mode!r}; expected shared or partitioned")
    return partitions if mode == "partitioned" else 0


def _space(given: str | Space | None, subscriptions: pa.Table, sample: pa.Table | None) -> Space:
    from nearcast.geo import Space

    if isinstance(given, Space):
        return given
    names = [*subscriptions.column_names, *([] if sample is None else sample.column_names)]
    return space_of(names, given)


def _table(given: Any) -> pa.Table:
    if isinstance(given, (str, Path)):
        return pa.table({})
    table: pa.Table = given if isinstance(given, pa.Table) else given.toArrow()
    return table


def _prepared(folder: str | Path) -> dict[str, Any]:
    from nearcast.pipeline.preparation.prepared_store import about_prepared

    about = about_prepared(folder)
    if about is None:
        raise InvalidInput(f"{folder} was not made by nearcast prepare; give a table or a DataFrame of subscriptions")
    return about


def _renamed(table: pa.Table, renames: dict[str, str]) -> pa.Table:
    from nearcast.tables import rename_known

    return rename_known(table, renames)


def _is_place(given: Any) -> bool:
    return isinstance(given, (str, Path)) and not str(given).startswith("kafka://")
