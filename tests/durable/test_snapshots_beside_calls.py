"""Snapshots of a durable hub beside its calls: what they wait for, what a failed one leaves, and how the log is cut."""

import errno
import threading

import pytest

from nearcast import Circle, Within
from nearcast._saved import write_all
from nearcast.durable import DurableHub, input_log
from support.hub_calls import contents_of
from support.waiting import join, wait_until


def message(number, **more):
    return {"id": number, "text": "tea", "x": 0.0, "y": 0.0, **more}


@pytest.fixture
def slow(monkeypatch):
    """Hold up the writing of snapshots."""
    gate = threading.Event()
    gate.is_reached = threading.Event()

    def slowly(writes):
        gate.is_reached.set()
        gate.wait()
        write_all(writes)

    monkeypatch.setattr("nearcast.engine.snapshot.write_all", slowly)
    yield gate
    gate.set()


def test_calls_are_answered_while_a_snapshot_is_written(slow, tmp_path):
    """The one that is due after so many bytes; what is published meanwhile is in the log after it."""
    hub = DurableHub(tmp_path / "hub", "plane", snapshot_bytes=1)
    hub.subscribe(Within("a", "tea", Circle(0, 0, 5)))
    wait_until(slow.is_reached.is_set)
    for number in range(3):
        assert 1 == len(hub.publish(message(number)))
    assert 0 == hub.stats()["log"]["snapshot"]
    expected = contents_of(hub)
    slow.set()
    hub.close()

    assert hub.stats()["log"]["snapshot"] >= 1
    with DurableHub.open(tmp_path / "hub") as again:
        assert expected == contents_of(again)
        assert again.stats()["log"]["snapshot"] < 4 == again.stats()["log"]["inputs"]


def test_one_that_is_asked_for_waits_for_the_one_under_way(slow, tmp_path):
    """And then takes another, since more has happened."""
    with DurableHub(tmp_path / "hub", "plane", snapshot_bytes=1) as hub:
        hub.publish(message(1))
        wait_until(slow.is_reached.is_set)
        asking = threading.Thread(target=hub.snapshot)
        hub.publish(message(2))
        asking.start()
        slow.set()
        join(asking)
        assert 2 == hub.stats()["log"]["snapshot"]


def test_a_snapshot_that_fails_leaves_the_older_one_and_the_log(monkeypatch, tmp_path):
    """The calls go on, the stats say why, and the next one is taken."""

    def fails(writes):
        raise OSError(errno.ENOSPC, "No space left on device")

    with DurableHub(tmp_path / "hub", "plane") as hub:
        hub.publish(message(1))
        hub.snapshot()
        hub.publish(message(2))
        with monkeypatch.context() as patch:
            patch.setattr("nearcast.engine.snapshot.write_all", fails)
            with pytest.raises(OSError, match="No space left"):
                hub.snapshot()
            hub._snapshots.begin()
            hub._snapshots.close()
            assert "No space left on device" in hub.stats()["log"]["snapshot_error"]
        hub.publish(message(3))
        assert ([1], 1) == (hub._folder.snapshots(), hub.stats()["log"]["first_input"])
        hub.snapshot()
        assert ([3, 1], "") == (hub._folder.snapshots(), hub.stats()["log"]["snapshot_error"])
        assert 2 == hub.stats()["log"]["first_input"]
        expected = contents_of(hub)
    with DurableHub.open(tmp_path / "hub") as again:
        assert expected == contents_of(again)


def test_a_long_log_is_cut_in_portions(monkeypatch, tmp_path):
    """Each is a transaction of its own, so that calls need not wait for all of them."""
    monkeypatch.setattr(input_log, "_TRIMMED_AT_ONCE", 1)
    with DurableHub(tmp_path / "hub", "plane") as hub:
        hub.publish(message(1))
        hub.snapshot()
        for number in range(5):
            hub.publish(message(number))
        hub.snapshot()
        before = hub.stats()["log"]["transactions"]
        hub.publish(message(9))
        hub.snapshot()
        log = hub.stats()["log"]
        assert (7, 7, 1 + 5) == (log["first_input"], log["inputs"], log["transactions"] - before)
        expected = contents_of(hub)
    with DurableHub.open(tmp_path / "hub") as again:
        assert expected == contents_of(again)
