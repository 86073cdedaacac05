"""What words weigh: the vocabulary's idf, or the weights it was given, for the words of one table."""

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
        blob, start = self._words.arrays()
        last = len(self._words)
        length = np.diff(start[first : last + 1]).astype(np.int32)
        return self._of_ids(self.vocabulary.table.ids(blob, start[first:last], length, add=False))

    def of_column(self, strings: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Return the weights of a column of words."""
        return self._of_ids(self.vocabulary.table.ids_of_column(strings, add=False))

    def total(self, tokens: list[str]) -> tuple[float, float]:
        """Return how many distinct words there are and what they weigh, summed in the order of their strings."""
        words = sorted(set(tokens))
        total = 0.0
        for weight in self._of_ids(self.vocabulary.table.ids_of(words, add=False)).tolist():
            total += weight
        return float(len(words)), total

    def _of_ids(self, ids: np.ndarray) -> np.ndarray:
        weight: np.ndarray = self.vocabulary.idf_of(ids)
        if self._given is not None:
            known = np.flatnonzero(ids >= 0)
            given = self._given[ids[known]]
            is_given = ~np.isnan(given)
            weight[known[is_given]] = given[is_given]
        return weight


def message_totals(start: np.ndarray, words: np.ndarray, table: WordTable, weights: TermWeights) -> np.ndarray:
    """Return (distinct words, their weight) of each row of words encoded in `table`, every word of which is known.

    Weights are summed in the order of the words' strings: equal sets of words have equal sums to the last bit, in
    whatever order they were written and whichever table they were encoded in. -1 stands for no word.
    """
    import pyarrow.compute as pc

    strings = table.words()
    order = _arrow.array_of(pc.sort_indices(strings))
    rank = np.empty(len(table), np.int32)
    rank[order] = np.arange(len(table), dtype=np.int32)
    weight_by_rank = np.ascontiguousarray(weights.of_column(strings)[order])
    totals = np.empty((len(start) - 1, 2))
    _add_up(np.ascontiguousarray(start), rank[words] if len(table) else words, words >= 0, weight_by_rank, totals)
    return totals


@kernel
def _add_up(start, ranks, is_word, weight_by_rank, totals):
    for row in range(totals.shape[0]):
        count, total, last = 0, 0.0, -1
        for rank in np.sort(ranks[start[row] : start[row + 1]][is_word[start[row] : start[row + 1]]]):
            if rank != last:
                count += 1
                total += weight_by_rank[rank]
                last = rank
        totals[row, 0], totals[row, 1] = count, total
