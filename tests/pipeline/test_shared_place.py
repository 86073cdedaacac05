"""On a network file system what is mapped is a copy of this host, which nobody else deletes."""

import mmap
import os
import threading

import pytest

from nearcast.errors import IncompatibleStore
from nearcast.pipeline.store import places, shared_place
from nearcast.pipeline.store.host_cache import HostCache
from nearcast.pipeline.store.shared_place import SharedPlace, is_on_network
from nearcast.pipeline.store.store import Store
from support.waiting import join

MOUNTS = r"""
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
35 21 0:41 / /data rw,relatime shared:15 - nfs4 server:/export rw,vers=4.2
36 35 8:2 / /data/local rw - xfs /dev/sdb rw
37 21 0:42 / /my\040share rw - cifs //server/share rw
38 21 0:43 / /scratch rw - tmpfs tmpfs rw
39 21 0:44 / /gcs rw - fuse.gcsfuse bucket rw
40 21 0:45 / /container rw - fuse.fuse-overlayfs fuse-overlayfs rw
"""


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store on a file system that says it is NFS."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"35 21 0:41 / {tmp_path} rw - nfs4 server:/export rw\n")
    monkeypatch.setattr(shared_place, "_MOUNTS", mounts)
    return Store(tmp_path / "store", cache=str(tmp_path / "cache"))


def write(path):
    (path / "index").mkdir()
    (path / "index" / "words").write_bytes(b"x" * 10_000)


def test_the_type_of_a_mount_decides(tmp_path, monkeypatch):
    """The deepest mount above a path counts; names with spaces and paths that are not there yet do, too."""
    (tmp_path / "mountinfo").write_text(MOUNTS.lstrip())
    monkeypatch.setattr(shared_place, "_MOUNTS", tmp_path / "mountinfo")
    given = ["/home", "/data", "/data/K/nearcast", "/database", "/data/local/K", "/my share/K", "/scratch/K", "/gcs/K"]
    assert not is_on_network("/container/K")
    assert [False, True, True, False, False, True, False, True] == [is_on_network(path) for path in given]
    assert isinstance(places.open_place("/data/K"), SharedPlace)
    monkeypatch.setattr(shared_place, "_MOUNTS", tmp_path / "absent")
    assert not is_on_network("/data")


def test_a_snapshot_that_another_host_deletes_stays_mapped(store, tmp_path):
    """What is mapped survives that the file is cut off and deleted; mapped in place, reading it would kill us."""
    name = store.unique("snapshots", 1, 0)
    store.put_folder(name, write)
    found = store.local(name)
    assert found.is_relative_to(tmp_path / "cache")
    with (found / "index" / "words").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    original = tmp_path / "store" / name / "index" / "words"
    os.truncate(original, 0)
    store.delete([name])
    assert b"x" * 10_000 == mapped[:]


def test_copies_are_made_once_and_follow_the_content(store, tmp_path):
    """The same file is copied once, another version again; a copy that was damaged is made anew."""
    name = store.put_summed("deltas/a.bin", lambda path: path.write_bytes(b"one")).name
    first = store.local(name)
    inode = first.stat().st_ino
    assert inode == store.local(name).stat().st_ino
    first.write_bytes(b"two")
    assert b"one" == store.local(name).read_bytes()
    store.put("b", lambda path: path.write_bytes(b"1"))
    assert b"1" == store.local("b").read_bytes()
    store.put("b", lambda path: path.write_bytes(b"22"))
    assert b"22" == store.local("b").read_bytes()
    with pytest.raises(IncompatibleStore, match="is missing"):
        store.local("c")


def test_many_workers_of_a_host_take_old_copies_away(tmp_path):
    """What one has removed is no failure of another, and no file of the store that is missing."""
    for n in range(1000):
        (tmp_path / str(n)).mkdir()
        os.utime(tmp_path / str(n), (1, 1))
    together, made, failed = threading.Barrier(8), [], []

    def copy(n):
        together.wait()
        try:
            made.append(HostCache(str(tmp_path)).copy_of(f"{n}/file", b"", lambda path: path.write_bytes(b"1")))
        except OSError as error:
            failed.append(error)

    workers = [threading.Thread(target=copy, args=(n,)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        join(worker)
    assert [] == failed
    assert sorted(made) == sorted(tmp_path.glob("*/file"))
    assert 8 == len(list(tmp_path.iterdir()))


def test_a_copy_in_use_is_not_taken_away(tmp_path):
    """One that was asked for within the hour stays; another goes, whole."""
    cache = HostCache(str(tmp_path))
    used, unused = (cache.copy_of(f"{name}/file", b"", lambda path: path.write_bytes(b"1")) for name in "ab")
    for path in (used, unused):
        os.utime(path.parent, (1, 1))
    assert used == cache.copy_of("a/file", b"", None)
    cache.copy_of("c/file", b"", lambda path: path.write_bytes(b"1"))
    assert used.exists()
    assert not unused.parent.exists()


def test_a_folder_that_is_not_complete(store, tmp_path):
    """It is told as on any other path."""
    (tmp_path / "store" / "snapshots" / "x").mkdir(parents=True)
    with pytest.raises(IncompatibleStore, match=r"_contents\.json is missing|is missing"):
        store.local("snapshots/x")
