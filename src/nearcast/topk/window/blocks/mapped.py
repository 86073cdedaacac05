"""Segments of `blocks` that lie in columns of somebody else: making one, and an index over those that are there.

A segment is built by itself, from a stretch of rows, and says nothing of where its columns are put. So whoever keeps
the columns may only ever append to them: a merged segment is a new one, and what it replaces stays for those who read
it. An index over some of the segments is a table of where each begins, and the columns as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast.topk.window.blocks import BlockIndex
from nearcast.topk.window.blocks.lists import BlockLists
from nearcast.topk.window.bounds import N_COLUMNS
from nearcast.topk.window.column_queue import ColumnQueue
from nearcast.topk.window.scores import N_CARD, WORD_FIRST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.topk.window.contract import WindowBatch

#: The columns of segments by group, those of a group equally long: type and width of each, 0 for a plain column.
GROUPS: dict[str, dict[str, tuple[type, int]]] = {
    "rows": {"card": (np.float64, N_CARD), "time": (np.int64, 0), "mark": (np.int64, 0), "position": (np.int64, 0)},
    "words": {"said": (np.int32, 2)},
    "lists": {"word": (np.int32, 0), "run": (np.int32, 0), "list_u": (np.float64, 0)},
    "runs": {"run_block": (np.int32, 0), "run_summary": (np.float64, N_COLUMNS)},
    "blocks": {"block_posting": (np.int32, 0), "block_summary": (np.float64, N_COLUMNS)},
    "postings": {"posting": (np.int32, 0), "u": (np.float32, 0), "posting_mark": (np.int64, 0)},
}
_ROWS, _WORDS, _LISTS, _RUNS, _BLOCKS, _POSTINGS = range(6)
Columns = dict[str, "NDArray[Any]"]


class SegmentPlace(NamedTuple):
    """The rows `first` to `end` in columns: where their part of each group begins, and how long it is.

    Without lists they are a tail, of rows that are looked at one by one.
    """

    first: int
    end: int
    begins: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def is_tail(self) -> bool:
        """Tell whether the rows are in no segment."""
        return self.sizes[_LISTS] == 0


def segment_columns(
    space: Space, by_time: bool, first_row: int, batch: WindowBatch, weight: NDArray[np.float64]
) -> Columns:
    """Return the columns of a segment of these messages, with rows from `first_row` on; of a tail if they are few.

    Words and positions count from where the segment begins: `placed` says where that is.
    """
    assert len(batch.box) <= BlockIndex.MOST
    index = BlockIndex(space, by_time)._made_of(first_row, [batch], weight)
    rows, names = index._rows, [name for group in list(GROUPS.values())[_LISTS:] for name in group]
    columns = {name: rows[name] for name in ("card", "time", "mark")}
    columns |= {"position": rows["position"] - first_row, "said": index._words["said"]}
    queues = [queue[name] for queue in index._columns for name in queue.arrays]
    return columns | dict(zip(names, queues, strict=True))


def placed(columns: Columns, said_begin: int) -> Columns:
    """Return the columns of a segment for a place where its words begin at `said_begin`, or with `-begin` back."""
    card = columns["card"].copy()
    card[:, WORD_FIRST] += said_begin
    return columns | {"card": card}


class MappedBlocks(BlockIndex):
    """A `BlockIndex` that only searches: segments in columns that others write, and maybe a tail behind them."""

    def __init__(
        self,
        space: Space,
        by_time: bool,
        columns: Mapping[str, NDArray[Any]],
        places: Sequence[SegmentPlace],
        floor: int,
        next_row: int,
        n_words: int,
    ):
        super().__init__(space, by_time)
        self.places = tuple(places)
        first = places[0].first if places else next_row
        self._rows = ColumnQueue(first, **{name: columns[name] for name in GROUPS["rows"]})
        self._rows.end = next_row
        self._words = ColumnQueue(said=columns["said"])
        self._floor, self._n_words = floor, n_words
        self._first_rows = np.array([place.first for place in places], np.int64)
        self._row_begins = np.array([place.begins[_ROWS] for place in places], np.int64)
        segments = [place for place in places if not place.is_tail]
        tails = [place for place in places if place.is_tail]
        assert len(tails) <= 1
        tail = np.zeros(2, np.int64)
        for place in tails:
            tail[:] = place.begins[_ROWS], place.begins[_ROWS] + place.end - place.first
        names = [name for group in list(GROUPS.values())[_LISTS:] for name in group]
        lists = BlockLists(_table(segments), *(columns[name] for name in names))
        self._most_groups = sum(place.sizes[_RUNS] + place.sizes[_BLOCKS] for place in segments)
        self._view = (self._held(), tail, lists)

    @property
    def floor(self) -> int:
        """The first row that counts; a few before it may be held."""
        return self._floor

    def _n_groups(self) -> int:
        return self._most_groups

    def _at(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where in the columns held rows are."""
        if len(rows) and not (self._rows.first <= rows.min() and rows.max() < self._rows.end):
            raise IndexError(f"rows {self._rows.first} to {self._rows.end} are held, not {rows.min()} to {rows.max()}")
        if not len(rows):
            return rows
        place = np.searchsorted(self._first_rows, rows, side="right") - 1
        begin = self._row_begins[place]
        at: NDArray[np.int64] = begin + self._rows.arrays["position"][begin + rows - self._first_rows[place]]
        return at

    def append(self, batch: WindowBatch) -> None:
        """Nothing is changed here."""
        raise NotImplementedError("who keeps the columns appends to them")

    def columns_at(self, place: SegmentPlace) -> Columns:
        """Return the columns of one place, as `segment_columns` gave them."""
        held, _, lists = self._as_read()
        rows = self._rows.arrays
        arrays = [*(rows[name] for name in GROUPS["rows"]), held.said, *lists[1:]]
        spans = [at for at, group in enumerate(GROUPS.values()) for _ in group]
        names = [name for group in GROUPS.values() for name in group]
        columns = {
            name: array[place.begins[at] : place.begins[at] + place.sizes[at]]
            for name, at, array in zip(names, spans, arrays, strict=True)
        }
        return placed(columns, -place.begins[_WORDS])


def _table(segments: Sequence[SegmentPlace]) -> NDArray[np.int64]:
    """Return the table of `BlockLists` for segments that do not lie end to end: the last first, each with its end.

    Kernels take the next line for the end of a segment. So between two there is a line of what lies between them, which
    is no segment. Its list is the last of the segment before it, which no word has; and as the next line is of one that
    was written before, there is no other to be found in it.
    """
    lines = []
    for place in reversed(segments):
        begins, sizes = np.array(place.begins), np.array(place.sizes)
        sizes[_LISTS] -= 1
        for at, row in ((begins, place.first), (begins + sizes, place.end)):
            lines.append((at[_ROWS], at[_LISTS], at[_RUNS], at[_BLOCKS], at[_POSTINGS], row))
    return np.array(lines or [(0,) * 6], np.int64)
