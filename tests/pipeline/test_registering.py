"""Changes registered in columns: what rows taken one by one give, whatever repeats, is bad or expires among them."""

import random
import sys
from dataclasses import fields, is_dataclass

import numpy as np
import pyarrow as pa
import pytest

from nearcast import Vocabulary
from nearcast.columns import Messages
from nearcast.geo import Space
from nearcast.pipeline.batch.changes import read_changes, runs_without_repeats
from nearcast.pipeline.batch.event_clock import EventClock
from nearcast.pipeline.batch.order import AheadLimit, SourceTimes, put_in_order
from nearcast.pipeline.driver import registrar
from nearcast.pipeline.driver.directory import Directory
from nearcast.pipeline.driver.pending_changes import PendingChanges
from nearcast.pipeline.driver.registrar import Registrar
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.plans import learn
from nearcast.tables import Rejected, subscriptions_table
from nearcast.tables.time_limits import MaxAhead
from nearcast.text.weights import TermWeights
from nearcast.text.words import WordTable
from nearcast.window import Window
from support.changing_streams import ChangingStream, described_ids, mixed_changes
from support.streams import BEGIN, World, moment

PLANS = ("hash", "prefix", "trigger")


@pytest.mark.parametrize(("plan", "window"), [("trigger", None), ("prefix", "5s")])
def test_a_stream_of_mixed_changes_delivers_what_a_hub_does(tmp_path, plan, window):
    """Ids that come once and often, replaced, gone and there again, bad ones between; restarts and kills between."""
    seed = len(plan) + 100 * (window is not None)
    kinds = ("within", "similar") if window is None else ("within", "similar", "topk")
    world, rng = World(seed, kinds=kinds), random.Random(seed)
    settings = PipelineSettings(Space.plane(), plan=plan, partitions=3, window=window and Window.of(window))
    first = [world.subscription(id_) for id_ in range(1, 9)]
    stream = ChangingStream(tmp_path, settings, first)
    once, often = list(range(20, 500)), [1, 2, 3, 11, 12]
    rng.shuffle(once)
    for batch in range(4):
        files = world.batch(10, 0, often)
        changes = mixed_changes(world, 25, once, often)
        # Some that were stored by an earlier batch are replaced, moved and dropped, each once.
        changes += [world.change([id_]) for id_ in rng.sample(range(4, 9), 3)]
        files |= {"changes-a": changes[:14], "changes-b": changes[14:]}
        if batch == 2:
            stream.restart(Killed())
            with pytest.raises(KeyboardInterrupt):
                stream.driver.run(batch, stream.given(batch, files))
            stream.restart()
        before = stream.driver
        stream.run(batch, files)
        ids = list(range(1, 500))
        known = described_ids(before.state.directory, ids)
        stream.restart()
        again = stream.driver.state.directory
        assert described_ids(again, ids) == known
        assert (len(again), again.next_number) == (len(before.state.directory), before.state.directory.next_number)
    assert stream.rejected == stream.oracle.rejected > 5


class Killed(LocalRunner):
    """Stops in the middle of the job that steps partitions."""

    def map(self, task, payloads, **more):
        if task.__name__ == "step_batch":
            super().map(task, payloads[:1], **more)
            raise KeyboardInterrupt
        return super().map(task, payloads, **more)


# --- the registrar alone ----------------------------------------------------------------------------------------


class Bench:
    """A directory and a plan, and batches of changes and message times for them."""

    def __init__(self, seed, plan):
        self.world = World(seed)
        self.settings = PipelineSettings(Space.plane(), plan=plan, partitions=4, window=Window.of("5s"))
        self.words = WordTable()
        none = read_changes(
            subscriptions_table([], Space.plane(), rejected=Rejected()),
            self.settings,
            source="none",
            rejected=Rejected(),
            only_subscribe=True,
        ).subscriptions.into(self.words)
        self.plan = learn(plan, 4, Space.plane(), self.words, none, Messages.none(), np.zeros(len(self.words)))
        self.weights = TermWeights(self.words, Vocabulary().snapshot())
        self.directory, self.rejected, self.now = Directory(), Rejected(), np.iinfo(np.int64).min

    def register(self, rows, times, limit):
        found = Rejected()
        names = sorted({name for row in rows for name in row})
        table = pa.table({name: [row.get(name) for row in rows] for name in names})
        changes = read_changes(table, self.settings, source="changes", rejected=found)
        pending = PendingChanges.of([changes], self.words)
        messages = SourceTimes("messages", times, np.arange(len(times)))
        order = put_in_order([messages], [SourceTimes("changes", changes.time, changes.row)])
        clock = EventClock(order, self.now, limit, reports_move=True)
        made, keys = Registrar(self.directory, self.plan, self.weights, self.rejected).register(
            pending, order, clock, limit
        )
        clock.finish()
        self.now = clock.now
        self.directory.forget_expired(self.now)
        return made, keys


