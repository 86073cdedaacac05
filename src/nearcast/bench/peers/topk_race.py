"""Top-k answers, kept by a hub beside DuckDB that computes all of them again every second.

Both have the same subscriptions, window, vocabulary and score. The hub is right after every message; DuckDB is right
once a second, if it takes less than that. What both do for a second of messages is the figure that is compared.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.bench.data.distances import MaxDistance
from nearcast.bench.peers.duckdb_join import DuckDbPeer, why_no_duckdb
from nearcast.bench.peers.duckdb_topk import DuckDbTopk
from nearcast.bench.peers.race import DISAGREES, MEASURED, MISSING, SKIPPED

if TYPE_CHECKING:
    from nearcast.bench.data.workloads import Workload
    from nearcast.bench.timing import Say
    from nearcast.hub import Hub
    from nearcast.text import Vocabulary

QUESTION = "What do top-k answers cost that are kept as messages come, beside computing all of them every second?"
#: Scores of two programs that add up in another order differ by less; messages that are so close may change places.
CLOSE = 1e-9
#: DuckDB computes the answers of such a share of the subscriptions first.
TRIAL_SHARE = 0.02
#: Seconds of messages that arrive while the hub is timed.
SECONDS = 3

#: The best messages of a subscription by number, with their scores, the best first.
Ranked = list[tuple[int, float]]


@dataclass(frozen=True)
class TopkRequest:
    """How many messages the window holds and how many come in a second; how long DuckDB may take for all answers."""

    window: int = 10_000
    rate: int = 1_000
    budget_s: float = 120.0

    @property
    def n_messages(self) -> int:
        """Return how many messages fill the window, replace all that is in it, and arrive after that."""
        return 2 * self.window + SECONDS * self.rate


class _TopkData(NamedTuple):
    """Subscriptions and messages with their rows as ids, and what words weigh."""

    subscriptions: pa.Table
    messages: pa.Table
    vocabulary: Vocabulary
    space: str


def run_topk_race(workload: Workload, request: TopkRequest, say: Say) -> dict[str, Any]:
    """Return a row for the hub and one for DuckDB; the workload has `n_messages` of the request."""
    data = _data_of(MaxDistance(usual_share=1.0).applied(workload))
    n = data.subscriptions.num_rows
    say(f"top-k: a hub with {n:,} subscriptions over {request.window:,} messages")
    hub, row = _hub_row(data, request)
    with hub:
        rows = [row, _duckdb_row(data, request, hub, say)]
    about = {"question": QUESTION, "subscriptions": n, "window": request.window, "rate": request.rate}
    return {"workload": about | {"k": data.subscriptions["k"][0].as_py()}, "results": rows}


def _data_of(workload: Workload) -> _TopkData:
    from nearcast.bench.encoding import learned
    from nearcast.geo import Space
    from nearcast.text import Analyzer

    subscriptions, messages = (_numbered(table) for table in (workload.subscriptions, workload.messages))
    space = Space.earth() if "lon" in messages.column_names else Space.plane()
    vocabulary = learned(messages, space, Analyzer()).snapshot()
    return _TopkData(subscriptions, messages, vocabulary, space.kind)


def _numbered(table: pa.Table) -> pa.Table:
    return table.set_column(table.column_names.index("id"), "id", pa.array(np.arange(table.num_rows)))


def _hub_row(data: _TopkData, request: TopkRequest) -> tuple[Hub, dict[str, Any]]:
    """Return a hub that all messages went through, and what the last seconds of them took.

    Buffers are full when subscriptions are new; all messages of that time have left when the clock begins.
    """
    from nearcast.hub import Hub

    hub = Hub(data.space, index="trigger", vocabulary=data.vocabulary, window=request.window)
    hub.publish_many(data.messages.slice(0, request.window))
    hub.subscribe_many(data.subscriptions)
    hub.publish_many(data.messages.slice(request.window, request.window))
    taken, changes = [], 0
    for first in range(2 * request.window, data.messages.num_rows, request.rate):
        arriving = data.messages.slice(first, request.rate)
        began = time.perf_counter()
        changes += len(hub.publish_many(arriving))
        taken.append(time.perf_counter() - began)
    each = median(taken) / request.rate
    return hub, _row("nearcast", MEASURED, each * request.rate) | {
        "us_per_message": round(each * 1e6, 2),
        "changes_per_message": round(changes / (SECONDS * request.rate), 2),
    }


def _row(peer: str, state: str, seconds: float | None, note: str | None = None) -> dict[str, Any]:
    return {
        "peer": peer,
        "state": state,
        "s_each_second": None if seconds is None else round(seconds, 4),
        "us_per_message": None,
        "changes_per_message": None,
        "note": note,
    }


def _duckdb_row(data: _TopkData, request: TopkRequest, hub: Hub, say: Say) -> dict[str, Any]:
    """Return what DuckDB takes for the last second of messages and all answers after it."""
    why = why_no_duckdb()
    if why is not None:
        return _row(DuckDbPeer.name, MISSING, None, why)
    database = DuckDbTopk(data.subscriptions, data.vocabulary, data.space, request.window)
    try:
        last = data.messages.num_rows - request.rate
        database.add(data.messages.slice(last - request.window, request.window))
        began = time.perf_counter()
        database.add(data.messages.slice(last))
        return _computed_row(database, data, request, hub, say, time.perf_counter() - began)
    finally:
        database.close()


def _computed_row(
    database: DuckDbTopk, data: _TopkData, request: TopkRequest, hub: Hub, say: Say, arriving_s: float
) -> dict[str, Any]:
    """Compute some answers, then all of them if that is within the budget."""
    n, taken = data.subscriptions.num_rows, 0.0
    for asked in (max(1, int(n * TRIAL_SHARE)), n):
        say(f"top-k: duckdb, {asked:,} of {n:,} subscriptions")
        began = time.perf_counter()
        found = database.answers(asked)
        taken = time.perf_counter() - began
        # DuckDB began with a later message than the hub, and numbers them from that one on.
        wrong = _first_wrong(found, asked, data.messages.num_rows - database.arrived, hub)
        if wrong is not None:
            return _row(DuckDbPeer.name, DISAGREES, None, wrong)
        expected = taken * n / asked + arriving_s
        if expected > request.budget_s and asked < n:
            limit = f"the budget is --budget {request.budget_s:g}"
            note = f"the answers of {asked:,} took {taken:,.3g} s, {expected:,.3g} s are expected for all; {limit}"
            return _row(DuckDbPeer.name, SKIPPED, None, note)
    return _row(DuckDbPeer.name, MEASURED, taken + arriving_s)


def _first_wrong(found: dict[str, Any], n: int, first: int, hub: Hub) -> str | None:
    """Return in what the answers of the first `n` subscriptions are wrong, None if they are right."""
    theirs: dict[int, Ranked] = {}
    rows = zip(*(found[name].tolist() for name in ("subscription", "number", "score")), strict=True)
    for subscription, number, score in rows:
        theirs.setdefault(subscription, []).append((number + first, score))
    for subscription in range(n):
        ours = [(int(each.message_id), float(each.score or 0.0)) for each in hub.current(subscription)]
        wrong = difference(ours, sorted(theirs.get(subscription, []), key=lambda each: -each[1]))
        if wrong is not None:
            return f"subscription {subscription}: {wrong}"
    return None


def difference(ours: Ranked, theirs: Ranked) -> str | None:
    """Return in what two lists of the best differ, None if only in messages with nearly the same score."""
    if len(ours) != len(theirs):
        return f"{len(theirs)} messages where {len(ours)} are right"
    for (_, right), (_, score) in zip(ours, theirs, strict=True):
        if abs(right - score) > CLOSE:
            return f"a score of {score!r} where {right!r} is right"
    # The last of k may be any of several that are as good.
    scores = dict(ours) | dict(theirs)
    odd = sorted(dict(ours).keys() ^ dict(theirs).keys())
    if any(scores[number] > ours[-1][1] + 2 * CLOSE for number in odd):
        return f"other messages: {odd[:3]}"
    return None
