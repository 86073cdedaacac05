"""One window for all workers of a host: the deliveries are those of a hub, whoever wrote what they search."""

import pickle
import random
from dataclasses import replace

import pytest
from test_pipeline import Stream, as_rows, in_order, random_words

from nearcast import Hub
from nearcast.geo import Space
from nearcast.pipeline.driver.rebalance import ask
from nearcast.pipeline.host_window import arena, host_window
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.worker.tasks import forget_all
from nearcast.topk.window.blocks import BlockIndex
from nearcast.window import Window
from support.streams import Oracle, World, moment


@pytest.fixture(autouse=True)
def host(tmp_path, monkeypatch):
    """A host of its own for each test, on which segments are made of few messages."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(BlockIndex, "TAIL", 4)
    monkeypatch.setattr(BlockIndex, "MOST", 32)
    forget_all()
    yield tmp_path
    forget_all()


def settings_of(plan, partitions, window, *, earth=False, index="trigger"):
    space = Space.earth() if earth else Space.plane()
    window = Window.of(window)
    return PipelineSettings(
        space, plan=plan, partitions=partitions, window=window, window_parts=1, window_by_host=True, index=index
    )


def check(
    tmp_path,
    seed,
    plan="trigger",
    partitions=3,
    window=9,
    kinds=("within", "similar", "topk"),
    *,
    forget=0.3,
    restart=0.2,
    snapshot=0.3,
    reweigh=0.0,
    rebalance=0.0,
    batches=6,
    index="trigger",
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
    stream = Stream(tmp_path, settings_of(plan, partitions, window, earth=earth, index=index), first)
    runner = runner or LocalRunner()
    stream.pipeline.runner = runner
    for batch in range(batches):
        files = world.batch(rng.randint(0, size), rng.choice([0, 0, 2, 5]), ids)
        told = []
        if rng.random() < reweigh:
            words = random_words(rng)
            stream.pipeline.use_vocabulary(words)
            told = list(oracle.hub.use_vocabulary(words))
        expected = as_rows(oracle.run(files, told))
        if rng.random() < forget:
            forget_all()
        if rng.random() < restart:
            stream.settings = replace(stream.settings, partitions=stream.pipeline.settings.partitions)
            stream.pipeline = stream.opened()
            stream.pipeline.runner = runner
            assert stream.pipeline.resume()
        if rng.random() < rebalance:
            ask(stream.pipeline.store, stream.pipeline.state.manifest, None, rng.choice([1, 2, 3]))
        stream.pipeline.snapshot_every = rng.choice([None, 1, 2])
        _, tables = stream.run(batch, files)
        assert sorted(in_order(tables), key=str) == sorted(expected, key=str), f"batch {batch}"
        if rng.random() < snapshot:
            stream.pipeline.take_snapshots(stream.pipeline.snapshots_to_write()())
    return stream


@pytest.mark.parametrize(("plan", "partitions", "window"), [("hash", 1, 9), ("prefix", 3, "5s"), ("trigger", 2, 40)])
def test_a_shared_window_delivers_what_a_hub_does(tmp_path, plan, partitions, window):
    check(tmp_path, len(plan) * 31 + partitions * 7 + len(str(window)), plan, partitions, window, size=20)


@pytest.fixture
def written(monkeypatch):
    """Count what arenas do."""
    counts = dict.fromkeys(("_appended", "_compacted", "_rebuilt"), 0)

    def counted(name, real):
        def call(self, *given):
            counts[name] += 1
            return real(self, *given)

        return call

    for name in counts:
        monkeypatch.setattr(arena.Arena, name, counted(name, getattr(arena.Arena, name)))
    return counts


@pytest.mark.parametrize(("plan", "window"), [("trigger", 12), ("prefix", "6s")])
def test_vocabularies_and_rebalances_change_no_answer(tmp_path, plan, window):
    check(tmp_path, 5, plan, 2, window, ("topk",), reweigh=0.4, rebalance=0.4, size=15)


@pytest.mark.parametrize("buffer", ["kmax,kmax=2", "skyband"])
def test_every_buffer_searches_it(tmp_path, buffer, written):
    index = f"trigger:buffer={buffer}"
    check(tmp_path, 7, "trigger", 2, 40, ("topk",), index=index, batches=5, size=40, forget=0.0, restart=0.0)
    assert written["_rebuilt"] == 1, "a window that is there is appended to"
    assert written["_appended"] >= 1


@pytest.mark.parametrize(
    ("limit", "spare", "happens", "batches"),
    [("_SPARE_BYTES", 0, "_compacted", 14), ("SPARE_WORDS", -1000, "_rebuilt", 6)],
)
def test_waste_and_words_of_old_messages_go_with_their_generation(
    tmp_path, monkeypatch, written, limit, spare, happens, batches
):
    monkeypatch.setattr(arena, limit, spare)
    check(tmp_path, 8, "trigger", 2, 15, ("topk",), batches=batches, size=15, snapshot=0.1)
    assert written[happens] > 1


class NewProcesses:
    """Runs every task as a process would that has seen nothing before."""

    def map(self, task, payloads, *, claims=None, prefer=None):
        results = []
        for payload in payloads:
            forget_all()
            results.append(pickle.loads(pickle.dumps(task(pickle.loads(pickle.dumps(payload))))))
        return results


def test_a_new_process_finds_what_others_wrote(tmp_path, written):
    check(tmp_path, 21, "trigger", 3, 30, ("topk",), size=25, batches=4, restart=0.0, runner=NewProcesses())
    assert written["_rebuilt"] == 1


@pytest.mark.parametrize("window", [6, "6s", "3s"])
def test_a_subscription_before_any_message_sees_what_still_counts_then(tmp_path, window):
    """Between any two messages one comes that wants all of the window: no row goes too early, none stays too long."""
    oracle = Oracle(Hub("plane", window=window))
    oracle.begin([])
    stream = Stream(tmp_path, settings_of("trigger", 2, window), [])
    for batch, n in enumerate([5, 1, 4, 9, 0, 3]):
        at = range(10 * batch, 10 * batch + n) if batch % 2 else range(10 * batch - 5, 10 * batch - 5 + n)
        place = {"x": 0.0, "y": 0.0}
        files = {
            "changes-a": [
                {"op": "subscribe", "id": i, "kind": "topk", "query": "tea", "k": 20, "time": moment(i // 2)}
                | place
                | {"max_distance": 5.0}
                for i in [*at, 10 * batch + 20]
            ],
            "messages-a": [{"id": i, "text": f"tea w{i % 3}", "time": moment(i // 2)} | place for i in at],
        }
        files = {name: rows for name, rows in files.items() if rows}
        expected = as_rows(oracle.run(files))
        _, tables = stream.run(batch, files)
        assert sorted(in_order(tables), key=str) == sorted(expected, key=str), f"batch {batch}"


def test_a_replay_needs_no_window(tmp_path, monkeypatch):
    """What searches found is in the deltas: a worker that lacks a partition asks for the batch under way alone."""
    asked, real = [], host_window.view_of
    monkeypatch.setattr(host_window, "view_of", lambda ref, files=None: asked.append(files.batch) or real(ref, files))
    world = World(4, kinds=("topk",))
    first = [world.subscription(id_) for id_ in range(1, 9)]
    oracle = Oracle(Hub("plane", window=20))
    oracle.begin(first)
    stream = Stream(tmp_path, settings_of("trigger", 2, 20), first)
    for batch in range(4):
        files = world.batch(15, 4, [*range(1, 13)])
        expected = as_rows(oracle.run(files))
        forget_all()
        asked.clear()
        _, tables = stream.run(batch, files)
        assert sorted(in_order(tables), key=str) == sorted(expected, key=str)
        assert {batch} == set(asked)
    assert all(len(entry.deltas) == 4 for entry in stream.pipeline.state.manifest.partitions)
