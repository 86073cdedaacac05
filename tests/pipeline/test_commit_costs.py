"""What a commit asks of the disk: every folder synced once, behind the last file in it; no listing of the store."""

from pathlib import Path

import pytest

from faults.small_stream import SmallStream
from nearcast.pipeline.store import local_place
from nearcast.pipeline.store.local_place import LocalPlace
from nearcast.pipeline.store.shared_place import SharedPlace
from nearcast.pipeline.store.store import Store


class DiskLog:
    """Notes in order which files are put, which folders are synced, and which manifests are created."""

    def __init__(self, monkeypatch):
        self.events = []
        put, put_folder, create, sync = LocalPlace.put, LocalPlace.put_folder, LocalPlace.create, local_place.sync

        def noted_put(place, name, write, **more):
            entry = put(place, name, write, **more)
            self.events.append(("put", place.root / entry.name))
            return entry

        def noted_put_folder(place, name, write, **more):
            size = put_folder(place, name, write, **more)
            self.events.append(("put", place.root / name))
            return size

        def noted_create(place, name, data):
            self.events.append(("create", place.root / name))
            return create(place, name, data)

        def noted_sync(path):
            if path.is_dir():
                self.events.append(("sync", path))
            sync(path)

        monkeypatch.setattr(LocalPlace, "put", noted_put)
        monkeypatch.setattr(LocalPlace, "put_folder", noted_put_folder)
        monkeypatch.setattr(LocalPlace, "create", noted_create)
        monkeypatch.setattr(local_place, "sync", noted_sync)

    def at(self, kind, path):
        return [at for at, event in enumerate(self.events) if event == (kind, path)]


@pytest.fixture
def committed(tmp_path, monkeypatch):
    """Return the log of one batch in four partitions, and its manifest."""
    stream = SmallStream(tmp_path, partitions=4, batches=2, messages=12)
    driver = stream.started()
    stream.run(driver, 0)
    log = DiskLog(monkeypatch)
    monkeypatch.setattr(Store, "sizes", listing_refused(Store.sizes))
    stream.run(driver, 1)
    return log, driver.state.manifest, stream


def listing_refused(sizes):
    def listed(store, prefix="", **more):
        assert prefix, "all of the store is listed"
        return sizes(store, prefix, **more)

    return listed


def test_a_commit_syncs_each_folder_once_and_behind_its_files(committed):
    """A power cut after the manifest finds all that it names; nothing is synced twice before it."""
    log, manifest, stream = committed
    (end,) = log.at("create", stream.checkpoint / "manifests/00000001.json")
    named = [stream.checkpoint / name for name in manifest.sizes if "/00000001-" in name]
    named += [stream.out / each["staged"] for each in manifest.outputs if not each.get("is_rejected")]
    assert {"segments", "sequences", "changes", "deltas", "_staging"} <= {path.parent.name for path in named}
    assert 4 == sum(path.parent.name == "deltas" for path in named)
    for folder in {path.parent for path in named}:
        puts = [at for path in named if path.parent == folder for at in log.at("put", path)]
        (synced,) = [at for at in log.at("sync", folder) if at < end]
        assert max(puts) < synced < end


def test_sizes_in_a_manifest_are_those_of_the_files(committed):
    """Of files of earlier batches as well, which a commit does not look at again."""
    _, manifest, stream = committed
    root = Path(stream.checkpoint)
    assert any("/00000000-" in name for name in manifest.sizes)
    for name, size in manifest.sizes.items():
        path = root / name
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        assert size == sum(each.stat().st_size for each in files if each.name != local_place.CONTENTS), name


def test_what_other_hosts_put_they_settle_themselves(tmp_path, monkeypatch):
    """On a network file system a sync by the driver says nothing about the names that a worker elsewhere has put."""
    log = DiskLog(monkeypatch)
    for root, place in (("here", LocalPlace), ("shared", lambda path: SharedPlace(path, None))):
        (tmp_path / root / "deltas").mkdir(parents=True)
        place(str(tmp_path / root)).put("deltas/00000001-e1-0000abcd.npy", lambda path: path.touch(), settled=False)
    assert [("sync", tmp_path / "shared" / "deltas")] == [each for each in log.events if each[0] == "sync"]


@pytest.mark.parametrize("kind", ["path", "elsewhere"])
def test_sizes_of_some_names_are_those_that_a_listing_tells(tmp_path, kind):
    """Of files and complete folders; what is not there is left out."""
    store = Store(str(tmp_path / "here") if kind == "path" else f"memory://{tmp_path.name}/there")
    for name in ("deltas/00000001-e1-0000abcd.npy", "deltas/00000002-e1-0000abcd.npy", "segments/a.arrow"):
        store.put(name, lambda path: path.write_bytes(b"12345"))
    store.put_folder("snapshots/00000001-e1-0000abcd", lambda path: (path / "one").write_bytes(b"123"))
    names = ["deltas/00000002-e1-0000abcd.npy", "deltas/gone", "segments/a.arrow", "snapshots/00000001-e1-0000abcd"]
    listed = store.sizes()
    assert {name: listed[name] for name in names if name in listed} == store.sizes_of(names)
    assert [5, 5, 3] == [*store.sizes_of(names).values()]
    assert {} == store.sizes_of([])
    store.settle(["deltas/00000002-e1-0000abcd.npy"])
