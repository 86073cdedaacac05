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


class Known(NamedTuple):
    """The row of an index over so many subscriptions."""

    row: dict[str, Any]
    subscriptions: int


def trial_of(stream: TopkStream, spec: str, say: Say) -> Known | None:
    """Return what an index takes with a tenth of the subscriptions in the whole window, and few arrivals.

    None where there are so few subscriptions that all are soon measured.
    """
    n = len(stream.subscriptions)
    if n < _FEWEST:
        return None
    few = min(_TRIAL_MESSAGES, (stream.messages.num_rows - stream.n_before) // 2)
    part = replace(
        stream,
        subscriptions=stream.subscriptions.take(np.arange(int(n * TRIAL_SHARE))),
        messages=stream.messages.slice(0, stream.n_before + 2 * few),
        n_warm_up=few,
    )
    rows, _ = measure(part, [spec], lambda what: say(f"trial with {len(part.subscriptions):,}: {what}"))
    return Known(rows[0], len(part.subscriptions))


def why_too_much(known: Known, stream: TopkStream, limit_s: float) -> str | None:
    """Return why an index would take too long or too much memory, by what is known of it; None where it would not.

    The join and an arrival take time in proportion to the subscriptions. Filling the window is not counted: it is the
    same for all indexes.
    """
    row, n, arrivals = known.row, len(stream.subscriptions), stream.n_warm_up + stream.n_measured
    taken = row["insert_s"] + row["join_s"] + row["us_per_message"] * arrivals / 1e6
    expected, by = taken * n / known.subscriptions, f"by {known.subscriptions:,} subscriptions"
    if expected > limit_s:
        return f"{expected:,.3g} s are expected, {by}; the limit of a figure is {limit_s:g} s"
    free, needed = free_memory(), row["bytes_per_subscription"] * n * BUILDING_FACTOR
    if free is not None and needed > free:
        return f"up to {needed / 1e9:,.3g} GB are expected; {free / 1e9:,.3g} GB are free"
    return None
