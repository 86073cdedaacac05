"""Posting lists of live messages by word and cell of a uniform grid: the MsgIndex of `ap+k-tree` and `ap+s-tree`.

A message is in the list of each of its words in each cell that it touches, and of no word there, which serves clauses
that need none; one that touches many cells is in the lists of one cell apart, which is everywhere. Lists are found by
hashing. A question visits the cells that its old and its new rectangle cut otherwise, as Algorithm 6 does:

- words first: it takes the word of the clause that the fewest messages have, and reads the lists of that word;
- space first: it takes, in each cell, the word with the shortest list there, and reads nothing where one has none.

The grid is laid over the messages there are, and laid anew when they are twice as many. Its outer cells have no end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.columns import WITHIN
from nearcast.indexes.papers.ap_plus_tree.filing import enter_in_all
from nearcast.indexes.papers.ap_plus_tree.layout import (
    COUNT_HELD,
    FILED,
    MessageListArrays,
    empty_lists,
    with_room,
)
from nearcast.indexes.papers.ap_plus_tree.walk import (
    CUT_ALIKE,
    NEW,
    OLD,
    CandidateMessages,
    case_of,
    is_its_box,
    read_list,
    write_around,
    write_nowhere,
    write_rectangle,
)
from nearcast.indexes.papers.ap_tree.space import strip_of
from nearcast.indexes.shared.predicates import message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.live.cells.queries import LiveQueries, QueryPlaces
    from nearcast.live.table import LiveTable

#: Cells along each axis, as the paper tunes its grids, and the number of the cell that is everywhere.
_ALONG = 40
_EVERYWHERE, _N_CELLS = _ALONG * _ALONG, _ALONG * _ALONG + 1
#: A message that touches more cells is in the one that is everywhere.
_MANY_CELLS = 64
_NO_LIST = -1
#: A word that no message has.
_NOT_SAID = -2
_LEAST_FOUND, _LEAST_ROWS = 1 << 10, 256


class CellPostingArrays(NamedTuple):
    """The lists, and where each is: list `number[h]` has the key `key[h]`, -1 where there is none.

    A key is (word + 1) times the number of cells plus the cell, word -1 for none. `frequency` says by word + 1 how many
    messages have it. `x_line` and `y_line` part the cells; `n_lists` counts the lists.
    """

    lists: MessageListArrays
    key: NDArray[np.int64]
    number: NDArray[np.int32]
    frequency: NDArray[np.int64]
    x_line: NDArray[np.float64]
    y_line: NDArray[np.float64]
    n_lists: NDArray[np.int64]


class PostingScratch(NamedTuple):
    """Scratch arrays for one message, its words, cells, lists and rectangles, or for one question.

    A question has an old and a new rectangle and one around both, the columns and rows that these touch, and the bounds
    of one cell.
    """

    word: NDArray[np.int32]
    cell: NDArray[np.int64]
    target: NDArray[np.int64]
    place: NDArray[np.float64]
    rectangle: NDArray[np.float64]
    span: NDArray[np.int64]
    bounds: NDArray[np.float64]

    @classmethod
    def new(cls, most_words: int) -> PostingScratch:
        """Return scratch for messages of so many words."""
        most_cells = 2 * _MANY_CELLS
        return cls(
            word=np.empty(most_words + 1, np.int32),
            cell=np.empty(most_cells, np.int64),
            target=np.empty((most_words + 1) * most_cells, np.int64),
            place=np.empty((2, 4)),
            rectangle=np.empty((3, 4)),
            span=np.empty((2, 4), np.int64),
            bounds=np.empty(4),
        )


class CellPostings:
    """Posting lists over the rows of a table of live messages; what is not filed yet is filed by `file`."""

    def __init__(self) -> None:
        self._arrays: CellPostingArrays | None = None
        #: How many rows there were when the grid was laid.
        self._n_when_laid = 0

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        if self._arrays is None:
            return 0
        return sum(array.nbytes for array in (*self._arrays.lists, *self._arrays[1:]))

    def file(self, table: LiveTable, n: int, n_words: int, dropped: int) -> CellPostingArrays:
        """File the rows up to n, of so many words; return the arrays."""
        arrays = self._arrays
        if arrays is None or n > 2 * self._n_when_laid + _LEAST_ROWS:
            arrays = self._arrays = _empty(table.box[:n][table.expires[:n] > dropped])
            self._n_when_laid = n
        if arrays.lists.used[FILED] == n:
            return arrays
        scratch = PostingScratch.new(
            int(np.diff(table.term_start[int(arrays.lists.used[FILED]) : n + 1]).max(initial=0))
        )
        while arrays.lists.used[FILED] < n:
            # Larger arrays are in place before anything is written to them: whoever is cut short goes on from there.
            arrays = self._arrays = _with_room(arrays, n, n_words, len(scratch.target))
            _file_rows(arrays, table, int(arrays.lists.used[FILED]), n, dropped, scratch)
        return arrays

    def candidates(
        self,
        table: LiveTable,
        n: int,
        n_words: int,
        dropped: int,
        queries: LiveQueries,
        before: QueryPlaces,
        after: QueryPlaces,
        *,
        words_first: bool,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return pairs (query, row) that may change between two places, some of them twice, by query."""
        arrays, next_query, room = self.file(table, n, n_words, dropped), 0, _LEAST_FOUND
        pieces, scratch = [(np.empty(0, np.int64), np.empty(0, np.int64))], PostingScratch.new(0)
        while next_query < len(queries.kind):
            tally = np.zeros(5, np.int64)
            found = CandidateMessages(np.empty(room, np.int64), np.empty(room, np.int64), tally)
            next_query, n_found = _find(
                arrays, table, queries, before, after, dropped, words_first, next_query, scratch, found
            )
            pieces.append((found.query[:n_found], found.row[:n_found]))
            room = 4 * room
        query, row = (np.concatenate(column) for column in zip(*pieces, strict=True))
        return query, row


