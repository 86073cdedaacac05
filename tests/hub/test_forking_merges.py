"""A process that forks while a thread merges the triggers of top-k subscriptions."""

import threading

import pytest
from test_forking import forked, pytestmark  # noqa: F401 - the same holds here

from nearcast import Hub, Message, TopK
from nearcast.indexes.trigger.thresholds import ThresholdPart, ThresholdSegment
from support.waiting import wait_until


@pytest.fixture
def held_merge(monkeypatch):
    """Events: a merge has begun in a thread of its own, and may go on."""
    begun, may_go_on, real = threading.Event(), threading.Event(), ThresholdPart._built

    def built(self, *given):
        if self._merger is threading.current_thread():
            begun.set()
            may_go_on.wait(600)
        return real(self, *given)

    monkeypatch.setattr(ThresholdPart, "_built", built)
    yield begun, may_go_on
    may_go_on.set()


def test_a_child_collects_no_changes_for_a_merge_of_its_parent(held_merge):
    begun, may_go_on = held_merge
    hub = Hub("plane", window=100, max_distance=10, index="trigger:delta_rows=64")
    number = 0
    while not begun.is_set() and number < 5000:
        hub.subscribe_many([TopK(number + i, "ramen", (0, 0)) for i in range(50)])
        number += 50
    wait_until(begun.is_set)

    def work():
        moving = hub._state.index._moving
        lists = [each for each in moving._components.values() if isinstance(each, ThresholdSegment)]
        is_over = moving._merger is None and all(each.changed is None for each in lists)
        may_go_on.set()
        return is_over and len(hub.publish(Message(1, "ramen", (0, 0)))) == number

    assert forked(work) == 0
    may_go_on.set()
    hub.close()
