"""The contract of an index over the messages of a window: which messages are best for a subscription?

A *query* is a subscription that searches the window, because it is new, has moved, or its buffer has run dry.

A message counts for a subscription if it is alive and the two share a word, by id, also one that weighs nothing. Its
score is that of `nearcast.similarity`: common = Σ weight · (count · weight) over the subscription's words in the given
order, text = `tfidf_of(common, own, length)`, near by `place_distance`. Answers are in rank order: higher score first;
of equal ones the newer, by time and then by row where the window goes `by_time`, else by row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from nearcast.geo import Space


class WindowBatch(NamedTuple):
    """Messages to append to a window, in order of arrival.

    Message i has the distinct words `word[word_start[i]:word_start[i + 1]]`, says each of them `count` times, and lies
    at `box[i]`; `length` is the squared length of its tf-idf vector, of all its words.
    """

    word_start: NDArray[np.int64]
    word: NDArray[np.int32]
    count: NDArray[np.int32]  # type: ignore[assignment]  # of a tuple's methods this is the one we can do without
    box: NDArray[np.float64]
    length: NDArray[np.float64]
    time: NDArray[np.int64]


class WindowQueries(NamedTuple):
    """Subscriptions that search the window, in flat arrays, one per row.

    Row i has the words `word[word_start[i]:word_start[i + 1]]` in the order of their strings, -1 for one that no
    message ever said, which weigh `weight` each; `own` is the sum of all their squares in that order.
    """

    word_start: NDArray[np.int64]
    word: NDArray[np.int32]
    weight: NDArray[np.float64]
    point: NDArray[np.float64]
    text_weight: NDArray[np.float64]
    max_distance: NDArray[np.float64]
    own: NDArray[np.float64]

    def for_kernels(self) -> WindowQueries:
        """Return the same as writable, contiguous arrays: Numba would compile every kernel again for other ones."""
        columns: tuple[NDArray[Any], ...] = self
        typed = list(zip(columns, _ASKED_TYPES, strict=True))
        if all(column.flags.carray and column.dtype == kind for column, kind in typed):
            return self
        return WindowQueries(*(np.require(column, kind, ["C", "W"]) for column, kind in typed))


_ASKED_TYPES: tuple[np.dtype[Any], ...] = (np.dtype(np.int64), np.dtype(np.int32), *[np.dtype(np.float64)] * 5)


class LiveRows(NamedTuple):
    """Which messages count: `first` <= row < `last`, and time > `after` unless that is `columns.NO_TIME`."""

    first: int
    last: int
    after: int


class WindowAnswers(NamedTuple):
    """The answers to queries: those to query i are `row` and `score` from `start[i]` to `start[i + 1]`, in rank order.

    `work` counts the messages and postings looked at, by query.
    """

    start: NDArray[np.int64]
    row: NDArray[np.int64]
    score: NDArray[np.float64]
    work: NDArray[np.int64]


class MessageIndex(ABC):
    """The messages of a window. Rows are numbered from 0 in order of arrival and never used again.

    Searches may run side by side in threads; a change may not run beside a search.
    """

    def __init__(self, space: Space, by_time: bool = False):
        self.space, self.by_time = space, by_time

    @property
    @abstractmethod
    def next_row(self) -> int:
        """The row that the next message gets."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The bytes of all arrays."""

    @property
    def first_held(self) -> int:
        """No row below this one is held because the index began there; 0 unless it holds a part of a window."""
        return 0

    @abstractmethod
    def append(self, batch: WindowBatch) -> None:
        """Add messages; the weights of their words have been set."""

    @abstractmethod
    def set_weights(self, weight: NDArray[np.float64]) -> None:
        """Say what all words weigh, by id; follow with `relength` where that changes a word of a held message."""

    @abstractmethod
    def relength(self, first_row: int, length: NDArray[np.float64]) -> None:
        """Replace the squared lengths of the rows from `first_row` on; rows no longer held are passed over."""

    @abstractmethod
    def drop_before(self, row: int) -> None:
        """Forget the rows below `row` for good."""

    @abstractmethod
    def best(self, queries: WindowQueries, n: NDArray[np.int32], alive: LiveRows, threads: int = 1) -> WindowAnswers:
        """Return the `n` best messages for each query, fewer where there are not so many."""

    def best_above(
        self,
        queries: WindowQueries,
        n: NDArray[np.int32],
        floor: NDArray[np.float64],
        alive: LiveRows,
        threads: int = 1,
    ) -> WindowAnswers:
        """Return the `n` best of all messages with a score of `floor` or more, for each query; maybe some below it."""
        return self.best(queries, n, alive, threads)

    def scores(
        self, queries: WindowQueries, start: NDArray[np.int64], rows: NDArray[np.int64], alive: LiveRows
    ) -> NDArray[np.float64]:
        """Return the score for query i of each of the rows from `start[i]` on, -1 where it does not count.

        It is -1 also where it is not known: an index that has no messages at hand knows none.
        """
        return np.full(len(rows), -1.0)

    @abstractmethod
    def at_least(
        self, queries: WindowQueries, threshold: NDArray[np.float64], alive: LiveRows, threads: int = 1
    ) -> WindowAnswers:
        """Return for each query all messages with a score of `threshold` or more."""

    @abstractmethod
    def time(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the times of held rows."""

    @abstractmethod
    def messages(self, rows: NDArray[np.int64]) -> WindowBatch:
        """Return held rows as they were appended, with the words of each ascending and the present lengths."""

    @abstractmethod
    def used_words(self) -> NDArray[np.bool_]:
        """Tell by word id, up to the greatest that was ever given, which words the rows held have."""

    @abstractmethod
    def with_words(self, new_of_old: NDArray[np.int32], weight: NDArray[np.float64]) -> MessageIndex:
        """Return an index of the same rows whose words have other ids, -1 for those that no held row has.

        `weight` is what words weigh by their new ids. This index stays as it is.
        """

    @abstractmethod
    def rolled_back(self, first_row: int, next_row: int, dropped: list[WindowBatch]) -> MessageIndex:
        """Return an index of the rows `first_row` to `next_row`, as before an `append` that was interrupted or undone.

        Rows dropped since are in `dropped`: the first ones, in order. This index is only read.
        """

    @abstractmethod
    def save(self, folder: str | Path) -> None:
        """Write everything as plain arrays into a new folder."""

    @classmethod
    @abstractmethod
    def open(cls, folder: str | Path, space: Space) -> MessageIndex:
        """Read what an index of any class saved."""
