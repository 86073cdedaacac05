"""Backups of durable hubs, restores, and the check of a folder."""

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest

from nearcast import Circle, Within
from nearcast.durable import DurableHub, backup, check, leave_out, restore
from nearcast.errors import FileUnavailable, HubStopped, IncompatibleStore, StoreUnavailable
from nearcast.saved_files.contents import files_within
from support.hub_calls import contents_of
from support.waiting import run, wait_until


def message(number, **more):
    return {"id": number, "text": "tea", "x": 0.0, "y": 0.0, **more}


def filled(folder):
    """Return a hub with a snapshot and inputs after it."""
    hub = DurableHub(folder, "plane", window=3)
    hub.subscribe(Within("a", "tea", Circle(0, 0, 5)))
    hub.publish(message(1), key="one")
    hub.snapshot()
    hub.publish(message(2), key="two")
    return hub


def bytes_of(folder):
    return {name: path.read_bytes() for name, path in files_within(Path(folder)) if name != "lock"}


def test_a_backup_of_a_running_hub_has_all_that_was_answered(tmp_path):
    """Also its keys; both go on by themselves."""
    with filled(tmp_path / "hub") as hub:
        backup(hub, tmp_path / "copy")
        expected = contents_of(hub)
        hub.publish(message(3))
        assert check(tmp_path / "copy").is_sound
        with DurableHub.open(tmp_path / "copy") as copy:
            assert expected == contents_of(copy)
            assert [] == list(copy.publish(message(2), key="two"))
            assert 1 == len(copy.publish(message(4)))
            assert expected != contents_of(copy)
        assert 3 == hub.stats()["published"]


def test_a_backup_without_a_snapshot_and_one_of_a_closed_folder(tmp_path):
    """The log has everything; a closed folder is copied as it is."""
    with DurableHub(tmp_path / "hub", "plane") as hub:
        hub.publish(message(1))
        hub.backup(tmp_path / "running")
        expected = contents_of(hub)
    backup(tmp_path / "hub", tmp_path / "closed")
    restore(tmp_path / "closed", tmp_path / "restored")
    for name in ("running", "closed", "restored"):
        with DurableHub.open(tmp_path / name) as copy:
            assert expected == contents_of(copy)


def test_calls_go_on_while_a_backup_is_made(monkeypatch, tmp_path):
    """Publishers in threads, from before its begin until after its end; it holds a prefix of what they did."""
    monkeypatch.setattr("nearcast.durable.input_log._COPIED_AT_ONCE", 1)
    hub, is_done, counts = filled(tmp_path / "hub"), threading.Event(), [0, 0]

    def work(thread):
        while not is_done.is_set():
            hub.publish({**message(f"{thread}-{counts[thread]}"), "text": "tea " * 3000})
            counts[thread] += 1

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(2)]
    for each in threads:
        each.start()
    try:
        wait_until(lambda: min(counts) > 2)
        before = sum(counts)
        hub.backup(tmp_path / "copy")
        within = sum(counts)
        wait_until(lambda: sum(counts) > within)
    finally:
        is_done.set()
        for each in threads:
            each.join()
        hub.close()
    with DurableHub.open(tmp_path / "copy") as copy:
        assert before + 2 <= copy.stats()["published"] <= within + 2 + len(threads)


def test_a_killed_backup_is_no_hub_and_the_source_stays(tmp_path):
    """The head comes last; the next one takes the place of what was left."""
    filled(tmp_path / "hub").close()
    code = """
import os, sys
from nearcast.durable import backup, folder_copies
folder_copies.sync_folder = lambda folder: os.kill(os.getpid(), 9)
backup(sys.argv[1], sys.argv[2])
"""
    killed = run([sys.executable, "-c", code, str(tmp_path / "hub"), str(tmp_path / "copy")])
    assert -9 == killed.returncode, killed.stderr
    with pytest.raises(IncompatibleStore, match="holds no durable hub"):
        DurableHub.open(tmp_path / "copy")
    backup(tmp_path / "hub", tmp_path / "copy")
    assert check(tmp_path / "copy").is_sound


