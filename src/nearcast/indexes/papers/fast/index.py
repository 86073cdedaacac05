"""The index `fast` as a whole: its options, its arrays and how they grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.errors import UnknownIndex
from nearcast.indexes import register
from nearcast.indexes.papers.fast.insertion import insert_atoms
from nearcast.indexes.papers.fast.layout import (
    DEEPEST,
    LAST_STEP,
    N_CELLS,
    NODES,
    ROWS,
    SLOTS,
    STATE_FIELDS,
    TASKS,
    THRESHOLD,
    TRIE_LIST,
    VACANT,
    WIDEST,
    Pyramid,
    move_slots,
)
from nearcast.indexes.papers.fast.removal import N_VISIT, remove_atoms
from nearcast.indexes.papers.fast.search import room_for, search_pyramid
from nearcast.indexes.papers.keyword_first import count_words
from nearcast.indexes.shared.boolean_index import BooleanBatch, BooleanIndex, FoundAtoms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space

#: The finest grid whose cells and nodes have numbers of 31 bits.
_FINEST_GRID = 1 << 14
_LONGEST_LIST = 1 << 16
#: A list of a trie may be so many times longer than that of a cell: to read it is faster than to look up one more word.
_LONGER_IN_TRIES = 4
#: Bytes of a line of the processor's cache.
_LINE = 64


@register(
    "fast",
    kinds=("within",),
    paper="FAST (Mahmood, Aly, Aref: ICDE 2018): frequency-aware spatio-textual indexing",
    options={"threshold": 5, "grid": 512},
)
class FastIndex(BooleanIndex):
    """A pyramid of cells in which a keyword is a short list while it is rare and a trie when it is frequent.

    >>> from nearcast.geo import Space
    >>> len(FastIndex(Space.plane(), threshold=3, grid=64))
    0
    """

    def __init__(self, space: Space, *, threshold: int = 5, grid: int = 512):
        super().__init__(space, **_checked(threshold, grid))
        self._threshold, self._deepest = threshold, grid.bit_length() - 1
        self._most_words = 1
        self._n_built = 0
        self._pyramid = self._empty(0)

    def _build(self, atoms: NDArray[np.int32]) -> None:
        columns = self._atoms
        self._pyramid = self._empty(len(atoms))
        self._pyramid.frame[:] = frame_of(columns.box[atoms])
        self._most_words, self._n_built = 1, len(atoms)
        self._make_ready_for(atoms)
        count_words(columns, atoms, self._pyramid.wanted)
        self._pyramid.rank[:] = self._pyramid.wanted
        self._insert_counted(_widest_first(columns.box, atoms))

    def _insert_atoms(self, atoms: NDArray[np.int32]) -> None:
        self._make_ready_for(atoms)
        count_words(self._atoms, atoms, self._pyramid.wanted)
        self._n_built = max(self._n_built, self._n_in_structure + len(atoms))
        self._insert_counted(atoms)

    def _insert_counted(self, atoms: NDArray[np.int32]) -> None:
        done = 0
        while done < len(atoms) or self._pyramid.state[TASKS]:
            self._grow()
            done = int(insert_atoms(self._pyramid, self._atoms, atoms, done))

    def _remove_atoms(self, atoms: NDArray[np.int32]) -> None:
        left = self._n_in_structure - len(atoms)
        if left < self._n_built // 2:
            n_seen = self._n_seen
            self._build(np.flatnonzero(self._slot_of[self._atoms.row[:n_seen]] >= 0).astype(np.int32))
            return
        self._make_ready_for(atoms)
        visit = np.empty((5 * self._deepest + 8, N_VISIT), np.int64)
        remove_atoms(self._pyramid, self._atoms, atoms, visit, np.empty(self._most_words + 1, np.int64))

    def _search(self, batch: BooleanBatch, first: int, found: FoundAtoms) -> int:
        self._know_terms(len(batch.has))
        room = room_for(self._deepest + 1, len(batch.word), self._most_words)
        return int(search_pyramid(self._pyramid, self._atoms, batch, room, first, found))

    def _bytes(self) -> int:
        return sum(array.nbytes for array in self._pyramid)

    # Arrays

    def _empty(self, n_atoms: int) -> Pyramid:
        """Return a pyramid without atoms, with room for about so many."""
        state = np.zeros(STATE_FIELDS, np.int64)
        state[NODES] = 1  # no node is 0, for ~0 is the mark of a list to come
        state[THRESHOLD], state[DEEPEST] = self._threshold, self._deepest
        state[TRIE_LIST] = _LONGER_IN_TRIES * self._threshold
        state[N_CELLS] = (4 ** (self._deepest + 1) - 1) // 3
        n_slots = 1 << max(6, (n_atoms + n_atoms // 2).bit_length())
        slot = np.zeros((n_slots, 2), np.int64)
        slot[:, 0] = VACANT
        return Pyramid(
            slot=slot,
            node=_lines(n_atoms // 16 + 64, np.int64),
            entry=_lines(n_atoms + n_atoms // 2 + 256, np.int32),
            free=np.full(32, -1, np.int64),
            state=state,
            wanted=np.zeros(0, np.int64),
            rank=np.zeros(0, np.int64),
            frame=np.zeros((2, 3)),
            task=_lines(0, np.int64),
            word=np.empty(1, np.int32),
            rect=np.empty(4, np.int64),
        )

    def _make_ready_for(self, atoms: NDArray[np.int32]) -> None:
        """Make room for the terms there are and for the words of an atom."""
        self._know_terms(self._n_weights)
        self._most_words = max(self._most_words, int(self._atoms.n_words[atoms].max(initial=0)))
        if len(self._pyramid.word) < self._most_words:
            self._pyramid = self._pyramid._replace(word=np.empty(self._most_words, np.int32))

    def _know_terms(self, n_terms: int) -> None:
        more = n_terms - len(self._pyramid.wanted)
        if more > 0:
            # New terms are the rarest, however many atoms come to need them: the order of tries must not change.
            wanted, rank = (
                np.append(each, np.zeros(more, np.int64)) for each in (self._pyramid.wanted, self._pyramid.rank)
            )
            self._pyramid = self._pyramid._replace(wanted=wanted, rank=rank)

    def _grow(self) -> None:
        """Make every array that the next task may find too small half as large again, or twice as large."""
        pyramid, state = self._pyramid, self._pyramid.state
        n_words = len(pyramid.word)
        n_tasks = int(state[TASKS]) + 2 * (self._threshold + 4) * (n_words + 4) + int(state[TRIE_LIST])
        n_rows = int(state[ROWS]) + (2 << int(state[WIDEST])) + 32 * int(state[TRIE_LIST]) + 64
        slot = pyramid.slot
        while 5 * (int(state[SLOTS]) + n_words + 8) > 3 * len(slot):
            slot = np.zeros((2 * len(slot), 2), np.int64)
            slot[:, 0] = VACANT
        if slot is not pyramid.slot:
            move_slots(pyramid.slot, slot)
        self._pyramid = pyramid._replace(
            slot=slot,
            node=_longer(pyramid.node, int(state[NODES]) + n_words + 2),
            entry=_longer(pyramid.entry, n_rows),
            task=_longer(pyramid.task, n_tasks),
        )


def _lines(n_rows: int, dtype: type) -> NDArray[Any]:
    """Return rows of eight numbers that begin where a line of the processor's cache begins."""
    n_bytes = n_rows * 8 * np.dtype(dtype).itemsize
    room = np.empty(n_bytes + _LINE, np.uint8)
    first = -room.__array_interface__["data"][0] % _LINE
    return room[first : first + n_bytes].view(dtype).reshape(n_rows, 8)


