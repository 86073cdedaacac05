"""The wall clock of a stream on Spark while it works off a backlog, and what it judges that by."""

import json
import os
import time
from datetime import UTC, datetime, timedelta

import pytest

from nearcast import Hub
from nearcast.errors import NearcastError
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.store.store import Store
from nearcast.spark.backlog import BacklogGauge
from nearcast.spark.stream import stream
from nearcast.spark.stream_options import StreamOptions
from nearcast.tables import Rejected, subscriptions_table
from support.waiting import PATIENCE_S, wait_until

TEA = {"query": "tea", "x": 0.0, "y": 0.0, "max_distance": 5.0}
ROWS = [{"id": 1, "kind": "topk", "k": 9, **TEA}, {"id": 2, "kind": "within", "query": "tea"}]


def generated(spark):
    """Return how many classes Spark has generated in this session."""
    metrics = getattr(spark.sparkContext._jvm, "org.apache.spark.metrics.source.CodegenMetrics")
    return metrics.METRIC_COMPILATION_TIME().getCount()


class Backlog:
    """A stream by the wall clock over messages that are an hour old."""

    def __init__(self, spark, folder):
        self.spark, self.folder, self.reports = spark, folder, []
        self.begin = datetime.now(UTC) - timedelta(hours=1)
        (folder / "in").mkdir()

    def arrive(self, *numbers):
        """Put a message for each number into the folder, complete, one after the other in the order of files."""
        for number in numbers:
            time = self.begin + timedelta(seconds=number)
            draft = self.folder / f"{number:04d}.jsonl"
            draft.write_text(json.dumps({"id": number, "text": "tea", "x": 0.0, "y": 0.0, "time": time.isoformat()}))
            os.utime(draft, (time.timestamp(),) * 2)
            draft.rename(self.folder / "in" / draft.name)

    def start(self, on_batch=None, **options):
        def note(progress):
            self.reports.append(progress.report)
            if on_batch is not None:
                on_batch()

        return stream(
            str(self.folder / "in"),
            subscriptions_table(ROWS, Hub("plane").space, rejected=Rejected()),
            out="memory",
            checkpoint=self.folder / "K",
            window="10m",
            clock="wall",
            space="plane",
            partitions=1,
            spark=self.spark,
            on_batch=note,
            **options,
        )

    def seen(self):
        """Return for each batch its messages, how many were late, and whether the clock had moved on to now."""
        limit = (self.begin + timedelta(minutes=1)).timestamp() * 1e6
        return [(each.messages, each.late, each.now > limit) for each in self.reports]


def test_a_backlog_is_worked_off_in_batches_and_nothing_of_it_is_late(spark, tmp_path):
    """Of what an hour left, each batch enters the top-k; only then the clock moves on to now."""
    backlog = Backlog(spark, tmp_path)
    backlog.arrive(0)
    assert backlog.start(once=True, at_once=1).wait(PATIENCE_S)
    ended = time.time()
    wait_until(lambda: time.time() > ended + 1)  # a clock that began less than a second ago has no beat yet
    backlog.arrive(1, 2, 3, 4, 5)
    running = backlog.start(once=True, at_once=2)
    assert running.wait(PATIENCE_S)
    assert [(1, 0, False), (2, 0, False), (2, 0, False), (1, 0, True)] == backlog.seen()
    rows = [row for table in running.pipeline.sink.tables for row in table.to_pylist()]
    assert set(range(6)) == {row["message_id"] for row in rows if row["rank"] is None}
    # The last one enters and leaves in the batch that the clock ends.
    for change in "+-":
        assert set(range(5)) == {row["message_id"] for row in rows if row["rank"] and row["change"] == change}


def test_files_that_arrive_while_a_backlog_is_worked_off_belong_to_it(spark, tmp_path):
    """No batch is short because Spark looked before they came: the clock moves on when there is no file left."""
    backlog = Backlog(spark, tmp_path)
    backlog.arrive(1, 2, 3, 4, 5)
    running = backlog.start(lambda: len(backlog.reports) == 1 and backlog.arrive(6, 7), at_once=2)
    wait_until(lambda: backlog.seen() and backlog.seen()[-1][2], is_alive=lambda: running.is_active)
    running.stop()
    assert [2, 2, 2, 1] == [messages for messages, _, _ in backlog.seen() if messages]
    assert 0 == sum(late for _, late, _ in backlog.seen())


