"""Subscriptions become partitions by tasks, from files: nothing depends on how their rows are cut."""

import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast import Vocabulary
from nearcast.geo import Space
from nearcast.pipeline.driver import building, first_state
from nearcast.pipeline.driver.building import learned_plan
from nearcast.pipeline.driver.rebalance import ask
from nearcast.pipeline.preparation.prepared_store import prepare
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.store.store import Store
from nearcast.pipeline.worker.partition import Partition
from nearcast.pipeline.worker.share import Share
from nearcast.tables import Rejected
from nearcast.window import Window
from support.changing_streams import ChangingStream, described_ids, mixed_changes
from support.streams import World

PLANS = ("hash", "location", "prefix", "trigger")


class WatchedRunner(LocalRunner):
    """Knows which tasks it ran, and whether one is running."""

    def __init__(self):
        self.tasks, self.is_running = [], False

    def map(self, task, payloads, **more):
        self.tasks += [(task.__name__, len(payloads))]
        self.is_running = True
        try:
            return super().map(task, payloads, **more)
        finally:
            self.is_running = False


@pytest.fixture
def small_pieces(monkeypatch):
    """Cut rows into pieces of three, none of which is few."""
    monkeypatch.setattr(first_state, "PIECE_ROWS", 3)
    for room in (building, first_state):
        monkeypatch.setattr(room, "FEW", 0)


def settings_of(plan, partitions=3, window=9):
    return PipelineSettings(Space.plane(), plan=plan, partitions=partitions, window=window and Window.of(window))


def begun(folder, table, settings, runner=None):
    """Return the state a stream begins with, and the rows that were rejected."""
    rejected = Rejected()
    state = first_state.begin(
        Store(str(folder)),
        settings,
        runner or LocalRunner(),
        first_state.pieces_of(table),
        Vocabulary().snapshot(),
        rejected=rejected,
    )
    return state, rejected


def routes_of(state):
    """Return the keys of routes with their words."""
    words, keys = state.router.plan.words.words().to_pylist(), state.router.routes.keys()
    named = [None if word < 0 else words[word] for word in keys.word.tolist()]
    return sorted(zip(named, keys.cell.tolist(), keys.partition.tolist(), strict=True), key=str)


@pytest.mark.parametrize("plan", ["location", "prefix", "trigger"])
def test_pieces_of_rows_become_what_all_rows_at_once_do(tmp_path, small_pieces, monkeypatch, plan):
    """The same directory, routes and rejected rows; bad rows and ids that repeat across pieces among them."""
    world = World(len(plan))
    rows = [world.subscription(id_) for id_ in (1, 2, 3, 2, 4, 5, 1, 6, 6, 7, 8, 9, 2, 10, 11)]
    rows += [{"id": id_, "query": "w1 AND"} for id_ in (12, 13, 14)]  # nothing of the last piece is good
    rows[4] = {"id": 4, "query": "w1 AND"}
    names = sorted({name for row in rows for name in row})
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    pieces, told = begun(tmp_path / "pieces", table, settings_of(plan))
    monkeypatch.setattr(first_state, "PIECE_ROWS", 100)
    whole, expected = begun(tmp_path / "whole", table, settings_of(plan))
    ids = list(range(1, 12))
    assert described_ids(pieces.directory, ids) == described_ids(whole.directory, ids)
    assert routes_of(pieces) == routes_of(whole)
    assert told.to_table() == expected.to_table()
    assert {4, 15, 16, 17} <= {row.row for row in told}
    assert sum("taken by row" in row.reason for row in told) == 4
    taken = [row.reason for row in told if row.row == 12]
    assert taken == ["id 2 is taken by row 1; give each subscription its own"]
    assert pieces.manifest.counts == whole.manifest.counts
    left = {name.partition("/")[0] for name in pieces.store.list()}
    assert left == {"vocabularies", "plans", "directories", "snapshots"}
    assert len(pieces.store.list("plans/")) == 1


@pytest.mark.parametrize("plan", ["prefix", "trigger"])
def test_a_stream_begun_and_rebalanced_in_pieces_delivers_what_a_hub_does(tmp_path, small_pieces, plan):
    world = World(7 * len(plan))
    stream = ChangingStream(tmp_path, settings_of(plan), [world.subscription(id_) for id_ in range(1, 15)])
    once, often = list(range(20, 200)), [1, 2, 3, 16]
    random.Random(1).shuffle(once)
    for batch in range(3):
        if batch:
            ask(stream.store, stream.driver.state.manifest, PLANS[(PLANS.index(plan) + batch) % len(PLANS)], 2 + batch)
        changes = mixed_changes(world, 8, once, often)
        stream.run(batch, world.batch(8, 0, often) | {"changes-a": changes})
    stream.restart()
    stream.run(3, world.batch(8, 0, often))
    assert stream.driver.state.manifest.plan.partitions == 4


