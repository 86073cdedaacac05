"""Taking times: how long an index takes to build, to answer and to change."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.encoding import EncodedWorkload
    from nearcast.columns import Messages, Subscriptions
    from nearcast.indexes import Index, Matches

PASSES = 3
#: Single calls timed for p50 and p99: so many, or fewer when they would take longer than this.
SINGLES, SINGLES_S, FEWEST_SINGLES = 2_000, 5.0, 20
#: Subscriptions that a warm-up inserts: more than a delta holds, so that every step is compiled before the clock runs.
WARM_UP_SUBSCRIPTIONS = 5_000
CHANGE_BATCH, CHANGE_BATCHES = 100, 100

Say = Callable[[str], None]


@dataclass(frozen=True)
class BuiltIndex:
    """An index of all subscriptions of a workload, the seconds that building it took, and its size."""

    index: Index
    seconds: float
    n_bytes: int


def built(columns: EncodedWorkload, spec: str) -> BuiltIndex:
    """Return an index of all subscriptions, timed by the clock after a warm-up."""
    _warm_up(columns, spec)
    index = columns.new_index(spec)
    message = columns.messages.take(np.arange(1))
    seconds = change_s(index, message, lambda: index.insert(columns.subscriptions))
    settle(index)
    return BuiltIndex(index, seconds, index.stats()["bytes"])


def _warm_up(columns: EncodedWorkload, spec: str) -> None:
    """Go once through every step on a few rows, so that compilation is not timed."""
    index = columns.new_index(spec)
    few = np.arange(min(WARM_UP_SUBSCRIPTIONS, len(columns.subscriptions)))
    slots = index.insert(columns.subscriptions.take(few))
    index.match(columns.messages.take(np.arange(min(10, len(columns.messages)))))
    index.remove(slots[:1])
    index.insert(columns.subscriptions.take(few[:1]))
    index.match(columns.messages.take(np.arange(1)))
    settle(index)


def settle(index: Index) -> None:
    """Wait for work in the background, in an index that has any."""
    wait = getattr(index, "settle", None)
    if wait is not None:
        wait()


def cpu_us(work: Callable[[], object]) -> float:
    """Return the microseconds of CPU time that one call takes in this process, all threads together."""
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1e6


def passes_us(index: Index, messages: Messages, least_s: float = 0.0) -> list[float]:
    """Return the microseconds of CPU time per message of each pass over all messages.

    There are `PASSES`, and more while they have not lasted `least_s` together.
    """
    passes: list[float] = []
    while len(passes) < PASSES or sum(passes) < least_s * 1e6:
        passes.append(cpu_us(lambda: index.match(messages)))
    return [each / len(messages) for each in passes]


def copy_us(matches: Matches) -> float:
    """Return the microseconds of CPU time that a copy of all answers into new arrays takes: the best of the passes."""
    return min(
        cpu_us(lambda: (matches.start.copy(), matches.slots.copy(), matches.score.copy())) for _ in range(PASSES)
    )


def singles_within(most: int, us_each: float) -> int:
    """Return how many single calls to time when each takes `us_each`: `most`, or as many as take `SINGLES_S`."""
    return min(most, max(FEWEST_SINGLES, int(SINGLES_S * 1e6 / max(us_each, 1.0))))


class SingleCalls(NamedTuple):
    """The median and the 99th percentile of calls with one message in µs; matches of a call of the slowest 1 %."""

    p50_us: float
    p99_us: float
    slow_matches: float


def single_calls(index: Index, messages: Messages, us_each: float) -> SingleCalls:
    """Time calls with one message each, by the wall clock."""
    count = min(singles_within(SINGLES, us_each), len(messages))
    singles = [messages.take(np.array([row])) for row in spread(len(messages), count)]
    index.match(singles[0])
    taken, n_matches = np.empty(len(singles)), np.empty(len(singles))
    for at, single in enumerate(singles):
        began = time.perf_counter()
        matches = index.match(single)
        taken[at] = time.perf_counter() - began
        n_matches[at] = len(matches.slots)
    p50, p99 = np.percentile(taken, [50, 99])
    return SingleCalls(float(p50) * 1e6, float(p99) * 1e6, float(n_matches[taken >= p99].mean()))


def spread(n: int, count: int) -> NDArray[np.int64]:
    """Return `count` of `n` rows, evenly spread, with the first and the last."""
    return np.linspace(0, n - 1, count).astype(np.int64)


def batches_of(subscriptions: Subscriptions, rows: NDArray[np.int64]) -> list[Subscriptions]:
    """Return these rows in batches of `CHANGE_BATCH`."""
    return [subscriptions.take(rows[first : first + CHANGE_BATCH]) for first in range(0, len(rows), CHANGE_BATCH)]


def changes_per_s(index: Index, columns: EncodedWorkload) -> tuple[float, float]:
    """Return how many subscriptions a second are inserted and removed in batches, beside those held."""
    n, message = CHANGE_BATCH * CHANGE_BATCHES, columns.messages.take(np.arange(1))
    batches = batches_of(columns.subscriptions, np.arange(n) % len(columns.subscriptions))
    slots: list[NDArray[np.int32]] = []
    inserting = change_s(index, message, lambda: slots.extend([index.insert(batch) for batch in batches]))
    removing = change_s(index, message, lambda: [index.remove(batch) for batch in slots])
    return n / inserting, n / removing


def changes_s(index: Index, messages: Messages, changes: Sequence[Callable[[], object]]) -> float:
    """Return the seconds that all of some changes take, each with what it adds to the time of a message after it.

    The messages take turns: an index may learn from those it is asked. What adds up is taken off at the end, because
    one message alone may well take longer when it is asked again.
    """
    changing = waiting = 0.0
    for at, change in enumerate(changes):
        message = messages.take(np.array([at % len(messages)]))
        began = time.perf_counter()
        change()
        changed = time.perf_counter()
        index.match(message)
        answered = time.perf_counter()
        index.match(message)
        changing += changed - began
        waiting += answered - changed - (time.perf_counter() - answered)
    return changing + max(0.0, waiting)


def change_s(index: Index, message: Messages, change: Callable[[], object]) -> float:
    """Return the seconds that a change takes, by the clock, and what it adds to the time of the next message.

    An index may leave work for whoever asks next; that work is part of the change, the answer is not.
    """
    began = time.perf_counter()
    change()
    changed = time.perf_counter()
    index.match(message)
    answered = time.perf_counter()
    index.match(message)
    again = time.perf_counter() - answered
    return changed - began + max(0.0, answered - changed - again)
