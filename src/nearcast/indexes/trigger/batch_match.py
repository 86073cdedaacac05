"""From a batch of messages to `Matches`: order, search every component, ask the polygons, sort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.geo import Space, polygons_touch
from nearcast.indexes import Matches
from nearcast.indexes.shared.gather import (
    merge_found,
    merge_hits,
    place_in_message_order,
    place_scores_in_message_order,
    sort_distinct,
)
from nearcast.indexes.shared.threads import in_threads
from nearcast.indexes.trigger.components import Component, SegmentComponent
from nearcast.indexes.trigger.places import cells_of_boxes
from nearcast.indexes.trigger.work import (
    FOUND,
    HITS,
    LOOKED_AT,
    PENDING,
    SCORED_CHUNK,
    VERIFIED,
    TriggerBatch,
    TriggerScratch,
    find_distinct,
    mark_chunk,
    new_work,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.indexes.shared.undo import UndoLog

#: Messages searched at a time: what they find stays in the processor's cache until it is sorted.
_CHUNK = 2048
#: From this many messages on it pays to take them cell by cell.
_WORTH_ORDERING = 64
_FIRST_ROOM = 1 << 14
_ONLY_ONE = np.zeros(1, np.int32)
_NOBODY = np.empty(0, np.int64)
_ONES = np.ones(1 << 12)
_ONES.flags.writeable = False


#: Messages and the slots whose polygons they touch, side by side.
_Touching = tuple["NDArray[np.int32]", "NDArray[np.int32]"]


class IndexView(NamedTuple):
    """What a batch is matched against: the components, who owns each slot, how many slots and terms, and weights."""

    components: Sequence[Component]
    owner: NDArray[np.uint8]
    n_slots: int
    n_terms: int
    weight: NDArray[np.float64]
    is_scored: bool


class _ChunkMatches(NamedTuple):
    """What a chunk of the order matched: slots end to end, with scores unless all are 1, and how many each has."""

    slots: NDArray[np.int32]
    score: NDArray[np.float64] | None
    counts: NDArray[np.int64]
    looked_at: int
    verified: int


class TriggerMatcher:
    """Runs searches and keeps their scratch space between calls."""

    def __init__(self, space: Space, undo: UndoLog):
        self._space, self._undo = space, undo
        self._idle: list[TriggerScratch] = []

    def match(self, held: IndexView, messages: Messages, totals: NDArray[np.float64], threads: int) -> Matches:
        """Return the matches of every message."""
        n = len(messages)
        if n == 1:
            return self._match_one(held, messages, totals)
        order = _search_order(held.components, messages)
        size = SCORED_CHUNK if held.is_scored else _CHUNK
        search = _search_scored_chunk if held.is_scored else _search_chunk

        def run(first: int) -> _ChunkMatches:
            work = self._borrow(held)
            work, done = search(
                held, _batch(messages, totals, order[first : first + size], held, work), work, self._space
            )
            self._idle.append(work)
            return done

        starts = range(0, n, size)
        if threads > 1 and len(starts) > 1:
            chunks = in_threads(run, starts, threads, self._undo)
        else:
            chunks = [run(first) for first in starts]
        return _in_message_order(chunks, order)

    def _match_one(self, held: IndexView, messages: Messages, totals: NDArray[np.float64]) -> Matches:
        """Do for one message what `match` does, without what only pays for many."""
        work = self._borrow(held)
        batch = _batch(messages, totals, _ONLY_ONE, held, work)
        start = np.zeros(2, np.int64)
        if held.is_scored:
            work, done = _search_scored_chunk(held, batch, work, self._space)
            self._idle.append(work)
            start[1] = len(done.slots)
            assert done.score is not None
            return Matches(start, done.slots, done.score, done.looked_at, done.verified)
        starts = np.empty((len(held.components), 2), np.int64)
        work, touching = _search_components(held, batch, work, starts, self._space)
        found, looked_at, verified, *_ = work.tally.tolist()
        slots = np.concatenate([work.found[:found], *(pair[1] for pair in touching)])
        if len(slots) > 1:
            work = _with_room_to_sort(work, len(slots))
            slots = slots[: sort_distinct(slots, held.n_slots.bit_length(), work.spare, work.digits)]
        self._idle.append(work)
        start[1] = len(slots)
        return Matches(start, slots, _full_scores(len(slots)), looked_at, verified)

    def _borrow(self, held: IndexView) -> TriggerScratch:
        """Return idle scratch space that is large enough, or new one."""
        n_cells = max([component.n_cells for component in held.components], default=1)
        try:
            work = self._idle.pop()
        except IndexError:
            return new_work(held.n_terms, n_cells, _FIRST_ROOM)
        if len(work.has) < held.n_terms or len(work.cells) < n_cells:
            return new_work(2 * held.n_terms, 2 * n_cells, len(work.found))
        return work


def _with_room_to_sort(work: TriggerScratch, n: int) -> TriggerScratch:
    if len(work.spare) >= n:
        return work
    return work._replace(spare=np.empty(2 * n, np.int32), spare_score=np.empty(2 * n))


def _batch(
    messages: Messages, totals: NDArray[np.float64], order: NDArray[np.int32], held: IndexView, work: TriggerScratch
) -> TriggerBatch:
    """Return what kernels read of the messages in this order."""
    start, terms = messages.term_start, messages.terms
    n_words = len(terms) if len(order) == len(messages) else int((start[order + 1] - start[order]).sum())
    distinct_start, bits = np.empty(len(order) + 1, np.int64), np.empty(len(order), np.uint64)
    distinct = np.empty(n_words, np.int32)
    find_distinct(start, terms, order, work.has, distinct_start, distinct, bits)
    by_term = message_of = _NOBODY
    if held.is_scored:
        n = int(distinct_start[-1])
        by_term = np.argsort(distinct[:n])
        message_of = np.repeat(np.arange(len(order)), np.diff(distinct_start))
    return TriggerBatch(
        start,
        terms,
        messages.box,
        order,
        distinct_start,
        distinct,
        bits,
        by_term,
        message_of,
        totals,
        held.weight,
    )


def _search_order(components: Sequence[Component], messages: Messages) -> NDArray[np.int32]:
    """Return messages cell by cell of the largest segment: neighbours look at the same memory."""
    segments = [component for component in components if isinstance(component, SegmentComponent)]
    if len(messages) < _WORTH_ORDERING or not segments:
        return np.arange(len(messages), dtype=np.int32)
    cell = np.empty(len(messages), np.int32)
    cells_of_boxes(max(segments, key=lambda component: component.n_rows).segment.places, messages.box, cell)
    return np.argsort(cell, kind="stable").astype(np.int32)


def _search_chunk(
    held: IndexView, batch: TriggerBatch, work: TriggerScratch, space: Space
) -> tuple[TriggerScratch, _ChunkMatches]:
    n = len(batch.order)
    starts = np.zeros((len(held.components) + 1, n + 1), np.int64)
    work, touching = _search_components(held, batch, work, starts, space)
    work = _append_touching(touching, batch, work, starts[-1])
    used = starts if touching else starts[:-1]
    work = _with_room_to_sort(work, int(np.diff(used).sum(axis=0).max(initial=0)))
    out, counts = np.empty(int(work.tally[FOUND]), np.int32), np.empty(n, np.int64)
    total = merge_found(work.found, used, 0, n, held.n_slots.bit_length(), work.spare, work.digits, out, counts)
    return work, _ChunkMatches(out[:total], None, counts, int(work.tally[LOOKED_AT]), int(work.tally[VERIFIED]))


def _search_scored_chunk(
    held: IndexView, batch: TriggerBatch, work: TriggerScratch, space: Space
) -> tuple[TriggerScratch, _ChunkMatches]:
    """Do what `_search_chunk` does where scored subscriptions are among those held."""
    n = len(batch.order)
    if len(work.local) < len(batch.distinct) + n:
        work = work._replace(local=np.empty(2 * (len(batch.distinct) + n), np.int32))
    starts = np.zeros((len(held.components) + 1, n + 1), np.int64)
    mark_chunk(batch, work.masks, True)
    work, touching = _search_components(held, batch, work, starts, space)
    for component in held.components:
        work = _search_scored(component, held, batch, work)
    mark_chunk(batch, work.masks, False)
    work = _append_touching(touching, batch, work, starts[-1])
    used = starts if touching else starts[:-1]
    n_hits = int(work.tally[HITS])
    hits = (work.hit_slot[:n_hits], work.hit_score[:n_hits], work.hit_message[:n_hits])
    n_found = int(work.tally[FOUND]) + n_hits
    out, score, begin = np.empty(n_found, np.int32), np.empty(n_found), np.empty(n + 1, np.int64)
    work = _with_room_to_sort(work, n_found)
    n_bits = held.n_slots.bit_length()
    total = merge_hits(work.found, used, *hits, begin, n_bits, work.spare, work.spare_score, work.digits, out, score)
    tally = work.tally
    return work, _ChunkMatches(out[:total], score[:total], np.diff(begin), int(tally[LOOKED_AT]), int(tally[VERIFIED]))


def _search_scored(component: Component, held: IndexView, batch: TriggerBatch, work: TriggerScratch) -> TriggerScratch:
    """Search the scored rows of a component, as often as it takes to have room for all hits."""
    before = work.tally.copy()
    while not component.search_scored(batch, held.owner, work):
        work = _with_more_room(work)
        work.tally[:] = before
    return work


def _search_components(
    held: IndexView, batch: TriggerBatch, work: TriggerScratch, starts: NDArray[np.int64], space: Space
) -> tuple[TriggerScratch, list[_Touching]]:
    """Search every component into `work`, component k with its list starts in `starts[k]`; ask the polygons."""
    work.tally[:] = 0
    touching: list[_Touching] = []
    for k, component in enumerate(held.components):
        work.tally[PENDING] = done = 0
        while (done := component.search(batch, done, len(batch.order), held.owner, work, starts[k])) < len(batch.order):
            work = _with_more_room(work)
        if work.tally[PENDING]:
            touching.append(_ask_polygons(component, batch, work, space))
    return work, touching


def _with_more_room(work: TriggerScratch) -> TriggerScratch:
    """Return the same work with twice the room for results; what was found stays."""
    return work._replace(
        found=np.concatenate([work.found, np.empty_like(work.found)]),
        pending=np.concatenate([work.pending, np.empty_like(work.pending)]),
        hit_slot=np.concatenate([work.hit_slot, np.empty_like(work.hit_slot)]),
        hit_score=np.concatenate([work.hit_score, np.empty_like(work.hit_score)]),
        hit_message=np.concatenate([work.hit_message, np.empty_like(work.hit_message)]),
    )


def _ask_polygons(component: Component, batch: TriggerBatch, work: TriggerScratch, space: Space) -> _Touching:
    """Return (messages, slots) of the pending rows whose polygon touches the message."""
    pending = np.unique(work.pending[: work.tally[PENDING]], axis=0)
    message, row = pending[:, 0], pending[:, 1]
    touch = polygons_touch(component.geometry[component.rows.shape[row] // 2], batch.box[message], space)
    return message[touch], component.rows.slot[row[touch]]


def _append_touching(
    touching: list[_Touching], batch: TriggerBatch, work: TriggerScratch, start: NDArray[np.int64]
) -> TriggerScratch:
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


def _in_message_order(chunks: list[_ChunkMatches], order: NDArray[np.int32]) -> Matches:
    looked_at, verified = sum(chunk.looked_at for chunk in chunks), sum(chunk.verified for chunk in chunks)
    start = np.zeros(len(order) + 1, np.int64)
    counts = np.concatenate([np.empty(0, np.int64), *(chunk.counts for chunk in chunks)])
    in_order = np.empty(len(order), np.int64)
    in_order[order] = counts
    np.cumsum(in_order, out=start[1:])
    n = int(start[-1])
    slots = np.empty(n, np.int32)
    is_scored = any(chunk.score is not None for chunk in chunks)
    score = np.empty(n) if is_scored else _full_scores(n)
    first = 0
    for chunk in chunks:
        last = first + len(chunk.counts)
        place_in_message_order(chunk.slots, order, counts, first, last, start, slots)
        if chunk.score is not None:
            place_scores_in_message_order(chunk.score, order, counts, first, last, start, score)
        first = last
    return Matches(start, slots, score, looked_at, verified)


def _full_scores(n: int) -> NDArray[np.float64]:
    """Return n ones: a boolean match has no degrees. Short lists share one array, long ones one number."""
    return _ONES[:n] if n <= len(_ONES) else np.broadcast_to(np.float64(1.0), n)
