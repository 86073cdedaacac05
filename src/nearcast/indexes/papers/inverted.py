"""The index `inverted`: one list of subscriptions for every word, and no structure over places. The plain baseline.

No paper's: it is what the lists of STAMP (ICDE 2015, section III-C) are without prefixes, bounds and regions. The lists
hold every word of every subscription that needs one. A message adds up, list by list, what share of its words each
subscription has in common with it; those with enough to match if they were on the spot are scored. Those that need no
word (threshold ≤ 1 - text_weight) are in no list and are looked at for every message, first whether they are in reach.

Time: the lengths of the lists of the message's words, and the number of subscriptions that need no word. Space: 8
bytes for each word of a subscription that needs one, 12 for each such subscription and 36 for each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, kernel
from nearcast.indexes import register
from nearcast.indexes.shared.kernel_message import KernelMessages, begin_message, end_message
from nearcast.indexes.shared.one_by_one import LOOKED_AT, Search
from nearcast.indexes.shared.rebuilt_index import RebuiltIndex, axis_gap, score_or_less
from nearcast.indexes.shared.word_lists import HAS, NEEDS, WordPostings, ledger_of, lists_of, text_at_most
from nearcast.similarity import near_needed

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _InvertedStructure(NamedTuple):
    """The lists and the ledger by row, `touched` to list the rows entered in it, and the rows that need no word.

    `spot[i]` is where `wordless[i]` is, and how far it reaches for a message with all its words.
    """

    lists: WordPostings
    ledger: NDArray[np.float32]
    touched: NDArray[np.int32]
    wordless: NDArray[np.int32]
    spot: NDArray[np.float64]


@register("inverted", kinds=("similar",), paper="none: inverted lists without place")
class InvertedIndex(RebuiltIndex):
    """Inverted lists over all words, for scored subscriptions.

    >>> from nearcast.geo import Space
    >>> len(InvertedIndex(Space.plane()))
    0
    """

    def _build(self, rows: NDArray[np.int64]) -> _InvertedStructure:
        scored = self._scored()
        ledger = ledger_of(scored)
        needs_word = ledger[rows, NEEDS] > 0.0
        wordless = np.ascontiguousarray(rows[~needs_word], np.int32)
        spot = np.empty((len(wordless), 3))
        _fill_spots(scored, wordless, spot)
        lists = lists_of(scored, rows[needs_word], self._n_weights)
        return _InvertedStructure(lists, ledger, np.empty(int(needs_word.sum()), np.int32), wordless, spot)

    def _searcher(self, built: _InvertedStructure, batch: KernelMessages) -> Search:
        scored, slot_of, is_earth = self._scored(), self._slot_of, self.space.is_earth
        return lambda *call: int(_search_lists(built, scored, slot_of, batch, is_earth, *call))


@kernel
def _fill_spots(scored, rows, spot):
    """Fill in where rows are, and the farthest distance at which all words in common suffice."""
    for i in range(rows.size):
        row = rows[i]
        text = 1.0 if scored.own[row] > 0.0 else 0.0
        near = near_needed(scored.text_weight[row], scored.threshold[row], text)
        spot[i, 0], spot[i, 1] = scored.point[row, 0], scored.point[row, 1]
        spot[i, 2] = scored.max_distance[row] * (1.0 - near) if near > 0.0 else np.inf


@hot_kernel
def _search_lists(built, scored, slot_of, batch, is_earth, message, slots, scores, tally):
    """Write the rows that want a message; return how many there are."""
    lists, ledger, touched = built.lists, built.ledger, built.touched
    n_words = begin_message(batch, message)
    n_touched = n_found = 0
    for j in range(n_words):
        term = batch.word[j]
        if term + 1 < lists.start.size:
            tally[LOOKED_AT] += lists.start[term + 1] - lists.start[term]
            for i in range(lists.start[term], lists.start[term + 1]):
                row = lists.row[i]
                if ledger[row, HAS] == 0.0:
                    touched[n_touched] = row
                    n_touched += 1
                ledger[row, HAS] += lists.share[i]
    for i in range(n_touched):
        row = touched[i]
        share = ledger[row, HAS]
        ledger[row, HAS] = 0.0
        if share >= ledger[row, NEEDS]:
            text = text_at_most(scored, row, share, batch, message)
            score = score_or_less(scored, row, text, batch, is_earth, message, tally)
            if score >= 0.0 and slot_of[row] >= 0:
                slots[n_found], scores[n_found] = slot_of[row], score
                n_found += 1
    tally[LOOKED_AT] += built.wordless.size
    for i in range(built.wordless.size):
        if axis_gap(built.spot[i, 0], built.spot[i, 1], is_earth, batch.box, message) > built.spot[i, 2]:
            continue
        row = built.wordless[i]
        score = score_or_less(scored, row, 1.0, batch, is_earth, message, tally)
        if score >= 0.0 and slot_of[row] >= 0:
            slots[n_found], scores[n_found] = slot_of[row], score
            n_found += 1
    end_message(batch, n_words)
    return n_found
