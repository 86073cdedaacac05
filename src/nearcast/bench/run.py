"""The boolean benchmark: who wants these messages, and how long does each index take to say so?

No time is reported before the answers are known to be right: every index must give the slots of the first on all
messages, and those of `scan` on a sample. Every figure of a report comes from one run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.errors import InvalidColumns, NearcastError
from nearcast.indexes import Index, Matches, create

if TYPE_CHECKING:
    from nearcast.bench.workloads import Workload
    from nearcast.columns import Messages, Subscriptions
    from nearcast.geo import Space
    from nearcast.text.words import WordTable

QUESTION = "Which boolean subscriptions does each message reach, and how long does an index take to say so?"
PASSES = 3
#: Single calls timed for p50 and p99.
SINGLES = 2_000
#: Tries of one subscription on one message that `scan` may take: some seconds.
SCAN_TRIES = 200_000_000
SCAN_MESSAGES = (20, 500)
#: Subscriptions that a warm-up inserts: more than a delta holds, so that every step is compiled before the clock runs.
WARM_UP_SUBSCRIPTIONS = 5_000
CHANGE_BATCH, CHANGE_BATCHES = 100, 100

Say = Callable[[str], None]
Rows = npt.NDArray[np.int64]


class AnswersDiffer(NearcastError):
    """Two indexes disagree: a defect in one of them, and no time is worth reporting."""


class Encoded(NamedTuple):
    """A workload as the columns an index sees."""

    space: Space
    words: WordTable
    subscriptions: Subscriptions
    messages: Messages


def run_boolean(
    workload: Workload,
    specs: Sequence[str],
    *,
    space: str | None = None,
    command: str = "",
    churn: bool = False,
    say: Say,
) -> dict[str, Any]:
    """Return the report of a run: the workload, the machine, a row for each index, the hub, and churn if asked.

    The hub and churn are measured with the first index named.
    """
    from nearcast.bench.churn import measure_churn
    from nearcast.bench.hubs import measure_hub
    from nearcast.bench.report import machine

    say("encoding the workload")
    columns = encoded(workload, space)
    rows, more = measure(columns, specs, say)
    about = {"question": QUESTION, **workload.about, "space": columns.space.kind, **more, "command": command}
    report: dict[str, Any] = {"workload": about, "machine": machine(), "results": rows}
    report["hub"] = measure_hub(workload, columns.space, specs[0], say)
    if churn:
        report["churn"] = measure_churn(columns, specs[0], say)
    return report


def encoded(workload: Workload, space: str | None = None) -> Encoded:
    """Return the columns of a workload; raise `InvalidColumns` if a row cannot be used."""
    from nearcast.tables import Rejected, read_messages, read_subscriptions, space_of
    from nearcast.text import Analyzer
    from nearcast.text.words import WordTable

    words, analyzer, rejected = WordTable(), Analyzer(), Rejected()
    found = space_of([*workload.subscriptions.column_names, *workload.messages.column_names], space)
    subscriptions = read_subscriptions(workload.subscriptions, found, words, analyzer, rejected=rejected)
    messages = read_messages(workload.messages, found, words, analyzer, rejected=rejected)
    for row in rejected:
        raise InvalidColumns(f"the workload cannot be used: {row.source} row {row.row}, {row.field}: {row.reason}")
    return Encoded(found, words, subscriptions, messages)


def scan_sample(n_subscriptions: int, n_messages: int) -> Rows:
    """Return the message rows that `scan` is asked: as many as take some seconds, spread over all."""
    fewest, most = SCAN_MESSAGES
    n = min(max(SCAN_TRIES // max(n_subscriptions, 1), fewest), most, n_messages)
    return np.linspace(0, n_messages - 1, n).astype(np.int64)


def measure(columns: Encoded, specs: Sequence[str], say: Say) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a row of figures for each index, in order, and what more there is to tell of the passes.

    `scan` is timed on a sample of the messages only; `timed_messages` says on how many.
    """
    sample = scan_sample(len(columns.subscriptions), len(columns.messages))
    say(f"asking scan about {len(sample):,} messages")
    oracle = create("scan", columns.space)
    oracle.insert(columns.subscriptions)
    expected = oracle.match(columns.messages.take(sample))
    answers = _Answers(sample, expected)
    rows, passes, timed = [], {}, {}
    for spec in specs:
        say(f"building {spec}")
        row, passes[spec], timed[spec] = _measure_index(columns, spec, answers, say)
        rows.append(row)
    others = "each index equals the first named on all messages and scan on a sample of"
    return rows, {"checked": f"{others} {len(sample):,}", "passes_us": passes, "timed_messages": timed}


