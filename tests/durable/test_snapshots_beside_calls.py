"""Snapshots of a durable hub beside its calls: what they wait for, what a failed one leaves, and how the log is cut."""

import errno
import threading

import pytest

from nearcast import Circle, Within
from nearcast._saved import write_all
from nearcast.durable import DurableHub, input_log
from nearcast.errors import HubStopped
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
            wait_until(lambda: hub.stats()["log"]["snapshot_error"])
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


def test_keys_are_forgotten_with_the_log_when_they_are_long_past(monkeypatch, tmp_path):
    """Those of the last inputs are remembered, whether or not the inputs are."""
    monkeypatch.setattr(input_log, "REMEMBERED_KEYS", 3)
    with DurableHub(tmp_path / "hub", "plane") as hub:
        for number in range(6):
            hub.publish(message(number), key=f"k{number}")
            hub.snapshot()
        assert 6 == hub.stats()["log"]["first_input"]
        for number in (3, 4, 5):
            assert "nothing was done" in hub.publish(message(number), key=f"k{number}").rejected.warnings[0]
        hub.publish(message(0), key="k0")
        assert 7 == hub.stats()["published"]


def test_a_hub_is_closed_when_nothing_is_written_any_more(slow, tmp_path):
    """It waits for the snapshot under way, whoever asked for it; later ones are refused."""
    hub = DurableHub(tmp_path / "hub", "plane")
    hub.publish(message(1))
    asking = threading.Thread(target=hub.snapshot)
    asking.start()
    wait_until(slow.is_reached.is_set, is_alive=asking.is_alive)
    closing = threading.Thread(target=hub.close)
    closing.start()
    wait_until(lambda: hub._is_over)
    assert closing.is_alive()
    slow.set()
    join(closing)
    join(asking)
    with pytest.raises(HubStopped, match="was closed"):
        hub._snapshots.take()
    with DurableHub.open(tmp_path / "hub") as again:
        assert 1 == again.stats()["log"]["snapshot"]
