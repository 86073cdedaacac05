"""What a manifest names is on disk before it: contents, entries of folders, and links into older snapshots."""

import pytest

from faults.small_stream import SmallStream
from nearcast import _saved
from nearcast.pipeline.driver.rebalance import ask
from nearcast.pipeline.store import local_place, places
from nearcast.pipeline.store.local_place import LocalPlace
from nearcast.pipeline.worker.tasks import forget_all


class Disk:
    """Knows which files were synced, and which entries of folders: all that a power cut leaves."""

    def __init__(self, monkeypatch, root):
        self.root, self.files, self.folders, self.lost = root, set(), {}, []
        self.manifests, self.linked = 0, 0
        self._sync = _saved.sync
        for module in (_saved, local_place):
            monkeypatch.setattr(module, "sync", self.sync)
        create = LocalPlace.create

        def checked(place, name, data):
            if name.startswith("manifests/"):
                self.check(data.decode())
            return create(place, name, data)

        monkeypatch.setattr(LocalPlace, "create", checked)

    def sync(self, path):
        """Sync a file or the entries of a folder."""
        inode = path.stat().st_ino
        if path.is_dir():
            self.folders[inode] = {each.name for each in path.iterdir()}
        else:
            self.files.add(inode)
        self._sync(path)

    def check(self, manifest):
        """Note what a manifest that is about to be written names, and a power cut would take."""
        named = [path for path in self.root.glob("*/*") if f'"{path.relative_to(self.root)}"' in manifest]
        for path in named:
            self._entry(path)
            for inner in path.rglob("*"):
                self._entry(inner)
                self.linked += inner.is_file() and inner.stat().st_nlink > 1
        self.manifests += bool(named)

    def _entry(self, path):
        about = path.stat()
        is_there = path.name in self.folders.get(path.parent.stat().st_ino, ())
        has_content = path.is_dir() or about.st_ino in self.files
        if not (is_there and has_content):
            self.lost.append(path.relative_to(self.root))


@pytest.mark.parametrize("is_shared", [False, True], ids=["local", "shared"])
def test_a_power_cut_after_a_commit_takes_nothing_that_it_names(tmp_path, monkeypatch, is_shared):
    """Snapshots of steps, with links to the ones before, those of the driver's tables, and partitions built anew."""
    monkeypatch.setattr(places, "is_on_network", lambda _: is_shared)
    forget_all()
    stream = SmallStream(tmp_path, plan="prefix", partitions=2, batches=5, messages=4)
    disk = Disk(monkeypatch, stream.checkpoint)
    driver = stream.started()
    for batch in range(5):
        driver.snapshot_every = 2
        if batch == 3:
            driver.take_snapshots(driver.snapshots_to_write()())
        if batch == 4:
            ask(driver.store, driver.state.manifest, None, 3)
        stream.run(driver, batch)
    assert [] == disk.lost
    assert disk.manifests == 6
    assert disk.linked
