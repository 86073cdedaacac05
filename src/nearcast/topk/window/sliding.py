"""The sliding window: which messages count at each step, when each expires, and their ids, times and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.columns import NO_TIME
from nearcast.topk.buffers.holders import WindowRows
from nearcast.window import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Expiries(NamedTuple):
    """Which rows expire at each step, oldest first: those of step i are `row[start[i]:start[i + 1]]`."""

    start: NDArray[np.int64]
    row: NDArray[np.int64]


class WindowMark(NamedTuple):
    """A state of a window to go back to."""

    first_row: int
    next_row: int
    now: int
    updates: list[int]


class RowNames(NamedTuple):
    """Ids, times and numbers of consecutive rows."""

    ids: list[Any]
    time: NDArray[np.int64]
    number: NDArray[np.int64]


class _Rings(NamedTuple):
    """Columns by row, addressed by `row & mask`; the names are those of attributes of `SlidingWindow`."""

    time: NDArray[np.int64]
    number: NDArray[np.int64]
    head: NDArray[np.int32]
    gone: NDArray[np.uint8]
    ids: NDArray[np.object_]


def _rings(size: int) -> _Rings:
    return _Rings(
        np.full(size, NO_TIME, np.int64),
        np.zeros(size, np.int64),
        np.full(size, -1, np.int32),
        np.zeros(size, np.uint8),
        np.empty(size, object),
    )


class SlidingWindow:
    """The messages of a window by row, that is by number of arrival: their times, their ids, who waits for them to go.

    Rows live in rings, addressed by `row & mask`, that grow with the window and hold also what expired during the
    batch under way. By time, the rows that count are on a heap, the oldest on top: late messages find their place too.
    """

    def __init__(self, window: Window):
        self.window = window
        self.next_row = 0
        #: No row below this one counts.
        self.first_row = 0
        self.now = NO_TIME
        self._arrived, self._expired = 0, 0
        self.time, self.number, self.head, self.gone, self.ids = _rings(1 << 10)
        self._heap = np.zeros(1 << 10, np.int64)
        self._n_heap = 0

    @property
    def rows(self) -> WindowRows:
        """Return the rows as buffers see them."""
        return WindowRows(len(self.time) - 1, self.window.is_by_time, self.time, self.head, self.first_row)

    @property
    def n_live(self) -> int:
        """Return how many messages count."""
        if self.window.count is None:
            return self._n_heap
        return min(self.next_row - self.first_row, self.window.count)

    @property
    def nbytes(self) -> int:
        """Return the memory taken by the rings, the ids themselves apart."""
        return self.time.nbytes + self.number.nbytes + self.head.nbytes + self.ids.nbytes + self._heap.nbytes

    @property
    def arriving(self) -> float:
        """Return which share of recent updates of the window were arrivals; the others were expiries."""
        if not self.window.is_by_time or not self._arrived:
            return 0.5
        # A stream that grows or shrinks is not trusted to do so for long.
        return min(max(self._arrived / (self._arrived + self._expired), 0.3), 0.6)

    @property
    def updates(self) -> list[int]:
        """Return how many arrivals and expiries the recent stream had."""
        return [self._arrived, self._expired]

    def rows_by_time(self) -> NDArray[np.int64]:
        """Return the rows that count as a heap of ages, where time decides; else none."""
        return self._heap[: self._n_heap]

    def restore(
        self,
        ids: list[Any],
        times: NDArray[np.int64],
        numbers: NDArray[np.int64],
        heap: NDArray[np.int64],
        about: dict[str, Any],
    ) -> None:
        """Take in the rows of another window, where there are none yet."""
        self.first_row = self.next_row = about["first_row"]
        self.append(ids, times, numbers)
        self.now = about["now"]
        self._arrived, self._expired = about["updates"]
        self._heap, self._n_heap = np.append(heap, np.zeros(1 << 10, np.int64)), len(heap)
        if self.window.is_by_time:
            rows = np.arange(self.first_row, self.next_row)
            self.gone[rows & (len(self.time) - 1)] = ~np.isin(rows, heap)

    def times(self, rows: NDArray[np.int64]) -> list[int]:
        """Return the times of messages that count."""
        times: list[int] = self.time_of(rows).tolist()
        return times

    def time_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the times of messages that have not been forgotten."""
        time: NDArray[np.int64] = self.time[rows & (len(self.time) - 1)]
        return time

    def append(self, ids: list[Any], times: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add messages, which begin to count one by one as `slide` comes to them; return their rows."""
        n = len(times)
        self._make_room(n)
        rows = np.arange(self.next_row, self.next_row + n)
        at = rows & (len(self.time) - 1)
        self.time[at], self.number[at], self.head[at], self.gone[at] = times, numbers, -1, 0
        self.ids[at] = ids
        self.next_row += n
        return rows

    def _make_room(self, n: int) -> None:
        size = len(self.time)
        needed = self.next_row - self.first_row + n
        if needed <= size:
            return
        while size < needed:
            size *= 2
        old = _Rings(self.time, self.number, self.head, self.gone, self.ids)
        rows = np.arange(self.first_row, self.next_row)
        was = rows & (len(self.time) - 1)
        new = _rings(size)
        pairs: Any = zip(new, old, strict=True)
        for ring, held in pairs:
            ring[rows & (size - 1)] = held[was]
        self.__dict__.update(new._asdict())  # in one step: all rings or none

    def slide(self, rows: NDArray[np.int64], clock: NDArray[np.int64]) -> Expiries:
        """Let rows arrive one by one, each at its time of the clock; return what expires at each step.

        A row of -1 is a step of the clock alone. What expired can be read until `forget`.
        """
        if self.window.count is not None:
            return self._slide_by_count(rows, self.window.count)
        assert self.window.length is not None
        if self._n_heap + len(rows) > len(self._heap):
            self._heap = np.append(self._heap, np.zeros(self._n_heap + len(rows), np.int64))
        expired = np.empty(self._n_heap + len(rows), np.int64)
        start = np.zeros(len(rows) + 1, np.int64)
        mask = len(self.time) - 1
        self._n_heap = _slide_by_time(
            self._heap, self._n_heap, self.time, self.gone, mask, rows, clock, self.window.length, start, expired
        )
        self._count_updates(int(np.count_nonzero(rows >= 0)), int(start[-1]))
        return Expiries(start, expired[: start[-1]].copy())

    def _slide_by_count(self, rows: NDArray[np.int64], count: int) -> Expiries:
        gone = rows - count
        is_gone = (gone >= 0) & (rows >= 0)
        start = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(is_gone, out=start[1:])
        return Expiries(start, np.ascontiguousarray(gone[is_gone]))

    def _count_updates(self, arrived: int, expired: int) -> None:
        """Remember the recent stream: the older half of what is known counts half."""
        if not self._expired:
            arrived = min(arrived, expired)  # while the window fills for the first time, only arrivals are seen
        self._arrived, self._expired = self._arrived + arrived, self._expired + expired
        if self._arrived + self._expired > 2 * max(self.n_live, 1000):
            self._arrived, self._expired = self._arrived // 2, self._expired // 2

    def first_alive(self, row: int, now: int) -> tuple[int, int]:
        """Return (first, after): at the step of `row`, rows from `first` on with a time after `after` count."""
        if self.window.count is not None:
            return max(self.first_row, row + 1 - self.window.count), NO_TIME
        assert self.window.length is not None
        return self.first_row, NO_TIME if now == NO_TIME else now - self.window.length

    def first_alive_each(
        self, last: NDArray[np.int64], now: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return what `first_alive` does, where the rows below each `last` have arrived, at each time."""
        if self.window.count is not None:
            return np.maximum(self.first_row, last - self.window.count), np.full(len(last), NO_TIME)
        assert self.window.length is not None
        after = np.where(now == NO_TIME, 0, now) - self.window.length
        return np.full(len(last), self.first_row), np.where(now == NO_TIME, NO_TIME, after)

    @property
    def first_counting(self) -> int:
        """Return the first row that still counts, or the next one: `forget` lets go of those before it."""
        if self.window.count is not None:
            return max(self.first_row, self.next_row - self.window.count)
        return int(_first_held(self.gone, len(self.time) - 1, self.first_row, self.next_row))

    def forget(self) -> None:
        """Drop the ids of messages that no longer count: their rows may be used again."""
        before, self.first_row = self.first_row, self.first_counting
        self.ids[np.arange(before, self.first_row) & (len(self.time) - 1)] = None

    def mark(self) -> WindowMark:
        """Return what `rolled_back` needs to know of the window as it is now."""
        return WindowMark(self.first_row, self.next_row, self.now, self.updates)

    def named(self, first: int, last: int) -> RowNames:
        """Return ids, times and numbers of the rows `first` to `last`."""
        at = np.arange(first, last) & (len(self.time) - 1)
        return RowNames(self.ids[at].tolist(), self.time[at], self.number[at])

    def rolled_back(self, mark: WindowMark, dropped: list[RowNames]) -> SlidingWindow:
        """Return the window as it was at a mark; rows forgotten since then are in `dropped`, in order.

        Nobody is linked with its rows. This window is only read.
        """
        first = mark.first_row + sum(len(names.ids) for names in dropped)
        pieces = [*dropped, self.named(first, mark.next_row)]
        times = np.concatenate([names.time for names in pieces])
        rows = np.arange(mark.first_row, mark.next_row)
        counting = rows[:0]
        if self.window.length is not None and mark.now != NO_TIME:
            counting = rows[times > mark.now - self.window.length]
        heap = counting[np.lexsort((counting, times[counting - mark.first_row]))]  # in order is a heap, too
        fresh = SlidingWindow(self.window)
        about = {"first_row": mark.first_row, "now": mark.now, "updates": mark.updates}
        ids = [id_ for names in pieces for id_ in names.ids]
        fresh.restore(ids, times, np.concatenate([names.number for names in pieces]), heap, about)
        return fresh


@kernel
def _slide_by_time(heap, n_heap, time, gone, mask, rows, clock, length, start, expired):
    """Put each row on the heap, and take off what is too old by then; return how many are on it."""
    n = 0
    for i in range(rows.size):
        if rows[i] >= 0:
            _push(heap, n_heap, time, mask, rows[i])
            n_heap += 1
        while n_heap > 0 and time[heap[0] & mask] <= clock[i] - length:
            expired[n] = heap[0]
            gone[heap[0] & mask] = 1
            n_heap -= 1
            _pop(heap, n_heap, time, mask)
            n += 1
        start[i + 1] = n
    return n_heap


@inlined
def _is_older(time, mask, row, other):
    if time[row & mask] != time[other & mask]:
        return time[row & mask] < time[other & mask]
    return row < other


@inlined
def _push(heap, n_heap, time, mask, row):
    position = n_heap
    while position > 0 and _is_older(time, mask, row, heap[(position - 1) // 2]):
        heap[position] = heap[(position - 1) // 2]
        position = (position - 1) // 2
    heap[position] = row


@inlined
def _pop(heap, n_heap, time, mask):
    """Put the last row, `heap[n_heap]`, in the place of the first."""
    row, position = heap[n_heap], 0
    while 2 * position + 1 < n_heap:
        below = 2 * position + 1
        if below + 1 < n_heap and _is_older(time, mask, heap[below + 1], heap[below]):
            below += 1
        if not _is_older(time, mask, heap[below], row):
            break
        heap[position] = heap[below]
        position = below
    heap[position] = row


@kernel
def _first_held(gone, mask, first, last):
    """Return the first row from `first` on that has not gone."""
    while first < last and gone[first & mask]:
        first += 1
    return first
