"""A durable hub with relaxed durability: what is synced, what a kill leaves, what a torn log leaves."""

import shutil

import apsw
import pytest

from nearcast import Circle, Within
from nearcast.durable import DurableHub
from nearcast.errors import IncompatibleStore, InvalidInput
from support.hub_calls import contents_of


def message(number):
    return {"id": number, "text": "tea", "x": 0.0, "y": 0.0}


class CountingDisk(apsw.VFS):
    """The file system of SQLite, with its syncs counted."""

    def __init__(self):
        super().__init__("counting", "unix", makedefault=True)
        self.n_syncs = 0

    def xOpen(self, name, flags):  # noqa: N802  SQLite's name
        return CountingFile(self, name, flags)


class CountingFile(apsw.VFSFile):
    def __init__(self, disk, name, flags):
        super().__init__("unix", name, flags)
        self.disk = disk

    def xSync(self, flags):  # noqa: N802
        self.disk.n_syncs += 1
        super().xSync(flags)


@pytest.fixture
def disk():
    counting = CountingDisk()
    yield counting
    counting.unregister()


def test_calls_do_not_wait_for_the_disk_and_snapshots_do(disk, tmp_path):
    """A snapshot may not know more than a power cut leaves of the log."""
    with DurableHub(tmp_path / "hub", "plane", durability="relaxed") as hub:
        hub.subscribe(Within("a", "tea"))
        before = disk.n_syncs
        for number in range(5):
            hub.publish(message(number))
        assert before == disk.n_syncs
        hub.snapshot()
        assert disk.n_syncs > before


def test_a_kill_takes_nothing_and_a_power_cut_the_end(tmp_path):
    """Whichever part of the WAL never reached the disk, what is left are the calls before it."""
    with DurableHub(tmp_path / "hub", "plane", durability="relaxed") as hub:
        hub.subscribe(Within("a", "tea", Circle(0, 0, 5)))
        for number in range(6):
            hub.publish(message(number))
        shutil.copytree(tmp_path / "hub", tmp_path / "killed", ignore=shutil.ignore_patterns("lock"))
        expected = contents_of(hub)
    wal = (tmp_path / "killed" / "log.db-wal").read_bytes()
    shutil.copytree(tmp_path / "killed", tmp_path / "cut")
    with DurableHub.open(tmp_path / "killed") as again:
        assert expected == contents_of(again)

    middle = len(wal) // 2
    (tmp_path / "cut" / "log.db-wal").write_bytes(wal[:middle] + bytes(4096) + wal[middle + 4096 :])
    with DurableHub.open(tmp_path / "cut") as again:
        n_left = again.stats()["published"]
        assert 0 < n_left < 6
        again.publish(message(99))
    with DurableHub.open(tmp_path / "cut") as again:
        assert n_left + 1 == again.stats()["published"]


def test_a_damaged_header_is_refused_all_the_same(tmp_path):
    """It is synced before any frame is written."""
    with DurableHub(tmp_path / "hub", "plane", durability="relaxed") as hub:
        hub.publish(message(1))
        shutil.copytree(tmp_path / "hub", tmp_path / "cut", ignore=shutil.ignore_patterns("lock"))
    wal = (tmp_path / "cut" / "log.db-wal").read_bytes()
    (tmp_path / "cut" / "log.db-wal").write_bytes(bytes(32) + wal[32:])
    with pytest.raises(IncompatibleStore, match=r"log\.db-wal is damaged"):
        DurableHub.open(tmp_path / "cut")


def test_it_is_an_option_of_the_folder(tmp_path):
    """The log must be read by the rules it was written by."""
    DurableHub(tmp_path / "hub", "plane", durability="relaxed").close()
    with pytest.raises(InvalidInput, match=r"durability is 'full', but .* was made with 'relaxed'"):
        DurableHub(tmp_path / "hub", "plane")
    with pytest.raises(InvalidInput, match="durability is 'off'; expected 'full' or 'relaxed'"):
        DurableHub(tmp_path / "other", "plane", durability="off")
