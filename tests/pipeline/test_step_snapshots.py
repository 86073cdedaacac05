"""Snapshots that partitions write in their steps: in turn, each once in so many batches, and exact from any of them."""

import os

import pytest

from faults.small_stream import SmallStream
from nearcast import Hub
from nearcast.errors import NearcastError
from nearcast.pipeline.driver import pipeline
from nearcast.pipeline.store.manifest import Manifests
from nearcast.pipeline.store.store import Store
from nearcast.pipeline.worker.tasks import forget_all
from support.file_stream import FileStream, as_rows
from support.streams import Oracle, World

BATCHES = 5


def started(stream, every=3):
    forget_all()
    driver = stream.started()
    driver.snapshot_every = every
    return driver


@pytest.mark.parametrize(
    ("plan", "options"),
    [("prefix", {}), ("trigger", {"window": None}), ("trigger", {"lifetime": "20s"})],
    ids=["window and copies", "boolean", "lifetime"],
)
def test_a_stream_that_starts_anew_with_every_batch_delivers_what_one_does_that_never_stops(tmp_path, plan, options):
    """Each partition goes on from its own snapshot, of another batch than the others'."""
    stream = SmallStream(tmp_path, plan=plan, partitions=3, batches=BATCHES, messages=5, **options)
    clean = stream.clean()
    for batch in range(BATCHES):
        driver = started(stream)
        stream.run(driver, batch)
        entries = driver.state.manifest.partitions
        if batch >= 3 and "window" not in options:  # without a window, batches of messages alone are not recorded
            assert {batch - 2, batch - 1, batch} == {entry.snapshot_batch for entry in entries}
            assert [batch - entry.snapshot_batch for entry in entries] == [len(entry.deltas) for entry in entries]
    assert stream.delivered() == clean


def test_partitions_that_ask_a_divided_window_go_on_from_their_snapshots(tmp_path):
    world, ids = World(4, kinds=("topk",)), list(range(1, 9))
    first = [world.subscription(id_) for id_ in ids]
    oracle = Oracle(Hub("plane", window=9))
    oracle.begin(first)
    stream = FileStream(tmp_path, first, partitions=2, parts=2, window=9)
    for batch in range(5):
        forget_all()
        stream.pipeline = stream.opened()
        assert stream.pipeline.resume()
        stream.pipeline.snapshot_every = 2
        files = world.batch(6, 2, ids)
        assert as_rows(oracle.run(files)) == stream.run(batch, files), f"batch {batch}"
    assert {3, 4} == {entry.snapshot_batch for entry in stream.pipeline.state.manifest.partitions}


def test_each_partition_has_its_turn_once_in_so_many_batches(tmp_path):
    stream = SmallStream(tmp_path, partitions=4, batches=8, messages=1, changes=0)
    driver = started(stream, every=4)
    turns = [set(driver.state.snapshot_turns(batch, 4)) for batch in range(8)]
    assert [{3}, {2}, {1}, {0}] * 2 == turns
    assert [{0, 1}, {2, 3}] == [set(driver.state.snapshot_turns(batch, 2)) for batch in (1, 0)]
    assert {0, 1, 2, 3} == set().union(*(driver.state.snapshot_turns(batch, 20) for batch in range(20)))
    reports = [driver.run(batch, stream.given[batch]) for batch in range(8)]
    assert [1] * 8 == [report.snapshots for report in reports]


def test_a_batch_that_was_not_committed_leaves_no_snapshot(tmp_path, monkeypatch):
    """A snapshot counts with the manifest that names it; another run of the batch writes another one."""
    stream = SmallStream(tmp_path, batches=3)
    clean = stream.clean()
    driver = started(stream, every=1)
    stream.run(driver, 0)

    def broken(*_):
        raise NearcastError("out of luck")

    monkeypatch.setattr(driver, "_commit", broken)
    with pytest.raises(NearcastError, match="out of luck"):
        driver.run(1, stream.given[1])
    assert 4 == len(driver.store.list("snapshots/0000000"))
    again = started(stream, every=1)
    named = {entry.snapshot for entry in again.state.manifest.partitions}
    assert named == set(again.store.list("snapshots/"))
    stream.run(again)
    assert stream.delivered() == clean
    last = Manifests(again.store).last()
    assert {2} == {entry.snapshot_batch for entry in last.partitions}
    assert {()} == {entry.deltas for entry in last.partitions}


def test_what_did_not_change_since_the_last_snapshot_is_linked(tmp_path, monkeypatch):
    """Files that hold the same bytes are one file on disk; it stays when the older snapshot goes."""
    monkeypatch.setattr(pipeline, "SWEEP_EVERY", 3)
    stream = SmallStream(tmp_path, partitions=1, batches=5, messages=2, changes=0)
    clean = stream.clean()
    driver = started(stream, every=1)
    stream.run(driver, 0)
    (first,) = driver.state.manifest.partitions
    stream.run(driver, 1)
    (second,) = driver.state.manifest.partitions
    older, newer = (stream.checkpoint / each.snapshot / "state" for each in (first, second))
    same = [path for path in newer.rglob("*.npy") if path.samefile(older / path.relative_to(newer))]
    assert any("segment-" in str(path) for path in same)
    assert not (newer / "state.json").samefile(older / "state.json")  # what time it is differs
    stream.run(driver)
    assert not older.exists()
    stream.run(started(stream))
    assert stream.delivered() == clean


def test_a_file_that_differs_is_not_linked(tmp_path):
    """However alike: here it has been damaged since, and keeps its size and its times."""
    store = Store(str(tmp_path))
    store.put_folder("a", lambda folder: [(folder / name).write_bytes(b"12345678") for name in "xyz"])
    before = (tmp_path / "a" / "x").stat()
    (tmp_path / "a" / "x").write_bytes(b"12345679")
    os.utime(tmp_path / "a" / "x", ns=(before.st_atime_ns, before.st_mtime_ns))
    store.put_folder("b", lambda folder: [(folder / name).write_bytes(b"12345678") for name in "xyw"], like="a")
    links = {name: (tmp_path / "b" / name).stat().st_nlink for name in "xyw"}
    assert {"x": 1, "y": 2, "w": 1} == links
    assert store.problem("b") is None
    assert b"12345678" == (store.local("b", verify=True) / "x").read_bytes()
    store.put_folder("c", lambda folder: (folder / "x").write_bytes(b"1"), like="gone")
    assert ["a", "b", "c"] == store.list()
