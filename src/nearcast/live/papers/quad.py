"""The stores of live messages of `iq+-tree` and `rq+-tree`: posting lists in the cells of the index's own quadtrees.

MsgIndex of the two baselines in section 5.2.1 of the AP-Tree paper (Wang, Zhang, Zhang, Lin, Wang: VLDB Journal 2015):
a live message is in every cell that it reaches, of all levels, in each in the lists of all its words. A subscription
that moves reads, in the cells that it was assigned to and in those that it is now, the list of its least frequent word,
but for the cells that both regions cut in the same way.

What the paper leaves open was decided so:

- The trees are a copy of the index's. A cell that the index has divided since is divided here when a subscription is in
  a cell below it, and hands its messages on: a message is never lost to a cell that was made after it came. Cells that
  the index has joined again stay. When the index has built its trees anew, all messages are filed again.
- The word is the rarest as counted by the index, the words of phrases included.
- `rq+-tree` has a tree for each word of a message, divided as the index's tree of that word. One for a word that came
  later, or that the index does not have, begins with a single cell.
- Every message is also in the list of a word that all have, for subscriptions that need none.
- Messages that are over stay in the lists until rows get other numbers.

Space: 4 bytes for each cell and word a message is in, and as much room; 21 to 43 for each list of `iq+-tree`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.columns import WITHIN
from nearcast.indexes.papers.quad.cells import CHILD, FIRST, LENGTH
from nearcast.indexes.papers.quad.entries import EntryLists
from nearcast.indexes.papers.quad.moving import IqPlusTreeIndex, MovingQuadIndex, RqPlusTreeIndex
from nearcast.indexes.papers.quad.tables import KEY, CellTables
from nearcast.indexes.papers.quad.traffic import DEEPEST, steps_of
from nearcast.indexes.papers.quad.walk import begin_walk, empty_stack, walk_on
from nearcast.live.papers.visits import (
    EVERY_MESSAGE,
    ListLiveStore,
    ListVisits,
    MessageLists,
    choose_keys,
    is_cut_alike,
    rectangles_of,
    words_to_file,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.indexes import Index
    from nearcast.indexes.papers.quad.moving import QuadLayout
    from nearcast.indexes.papers.quad.traffic import Traffic
    from nearcast.live.cells.found import FoundMessages
    from nearcast.live.cells.queries import LiveQueries, QueryPlaces
    from nearcast.live.table import LiveTable
    from nearcast.text.words import WordTable

#: Messages that are filed at a time: each has a posting for each cell and word.
_PORTION = 8192
_LEAST_ROOM = 1 << 12
_NO_SLOTS = np.empty((0, 4), np.int32)


class MessageTrees(ABC):
    """Posting lists in the cells of quadtrees, over the first `n_rows` rows of a table. A subclass says where they are:

    - `_starts(key)`: the tree of each key, made if there is none.
    - `_add(node, key, message)`: put messages into the lists of cells.
    - `_held(node)`: key and message of all that is in a cell.
    """

    def __init__(self, layout: QuadLayout):
        self.traffic, self.trees = layout.traffic, layout.trees
        self.entries = EntryLists(1)
        self.n_rows = 0

    @property
    @abstractmethod
    def lists(self) -> MessageLists:
        """The lists as kernels read them."""

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return self.trees.nbytes + self.entries.nbytes + self.lists.slots.nbytes

    @abstractmethod
    def _starts(self, key: NDArray[np.int32]) -> NDArray[np.int32]: ...

    @abstractmethod
    def _add(self, node: NDArray[np.int32], key: NDArray[np.int32], message: NDArray[np.int32]) -> None: ...

    @abstractmethod
    def _held(self, node: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]: ...

    def add_rows(self, table: LiveTable, n: int, now: int) -> None:
        """File the rows from `n_rows` to n in all cells that they reach."""
        while self.n_rows < n:
            last = min(self.n_rows + _PORTION, n)
            filed = words_to_file(table, self.n_rows, last, now)
            row = np.repeat(filed.row, np.diff(filed.start))
            self._file(table, row, filed.key, self._starts(filed.key))
            self.n_rows = last

    def _file(self, table: LiveTable, row: NDArray[np.int64], key: NDArray[np.int32], start: NDArray[np.int32]) -> None:
        """Put rows into the cells of trees that they reach, once in each."""
        item, rectangle = rectangles_of(table.box[row])
        node, at = walked(self.trees.nodes, start[item], self._steps(rectangle))
        item = item[at]
        if len(rectangle) > len(row):
            _, once = np.unique(node.astype(np.int64) * len(row) + item, return_index=True)
            node, item = node[once], item[once]
        self._add(node, key[item], row[item].astype(np.int32))

    def nodes_at(self, table: LiveTable, key: NDArray[np.int32], cell: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the nodes of cells in the trees of keys, made where there are none."""
        start, node = self._starts(key), np.empty(len(key), np.int32)
        while True:
            is_there = np.empty(len(key), np.bool_)
            find_nodes(self.trees.nodes, start, cell, node, is_there)
            if is_there.all():
                return node
            for each in np.unique(node[~is_there]).tolist():
                self._divide(table, each)

    def _divide(self, table: LiveTable, node: int) -> None:
        """Give a leaf four quarters, and hand its messages on to those that they reach."""
        key, message = self._held(node)
        level, x, y = (2 * int(each) for each in self.trees.cell(node))
        self.trees.divide(node)
        child, shift = int(self.trees.nodes[node, CHILD]), DEEPEST - level // 2 - 1
        item, rectangle = rectangles_of(table.box[message])
        first, last = np.split(self._steps(rectangle) >> shift, 2, axis=1)
        for quarter in range(4):
            corner = np.array([x + quarter % 2, y + quarter // 2])
            reaches = np.unique(item[((first <= corner) & (last >= corner)).all(axis=1)])
            self._add(np.full(len(reaches), child + quarter, np.int32), key[reaches], message[reaches])

    def _steps(self, box: NDArray[np.float64]) -> NDArray[np.int32]:
        steps = np.empty((len(box), 4), np.int32)
        steps_of(self.traffic, box, steps)
        return steps


class TreeWithLists(MessageTrees):
    """One quadtree, each cell of which has a hash table from words to lists."""

    def __init__(self, layout: QuadLayout):
        super().__init__(layout)
        self._tables = CellTables()

    @property
    def lists(self) -> MessageLists:
        """The lists as kernels read them."""
        return MessageLists(self.trees.nodes, self._tables.slots, self.entries.arrays.number)

    def _starts(self, key: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.zeros(len(key), np.int32)

    def _add(self, node: NDArray[np.int32], key: NDArray[np.int32], message: NDArray[np.int32]) -> None:
        list_of = self._tables.lists(self.trees.nodes, node, key)
        self.entries.add(self._tables.slots, list_of, message[:, None])

    def _held(self, node: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        rows = self._tables.slots[self._tables.lists_of(self.trees.nodes, node)]
        length = rows[:, LENGTH]
        at = np.arange(length.sum()) + np.repeat(rows[:, FIRST] - (np.cumsum(length) - length), length)
        return np.repeat(rows[:, KEY], length), self.entries.arrays.number[at, 0]


class TreesOfWords(MessageTrees):
    """A quadtree for each word, whose cells have one list; `word_of` has the word of each term of the index, or -1."""

    def __init__(self, layout: QuadLayout, word_of: NDArray[np.int32]):
        super().__init__(layout)
        assert layout.root_of is not None
        known = np.flatnonzero(layout.root_of[1:] >= 0)
        known = known[known < len(word_of)]
        known = known[word_of[known] >= 0]
        self._root_of = np.full(int(word_of.max(initial=-1)) + 2, -1, np.int32)
        self._root_of[EVERY_MESSAGE] = layout.root_of[EVERY_MESSAGE]
        self._root_of[word_of[known] + 1] = layout.root_of[1 + known]

    @property
    def lists(self) -> MessageLists:
        """The lists as kernels read them."""
        return MessageLists(self.trees.nodes, _NO_SLOTS, self.entries.arrays.number)

    def _starts(self, key: NDArray[np.int32]) -> NDArray[np.int32]:
        n = int(key.max(initial=0)) + 1
        if n > len(self._root_of):
            self._root_of = np.concatenate([self._root_of, np.full(n + n // 4 - len(self._root_of), -1, np.int32)])
        new = np.unique(key[self._root_of[key] < 0])
        self._root_of[new] = self.trees.new_roots(len(new))
        return self._root_of[key]

    def _add(self, node: NDArray[np.int32], key: NDArray[np.int32], message: NDArray[np.int32]) -> None:
        self.entries.add(self.trees.nodes, node, message[:, None])

    def _held(self, node: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        first, length = int(self.trees.nodes[node, FIRST]), int(self.trees.nodes[node, LENGTH])
        message = self.entries.arrays.number[first : first + length, 0].copy()
        return np.zeros(length, np.int32), message


def walked(
    nodes: NDArray[np.int32], start: NDArray[np.int32], steps: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return (node, item) for all cells, of every level, that each item touches in the tree `start[i]`."""
    done, room, pieces = 0, max(_LEAST_ROOM, 16 * len(start)), []
    while done < len(start):
        node, item = np.empty(room, np.int32), np.empty(room, np.int64)
        before = done
        done, n = walk_items(nodes, start, steps, done, empty_stack(), node, item)
        pieces.append((node[:n], item[:n]))
        room = 4 * room if done == before else room
    nothing = np.empty(0, np.int32), np.empty(0, np.int64)
    found = [nothing, *pieces]
    return np.concatenate([node for node, _ in found]), np.concatenate([item for _, item in found])


@hot_kernel
def walk_items(nodes, start, steps, done, stack, node, item):
    """Write the cells of the items from `done` on; return the first item there is no room for, and how many cells."""
    n = 0
    for i in range(done, start.size):
        n_before, depth = n, begin_walk(start[i], stack)
        while depth > 0:
            depth -= 1
            if n < node.size:
                node[n], item[n] = stack[depth, 0], i
            n += 1
            depth = walk_on(nodes, steps, i, stack, depth)
        if n > node.size:
            return i, n_before
    return start.size, n


@hot_kernel
def find_nodes(nodes, start, cell, node, is_there):
    """Write the node of each cell, level, x and y, in the tree `start[i]`, or the leaf above where it would be."""
    for i in range(start.size):
        at, below = np.int64(start[i]), cell[i, 0]
        while below > 0 and nodes[at, CHILD] >= 0:
            below -= 1
            at = nodes[at, CHILD] + 2 * ((cell[i, 2] >> below) & 1) + ((cell[i, 1] >> below) & 1)
        node[i], is_there[i] = at, below == 0


class QuadLiveStore(ListLiveStore):
    """Keeps messages in the cells of an index's quadtrees; without an index, in those of an empty one."""

    index_class: ClassVar[type[MovingQuadIndex]]
    _filed: MessageTrees | None

    def __init__(self, space: Space, terms: WordTable):
        super().__init__(space, terms)
        self._index = self.index_class(space)

    @abstractmethod
    def _new_trees(self, layout: QuadLayout) -> MessageTrees: ...

    def use_index(self, index: Index) -> None:
        """Keep messages in the cells of this index."""
        if isinstance(index, self.index_class):
            self._index = index

    def _rows_renumbered(self) -> None:
        super()._rows_renumbered()
        self._filed = None

    def _structure_bytes(self) -> int:
        return 0 if self._filed is None else self._filed.nbytes

    def _file_rows_behind(self) -> None:
        with self._index.lock:
            filed, state = self._filed, self._state
            self._filed = None  # until it is whole: one that is cut short is built anew
            if filed is None or filed.traffic is not self._index.traffic:
                filed = self._new_trees(self._index.layout())
            filed.add_rows(state.table, state.n, state.now)
            self._filed = filed

    def _lists(self) -> MessageLists:
        assert self._filed is not None
        return self._filed.lists

    def _found(self, queries: LiveQueries, before: QueryPlaces, after: QueryPlaces) -> FoundMessages:
        """Read the lists, and verify what they hold; the trees of the index stay the same meanwhile."""
        with self._index.lock:
            return super()._found(queries, before, after)

    def _visits(self, queries: LiveQueries, before: QueryPlaces, after: QueryPlaces) -> list[ListVisits]:
        filed = self._filed
        assert filed is not None
        key, term_key = self._keys(queries)
        rectangles = [_clause_rectangles(queries.clause_start, places) for places in (after, before)]
        row, clause, box = (np.concatenate(columns) for columns in zip(*rectangles, strict=True))
        wanted = np.flatnonzero((queries.kind[row] == WITHIN) & (key[clause] >= 0))
        item, cell = self._index.covering_cells(term_key[clause[wanted]], box[wanted])
        row, clause = row[wanted[item]].astype(np.int32), clause[wanted[item]].astype(np.int32)
        changed = _changed_cells(filed.traffic, row, cell, before, after)
        row, clause, key = row[changed], clause[changed], key[clause[changed]]
        self._filed = None  # until it is whole again: cells may be divided
        node = filed.nodes_at(self._state.table, key, cell[changed])
        self._filed = filed
        _, once = np.unique(clause.astype(np.int64) * len(filed.trees.nodes) + node, return_index=True)
        return [ListVisits(row[once], clause[once], node[once], key[once])]

    def _keys(self, queries: LiveQueries) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the key of every clause's rarest word, as counted by the index, here and in the index."""
        n_words = len(self.word_table)
        words = np.unique(queries.code[(queries.code >= 0) & (queries.code < n_words)])  # lengths of phrases as well
        terms = self._as_terms(words)
        count = np.zeros(n_words + 1, np.int64)
        count[words + 1] = 1 + self._index.frequencies(np.maximum(terms, 0))
        key = np.empty(len(queries.code_start) - 1, np.int32)
        choose_keys(queries, count, key)
        at = np.searchsorted(words, key - 1)
        term_key = np.append(terms, np.int32(0))[np.minimum(at, len(terms))] + np.int32(1)
        return key, np.where(key > EVERY_MESSAGE, term_key, np.int32(EVERY_MESSAGE))


def _clause_rectangles(
    clause_start: NDArray[np.int64], places: QueryPlaces
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return (row, clause, rectangle) for each clause in each rectangle of each region."""
    n_parts = np.diff(places.part_start)
    count = np.diff(clause_start) * n_parts
    row = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    part = places.part_start[row] + nth % n_parts[row]
    return row, clause_start[row] + nth // n_parts[row], places.part[part]


def _changed_cells(
    traffic: Traffic, row: NDArray[np.int32], cell: NDArray[np.int64], before: QueryPlaces, after: QueryPlaces
) -> NDArray[np.bool_]:
    """Tell which cells, of these rows, two regions cut in different ways."""
    old_steps, new_steps = np.empty(before.part.shape, np.int32), np.empty(after.part.shape, np.int32)
    steps_of(traffic, before.part, old_steps)
    steps_of(traffic, after.part, new_steps)
    changed = np.empty(len(row), np.bool_)
    mark_changed(row, cell, before, after, old_steps, new_steps, np.empty(4, np.int64), changed)
    return changed


class IqPlusLiveStore(QuadLiveStore):
    """Keeps messages in a quadtree with posting lists in each cell."""

    name = "iq+-tree"
    index_class = IqPlusTreeIndex

    def _new_trees(self, layout: QuadLayout) -> MessageTrees:
        return TreeWithLists(layout)


class RqPlusLiveStore(QuadLiveStore):
    """Keeps messages in a quadtree for each of their words."""

    name = "rq+-tree"
    index_class = RqPlusTreeIndex

    def _new_trees(self, layout: QuadLayout) -> MessageTrees:
        self._state.words.follow()
        return TreesOfWords(layout, self._state.words.by_term)


@hot_kernel
def mark_changed(row, cell, before, after, steps_before, steps_after, reach, changed):
    """Tell of every cell, level, x and y, whether the two regions of its row may cut it in different ways."""
    for i in range(row.size):
        shift = DEEPEST - cell[i, 0]
        for k in range(2):
            reach[k] = cell[i, 1 + k] << shift
            reach[2 + k] = ((cell[i, 1 + k] + 1) << shift) - 1
        changed[i] = not is_cut_alike(before, after, row[i], steps_before, steps_after, reach)
