"""The benchmark of top-k subscriptions: what does a message cost that arrives in a full window?

For every index: fill the window, take all subscriptions in with one batch join, let some messages warm up, then measure
arrivals one after the other, on one core unless more threads are asked for. A message that arrives pushes another one
out and may leave buffers short: arrival, expiry and the searches they cause are all counted. No time is reported unless
all indexes deliver the same.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast.bench.stopwatch import Stopwatch
from nearcast.bench.streams import TopkStream, stream_of
from nearcast.bench.timing import Say, change_s, settle
from nearcast.bench.topk_digest import DeliveryDigest, check_sample

if TYPE_CHECKING:
    from nearcast.bench.data.workloads import Workload
    from nearcast.bench.request import BenchRequest
    from nearcast.engine import State
    from nearcast.indexes import Index, Matches

QUESTION = "What does a message cost that arrives in a full window, and which top-k answers does it change?"
#: Subscriptions taken in at once: what they find is looked at and let go before the next.
SLICE = 1 << 16
#: Subscriptions and messages that every step is compiled with before a clock runs.
_TRIAL = 300


def run_topk(workload: Workload, request: BenchRequest, say: Say) -> dict[str, Any]:
    """Return the report of a run: the workload, the machine, and a row for each index; the request has a window."""
    from nearcast.bench.report import machine

    say("encoding the workload")
    assert request.window is not None
    workload = request.max_distance.applied(workload)
    stream = stream_of(workload, request.window, request.n_measured, request.n_warm_up, request.space)
    rows, more = measure(stream, request.indexes, say, request.threads)
    about = {"question": QUESTION, **workload.about, "space": stream.space.kind, **more, "command": request.command}
    return {"workload": about, "machine": machine(), "results": rows}


def measure(
    stream: TopkStream, specs: Sequence[str], say: Say, threads: int = 1
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a row of figures for each index, in order, and what more there is to tell of the runs."""
    rows, first, n_sampled = [], None, 0
    for spec in specs:
        _try_out(stream, spec, say)
        run = _run(stream, spec, say, threads)
        rows.append(run.row)
        if first is None:
            first = run.digest
            say(f"{spec}: comparing with a plain search of the window")
            n_sampled = check_sample(stream, run.state, spec)
        else:
            run.digest.must_equal(spec, first, specs[0])
        del run
        gc.collect()
    assert first is not None
    same = f"all {len(specs)} deliver the same changes" if len(specs) > 1 else "nothing to compare the changes with"
    return rows, {
        "window": str(stream.window),
        "window_messages": rows[0]["window_messages"],
        "filled_by": stream.n_before,
        "warm_up_messages": stream.n_warm_up,
        "measured_messages": stream.n_measured,
        "threads": threads,
        "join_threads": _cores(),
        "changes": first.n_changes,
        "changes_hash": first.hash,
        "checked": f"{same} (hash {first.hash}), the first named has the top-k of a plain search for {n_sampled}",
    }


class _Run(NamedTuple):
    row: dict[str, Any]
    digest: DeliveryDigest
    state: State


class _Counts:
    """How many subscriptions an index found, and how many entries it looked at and scored in full."""

    def __init__(self, index: Index):
        self.found = self.candidates = self.verified = 0
        self._match = index.match
        index.match = self._counted  # type: ignore[method-assign]

    def _counted(self, *arguments: Any, **options: Any) -> Matches:
        matches = self._match(*arguments, **options)
        self.found += len(matches.slots)
        self.candidates += matches.candidates
        self.verified += matches.verified
        return matches


