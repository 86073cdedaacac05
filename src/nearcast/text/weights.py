"""What words weigh: the vocabulary's idf, or the weights it was given, for the words of one table."""

from collections import Counter

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast._jit import kernel
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.words import WordTable


class TermWeights:
    """The weights of the words of `words` under one vocabulary snapshot.

    A word weighs what the vocabulary's column `weight` says, else its idf; a word it does not know is in no document.
    """

    def __init__(self, words: WordTable, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self._words = words
        self._given = vocabulary.weight_by_term

    def from_term(self, first: int) -> np.ndarray:
        """Return the weights of the terms from `first` on."""
        return self.of_table(self._words, first)

    def of_table(self, words: WordTable, first: int) -> np.ndarray:
        """Return the weights of the words of any table from number `first` on."""
        return self._of_ids(self.vocabulary.table.ids_of_table(words, first))

    def of_column(self, strings: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Return the weights of a column of words."""
        return self._of_ids(self.vocabulary.table.ids_of_column(strings, add=False))

    def total(self, tokens: list[str]) -> tuple[float, float, float]:
        """Return the totals of one message as `message_totals` does."""
        count = Counter(tokens)
        words = sorted(count)
        total = length = 0.0
        for word, weight in zip(
            words, self._of_ids(self.vocabulary.table.ids_of(words, add=False)).tolist(), strict=True
        ):
            total += weight
            length += (count[word] * weight) * (count[word] * weight)
        return float(len(words)), total, length

    def _of_ids(self, ids: np.ndarray) -> np.ndarray:
        weight: np.ndarray = self.vocabulary.idf_of(ids)
        if self._given is not None:
            known = np.flatnonzero(ids >= 0)
            given = self._given[ids[known]]
            is_given = ~np.isnan(given)
            weight[known[is_given]] = given[is_given]
        return weight


def message_totals(start: np.ndarray, words: np.ndarray, table: WordTable, weights: TermWeights) -> np.ndarray:
    """Return (distinct words, their weight, the squared length of the tf-idf vector) of each row of words.

    The words are encoded in `table`, every one of them known; -1 stands for no word. Weights are summed in the order of
    the words' strings: equal sets of words have equal sums to the last bit, in whatever order they were written and
    whichever table they were encoded in.
    """
    import pyarrow.compute as pc

    strings = table.words()
    order = _arrow.array_of(pc.sort_indices(strings))
    rank = np.empty(len(table), np.int32)
    rank[order] = np.arange(len(table), dtype=np.int32)
    weight_by_rank = np.ascontiguousarray(weights.of_column(strings)[order])
    totals = np.empty((len(start) - 1, 3))
    _add_up(np.ascontiguousarray(start), rank[words] if len(table) else words, words >= 0, weight_by_rank, totals)
    return totals


@kernel
def _add_up(start, ranks, is_word, weight_by_rank, totals):
    for row in range(totals.shape[0]):
        count, total, length = 0, 0.0, 0.0
        said = np.sort(ranks[start[row] : start[row + 1]][is_word[start[row] : start[row + 1]]])
        first = 0
        while first < said.size:
            after = first + 1
            while after < said.size and said[after] == said[first]:
                after += 1
            weight = weight_by_rank[said[first]]
            count += 1
            total += weight
            length += ((after - first) * weight) * ((after - first) * weight)
            first = after
        totals[row, 0], totals[row, 1], totals[row, 2] = count, total, length


def squared_lengths(
    start: np.ndarray, words: np.ndarray, count: np.ndarray, table: WordTable, weight: np.ndarray
) -> np.ndarray:
    """Return the squared length of the tf-idf vector of each row, as `message_totals` does.

    A row has distinct words of `table`, each with its count; `weight` is by word.
    """
    import pyarrow.compute as pc

    rank = np.empty(len(table), np.int64)
    rank[_arrow.array_of(pc.sort_indices(table.words()))] = np.arange(len(table))
    order = np.lexsort((rank[words], np.repeat(np.arange(len(start) - 1), np.diff(start))))
    lengths = np.empty(len(start) - 1)
    _add_squares(np.ascontiguousarray(start), words[order], count[order], weight, lengths)
    return lengths


@kernel
def _add_squares(start, words, count, weight, lengths):
    for row in range(lengths.size):
        length = 0.0
        for i in range(start[row], start[row + 1]):
            length += (count[i] * weight[words[i]]) * (count[i] * weight[words[i]])
        lengths[row] = length