def one_by_one(codes):
    """Yield each row as a run of its own."""
    yield from np.arange(len(codes)).reshape(-1, 1)


def plain(value):
    """Return columns as lists."""
    if isinstance(value, np.ndarray | pa.Array):
        return value.tolist()
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    names = [each.name for each in fields(value)] if is_dataclass(value) else []
    return [plain(getattr(value, name)) for name in names] or value


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("plan", PLANS)
def test_runs_register_what_rows_one_by_one_do(monkeypatch, seed, plan):
    """Numbers, homes, copies, clocks, rejected rows and their order are the same, also where reports move time."""
    limit = AheadLimit(MaxAhead.of("3s")) if seed % 2 else None
    columns, rows = Bench(seed, plan), Bench(seed, plan)
    world, rng = World(seed), np.random.default_rng(seed)
    once, often = list(range(20, 900)), list(range(1, 8))
    world.random.shuffle(once)
    for _ in range(4):
        changes = mixed_changes(world, 60, once, often)
        for row in [row for row in changes if row["op"] == "move"][::5] if limit else []:
            row["time"] = moment(world.seconds + 60)
        times = (BEGIN.timestamp() + world.seconds + rng.integers(0, 9, 20)) * 1e6
        world.seconds += 2
        made = columns.register(changes, np.sort(times).astype(np.int64), limit)
        with monkeypatch.context() as patch:
            patch.setattr(registrar, "runs_without_repeats", one_by_one)
            expected = rows.register(changes, np.sort(times).astype(np.int64), limit)
        assert plain(made) == plain(expected)
    assert list(columns.rejected) == list(rows.rejected)
    assert ({"id", "expires"} | ({"time"} if limit else set())) <= {row.field for row in columns.rejected}
    ids = list(range(1, 900))
    assert described_ids(columns.directory, ids) == described_ids(rows.directory, ids)


def test_rows_are_cut_where_a_number_comes_again():
    codes = np.array([0, 1, -1, 2, 1, -1, 0, 3, 3])
    assert [run.tolist() for run in runs_without_repeats(codes)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert not list(runs_without_repeats(np.empty(0, np.int64)))


def test_ids_that_come_once_take_no_call_each():
    """Five times as many changes are registered with the same calls of Python functions."""

    def calls(n):
        bench = Bench(1, "trigger")
        rows = [
            {"op": "subscribe", "id": id_, "query": f"w{id_ % 7}", "x": 1.0, "y": 2.0, "radius": 1.0}
            for id_ in range(n)
        ]
        bench.register(rows, np.empty(0, np.int64), None)
        again = [{"op": "subscribe", "id": id_, "query": "w1"} for id_ in range(0, n, 2)]
        again += [{"op": "unsubscribe", "id": id_} for id_ in range(1, n, 2)]
        counted = []

        def count(frame, event, _):
            if event == "call" and "/driver/" in frame.f_code.co_filename:
                counted.append(frame.f_code.co_name)

        sys.setprofile(count)
        try:
            bench.register(again, np.empty(0, np.int64), None)
        finally:
            sys.setprofile(None)
        assert len(bench.directory) == (n + 1) // 2
        return sorted(counted)

    assert calls(500) == calls(100)


def test_a_report_of_an_unknown_subscription_cuts_nothing(monkeypatch):
    """However often it comes: it does not exist before and after."""
    bench = Bench(1, "hash")
    rows = [{"op": "move", "id": 7, "x": 1.0, "y": 2.0} for _ in range(50)]
    runs = []
    monkeypatch.setattr(
        registrar,
        "runs_without_repeats",
        lambda codes: runs.extend(found := list(runs_without_repeats(codes))) or found,
    )
    made, _ = bench.register(rows, np.empty(0, np.int64), None)
    assert (len(made), len(runs), len(bench.rejected)) == (0, 1, 50)
