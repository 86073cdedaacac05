"""A word table of stored messages, apart from that of subscriptions: its words go with the messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import kernel
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NO_WORD = -1


class MessageWords:
    """Word ids of the messages of a window, or of those alive, and which of them the terms of the subscriptions are.

    A message's words must be known by name even if no subscription has them yet: the next one may. They are not added
    to the words of the subscriptions, which go with the subscriptions and not with the messages.
    """

    def __init__(self, known: WordTable):
        self.table = WordTable()
        self.known = known
        self._word_of_term = np.full(1024, _NO_WORD, np.int32)
        self._n_terms = self._n_words = 0

    def follow(self) -> None:
        """Note which words and terms are the same, after either table has grown."""
        if len(self.known) > len(self._word_of_term):
            more = np.full(max(len(self.known), 2 * len(self._word_of_term)), _NO_WORD, np.int32)
            more[: self._n_terms] = self._word_of_term[: self._n_terms]
            self._word_of_term = more
        n_words, n_terms = len(self.table), len(self.known)
        if n_words > self._n_words:
            terms = self.known.ids_of_table(self.table, self._n_words)
            new = np.flatnonzero(terms >= 0)
            self._word_of_term[terms[new]] = self._n_words + new
        if n_terms > self._n_terms:
            self._word_of_term[self._n_terms : n_terms] = self.table.ids_of_table(self.known, self._n_terms)
        self._n_words, self._n_terms = n_words, n_terms

    @property
    def by_term(self) -> NDArray[np.int32]:
        """Return the words that all terms are, -1 for those that no message says, once `follow` has been called."""
        return self._word_of_term

    def of_terms(self, terms: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the words that these terms are, -1 for those that no message says."""
        words: NDArray[np.int32] = self._word_of_term[terms]
        return words

    def with_terms_of(self, known: WordTable) -> MessageWords:
        """Return the same words, mapped to the terms of another table of the subscriptions' words."""
        words = MessageWords(known)
        words.table = self.table
        words.follow()
        return words

    def kept(self, is_used: NDArray[np.bool_]) -> tuple[MessageWords, NDArray[np.int32]]:
        """Return the words that are used, and the new id of each old one, -1 for those left out."""
        kept = np.flatnonzero(is_used)
        new_of_old = np.full(len(self.table), _NO_WORD, np.int32)
        blob, start = self.table.arrays()
        words = MessageWords(self.known)
        lengths = (start[kept + 1] - start[kept]).astype(np.int32)
        new_of_old[kept] = words.table.ids(blob, start[kept], lengths, add=True)
        words.follow()
        return words, new_of_old


def distinct_words(
    term_start: NDArray[np.int64], words: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Return (start, word, count): each word of each message once, ascending, and how often it is said; -1 is none."""
    start = np.zeros(len(term_start), np.int64)
    word, count = np.empty(len(words), np.int32), np.empty(len(words), np.int32)
    _count_distinct(np.ascontiguousarray(term_start), np.ascontiguousarray(words), start, word, count)
    return start, word[: start[-1]].copy(), count[: start[-1]].copy()


@kernel
def _count_distinct(term_start, words, start, word, count):
    n = 0
    for i in range(term_start.size - 1):
        said = np.sort(words[term_start[i] : term_start[i + 1]])
        for j in range(said.size):
            if said[j] < 0:
                continue
            if n > start[i] and word[n - 1] == said[j]:
                count[n - 1] += 1
            else:
                word[n], count[n] = said[j], 1
                n += 1
        start[i + 1] = n