def test_a_backup_onto_a_full_disk_leaves_nothing_and_the_hub_goes_on(tmp_path):
    """Whether it is a file or the log that does not fit."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = run(["mount", "-t", "tmpfs", "-o", "size=40k", "none", str(small)])
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        with DurableHub(tmp_path / "hub", "plane") as hub:
            hub.publish(message(1, text="tea " * 50_000))
            with pytest.raises(FileUnavailable, match="could not be copied"):
                hub.backup(small / "copy")
            hub.snapshot()
            with pytest.raises(OSError, match="No space left"):
                hub.backup(small / "other")
            hub.publish(message(2))
        assert ["lock"] == [each.name for each in (small / "copy").iterdir()]
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_what_cannot_be_copied_or_restored_is_refused_by_name(tmp_path):
    """Folders in use, folders that hold something, backups that are damaged."""
    with filled(tmp_path / "hub") as hub:
        with pytest.raises(StoreUnavailable, match="is in use by process"):
            backup(tmp_path / "hub", tmp_path / "copy")
        with pytest.raises(StoreUnavailable, match="is in use by process"):
            check(tmp_path / "hub")
        hub.backup(tmp_path / "copy")
        with pytest.raises(FileExistsError, match="holds a durable hub"):
            hub.backup(tmp_path / "copy")
    with pytest.raises(HubStopped, match="was closed"):
        hub.backup(tmp_path / "late")
    next((tmp_path / "copy" / "snapshots").glob("*/files-*/ids/*.npy")).write_bytes(b"")
    (tmp_path / "copy" / "log.db").write_bytes(b"")
    with pytest.raises(IncompatibleStore, match=r"copy is damaged: .*log\.db"):
        restore(tmp_path / "copy", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_a_backup_has_the_deliveries_that_wait(tmp_path):
    """In files and in memory, with what was acknowledged; a damaged file is named by the check."""
    with DurableHub(tmp_path / "hub", "plane") as hub:
        hub.subscribe(Within("a", "tea"), subscriber="anna")
        for number in range(4):
            hub.publish(message(number))
            if number == 1:
                hub.snapshot()
        hub.ack("anna", hub.events("anna", limit=1).cursor)
        hub.backup(tmp_path / "copy")
        expected = [each.delivery.delivery_id for each in hub.events("anna")]
    assert check(tmp_path / "copy").is_sound
    with DurableHub.open(tmp_path / "copy") as copy:
        assert 3 == len(expected)
        assert expected == [each.delivery.delivery_id for each in copy.events("anna")]
    file = next((tmp_path / "copy" / "outbox").glob("*.run"))
    file.write_bytes(file.read_bytes()[:-1])
    assert file.name in check(tmp_path / "copy").problems[0]


# The check


def test_a_check_changes_nothing_and_says_what_there_is(tmp_path):
    """Also of a folder that a kill has left, with inputs in its WAL."""
    with filled(tmp_path / "hub") as hub:
        shutil.copytree(tmp_path / "hub", tmp_path / "killed", ignore=shutil.ignore_patterns("lock"))
    hub.close()
    leave_out(tmp_path / "hub", 3, "it was spam")
    for name, skipped in (("killed", {}), ("hub", {3: "it was spam"})):
        before = bytes_of(tmp_path / name)
        report = check(tmp_path / name)
        assert before == bytes_of(tmp_path / name)
        assert (True, (1, 3), [2], skipped) == (report.is_sound, report.inputs, report.snapshots, report.skipped)


def test_a_check_names_all_that_is_damaged(tmp_path):
    """An input, a snapshot that is needed, one that is not, the head."""
    with filled(tmp_path / "hub") as hub:
        hub.snapshot()
    shutil.copytree(tmp_path / "hub", tmp_path / "head")
    next((tmp_path / "hub" / "snapshots" / f"{3:020d}").glob("files-*/ids/*.npy")).write_bytes(b"")
    report = check(tmp_path / "hub")
    assert (True, [2]) == (report.is_sound, report.snapshots)
    assert "ids" in report.warnings[0]

    connection = apsw.Connection(str(tmp_path / "hub" / "log.db"))
    connection.execute("UPDATE inputs SET data = x'00' WHERE number = 3")
    connection.close()
    shutil.rmtree(tmp_path / "hub" / "snapshots" / f"{2:020d}")
    (tmp_path / "hub" / "vocabulary.parquet").unlink()
    found = "\n".join(check(tmp_path / "hub").problems)
    for said in ("vocabulary.parquet", "input 3 of", "the newest sound snapshot is 0", "/ids/"):
        assert said in found

    (tmp_path / "head" / "durable.json").write_bytes(b"{}")
    assert "durable.json" in check(tmp_path / "head").problems[0]
    with pytest.raises(IncompatibleStore, match="there is no folder"):
        check(tmp_path / "none")
