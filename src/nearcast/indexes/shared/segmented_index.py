"""An index over several immutable segments of rows, merged by size, and a few newest rows that are scored one by one.

The logarithmic method (Bentley, Saxe: Decomposable searching problems, 1980): rows that were added lately are scored
one by one; when there are more of them than an eighth of a leaf they become a segment, together with the segments
before that are not much larger. So a row is built into a segment O(log n) times.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.errors import UnknownIndex
from nearcast.indexes import Matches
from nearcast.indexes.shared.one_by_one import LOOKED_AT, VERIFIED
from nearcast.indexes.shared.rebuilt_index import bytes_of
from nearcast.indexes.shared.scores import count_words, forget_words, topk_score, totals_for
from nearcast.indexes.shared.search_arrays import FoundSlots, MessageColumns
from nearcast.indexes.shared.stored_index import StoredIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.geo import Space

#: A segment takes in those before it that are at most this many times as large.
_LIKE_SIZE = 2
#: As many rows in no segment are left so: one in so many of a leaf.
_FRESH_OF_LEAF = 8
#: Attributes of an index that a merge replaces.
_SEGMENTS = ("_segments", "_scratches", "_n_dead", "_segment_of", "_member_of")
#: Answers there is room for at least, before they are copied out.
_ROOM = 1 << 16


class SearchPiece(NamedTuple):
    """What one search found: how many answers each message has, their slots and scores, what was looked at."""

    counts: NDArray[np.int64]
    slots: NDArray[np.int32]
    scores: NDArray[np.float64]
    tally: NDArray[np.int64]


class SegmentedIndex(StoredIndex):
    """Answers from segments over the rows of the table. A kind of segment is five methods:

    - `_build(rows)` returns one over these live rows; its field `row` names the row of each of its members.
    - `_new_scratch(segment, n_weights, longest)` returns scratch arrays for it, among them `times` for as many
      terms, `spoken` for as many words of a message, and `tally`.
    - `_search(segment, scratch, batch, found, first, counts)` works as `gather.search_each` does.
    - `_retune(segment, members)` brings members in line with thresholds that have changed.
    - `_forget(segment, members)` lets members go that count no longer.
    """

    def __init__(self, space: Space, *, leaf: int, **options: int):
        super().__init__(space, leaf=leaf, **options)
        for name, value in self._options.items():
            if value < 1:
                raise UnknownIndex(f"option {name} of the index {self.info.name!r} is at least 1, not {value}")
        self._fresh = leaf // _FRESH_OF_LEAF + 1
        self._segments: list[Any] = []
        self._scratches: list[Any] = []
        self._n_dead: list[int] = []
        #: Which segment a row is in, and as which member; rows from here on are in none.
        self._segment_of = np.empty(0, np.int32)
        self._member_of = np.empty(0, np.int32)
        self._room = FoundSlots(np.empty(0, np.int32), np.empty(0), self._slot_of)

    @abstractmethod
    def _build(self, rows: NDArray[np.int64]) -> Any: ...

    @abstractmethod
    def _new_scratch(self, segment: Any, n_weights: int, longest: int) -> Any: ...

    @abstractmethod
    def _search(
        self,
        segment: Any,
        scratch: Any,
        batch: MessageColumns,
        found: FoundSlots,
        first: int,
        counts: NDArray[np.int64],
    ) -> int: ...

    @abstractmethod
    def _retune(self, segment: Any, members: NDArray[np.int32]) -> None: ...

    @abstractmethod
    def _forget(self, segment: Any, members: NDArray[np.int32]) -> None: ...

    # What happens to the table

    def _rows_dropped(self, rows: NDArray[np.int64]) -> None:
        for number, members in self._by_segment(rows):
            self._forget(self._segments[number], members)
            self._n_dead[number] += len(members)

    def _thresholds_set(self, rows: NDArray[np.int64]) -> None:
        for number, members in self._by_segment(rows):
            self._retune(self._segments[number], members)

    def _rows_renumbered(self) -> None:
        self._segments, self._scratches, self._n_dead = [], [], []
        self._segment_of = self._member_of = np.empty(0, np.int32)

    def _by_segment(self, rows: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int32]]]:
        """Return the members that these rows are, segment by segment."""
        rows = rows[rows < len(self._segment_of)]
        segment_of = self._segment_of[rows]
        numbers = np.unique(segment_of[segment_of >= 0]).tolist()
        return [(number, self._member_of[rows[segment_of == number]]) for number in numbers]

    def _ready(self) -> list[Any]:
        """Return the segments, after building what must be built."""
        n_seen, n_rows = len(self._segment_of), len(self._slot_of)
        fresh = n_seen + np.flatnonzero(self._slot_of[n_seen:] >= 0)
        half_dead = [n for n, dead in enumerate(self._n_dead) if 2 * dead > len(self._segments[n].row)]
        first = min(half_dead, default=len(self._segments))
        if len(fresh) > self._fresh or (len(fresh) and not self._segments):
            size = len(fresh)
            while first > 0 and len(self._segments[first - 1].row) <= _LIKE_SIZE * size:
                first -= 1
                size += len(self._segments[first].row)
        elif not half_dead:
            return self._segments
        with self._undo:
            self._undo.attributes(self, *_SEGMENTS)
            self._merge(first, n_rows)
        return self._segments

    def _merge(self, first: int, n_rows: int) -> None:
        """Make one segment of those from `first` on and of all rows that are in none."""
        new = np.full(n_rows - len(self._segment_of), len(self._segments), np.int32)
        segment_of = np.append(self._segment_of, new)
        rows = np.flatnonzero((segment_of >= first) & (self._slot_of[:n_rows] >= 0))
        segment_of[segment_of >= first] = -1
        # New lists, so that the ones noted stay as they are.
        self._segments, self._scratches = self._segments[:first], self._scratches[:first]
        self._n_dead = self._n_dead[:first]
        self._member_of = np.append(self._member_of, np.zeros(len(new), np.int32))
        if len(rows):
            segment = self._build(rows)
            segment_of[segment.row] = first
            self._member_of[segment.row] = np.arange(len(rows), dtype=np.int32)
            self._segments.append(segment)
            self._scratches.append(None)
            self._n_dead.append(0)
        self._segment_of = segment_of

    # Matching

    def match(self, messages: Messages, *, threads: int = 1) -> Matches:
        """Return the slots that every message concerns; one core whatever `threads` says."""
        messages = messages.for_kernels()
        with self._lock:
            self._undo.roll_back()
            totals = totals_for(messages, needed=self._needs_totals)
            batch = MessageColumns(messages.term_start, messages.terms, messages.box, totals)
            pieces = [self._searched(number, batch) for number in range(len(self._ready()))]
            if len(self._segment_of) < len(self._slot_of):
                pieces.append(self._searched_fresh(batch))
            return joined(pieces, len(messages))

    def _found_room(self, n_most: int) -> FoundSlots:
        """Return room for the answers to one message at least."""
        room = max(n_most + 1, _ROOM)
        if len(self._room.slots) < room:
            self._room = FoundSlots(np.empty(room, np.int32), np.empty(room), self._slot_of)
        self._room = self._room._replace(slot_of=self._slot_of)
        return self._room

    def _scratch_for(self, number: int, longest: int) -> Any:
        """Return scratch arrays that are large enough, the last ones of the segment if they are."""
        n_weights, old = len(self._scored().weight), self._scratches[number]
        if old is None or len(old.times) != n_weights or len(old.spoken) < longest:
            self._scratches[number] = self._new_scratch(self._segments[number], n_weights, longest)
        return self._scratches[number]

    def _searched(self, number: int, batch: MessageColumns) -> SearchPiece:
        segment = self._segments[number]
        counts = np.zeros(len(batch.box), np.int64)
        found = self._found_room(len(segment.row))
        scratch = self._scratch_for(number, int(np.diff(batch.term_start).max(initial=0)))
        scratch.tally[:] = 0
        slots, scores, message = [np.empty(0, np.int32)], [np.empty(0)], 0
        while message < len(counts):
            first = message
            message = self._search(segment, scratch, batch, found, first, counts)
            n = int(counts[first:message].sum())
            slots.append(found.slots[:n].copy())
            scores.append(found.scores[:n].copy())
        return SearchPiece(counts, np.concatenate(slots), np.concatenate(scores), scratch.tally.copy())

    def _searched_fresh(self, batch: MessageColumns) -> SearchPiece:
        """Score the rows that are in no segment."""
        counts, tally = np.zeros(len(batch.box), np.int64), np.zeros(2, np.int64)
        scored, n_seen = self._scored(), len(self._segment_of)
        rows = n_seen + np.flatnonzero(self._slot_of[n_seen:] >= 0)
        found = FoundSlots(
            np.empty(len(rows) * len(counts), np.int32), np.empty(len(rows) * len(counts)), self._slot_of
        )
        _score_rows(scored, rows, batch, found, np.zeros(len(scored.weight)), self.space.is_earth, counts, tally)
        n = int(counts.sum())
        return SearchPiece(counts, found.slots[:n], found.scores[:n], tally)

    # What is held

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes; `segments` is how many structures stand side by side."""
        with self._lock:
            self._undo.roll_back()
            return {**super().stats(), "segments": len(self._ready())}

    def _structure_bytes(self) -> int:
        size = bytes_of(tuple(self._ready())) + self._segment_of.nbytes + self._member_of.nbytes + self._weights.nbytes
        rows = self._scored_rows
        return size if rows is None else size + rows.point.nbytes + rows.own.nbytes  # the rest is the table's


