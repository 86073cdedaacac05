"""Streams whose snapshots, restarts, repeated tasks, rebalances and sweeps fall together at random."""

import random
from dataclasses import replace

import pytest

from nearcast import Hub
from nearcast.pipeline.driver import pipeline as batches_of_streams
from nearcast.pipeline.driver.rebalance import REQUEST, ask
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.worker.tasks import forget_all
from support.file_stream import FileStream, as_rows
from support.streams import Oracle, World, moment

IDS = list(range(1, 15))
BATCHES = 8


class RepeatingRunner(LocalRunner):
    """Runs the tasks of a step a second time where it is told to, as Spark does when the first result was lost."""

    def __init__(self):
        self.repeats = False

    def map(self, task, payloads, **options):
        if self.repeats and task.__name__ == "step_batch":
            super().map(task, payloads)
        return super().map(task, payloads, **options)


class TroubledStream(FileStream):
    """A stream to which something happens before each batch; its sweeps come with every second one."""

    def __init__(self, folder, rows, rng, **options):
        super().__init__(folder, rows, **options)
        self.rng, self.runner = rng, RepeatingRunner()
        self.pipeline.runner = self.runner
        #: What writes the driver's tables, begun after an earlier batch; what it wrote, still to be taken.
        self.under_way = self.written = None

    def trouble(self):
        """Let things happen between two batches; return what, for whoever looks for the reason of a failure."""
        what = self.rng.choice(["nothing", "nothing", "forget", "restart", "rebalance", "refused", "tables at once"])
        if what == "forget":
            forget_all()
        elif what == "restart":
            self.settings = replace(self.settings, partitions=self.pipeline.settings.partitions)
            self.pipeline, self.under_way, self.written = self.opened(), None, None
            self.pipeline.runner = self.runner
            assert self.pipeline.resume()
        elif what == "rebalance":
            ask(self.pipeline.store, self.pipeline.state.manifest, None, self.rng.choice([2, 3]))
        elif what == "refused":
            text = f'{{"id": "{self.rng.random()}", "plan": "by-moon"}}'
            self.pipeline.store.put(REQUEST, lambda path: path.write_text(text))
        elif what == "tables at once":
            self.pipeline.take_snapshots(self.pipeline.snapshots_to_write()())
            self.under_way = self.written = None
        self.pipeline.snapshot_every = self.rng.choice([None, 1, 2, 3])
        self.runner.repeats = self.rng.random() < 0.4
        return f"{what}, {self._tables()}, snapshots every {self.pipeline.snapshot_every}"

    def _tables(self):
        """Begin to write the driver's tables, write them, or take them: a batch or more go by between two of these."""
        if self.rng.random() < 0.4:
            return "no tables"
        if self.written is not None:
            self.pipeline.take_snapshots(self.written)
            self.written = None
            return "tables taken"
        if self.under_way is not None:
            line, write = self.under_way
            self.under_way = None
            if line == self.pipeline.state.manifest.plan.line:  # else their files may be gone
                self.written = write()
            return "tables written"
        self.under_way = self.pipeline.state.manifest.plan.line, self.pipeline.snapshots_to_write()
        return "tables begun"


@pytest.mark.parametrize(
    ("plan", "window"),
    [("prefix", None), ("trigger", "6s"), ("prefix", "6s")],
    ids=["boolean copies", "window", "window copies"],
)
def test_random_lives_deliver_what_a_hub_does(tmp_path, monkeypatch, plan, window):
    monkeypatch.setattr(batches_of_streams, "SWEEP_EVERY", 2)
    forget_all()
    rng = random.Random(1)
    world = World(1, kinds=("within", "similar") if window is None else ("within", "topk"))
    first = [world.subscription(id_) for id_ in IDS[:10]]
    oracle = Oracle(Hub("plane", window=window))
    oracle.begin(first)
    stream = TroubledStream(tmp_path, first, rng, plan=plan, window=window)
    for batch in range(BATCHES):
        files = world.batch(rng.randint(1, 6), rng.choice([0, 0, 3]), IDS)
        expected, before = as_rows(oracle.run(files)), stream.trouble()
        assert expected == stream.run(batch, files), f"batch {batch} after {before}"
    assert len(stream.pipeline.state.directory) == len(oracle.hub)


def messages(batch):
    return {"messages-a": [{"id": batch, "text": "tea", "x": 0.0, "y": 0.0, "time": moment(batch)}]}


def test_a_request_that_is_refused_takes_nothing_from_snapshots_that_are_being_written(tmp_path, monkeypatch):
    """They are of this line of history, and a later batch names them."""
    monkeypatch.setattr(batches_of_streams, "SWEEP_EVERY", 1)
    stream = FileStream(tmp_path, [{"id": 1, "query": "tea"}], window=3)
    stream.run(0, messages(0))
    written = stream.pipeline.snapshots_to_write()()
    stream.pipeline.store.put(REQUEST, lambda path: path.write_text('{"id": "a", "plan": "by-moon"}'))
    stream.run(1, messages(1))
    assert "by-moon" in stream.pipeline.state.manifest.rebalance.refused
    assert stream.pipeline.take_snapshots(written)
    stream.run(2, messages(2))
    assert written.directory == stream.pipeline.state.manifest.directory
