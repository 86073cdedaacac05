"""Matches a batch of messages against top-k rows: searches every component, in chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.indexes import Matches
from nearcast.indexes.shared.gather import merge_hits
from nearcast.indexes.shared.threads import chunk_for, in_threads
from nearcast.indexes.trigger.thresholds.components import MOST_CANDIDATES, Component
from nearcast.indexes.trigger.thresholds.scratch import (
    HITS,
    LOOKED_AT,
    VERIFIED,
    ThresholdBatch,
    ThresholdScratch,
    new_scratch,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.shared.undo import UndoLog

#: Messages searched at a time, and the fewest that a thread is worth starting for.
_CHUNK = 512
_FEWEST = 16
_FIRST_ROOM = 1 << 14
_NO_FOUND = np.empty(0, np.int32)


class _ChunkScores(NamedTuple):
    """What a chunk of messages concerns: slots and scores end to end, and where those of each message begin."""

    slots: NDArray[np.int32]
    score: NDArray[np.float64]
    begin: NDArray[np.int64]
    looked_at: int
    verified: int


class ThresholdMatcher:
    """Runs searches and keeps their scratch space between calls."""

    def __init__(self, undo: UndoLog) -> None:
        self._undo = undo
        self._idle: list[ThresholdScratch] = []

    def match(
        self, components: Sequence[Component], batch: ThresholdBatch, n_terms: int, n_slots: int, threads: int
    ) -> Matches:
        """Return the rows that each message concerns, slots ascending."""
        n = len(batch.box)
        size = chunk_for(n, _CHUNK, _FEWEST, threads)
        ends = batch.term_start[np.minimum(np.arange(0, n + size, size), n)]
        n_words = int(np.diff(ends).max(initial=0))

        def run(first: int) -> _ChunkScores:
            scratch = self._borrow(n_terms, size, n_words)
            scratch, done = _search_chunk(components, batch, first, min(first + size, n), scratch, n_slots)
            if len(scratch.candidate) <= MOST_CANDIDATES:  # what one message of very many candidates took is let go
                self._idle.append(scratch)
            return done

        starts = range(0, n, size)
        if threads > 1 and len(starts) > 1:
            chunks = in_threads(run, starts, threads, self._undo)
        else:
            chunks = [run(first) for first in starts]
        return _joined(chunks)

    def _borrow(self, n_terms: int, n_messages: int, n_words: int) -> ThresholdScratch:
        """Return idle scratch space that is large enough, or new one."""
        try:
            scratch = self._idle.pop()
        except IndexError:
            return new_scratch(n_terms, n_messages, n_words, _FIRST_ROOM)
        if len(scratch.counts) != n_terms or len(scratch.seen) < n_messages or len(scratch.said) < n_words:
            room = max(len(scratch.hit_slot), len(scratch.candidate))
            return new_scratch(n_terms, n_messages, 2 * n_words, room)
        return scratch


def _search_chunk(
    components: Sequence[Component],
    batch: ThresholdBatch,
    first: int,
    last: int,
    scratch: ThresholdScratch,
    n_slots: int,
) -> tuple[ThresholdScratch, _ChunkScores]:
    """Search every component for the messages first to last, and sort what was found."""
    scratch.tally[:] = 0
    for component in components:
        scratch = component.search(batch, first, last, scratch)
    n_hits, n = int(scratch.tally[HITS]), last - first
    message = scratch.hit_message[:n_hits]
    message -= np.int32(first)
    slots, score, begin = np.empty(n_hits, np.int32), np.empty(n_hits), np.empty(n + 1, np.int64)
    spare, spare_score = np.empty(n_hits, np.int32), np.empty(n_hits)
    merge_hits(
        scratch.hit_slot[:n_hits],
        scratch.hit_score[:n_hits],
        message,
        begin,
        n_slots.bit_length(),
        spare,
        spare_score,
        np.empty(256, np.int64),
        slots,
        score,
    )
    return scratch, _ChunkScores(slots, score, begin, int(scratch.tally[LOOKED_AT]), int(scratch.tally[VERIFIED]))


def _joined(chunks: list[_ChunkScores]) -> Matches:
    looked_at, verified = sum(chunk.looked_at for chunk in chunks), sum(chunk.verified for chunk in chunks)
    if len(chunks) == 1:
        return Matches(chunks[0].begin, chunks[0].slots, chunks[0].score, looked_at, verified)
    counts = np.concatenate([np.empty(0, np.int64), *(np.diff(chunk.begin) for chunk in chunks)])
    slots = np.concatenate([_NO_FOUND, *(chunk.slots for chunk in chunks)])
    score = np.concatenate([np.empty(0), *(chunk.score for chunk in chunks)])
    return Matches(np.append(0, np.cumsum(counts)), slots, score, looked_at, verified)


def merged(one: Matches, other: Matches) -> Matches:
    """Return the matches of two parts that share no slot, slots ascending."""
    start = one.start + other.start
    slots, score = np.empty(int(start[-1]), np.int32), np.empty(int(start[-1]))
    # Boolean matches may share one number as their score, which kernels would take for another type.
    one_score, other_score = np.ascontiguousarray(one.score), np.ascontiguousarray(other.score)
    if not one_score.flags.writeable:
        one_score = one_score.copy()
    _merge(one.start, one.slots, one_score, other.start, other.slots, other_score, slots, score)
    return Matches(start, slots, score, one.candidates + other.candidates, one.verified + other.verified)


@hot_kernel
def _merge(one_start, one, one_score, other_start, other, other_score, slots, score):
    to = 0
    for message in range(one_start.size - 1):
        i, j = one_start[message], other_start[message]
        while i < one_start[message + 1] or j < other_start[message + 1]:
            if j == other_start[message + 1] or (i < one_start[message + 1] and one[i] < other[j]):
                slots[to], score[to] = one[i], one_score[i]
                i += 1
            else:
                slots[to], score[to] = other[j], other_score[j]
                j += 1
            to += 1
