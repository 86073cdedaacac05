"""The wall clock of a stream on Spark while it works off a backlog, and what it judges that by."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from nearcast import Hub
from nearcast.pipeline.driver.pipeline import BatchSource
from nearcast.pipeline.store.store import Store
from nearcast.spark.backlog import BacklogGauge
from nearcast.spark.stream import stream
from nearcast.tables import Rejected, subscriptions_table
from support.waiting import PATIENCE_S

spark_test = pytest.mark.xdist_group("spark")
TEA = {"query": "tea", "x": 0.0, "y": 0.0, "max_distance": 5.0}
ROWS = [{"id": 1, "kind": "topk", "k": 9, **TEA}, {"id": 2, "kind": "within", "query": "tea"}]


@spark_test
def test_a_backlog_is_worked_off_in_batches_and_nothing_of_it_is_late(spark, tmp_path):
    """Of what an hour left, each batch enters the top-k; only then the clock moves on to now."""
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    (tmp_path / "in").mkdir()

    def arrive(number):
        row = {
            "id": number,
            "text": "tea",
            "x": 0.0,
            "y": 0.0,
            "time": (long_ago + timedelta(seconds=number)).isoformat(),
        }
        (tmp_path / "in" / f"{number:04d}.jsonl").write_text(json.dumps(row))

    def run(at_once):
        reports.clear()
        table = subscriptions_table(ROWS, Hub("plane").space, rejected=Rejected())
        running = stream(
            str(tmp_path / "in"),
            table,
            out="memory",
            checkpoint=tmp_path / "K",
            window="10m",
            clock="wall",
            space="plane",
            partitions=1,
            at_once=at_once,
            once=True,
            spark=spark,
            on_batch=lambda progress: reports.append(progress.report),
        )
        assert running.wait(PATIENCE_S)
        return running

    reports = []
    arrive(0)
    run(at_once=1)
    for number in range(1, 6):
        arrive(number)
    running = run(at_once=2)
    assert ([2, 2, 1], [0, 0, 0]) == ([each.messages for each in reports], [each.late for each in reports])
    moved = [each.now > long_ago.timestamp() * 1e6 + 60e6 for each in reports]
    assert [False, False, True] == moved
    told = [row for table in running.pipeline.sink.tables for row in table.to_pylist() if row["rank"] is not None]
    # The last one enters and leaves in the batch that the clock ends.
    for change in "+-":
        assert set(range(5)) == {row["message_id"] for row in told if row["change"] == change}
    everybody = [row for table in running.pipeline.sink.tables for row in table.to_pylist() if row["rank"] is None]
    assert set(range(6)) == {row["message_id"] for row in everybody}


def files(*counts):
    kinds = ("messages", "changes")
    return [BatchSource(kind, str(i), f"/{i}") for kind, n in zip(kinds, counts, strict=True) for i in range(n)]


@pytest.mark.parametrize(("counts", "is_full"), [((3, 0), False), ((4, 0), True), ((0, 4), True), ((3, 3), False)])
def test_a_batch_with_as_many_files_as_it_may_have_is_full(tmp_path, counts, is_full):
    gauge = BacklogGauge(Store(str(tmp_path)), 4)
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
            lines = ["v1", json.dumps({"batchTimestampMs": 1}), json.dumps({"posts": found}), "17", "-"]
            (tmp_path / "offsets" / str(batch)).write_text("\n".join(lines))
    gauge = BacklogGauge(Store(str(tmp_path)), 11, ("posts",))
    assert is_full == gauge.is_full(1, [])
    assert not BacklogGauge(Store(str(tmp_path)), 11).is_full(1, []), "a topic that is none of ours"
