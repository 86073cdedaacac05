"""A durable hub and what disks and processes do to it: kills, failed writes and syncs, a full disk, damage."""

import random
import shutil
import subprocess
import threading
from collections import Counter
from pathlib import Path

import apsw
import pytest
from durable_worker import THREADS, acknowledged, is_publish
from killed_worker import KilledWorker

from nearcast import Circle, Hub, Within
from nearcast.durable import DurableHub
from nearcast.durable.calls import apply
from nearcast.durable.input_log import InputLog
from nearcast.durable.inputs import decoded
from nearcast.errors import FileUnavailable, HubStopped, IncompatibleStore
from support.hub_calls import contents_of
from support.waiting import join, run, wait_until

WORKER = Path(__file__).with_name("durable_worker.py")
COUNT = 90


def message(number):
    return {"id": number, "text": "tea", "x": 0.0, "y": 0.0}


def subscribed(folder):
    hub = DurableHub(folder, "plane")
    hub.subscribe(Within("a", "tea", Circle(0, 0, 5)))
    return hub


# Kills


class Worker(KilledWorker):
    """A process of `durable_worker.py`."""

    def __init__(self, folder):
        super().__init__(folder, WORKER, COUNT)

    def check_log(self):
        """Replay the whole log in a hub in memory: it has made what was answered, and the opened hub is the same."""
        memory, made = Hub("plane"), {}
        log = InputLog(self.folder / "log.db")
        for row in log.rows(0):
            given = decoded(row.data, "a row")
            found = apply(memory, given)
            if given.call == "publish":
                (id_,) = given.table["id"].to_pylist()
                assert id_ not in made, "published twice under one key"
                made[id_] = [each.delivery_id for each in found]
        log.close()
        for (thread, number), ids in acknowledged(self.ledger).items():
            if is_publish(number):
                assert ids in ([], made[f"{thread}-{number}"])  # none where it was answered as a repeat
        with DurableHub.open(self.folder) as hub:
            memory.poll()
            assert contents_of(memory) == contents_of(hub)


def test_nothing_that_was_answered_is_lost_by_kills(tmp_path):
    """Killed at random moments under load: all is there, nothing twice, deliveries have the same ids again."""
    worker, chance = Worker(tmp_path), random.Random(18)
    for _ in range(2):
        worker.kill_after(chance.randrange(20, 120), 1 << 30)
        worker.check_log()
    worker.kill_after(chance.randrange(20, 80), 20_000)
    worker.run_to_its_end(20_000)

    numbers = [(thread, number) for thread in range(THREADS) for number in range(COUNT)]
    assert sorted(numbers) == sorted(acknowledged(worker.ledger))
    with DurableHub.open(worker.folder) as hub:
        assert sum(is_publish(number) for _, number in numbers) == hub.stats()["published"]
        assert {f"s{thread}-{number}" for thread, number in numbers if number % 5 == 0} == set(hub)
        assert hub.stats()["log"]["first_input"] > 1


# Failing disks


class FaultyDisk(apsw.VFS):
    """The file system of SQLite with writes and syncs that fail, or wait, when told."""

    def __init__(self):
        super().__init__("faulty", "unix", makedefault=True)
        self.counts = Counter()
        self.write_error = self.sync_error = None
        self.may_sync = threading.Event()
        self.may_sync.set()

    def xOpen(self, name, flags):  # noqa: N802  SQLite's name
        return FaultyFile(self, name, flags)


class FaultyFile(apsw.VFSFile):
    def __init__(self, disk, name, flags):
        super().__init__("unix", name, flags)
        self.disk = disk

    def xWrite(self, data, offset):  # noqa: N802
        if self.disk.write_error is not None:
            raise self.disk.write_error("told to fail")
        super().xWrite(data, offset)

    def xSync(self, flags):  # noqa: N802
        self.disk.counts["syncs"] += 1
        self.disk.may_sync.wait()
        if self.disk.sync_error is not None:
            raise self.disk.sync_error("told to fail")
        super().xSync(flags)


@pytest.fixture
def disk():
    faulty = FaultyDisk()
    yield faulty
    faulty.unregister()


def test_a_call_is_synced_before_it_is_answered(disk, tmp_path):
    """At least once for each call that comes alone."""
    with subscribed(tmp_path / "hub") as hub:
        for number in range(3):
            before = disk.counts["syncs"]
            hub.publish(message(number))
            assert disk.counts["syncs"] > before


def test_calls_that_wait_share_one_transaction(disk, tmp_path):
    """Eight threads that come while another sync is under way."""
    with subscribed(tmp_path / "hub") as hub:
        before, syncs = hub.stats()["log"]["transactions"], disk.counts["syncs"]
        disk.may_sync.clear()
        threads = [threading.Thread(target=hub.publish, args=(message(number),)) for number in range(9)]
        try:
            threads[0].start()
            wait_until(lambda: disk.counts["syncs"] > syncs)
            for each in threads[1:]:
                each.start()
            wait_until(lambda: hub._writer.n_waiting == 8)
        finally:
            disk.may_sync.set()
        for each in threads:
            join(each)

        assert 9 == hub.stats()["published"]
        assert before + 2 == hub.stats()["log"]["transactions"]


