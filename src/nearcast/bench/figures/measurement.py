"""The measuring functions of figures: at every point of data that changes, or after every step of growth.

As everywhere, an index is timed only after its answers were found equal to those of the others and of `scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.bench.answers import Answers, answers_of_scan, is_scan
from nearcast.bench.data.workloads import Recipe, Workload
from nearcast.bench.encoding import EncodedWorkload, encoded
from nearcast.bench.figures.figure import with_options
from nearcast.bench.limits import rows_within, why_not_built
from nearcast.bench.timing import Say, batches_of, built, change_s, passes_us, settle

if TYPE_CHECKING:
    from nearcast.bench.figures.figure import Figure, Point, Row, Series
    from nearcast.indexes import Index

#: The share of its first subscriptions by which an index grows at each step of `over_inserts`.
GROWTH = 0.1
#: How long an index is timed at a point, at least: passes over few messages are over too soon to tell.
LEAST_S = 0.3
#: How long an index is asked messages at a point of a figure that has a limit.
MATCH_S = 2.0
_BUILT = ("build_s", "bytes_per_subscription", "listed_tokens")
_MEASURED = ("messages", "ms_per_message", "matches_per_message", "accessed_share", "verified_share")

Draw = Callable[[Recipe, int, int], Workload]


@dataclass
class FigureData:
    """What a figure is measured on: `draw` makes a workload of a recipe and two sizes, ready to be encoded.

    `about` tells of the last one. Points that ask for the same data one after the other get the same columns.
    `draw_from` gives what draws from a source that a point names.
    """

    draw: Draw
    space: str | None = None
    about: dict[str, Any] = field(default_factory=dict)
    draw_from: Callable[[str], Draw] | None = None
    _last: tuple[tuple[Recipe, int, int], EncodedWorkload] | None = None

    def columns(self, recipe: Recipe, subscriptions: int, messages: int) -> EncodedWorkload:
        """Return the columns of so many subscriptions and messages."""
        asked = (recipe, subscriptions, messages)
        if self._last is None or self._last[0] != asked:
            self._last = None  # two at a time would need twice the memory
            workload = self.draw(*asked)
            self._last = (asked, encoded(workload, self.space))
            self.about = workload.about | {"space": self._last[1].space.kind}
        return self._last[1]

    def of_point(self, point: Point) -> FigureData:
        """Return the data of a point: these, unless it names a source."""
        if point.source is None or self.draw_from is None:
            return self
        return FigureData(self.draw_from(point.source), self.space, self.about)


def over_points(figure: Figure, data: FigureData, say: Say) -> Iterator[Row]:
    """Measure every series at every point: build the index, match all messages."""
    for at, point in enumerate(figure.points):
        where = f"point {at + 1} of {len(figure.points)}"
        say(f"{where}: preparing the data")
        n = max(1, round(figure.subscriptions * point.share))
        columns, answers = answers_of_scan(data.columns(point.recipe, n, figure.messages), lambda _: None)
        for series in figure.series:
            say(f"{where}: {series.label}")
            spec = with_options(series.spec, point.options)
            row = head_of(point, series, spec, columns)
            reason = None if figure.limit_s is None else why_not_built(columns, spec, figure.limit_s)
            if reason is not None:
                yield row | dict.fromkeys((*_BUILT, *_MEASURED)) | {"skipped": reason}
                continue
            made = built(columns, spec)
            row |= {"build_s": round(made.seconds, 3), "bytes_per_subscription": round(made.n_bytes / n, 1)}
            row["listed_tokens"] = made.index.stats().get("listed_tokens")  # of an index that has prefixes
            yield row | _matching(made.index, columns, spec, answers, figure.limit_s) | {"skipped": None}


def over_inserts(figure: Figure, data: FigureData, say: Say) -> Iterator[Row]:
    """Build every series from the data of the first point; at each point insert a tenth more and match all messages."""
    n, step = figure.subscriptions, max(1, round(figure.subscriptions * GROWTH))
    say("preparing the data")
    every = data.columns(figure.points[0].recipe, n + step * len(figure.points), figure.messages)
    steps = range(1, len(figure.points) + 1)
    checked = [answers_of_scan(first_rows(every, n + step * at), lambda _: None) for at in steps]
    for series in figure.series:
        say(f"building {series.label}")
        reason = None if figure.limit_s is None else why_not_built(first_rows(every, n), series.spec, figure.limit_s)
        if reason is not None:
            for point, (columns, _) in zip(figure.points, checked, strict=True):
                row = head_of(point, series, series.spec, columns)
                yield row | dict.fromkeys(("update_us", *_MEASURED)) | {"skipped": reason}
            continue
        index = built(first_rows(every, n), series.spec).index
        for at, point, (columns, answers) in zip(steps, figure.points, checked, strict=True):
            say(f"step {at} of {len(steps)}: {series.label}")
            taken = insert_s(index, columns, n + step * (at - 1))
            row = head_of(point, series, series.spec, columns) | {"update_us": round(taken * 1e6 / step, 3)}
            yield row | _matching(index, columns, series.spec, answers, figure.limit_s) | {"skipped": None}


def first_rows(columns: EncodedWorkload, n: int) -> EncodedWorkload:
    """Return the same with the first `n` subscriptions only."""
    return columns._replace(subscriptions=columns.subscriptions.take(np.arange(n)))


def head_of(point: Point, series: Series, spec: str, columns: EncodedWorkload) -> Row:
    """Return what a row begins with: where it stands, and what was measured."""
    n = len(columns.subscriptions)
    return {"x": n if point.x is None else point.x, "series": series.label, "index": spec, "subscriptions": n}


def _matching(
    index: Index, columns: EncodedWorkload, spec: str, answers: Answers, limit_s: float | None
) -> dict[str, Any]:
    """Check the answers, then return the time per message, how many answers there are and how many were looked at.

    `scan` is asked the sample. Where there is a limit, no more messages are asked than there is time for.
    """
    rows = None if limit_s is None else rows_within(index, columns.messages, answers, MATCH_S)
    if rows is None and is_scan(spec):
        rows = answers.sample
    messages = columns.messages if rows is None else columns.messages.take(rows)
    matches = index.match(messages)
    answers.check(spec, matches, rows)
    per_pair = len(messages) * len(columns.subscriptions)
    found = (
        len(messages),
        round(min(passes_us(index, messages, LEAST_S)) / 1e3, 6),
        round(len(matches.slots) / len(messages), 3),
        round(matches.candidates / per_pair, 6),
        round(matches.verified / per_pair, 6),
    )
    return dict(zip(_MEASURED, found, strict=True))


def insert_s(index: Index, columns: EncodedWorkload, first: int) -> float:
    """Insert the rows from `first` on in batches; return the seconds that takes."""
    batches = batches_of(columns.subscriptions, np.arange(first, len(columns.subscriptions)))
    message = columns.messages.take(np.arange(1))
    seconds = change_s(index, message, lambda: [index.insert(batch) for batch in batches])
    settle(index)
    return seconds
