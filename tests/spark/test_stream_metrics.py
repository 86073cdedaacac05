"""What whoever operates a stream sees of it: Spark's listeners, the hook, and a hook that raises."""

import json
import os
import warnings

import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQueryListener

from nearcast import Hub
from nearcast.spark import stream
from nearcast.tables import Rejected, subscriptions_table
from support.waiting import PATIENCE_S, wait_until

ROWS = [
    {"id": 1, "text": "tea", "x": 0.0, "y": 0.0, "time": "2026-05-01T08:00:00Z"},
    {"id": 2, "text": "tea and toast", "x": 1.0, "y": 0.0, "time": "2026-05-01T08:00:01Z"},
    {"id": 3, "text": "no place", "x": None, "y": 0.0, "time": "2026-05-01T08:00:01Z"},
]


class Listener(StreamingQueryListener):
    """Keeps the observed metrics of every batch."""

    def __init__(self):
        self.seen = {}

    def onQueryStarted(self, event):  # noqa: N802 - Spark's names
        pass

    def onQueryProgress(self, event):  # noqa: N802
        found = event.progress.observedMetrics
        if "nearcast" in found:
            self.seen[event.progress.batchId] = found["nearcast"].asDict()

    def onQueryIdle(self, event):  # noqa: N802
        pass

    def onQueryTerminated(self, event):  # noqa: N802
        pass


@pytest.fixture
def start(spark, tmp_path):
    """Return what starts a stream over two files, a batch each, and works them off."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number, rows in enumerate((ROWS, ROWS[:1])):
        path = folder / f"{number}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1e9 + number, 1e9 + number))  # Spark takes the older one first
    table = subscriptions_table([{"id": 1, "query": "tea"}], Hub("plane").space, rejected=Rejected())

    def started(**options):
        given = {"messages": str(folder), "out": str(tmp_path / "out"), "partitions": 2} | options
        return stream(
            given.pop("messages"),
            table,
            checkpoint=tmp_path / "K",
            space="plane",
            at_once=1,
            once=True,
            spark=spark,
            **given,
        )

    return started


def finished(running):
    """Return a stream that has ended."""
    assert running.wait(PATIENCE_S)
    return running


def test_a_listener_sees_the_numbers_that_the_hook_is_given(spark, start):
    """Observed metrics and `on_batch` are one value under one set of names, batch by batch."""
    listener, told = Listener(), {}
    spark.streams.addListener(listener)
    try:
        running = start(window=5, on_batch=lambda progress: told.setdefault(progress.report.batch, progress))
        assert running.wait(PATIENCE_S)
        wait_until(lambda: len(listener.seen) == 2)
    finally:
        spark.streams.removeListener(listener)

    assert [0, 1] == sorted(told)
    for batch, progress in told.items():
        numbers, seen = progress.numbers(), listener.seen[batch]
        load = progress.report.load
        assert [each["seconds"] for each in load] == seen.pop("load_s")
        assert [each["messages"] for each in load] == seen.pop("load_messages")
        assert numbers == seen
    counts = ("messages", "deliveries", "rejected", "snapshot_age_batches")
    assert [(2, 2, 1, 1), (1, 1, 0, 2)] == [tuple(told[at].numbers()[name] for name in counts) for at in (0, 1)]
    last = running.query.lastProgress["observedMetrics"]["nearcast"]
    assert told[1].numbers() == {name: last[name] for name in told[1].numbers()}


def test_rows_of_a_dataframe_are_seen_by_listeners_as_well(spark, start, tmp_path):
    """There the rows of the source pass through the metrics, and change none of them."""
    frame = spark.readStream.schema("id long, text string, x double, y double").json(str(tmp_path / "in"))
    frame = frame.withColumn("seq", F.col("id"))
    running = start(messages=frame)
    assert running.wait(PATIENCE_S)
    seen = running.query.lastProgress["observedMetrics"]["nearcast"]
    assert (3, 1, None) == (seen.deliveries, seen.rejected, seen.event_lag_s)


def test_a_hook_that_raises_is_counted_and_stops_nothing(start):
    """The batch is committed and published, the next one comes, and tells how often the hook failed."""
    told = []

    def hook(progress):
        told.append((progress.report.batch, progress.hook_failures))
        raise ValueError("no\nroute to the monitor")

    with pytest.warns(RuntimeWarning, match=r"on_batch raised in batch [01], .* goes on: ValueError: no route to the"):
        running = finished(start(on_batch=hook))
    assert [(0, 0), (1, 1)] == told
    assert 2 == running.hook_failures
    assert isinstance(running.hook_error, ValueError)


def test_a_hook_that_raises_stops_nothing_where_warnings_are_errors(start, tmp_path):
    def hook(_):
        raise ValueError

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        running = start(on_batch=hook)
        assert running.wait(PATIENCE_S)
    assert 2 == running.hook_failures
    assert {"part-00000000", "part-00000001"} == {path.name[:13] for path in (tmp_path / "out").glob("part-*")}


def test_batches_of_the_wall_clock_are_seen_as_well(start):
    """There beats are among the rows of the plan."""
    running = finished(start(clock="wall", max_ahead="off"))
    seen = [each["observedMetrics"]["nearcast"] for each in running.query.recentProgress if each["observedMetrics"]]
    assert (3, 3) == (sum(each.messages or 0 for each in seen), sum(each.deliveries or 0 for each in seen))
