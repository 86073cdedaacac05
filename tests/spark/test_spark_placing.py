"""Subscriptions become partitions in Spark's workers."""

import pytest

from nearcast.geo import Space
from nearcast.pipeline.driver import building, first_state
from nearcast.pipeline.driver.rebalance import ask
from nearcast.pipeline.settings import PipelineSettings
from nearcast.spark.runner import SparkRunner
from support.changing_streams import ChangingStream, described_ids
from support.streams import World

pytest.importorskip("pyspark")


class CountingRunner(SparkRunner):
    """Knows which jobs it ran."""

    def __init__(self, spark):
        super().__init__(spark)
        self.jobs = []

    def map(self, task, payloads, **more):
        self.jobs.append(task.__name__)
        return super().map(task, payloads, **more)


def test_a_stream_begins_and_is_rebalanced_in_workers(spark, tmp_path, monkeypatch):
    """Deliveries are those of a hub; snapshots of the directory come from a worker, too."""
    monkeypatch.setattr(first_state, "PIECE_ROWS", 7)
    for room in (building, first_state):
        monkeypatch.setattr(room, "FEW", 0)
    world, runner = World(2, kinds=("within", "similar")), CountingRunner(spark)
    settings = PipelineSettings(Space.plane(), plan="trigger", partitions=2)
    stream = ChangingStream(tmp_path, settings, [world.subscription(id_) for id_ in range(1, 15)], runner)
    assert runner.jobs == ["encode_subscriptions", "place_share", "build_partition"]
    stream.run(0, world.batch(9, 6, list(range(1, 20))))
    ask(stream.store, stream.driver.state.manifest, "prefix", 2)
    stream.run(1, world.batch(9, 6, list(range(1, 20))))
    assert runner.jobs[-4:-1] == ["export_partition", "place_share", "build_partition"]
    assert stream.driver.take_snapshots(stream.driver.snapshots_to_write()())
    assert runner.jobs[-1] == "write_tables"
    stream.run(2, world.batch(9, 6, list(range(1, 20))))
    ids = list(range(1, 20))
    known = described_ids(stream.driver.state.directory, ids)
    stream.restart(runner)
    assert described_ids(stream.driver.state.directory, ids) == known