def _longer(array: NDArray[Any], needed: int) -> NDArray[Any]:
    """Return an array with so many rows at least, the first of them those there are."""
    if needed <= len(array):
        return array
    longer = _lines(needed + needed // 2, array.dtype.type)
    longer[: len(array)] = array
    return longer


def _widest_first(box: NDArray[np.float64], atoms: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return atoms in descending order of their width: who stays in a cell then comes before who must leave it."""
    width = box[atoms, 2] / 2 - box[atoms, 0] / 2
    return np.ascontiguousarray(atoms[np.argsort(-width, kind="stable")])


def frame_of(box: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the origin, the end and the steps per half unit of x and y, by the finite coordinates of rectangles."""
    frame = np.zeros((2, 3))
    for axis in range(2):
        values = box[:, axis::2]
        values = values[np.isfinite(values)]
        if len(values):
            low, high = values.min(), values.max()
            half_width = high / 2 - low / 2
            with np.errstate(over="ignore", divide="ignore"):
                scale = LAST_STEP / half_width
            # In a frame too narrow to count steps in, all that is inside is in step 0.
            frame[axis] = low, high, scale if np.isfinite(scale) else 0.0
    return frame


def _checked(threshold: int, grid: int) -> dict[str, Any]:
    """Return the options by name; `UnknownIndex` where no pyramid can be built with them."""
    if not 1 <= threshold <= _LONGEST_LIST:
        raise UnknownIndex(f"option threshold of the index 'fast' is 1 to {_LONGEST_LIST}, not {threshold}")
    if not 1 <= grid <= _FINEST_GRID or grid & (grid - 1):
        raise UnknownIndex(f"option grid of the index 'fast' is a power of 2, {_FINEST_GRID} at most, not {grid}")
    return {"threshold": threshold, "grid": grid}
