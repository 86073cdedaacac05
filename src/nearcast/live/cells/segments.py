"""Posting lists over live messages: by word, each in the order of a quadtree's cells.

A *segment* covers some rows of the table. Its rows have *positions*, in the order of (class, key), so that those of a
cell lie side by side. A posting is a position; the postings of a word ascend. So a cell is a range of positions and a
range in every list. Directories of cells of one level tell both for points, one of the positions and one of every list
that is not short, of a level by its length; smaller cells are found by bisection. A list tells in how many of a cell's
messages its word is without looking at any.

Segments stand one behind the other in a few arrays. New rows become a segment, which takes in the segments before it
while these are not much larger: there are few, and each row is filed again a few times in its life.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined, prefetch
from nearcast.live.cells.frame import BITS, N_CLASSES, fill_keys, frame_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.live.table import LiveTable

#: Columns of `Segments.segment`. POSITION, WORD, START, POSTING and CELL are where its part of an array begins; N_WORDS
#: is 0 where `start` is by word id, for the ids below N_IDS; CELL_LEVEL is that of the cells of its directory;
#: CLASS_FIRST and N_CLASSES more are where classes begin.
POSITION, N_POSITIONS, WORD, N_WORDS, START, N_IDS, POSTING, N_POSTINGS = range(8)
CELL, N_CELLS, CELL_LEVEL, CLASS_FIRST = range(8, 12)
_N_COLUMNS = CLASS_FIRST + N_CLASSES + 1
#: A segment takes in the one before it unless that is so many times larger.
_LARGER = 2
#: Starts are by word id where the words of a segment are at least this share of all there are.
_DENSE = 8
#: Points of a cell of the directory, where they lie evenly.
_CELL_POINTS = 16
#: Postings of a cell of the directory of a list, where they lie evenly: half as many up to twice as many.
_CELL_POSTINGS = 8
_GROWTH = 8
#: Rows whose words are asked for while those of another are filed.
_AHEAD = 8
#: So many words lie in a line of the processor's cache; those of a message lie in two at the usual length.
WORDS_OF_LINE = 16


class Segments(NamedTuple):
    """All segments, in flat arrays.

    The row at a position p of segment s is `row[segment[s, POSITION] + p]`. Its k-th word, which is `word[segment[s,
    WORD] + k]` or k itself, has the postings from `start[segment[s, START] + k]` on, counted from `segment[s,
    POSTING]`. The points of the c-th cell of its directory have the positions from `cell[segment[s, CELL] + c]` on. The
    directories of lists stand behind it: where each begins is in `list_cell`, as `start`, counted from the same place.
    """

    segment: NDArray[np.int64]
    frame: NDArray[np.float64]
    key: NDArray[np.int64]
    row: NDArray[np.int32]
    word: NDArray[np.int32]
    start: NDArray[np.int32]
    posting: NDArray[np.int32]
    list_cell: NDArray[np.int32]
    cell: NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for array in self)

    @classmethod
    def none(cls) -> Segments:
        """Return no segments."""
        integers = [np.zeros(0, np.int32) for _ in range(6)]
        return cls(np.zeros((0, _N_COLUMNS), np.int64), np.zeros((0, 4)), np.zeros(0, np.int64), *integers)


class PostingList(NamedTuple):
    """A list of postings, or of all positions, from `first` to `last`, with the level of its directory, 0 for none.

    The points of its c-th cell begin at `origin + cell[cells + c]`.
    """

    first: int
    last: int
    is_all: bool
    level: int
    cells: int
    origin: int


class _NewSegment(NamedTuple):
    """One segment in arrays of its own; the columns are those of `Segments`."""

    row: NDArray[np.int32]
    key: NDArray[np.int64]
    class_start: NDArray[np.int64]
    frame: NDArray[np.float64]
    word: NDArray[np.int32]
    start: NDArray[np.int32]
    posting: NDArray[np.int32]
    list_cell: NDArray[np.int32]
    cell: NDArray[np.int32]
    cell_level: int


class SegmentBuilder:
    """The segments over the first `n_rows` rows of a table, and scratch by word to build more."""

    def __init__(self) -> None:
        self.segments = Segments.none()
        self.n_rows = 0
        #: By word: the last message seen to have it, and how many have it; zeros between builds.
        self._seen = self._count = np.zeros(0, np.int32)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return self.segments.nbytes + self._seen.nbytes + self._count.nbytes

    def add_rows(self, table: LiveTable, n: int, n_words: int, now: int) -> None:
        """File the rows from `n_rows` to n, with those of the last segments where they are few; not those over."""
        segments, rows = self.segments, [np.arange(self.n_rows, n)]
        # The memory of segments is written over: whoever interrupts this finds none, and all rows to be filed again.
        self.__dict__.update(segments=Segments.none(), n_rows=0)
        kept, size = len(segments.segment), len(rows[0])
        while kept and segments.segment[kept - 1, N_POSITIONS] <= _LARGER * size:
            kept -= 1
            rows.append(_rows_of(segments, kept))
            size += len(rows[-1])
        together = np.concatenate(rows)
        together = together[table.expires[together] > now]
        segments = _cut(segments, kept)
        if len(together):
            segments = _joined(segments, self._built(table, together, n_words))
        self.__dict__.update(segments=segments, n_rows=n)  # in one step: both or neither

    def _built(self, table: LiveTable, rows: NDArray[np.int64], n_words: int) -> _NewSegment:
        box = np.ascontiguousarray(table.box[rows])
        frame = frame_of(box)
        key, kind = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        fill_keys(box, frame, key, kind)
        order = np.argsort(kind << 2 * BITS | key)
        key, filed = key[order], rows[order].astype(np.int32)
        class_start = np.searchsorted(kind[order], np.arange(N_CLASSES + 1))
        seen, count = self._scratch(n_words)
        length = int((table.term_start[rows + 1] - table.term_start[rows]).sum())
        word, posting = np.empty(min(length, n_words), np.int32), np.empty(length, np.int32)
        n, n_postings = count_words(table.term_start, table.term, filed, seen, count, word)
        word = np.sort(word[:n])
        start = np.empty(n + 1, np.int32)
        fill_lists(table.term_start, table.term, filed, seen, count, word, start, posting)
        self._seen, self._count = seen, count
        if _DENSE * len(word) >= n_words:
            word, start = word[:0], _by_id(word, start, n_words)
        level, directory = _directory(key[: class_start[1]])
        list_cell = np.empty(len(start), np.int32)
        cell = np.empty(place_directories(start, level, directory.size, list_cell), np.int32)
        cell[: len(directory)] = directory
        fill_directories(start, posting, level, list_cell, cell)
        return _NewSegment(
            row=filed,
            key=key,
            class_start=class_start,
            frame=frame,
            word=word,
            start=start,
            posting=posting[:n_postings],
            list_cell=list_cell,
            cell=cell,
            cell_level=level,
        )

    def _scratch(self, n_words: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Lend two columns of zeros by word; they are not here while they hold anything else."""
        seen, count = self._seen, self._count
        self._seen = self._count = np.zeros(0, np.int32)
        if n_words > min(len(seen), len(count)):
            seen = np.zeros(n_words + n_words // _GROWTH, np.int32)
            count = np.zeros_like(seen)
        return seen, count


def _rows_of(segments: Segments, at: int) -> NDArray[np.int64]:
    """Return the rows of one segment."""
    first, n = segments.segment[at, POSITION], segments.segment[at, N_POSITIONS]
    return segments.row[first : first + n].astype(np.int64)


@inlined
def _ask_ahead(term_start, term, rows, p):
    """Ask for the words of rows behind the p-th: rows in the order of places lie all over the table."""
    if p + 2 * _AHEAD < rows.size:
        prefetch(term_start, rows[p + 2 * _AHEAD])
        prefetch(term, term_start[rows[p + _AHEAD]])
        prefetch(term, term_start[rows[p + _AHEAD]] + WORDS_OF_LINE)


@hot_kernel
def count_words(term_start, term, rows, seen, count, word):
    """Count in how many rows each word is; write the distinct words and return (their number, the sum of counts)."""
    n = n_postings = 0
    for p in range(rows.size):
        _ask_ahead(term_start, term, rows, p)
        for i in range(term_start[rows[p]], term_start[rows[p] + 1]):
            t = term[i]
            if t >= 0 and seen[t] != p + 1:
                seen[t] = p + 1
                if count[t] == 0:
                    word[n] = t
                    n += 1
                count[t] += 1
                n_postings += 1
    for i in range(n):
        seen[word[i]] = 0
    return n, n_postings


@hot_kernel
def fill_lists(term_start, term, rows, seen, count, word, start, posting):
    """Write the positions of each word, the words being ascending, and set the scratch back to zeros."""
    total = 0
    for k in range(word.size):
        start[k] = total
        total += count[word[k]]
        count[word[k]] = start[k]
    start[word.size] = total
    for p in range(rows.size):
        _ask_ahead(term_start, term, rows, p)
        for i in range(term_start[rows[p]], term_start[rows[p] + 1]):
            t = term[i]
            if t >= 0 and seen[t] != p + 1:
                seen[t] = p + 1
                posting[count[t]] = p
                count[t] += 1
    for k in range(word.size):
        seen[word[k]] = count[word[k]] = 0


def _directory(key: NDArray[np.int64]) -> tuple[int, NDArray[np.int32]]:
    """Return a level of cells, the positions at which the points of each of these begin, and their number."""
    level = (len(key) // _CELL_POINTS).bit_length() // 2
    cells = np.arange((1 << 2 * level) + 1, dtype=np.int64) << 2 * (BITS - level)
    return level, np.searchsorted(key, cells).astype(np.int32)


@inlined
def _list_level(n, most):
    """Return the level of the directory of a list of so many postings, 0 where it has none; that of all has `most`."""
    level = 0
    while level < most and 2 * _CELL_POSTINGS << 2 * level <= n:
        level += 1
    return level


@hot_kernel
def place_directories(start, level, begin, list_cell):
    """Write where the directory of each list begins, the first at `begin`; return where the last ends."""
    for k in range(start.size - 1):
        n = _list_level(start[k + 1] - start[k], level)
        list_cell[k] = begin
        begin += (1 << 2 * n) + 1 if n > 0 else 0
    list_cell[start.size - 1] = begin
    return begin


@hot_kernel
def fill_directories(start, posting, level, list_cell, cell):
    """Write the directories of lists; that of all positions, of cells of this level, stands before them."""
    for k in range(start.size - 1):
        n = _list_level(start[k + 1] - start[k], level)
        if n == 0:
            continue
        at = start[k]
        for c in range((1 << 2 * n) + 1):
            position = cell[c << 2 * (level - n)]
            while at < start[k + 1] and posting[at] < position:
                at += 1
            cell[list_cell[k] + c] = at


def _ends(segments: Segments) -> tuple[int, ...]:
    """Return how much of `key` and `row`, `word`, `start` and `list_cell`, `posting` and `cell` is in use."""
    if not len(segments.segment):
        return 0, 0, 0, 0, 0
    last = segments.segment[-1].tolist()
    n_starts = (last[N_WORDS] or last[N_IDS]) + 1
    ends = (last[POSITION] + last[N_POSITIONS], last[WORD] + last[N_WORDS], last[START] + n_starts)
    return *ends, last[POSTING] + last[N_POSTINGS], last[CELL] + last[N_CELLS]


def _cut(segments: Segments, n: int) -> Segments:
    """Return the first n segments; what lies behind them will be overwritten."""
    return segments._replace(segment=segments.segment[:n], frame=segments.frame[:n])


def _joined(segments: Segments, new: _NewSegment) -> Segments:
    """Return the segments with one more behind them, in the same memory where it has room."""
    positions, words, starts, postings, cells = _ends(segments)
    n_ids = 0 if len(new.word) else len(new.start) - 1
    about = [positions, len(new.row), words, len(new.word), starts, n_ids, postings, len(new.posting)]
    about += [cells, len(new.cell), new.cell_level]
    line = np.array([[*about, *new.class_start.tolist()]], np.int64)
    return Segments(
        segment=np.concatenate([segments.segment, line]),
        frame=np.concatenate([segments.frame, new.frame[None]]),
        key=_with(segments.key, positions, new.key),
        row=_with(segments.row, positions, new.row),
        word=_with(segments.word, words, new.word),
        start=_with(segments.start, starts, new.start),
        posting=_with(segments.posting, postings, new.posting),
        list_cell=_with(segments.list_cell, starts, new.list_cell),
        cell=_with(segments.cell, cells, new.cell),
    )


def _by_id(word: NDArray[np.int32], start: NDArray[np.int32], n_words: int) -> NDArray[np.int32]:
    """Return where the list of each word id begins, and the end of the last."""
    count = np.zeros(n_words + 1, np.int32)
    count[word + 1] = np.diff(start)
    return np.cumsum(count, dtype=np.int32)


def _with(column: NDArray[Any], used: int, more: NDArray[Any]) -> NDArray[Any]:
    """Return a column whose used part is followed by `more`: this one, or a longer one."""
    n = used + len(more)
    if n > len(column):
        grown = np.empty(n + n // _GROWTH, column.dtype)
        grown[:used] = column[:used]
        column = grown
    column[used:n] = more
    return column


@inlined
def position_of(segments, at, kind, key):
    """Return the first position of a class of messages with this key or a larger one."""
    about, base = segments.segment, segments.segment[at, POSITION]
    low, high = about[at, CLASS_FIRST + kind], about[at, CLASS_FIRST + kind + 1]
    if kind == 0:
        shift = 2 * (BITS - about[at, CELL_LEVEL])
        cell = about[at, CELL] + (key >> shift)
        low = np.int64(segments.cell[cell])
        if (key >> shift) << shift == key:
            return low
        high = np.int64(segments.cell[cell + 1])
    while low < high:
        middle = (low + high) >> 1
        if segments.key[base + middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def list_of(segments, at, word):
    """Return where in `start` the list of a word is, and its length, 0 if no message has it."""
    about = segments.segment
    begin = about[at, START]
    if about[at, N_WORDS] == 0:
        if word >= about[at, N_IDS]:
            return begin, np.int64(0)
        return begin + word, np.int64(segments.start[begin + word + 1] - segments.start[begin + word])
    first = low = about[at, WORD]
    high = low + about[at, N_WORDS]
    while low < high:
        middle = (low + high) >> 1
        if segments.word[middle] < word:
            low = middle + 1
        else:
            high = middle
    if low == first + about[at, N_WORDS] or segments.word[low] != word:
        return begin, np.int64(0)
    low += begin - first
    return low, np.int64(segments.start[low + 1] - segments.start[low])


@inlined
def postings_of(segments, at, number):
    """Return the list at this place in `start`."""
    about = segments.segment
    origin = about[at, POSTING]
    first, last = origin + segments.start[number], origin + segments.start[number + 1]
    level = _list_level(last - first, about[at, CELL_LEVEL])
    return PostingList(first, last, False, level, about[at, CELL] + segments.list_cell[number], origin)


@inlined
def all_postings(segments, at):
    """Return the list of all positions."""
    about = segments.segment
    return PostingList(np.int64(0), about[at, N_POSITIONS], True, about[at, CELL_LEVEL], about[at, CELL], np.int64(0))


@inlined
def no_postings():
    """Return an empty list."""
    return PostingList(np.int64(0), np.int64(0), False, np.int64(0), np.int64(0), np.int64(0))
