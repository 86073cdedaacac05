"""Inverted lists: which rows have a word, what share of theirs it is, and the share that a match takes.

Shares are float32, rounded so that a sum of them in any order is never below the true share: of a row with k words
each is larger by a factor of 1 + k·2⁻²³ and rounded up, and adding up to k numbers loses less than k·2⁻²⁴ of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.similarity import JACCARD, counts_weights, share_needed, text_needed, text_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.shared.scores import ScoredColumns

#: The columns of a ledger, by row: the share in common with the message at hand, 0 between messages, and the least
#: share with which a message on the spot matches, 0 where no word is needed.
HAS, NEEDS = 0, 1


class WordPostings(NamedTuple):
    """The rows with term t are `row[start[t]:start[t + 1]]`, ascending; `share` is what t is of all their words.

    A row is not in the list of a term that weighs nothing for it.
    """

    start: NDArray[np.int64]
    row: NDArray[np.int32]
    share: NDArray[np.float32]


def lists_of(scored: ScoredColumns, rows: NDArray[np.int64], n_terms: int) -> WordPostings:
    """Return the lists of the words of these rows, which ascend."""
    start = np.zeros(n_terms + 1, np.int64)
    _count_words(scored, rows, start)
    np.cumsum(start, out=start)
    listed, share = np.empty(int(start[-1]), np.int32), np.empty(int(start[-1]))
    _list_words(scored, rows, start[:-1].copy(), listed, share)
    return WordPostings(start, listed, rounded(share, np.inf))


def ledger_of(scored: ScoredColumns) -> NDArray[np.float32]:
    """Return an empty ledger."""
    needs = np.empty(len(scored.own))
    _fill_needs(scored, needs)
    ledger = np.zeros((len(needs), 2), np.float32)
    ledger[:, NEEDS] = rounded(needs, -np.inf)
    return ledger


def rounded(values: NDArray[np.float64], towards: float) -> NDArray[np.float32]:
    """Return values as float32, rounded up or down."""
    found = values.astype(np.float32)
    is_off = found < values if towards > 0 else found > values
    found[is_off] = np.nextafter(found[is_off], np.float32(towards))
    return found


@inlined
def amount_of(scored, row, term):
    """Return what a term amounts to for a row: its weight, or 1 where words are counted."""
    return scored.weight[term] if counts_weights(scored.similarity[row]) else 1.0


@kernel
def _count_words(scored, rows, start):
    for row in rows:
        for i in range(scored.term_start[row], scored.term_start[row + 1]):
            if amount_of(scored, row, scored.term[i]) > 0.0:
                start[scored.term[i] + 1] += 1


@kernel
def _list_words(scored, rows, at, listed, share):
    for row in rows:
        first, last = scored.term_start[row], scored.term_start[row + 1]
        for i in range(first, last):
            term = scored.term[i]
            amount = amount_of(scored, row, term)
            if amount > 0.0:
                listed[at[term]] = row
                # Above 0 even as float32: an entry in a ledger is told from none by that.
                share[at[term]] = max(amount / scored.own[row] * (1.0 + (last - first) * 2.0**-23), 1e-45)
                at[term] += 1


@kernel
def _fill_needs(scored, needs):
    for row in range(needs.size):
        text = text_needed(scored.text_weight[row], scored.threshold[row], 1.0)
        needs[row] = share_needed(scored.similarity[row], text) if text > 0.0 else 0.0


@inlined
def text_at_most(scored, row, share, asked, message):
    """Return a bound, all but exact, on the text score of a row that has this share of its words in common."""
    function, own = scored.similarity[row], scored.own[row]
    other = 0.0
    if function >= JACCARD:
        other = asked.totals[message, 1 if function == JACCARD else 0]
    return text_of(function, min(share, 1.0) * own, own, other)
