"""The writing thread of a durable hub held up, so that calls wait in a test as they do behind a slow disk."""

import threading
from contextlib import contextmanager

from support.waiting import PATIENCE_S, join


@contextmanager
def held_writer(hub):
    """Let the hub make no call until the block is left."""
    is_held, may_go_on = threading.Event(), threading.Event()

    def hold():
        is_held.set()
        may_go_on.wait(PATIENCE_S)

    holding = threading.Thread(target=hub._writer.run_alone, args=(hold,))
    holding.start()
    try:
        assert is_held.wait(PATIENCE_S)
        yield
    finally:
        may_go_on.set()
        join(holding)