class _Answers:
    """The answers so far: those of `scan` on the sample, and those of the first other index on all messages."""

    def __init__(self, sample: Rows, expected: Matches):
        self.sample, self._expected = sample, expected
        self._all: Matches | None = None
        self._first = ""

    def check(self, spec: str, matches: Matches, *, is_sample: bool) -> None:
        for at, row in enumerate(self.sample.tolist()):
            _check_row(spec, "scan", row, matches.slots_of(at if is_sample else row), self._expected.slots_of(at))
        if is_sample:
            return
        if self._all is None:
            self._all, self._first = matches, spec
        if matches != self._all:
            for row in range(len(matches)):
                _check_row(spec, self._first, row, matches.slots_of(row), self._all.slots_of(row))
            raise AnswersDiffer(f"{spec} and {self._first} give the same slots with different scores")


def _check_row(spec: str, other: str, row: int, found: npt.NDArray[np.int32], expected: npt.NDArray[np.int32]) -> None:
    if np.array_equal(found, expected):
        return
    extra, missing = np.setdiff1d(found, expected)[:3], np.setdiff1d(expected, found)[:3]
    raise AnswersDiffer(
        f"message {row}: {spec} gives {len(found)} slots and {other} {len(expected)}"
        f" (only {spec}: {extra.tolist()}, only {other}: {missing.tolist()}); no times are reported"
    )


def _measure_index(columns: Encoded, spec: str, answers: _Answers, say: Say) -> tuple[dict[str, Any], list[float], int]:
    is_scan = spec.partition(":")[0] == "scan"
    messages = columns.messages.take(answers.sample) if is_scan else columns.messages
    _warm_up(columns, spec)
    index = create(spec, columns.space)
    began = time.perf_counter()
    index.insert(columns.subscriptions)
    build_s = time.perf_counter() - began
    settle(index)
    n_bytes = index.stats()["bytes"]

    say(f"matching {len(messages):,} messages with {spec}")
    matches = index.match(messages)
    answers.check(spec, matches, is_sample=is_scan)
    passes = [cpu_us(lambda: index.match(messages)) / len(messages) for _ in range(PASSES)]
    p50, p99 = _single_call_us(index, messages)
    say(f"inserting and removing with {spec}")
    inserts, removes = _changes_per_s(index, columns.subscriptions)
    n = len(messages)
    row = {
        "index": spec,
        "build_s": round(build_s, 3),
        "bytes_per_subscription": round(n_bytes / len(columns.subscriptions), 1),
        "us_per_message": round(min(passes), 3),
        "p50_us": round(p50, 2),
        "p99_us": round(p99, 2),
        "matches_per_message": round(len(matches.slots) / n, 3),
        "candidates_per_message": round(matches.candidates / n, 2),
        "verified_per_message": round(matches.verified / n, 2),
        "inserts_per_s": round(inserts),
        "removes_per_s": round(removes),
    }
    return row, [round(each, 3) for each in passes], n


def _warm_up(columns: Encoded, spec: str) -> None:
    """Go once through every step on a few rows, so that compilation is not timed."""
    index = create(spec, columns.space)
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


def _single_call_us(index: Index, messages: Messages) -> tuple[float, float]:
    """Return the median and the 99th percentile of calls with one message, by the wall clock."""
    rows = np.linspace(0, len(messages) - 1, min(SINGLES, len(messages))).astype(np.int64)
    singles = [messages.take(np.array([row])) for row in rows]
    index.match(singles[0])
    taken = np.empty(len(singles))
    for at, single in enumerate(singles):
        began = time.perf_counter()
        index.match(single)
        taken[at] = time.perf_counter() - began
    p50, p99 = np.percentile(taken * 1e6, [50, 99])
    return float(p50), float(p99)


def batches_of(subscriptions: Subscriptions, size: int, count: int) -> list[Subscriptions]:
    """Return `count` batches of rows of a workload, beginning anew where it ends."""
    rows = np.arange(size * count) % len(subscriptions)
    return [subscriptions.take(rows[first : first + size]) for first in range(0, len(rows), size)]


def _changes_per_s(index: Index, subscriptions: Subscriptions) -> tuple[float, float]:
    """Return how many subscriptions a second are inserted and removed in batches, beside those held."""
    batches = batches_of(subscriptions, CHANGE_BATCH, CHANGE_BATCHES)
    began = time.perf_counter()
    slots = [index.insert(batch) for batch in batches]
    inserted = time.perf_counter()
    for batch in slots:
        index.remove(batch)
    removed = time.perf_counter()
    n = CHANGE_BATCH * CHANGE_BATCHES
    return n / (inserted - began), n / (removed - inserted)
