"""Runs of the outbox in memory: small ones are merged by whoever reads, large ones beside those who read and add."""

import threading

import pytest

from nearcast.durable import DurableHub
from nearcast.durable.outbox import outbox as outbox_module
from support.waiting import PATIENCE_S, join, wait_until

NAMES = ("anna", "ben", "cleo")


def message(number):
    return {"id": number, "text": "tea", "x": float(number % 5), "y": 0.0}


@pytest.fixture
def hub(tmp_path):
    with DurableHub(tmp_path / "hub", "plane") as found:
        for at, name in enumerate(NAMES):
            place = {"x": 0.0, "y": 0.0, "radius": 1.5 + at}
            found.subscribe({"id": name, "query": "tea", **place}, subscriber=name)
        yield found


def ids(hub, name):
    return [event.delivery.message_id for event in hub.events(name, after="0-0")]


def expected(n, reach):
    return [number for number in range(n) if number % 5 <= reach]


def publish_and_read(hub, n):
    """Publish messages; each is read at once, so that each is a run of its own."""
    for number in range(n):
        hub.publish(message(number))
        hub.events("anna")


def test_large_runs_are_merged_beside_those_who_read(hub):
    """Nobody who reads merges them; the thread that tidies does, and all events are there before and after."""
    hub._outbox.merged_rows = 0  # all runs are large
    publish_and_read(hub, 40)
    hub._tidier.look(hub._state.now)
    wait_until(lambda: not hub._outbox.is_untidy(hub._state.now))
    assert len(hub._outbox._memory) < 40
    assert [expected(40, 1), expected(40, 2), expected(40, 3)] == [ids(hub, name) for name in NAMES]


def test_what_comes_while_runs_are_merged_stays_behind_them(hub, monkeypatch):
    """Those who add and read meanwhile neither wait nor touch the runs that are being merged."""
    begun, may_go_on, merged = threading.Event(), threading.Event(), outbox_module.merged

    def slow(*given):
        begun.set()
        assert may_go_on.wait(PATIENCE_S)
        return merged(*given)

    hub._outbox.merged_rows, hub._tidier.look = 0, lambda _: None
    publish_and_read(hub, 20)
    monkeypatch.setattr(outbox_module, "merged", slow)
    tidying = threading.Thread(target=hub._outbox.tidy, args=(0,))
    tidying.start()
    try:
        assert begun.wait(PATIENCE_S)
        hub._outbox.merged_rows = 1 << 15
        for number in range(20, 33):  # small runs now: more than eight of them, but for the merge under way
            hub.publish(message(number))
            assert expected(number + 1, 2)[-1:] == ids(hub, "ben")[-1:] if number % 5 <= 2 else True
            if number == 26:
                monkeypatch.setattr(outbox_module, "merged", merged)
        assert expected(33, 2) == ids(hub, "ben")
    finally:
        may_go_on.set()
        join(tidying)
    assert [expected(33, 1), expected(33, 2), expected(33, 3)] == [ids(hub, name) for name in NAMES]
    hub.publish(message(33))
    hub._outbox.flush()
    assert expected(34, 3) == ids(hub, "cleo")


def test_a_merge_that_fails_leaves_all_runs_in_place(hub, monkeypatch):
    """The next one finds them."""
    hub._outbox.merged_rows, hub._tidier.look = 0, lambda _: None
    publish_and_read(hub, 20)
    before = len(hub._outbox._memory)

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(outbox_module, "merged", fail)
        with pytest.raises(MemoryError):
            hub._outbox.tidy(0)
    assert before == len(hub._outbox._memory)
    assert expected(20, 3) == ids(hub, "cleo")
    hub._outbox.tidy(0)
    assert 1 == len(hub._outbox._memory)
    assert expected(20, 3) == ids(hub, "cleo")