@hot_kernel
def _score_rows(scored, rows, batch, found, count, is_earth, counts, tally):
    """Write the rows that each message concerns; in order of their rows, not of their slots."""
    at = 0
    for message in range(counts.size):
        first, last = batch.term_start[message], batch.term_start[message + 1]
        count_words(batch.terms, first, last, count)
        begin = at
        for i in range(rows.size):
            row = rows[i]
            score = topk_score(scored, row, count, batch.totals, is_earth, batch.box, message)
            if score >= 0.0 and score >= scored.threshold[row]:
                found.slots[at], found.scores[at] = found.slot_of[row], score
                at += 1
        counts[message] = at - begin
        tally[LOOKED_AT] += rows.size
        tally[VERIFIED] += rows.size
        forget_words(batch.terms, first, last, count)


def joined(pieces: list[SearchPiece], n_messages: int) -> Matches:
    """Return what all searches found, message by message and in order of slots; no slot is in two pieces."""
    start = np.zeros(n_messages + 1, np.int64)
    if not pieces:
        return Matches(start, np.empty(0, np.int32), np.empty(0))
    np.cumsum(sum(piece.counts for piece in pieces), out=start[1:])
    slots, scores = np.concatenate([each.slots for each in pieces]), np.concatenate([each.scores for each in pieces])
    message = np.concatenate([np.repeat(np.arange(n_messages), each.counts) for each in pieces])
    order = np.lexsort((slots, message))
    tally = np.sum([each.tally for each in pieces], axis=0)
    return Matches(start, slots[order], scores[order], int(tally[LOOKED_AT]), int(tally[VERIFIED]))
