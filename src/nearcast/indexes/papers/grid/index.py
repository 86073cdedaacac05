"""The indexes `ss-index` and `kk-index`: a grid and ranked-key lists, space first or words first.

The two baselines for moving subscriptions that the AP-Tree paper (Wang, Zhang, Zhang, Lin, Wang: VLDB Journal 2015,
section 5.2.1) makes of grid files: SS-Index divides space into a grid of 40 × 40 and has a ranked-key inverted list in
each cell; KK-Index has one ranked-key inverted list and divides each posting list by the grid. A subscription is in all
cells it touches, in each under its least frequent word. A message reads, in the cells it touches, the lists of its
words, and verifies what it finds.

What the paper leaves open was decided so:

- The grid is laid around most rectangles there were when the index was built; what is outside counts to the cells at
  its border. How rare a word is was counted then as well. Words that came later are rarer than all others. The index is
  built again when as many have come, or moved, as there were.
- An atom that touches more than 256 cells is kept once, in a cell that every message looks at.
- An atom without a word that must be there, such as NOT spam, is under a word that every message has.
- A grid within a posting list is a hash table of its cells, for most lists are short.
- An entry has the rectangle and a signature of the other words beside it, as in `iq-tree`.

Time: the cells a message touches times its words, and the lengths of the lists found. Space: 28 bytes for each cell an
atom is in, 21 to 43 for each list, 16 for each cell or word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.errors import UnknownIndex
from nearcast.indexes import register
from nearcast.indexes.papers.grid.cells import column_of, touched_cells
from nearcast.indexes.papers.grid.lists import GridLists, grid_list
from nearcast.indexes.papers.keyword_first import count_words, rarest_words
from nearcast.indexes.papers.quad.cells import LENGTH
from nearcast.indexes.papers.quad.entries import entry_rows, lacking, search_list
from nearcast.indexes.papers.quad.traffic import frame_alone
from nearcast.indexes.papers.quad.words import WORDLESS
from nearcast.indexes.shared.boolean_index import (
    LOOKED_AT,
    VERIFIED,
    BooleanBatch,
    BooleanIndex,
    FoundAtoms,
    finish_message,
)
from nearcast.indexes.shared.kernel_message import begin_message
from nearcast.indexes.shared.predicates import message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space

_OPTIONS = {"cells": 40}
#: Cells along a side; more would be finer than the steps they are counted in.
_MOST_PER_SIDE = 4096
_WIDTH = 7


class GridIndex(BooleanIndex):
    """Keeps atoms in lists by cell of a grid and rarest word; a subclass says which of the two comes first."""

    is_space_first: ClassVar[bool]

    def __init__(self, space: Space, cells: int = 40):
        if not 1 <= cells <= _MOST_PER_SIDE:
            raise UnknownIndex(
                f"option cells of the index {self.info.name!r}, how many a side of the grid has,"
                f" is from 1 to {_MOST_PER_SIDE}, not {cells}"
            )
        super().__init__(space, cells=cells)
        self.cells_per_side = cells
        self._count = np.zeros(0, np.int64)
        self._frame = frame_alone(np.empty((0, 4)))
        self._lists = GridLists(_WIDTH, is_space_first=self.is_space_first)

    def _build(self, atoms: NDArray[np.int32]) -> None:
        columns = self._atoms
        self._count = np.zeros(self._n_weights, np.int64)
        count_words(columns, atoms, self._count)
        self._frame = frame_alone(columns.box[atoms])
        cell, key, item = self._listed(atoms)
        self._lists = GridLists(_WIDTH, is_space_first=self.is_space_first)
        self._lists.lay_out(cell, key[item], entry_rows(columns, atoms, key, _WIDTH), item)

    def _insert_atoms(self, atoms: NDArray[np.int32]) -> None:
        cell, key, item = self._listed(atoms)
        self._lists.add(cell, key[item], entry_rows(self._atoms, atoms, key, _WIDTH)[item])

    def _remove_atoms(self, atoms: NDArray[np.int32]) -> None:
        cell, key, item = self._listed(atoms)
        self._lists.remove(cell, key[item], atoms[item])

    def _search(self, batch: BooleanBatch, first: int, found: FoundAtoms) -> int:
        grid = self._lists.arrays, self._frame, self.cells_per_side
        return int(_search_grid(*grid, self._atoms, batch, first, found))

    def _bytes(self) -> int:
        return self._lists.nbytes + self._count.nbytes

    def _listed(self, atoms: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """Return (cell, item) for each cell an atom is in, and between them the key of each atom's word."""
        cell, item = touched_cells(self._frame, self.cells_per_side, self._atoms.box[atoms])
        return cell, rarest_words(self._atoms, atoms, self._count) + np.int32(1), item


@register(
    "ss-index",
    kinds=("within",),
    paper="AP-Tree (VLDB Journal 2015), section 5.2.1: SS-Index, a grid with ranked keys in each cell",
    options=_OPTIONS,
    has_live_store=True,
)
class SsIndex(GridIndex):
    """A grid with an inverted list in each cell, every subscription under its rarest word.

    >>> from nearcast.geo import Space
    >>> len(SsIndex(Space.plane()))
    0
    """

    is_space_first = True


@register(
    "kk-index",
    kinds=("within",),
    paper="AP-Tree (VLDB Journal 2015), section 5.2.1: KK-Index, ranked keys with a grid for each",
    options=_OPTIONS,
    has_live_store=True,
)
class KkIndex(GridIndex):
    """An inverted list with every subscription under its rarest word, each posting list divided by a grid.

    >>> from nearcast.geo import Space
    >>> len(KkIndex(Space.plane()))
    0
    """

    is_space_first = False


@hot_kernel
def _search_grid(lists, frame, n, atoms, batch, first, found):
    """Search the messages from `first` on; return the first that is not done."""
    at = found.end[first - 1] if first > 0 else 0
    slots = lists.slots
    for message in range(first, found.end.size):
        looked_at, verified = found.tally[LOOKED_AT], found.tally[VERIFIED]
        n_words = begin_message(batch, message)
        n_places = message_parts(batch.box, message, batch.place)
        lacks = lacking(batch, n_words)
        for p in range(n_places):
            left, right = column_of(batch.place[p, 0], 0, frame, n), column_of(batch.place[p, 2], 0, frame, n)
            low, high = column_of(batch.place[p, 1], 1, frame, n), column_of(batch.place[p, 3], 1, frame, n)
            width = right - left + 1
            n_cells = width * (high - low + 1)
            for i in range(n_cells + 1):
                cell = (low + i // width) * n + left + i % width if i < n_cells else n * n
                for w in range(-1, n_words):
                    k = grid_list(lists, cell, batch.word[w] + 1 if w >= 0 else WORDLESS)
                    if k >= 0:
                        looked_at += slots[k, LENGTH]
                        at, verified = search_list(
                            lists.entries, slots, k, lacks, p, n_places, atoms, batch, message, found, at, verified
                        )
        if not finish_message(batch, message, n_words, found, at, looked_at, verified):
            return message
    return found.end.size