def _empty(box: NDArray[np.float64]) -> CellPostingArrays:
    """Return no lists, for a grid over these places."""
    lines = []
    for axis in range(2):
        low, high = (float(box[:, axis].min()), float(box[:, axis + 2].max())) if len(box) else (0.0, 1.0)
        lines.append(np.linspace(min(low, high), max(low, high), _ALONG + 1)[1:-1].copy())
    return CellPostingArrays(
        lists=empty_lists(),
        key=np.full(1 << 10, -1),
        number=np.zeros(1 << 10, np.int32),
        frequency=np.zeros(1 << 10, np.int64),
        x_line=lines[0],
        y_line=lines[1],
        n_lists=np.zeros(1, np.int64),
    )


def _with_room(arrays: CellPostingArrays, n_rows: int, n_words: int, n_more: int) -> CellPostingArrays:
    """Return arrays with room for so many rows and words, for a few lists more, and for what a kernel asked for."""
    n_lists = int(arrays.n_lists[0])
    lists = with_room(arrays.lists, n_lists + n_more, n_rows)
    frequency = arrays.frequency
    if n_words >= len(frequency):
        frequency = np.zeros(2 * n_words + 2, np.int64)
        frequency[: len(arrays.frequency)] = arrays.frequency
    key, number = arrays.key, arrays.number
    size = len(key)
    while size < 2 * (n_lists + n_more):
        size *= 2
    if size > len(key):
        key, number = np.full(size, -1), np.zeros(size, np.int32)
        _enter_keys(arrays.key, arrays.number, key, number)
    return arrays._replace(lists=lists, frequency=frequency, key=key, number=number)


@hot_kernel
def _enter_keys(old_key, old_number, key, number):
    for i in range(old_key.size):
        if old_key[i] >= 0:
            at = _place_of(key, old_key[i])
            key[at], number[at] = old_key[i], old_number[i]


@inlined
def _place_of(keys, key):
    """Return where a key is in a table of hashes, or the free place for it; there is one."""
    mask = keys.size - 1
    at = (key * 31 + (key >> 9)) & mask
    while keys[at] >= 0 and keys[at] != key:
        at = (at + 1) & mask
    return at


@inlined
def _key(word, cell):
    return (np.int64(word) + 1) * _N_CELLS + cell


