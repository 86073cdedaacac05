"""The tests' own patience: `waiting`."""

import subprocess
import sys

import pytest

from support import waiting
from support.waiting import join, wait_until


def test_what_happened_is_returned_at_once():
    """Whatever is true ends the waiting, and is its answer."""
    seen = iter([None, [], [3]])

    assert [3] == wait_until(lambda: next(seen))


def test_nobody_waits_for_the_dead():
    """A process that has ended does nothing more: the failure comes at once and tells what it said."""
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait(waiting.PATIENCE_S)

    with pytest.raises(AssertionError, match="ended before it happened:\nits last words"):
        wait_until(lambda: False, is_alive=lambda: process.poll() is None, about=lambda: "its last words")


def test_the_last_deed_of_a_process_counts():
    """Something may happen between the last look and the end."""
    done = []

    def is_alive():
        done.append(True)
        return False

    assert wait_until(lambda: done, is_alive=is_alive)


def test_what_hangs_is_told(monkeypatch):
    """When patience ends, the failure says so: of a deed as of a thread."""
    import threading

    monkeypatch.setattr(waiting, "PATIENCE_S", 0.0)
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="sleeper")
    thread.start()
    with pytest.raises(AssertionError, match="did not happen"):
        wait_until(lambda: False)
    with pytest.raises(AssertionError, match="sleeper did not end"):
        join(thread)
    release.set()
    thread.join()