def test_a_full_disk_changes_nothing_and_passes(disk, tmp_path):
    """The call is refused by name, reading goes on, and the next call is made when there is room."""
    with subscribed(tmp_path / "hub") as hub:
        expected = contents_of(hub)
        disk.write_error = apsw.FullError
        for _ in range(2):
            with pytest.raises(FileUnavailable, match="is full; nothing was stored; make room and try again"):
                hub.publish(message(1), key="k")
        assert expected == contents_of(hub)
        disk.write_error = None
        assert 1 == len(hub.publish(message(1), key="k"))
        expected = contents_of(hub)
    with DurableHub.open(tmp_path / "hub") as again:
        assert expected == contents_of(again)


@pytest.mark.parametrize("fault", ["write_error", "sync_error"])
def test_a_failed_sync_is_never_tried_again(disk, tmp_path, fault):
    """The hub stops, says so, and is opened again with all that was answered."""
    hub = subscribed(tmp_path / "hub")
    hub.publish(message(1))
    setattr(disk, fault, apsw.IOError)
    with pytest.raises(HubStopped, match="close it and open it again"):
        hub.publish(message(2), key="k")
    setattr(disk, fault, None)
    syncs = disk.counts["syncs"]
    for call in (lambda: hub.publish(message(3)), hub.snapshot):
        with pytest.raises(HubStopped, match="the hub stopped"):
            call()
    assert 1 == hub.stats()["published"]
    hub.close()
    assert syncs == disk.counts["syncs"]
    with DurableHub.open(tmp_path / "hub") as again:
        again.publish(message(2), key="k")
        assert 2 == again.stats()["published"]


def n_published_until_full(hub):
    """Publish until that is refused."""
    for number in range(100):
        try:
            hub.publish({**message(number), "text": "tea " * 5000})
        except FileUnavailable as error:
            assert "is full" in str(error)  # noqa: PT017  which of the calls it is depends on the file system
            return number
    raise AssertionError("the disk was not full")


def test_a_disk_that_is_really_full(tmp_path):
    """On a file system of 2 MB: refused when it is full, and going on when there is room again."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)])
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        hub = subscribed(folder / "hub")
        (folder / "ballast").write_bytes(bytes(1 << 20))
        n_stored = n_published_until_full(hub)
        assert (1, n_stored) == (len(hub), hub.stats()["published"])
        (folder / "ballast").unlink()
        hub.publish(message(100))
        hub.close()
        with DurableHub.open(folder / "hub") as again:
            assert n_stored + 1 == again.stats()["published"]
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


# Damage


def crashed(folder, n_messages=6):
    """Return a folder as a kill leaves it: one transaction in the WAL for each message."""
    with subscribed(folder / "hub") as hub:
        for number in range(n_messages):
            hub.publish(message(number))
        shutil.copytree(folder / "hub", folder / "crashed", ignore=shutil.ignore_patterns("lock"))
    return folder / "crashed"


def test_a_torn_tail_is_cut(tmp_path):
    """Wherever the WAL ends, the transactions before that are there, and the hub goes on."""
    folder = crashed(tmp_path)
    wal = (folder / "log.db-wal").read_bytes()
    found = []
    for end in (*range(0, len(wal), len(wal) // 8), len(wal)):
        shutil.copytree(folder, tmp_path / f"cut-{end}")
        (tmp_path / f"cut-{end}" / "log.db-wal").write_bytes(wal[:end])
        with DurableHub.open(tmp_path / f"cut-{end}") as hub:
            found.append(hub.stats()["published"])
            hub.publish(message(99))
    assert sorted(found) == found
    assert (0, 6) == (found[0], found[-1])


def test_damage_before_the_tail_is_refused_by_name(tmp_path):
    """SQLite alone would drop what follows it without a word."""
    folder = crashed(tmp_path)
    wal = bytearray((folder / "log.db-wal").read_bytes())
    for at in (20, 40, 2000, len(wal) // 2):
        wrong = wal.copy()
        wrong[at] ^= 1
        (folder / "log.db-wal").write_bytes(wrong)
        for _ in range(2):
            with pytest.raises(IncompatibleStore, match=r"log\.db-wal is damaged"):
                DurableHub.open(folder)


def test_damage_of_the_database_is_refused_by_name(tmp_path):
    """Of an input, of a page, of the whole file."""
    hub = subscribed(tmp_path / "hub")
    hub.publish({**message(1), "text": "tea " * 5000})
    hub.close()
    path = tmp_path / "hub" / "log.db"
    data = path.read_bytes()
    at = data.index(b"tea tea tea tea")
    for wrong in (
        data[:at] + b"s" + data[at + 1 :],
        b"no database" + data[11:],
        data[:4096] + bytes(4096) + data[8192:],
    ):
        path.write_bytes(wrong)
        with pytest.raises(IncompatibleStore, match=r"log\.db is damaged|log\.db cannot be read"):
            DurableHub.open(tmp_path / "hub")
    path.unlink()
    with pytest.raises(IncompatibleStore, match=r"log\.db is missing"):
        DurableHub.open(tmp_path / "hub")
