"""The messages of a window in columns: the storage that every index of a window stands on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nearcast._jit import hot_kernel
from nearcast._saved import new_folder, save_array
from nearcast.errors import IncompatibleStore
from nearcast.geo.hilbert import hilbert_keys
from nearcast.indexes.shared.saved_checks import check_points
from nearcast.saved_files.arrays import SavedArrays
from nearcast.topk.window.column_queue import ColumnQueue
from nearcast.topk.window.contract import LiveRows, MessageIndex, WindowBatch, WindowQueries
from nearcast.topk.window.scores import (
    LENGTH,
    N_CARD,
    N_WORDS,
    REPEATS,
    ROW,
    WORD_FIRST,
    MessageCards,
    first_word,
    is_alive,
    mark_of,
    n_words_of,
    near_to,
    row_of,
    score_with,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space

_FORMAT = 1


class StoredMessages(MessageIndex):
    """Keeps rows in columns, at positions that are their numbers until an index puts some of them in another order."""

    def __init__(self, space: Space, by_time: bool = False):
        super().__init__(space, by_time)
        self._weight = np.zeros(0)
        self._begin(0)

    def _begin(self, first_row: int) -> None:
        """Hold nothing, with rows to be numbered from `first_row`."""
        long = np.zeros(0, np.int64)
        self._rows = ColumnQueue(
            first_row,
            card=np.zeros((0, N_CARD)),
            time=long,
            mark=long,
            key=long,
            position=long,
        )
        self._words = ColumnQueue(said=np.zeros((0, 2), np.int32))
        #: Rows below are dropped, though some may still be there.
        self._floor = first_row
        self._n_words = self._weight.size

    @property
    def next_row(self) -> int:
        """The row that the next message gets."""
        return self._rows.end

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return self._rows.nbytes + self._words.nbytes + self._weight.nbytes

    def append(self, batch: WindowBatch) -> None:
        """Add messages; the weights of their words have been set."""
        n, first_row, first_word = len(batch.box), self._rows.end, self._words.end
        rows = np.arange(first_row, first_row + n)
        self._words.extend(len(batch.word))
        said = self._words.part("said", first_word, self._words.end)
        said[:, 0], said[:, 1] = batch.word, batch.count
        self._rows.extend(n)
        card = self._rows.part("card", first_row, first_row + n)
        card[:, :LENGTH], card[:, LENGTH], card[:, ROW] = batch.box, batch.length, rows
        card[:, WORD_FIRST] = first_word + batch.word_start[:-1] - batch.word_start[0]
        card[:, N_WORDS] = np.diff(batch.word_start)
        keys = hilbert_keys(self.space, np.require(batch.box, np.float64))
        for name, new in (("time", batch.time), ("key", keys), ("position", rows)):
            self._rows.part(name, first_row, first_row + n)[:] = new
        if len(batch.word):
            self._n_words = max(self._n_words, int(batch.word.max()) + 1)
        self._order_words(first_row)

    def _order_words(self, first_row: int) -> None:
        """Sort the words of each message at the positions from `first_row` on, and mark them."""
        held = self._held()
        sort_words(held, first_row - self._rows.base, self._rows.end - self._rows.base)

    def _held(self) -> MessageCards:
        rows = self._rows.arrays
        return MessageCards(rows["card"], rows["time"], rows["mark"], self._words.arrays["said"], self._words.base)

    def set_weights(self, weight: NDArray[np.float64]) -> None:
        """Say what all words weigh, by id."""
        self._weight = np.array(weight, np.float64)
        self._n_words = max(self._n_words, self._weight.size)

    def relength(self, first_row: int, length: NDArray[np.float64]) -> None:
        """Replace the squared lengths of the rows from `first_row` on; rows no longer held are passed over."""
        gone = max(self._rows.first - first_row, 0)
        rows = np.arange(first_row + gone, first_row + len(length))
        self._rows.arrays["card"][self._at(rows), LENGTH] = length[gone:]

    def drop_before(self, row: int) -> None:
        """Forget the rows below `row` for good."""
        self._floor = max(self._floor, min(row, self.next_row))
        self._forget_before(self._floor)

    def _forget_before(self, position: int) -> None:
        """Drop the messages at positions below `position`."""
        if position > self._rows.first:
            first_word = self._word_first(position)
            self._rows.drop(position)  # before its words: no row that is held lacks any
            self._words.drop(first_word)

    def _word_first(self, position: int) -> int:
        """Return the first word of the message at a position, or the end."""
        if position == self._rows.end:
            return self._words.end
        return int(self._rows.part("card", position, position + 1)[0, WORD_FIRST])

    def _at(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where in the columns held rows are."""
        if len(rows) and not (self._rows.first <= rows.min() and rows.max() < self._rows.end):
            raise IndexError(f"rows {self._rows.first} to {self._rows.end} are held, not {rows.min()} to {rows.max()}")
        at: NDArray[np.int64] = self._rows.arrays["position"][rows - self._rows.base] - self._rows.base
        return at

    def time(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the times of held rows."""
        time: NDArray[np.int64] = self._rows.arrays["time"][self._at(np.asarray(rows, np.int64))]
        return time

    def messages(self, rows: NDArray[np.int64]) -> WindowBatch:
        """Return held rows as they were appended, with the words of each ascending and the present lengths."""
        at = self._at(np.asarray(rows, np.int64))
        card, time = self._rows.arrays["card"][at], self._rows.arrays["time"][at]
        n_words = card[:, N_WORDS].astype(np.int64)
        start = np.append(0, np.cumsum(n_words))
        first = card[:, WORD_FIRST].astype(np.int64) - self._words.base
        said = self._words.arrays["said"][np.arange(start[-1]) + np.repeat(first - start[:-1], n_words)]
        word, count, box = (np.ascontiguousarray(each) for each in (said[:, 0], said[:, 1], card[:, :LENGTH]))
        return WindowBatch(start, word, count, box, card[:, LENGTH].copy(), time)

    def scores(
        self, queries: WindowQueries, start: NDArray[np.int64], rows: NDArray[np.int64], alive: LiveRows
    ) -> NDArray[np.float64]:
        """Return the score for query i of each of the rows from `start[i]` on, -1 where it does not count."""
        found = np.full(len(rows), -1.0)
        held = np.flatnonzero((rows >= max(self._rows.first, int(alive.first))) & (rows < self._rows.end))
        which = np.repeat(np.arange(len(start) - 1), np.diff(start))[held]
        score = np.empty(len(held))
        score_rows(queries.for_kernels(), which, self._at(rows[held]), self._held(), alive, self.space.is_earth, score)
        found[held] = score
        return found

    def used_words(self) -> NDArray[np.bool_]:
        """Tell by word id, up to the greatest that was ever given, which words the rows held have."""
        used = np.zeros(self._n_words, np.bool_)
        mark_used(self._held(), self._rows.first - self._rows.base, self._rows.end - self._rows.base, self._floor, used)
        return used

    def with_words(self, new_of_old: NDArray[np.int32], weight: NDArray[np.float64]) -> Self:
        """Return an index of the same rows whose words have other ids, -1 for those that no held row has."""
        held = self.messages(np.arange(self._floor, self._rows.end))
        return self._made_of(self._floor, [held._replace(word=new_of_old[held.word])], weight)

    def rolled_back(self, first_row: int, next_row: int, dropped: list[WindowBatch]) -> Self:
        """Return an index of the rows `first_row` to `next_row`, the first of which are in `dropped`."""
        first_held = first_row + sum(len(batch.box) for batch in dropped)
        held = self.messages(np.arange(first_held, next_row))
        return self._made_of(first_row, [*dropped, held], self._weight)

    def _made_of(self, first_row: int, batches: list[WindowBatch], weight: NDArray[np.float64]) -> Self:
        """Return a new index of these messages, with rows from `first_row` on."""
        fresh = type(self)(self.space, self.by_time)
        fresh._begin(first_row)
        fresh.set_weights(weight)
        for batch in batches:
            fresh.append(batch)
        return fresh

    def save(self, folder: str | Path) -> None:
        """Write everything as plain arrays into a new folder."""
        folder = new_folder(folder)
        held = self.messages(np.arange(self._rows.first, self._rows.end))
        for name, column in zip(WindowBatch._fields, held, strict=True):
            save_array(folder / f"{name}.npy", np.asarray(column), will_change=False)  # they were made just now
        save_array(folder / "weight.npy", self._weight)
        about = (_FORMAT, int(self.by_time), self._rows.first, self._floor, self._n_words)
        save_array(folder / "about.npy", np.array(about, np.int64))

    @classmethod
    def open(cls, folder: str | Path, space: Space) -> Self:
        """Read what an index of any class saved."""
        arrays = SavedArrays(folder)
        about = arrays.mapped("about", np.int64)
        if about.shape != (5,) or about[0] != _FORMAT:
            raise IncompatibleStore(
                f"{folder}/about.npy was not saved with messages of a window in format {_FORMAT}; build it anew"
            )
        batch = WindowBatch(*(arrays.mapped(name, *kind) for name, kind in _TYPES.items()))
        weight = arrays.mapped("weight", np.float64)
        _check(arrays, batch, weight, about, space)
        index = cls(space, bool(about[1]))
        index._begin(int(about[2]))
        index.set_weights(weight)
        index.append(batch)
        index.drop_before(int(about[3]))
        index._n_words = max(min(int(about[4]), len(weight)), int(batch.word.max(initial=-1)) + 1)
        return index


_TYPES: dict[str, tuple[Any, ...]] = {
    "word_start": (np.int64,),
    "word": (np.int32,),
    "count": (np.int32,),
    "box": (np.float64, 4),
    "length": (np.float64,),
    "time": (np.int64,),
}


def _check(
    arrays: SavedArrays, batch: WindowBatch, weight: NDArray[np.float64], about: NDArray[np.int64], space: Space
) -> None:
    """Check saved messages: words that have a weight, lists within bounds, places that are numbers."""
    n = len(batch.box)
    arrays.starts("word_start", batch.word_start, n, len(batch.word))
    arrays.length("count", batch.count, len(batch.word))
    arrays.numbers("word", batch.word, len(weight), least=-1)
    check_points(arrays, "box", batch.box, space)
    arrays.length("length", batch.length, n)
    arrays.within("length", batch.length, 0.0, np.inf)
    arrays.length("time", batch.time, n)
    arrays.check("weight", np.isfinite(weight).all(), "it holds values that are no numbers")
    first, floor = int(about[2]), int(about[3])
    arrays.check("about", 0 <= first <= floor <= first + n < _MOST_ROWS, "its rows are not those of the messages")


#: No window ever numbers as many messages; a row and a count of dominators fit one integer.
_MOST_ROWS = 1 << 47


@hot_kernel
def sort_words(held, first, last):
    """Sort the words of the messages at these positions, with their counts, and mark them (Shell's sort)."""
    said = held.said
    for position in range(first, last):
        begin, n = first_word(held, position), n_words_of(held, position)
        gap = n >> 1
        while gap > 0:
            for i in range(begin + gap, begin + n):
                word, count, at = said[i, 0], said[i, 1], i
                while at - gap >= begin and said[at - gap, 0] > word:
                    said[at, 0], said[at, 1] = said[at - gap, 0], said[at - gap, 1]
                    at -= gap
                said[at, 0], said[at, 1] = word, count
            gap >>= 1
        mark = 0
        for i in range(begin, begin + n):
            if said[i, 0] >= 0:
                mark |= mark_of(said[i, 0])
                if said[i, 1] > 1:
                    mark |= REPEATS
        held.mark[position] = mark


@hot_kernel
def score_rows(queries, which, position, held, alive, is_earth, score):
    """Write the score of each message at a position for a query, -1 where it does not count."""
    for i in range(which.size):
        score[i] = -1.0
        if is_alive(held, position[i], alive):
            near = near_to(queries, which[i], held, position[i], is_earth)
            score[i] = score_with(queries, which[i], held, position[i], near)


@hot_kernel
def mark_used(held, first, last, floor, used):
    """Mark the words of the rows from `floor` on among the messages at these positions."""
    for position in range(first, last):
        if row_of(held, position) >= floor:
            begin = first_word(held, position)
            for i in range(begin, begin + n_words_of(held, position)):
                if held.said[i, 0] >= 0:
                    used[held.said[i, 0]] = True