@inlined
def _list_of(arrays, word, cell):
    """Return the list of a word in a cell, or that there is none."""
    at = _place_of(arrays.key, _key(word, cell))
    return np.int64(arrays.number[at]) if arrays.key[at] >= 0 else _NO_LIST


@hot_kernel
def _file_rows(arrays, table, first, last, dropped, scratch):
    """File rows until there is no room for one."""
    lists = arrays.lists
    for row in range(first, last):
        if table.expires[row] > dropped:
            n_words = _write_words(table, row, scratch.word)
            n_cells = _write_cells(arrays, table, row, scratch.place, scratch.cell)
            n_after = arrays.n_lists[0] + n_words * n_cells
            if n_after > lists.held.shape[0] or 2 * n_after > arrays.key.size:
                return
            n = _write_lists(arrays, scratch, n_words, n_cells)
            if not enter_in_all(lists, table, scratch.target, n, row, dropped):
                return
            for i in range(n_words):
                arrays.frequency[scratch.word[i] + 1] += 1
        lists.used[FILED] = row + 1


@inlined
def _write_words(table, row, word):
    """Write the words of a message, each once, and -1 before them; return how many."""
    word[0], n = -1, 1
    for i in range(table.term_start[row], table.term_start[row + 1]):
        at = 0
        while at < n and word[at] != table.term[i]:
            at += 1
        if at == n:
            word[n] = table.term[i]
            n += 1
    return n


@inlined
def _write_cells(arrays, table, row, place, cell):
    """Write the cells that a message touches, each once, or the one that is everywhere; return how many."""
    n = 0
    for part in range(message_parts(table.box, row, place)):
        left, right = strip_of(arrays.x_line, place[part, 0]), strip_of(arrays.x_line, place[part, 2])
        top, bottom = strip_of(arrays.y_line, place[part, 1]), strip_of(arrays.y_line, place[part, 3])
        if (right - left + 1) * (bottom - top + 1) > _MANY_CELLS:
            cell[0] = _EVERYWHERE
            return 1
        for i in range(left, right + 1):
            for j in range(top, bottom + 1):
                cell[n] = i * _ALONG + j
                n += 1
    return n


@inlined
def _write_lists(arrays, scratch, n_words, n_cells):
    """Write the lists of all words in all cells, new ones too, for which there is room; return how many."""
    n = 0
    for w in range(n_words):
        for c in range(n_cells):
            key = _key(scratch.word[w], scratch.cell[c])
            at = _place_of(arrays.key, key)
            if arrays.key[at] < 0:
                arrays.key[at], arrays.number[at] = key, arrays.n_lists[0]
                arrays.n_lists[0] += 1
            scratch.target[n] = arrays.number[at]
            n += 1
    return n


# --- questions ------------------------------------------------------------------------------------------------------


@hot_kernel
def _find(arrays, table, queries, before, after, dropped, words_first, first, scratch, found):
    """Find candidates for the queries of kind `within` from `first` on; return (next query, how many were found).

    It stops before a query that `found` has no room for. Dropped messages leave the lists that are read.
    """
    n = 0
    for query in range(first, queries.kind.size):
        n_before = n
        if queries.kind[query] == WITHIN:
            for clause in range(queries.clause_start[query], queries.clause_start[query + 1]):
                n = _visit_parts(
                    arrays, table, queries, query, clause, before, after, dropped, words_first, scratch, found, n
                )
        if n > found.row.size:
            return query, n_before
    return queries.kind.size, n


@inlined
def _visit_parts(arrays, table, queries, query, clause, before, after, dropped, words_first, scratch, found, n):
    """Visit cells with the old and the new rectangle at once, or with each by itself where a region has several."""
    rectangle = scratch.rectangle
    word = _rarest_word(arrays, queries, clause)
    n_old = before.part_start[query + 1] - before.part_start[query]
    n_new = after.part_start[query + 1] - after.part_start[query]
    if word == _NOT_SAID or arrays.frequency[word + 1] == 0:
        return n
    if n_old == 1 and n_new == 1:
        write_rectangle(before, before.part_start[query], rectangle, OLD)
        write_rectangle(after, after.part_start[query], rectangle, NEW)
        alike = is_its_box(before, query) and is_its_box(after, query)
        return _visit(arrays, table, queries, query, clause, word, words_first, alike, dropped, scratch, found, n)
    for part in range(before.part_start[query], before.part_start[query + 1]):
        write_rectangle(before, part, rectangle, OLD)
        write_nowhere(rectangle, NEW)
        n = _visit(arrays, table, queries, query, clause, word, words_first, False, dropped, scratch, found, n)
    for part in range(after.part_start[query], after.part_start[query + 1]):
        write_nowhere(rectangle, OLD)
        write_rectangle(after, part, rectangle, NEW)
        n = _visit(arrays, table, queries, query, clause, word, words_first, False, dropped, scratch, found, n)
    return n


