"""Prepared stores and checkpoints carry checksums: damage is found before it is read, and named."""

import json
import os
import random
import re
import shutil
from pathlib import Path

import pytest

from nearcast.errors import IncompatibleStore
from nearcast.geo import Space
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.preparation.prepared_store import about_prepared, prepare
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import sink_of
from nearcast.pipeline.store.manifest import Manifests
from nearcast.pipeline.store.store import Store
from nearcast.pipeline.worker.tasks import forget_all
from nearcast.window import Window
from support.saved_damage import HARM, harmed
from support.streams import World

SETTINGS = PipelineSettings(Space.plane(), window=Window.of(9), partitions=2, plan="trigger")


def pipeline_of(folder):
    """Return a stream in a folder as a new process would have it."""
    from nearcast.pipeline.batch import inputs
    from nearcast.pipeline.batch import router as router_module

    forget_all()
    inputs._kept._stores.clear()
    router_module._opened._stores.clear()
    store = Store(str(folder / "K"))
    return Pipeline(store, SETTINGS, LocalRunner(), sink_of(str(folder / "out"), store))


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def run(pipeline, folder, world, batch):
    """Take a batch of messages and changes in."""
    messages = written(folder / f"m{batch}.jsonl", [world.message() for _ in range(6)])
    new = written(folder / f"c{batch}.jsonl", [{"op": "subscribe", **world.subscription(f"new{batch}")}])
    pipeline.run(batch, [BatchSource("messages", "messages", messages), BatchSource("changes", "changes", new)])


@pytest.fixture
def prepared(tmp_path):
    """A prepared store."""
    world = World(5, with_times=False)
    raw = tmp_path / "raw"
    raw.mkdir()
    written(raw / "people.jsonl", [world.subscription(f"s{i}") for i in range(12)])
    written(raw / "posts.jsonl", [world.message() for _ in range(6)])
    prepare([raw], tmp_path / "store", SETTINGS, LocalRunner())
    return tmp_path / "store"


@pytest.fixture
def checkpoint(prepared, tmp_path):
    """A folder with a stream of two batches, a snapshot among them, that was stopped."""
    world = World(6, with_times=False)
    pipeline = pipeline_of(tmp_path)
    pipeline.begin_from(str(prepared / "nearcast"))
    pipeline.snapshot_every = 1
    run(pipeline, tmp_path, world, 0)
    pipeline.snapshot_every = None
    pipeline.take_snapshots(pipeline.snapshots_to_write()())
    run(pipeline, tmp_path, world, 1)
    run(pipeline, tmp_path, world, 2)
    return tmp_path


def needed_by_the_last_batch(checkpoint):
    """Return all files that a restart reads: the newest segments, beside those since the snapshot, only rebalancing."""
    manifests = Manifests(Store(str(checkpoint / "K")))
    last = manifests.last()
    read = {name for files in last.batches for name in files.segments}
    unread = set(last.recent) - read
    state = [name for name in manifests.files_in_use(last) if not name.startswith("_") and name not in unread]
    paths = [checkpoint / "K" / name for name in [*state, f"manifests/{last.batch:08d}.json"]]
    found = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    return sorted(file for file in found if "out" not in file.parts)


def one_of_each(files, folder):
    """Return files of different names, numbers and digests apart: those of a second partition are checked alike."""
    return list({re.sub(r"[0-9a-f]{8,}|\d+", "#", str(path.relative_to(folder))): path for path in files}.values())


def opened(checkpoint):
    """Begin where the stream stopped, and open the state of every partition as the next batch would."""
    from nearcast.pipeline.batch.router import router_of
    from nearcast.pipeline.worker.tasks import _state_of

    pipeline = pipeline_of(checkpoint)
    pipeline.resume()
    router = router_of(pipeline.state.plan_ref)
    for number in range(len(pipeline.state.manifest.partitions)):
        _state_of(pipeline.state.partition_ref(number), router)


def test_damage_to_any_file_of_a_checkpoint_is_named(checkpoint):
    """Whatever file a restart needs, damage to it is refused with its name, pickles before they are unpickled."""
    rng, wrong = random.Random(1), {}
    files = one_of_each(needed_by_the_last_batch(checkpoint), checkpoint)
    assert {".pickle", ".arrow", ".json", ".npy", ".npz"} <= {path.suffix for path in files}
    for n, path in enumerate(files):
        whole = path.read_bytes()
        path.write_bytes(harmed(whole, HARM[n % 3], rng.randrange(len(whole))))
        try:
            opened(checkpoint)
            wrong[str(path)] = "opened"
        except IncompatibleStore as error:
            if path.name not in str(error) or "\n" in str(error):
                wrong[str(path)] = str(error)
        path.write_bytes(whole)
    assert {} == wrong
    opened(checkpoint)


