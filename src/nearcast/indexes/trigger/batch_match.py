"""Matches a batch: orders messages by cell, searches every component, tests polygons, sorts slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.geo import Space, polygons_touch
from nearcast.indexes import Matches
from nearcast.indexes.shared.gather import (
    merge_found,
    place_in_message_order,
    place_scores_in_message_order,
    sort_distinct,
)
from nearcast.indexes.shared.threads import chunk_for, in_threads
from nearcast.indexes.trigger.components import Component, DeltaComponent
from nearcast.indexes.trigger.mobile.component import MobileComponent
from nearcast.indexes.trigger.places import cells_of_boxes
from nearcast.indexes.trigger.runs import NO_RUN, WORTH_MARKING, merge_runs
from nearcast.indexes.trigger.scratch import (
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
    new_masks,
    new_scratch,
    unmark_chunk,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.indexes.shared.undo import UndoLog

#: Messages searched at a time: what they find stays in the processor's cache until it is sorted.
_CHUNK = 2048
#: From this many messages on it pays to take them cell by cell.
_WORTH_ORDERING = 64
#: Messages searched for scored rows at a time before it is known how many answers they have, and the answers of as many
#: as are searched at a time then: the hits of a chunk wait in memory, 16 bytes each, until they are sorted.
_FIRST_SCORED_CHUNK, _ANSWERS_AT_A_TIME = 64, 3 << 20
_FIRST_ROOM = 1 << 14
_ONLY_ONE = np.zeros(1, np.int32)
_NOBODY = np.empty(0, np.int64)
_ONES = np.ones(1 << 12)
_ONES.flags.writeable = False


#: Messages and the slots whose polygons they touch, side by side.
_Touching = tuple["NDArray[np.int32]", "NDArray[np.int32]"]


class IndexView(NamedTuple):
    """The state of the index that a batch is matched against: components, owners of slots, counts and weights."""

    components: Sequence[Component]
    owner: NDArray[np.uint8]
    n_slots: int
    n_terms: int
    weight: NDArray[np.float64]
    is_scored: bool


class _ChunkMatches(NamedTuple):
    """What a chunk of the order matched: slots end to end, with scores unless all are 1, and how many each has.

    Its messages come in its order, those of a chunk with scores that is a whole batch in that of the batch.
    """

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
        self._scored_chunk = _FIRST_SCORED_CHUNK

    def match(self, held: IndexView, messages: Messages, totals: NDArray[np.float64], threads: int) -> Matches:
        """Return the matches of every message."""
        n = len(messages)
        if n == 1:
            return self._match_one(held, messages, totals)
        order = _search_order(held.components, messages)
        size = chunk_for(n, self._scored_chunk if held.is_scored else _CHUNK, _WORTH_ORDERING, threads)
        search = _search_scored_chunk if held.is_scored else _search_chunk

        def run(first: int) -> _ChunkMatches:
            scratch = self._borrow(held)
            scratch, done = search(
                held, _batch(messages, totals, order[first : first + size], held, scratch), scratch, self._space
            )
            self._idle.append(scratch)
            return done

        starts = range(0, n, size)
        if threads > 1 and len(starts) > 1:
            chunks = in_threads(run, starts, threads, self._undo)
        else:
            chunks = [run(first) for first in starts]
        is_ready = held.is_scored and len(chunks) == 1
        matches = _only_chunk(chunks[0]) if is_ready else _in_message_order(chunks, order)
        if held.is_scored and n >= _FIRST_SCORED_CHUNK:
            fitting = _ANSWERS_AT_A_TIME * n // (len(matches.slots) + 1)
            self._scored_chunk = min(max(fitting, _FIRST_SCORED_CHUNK), SCORED_CHUNK)
        return matches

    def _match_one(self, held: IndexView, messages: Messages, totals: NDArray[np.float64]) -> Matches:
        """Do for one message what `match` does, without what only pays for many."""
        scratch = self._borrow(held)
        batch = _batch(messages, totals, _ONLY_ONE, held, scratch)
        if held.is_scored:
            scratch, done = _search_scored_chunk(held, batch, scratch, self._space)
            self._idle.append(scratch)
            return _only_chunk(done)
        starts = np.empty((len(held.components), 2), np.int64)
        scratch, touching = _search_components(held, batch, scratch, starts, self._space)
        found, looked_at, verified, *_ = scratch.tally.tolist()
        slots = np.concatenate([scratch.found[:found], *(pair[1] for pair in touching)])
        if len(slots) > 1:
            scratch = _with_room_to_sort(scratch, len(slots))
            slots = slots[: sort_distinct(slots, held.n_slots.bit_length(), scratch.spare, scratch.digits)]
        self._idle.append(scratch)
        start = np.array([0, len(slots)], np.int64)
        return Matches(start, slots, _full_scores(len(slots)), looked_at, verified)

    def _borrow(self, held: IndexView) -> TriggerScratch:
        """Return idle scratch space that is large enough, or new one."""
        n_cells = max([component.n_cells for component in held.components], default=1)
        try:
            scratch = self._idle.pop()
        except IndexError:
            return new_scratch(held.n_terms, n_cells, _FIRST_ROOM)
        if len(scratch.has) < held.n_terms or len(scratch.cells) < n_cells:
            return new_scratch(2 * held.n_terms, 2 * n_cells, len(scratch.found))
        return scratch


def _with_room_to_sort(scratch: TriggerScratch, n: int) -> TriggerScratch:
    if len(scratch.spare) >= n:
        return scratch
    return scratch._replace(spare=np.empty(2 * n, np.int32), spare_score=np.empty(2 * n))


def _with_room_to_mark(scratch: TriggerScratch, n_words: int) -> TriggerScratch:
    if len(scratch.marks) >= n_words:
        return scratch
    return scratch._replace(marks=np.empty(2 * n_words, np.uint64), rank=np.empty(2 * n_words, np.int32))


def _batch(
    messages: Messages, totals: NDArray[np.float64], order: NDArray[np.int32], held: IndexView, scratch: TriggerScratch
) -> TriggerBatch:
    """Return what kernels read of the messages in this order."""
    start, terms = messages.term_start, messages.terms
    n_words = len(terms) if len(order) == len(messages) else int((start[order + 1] - start[order]).sum())
    distinct_start, bits = np.empty(len(order) + 1, np.int64), np.empty(len(order), np.uint64)
    distinct = np.empty(n_words, np.int32)
    find_distinct(start, terms, order, scratch.has, distinct_start, distinct, bits)
    by_term = message_of = _NOBODY
    if held.is_scored:
        n = int(distinct_start[-1])
        by_term = np.argsort(distinct[:n])
        message_of = np.repeat(np.arange(len(order)), np.diff(distinct_start))
    return TriggerBatch(
        term_start=start,
        terms=terms,
        box=messages.box,
        order=order,
        distinct_start=distinct_start,
        distinct=distinct,
        bits=bits,
        by_term=by_term,
        message_of=message_of,
        totals=totals,
        weight=held.weight,
    )


def _search_order(components: Sequence[Component], messages: Messages) -> NDArray[np.int32]:
    """Return messages cell by cell of the largest component that has cells: neighbours look at the same memory."""
    cut = [component for component in components if not isinstance(component, DeltaComponent)]
    if len(messages) < _WORTH_ORDERING or not cut:
        return np.arange(len(messages), dtype=np.int32)
    cell = np.empty(len(messages), np.int32)
    cells_of_boxes(max(cut, key=lambda component: component.n_rows).places, messages.box, cell)
    return np.argsort(cell, kind="stable").astype(np.int32)


def _search_chunk(
    held: IndexView, batch: TriggerBatch, scratch: TriggerScratch, space: Space
) -> tuple[TriggerScratch, _ChunkMatches]:
    n = len(batch.order)
    starts = np.zeros((len(held.components) + 1, n + 1), np.int64)
    scratch, touching = _search_components(held, batch, scratch, starts, space)
    scratch = _append_touching(touching, batch, scratch, starts[-1])
    used = starts if touching else starts[:-1]
    scratch = _with_room_to_sort(scratch, int(np.diff(used).sum(axis=0).max(initial=0)))
    out, counts = np.empty(int(scratch.tally[FOUND]), np.int32), np.empty(n, np.int64)
    total = merge_found(
        scratch.found, used, 0, n, held.n_slots.bit_length(), scratch.spare, scratch.digits, out, counts
    )
    return scratch, _ChunkMatches(
        out[:total], None, counts, int(scratch.tally[LOOKED_AT]), int(scratch.tally[VERIFIED])
    )


def _search_scored_chunk(
    held: IndexView, batch: TriggerBatch, scratch: TriggerScratch, space: Space
) -> tuple[TriggerScratch, _ChunkMatches]:
    """Do what `_search_chunk` does where scored subscriptions are among those held."""
    n = len(batch.order)
    if len(scratch.local) < len(batch.distinct) + n:
        room = 2 * (len(batch.distinct) + n)
        scratch = scratch._replace(local=np.empty(room, np.int32), masks=new_masks(room))
    starts = np.zeros((len(held.components) + 1, n + 1), np.int64)
    mark_chunk(batch, scratch.number_of, scratch.masks)
    scratch, touching = _search_components(held, batch, scratch, starts, space)
    scratch = _search_scored(held, batch, scratch)
    unmark_chunk(batch, scratch.number_of)
    scratch = _append_touching(touching, batch, scratch, starts[-1])
    used = starts if touching else starts[:-1]
    tally = scratch.tally
    n_found = int(tally[FOUND] + tally[HITS])
    out, score, begin = np.empty(n_found, np.int32), np.empty(n_found), np.empty(n + 1, np.int64)
    n_words = (held.n_slots >> 6) + 1
    scratch = _with_room_to_mark(_with_room_to_sort(scratch, min(n_found, n_words // WORTH_MARKING)), n_words)
    marks, rank = scratch.marks[:n_words], scratch.rank[:n_words]
    position_of, n_bits = np.arange(n), held.n_slots.bit_length()
    if n == len(batch.box):
        position_of[batch.order] = np.arange(n)
    total = merge_runs(scratch.found, used, scratch, position_of, begin, n_bits, marks, rank, out, score)
    return scratch, _ChunkMatches(
        out[:total], score[:total], np.diff(begin), int(tally[LOOKED_AT]), int(tally[VERIFIED])
    )


def _search_scored(held: IndexView, batch: TriggerBatch, scratch: TriggerScratch) -> TriggerScratch:
    """Search the scored rows of every component, as often as it takes to have room for all hits."""
    before = scratch.tally.copy()
    scratch.last_run.fill(NO_RUN)
    while not all(component.search_scored(batch, held.owner, scratch) for component in held.components):
        scratch = _with_more_room(scratch)
        scratch.last_run.fill(NO_RUN)
        scratch.tally[:] = before
    return scratch


def _search_components(
    held: IndexView, batch: TriggerBatch, scratch: TriggerScratch, starts: NDArray[np.int64], space: Space
) -> tuple[TriggerScratch, list[_Touching]]:
    """Search every component into `scratch`, component k with its list starts in `starts[k]`; test polygons."""
    scratch.tally[:] = 0
    touching: list[_Touching] = []
    for k, component in enumerate(held.components):
        scratch.tally[PENDING] = done = 0
        while (done := component.search(batch, done, len(batch.order), held.owner, scratch, starts[k])) < len(
            batch.order
        ):
            scratch = _with_more_room(scratch)
        if scratch.tally[PENDING]:
            touching.append(_ask_polygons(component, batch, scratch, space))
    return scratch, touching


def _with_more_room(scratch: TriggerScratch) -> TriggerScratch:
    """Return the same scratch space with twice the room for results; what was found stays."""
    return scratch._replace(
        found=np.concatenate([scratch.found, np.empty_like(scratch.found)]),
        pending=np.concatenate([scratch.pending, np.empty_like(scratch.pending)]),
        hit_slot=np.concatenate([scratch.hit_slot, np.empty_like(scratch.hit_slot)]),
        hit_score=np.concatenate([scratch.hit_score, np.empty_like(scratch.hit_score)]),
        run=np.concatenate([scratch.run, np.empty_like(scratch.run)]),
    )


def _ask_polygons(component: Component, batch: TriggerBatch, scratch: TriggerScratch, space: Space) -> _Touching:
    """Return (messages, slots) of the pending rows whose polygon touches the message."""
    pending = np.unique(scratch.pending[: scratch.tally[PENDING]], axis=0)
    message, row = pending[:, 0], pending[:, 1]
    assert not isinstance(component, MobileComponent)  # which has no polygons
    touch = polygons_touch(component.geometry[component.rows.shape[row] // 2], batch.box[message], space)
    return message[touch], component.rows.slot[row[touch]]


def _append_touching(
    touching: list[_Touching], batch: TriggerBatch, scratch: TriggerScratch, start: NDArray[np.int64]
) -> TriggerScratch:
    """Add the polygons' slots behind what the searches found, as a search of their own."""
    if not touching:
        return scratch
    message = np.concatenate([pair[0] for pair in touching])
    slots = np.concatenate([pair[1] for pair in touching])
    position_of = np.empty(len(batch.box), np.int64)
    position_of[batch.order] = np.arange(len(batch.order))
    position = position_of[message]
    by_position = np.argsort(position, kind="stable")
    while len(scratch.found) < scratch.tally[FOUND] + len(slots):
        scratch = _with_more_room(scratch)
    first = int(scratch.tally[FOUND])
    scratch.found[first : first + len(slots)] = slots[by_position]
    np.cumsum(np.bincount(position, minlength=len(batch.order)), out=start[1:])
    start += first
    scratch.tally[FOUND] += len(slots)
    return scratch


def _only_chunk(chunk: _ChunkMatches) -> Matches:
    """Return the matches of a chunk with scores that is a whole batch."""
    assert chunk.score is not None
    start = np.zeros(len(chunk.counts) + 1, np.int64)
    np.cumsum(chunk.counts, out=start[1:])
    return Matches(start, chunk.slots, chunk.score, chunk.looked_at, chunk.verified)


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
