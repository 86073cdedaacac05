"""A window divided over message partitions: the deliveries are those of a hub, whatever is asked on the way."""

import pickle
import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import test_rebalance
from test_pipeline import Stream, as_rows, in_order

from nearcast import Hub, Vocabulary
from nearcast.columns import NO_TIME
from nearcast.errors import IncompatibleStore, InvalidInput
from nearcast.geo import Space
from nearcast.pipeline.divided_window.remote_window import WindowAnswer, WindowQuestion
from nearcast.pipeline.divided_window.window_part import aggregated
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.worker.tasks import forget_all
from nearcast.topk.window.registry import LiveRows
from nearcast.window import Window
from support.streams import WORDS, Oracle, World, net


def check(
    tmp_path,
    seed,
    plan,
    partitions,
    parts,
    window,
    kinds,
    *,
    forget=0.3,
    restart=0.2,
    snapshot=0.0,
    batches=6,
    index=None,
    size=12,
    runner=None,
):
    rng = random.Random(seed)
    earth = bool(seed % 3 == 0)
    world = World(seed, kinds=kinds, earth=earth)
    ids = list(range(1, 13))
    first = [world.subscription(id_) for id_ in ids[:8]]
    oracle = Oracle(Hub("earth" if earth else "plane", window=window))
    oracle.begin(first)
    settings = PipelineSettings(
        Space.earth() if earth else Space.plane(),
        plan=plan,
        partitions=partitions,
        window=window,
        window_parts=parts,
        index=index or "trigger",
    )
    stream = Stream(tmp_path, settings, first)
    reports = []
    runner = runner or LocalRunner()
    stream.pipeline.runner = runner
    for batch in range(batches):
        files = world.batch(rng.randint(0, size), rng.choice([0, 0, 2, 5]), ids)
        expected = as_rows(oracle.run(files))
        if rng.random() < forget:
            forget_all()
        if rng.random() < restart:
            stream.pipeline = stream.opened()
            stream.pipeline.runner = runner
            assert stream.pipeline.resume()
        report, tables = stream.run(batch, files)
        reports.append(report)
        assert sorted(in_order(tables), key=str) == sorted(expected, key=str), f"batch {batch}"
        for table in tables:
            places = [expected.index(row) for row in in_order([table])]
            assert places == sorted(places)
        if rng.random() < snapshot:
            stream.pipeline.take_snapshots(stream.pipeline.snapshots_to_write()())
    assert sum(report.rejected for report in reports) == oracle.rejected
    return stream, reports


@pytest.mark.parametrize(
    ("plan", "partitions", "parts", "window"),
    [
        ("trigger", 1, 1, "5s"),
        ("trigger", 3, 3, 9),
        ("hash", 1, 3, 9),
        ("hash", 3, 3, "5s"),
        ("prefix", 3, 1, "5s"),
        ("prefix", 3, 3, 9),
    ],
)
def test_a_divided_window_delivers_what_a_hub_does(tmp_path, plan, partitions, parts, window):
    kinds = ("within", "similar", "topk")
    seed = len(plan) * 31 + partitions * 7 + parts * 13 + len(kinds)
    check(tmp_path, seed, plan, partitions, parts, Window.of(window), kinds, batches=5)


@pytest.mark.parametrize(("buffer", "window"), [("kmax,kmax=2", 40), ("skyband", "20s"), ("cskyband", 40)])
def test_every_buffer_asks_when_it_runs_dry(tmp_path, buffer, window):
    stream, reports = check(
        tmp_path,
        7 if window == 40 else 11,
        "trigger",
        2,
        2,
        Window.of(window),
        ("topk",),
        index=f"trigger:buffer={buffer}",
        snapshot=0.4,
        batches=6,
        size=40,
    )
    assert sum(report.asked.questions for report in reports) > 0
    assert all((report.asked.questions > 0) == (report.asked.rounds > 0) for report in reports)
    assert not stream.store.list("questions/")
    assert not stream.store.list("answers/")


class NewProcesses:
    """Runs every task as a process would that has seen nothing before."""

    def map(self, task, payloads, *, claims=None, prefer=None):
        results = []
        for payload in payloads:
            forget_all()
            results.append(pickle.loads(pickle.dumps(task(pickle.loads(pickle.dumps(payload))))))
        return results


@pytest.mark.parametrize("plan", ["trigger", "prefix"])
def test_nothing_depends_on_what_a_worker_remembers(tmp_path, plan):
    options = {"size": 25, "snapshot": 0.3, "batches": 4, "runner": NewProcesses()}
    _, reports = check(tmp_path, 21, plan, 2, 2, Window.of(30), ("topk",), **options)
    assert sum(report.asked.questions for report in reports) > 0


def test_a_batch_that_failed_is_run_again(tmp_path):
    world = World(8, kinds=("topk",))
    first = [world.subscription(id_) for id_ in range(1, 9)]
    oracle = Oracle(Hub("plane", window=20))
    oracle.begin(first)
    settings = PipelineSettings(Space.plane(), plan="trigger", partitions=2, window=Window.of(20), window_parts=2)
    stream = Stream(tmp_path, settings, first)
    for batch in range(5):
        files = world.batch(20, 4, [*range(1, 13)])
        expected = as_rows(oracle.run(files))
        stream.pipeline.runner = FailsAt(1 + batch)
        try:
            _, tables = stream.run(batch, files)
        except OSError:
            stream.pipeline = stream.opened()
            assert stream.pipeline.resume()
            _, tables = stream.run(batch, files)
        assert sorted(in_order(tables), key=str) == sorted(expected, key=str), f"batch {batch}"