def test_damage_to_any_file_of_a_prepared_store_is_named(prepared, tmp_path):
    """Files of its own are found by their list, those a stream begins with when it copies them."""
    rng, wrong = random.Random(1), {}
    files = sorted(path for path in prepared.rglob("*") if path.is_file())
    for n, path in enumerate(one_of_each(files, prepared)):
        whole = path.read_bytes()
        path.write_bytes(harmed(whole, HARM[n % 3], rng.randrange(len(whole))))
        (tmp_path / f"{n}").mkdir()
        try:
            about_prepared(prepared)
            pipeline_of(tmp_path / f"{n}").begin_from(str(prepared / "nearcast"))
            wrong[str(path)] = "begun"
        except IncompatibleStore as error:
            if path.name not in str(error) or "\n" in str(error):
                wrong[str(path)] = str(error)
        path.write_bytes(whole)
    assert {} == wrong
    assert about_prepared(prepared)["subscriptions"] == 12


def test_a_stream_goes_on_from_a_whole_checkpoint(checkpoint):
    """Checksums are of what was written: nothing is refused that is as it was left."""
    pipeline = pipeline_of(checkpoint)
    assert pipeline.resume()
    run(pipeline, checkpoint, World(7, with_times=False), 3)
    assert 3 == pipeline.state.manifest.batch


def test_a_batch_that_fails_changes_nothing_in_the_manifest_before_it(prepared, tmp_path, monkeypatch):
    """A manifest is a value: a batch under way makes another one, and one that fails leaves none."""
    pipeline = pipeline_of(tmp_path)
    pipeline.begin_from(str(prepared / "nearcast"))
    manifest = pipeline.state.manifest
    before = manifest.to_bytes()
    monkeypatch.setattr(Pipeline, "_commit", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
    with pytest.raises(OSError, match="the disk is full"):
        run(pipeline, tmp_path, World(8, with_times=False), 0)
    assert before == manifest.to_bytes()
    assert [-1] == pipeline.manifests.batches()


def test_files_are_on_disk_before_the_manifest_names_them(prepared, tmp_path, monkeypatch):
    """Whatever a manifest names was synced, with the folder it lies in, before the manifest was put in place."""
    calls = []
    sync, link = os.fsync, os.link

    def recorded_sync(descriptor):
        calls.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync(descriptor)

    def recorded_link(old, new):
        calls.append(f"link {new}")
        link(old, new)

    monkeypatch.setattr(os, "fsync", recorded_sync)
    monkeypatch.setattr(os, "link", recorded_link)
    pipeline = pipeline_of(tmp_path)
    pipeline.begin_from(str(prepared / "nearcast"))
    del calls[:]
    run(pipeline, tmp_path, World(8, with_times=False), 0)

    at = calls.index(f"link {tmp_path / 'K' / 'manifests' / '00000000.json'}")
    deltas = [each for entry in pipeline.state.manifest.partitions for each in entry.deltas]
    assert deltas
    for name in [*deltas, *pipeline.state.history[-1].segments]:
        path = tmp_path / "K" / name
        hidden = [n for n, call in enumerate(calls[:at]) if Path(call).parent == path.parent]
        assert hidden, f"{name} was not synced before the manifest"
        assert str(path.parent) in calls[hidden[0] : at]
    assert str(tmp_path / "K" / "manifests") in calls[at:]


def test_a_damaged_download_is_fetched_again(tmp_path):
    """What was downloaded from a remote place and damaged since is not taken for damage of the place."""
    pytest.importorskip("fsspec")
    store = Store(f"memory://saved-{os.getpid()}", cache=str(tmp_path / "cache"))
    name = store.put_summed("deltas/00000001-1f2e3d4c.bin", lambda path: path.write_bytes(b"content")).name
    store.put_folder("snapshots/00000001-1f2e3d4c", lambda path: (path / "a.npy").write_bytes(b"content"))
    for path in (store.local(name), store.local("snapshots/00000001-1f2e3d4c") / "a.npy"):
        path.write_bytes(b"CONTENT")
    assert b"content" == store.local(name).read_bytes()
    assert b"content" == (store.local("snapshots/00000001-1f2e3d4c") / "a.npy").read_bytes()
    store.put(name, lambda path: path.write_bytes(b"CONTENT"))
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(IncompatibleStore, match=rf"{name} is damaged"):
        store.local(name)
    with pytest.raises(IncompatibleStore, match=rf"{name} is damaged"):
        store.read_bytes(name)