def _try_out(stream: TopkStream, spec: str, say: Say) -> None:
    """Go once through every step with a few rows, so that compilation is not timed."""
    from nearcast.engine import Publish, Subscribe, step
    from nearcast.window import Window

    say(f"{spec}: warming up")
    n = min(_TRIAL, stream.messages.num_rows)
    state = stream.new_state(spec, Window.of(max(1, n // 2)) if stream.window.count else None)
    for first, last in ((0, n // 2), (n // 2, n)):
        for portion in stream.portions(state, first, last):
            step(state, Publish(portion))
        if not first:
            few = stream.subscriptions.take(np.arange(min(_TRIAL, len(stream.subscriptions))))
            step(state, Subscribe(few, threads=_cores()))
    settle(state.index)


def _run(stream: TopkStream, spec: str, say: Say, threads: int) -> _Run:
    from nearcast.engine import Publish, step

    state, digest = stream.new_state(spec), DeliveryDigest()
    say(f"{spec}: filling the window with {stream.n_before:,} messages")
    for portion in stream.portions(state, 0, stream.n_before):
        step(state, Publish(portion))
    say(f"{spec}: searching the window for {len(stream.subscriptions):,} subscriptions")
    joined = _join(stream, state, digest)
    say(f"{spec}: measuring {stream.n_measured:,} messages")
    for portion in stream.portions(state, stream.n_before, stream.first_measured):
        digest.add(step(state, Publish(portion, threads)))
    digest.end_part("before the first message that is measured")
    settle(state.index)
    arrivals = _arrivals(stream, state, digest, threads)
    return _Run({"index": spec} | arrivals | joined | _sizes(state), digest, state)


def _join(stream: TopkStream, state: State, digest: DeliveryDigest) -> dict[str, Any]:
    """Take all subscriptions in; return the seconds by the clock that storing them and searching for them takes.

    What an index leaves for the next message belongs to storing.
    """
    from nearcast.engine import Subscribe, step

    storing, total, rows = 0.0, 0.0, np.arange(len(stream.subscriptions))
    insert = state.index.insert

    def timed_insert(subscriptions: Any) -> Any:
        nonlocal storing
        began = time.perf_counter()
        slots = insert(subscriptions)
        storing += time.perf_counter() - began
        return slots

    state.index.insert = timed_insert  # type: ignore[method-assign]
    for first in range(0, len(rows), SLICE):
        part = stream.subscriptions.take(rows[first : first + SLICE])
        began = time.perf_counter()
        pieces = step(state, Subscribe(part, threads=_cores()))
        total += time.perf_counter() - began
        digest.add(pieces)
        del pieces
    state.index.insert = insert  # type: ignore[method-assign]
    digest.end_part("the first answers")
    message = next(stream.portions(state, stream.n_before, stream.n_before + 1))
    left = change_s(state.index, message, lambda: None)
    return {"insert_s": round(storing + left, 3), "join_s": round(total - storing, 3)}


def _arrivals(stream: TopkStream, state: State, digest: DeliveryDigest, threads: int) -> dict[str, Any]:
    """Let the measured messages arrive; return what one of them costs and concerns."""
    from nearcast.engine import Publish, step

    assert state.topk is not None
    counts, watch = _Counts(state.index), Stopwatch()
    watch.watch(state)
    searched, changes, at, elapsed = state.topk.n_searches, 0, 0, 0.0
    for portion in stream.portions(state, stream.first_measured, stream.messages.num_rows):
        began = time.perf_counter()
        pieces = watch.measured(partial(step, state, Publish(portion, threads)))
        elapsed += time.perf_counter() - began
        changes += digest.add(pieces)
        digest.end_part(f"messages {at:,} to {at + len(portion) - 1:,}")
        at += len(portion)
    us = {phase: seconds * 1e6 / at for phase, seconds in watch.seconds.items()}
    total, searches = watch.total * 1e6 / at, us["searches"]
    return {
        "messages": at,
        "messages_per_s": round(1e6 / total, 1),
        "messages_per_s_by_clock": round(at / elapsed, 1),
        "us_per_message": round(total, 3),
        "amp_us": round(total - searches, 3),
        "emp_us": round(searches, 3),
        **{f"{phase}_us": round(value, 3) for phase, value in us.items()},
        "searches_per_1000": round((state.topk.n_searches - searched) * 1000 / at, 2),
        "affected_per_message": round(counts.found / at, 3),
        "changes_per_message": round(changes / at, 3),
        "candidates_per_message": round(counts.candidates / at, 2),
        "verified_per_message": round(counts.verified / at, 2),
    }


def _sizes(state: State) -> dict[str, Any]:
    assert state.topk is not None
    kept, n = state.topk.stats(), len(state.index)
    index_bytes = state.index.stats()["bytes"]
    return {
        "buffer_length": round(kept["entries"] / n, 2),
        "bytes_per_subscription": round((index_bytes + kept["bytes"]) / n, 1),
        "index_bytes_per_subscription": round(index_bytes / n, 1),
        "buffer_bytes_per_subscription": round(kept["bytes"] / n, 1),
        "window_messages": kept["messages"],
        "window_bytes": kept["message_bytes"],
        "peak_bytes": _peak_bytes(),
    }


def _peak_bytes() -> int | None:
    """Return the most memory that this process has had, None where nobody counts it."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
