"""The measuring functions of the figures of boolean subscriptions: many indexes, some of them slow, in minutes.

Every index has so much time at a point: one that would take longer is asked fewer messages, of which the row tells, and
one whose building would take too long is skipped, with the reason in the row. As everywhere, answers are checked before
anything is timed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.bench.answers import Answers, answers_of_scan, is_scan
from nearcast.bench.figures.figure import SOURCE, with_options
from nearcast.bench.figures.measurement import MATCH_S, first_rows, head_of
from nearcast.bench.limits import rows_within, why_not_built
from nearcast.bench.timing import (
    CHANGE_BATCH,
    PASSES,
    WARM_UP_SUBSCRIPTIONS,
    Say,
    batches_of,
    built,
    changes_s,
    cpu_us,
    settle,
    spread,
)
from nearcast.indexes import Index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.encoding import EncodedWorkload
    from nearcast.bench.figures.figure import Figure, Point, Row, Series
    from nearcast.bench.figures.measurement import FigureData
    from nearcast.columns import Messages

#: How long an index is asked messages at a point, at least: short passes are too noisy. And how long building it, or
#: inserting, may take.
LEAST_S, BUILD_S = 0.2, 60.0
#: Batches that are inserted first to see how long all would take; and batches that are removed.
TRIAL_BATCHES, REMOVED_BATCHES = 20, 50
#: An index that follows what messages are like does so after this many of them, or after one for so many subscriptions.
FOLLOWING_MESSAGES, SUBSCRIPTIONS_PER_MESSAGE = 4096, 4

_MEASURED = (
    "messages",
    "us_per_message",
    "matches_per_message",
    "candidates_per_message",
    "verified_per_message",
)
_BUILT = ("build_s", "bytes_per_subscription")
_CHANGED = ("insert_us", "remove_us")


def race(figure: Figure, data: FigureData, say: Say) -> Iterator[Row]:
    """Measure every series at every point: build the index, match as many messages as there is time for."""
    for at, point in enumerate(figure.points):
        where = f"point {at + 1} of {len(figure.points)}"
        say(f"{where}: preparing the data")
        n = max(1, round(figure.subscriptions * point.share))
        columns, answers = _data(figure, data, point, n)
        for series in figure.series:
            say(f"{where}: {series.label}")
            spec = with_options(series.spec, point.options)
            reason = why_not_built(columns, spec, figure.limit_s or BUILD_S)
            row = _head(data, point, series, spec, columns)
            if reason is not None:
                yield row | dict.fromkeys((*_BUILT, *_MEASURED)) | {"skipped": reason}
                continue
            made = built(columns, spec)
            row |= {"build_s": round(made.seconds, 3), "bytes_per_subscription": round(made.n_bytes / n, 1)}
            yield row | matching(made.index, columns, spec, answers, MATCH_S) | {"skipped": None}


def race_after_changes(figure: Figure, data: FigureData, say: Say) -> Iterator[Row]:
    """Build every series at every point from a share of the subscriptions, insert the others, and match.

    Then some are removed. Times of changes are by the clock: in batches, a message after each, with what it waits
    longer. The share is more than half, or an index might be built anew in between.
    """
    for at, point in enumerate(figure.points):
        where = f"point {at + 1} of {len(figure.points)}"
        say(f"{where}: preparing the data")
        columns, answers = _data(figure, data, point, figure.subscriptions)
        n = min(max(1, round(figure.subscriptions * point.share)), figure.subscriptions)
        for series in figure.series:
            say(f"{where}: {series.label}")
            spec = with_options(series.spec, point.options)
            _warm_up_changes(columns, spec, point.share)
            index = built(first_rows(columns, n), spec).index
            row = _head(data, point, series, spec, columns)
            insert_us, reason = _insert_rest(index, columns, n)
            if reason is not None:
                yield row | dict.fromkeys((*_CHANGED, *_MEASURED)) | {"skipped": reason}
                continue
            found = matching(index, columns, spec, answers, MATCH_S)
            changed = {"insert_us": insert_us, "remove_us": _remove_some(index, columns)}
            yield row | changed | found | {"skipped": None}


def race_along_messages(figure: Figure, data: FigureData, say: Say) -> Iterator[Row]:
    """Build every series for messages in the west, then match those of each point, ever farther in the east.

    An index that follows what messages are like does so before it is timed at a point, by other messages of there.
    """
    say("preparing the data")
    steps = len(figure.points)
    n_others = max(figure.history, steps)
    drawn = data.columns(figure.points[0].recipe, figure.subscriptions, n_others + figure.messages * steps)
    every = drawn.with_history(n_others)
    others = _from_west(drawn.messages.take(np.arange(n_others)), steps)
    parts = [
        answers_of_scan(every._replace(messages=part), lambda _: None) for part in _from_west(every.messages, steps)
    ]
    for series in figure.series:
        say(f"building {series.label}")
        index = built(every._replace(messages=others[0], history=others[0]), series.spec).index
        for at, (point, (columns, answers)) in enumerate(zip(figure.points, parts, strict=True)):
            say(f"step {at + 1} of {steps}: {series.label}")
            _let_follow(index, others[at])
            row = _head(data, point, series, series.spec, columns)
            yield row | matching(index, columns, series.spec, answers, MATCH_S) | {"skipped": None}


def matching(index: Index, columns: EncodedWorkload, spec: str, answers: Answers, budget_s: float) -> dict[str, Any]:
    """Check the answers to as many messages as there is time for; return what matching them takes."""
    if is_scan(spec):
        rows, messages = None, columns.messages.take(answers.sample)
    else:
        rows = rows_within(index, columns.messages, answers, budget_s)
        messages = columns.messages if rows is None else columns.messages.take(rows)
    began = time.perf_counter()
    matches = index.match(messages)
    repeats = max(1, math.ceil(LEAST_S / PASSES / (time.perf_counter() - began)))
    answers.check(spec, matches, rows)
    n = len(messages)
    found = (
        n,
        round(_us_per_message(index, messages, repeats), 3),
        round(len(matches.slots) / n, 3),
        round(matches.candidates / n, 2),
        round(matches.verified / n, 2),
    )
    return dict(zip(_MEASURED, found, strict=True))


def _from_west(messages: Messages, parts: int) -> list[Messages]:
    """Return as many parts of the messages, from west to east."""
    order = np.argsort(messages.box[:, 0], kind="stable")
    return [messages.take(rows) for rows in np.array_split(order, parts)]


def _let_follow(index: Index, messages: Messages) -> None:
    """Ask these messages until an index that learns from messages has followed them, however fast the machine is.

    It may first follow a mixture with messages of before: so it is asked enough for twice.
    """
    if type(index).learn is Index.learn:
        return
    enough = max(FOLLOWING_MESSAGES, len(index) // SUBSCRIPTIONS_PER_MESSAGE)
    for _ in range(2 * math.ceil(enough / len(messages))):
        index.match(messages)


def _us_per_message(index: Index, messages: Messages, repeats: int) -> float:
    """Return the µs of CPU time per message of the best pass; a pass matches all messages so often."""
    passes = [cpu_us(lambda: [index.match(messages) for _ in range(repeats)]) for _ in range(PASSES)]
    return min(passes) / repeats / len(messages)


def _data(figure: Figure, data: FigureData, point: Point, n: int) -> tuple[EncodedWorkload, Answers]:
    """Return the columns of a point, and what `scan` answers to some of its messages."""
    own = data.of_point(point)
    columns = own.columns(point.recipe, n, figure.history + figure.messages)
    data.about = own.about
    if figure.history:
        columns = columns.with_history(figure.history)
    return answers_of_scan(columns, lambda _: None)


def _head(data: FigureData, point: Point, series: Series, spec: str, columns: EncodedWorkload) -> Row:
    row = head_of(point, series, spec, columns)
    return row | {"x": str(data.about["source"]).removesuffix(".parquet")} if point.x == SOURCE else row


def _warm_up_changes(columns: EncodedWorkload, spec: str, share: float) -> None:
    """Change an index of a few rows, spread over all, in the same way, so that compilation is not timed."""
    total = len(columns.subscriptions)
    rows = spread(total, min(total, WARM_UP_SUBSCRIPTIONS))
    few = columns._replace(subscriptions=columns.subscriptions.take(rows))
    index, n = columns.new_index(spec), max(1, round(len(rows) * share))
    index.insert(few.subscriptions.take(np.arange(n)))
    index.match(few.messages.take(np.arange(1)))
    _insert_s(index, few, np.arange(n, len(rows)))
    settle(index)


def _insert_rest(index: Index, columns: EncodedWorkload, n: int) -> tuple[float | None, str | None]:
    """Insert the rows from `n` on; return the µs that each took, or why that would take too long."""
    total = len(columns.subscriptions)
    if total == n:
        return None, None
    first = min(total, n + TRIAL_BATCHES * CHANGE_BATCH)
    seconds = _insert_s(index, columns, np.arange(n, first))
    expected = seconds * (total - n) / (first - n)
    if expected > BUILD_S:
        return None, f"inserting {total - n:,} would take {expected:,.3g} s; the limit of a figure is {BUILD_S:g} s"
    seconds += _insert_s(index, columns, np.arange(first, total))
    settle(index)
    return round(seconds * 1e6 / (total - n), 3), None


def _insert_s(index: Index, columns: EncodedWorkload, rows: NDArray[np.int64]) -> float:
    batches = batches_of(columns.subscriptions, rows)
    return changes_s(index, columns.messages, [partial(index.insert, batch) for batch in batches])


def _remove_some(index: Index, columns: EncodedWorkload) -> float:
    """Remove some subscriptions at random; return the µs that each takes."""
    n = len(columns.subscriptions)
    slots = np.random.default_rng(0).permutation(n)[: REMOVED_BATCHES * CHANGE_BATCH].astype(np.int32)
    batches = [slots[first : first + CHANGE_BATCH] for first in range(0, len(slots), CHANGE_BATCH)]
    seconds = changes_s(index, columns.messages, [partial(index.remove, batch) for batch in batches])
    return round(seconds * 1e6 / len(slots), 3)
