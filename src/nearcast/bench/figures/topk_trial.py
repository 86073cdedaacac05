"""Predicts how long an index of top-k subscriptions would take on a stream, from a trial with a part of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast.bench.limits import BUILDING_FACTOR, TRIAL_SHARE, free_memory
from nearcast.bench.topk import measure

if TYPE_CHECKING:
    from nearcast.bench.streams import TopkStream
    from nearcast.bench.timing import Say

#: Arrivals that a trial measures, after as many that warm up.
_TRIAL_MESSAGES = 512
#: Below so many subscriptions nothing is tried: all are soon measured.
_FEWEST = 20_000


class StreamTrial(NamedTuple):
    """What a part of the subscriptions took, and why all would take too long or too much; None where they would not."""

    row: dict[str, Any]
    why_not: str | None


def trial_of(stream: TopkStream, spec: str, limit_s: float, say: Say) -> StreamTrial:
    """Measure an index with a tenth of the subscriptions in the whole window, and few arrivals.

    The join and an arrival take time in proportion to the subscriptions. Filling the window is not counted: it is the
    same for all indexes.
    """
    n = len(stream.subscriptions)
    if n < _FEWEST:
        return StreamTrial({}, None)
    few = min(_TRIAL_MESSAGES, (stream.messages.num_rows - stream.n_before) // 2)
    part = replace(
        stream,
        subscriptions=stream.subscriptions.take(np.arange(int(n * TRIAL_SHARE))),
        messages=stream.messages.slice(0, stream.n_before + 2 * few),
        n_warm_up=few,
    )
    rows, _ = measure(part, [spec], lambda what: say(f"trial with {len(part.subscriptions):,}: {what}"))
    row, times = rows[0], n / len(part.subscriptions)
    arrivals = stream.n_warm_up + stream.n_measured
    expected = (row["insert_s"] + row["join_s"] + row["us_per_message"] * arrivals / 1e6) * times
    if expected > limit_s:
        return StreamTrial(row, f"{expected:,.3g} s are expected, by a tenth; the limit of a figure is {limit_s:g} s")
    free, needed = free_memory(), row["bytes_per_subscription"] * n * BUILDING_FACTOR
    if free is not None and needed > free:
        return StreamTrial(row, f"up to {needed / 1e9:,.3g} GB are expected; {free / 1e9:,.3g} GB are free")
    return StreamTrial(row, None)
