"""Messages of a window in immutable segments, merged by size, and a tail of newest messages in none.

A segment is a stretch of rows, so that the segments and what follows them lie end to end in the order of arrival: new
ones are made of the last rows, and merging takes the last segments with them. Within a segment messages stand in the
order of a Hilbert curve. A merge builds the segment from the rows again; sizes about double, so a row that comes alone
is merged some ten times in its life.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.indexes.shared.undo import UndoLog
from nearcast.topk.window.answers import SLICE, SliceAnswers, SliceSearch, answers, join_slice
from nearcast.topk.window.contract import LiveRows
from nearcast.topk.window.scores import N_WORDS, ROW, WORD_FIRST, first_word, n_words_of
from nearcast.topk.window.scratch import ScratchLender
from nearcast.topk.window.segment_search import SearchRequest
from nearcast.topk.window.stored_messages import StoredMessages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.topk.window.contract import WindowAnswers, WindowBatch, WindowQueries


class SegmentedMessages(StoredMessages):
    """Keeps rows in segments; what a segment is made of is up to the index."""

    #: Rows that are looked at one by one before they make a segment, and the most in a segment.
    TAIL: ClassVar[int] = 256
    MOST: ClassVar[int] = 1 << 17
    #: So many queries, for no more messages each, are joined with the window instead of searched one by one.
    JOINED_FROM: ClassVar[int] = 1 << 13
    JOINED_KEEP: ClassVar[int] = 1024

    def __init__(self, space: Space, by_time: bool, columns: Any):
        #: What segments are made of: a NamedTuple of `ColumnQueue`s.
        self._columns = columns
        #: The rows of each segment, first and end, and where it begins in each of the columns.
        self._segments: list[tuple[int, int]] = []
        self._begins: list[tuple[int, ...]] = []
        #: Whether segments are to be built anew from their rows: words or lengths changed, or a change was interrupted.
        self._is_stale = False
        #: The arrangement of rows being written, None when it is complete.
        self._arranging: tuple[int, int, dict[str, NDArray[Any]], NDArray[np.int32]] | None = None
        #: All arrays as kernels read them, until something changes.
        self._view: tuple[Any, ...] | None = None
        self._lender = ScratchLender()
        #: Threads of a search whose end was not waited for, because the wait was interrupted.
        self._unfinished = UndoLog()
        super().__init__(space, by_time)

    @abstractmethod
    def _add_segment(self, first: int, end: int) -> None:
        """Add to the columns the messages from `first` to `end` of the arrays, which are in the order of the curve."""

    @abstractmethod
    def _arrays(self) -> Any:
        """Return the columns as the kernel reads them."""

    @abstractmethod
    def _n_groups(self) -> int:
        """Return the most groups that a search can have open at once."""

    @property
    @abstractmethod
    def _kernel(self) -> Callable[..., int]:
        """The search: takes a `SearchRequest`, `_arrays()`, the numbers of queries, scratch, answers and work."""

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return super().nbytes + sum(int(columns.nbytes) for columns in self._columns)

    # --- changes --------------------------------------------------------------------------------------------------

    def append(self, batch: WindowBatch) -> None:
        """Add messages; the weights of their words have been set."""
        self._unfinished.roll_back()
        self._view = None
        super().append(batch)
        while self.next_row - self._tail_row >= self.TAIL:
            self._settle()

    def _build(self, first: int, end: int) -> None:
        """Make the next segment, of these rows."""
        self._begins.append(tuple(columns.end for columns in self._columns))
        self._add_segment(first - self._rows.base, end - self._rows.base)

    def _cut(self, n: int) -> None:
        """Drop the columns of all segments but the first n."""
        if n < len(self._begins):
            for columns, end in zip(self._columns, self._begins[n], strict=True):
                columns.cut(end)
            del self._begins[n:]

    def _drop(self, n: int) -> None:
        """Drop the columns of the first n segments."""
        begins = self._begins[n] if n < len(self._begins) else [columns.end for columns in self._columns]
        for columns, first in zip(self._columns, begins, strict=True):
            columns.drop(first)
        del self._begins[:n]

    def _weights(self) -> NDArray[np.float64]:
        """Return the weights of all words; those not yet given are 0."""
        weight = np.zeros(max(self._n_words, self._weight.size))
        weight[: self._weight.size] = self._weight
        return weight

    @property
    def _tail_row(self) -> int:
        """The first row that is in no segment."""
        return self._segments[-1][1] if self._segments else self._rows.first

    def _settle(self) -> None:
        """Make a segment of the rows that are in none, with the segments before that are no larger."""
        first = self._tail_row
        end = min(self.next_row, first + self.MOST)
        left = len(self._segments)
        while left and self._is_merged(self._segments[left - 1], first, end):
            left -= 1
            first = self._segments[left][0]
        was_stale, self._is_stale = self._is_stale, True
        if not was_stale:
            self._cut(left)
        self._segments = self._segments[:left]
        self._arrange(first, end)
        if not was_stale:
            self._build(first, end)
        self._segments = [*self._segments, (first, end)]
        self._is_stale = was_stale

    def _is_merged(self, segment: tuple[int, int], first: int, end: int) -> bool:
        """Tell whether a segment goes into the one of the rows that follow: not if most of it is about to go."""
        size = segment[1] - segment[0]
        is_live = 2 * (segment[1] - max(segment[0], self._floor)) > size
        return is_live and size <= end - first and end - segment[0] <= self.MOST

    def _arrange(self, first: int, end: int) -> None:
        """Put the messages at these positions into the order of the curve."""
        rows = self._rows
        order = np.argsort(rows.part("key", first, end), kind="stable")
        begin, last = self._word_first(first), self._word_first(end)
        said = np.empty((last - begin, 2), np.int32)
        copy_words(self._held(), first - rows.base, order, said)
        arranged = {name: rows.part(name, first, end)[order] for name in ("card", "time", "mark", "key")}
        card = arranged["card"]
        card[:, WORD_FIRST] = begin + np.cumsum(card[:, N_WORDS]) - card[:, N_WORDS]
        self._arranging = (first, begin, arranged, said)
        self._write_arranged()

    def _write_arranged(self) -> None:
        """Write an arrangement in place of the rows it was made of; it may be written again after an interruption."""
        if self._arranging is None:
            return
        first, begin, arranged, said = self._arranging
        rows, end = self._rows, first + len(arranged["card"])
        self._words.part("said", begin, begin + len(said))[:] = said
        for name, column in arranged.items():
            rows.part(name, first, end)[:] = column
        rows.arrays["position"][arranged["card"][:, ROW].astype(np.int64) - rows.base] = np.arange(first, end)
        self._arranging = None

    def rolled_back(self, first_row: int, next_row: int, dropped: list[WindowBatch]) -> Self:
        """Return an index of the rows `first_row` to `next_row`, the first of which are in `dropped`."""
        self._unfinished.roll_back()
        self._write_arranged()
        return super().rolled_back(first_row, next_row, dropped)

    def _forget_before(self, position: int) -> None:
        """Drop the segments below `position`, or all positions below it if it is in no segment."""
        self._unfinished.roll_back()
        self._view = None
        gone = 0
        while gone < len(self._segments) and self._segments[gone][1] <= position:
            gone += 1
        end = self._segments[gone - 1][1] if gone else self._rows.first
        if gone:
            was_stale, self._is_stale = self._is_stale, True
            self._segments = self._segments[gone:]
            if not was_stale:
                self._drop(gone)
            self._is_stale = was_stale
        super()._forget_before(end if self._segments else position)

    def set_weights(self, weight: NDArray[np.float64]) -> None:
        """Say what all words weigh, by id; if a word had another weight, the next search builds the segments anew."""
        new_of_seen = weight[: max(self._weight.size, self._n_words)]
        self._is_stale |= not np.array_equal(new_of_seen, self._weight)  # first: noted once too often does no harm
        super().set_weights(weight)

    def relength(self, first_row: int, length: NDArray[np.float64]) -> None:
        """Replace the squared lengths of the rows from `first_row` on; rows no longer held are passed over."""
        self._unfinished.roll_back()
        self._is_stale = True
        super().relength(first_row, length)

    def refresh(self) -> None:
        """Build all segments anew if words or lengths have changed since; a search does it by itself."""
        self._unfinished.roll_back()
        if self._is_stale:
            self._view, self._begins = None, []
            for columns in self._columns:
                columns.cut(columns.first)
            for first, end in self._segments:
                self._build(first, end)
            self._is_stale = False

    # --- searches -------------------------------------------------------------------------------------------------

    def best(self, queries: WindowQueries, n: NDArray[np.int32], alive: LiveRows, threads: int = 1) -> WindowAnswers:
        """Return the `n` best messages for each query, fewer where there are not so many."""
        return self.best_above(queries, n, np.full(len(n), -1.0), alive, threads)

    def best_above(
        self,
        queries: WindowQueries,
        n: NDArray[np.int32],
        floor: NDArray[np.float64],
        alive: LiveRows,
        threads: int = 1,
    ) -> WindowAnswers:
        """Return the `n` best of all messages with a score of `floor` or more, for each query."""
        keep = np.maximum(np.minimum(n, self.next_row - self._rows.first), 0).astype(np.int64)
        return self._search(queries, keep, floor, keep, alive, threads)

    def at_least(
        self, queries: WindowQueries, threshold: NDArray[np.float64], alive: LiveRows, threads: int = 1
    ) -> WindowAnswers:
        """Return for each query all messages with a score of `threshold` or more."""
        n = len(threshold)
        keep = np.full(n, self.next_row - self._rows.first, np.int64)
        return self._search(queries, keep, np.array(threshold, np.float64), np.zeros(n, np.int64), alive, threads)

    def _search(
        self,
        queries: WindowQueries,
        keep: NDArray[np.int64],
        floor: NDArray[np.float64],
        most: NDArray[np.int64],
        alive: LiveRows,
        threads: int,
    ) -> WindowAnswers:
        self.refresh()
        queries = queries.for_kernels()
        alive = LiveRows(max(int(alive.first), self._floor), min(int(alive.last), self.next_row), int(alive.after))
        work, request = np.zeros(len(keep), np.int64), self._request(queries, keep, floor, alive)
        is_join = len(keep) >= self.JOINED_FROM and int(keep.max()) <= min(int(most.max()), self.JOINED_KEEP)
        answer = self._joined(request, work) if is_join else self._one_by_one(request, work)
        size = join_slice(int(keep.max())) if is_join else SLICE
        return answers(self.space, queries, most, work, answer, threads, self._unfinished, size)

    def _request(
        self, queries: WindowQueries, keep: NDArray[np.int64], floor: NDArray[np.float64], alive: LiveRows
    ) -> SearchRequest:
        """Return the request for up to `keep` messages of a score of `floor` or more."""
        held, tail, _ = self._as_read()
        return SearchRequest(
            queries=queries,
            keep=keep,
            floor=floor,
            alive=alive,
            held=held,
            tail=tail,
            by_time=self.by_time,
            is_earth=self.space.is_earth,
        )

    def _as_read(self) -> tuple[Any, ...]:
        """Return messages, tail and segments as kernels read them."""
        if self._view is None:
            tail = np.array([self._tail_row, self.next_row], np.int64) - self._rows.base
            self._view = (self._held(), tail, self._arrays())
        return self._view

    def _joined(self, request: SearchRequest, work: NDArray[np.int64]) -> SliceSearch:
        """Return the search for many queries, which an index may do together."""
        return self._one_by_one(request, work)

    def _one_by_one(self, request: SearchRequest, work: NDArray[np.int64]) -> SliceSearch:
        """Return the search for query after query."""
        segments = self._as_read()[2]
        n_words = int(np.diff(request.queries.word_start).max(initial=0))
        n_kept = int(request.keep.max(initial=0))

        def answer(which: NDArray[np.int64], room: SliceAnswers) -> int:
            with self._lender.lent(n_words, self._n_groups(), n_kept) as scratch:
                return int(self._kernel(request, segments, which, scratch, room, work))

        return answer

    def _segment_table(self) -> NDArray[np.int64]:
        """Return for each segment, and for the end, the first position, where each column begins, and the first row."""
        begins = [(first, *begin, first) for (first, _), begin in zip(self._segments, self._begins, strict=True)]
        end = (self._tail_row, *(columns.end for columns in self._columns), self._tail_row)
        bases = (self._rows.base, *(columns.base for columns in self._columns), 0)
        return np.array([*begins, end], np.int64) - np.array(bases, np.int64)

    def _segment_arrays(self) -> Iterator[NDArray[Any]]:
        return (array for columns in self._columns for array in columns.arrays.values())


@hot_kernel
def copy_words(held, first, order, said):
    """Write the words of the messages from position `first` on, in this order."""
    to = 0
    for i in range(order.size):
        position = first + order[i]
        begin = first_word(held, position)
        for j in range(begin, begin + n_words_of(held, position)):
            said[to, 0], said[to, 1] = held.said[j, 0], held.said[j, 1]
            to += 1
