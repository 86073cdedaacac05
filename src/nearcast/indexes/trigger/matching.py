"""From a batch of messages to `Matches`: order, search every component, ask the polygons, sort."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.geo import Space, polygons_touch
from nearcast.indexes import Matches
from nearcast.indexes._gather import merge_found, place_in_message_order, sort_distinct
from nearcast.indexes.trigger.components import Component, SegmentComponent
from nearcast.indexes.trigger.search import (
    FOUND,
    LOOKED_AT,
    PENDING,
    VERIFIED,
    Batch,
    Work,
    cells_of_messages,
    find_distinct,
    new_work,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages

#: Messages searched at a time: what they find stays in the processor's cache until it is sorted.
_CHUNK = 2048
#: From this many messages on it pays to take them cell by cell.
_WORTH_ORDERING = 64
_FIRST_ROOM = 1 << 14
_ONLY_ONE = np.zeros(1, np.int32)
_ONES = np.ones(1 << 12)
_ONES.flags.writeable = False


#: Messages and the slots whose polygons they touch, side by side.
_Touching = tuple["NDArray[np.int32]", "NDArray[np.int32]"]


class _Sorted(NamedTuple):
    """What a chunk of the order matched: slots end to end, and how many each position has."""

    slots: NDArray[np.int32]
    counts: NDArray[np.int64]
    looked_at: int
    verified: int


class Matcher:
    """Runs searches and keeps their scratch space between calls."""

    def __init__(self, space: Space):
        self._space = space
        self._idle: list[Work] = []

    def match(
        self,
        components: Sequence[Component],
        owner: NDArray[np.uint8],
        n_slots: int,
        n_terms: int,
        messages: Messages,
        threads: int,
    ) -> Matches:
        """Return the matches of every message."""
        n = len(messages)
        if n == 1:
            return self._match_one(components, owner, n_slots, n_terms, messages)
        order = _search_order(components, messages)
        n_cells = max((component.n_cells for component in components), default=1)

        def run(first: int) -> _Sorted:
            work = self._borrow(n_terms, n_cells)
            chunk = _batch(messages, order[first : first + _CHUNK], work)
            work, done = _search_chunk(components, owner, n_slots, chunk, work, self._space)
            self._idle.append(work)
            return done

        starts = range(0, n, _CHUNK)
        if threads > 1 and len(starts) > 1:
            with ThreadPoolExecutor(threads) as pool:
                chunks = list(pool.map(run, starts))
        else:
            chunks = [run(first) for first in starts]
        return _in_message_order(chunks, order)

    def _match_one(
        self, components: Sequence[Component], owner: NDArray[np.uint8], n_slots: int, n_terms: int, messages: Messages
    ) -> Matches:
        """Do for one message what `match` does, without what only pays for many."""
        n_cells = max([component.n_cells for component in components], default=1)
        work = self._borrow(n_terms, n_cells)
        batch = _batch(messages, _ONLY_ONE, work)
        starts = np.empty((len(components), 2), np.int64)
        work, touching = _search_components(components, owner, batch, work, starts, self._space)
        found, looked_at, verified, *_ = work.tally.tolist()
        slots = np.concatenate([work.found[:found], *(pair[1] for pair in touching)])
        if len(work.spare) < len(slots):
            work = work._replace(spare=np.empty(2 * len(slots), np.int32))
        slots = slots[: sort_distinct(slots, n_slots.bit_length(), work.spare, work.digits)]
        self._idle.append(work)
        start = np.zeros(2, np.int64)
        start[1] = len(slots)
        return Matches(start, slots, _full_scores(len(slots)), looked_at, verified)

    def _borrow(self, n_terms: int, n_cells: int) -> Work:
        """Return idle scratch space that is large enough, or new one."""
        try:
            work = self._idle.pop()
        except IndexError:
            return new_work(n_terms, n_cells, _FIRST_ROOM)
        if len(work.has) < n_terms or len(work.cells) < n_cells:
            return new_work(2 * n_terms, 2 * n_cells, len(work.found))
        return work


def _batch(messages: Messages, order: NDArray[np.int32], work: Work) -> Batch:
    """Return what kernels read of the messages in this order."""
    start, terms = messages.term_start, messages.terms
    n_words = len(terms) if len(order) == len(messages) else int((start[order + 1] - start[order]).sum())
    distinct_start, bits = np.empty(len(order) + 1, np.int64), np.empty(len(order), np.uint64)
    distinct = np.empty(n_words, np.int32)
    find_distinct(start, terms, order, work.has, distinct_start, distinct, bits)
    return Batch(start, terms, messages.box, order, distinct_start, distinct, bits)


def _search_order(components: Sequence[Component], messages: Messages) -> NDArray[np.int32]:
    """Return messages cell by cell of the largest segment: neighbours look at the same memory."""
    segments = [component for component in components if isinstance(component, SegmentComponent)]
    if len(messages) < _WORTH_ORDERING or not segments:
        return np.arange(len(messages), dtype=np.int32)
    cell = np.empty(len(messages), np.int32)
    cells_of_messages(max(segments, key=lambda component: component.n_rows).segment.places, messages.box, cell)
    return np.argsort(cell, kind="stable").astype(np.int32)


def _search_chunk(
    components: Sequence[Component],
    owner: NDArray[np.uint8],
    n_slots: int,
    batch: Batch,
    work: Work,
    space: Space,
) -> tuple[Work, _Sorted]:
    n = len(batch.order)
    starts = np.zeros((len(components) + 1, n + 1), np.int64)
    work, touching = _search_components(components, owner, batch, work, starts, space)
    work = _append_touching(touching, batch, work, starts[-1])
    used = starts if touching else starts[:-1]
    out, counts = np.empty(int(work.tally[FOUND]), np.int32), np.empty(n, np.int64)
    spare = np.empty(int(np.diff(used).sum(axis=0).max(initial=0)), np.int32)
    total = merge_found(work.found, used, 0, n, n_slots.bit_length(), spare, work.digits, out, counts)
    return work, _Sorted(out[:total], counts, int(work.tally[LOOKED_AT]), int(work.tally[VERIFIED]))


def _search_components(
    components: Sequence[Component],
    owner: NDArray[np.uint8],
    batch: Batch,
    work: Work,
    starts: NDArray[np.int64],
    space: Space,
) -> tuple[Work, list[_Touching]]:
    """Search every component into `work`, component k with its list starts in `starts[k]`; ask the polygons."""
    work.tally[:] = 0
    touching: list[_Touching] = []
    for k, component in enumerate(components):
        work.tally[PENDING] = done = 0
        while (done := component.search(batch, done, len(batch.order), owner, work, starts[k])) < len(batch.order):
            work = _with_more_room(work)
        if work.tally[PENDING]:
            touching.append(_ask_polygons(component, batch, work, space))
    return work, touching


def _with_more_room(work: Work) -> Work:
    """Return the same work with twice the room for results; what was found stays."""
    return work._replace(
        found=np.concatenate([work.found, np.empty_like(work.found)]),
        pending=np.concatenate([work.pending, np.empty_like(work.pending)]),
    )


def _ask_polygons(component: Component, batch: Batch, work: Work, space: Space) -> _Touching:
    """Return (messages, slots) of the pending rows whose polygon touches the message."""
    pending = np.unique(work.pending[: work.tally[PENDING]], axis=0)
    message, row = pending[:, 0], pending[:, 1]
    touch = polygons_touch(component.geometry[component.rows.shape[row] // 2], batch.box[message], space)
    return message[touch], component.rows.slot[row[touch]]


def _append_touching(touching: list[_Touching], batch: Batch, work: Work, start: NDArray[np.int64]) -> Work:
    """Add the polygons' slots behind what the searches found, as a search of their own."""
    if not touching:
        return work
    message = np.concatenate([pair[0] for pair in touching])
    slots = np.concatenate([pair[1] for pair in touching])
    position_of = np.empty(len(batch.box), np.int64)
    position_of[batch.order] = np.arange(len(batch.order))
    position = position_of[message]
    by_position = np.argsort(position, kind="stable")
    while len(work.found) < work.tally[FOUND] + len(slots):
        work = _with_more_room(work)
    first = int(work.tally[FOUND])
    work.found[first : first + len(slots)] = slots[by_position]
    np.cumsum(np.bincount(position, minlength=len(batch.order)), out=start[1:])
    start += first
    work.tally[FOUND] += len(slots)
    return work


def _in_message_order(chunks: list[_Sorted], order: NDArray[np.int32]) -> Matches:
    looked_at, verified = sum(chunk.looked_at for chunk in chunks), sum(chunk.verified for chunk in chunks)
    start = np.zeros(len(order) + 1, np.int64)
    counts = np.concatenate([np.empty(0, np.int64), *(chunk.counts for chunk in chunks)])
    in_order = np.empty(len(order), np.int64)
    in_order[order] = counts
    np.cumsum(in_order, out=start[1:])
    slots = np.empty(int(start[-1]), np.int32)
    first = 0
    for chunk in chunks:
        last = first + len(chunk.counts)
        place_in_message_order(chunk.slots, order, counts, first, last, start, slots)
        first = last
    return Matches(start, slots, _full_scores(len(slots)), looked_at, verified)


def _full_scores(n: int) -> NDArray[np.float64]:
    """Return n ones: a boolean match has no degrees. Short lists share one array, long ones one number."""
    return _ONES[:n] if n <= len(_ONES) else np.broadcast_to(np.float64(1.0), n)
