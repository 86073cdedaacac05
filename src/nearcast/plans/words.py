"""Words cut into sets of about the same cost (Algorithm 4 of the Skype paper), who owns a word, and its rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.text.words import WordTable

#: Of the 32-bit FNV hash, which is the same in every process.
_FNV_START, _FNV_PRIME, _FNV_MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF
#: Words that no rank was learned for rank from here on, by a hash below the second number.
FIRST_UNRANKED, _HASHES = 1 << 40, 1 << 20


class Postings(NamedTuple):
    """Lists of distinct words: row i has `word[start[i]:start[i + 1]]`, ascending."""

    start: NDArray[np.int64]
    word: NDArray[np.int32]

    @classmethod
    def of(cls, row: NDArray[np.int64], word: NDArray[np.int32], rows: int) -> Postings:
        """Return the lists of these (row, word) pairs, in any order, repeated or not; negative words are left out."""
        known = word >= 0
        packed = np.unique((row[known].astype(np.int64) << 32) | word[known])
        start = np.zeros(rows + 1, np.int64)
        np.cumsum(np.bincount(packed >> 32, minlength=rows), out=start[1:])
        return cls(start, (packed & 0xFFFFFFFF).astype(np.int32))

    @classmethod
    def of_messages(cls, messages: Messages) -> Postings:
        """Return the known words of messages."""
        row = np.repeat(np.arange(len(messages)), np.diff(messages.term_start))
        return cls.of(row, messages.terms, len(messages))

    def frequency(self, words: int) -> NDArray[np.int64]:
        """Return how many rows have each word."""
        return np.bincount(self.word, minlength=words)

    def renamed(self, name: NDArray[np.int32]) -> Postings:
        """Return the lists with word w called `name[w]`."""
        return Postings(self.start, name[self.word])


def cut_words(wanted: Postings, said: Postings, frequency: NDArray[np.int64], sets: int) -> NDArray[np.int32]:
    """Return the set of each word: sets of neighbours in the order of frequency, of about the same cost (Algorithm 4).

    The cost of a set is the subscriptions with a word in it times the messages with one (Eq. 16). Words are ordered by
    falling `frequency`, then by how many subscriptions have them.
    """
    words = len(frequency)
    order = np.lexsort((np.arange(words), -wanted.frequency(words), -frequency))
    rank = np.empty(words, np.int32)
    rank[order] = np.arange(words, dtype=np.int32)
    cuts = cut_ranks(wanted.renamed(rank), said.renamed(rank), words, sets)
    return (np.searchsorted(cuts, rank, side="right")).astype(np.int32)


def cut_ranks(wanted: Postings, said: Postings, words: int, sets: int) -> NDArray[np.int64]:
    """Return where each set but the first begins, for words that are numbered in order."""
    cuts: list[int] = []

    def cut(first: int, last: int, k: int) -> None:
        if k == 1:
            return
        one = (k + 1) // 2
        middle = _best_split(wanted, said, first, last, one, k - one)
        cut(first, middle, one)
        cuts.append(middle)
        cut(middle, last, k - one)

    cut(0, words, sets)
    return np.array(cuts, np.int64)


def _best_split(wanted: Postings, said: Postings, first: int, last: int, one: int, other: int) -> int:
    """Return the word with which the second of two sets, for `one` and `other` partitions, begins."""
    if last - first < 2:
        return last
    before, after = _counts(wanted, first, last)
    said_before, said_after = _counts(said, first, last)
    uneven = np.abs(before * said_before / one - after * said_after / other)
    nearest = np.abs(before / one - after / other)
    words = np.arange(1, last - first)
    fewest = np.abs(words / one - (last - first - words) / other)
    return first + 1 + int(np.lexsort((fewest, nearest, uneven))[0])


def _counts(rows: Postings, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each cut behind a word of the range how many rows have a word of the range before it, and after.

    Ones where there are no words at all, so that the other side decides.
    """
    if not len(rows.word):
        return (np.ones(last - first - 1, np.int64),) * 2
    lowest, highest = np.zeros(last - first, np.int64), np.zeros(last - first, np.int64)
    _count_ends(rows.start, rows.word, first, last, lowest, highest)
    return np.cumsum(lowest)[:-1], np.cumsum(highest[::-1])[::-1][1:]


@kernel
def _count_ends(start, word, first, last, lowest, highest):
    """Count the lowest and the highest word of each row within the range."""
    for row in range(start.size - 1):
        low, high = last, first - 1
        for i in range(start[row], start[row + 1]):
            if first <= word[i] and word[i] < last:
                low, high = min(low, word[i]), max(high, word[i])
        if low < last:
            lowest[low - first] += 1
            highest[high - first] += 1


class Owners:
    """The owner of every word of a table: as learned, or for words that came later by a hash of their text."""

    def __init__(self, words: WordTable, learned: NDArray[np.int32], owners: int):
        self._words, self._owners = words, owners
        self.learned = np.ascontiguousarray(learned, np.int32)
        self._all = self.learned

    def by_word(self) -> NDArray[np.int32]:
        """Return the owner of every word there is now."""
        if len(self._all) < len(self._words):
            blob, start = self._words.arrays()
            new = np.empty(len(self._words) - len(self._all), np.int32)
            _hash_owners(blob, start, len(self._all), self._owners, new)
            self._all = np.concatenate([self._all, new])
        return self._all


class WordRanks:
    """The rank of every word of a table: as learned, where that is not negative, else by a hash of its text."""

    def __init__(self, words: WordTable, learned: NDArray[np.int64]):
        self._words = words
        self.learned = np.ascontiguousarray(learned, np.int64)
        self._all = np.empty(0, np.int64)

    def by_word(self) -> NDArray[np.int64]:
        """Return the rank of every word there is now."""
        known = len(self._all)
        if known < len(self._words):
            blob, start = self._words.arrays()
            new = np.empty(len(self._words) - known, np.int32)
            _hash_owners(blob, start, known, _HASHES, new)
            self._all = np.concatenate([self._all, FIRST_UNRANKED + new.astype(np.int64)])
            ranked = np.flatnonzero(self.learned >= 0)
            self._all[ranked] = self.learned[ranked]
        return self._all


@kernel
def _hash_owners(blob, start, first, owners, out):
    for i in range(out.size):
        value = _FNV_START
        for at in range(start[first + i], start[first + i + 1]):
            value = ((value ^ np.int64(blob[at])) * _FNV_PRIME) & _FNV_MASK
        # The low bits of this hash alone are poor.
        out[i] = (value ^ (value >> 15)) % owners
