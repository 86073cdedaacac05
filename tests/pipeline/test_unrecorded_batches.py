"""Batches that leave nothing behind but the time, as messages alone do without a window: they have no deltas."""

import random

import pyarrow.parquet as pq
import pytest

from nearcast import Hub, Vocabulary
from nearcast.geo import Space
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import sink_of
from nearcast.pipeline.store.store import Store
from nearcast.pipeline.worker.tasks import forget_all
from nearcast.tables import Rejected, subscriptions_table
from support.streams import COLUMNS, Oracle, World, moment, values_in, write_files

IDS = list(range(1, 13))


class RepeatingRunner(LocalRunner):
    """Runs the tasks of a step a second time where it is told to, as Spark does when the first result was lost."""

    def __init__(self):
        self.repeats = False

    def map(self, task, payloads, **options):
        if self.repeats and task.__name__ == "step_batch":
            super().map(task, payloads)
        return super().map(task, payloads, **options)


class QuietStream:
    """A stream without a window, over files."""

    def __init__(self, folder, rows, plan="trigger"):
        self.folder, self.runner = folder, RepeatingRunner()
        self.settings = PipelineSettings(Space.plane(), plan=plan, partitions=3)
        self.pipeline = self.opened()
        table = subscriptions_table(rows, self.settings.space, rejected=Rejected())
        self.pipeline.begin(table, Vocabulary().snapshot())

    def opened(self):
        store = Store(str(self.folder / "K"))
        return Pipeline(store, self.settings, self.runner, sink_of(str(self.folder / "out"), store))

    def restart(self):
        self.pipeline = self.opened()
        assert self.pipeline.resume()

    def run(self, batch, files):
        """Run a batch; return its rows."""
        folder = self.folder / f"batch-{batch}"
        folder.mkdir()
        paths = write_files(folder, files)
        given = [BatchSource(name.partition("-")[0], name, str(path)) for name, path in paths.items()]
        self.pipeline.run(batch, given)
        parts = sorted((self.folder / "out").glob(f"part-{batch:08d}-*"))
        return [values_in(row) for part in parts for row in pq.read_table(part).to_pylist()]

    @property
    def manifest(self):
        return self.pipeline.state.manifest


def as_rows(deliveries):
    return sorted((tuple(getattr(each, name) for name in COLUMNS) for each in deliveries), key=str)


@pytest.mark.parametrize(("seed", "plan"), [(1, "trigger"), (2, "keyword")])
def test_random_lives_deliver_what_a_hub_does(tmp_path, seed, plan):
    """Whatever workers forget, whoever restarts, whichever task runs twice, and whenever snapshots are taken."""
    rng, world = random.Random(seed), World(seed, kinds=("within", "similar"))
    first = [world.subscription(id_) for id_ in IDS[:8]]
    oracle = Oracle(Hub("plane"))
    oracle.begin(first)
    stream = QuietStream(tmp_path, first, plan)
    recorded = 0
    for batch in range(10):
        files = world.batch(rng.randint(1, 8), rng.choice([0, 0, 0, 3]), IDS)
        expected = as_rows(oracle.run(files))
        event = rng.choice(["none", "none", "forget", "restart", "snapshots"])
        if event == "forget":
            forget_all()
        elif event == "restart":
            stream.restart()
        elif event == "snapshots":
            stream.pipeline.take_snapshots(stream.pipeline.snapshots_to_write()())
        stream.pipeline.snapshot_every = 1 if event == "snapshots" else None
        stream.runner.repeats = rng.random() < 0.4
        assert expected == sorted(stream.run(batch, files), key=str), f"batch {batch} after {event}"
        recorded += "changes-a" in files
    assert len(stream.manifest.batches) <= recorded < 10


def messages(*seconds):
    return {"messages-a": [{"id": s, "text": "tea", "x": 0.0, "y": 0.0, "time": moment(s)} for s in seconds]}


def test_a_subscription_that_expires_in_a_batch_is_there_for_its_second_attempt(tmp_path):
    """The state of the first attempt is later than the messages before the expiry."""
    stream = QuietStream(tmp_path, [{"id": 1, "query": "tea", "expires": moment(30)}])
    stream.runner.repeats = True
    assert [10] == [row[1] for row in stream.run(0, messages(10, 50))]
    assert [] == stream.run(1, messages(60))
    stream.restart()
    assert 0 == len(stream.pipeline.state.directory)
    assert [] == stream.run(2, messages(70))


def test_messages_alone_leave_no_deltas_and_no_history(tmp_path):
    """So nothing is replayed, no snapshot is due, and their segments go; a change is recorded as ever."""
    stream = QuietStream(tmp_path, [{"id": 1, "query": "tea"}])
    snapshots = [entry.snapshot for entry in stream.manifest.partitions]
    for batch in range(9):
        assert 1 == len(stream.run(batch, messages(batch)))
    manifest, store = stream.manifest, stream.pipeline.store
    assert ((), [()] * 3) == (manifest.batches, [entry.deltas for entry in manifest.partitions])
    assert snapshots == [entry.snapshot for entry in manifest.partitions]
    assert [] == store.list("deltas/")
    assert not stream.pipeline.snapshots_due(1)
    assert set(manifest.recent) >= set(store.list("segments/"))
    stream.run(9, {"changes-a": [{"op": "subscribe", "id": 2, "query": "tea", "time": moment(9)}], **messages(10)})
    assert [9] == [files.batch for files in stream.manifest.batches]
    assert 3 == len(store.list("deltas/"))
    assert stream.pipeline.snapshots_due(1)
    forget_all()
    assert 2 == len(stream.run(10, messages(11)))
