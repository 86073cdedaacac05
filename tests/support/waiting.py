"""Waiting in tests: for what must happen, as long as a loaded machine may take, and not a moment longer than it can.

Waiting never proves an absence. A deadline is there for the day something hangs, so it is far beyond what anything
takes; and when the process that should do it is gone, waiting ends at once.
"""

import subprocess
import time

#: Seconds until something that must happen counts as hanging.
PATIENCE_S = 1200.0
_PAUSE_S = 0.005


def wait_until(happened, *, is_alive=None, about=lambda: ""):
    """Wait until `happened()` is true and return what it returned.

    Fails at once when `is_alive()` is false and it has still not happened; `about()` is told in the failure.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        gone = is_alive is not None and not is_alive()
        found = happened()  # after looking whether it lives: it may have done it last of all
        if found:
            return found
        assert not gone, f"it ended before it happened:\n{about()}"
        assert time.monotonic() < deadline, f"it did not happen in {PATIENCE_S:.0f} s:\n{about()}"
        time.sleep(_PAUSE_S)


def join(thread):
    """Wait for a thread to end."""
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), f"{thread.name} did not end in {PATIENCE_S:.0f} s"


def run(command, **options):
    """Run a process to its end and return it with what it wrote, as text."""
    options = {"capture_output": True, "text": True, "timeout": PATIENCE_S} | options
    return subprocess.run(command, check=options.pop("check", False), **options)