@inlined
def _rarest_word(arrays, queries, clause):
    """Return the word of a clause that the fewest messages have, -1 if it needs none, or that no message has one."""
    rarest = np.int64(-1)
    for i in range(queries.code_start[clause], queries.code_start[clause + 1]):
        word = np.int64(queries.code[i])
        if word < 0:
            break
        if word + 1 >= arrays.frequency.size:
            return np.int64(_NOT_SAID)
        if rarest < 0 or arrays.frequency[word + 1] < arrays.frequency[rarest + 1]:
            rarest = word
    return rarest


@inlined
def _visit(arrays, table, queries, query, clause, word, words_first, skips_alike, dropped, scratch, found, n):
    """Read the lists of the cells that two rectangles cut otherwise; return how many candidates there are."""
    span = scratch.span
    write_around(scratch.rectangle)
    for which in range(2):
        write_span(arrays, scratch.rectangle, which, span)
    for which in range(2):
        for i in range(span[which, 0], span[which, 2] + 1):
            for j in range(span[which, 1], span[which, 3] + 1):
                if which == NEW and span[0, 0] <= i <= span[0, 2] and span[0, 1] <= j <= span[0, 3]:
                    continue
                _write_bounds(arrays, i, j, scratch.bounds)
                if case_of(scratch.rectangle, scratch.bounds, skips_alike) > CUT_ALIKE:
                    cell = i * _ALONG + j
                    n = _read_cell(
                        arrays, table, queries, query, clause, word, words_first, cell,
                        skips_alike, dropped, scratch, found, n,
                    )  # fmt: skip
    return _read_cell(
        arrays, table, queries, query, clause, word, words_first, _EVERYWHERE, skips_alike, dropped, scratch, found, n
    )


@inlined
def write_span(arrays, rectangle, which, span):
    """Write the columns and rows of the cells that a rectangle touches."""
    for k in range(0, 4, 2):
        span[which, k] = strip_of(arrays.x_line, rectangle[which, k])
        span[which, k + 1] = strip_of(arrays.y_line, rectangle[which, k + 1])
    if rectangle[which, 0] > rectangle[which, 2]:
        span[which, 2] = span[which, 0] - 1


@inlined
def _write_bounds(arrays, i, j, bounds):
    """Write the bounds of a cell; a line belongs to what follows it."""
    bounds[0] = arrays.x_line[i - 1] if i > 0 else -np.inf
    bounds[1] = arrays.y_line[j - 1] if j > 0 else -np.inf
    bounds[2] = np.nextafter(arrays.x_line[i], -np.inf) if i < _ALONG - 1 else np.inf
    bounds[3] = np.nextafter(arrays.y_line[j], -np.inf) if j < _ALONG - 1 else np.inf


@inlined
def _read_cell(arrays, table, queries, query, clause, word, words_first, cell, skips_alike, dropped, scratch, found, n):
    """Read the list of a clause in a cell: that of its rarest word, or the shortest there is for one of its words."""
    best = _list_of(arrays, word, cell)
    if not words_first and word >= 0:
        for i in range(queries.code_start[clause], queries.code_start[clause + 1]):
            if queries.code[i] < 0 or best == _NO_LIST:
                break
            at = _list_of(arrays, queries.code[i], cell)
            if at == _NO_LIST or arrays.lists.held[at, COUNT_HELD] < arrays.lists.held[best, COUNT_HELD]:
                best = at
    if best == _NO_LIST:
        return n
    return read_list(arrays.lists, table, best, query, scratch.rectangle, skips_alike, dropped, found, n)
