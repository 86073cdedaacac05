"""Rows of words in flat arrays, and how they are drawn."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.columns import gathered

Rows = npt.NDArray[np.int64]

#: The fewest and the most words of a row; equal ends fix the number.
Count = tuple[int, int]


class WordColumn(NamedTuple):
    """A column of lists of words: row i has words[terms[start[i]:start[i + 1]]]."""

    start: Rows
    terms: npt.NDArray[np.int32]
    words: pa.Array

    def take(self, rows: Rows) -> WordColumn:
        """Return these rows, in this order."""
        start, positions = gathered(self.start, rows)
        return WordColumn(start, self.terms[positions], self.words)

    def to_arrow(self) -> pa.Array:
        """Return the column as lists of strings."""
        return pa.ListArray.from_arrays(pa.array(self.start, pa.int32()), self.words.take(pa.array(self.terms)))


def zipf_lists(rng: np.random.Generator, n: int, words: pa.Array, count: Count) -> WordColumn:
    """Return `n` rows of distinct words, drawn with a probability of 1 / rank; `count` is before repeats go."""
    cumulative = np.cumsum(1.0 / np.arange(1, len(words) + 1))
    row = np.repeat(np.arange(n), rng.integers(count[0], count[1] + 1, n))
    terms = np.searchsorted(cumulative, rng.random(row.size) * cumulative[-1])
    return distinct(row, terms, n, words)


def counted_zipf_lists(rng: np.random.Generator, n: int, words: pa.Array, count: Count) -> WordColumn:
    """Return `n` rows of `count` distinct words each, drawn with a probability of 1 / rank.

    Twice as many are drawn and the first different ones taken; a row of which too many were equal has fewer."""
    draws = 2 * count[1] + 5
    return first_words(rng, zipf_lists(rng, n, words, (draws, draws)), count)


def distinct(row: Rows, terms: npt.NDArray[Any], n: int, words: pa.Array) -> WordColumn:
    """Return the first of each word of each row, in order."""
    _, first = np.unique((row << 32) | terms, return_index=True)
    first.sort()
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(row[first], minlength=n), out=start[1:])
    return WordColumn(start, terms[first].astype(np.int32), words)


def some_words(rng: np.random.Generator, lists: WordColumn, count: Count) -> WordColumn:
    """Return for each row `count` of its words at random, all where it has fewer."""
    row = _row_of_each(lists)
    shuffled = np.lexsort((rng.random(row.size), row))
    return first_words(rng, lists._replace(terms=lists.terms[shuffled]), count)


def first_words(rng: np.random.Generator, lists: WordColumn, count: Count) -> WordColumn:
    """Return for each row its first `count` words, all where it has fewer."""
    have = np.diff(lists.start)
    row = _row_of_each(lists)
    wanted = np.minimum(rng.integers(count[0], count[1] + 1, len(have)), have)
    start = np.zeros(len(have) + 1, np.int64)
    np.cumsum(wanted, out=start[1:])
    return WordColumn(start, lists.terms[np.arange(row.size) - lists.start[row] < wanted[row]], lists.words)


def merged_rows(lists: WordColumn, size: int) -> WordColumn:
    """Return a row for every `size` rows, with the words of all of them, each once."""
    n = (len(lists.start) - 1) // size
    return distinct(_row_of_each(lists) // size, lists.terms, n, lists.words)


def _row_of_each(lists: WordColumn) -> Rows:
    return np.repeat(np.arange(len(lists.start) - 1), np.diff(lists.start))