class FailsAt(LocalRunner):
    """Fails after a task that is not the first of its job."""

    def __init__(self, jobs):
        self.jobs = jobs

    def map(self, task, payloads, *, claims=None, prefer=None):
        results = super().map(task, payloads)
        self.jobs -= 1
        if self.jobs == 0:
            raise OSError("a worker is gone")
        return results


def test_snapshots_of_homes_hold_no_message(tmp_path):
    settled = {"snapshot": 1.0, "forget": 1.0, "restart": 0.0, "batches": 4}
    stream, reports = check(tmp_path, 5, "hash", 2, 3, Window.of(30), ("topk",), size=30, **settled)
    manifest = stream.pipeline.state.manifest
    for entry in manifest.partitions:
        folder = stream.store.local(entry.snapshot) / "state" / "topk" / "messages"
        assert len(np.load(folder / "time.npy")) == 0
        assert len(np.load(folder / "word.npy")) == 0
    held = []
    for entry in manifest.windows:
        assert entry.snapshot_batch == manifest.batch - 1
        held.append(len(np.load(stream.store.local(entry.snapshot) / "messages" / "time.npy")))
    assert min(sum(report.messages for report in reports[:-1]), 30) <= sum(held)
    assert len(manifest.batches) <= 6


def test_a_change_of_vocabulary_asks_for_everybody(tmp_path):
    common = {"kind": "topk", "y": 1.0, "max_distance": 5.0, "k": 2, "text_weight": 0.7}
    rows = [{"id": i, "query": f"w{i} w{i + 1}", "x": float(i), **common} for i in range(6)]
    rare, plenty = Vocabulary(), Vocabulary()
    rare.learn_tokens([["w1", "w2"]] * 5 + [["w3", "w4", "w5"]] * 2 + [["w6"]])
    plenty.learn_tokens([WORDS[:2]] * 2 + [WORDS[4:]] * 9 + [["w3"]])
    hub = Hub("plane", window=25, vocabulary=rare)
    oracle = Oracle(hub)
    oracle.begin(rows)
    settings = PipelineSettings(Space.plane(), plan="trigger", partitions=2, window=Window.of(25), window_parts=2)
    stream = Stream(tmp_path, settings, rows, rare)
    world = World(3)
    for batch in range(6):
        told = []
        if batch in (2, 3):
            vocabulary = plenty if batch == 2 else rare
            told += hub.use_vocabulary(vocabulary)
            stream.pipeline.use_vocabulary(vocabulary)
        if batch in (3, 5):
            forget_all()
        files = world.batch(15, 0, [1])
        for *_, row in sorted(oracle._in_order(files), key=lambda each: each[:4]):
            told += oracle._publish(row)
        expected = as_rows(net([(oracle._registered[d.subscription_id], d) for d in told]))
        report, tables = stream.run(batch, files)
        assert sorted(in_order(tables), key=str) == sorted(expected, key=str), f"batch {batch}"
        assert batch not in (2, 3) or report.asked.questions >= 6


def test_a_stream_keeps_the_number_of_parts_it_began_with(tmp_path):
    stream, _ = check(tmp_path, 1, "trigger", 1, 2, Window.of(9), ("topk",), batches=1)
    stream.settings = replace(stream.settings, window_parts=3)
    pipeline = stream.opened()
    assert pipeline.resume()
    assert pipeline.settings.window_parts == 2
    stream.settings = replace(stream.settings, window_parts=0)
    with pytest.raises(IncompatibleStore, match="window mode partitioned, not none"):
        stream.opened().resume()


def test_only_a_window_is_divided():
    with pytest.raises(InvalidInput, match="2 parts, and there is none"):
        PipelineSettings(Space.plane(), window_parts=2)


@pytest.mark.parametrize("by_time", [False, True])
def test_the_best_of_all_parts_are_in_rank_order(by_time):
    question = WindowQuestion(("a",), b"", (0.0,), LiveRows(0, 10, NO_TIME), 3, 0.0)
    one = WindowAnswer(np.array([4, 0]), np.array([0.5, 0.25]), np.array([1, 1]), 2)
    other = WindowAnswer(np.array([1, 3]), np.array([0.5, 0.5]), np.array([9, 0]), 5)
    found = aggregated([{b"q": one}, {b"q": other}], {b"q": question}, by_time=by_time)[b"q"]
    assert found.row.tolist() == ([1, 4, 3] if by_time else [4, 3, 1])
    assert found.work == 7


@pytest.mark.parametrize(("window", "plans"), [(20, [("hash", 3), ("trigger", 1)]), ("5s", [("prefix", 2)])])
def test_a_divided_window_stays_where_it_is_when_partitions_change(tmp_path, monkeypatch, window, plans):
    monkeypatch.setattr(test_rebalance, "PipelineSettings", partial(PipelineSettings, window_parts=2))
    stream = test_rebalance.Stream(tmp_path, 4, "trigger", 2, Window.of(window), ("topk",))
    for plan, partitions in plans:
        stream.run()
        stream.ask(plan, partitions)
        stream.run()
        assert len(stream.manifest().partitions) == partitions
        assert len(stream.manifest().windows) == 2
        stream.restart()
        stream.pipeline.take_snapshots(stream.pipeline.snapshots_to_write()())
        stream.run()
    stream.restart()
    stream.run()
