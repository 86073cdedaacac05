"""The stores of live messages of `ss-index` and `kk-index`: posting lists by cell of a grid and by word.

MsgIndex of the two baselines in section 5.2.1 of the AP-Tree paper (Wang, Zhang, Zhang, Lin, Wang: VLDB Journal 2015):
a message is in every cell it touches, in each in the lists of all its words. A subscription that moves reads, in the
cells that one of its regions touches, the list of its least frequent word, but for the cells that both regions cut in
the same way.

What the paper leaves open was decided so:

- The grid has as many cells as that of the subscriptions, and a frame of its own, laid around the messages there were
  when it was built. It is built again when as many have come as there were, or when their rows have other numbers; by
  that it gets rid of those that are over.
- How frequent a word is, is counted in the messages filed. A word that none of them has, nobody asks for.
- Every message is also in the list of a word that all have, for subscriptions that need none.
- A message that touches more than 256 cells is kept once, in a cell that every subscription looks at.
- Circles and polygons read all cells that the boxes around them touch.

Space: 4 bytes for each cell and word a message is in, 21 to 43 for each list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.columns import WITHIN
from nearcast.indexes.papers.grid.cells import areas_of, touched_cells
from nearcast.indexes.papers.grid.index import GridIndex
from nearcast.indexes.papers.grid.lists import GridLists
from nearcast.indexes.papers.quad.traffic import frame_alone
from nearcast.live.papers.visits import (
    ListLiveStore,
    ListVisits,
    MessageLists,
    choose_keys,
    is_cut_alike,
    rectangles_of,
    words_to_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nearcast.indexes import Index
    from nearcast.live.cells.queries import LiveQueries, QueryPlaces
    from nearcast.live.table import LiveTable

#: Cells along a side of the grid, where no index says otherwise.
_USUAL_CELLS = 40
#: Messages that are filed before it is worth laying the grid out for them again.
_FEW_ROWS = 1000
_LEAST_ROOM = 1 << 14


class MessageGrid:
    """Posting lists by cell and word over the first `n_rows` rows of a table, those over left out."""

    def __init__(self, table: LiveTable, n: int, now: int, cells: int, *, is_space_first: bool):
        self.cells, self.n_rows, self._n_when_built = cells, n, n
        self.frame = frame_alone(table.box[:n])
        self.count = np.zeros(1, np.int64)
        self._lists = GridLists(1, is_space_first=is_space_first)
        self._lists.lay_out(*self._listed(table, 0, n, now))

    @property
    def is_outgrown(self) -> bool:
        """Whether as many rows have come as there were."""
        return self.n_rows > 2 * self._n_when_built + _FEW_ROWS

    @property
    def lists(self) -> MessageLists:
        """The lists as kernels read them."""
        arrays = self._lists.arrays
        return MessageLists(arrays.owners, arrays.slots, arrays.entries.number)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return self._lists.nbytes + self.count.nbytes

    def add_rows(self, table: LiveTable, n: int, now: int) -> None:
        """File the rows from `n_rows` to n."""
        cell, key, entry, item = self._listed(table, self.n_rows, n, now)
        self._lists.add(cell, key, entry[item])
        self.n_rows = n

    def _listed(
        self, table: LiveTable, first: int, last: int, now: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """Return (cell, key, entries, entry) of rows, for each cell and each word; count the words."""
        filed = words_to_file(table, first, last, now)
        item, rectangle = rectangles_of(table.box[filed.row])
        cell, of_rectangle = touched_cells(self.frame, self.cells, rectangle)
        item = item[of_rectangle]
        n_keys = np.diff(filed.start)[item]
        at = np.arange(n_keys.sum()) + np.repeat(filed.start[item] - (np.cumsum(n_keys) - n_keys), n_keys)
        counted = np.bincount(filed.key, minlength=len(self.count))
        counted[: len(self.count)] += self.count
        self.count = counted
        return np.repeat(cell, n_keys), filed.key[at], filed.row.astype(np.int32)[:, None], np.repeat(item, n_keys)


class GridLiveStore(ListLiveStore):
    """Keeps messages in posting lists by cell and word; a subclass says which of the two comes first."""

    is_space_first: ClassVar[bool]
    _grid: MessageGrid | None
    _cells = _USUAL_CELLS

    def use_index(self, index: Index) -> None:
        """Divide space as finely as the index does."""
        if isinstance(index, GridIndex) and index.cells_per_side != self._cells:
            self._cells = index.cells_per_side
            self._grid = None

    def _rows_renumbered(self) -> None:
        super()._rows_renumbered()
        self._grid = None

    def _structure_bytes(self) -> int:
        return 0 if self._grid is None else self._grid.nbytes

    def _file_rows_behind(self) -> None:
        grid, state = self._grid, self._state
        self._grid = None  # until it is whole: one that is cut short is built anew
        if grid is not None and grid.n_rows < state.n:
            grid.add_rows(state.table, state.n, state.now)
        if grid is None or grid.is_outgrown:
            grid = MessageGrid(state.table, state.n, state.now, self._cells, is_space_first=self.is_space_first)
        self._grid = grid

    def _lists(self) -> MessageLists:
        assert self._grid is not None
        return self._grid.lists

    def _visits(self, queries: LiveQueries, before: QueryPlaces, after: QueryPlaces) -> Iterator[ListVisits]:
        grid = self._grid
        assert grid is not None
        key, n = np.empty(len(queries.code_start) - 1, np.int32), grid.cells
        choose_keys(queries, grid.count, key)
        areas = areas_of(grid.frame, n, before.part), areas_of(grid.frame, n, after.part)
        next_row, room, cell = 0, max(_LEAST_ROOM, 8 * len(queries.kind)), np.empty(4, np.int64)
        while next_row < len(queries.kind):
            visits = ListVisits.room_for(room)
            next_row, n_visits = fill_visits(
                self.is_space_first, n, key, queries, before, after, *areas, next_row, cell, visits
            )
            yield visits.first(n_visits)
            room = 4 * room if n_visits == 0 else room


class SsLiveStore(GridLiveStore):
    """Keeps messages in a grid with posting lists in each cell."""

    name = "ss-index"
    is_space_first = True


class KkLiveStore(GridLiveStore):
    """Keeps messages in posting lists, each divided by a grid."""

    name = "kk-index"
    is_space_first = False


@hot_kernel
def fill_visits(is_space_first, n, key, queries, before, after, area_before, area_after, next_row, cell, visits):
    """Write the lists to read for the rows from `next_row` on; return (next row, how many lists).

    It stops before a row that `visits` has no room for. `area_before` and `area_after` are the columns and lines of the
    rectangles of regions. Each cell is visited once.
    """
    at = 0
    for row in range(next_row, queries.kind.size):
        at_before = at
        if queries.kind[row] != WITHIN:
            continue
        at = _visit(is_space_first, n * n, key, queries, row, at, visits)
        first, last = after.part_start[row], after.part_start[row + 1]
        for p in range(first, last):
            for y in range(area_after[p, 1], area_after[p, 3] + 1):
                for x in range(area_after[p, 0], area_after[p, 2] + 1):
                    cell[0], cell[1], cell[2], cell[3] = x, y, x, y
                    if _is_in_parts(area_after, first, p, x, y) or is_cut_alike(
                        before, after, row, area_before, area_after, cell
                    ):
                        continue
                    at = _visit(is_space_first, y * n + x, key, queries, row, at, visits)
        begin = before.part_start[row]
        for p in range(begin, before.part_start[row + 1]):
            for y in range(area_before[p, 1], area_before[p, 3] + 1):
                for x in range(area_before[p, 0], area_before[p, 2] + 1):
                    # A cell that only the old region touches is never cut as the new one cuts it.
                    if not (_is_in_parts(area_before, begin, p, x, y) or _is_in_parts(area_after, first, last, x, y)):
                        at = _visit(is_space_first, y * n + x, key, queries, row, at, visits)
        if at > visits.query.size:
            return row, at_before
    return queries.kind.size, at


@inlined
def _is_in_parts(area, first, last, x, y):
    """Tell whether a cell is touched by one of these rectangles."""
    for p in range(first, last):
        if area[p, 0] <= x <= area[p, 2] and area[p, 1] <= y <= area[p, 3]:
            return True
    return False


@inlined
def _visit(is_space_first, cell, key, queries, row, at, visits):
    """Write the lists of a cell for all clauses of a row, where there is room; return how many there are."""
    for clause in range(queries.clause_start[row], queries.clause_start[row + 1]):
        if key[clause] >= 0:
            if at < visits.query.size:
                visits.query[at], visits.clause[at] = row, clause
                visits.owner[at] = cell if is_space_first else key[clause]
                visits.key[at] = key[clause] if is_space_first else cell
            at += 1
    return at
