"""Times matching while subscriptions are inserted and removed, in turns with matching an index that rests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.bench.timing import Say, settle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.encoding import EncodedWorkload
    from nearcast.columns import Messages, Subscriptions
    from nearcast.indexes import Index

#: Subscriptions inserted, and as many removed, each second.
RATE = 10_000
BATCH = 100
TURNS, TURN_S = 3, 2.0
#: Messages to a call; changes are made between calls.
CALL_MESSAGES = 1_000


def measure_churn(columns: EncodedWorkload, spec: str, say: Say) -> dict[str, Any]:
    """Return the time per message, quiet and with `RATE` inserts and removes a second, and their ratio.

    Both are taken in turns, each turn with a fresh index, by the wall clock: the time of the changes counts, and so
    does waiting for merges. `rate` is what was reached.
    """
    calls = _calls(columns.messages)
    quiet, busy, made, lasted = [], [], 0, 0.0
    for turn in range(-1, TURNS):
        name = "a warm-up" if turn < 0 else f"{turn + 1} of {TURNS}"
        say(f"matching with {spec}, quiet and under change, {name}")
        index = columns.new_index(spec)
        changes = ChangeMaker(index, columns.subscriptions, index.insert(columns.subscriptions))
        settle(index)
        in_quiet = _us_per_message(index, calls, lambda: None)
        began = time.perf_counter()
        under_change = _us_per_message(index, calls, changes.make_those_due)
        if turn < 0:
            continue  # the first turn compiles and warms the caches
        quiet.append(in_quiet)
        busy.append(under_change)
        made, lasted = made + changes.made, lasted + time.perf_counter() - began
    return {
        "index": spec,
        "quiet_us_per_message": round(float(np.median(quiet)), 3),
        "churn_us_per_message": round(float(np.median(busy)), 3),
        "ratio": round(float(np.median(busy) / np.median(quiet)), 3),
        "rate": round(made / lasted),
    }


def _calls(messages: Messages) -> list[Messages]:
    rows = np.arange(len(messages))
    return [messages.take(rows[first : first + CALL_MESSAGES]) for first in range(0, len(rows), CALL_MESSAGES)]


def _us_per_message(index: Index, calls: list[Messages], between: Callable[[], None]) -> float:
    """Return the microseconds per message of matching for about `TURN_S`, with `between` before every call.

    All calls are made equally often, because messages differ: both sides of the comparison must match the same ones.
    """
    n, began = 0, time.perf_counter()
    while True:
        for call in calls:
            between()
            index.match(call)
            n += len(call)
        taken = time.perf_counter() - began
        if taken >= TURN_S:
            return taken / n * 1e6


class ChangeMaker:
    """Removes subscriptions and inserts them anew, `RATE` a second from the first call on; their number stays."""

    def __init__(self, index: Index, subscriptions: Subscriptions, slots: NDArray[np.int32]):
        self._index, self.slots = index, slots
        rows = np.random.default_rng(0).permutation(len(subscriptions))[:RATE]
        self._rows = [rows[first : first + BATCH] for first in range(0, len(rows), BATCH)]
        self._batches = [subscriptions.take(batch) for batch in self._rows]
        self._began: float | None = None
        self._next = self.made = 0

    def make_those_due(self) -> None:
        """Make as many changes as the time that has passed asks for."""
        now = time.perf_counter()
        self._began = now if self._began is None else self._began
        while self.made < RATE * (now - self._began):
            self.make_one_batch()

    def make_one_batch(self) -> None:
        """Remove the next batch of subscriptions and insert it anew."""
        rows, batch = self._rows[self._next], self._batches[self._next]
        self._index.remove(self.slots[rows])
        self.slots[rows] = self._index.insert(batch)
        self._next = (self._next + 1) % len(self._rows)
        self.made += len(rows)
