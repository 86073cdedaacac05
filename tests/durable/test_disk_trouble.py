"""A durable hub and a disk in trouble: really full, for snapshots too, and syncs that fail outside the log."""

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nearcast import Circle, Within
from nearcast.durable import DurableHub, check
from nearcast.errors import FileUnavailable, HubStopped
from support.hub_calls import contents_of
from support.waiting import run


def message(number, **more):
    return {"id": number, "text": "tea", "x": 0.0, "y": 0.0, **more}


@pytest.fixture
def small(tmp_path):
    """A file system of 3 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(folder)])
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(hub, ballast):
    """Fill the disk, with a file and then by publishing; return how many messages were taken."""
    ballast.write_bytes(bytes(shutil.disk_usage(ballast.parent).free - (64 << 10)))
    for number in range(1000):
        try:
            hub.publish(message(number, text="tea " * 1000))
        except FileUnavailable:
            return number
    raise AssertionError("the disk was not full")


def test_a_full_disk_stops_nothing_but_writing(small):
    """No call, no snapshot and no file of the outbox is half done; what can be read is; all goes on with room again."""
    hub = DurableHub(small / "hub", "plane", index="scan")
    hub.subscribe(Within("a", "tea", Circle(0, 0, 5)), subscriber="anna")
    n_taken = fill(hub, small / "ballast")
    expected, events = contents_of(hub), [each.cursor for each in hub.events("anna")]
    for _ in range(2):
        for call in (hub.snapshot, lambda: hub.backup(small / "copy")):
            with pytest.raises((OSError, FileUnavailable)):
                call()
        with pytest.raises(FileUnavailable, match="is full; nothing was stored"):
            hub.publish(message(1, text="tea " * 20_000))
    assert (expected, n_taken) == (contents_of(hub), len(events))
    assert events == [each.cursor for each in hub.events("anna")]
    hub.close()

    with DurableHub.open(small / "hub") as again:  # the disk is as full as before
        assert (expected, events) == (contents_of(again), [each.cursor for each in again.events("anna")])
        (small / "ballast").unlink()
        again.publish(message(1, text="tea " * 20_000))
        again.snapshot()
        expected = contents_of(again)
    assert check(small / "hub").is_sound
    with DurableHub.open(small / "hub") as again:
        assert expected == contents_of(again)
        assert n_taken + 1 == len(again.events("anna"))


class FailingSyncs:
    """Lets `os.fsync` fail for files below a folder, and counts how often it is tried."""

    def __init__(self, monkeypatch, folder):
        self._fsync, self._folder, self.n_tries = os.fsync, folder, 0
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if self._folder in path.parents:
            self.n_tries += 1
            raise OSError(errno.EIO, "Input/output error")
        self._fsync(descriptor)


def test_a_sync_of_the_outbox_that_fails_is_never_tried_again(monkeypatch, tmp_path):
    """The hub stops; opened again, it has all that was answered."""
    hub = DurableHub(tmp_path / "hub", "plane")
    hub.subscribe(Within("a", "tea"), subscriber="anna")
    hub.publish(message(1))
    hub._outbox.flush()
    with monkeypatch.context() as patch:
        syncs = FailingSyncs(patch, tmp_path / "hub" / "outbox")
        with pytest.raises(HubStopped, match=r"FailedSync: .*outbox could not be synced"):
            hub.snapshot()
        for call in (hub.snapshot, lambda: hub.publish(message(2))):
            with pytest.raises(HubStopped, match="the hub stopped"):
                call()
        assert 1 == syncs.n_tries
    hub.close()
    with DurableHub.open(tmp_path / "hub") as again:
        assert 1 == len(again.events("anna"))
        again.snapshot()


def test_a_sync_of_a_snapshot_that_fails_costs_that_snapshot(monkeypatch, tmp_path):
    """Its files are thrown away, the calls go on by the log, and the next one is written anew."""
    with DurableHub(tmp_path / "hub", "plane") as hub:
        hub.subscribe(Within("a", "tea"))
        with monkeypatch.context() as patch:
            FailingSyncs(patch, tmp_path / "hub" / "snapshots")
            with pytest.raises(OSError, match="Input/output error"):
                hub.snapshot()
            assert 1 == len(hub.publish(message(1)))
        assert [] == hub._folder.snapshots()
        hub.snapshot()
        assert [2] == hub._folder.snapshots()
    assert check(tmp_path / "hub").is_sound
