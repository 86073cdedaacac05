"""The order of keywords: a rank for every word, frequent words first (paper, section 5.1.1).

Ranks are given when the whole tree is built and stay until then: words that come later rank behind all others, in the
order in which they come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.papers.keyword_first import count_words
from nearcast.indexes.shared.kernel_message import sort_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.shared.atoms import Atoms


def ranks_by_frequency(atoms: Atoms, chosen: NDArray[np.int32], n_words: int) -> NDArray[np.int32]:
    """Return the rank of every word: those that most of the chosen atoms need come first, of equals the older."""
    count = np.zeros(n_words, np.int64)
    count_words(atoms, chosen, count)
    rank = np.empty(n_words, np.int32)
    rank[np.argsort(-count, kind="stable")] = np.arange(n_words, dtype=np.int32)
    return rank


def with_later_words(rank: NDArray[np.int32], n_words: int) -> NDArray[np.int32]:
    """Return ranks for so many words, or more in advance: a word to come ranks as it will be numbered."""
    if n_words <= len(rank):
        return rank
    return np.concatenate([rank, np.arange(len(rank), n_words + n_words // 4, dtype=np.int32)])


def ranked_words(atoms: Atoms, chosen: NDArray[np.int32], rank: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the ranks of the words of the chosen atoms, ascending for each atom, where `atoms.code` has the words."""
    ranks = np.empty(len(atoms.code), np.int32)
    _rank_words(atoms, chosen, rank, ranks)
    return ranks


@hot_kernel
def _rank_words(atoms, chosen, rank, ranks):
    for atom in chosen:
        first = atoms.code_start[atom]
        for i in range(atoms.n_words[atom]):
            insert_ascending(ranks, first, i, rank[atoms.code[first + i]])


@inlined
def insert_ascending(values, first, n, value):
    """Put a value in its place among the n ascending ones from `first` on."""
    at = first + n
    while at > first and values[at - 1] > value:
        values[at] = values[at - 1]
        at -= 1
    values[at] = value


@inlined
def rank_message(word, n_words, rank, ranks):
    """Write the ranks of a message's words, ascending."""
    sort_words(word, n_words, rank)
    for i in range(n_words):
        ranks[i] = rank[word[i]]
