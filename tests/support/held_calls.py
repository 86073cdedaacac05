"""Calls of a method that wait until a test lets them go on, so that something else comes in between."""

import threading
from contextlib import contextmanager

from support.waiting import PATIENCE_S


@contextmanager
def held_up(owner, name, *, is_after=False):
    """Hold up the next call of a method, before or after it; give what tells that it is, and what lets it go on."""
    method, began, go_on = getattr(owner, name), threading.Event(), threading.Event()

    def call(*given, **options):
        setattr(owner, name, method)
        found = method(*given, **options) if is_after else None
        began.set()
        assert go_on.wait(PATIENCE_S)
        return found if is_after else method(*given, **options)

    setattr(owner, name, call)
    try:
        yield began, go_on
    finally:
        go_on.set()
        setattr(owner, name, method)
