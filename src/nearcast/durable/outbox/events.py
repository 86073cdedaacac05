"""Events: deliveries that wait for a subscriber, with their cursors and messages, made from the rows of runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from nearcast._ids import Id, id_of
from nearcast.columns import datetime_of
from nearcast.deliveries import delivery_values
from nearcast.delivery_ids import delivery_id
from nearcast.durable.outbox.cursors import Cursor
from nearcast.durable.outbox.kept_messages import MessageCache, messages_at
from nearcast.durable.outbox.runs import CAUSED, KIND_NAMES, LEAVING, SortedRun

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.model import Delivery, Message


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


class WaitingEvents(Sequence[Event]):
    """Events of a subscriber in order; `gap` is how many were dropped by the retention before the first of them.

    The search for them began at `begin`. `cursor` is that of the last one; without any, that of the last one dropped,
    or `begin`.
    """

    def __init__(self, events: list[Event], begin: Cursor, dropped: Cursor, gap: int):
        self._events, self.begin, self.gap = events, begin, gap
        self.cursor = events[-1].cursor if events else dropped

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


def events_of(
    pages: Sequence[Sequence[RowSpan]], runs: Sequence[SortedRun], space: Space, cache: MessageCache
) -> list[list[Event]]:
    """Return the events of the rows of each page; their messages lie in `runs`, and all rows of a run go together."""
    by_run: dict[int, list[tuple[int, RowSpan]]] = {}
    for page, spans in enumerate(pages):
        for span in spans:
            by_run.setdefault(id(span.run), []).append((page, span))
    parts = [(run, by_run[id(run)]) for run in runs if id(run) in by_run]
    rows = [np.concatenate([np.arange(span.first, span.last) for _, span in owned]) for _, owned in parts]
    arrivals = [(run.step[here] - run.since[here]).tolist() for (run, _), here in zip(parts, rows, strict=True)]
    messages = messages_at(runs, {arrival for own in arrivals for arrival in own}, space, cache)
    found: list[list[Event]] = [[] for _ in pages]
    for (run, owned), here, own in zip(parts, rows, arrivals, strict=True):
        events = iter(_events_of_run(run, here, own, messages))
        for page, span in owned:
            found[page] += islice(events, span.last - span.first)
    return found


def _events_of_run(
    run: SortedRun, here: NDArray[np.int64], arrivals: list[int], messages: dict[int, Message]
) -> list[Event]:
    """Return the events of some rows of a run, whose messages arrived in these steps."""
    steps = run.step[here].tolist()
    codes = run.code[here].tolist()
    kinds = [code & ~CAUSED for code in codes]
    changes = ["-" if kind in LEAVING else "+" for kind in kinds]
    ids = [id_of(key) for key in _texts(run.subscription_start, run.subscription, here)]
    named, caused = _ids_at(run, arrivals), _ids_at(run, steps)
    moments = _times_at(run, steps)
    kept = [messages.get(arrival) for arrival in arrivals]
    deliveries = delivery_values(
        ids,
        named,
        changes,
        run.score[here].tolist(),
        [rank or None for rank in run.rank[here].tolist()],
        [cause if code & CAUSED else None for cause, code in zip(caused, codes, strict=True)],
        moments,
        [delivery_id(*each) for each in zip(steps, arrivals, changes, ids, strict=True)],
        [_version_at(run, step) for step in steps],
        kept,
    )
    cursors = map(Cursor, steps, run.row[here].tolist())
    return [Event(*each) for each in zip(cursors, [KIND_NAMES[kind] for kind in kinds], deliveries, kept, strict=True)]


def _texts(start: NDArray[np.int64], content: NDArray[np.uint8], places: NDArray[np.int64]) -> Iterator[str]:
    spans = zip(start[places].tolist(), start[places + 1].tolist(), strict=True)
    return (content[first:last].tobytes().decode() for first, last in spans)


def _ids_at(run: SortedRun, arrivals: list[int]) -> list[Id | None]:
    """Return the ids of the messages that arrived in these steps, None where the run names none."""
    if not len(run.named):
        return [None] * len(arrivals)
    wanted = np.array(arrivals, run.named.dtype)
    places = np.minimum(run.named.searchsorted(wanted), len(run.named) - 1)
    is_named = run.named[places] == wanted
    found = _texts(run.name_start, run.name, places[is_named])
    return [id_of(next(found)) if given else None for given in is_named.tolist()]


def _times_at(run: SortedRun, steps: list[int]) -> list[Any]:
    return [datetime_of(time) for time in run.time[run.told.searchsorted(np.array(steps, run.told.dtype))].tolist()]


def _version_at(run: SortedRun, step: int) -> str:
    return run.versions[bisect_right(run.versions, step, key=lambda each: each[0]) - 1][1]