def test_the_driver_holds_no_share(tmp_path, small_pieces, monkeypatch):
    """It has ids, what its directory says of them, and a sample; all else passes from task to task."""
    runner, made = WatchedRunner(), []
    original = Share.__init__

    def noted(self, *arguments, **options):
        made.append(runner.is_running)
        original(self, *arguments, **options)

    monkeypatch.setattr(Share, "__init__", noted)
    world = World(3)
    rows = [world.subscription(id_) for id_ in range(1, 11)]
    stream = ChangingStream(tmp_path, settings_of("trigger"), rows, runner)
    assert runner.tasks == [("encode_subscriptions", 4), ("place_share", 4), ("build_partition", 3)]
    runner.tasks.clear()
    ask(stream.store, stream.driver.state.manifest, "prefix", 2)
    stream.run(0, world.batch(5, 2, [1, 2, 3]))
    assert [name for name, _ in runner.tasks[:3]] == ["export_partition", "place_share", "build_partition"]
    assert made
    assert all(made)


def test_few_subscriptions_take_one_job(tmp_path):
    runner = WatchedRunner()
    ChangingStream(tmp_path, settings_of("trigger"), [World(1).subscription(1)], runner)
    assert runner.tasks == [("build_partition", 3)]


@pytest.mark.parametrize("plan", ["prefix", "trigger"])
def test_a_plan_learned_from_a_sample_knows_all_words(tmp_path, small_pieces, monkeypatch, plan):
    """Of 40 subscriptions some are learned from; their words and answers are complete."""
    monkeypatch.setattr(building, "LEARNED_FROM", 6)
    world = World(5)
    rows = [world.subscription(id_) | ({"query": f"u{id_}"} if id_ > 20 else {}) for id_ in range(1, 41)]
    seen = []
    monkeypatch.setattr(
        first_state, "learned_plan", lambda parts, *more: seen.extend(parts) or learned_plan(parts, *more)
    )
    stream = ChangingStream(tmp_path, settings_of(plan), rows)
    assert sum(len(part.number) for part in seen) < 20
    words = set(stream.driver.state.router.plan.words.words().to_pylist())
    assert {f"u{id_}" for id_ in range(21, 41)} <= words
    messages = [{"id": 100 + id_, "text": f"u{id_} w1", "x": 5.0, "y": 5.0} for id_ in range(21, 41)]
    stream.run(0, {"messages-a": messages})
    assert stream.delivered(0)


def test_pieces_carry_their_own_words_only(tmp_path, small_pieces, monkeypatch):
    """A partition does not learn the words of all others."""
    table = pa.table({"id": list(range(12)), "query": [f"v{at}" for at in range(12)]})
    state, _ = begun(tmp_path, table, settings_of("hash", 4, None))
    stored = [Store(str(tmp_path)).local(entry.snapshot) for entry in state.manifest.partitions]
    words = [Partition.open(at, state.settings, path).state.words.words().to_pylist() for at, path in enumerate(stored)]
    assert [sorted(each) for each in words] == [sorted(f"v{at}" for at in range(p, 12, 4)) for p in range(4)]


def test_files_are_prepared_without_the_driver_reading_their_rows(tmp_path, small_pieces):
    """Ids that repeat across files are refused by the number of the row among all."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for name, ids in (("a", [1, 2, 3]), ("b", [4, 2, 5])):
        lines = [json.dumps({"id": id_, "query": f"w{id_}", "kind": "within"}) for id_ in ids]
        (raw / f"{name}.jsonl").write_text("\n".join(lines))
    runner = WatchedRunner()
    about = prepare([raw], tmp_path / "out", settings_of("hash", 2, None), runner)
    assert ("encode_subscriptions", 2) in runner.tasks
    assert (about["subscriptions"], about["rejected"]) == (6, 1)
    (row,) = pq.read_table(tmp_path / "out" / "rejected.parquet").to_pylist()
    assert (row["row"], row["reason"]) == (4, "id 2 is taken by row 1; give each subscription its own")
