"""Predicts time and memory of building an index from smaller sizes, so that a run can skip what is too much."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nearcast.bench.timing import PASSES, WARM_UP_SUBSCRIPTIONS, built

if TYPE_CHECKING:
    from nearcast.bench.answers import Answers, Rows
    from nearcast.bench.encoding import EncodedWorkload
    from nearcast.columns import Messages
    from nearcast.indexes import Index

#: Messages asked first, to see how long one takes; and the fewest that a time is told of.
TRIAL_MESSAGES, FEWEST_MESSAGES = 5, 10
#: Before an index is built from all rows it is built from so large a part of them, where that is not too little.
TRIAL_SHARE = 0.1
#: An index takes up to so many times its final size while it is built.
BUILDING_FACTOR = 3.0


@dataclass(frozen=True)
class BuildSample:
    """The seconds and bytes that building an index of some number of subscriptions took."""

    subscriptions: int
    seconds: float
    n_bytes: int


@dataclass
class Expectation:
    """Extrapolates time and memory of building an index from sizes it was built at; `limit` is the limit in words."""

    limit_s: float
    limit: str
    known: list[BuildSample] = field(default_factory=list)

    def note(self, subscriptions: int, seconds: float, n_bytes: int) -> None:
        """Remember what a size took."""
        self.known.append(BuildSample(subscriptions, seconds, n_bytes))

    def seconds(self, n: int) -> float:
        """Return the seconds expected for `n` subscriptions: in proportion, or by the power they grew by before."""
        last = self.known[-1]
        return float(last.seconds * (n / last.subscriptions) ** self._power())

    def why_not(self, n: int, free_bytes: int | None) -> str | None:
        """Return why an index of `n` subscriptions is not to be built, None where nothing is known against it."""
        if not self.known:
            return None
        last, expected = self.known[-1], self.seconds(n)
        before = f"at {last.subscriptions:,}"
        if expected > self.limit_s:
            return f"build {before} took {last.seconds:,.3g} s, {expected:,.3g} s are expected here; {self.limit}"
        needed = last.n_bytes * n / last.subscriptions * BUILDING_FACTOR
        if free_bytes is not None and needed > free_bytes:
            return (
                f"{last.n_bytes / 1e9:,.3g} GB {before}, up to {needed / 1e9:,.3g} GB are expected while it is built;"
                f" {free_bytes / 1e9:,.3g} GB are free"
            )
        return None

    def _power(self) -> float:
        """Return by which power of the size the time grew between the last two sizes, at least 1."""
        if len(self.known) < 2:
            return 1.0
        a, b = self.known[-2:]
        if a.seconds <= 0 or a.seconds >= b.seconds or a.subscriptions >= b.subscriptions:
            return 1.0
        return min(3.0, max(1.0, math.log(b.seconds / a.seconds) / math.log(b.subscriptions / a.subscriptions)))


def note_trial(expectation: Expectation, columns: EncodedWorkload, spec: str) -> None:
    """Build an index from a part of the rows to see what all would take, where nothing is known and it is worth it."""
    n = int(len(columns.subscriptions) * TRIAL_SHARE)
    if expectation.known or n < WARM_UP_SUBSCRIPTIONS:
        return
    made = built(columns._replace(subscriptions=columns.subscriptions.take(np.arange(n))), spec)
    expectation.note(n, made.seconds, made.n_bytes)


def why_not_built(columns: EncodedWorkload, spec: str, limit_s: float) -> str | None:
    """Return why building an index from all rows would take too long or too much memory, by a trial with a part."""
    expected = Expectation(limit_s, f"the limit of a figure is {limit_s:g} s")
    note_trial(expected, columns, spec)
    return expected.why_not(len(columns.subscriptions), free_memory())


def rows_within(index: Index, messages: Messages, answers: Answers, budget_s: float) -> Rows | None:
    """Return which messages can be matched several times within a time, None for all of them.

    They are never fewer than `FEWEST_MESSAGES`, however long these take.
    """
    few = messages.take(answers.some_messages(min(TRIAL_MESSAGES, len(messages)), len(messages)))
    each = min(_clocked_s(index, few) for _ in range(2)) / len(few)
    most = int(budget_s / max(each, 1e-9) / (PASSES + 1))
    if most >= len(messages):
        return None
    return answers.some_messages(min(max(most, FEWEST_MESSAGES), len(messages)), len(messages))


def _clocked_s(index: Index, messages: Messages) -> float:
    began = time.perf_counter()
    index.match(messages)
    return time.perf_counter() - began


def free_memory() -> int | None:
    """Return how many bytes a process may still allocate, None where that is not known."""
    found = [each for each in (_available(), _left_in_group()) if each is not None]
    return min(found) if found else None


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _left_in_group() -> int | None:
    """Return what is left of the limit of a container, if there is one."""
    folder = Path("/sys/fs/cgroup")
    try:
        most, used = ((folder / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return None if most == "max" else int(most) - int(used)
    except (OSError, ValueError):
        return None