def test_every_batch_by_the_wall_clock_runs_the_code_of_the_first_ones(spark, tmp_path):
    """The time of a batch is no part of the code that Spark generates: that would be compiled anew for each."""
    backlog, made = Backlog(spark, tmp_path), []
    backlog.arrive(1, 2, 3, 4, 5)
    assert backlog.start(lambda: made.append(generated(spark)), once=True, at_once=1).wait(PATIENCE_S)
    assert 5 == len(made)
    assert made[1] == made[-1]


def test_the_wall_clock_of_a_batch_is_the_time_that_spark_noted(tmp_path):
    """So a batch that comes again has the time it had; one that no longer says it is refused by name."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text('v1\n{"batchTimestampMs":1234}\n-')
    (tmp_path / "offsets" / "4").write_text("v1")
    gauge = BacklogGauge(Store(str(tmp_path)), 4, 4)
    assert 1_234_000 == gauge.wall(3)
    for batch, reason in ((4, "offsets/4 does not say when batch 4 began"), (5, "offsets/5 is missing")):
        with pytest.raises(NearcastError, match=reason):
            gauge.wall(batch)


def files(*counts):
    kinds = ("messages", "changes")
    return [BatchSource(kind, str(i), f"/{i}") for kind, n in zip(kinds, counts, strict=True) for i in range(n)]


@pytest.mark.parametrize(("counts", "is_full"), [((3, 0), False), ((4, 0), True), ((0, 4), True), ((3, 3), False)])
def test_a_batch_with_as_many_files_as_it_may_have_is_full(tmp_path, counts, is_full):
    gauge = BacklogGauge(Store(str(tmp_path)), 4, 4)
    assert is_full == gauge.is_full(0, files(*counts))


@pytest.mark.parametrize(
    ("before", "after", "is_full"),
    [
        (None, {"0": 3, "1": 3}, False),
        ({"0": 100, "1": 100}, {"0": 105, "1": 104}, False),
        ({"0": 100, "1": 100}, {"0": 105, "1": 105}, True),  # half of 11 each, rounded down
        ({"0": 100}, {"0": 100, "1": 10}, True),  # a new partition begins at 0
        ({"0": 100}, {"0": 111}, True),
        ({"0": 100}, {"0": 100}, False),
    ],
)
def test_a_batch_with_as_many_offsets_of_a_topic_as_it_may_have_is_full(tmp_path, before, after, is_full):
    """Records are not counted: those of transactions, and compacted ones, take offsets too."""
    (tmp_path / "offsets").mkdir()
    for batch, found in enumerate((before, after)):
        if found is not None:
            lines = [
                "v1",
                json.dumps({"batchTimestampMs": 1, "posts": {"a": "b"}}),
                json.dumps({"posts": found}),
                "17",
                "-",
            ]
            (tmp_path / "offsets" / str(batch)).write_text("\n".join(lines))
    gauge = BacklogGauge(Store(str(tmp_path)), 11, 11, (("posts",),))
    assert is_full == gauge.is_full(1, [])
    assert not BacklogGauge(Store(str(tmp_path)), 11, 11).is_full(1, []), "a topic that is none of ours"


@pytest.mark.parametrize(("first", "second", "is_full"), [(300, 200, True), (300, 199, True), (300, 198, False)])
def test_topics_of_one_source_share_what_a_batch_may_have(tmp_path, first, second, is_full):
    """Spark divides it over the partitions of all of them; the topic of changes has as much for itself."""
    (tmp_path / "offsets").mkdir()
    for batch, offsets in enumerate([(0, 0, 0), (first, second, 300)]):
        a, b, c = ({"0": each} for each in offsets)
        lines = ["v1", "{}", json.dumps({"a": a, "b": b}), json.dumps({"c": c})]
        (tmp_path / "offsets" / str(batch)).write_text("\n".join(lines))
    given = StreamOptions("kafka://h:1/a, b", None, "out", "K", changes="kafka://h:1/c")
    assert (("a", "b"), ("c",)) == given.topics
    assert is_full == BacklogGauge(Store(str(tmp_path)), 500, 500, given.topics).is_full(1, [])
