"""Directory and routes are saved by a task from files, beside the batches."""

import random
import sys

from nearcast.geo import Space
from nearcast.pipeline.batch.router import Router
from nearcast.pipeline.driver.directory import Directory
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.window import Window
from support.changing_streams import ChangingStream, described_ids, mixed_changes
from support.streams import World

IDS = list(range(1, 400))


class WatchedRunner(LocalRunner):
    """Knows whether a task is running."""

    is_running = False

    def map(self, task, payloads, **more):
        self.is_running = True
        try:
            return super().map(task, payloads, **more)
        finally:
            self.is_running = False


class Run:
    """A stream with changes in every batch."""

    def __init__(self, folder, plan):
        self.world = World(len(plan))
        settings = PipelineSettings(Space.plane(), plan=plan, partitions=3, window=Window.of(9))
        self.stream = ChangingStream(folder, settings, [self.world.subscription(id_) for id_ in range(1, 9)])
        self.stream.driver.runner = WatchedRunner()
        self.once, self.often, self.batch = IDS[20:], IDS[:6], 0
        random.Random(1).shuffle(self.once)

    def go_on(self, batches):
        for _ in range(batches):
            changes = mixed_changes(self.world, 12, self.once, self.often)
            self.stream.run(self.batch, self.world.batch(6, 0, self.often) | {"changes-a": changes})
            self.batch += 1


def test_they_are_as_they_were_when_the_snapshot_was_named(tmp_path, monkeypatch):
    """However far the stream has come meanwhile; the driver itself writes nothing of it."""
    run = Run(tmp_path, "prefix")
    run.go_on(3)
    driver, store = run.stream.driver, run.stream.store
    saves = []
    for kind in (Directory, Router):
        monkeypatch.setattr(kind, "save", noting(kind.save, saves, driver.runner))
    files, known = store.list(), described_ids(driver.state.directory, IDS)
    numbers = driver.state.directory.next_number
    write = driver.snapshots_to_write()
    assert store.list() == files
    run.go_on(2)
    snapshots = write()
    assert saves == [("Directory", True), ("Router", True)]
    directory = Directory.open(store.local(snapshots.directory))
    assert described_ids(directory, IDS) == known
    assert directory.next_number == numbers
    assert driver.take_snapshots(snapshots)
    run.go_on(1)
    assert driver.state.manifest.directory == snapshots.directory
    known = described_ids(driver.state.directory, IDS)
    run.stream.restart()
    assert described_ids(run.stream.driver.state.directory, IDS) == known
    run.go_on(2)


def noting(save, saves, runner):
    def noted(self, folder):
        saves.append((type(self).__name__, runner.is_running))
        save(self, folder)

    return noted


def test_changes_since_are_replayed_in_columns(tmp_path):
    """A restart makes as many calls for a batch of many changes as for one of few."""

    def calls(n, folder):
        settings = PipelineSettings(Space.plane(), plan="hash", partitions=1)
        stream = ChangingStream(folder, settings, [{"id": id_, "query": "w1"} for id_ in range(n)])
        changes = [{"op": "unsubscribe", "id": id_} for id_ in range(0, n, 3)]
        changes += [{"op": "subscribe", "id": id_, "query": "w2"} for id_ in range(1, n, 3)]
        changes += [{"op": "subscribe", "id": n + id_, "query": "w2"} for id_ in range(n)]
        stream.run(0, {"changes-a": changes})
        counted = []

        def count(frame, event, _):
            if event == "call" and frame.f_code.co_filename.endswith("directory.py"):
                counted.append(frame.f_code.co_name)

        sys.setprofile(count)
        try:
            stream.restart()
        finally:
            sys.setprofile(None)
        assert len(stream.driver.state.directory) == 2 * n - (n + 2) // 3
        return counted

    for name in ("few", "many"):
        (tmp_path / name).mkdir()
    assert calls(200, tmp_path / "many") == calls(20, tmp_path / "few")
