"""Events: deliveries that wait for a subscriber, with their cursors and messages, made from the rows of runs.

What is read together comes as columns first, and those who read say what is made of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

import numpy as np

from nearcast._ids import Id, id_of
from nearcast.columns import datetime_of
from nearcast.deliveries import delivery_values
from nearcast.delivery_ids import delivery_id
from nearcast.durable.outbox.cursors import BEGIN, Cursor
from nearcast.durable.outbox.kept_messages import MessageCache, first_kept, messages_at
from nearcast.durable.outbox.runs import CAUSED, KIND_NAMES, LEAVING, SortedRun

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.model import Delivery, Message

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Event:
    """A delivery that waits for its subscriber.

    `kind` is "match" (`+` by a message), "enter" or "exit" (`+` and `-` of other steps), "expired", "topk.added" or
    "topk.removed". `message` is whole, with place and attributes; None if it is not kept any more.
    """

    cursor: Cursor
    kind: str
    delivery: Delivery
    message: Message | None

    @property
    def subscription_id(self) -> Id:
        """Return the id of the subscription that the delivery is of."""
        return self.delivery.subscription_id


class WaitingEvents(Sequence[Event]):
    """Events of a subscriber in order; `gap` is how many were dropped by the retention before the first of them.

    The search for them began at `begin`. `cursor` is that of the last one; without any, that of the last one dropped,
    or `begin`. `read_to` lies before what came later: all up to it was looked at.
    """

    def __init__(self, events: list[Any], begin: Cursor, dropped: Cursor, gap: int, end: Cursor = BEGIN):
        self._events, self.begin, self.gap = events, begin, gap
        self.cursor = events[-1].cursor if events else dropped
        self.read_to = max(self.cursor, end)

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, at: int) -> Event: ...
    @overload
    def __getitem__(self, at: slice) -> list[Event]: ...
    def __getitem__(self, at: int | slice) -> Event | list[Event]:
        return self._events[at]

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def __repr__(self) -> str:
        return f"<WaitingEvents: {len(self):,} up to {self.cursor}, gap {self.gap:,}>"


class RowSpan(NamedTuple):
    """Some rows of a run, those of one subscriber."""

    run: SortedRun
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Some rows of a run as lists, a value for each event; of `kinds` see `Event`.

    `read_messages` returns the messages that arrived in some steps, without those that are not kept any more, and maybe
    with others: what came before the step `kept_from` is not.
    """

    run: SortedRun
    steps: list[int]
    rows: list[int]
    arrivals: list[int]
    kinds: list[str]
    changes: list[str]
    subscription_ids: list[Id]
    message_ids: list[Id | None]
    cause_ids: list[Id | None]
    scores: list[float]
    ranks: list[int | None]
    times: list[Any]
    kept_from: int
    read_messages: Callable[[set[int]], dict[int, Message]]

    def __len__(self) -> int:
        return len(self.steps)


def read_events(
    pages: Sequence[Sequence[RowSpan]],
    runs: Sequence[SortedRun],
    space: Space,
    cache: MessageCache,
    make: Callable[[EventColumns], list[T]],
) -> list[list[T]]:
    """Return what is made of the rows of each page; their messages lie in `runs`, and all rows of a run go together."""

    def read_messages(arrivals: set[int]) -> dict[int, Message]:
        return messages_at(runs, arrivals, space, cache)

    by_run: dict[int, list[tuple[int, RowSpan]]] = {}
    for page, spans in enumerate(pages):
        for span in spans:
            by_run.setdefault(id(span.run), []).append((page, span))
    parts = [(run, by_run[id(run)]) for run in runs if id(run) in by_run]
    oldest = first_kept(runs)
    found: list[list[T]] = [[] for _ in pages]
    for run, owned in parts:
        columns = _columns_of(run, _rows_of([span for _, span in owned]), oldest, read_messages)
        events = iter(make(columns))
        for page, span in owned:
            found[page] += islice(events, span.last - span.first)
    return found


