"""A process that forks while threads are inside hubs."""

import os
import signal
import threading

import pytest

from nearcast import Hub, Message, TopK, Within

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning"),
]


def made():
    hub = Hub("plane", window=100, max_distance=10, index="trigger:delta_rows=64")
    hub.subscribe_many([Within(i, "ramen") for i in range(200)])
    hub.subscribe(TopK("top", "ramen", (0, 0)))
    return hub


def forked(work):
    """Run `work` in a child process; return its status, that of a signal if it does not come to an end."""
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(120)
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitpid(child, 0)[1]


def test_a_child_has_a_hub_that_works_while_others_were_inside_it():
    """Forked at any moment of publishing, changing and merging, the child can publish, change and wait for merges."""
    hub = made()
    stop = threading.Event()

    def busy():
        number = 0
        while not stop.is_set():
            hub.publish(Message(number, "ramen", (0, 0)))
            hub.subscribe(Within(1000 + number % 100, f"word{number % 7} ramen"))
            hub.subscribe(TopK(2000 + number % 100, "ramen", (0, 0)))
            number += 1

    def work():
        n = len(hub)
        hub.subscribe_many([TopK(f"child{i}", "beer", (0, 0)) for i in range(100)])
        hub.subscribe(Within("child", "beer"))
        hub.close()
        found = [d.subscription_id for d in hub.publish(Message(1, "beer", (0, 0)))]
        return len(hub) == n + 101 == len(list(hub)) and found[-1] == "child"

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        statuses = [forked(work) for _ in range(5)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert statuses == 5 * [0]


def test_the_parent_goes_on_after_a_fork():
    """Locks are let go of in both processes, also those that the forking thread held itself."""
    hub = made()
    with hub._lock:
        assert forked(lambda: len(hub.publish(Message(1, "ramen", (0, 0)))) > 200) == 0
    done = threading.Thread(target=hub.publish, args=(Message(2, "ramen", (0, 0)),))
    done.start()
    done.join()
    assert hub.stats()["published"] == 1


def test_a_hub_that_is_gone_is_not_waited_for():
    """Forking knows the hubs that live."""
    from nearcast import fork_locks

    hub = made()
    assert hub in fork_locks._hubs
    known = len(fork_locks._hubs)
    hub.close()
    del hub
    assert len(fork_locks._hubs) < known