def _rows_of(spans: Sequence[RowSpan]) -> NDArray[np.int64]:
    """Return the rows of spans, end to end."""
    first = np.array([span.first for span in spans], np.int64)
    counts = np.array([span.last for span in spans], np.int64) - first
    begins = np.cumsum(counts) - counts
    rows: NDArray[np.int64] = np.arange(int(counts.sum())) + np.repeat(first - begins, counts)
    return rows


def _columns_of(
    run: SortedRun, here: NDArray[np.int64], kept_from: int, read_messages: Callable[[set[int]], dict[int, Message]]
) -> EventColumns:
    steps = run.step[here]
    arrivals = steps - run.since[here]
    codes = run.code[here].tolist()
    kinds = [code & ~CAUSED for code in codes]
    named = _ids_at(run, arrivals)
    caused = named if (steps == arrivals).all() else _ids_at(run, steps)
    return EventColumns(
        run=run,
        steps=steps.tolist(),
        rows=run.row[here].tolist(),
        arrivals=arrivals.tolist(),
        kinds=[KIND_NAMES[kind] for kind in kinds],
        changes=["-" if kind in LEAVING else "+" for kind in kinds],
        subscription_ids=[id_of(key) for key in _texts(run.subscription_start, run.subscription, here)],
        message_ids=named,
        cause_ids=[cause if code & CAUSED else None for cause, code in zip(caused, codes, strict=True)],
        scores=run.score[here].tolist(),
        ranks=[rank or None for rank in run.rank[here].tolist()],
        times=_times_at(run, steps),
        kept_from=kept_from,
        read_messages=read_messages,
    )


def events_of(columns: EventColumns) -> list[Event]:
    """Return columns as events."""
    found = columns.read_messages(set(columns.arrivals))
    messages = [found.get(arrival) for arrival in columns.arrivals]
    keys = zip(columns.steps, columns.arrivals, columns.changes, columns.subscription_ids, strict=True)
    deliveries = delivery_values(
        columns.subscription_ids,
        columns.message_ids,
        columns.changes,
        columns.scores,
        columns.ranks,
        columns.cause_ids,
        columns.times,
        [delivery_id(*key) for key in keys],
        [_version_at(columns.run, step) for step in columns.steps],
        messages,
    )
    cursors = map(Cursor, columns.steps, columns.rows)
    return [Event(*each) for each in zip(cursors, columns.kinds, deliveries, messages, strict=True)]


def _texts(start: NDArray[np.int64], content: NDArray[np.uint8], places: NDArray[np.int64]) -> Iterator[str]:
    spans = zip(start[places].tolist(), start[places + 1].tolist(), strict=True)
    return (content[first:last].tobytes().decode() for first, last in spans)


def _ids_at(run: SortedRun, arrivals: NDArray[np.int64]) -> list[Id | None]:
    """Return the ids of the messages that arrived in these steps, None where the run names none."""
    if not len(run.named):
        return [None] * len(arrivals)
    wanted, of_row = np.unique(arrivals.astype(run.named.dtype, copy=False), return_inverse=True)
    places = np.minimum(run.named.searchsorted(wanted), len(run.named) - 1)
    is_named = run.named[places] == wanted
    texts = _texts(run.name_start, run.name, places[is_named])
    found = [id_of(next(texts)) if given else None for given in is_named.tolist()]
    return [found[at] for at in of_row.tolist()]


def _times_at(run: SortedRun, steps: NDArray[np.int64]) -> list[Any]:
    wanted, of_row = np.unique(steps.astype(run.told.dtype, copy=False), return_inverse=True)
    found = [datetime_of(time) for time in run.time[run.told.searchsorted(wanted)].tolist()]
    return [found[at] for at in of_row.tolist()]


def _version_at(run: SortedRun, step: int) -> str:
    return run.versions[bisect_right(run.versions, step, key=lambda each: each[0]) - 1][1]
