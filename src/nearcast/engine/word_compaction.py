"""Word table compaction: an index, a word table and all columns by slot, rebuilt without the words that no
subscription uses.

A `WordTable` only grows, and an index knows words by their numbers. So the subscriptions are read back from the index,
their terms are renumbered, and a second index of the same kind is filled with them, beside a state that goes on as it
is. `engine.compact_words` decides when, and puts all of it in place by a redo record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.engine.recovery import CompactionRedo
from nearcast.query.codes import mark_terms, translated
from nearcast.text.weights import TermWeights
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.engine import State

#: Subscriptions read back at a time to count their words.
_BLOCK = 1 << 16


def used_words(state: State) -> NDArray[np.bool_]:
    """Tell for each word of the table whether a stored subscription uses it."""
    is_used = np.zeros(len(state.words), np.bool_)
    slots = state.ids.in_use()
    for first in range(0, len(slots), _BLOCK):
        stored = state.index.subscriptions(slots[first : first + _BLOCK])
        mark_terms(stored.code_start, stored.code, is_used)
    return is_used


def compacted(state: State, is_used: NDArray[np.bool_]) -> CompactionRedo:
    """Return the redo record that puts a word table of the used words and an index over it in place.

    The state itself is only read.

    Words keep their order, subscriptions their order of registration and their thresholds.
    """
    words, term_of = _kept_words(state.words, is_used)
    weights = TermWeights(words, state.vocabulary)
    slots, index, n_weighed = state.ids.in_use(), state.index.empty(), 0
    if state.n_weighed:
        n_weighed = len(words)
        index.set_weights(weights.from_term(0))
    if len(slots):
        index.insert(translated(state.index.subscriptions(slots), term_of))
    topk = state.topk
    return CompactionRedo(
        index,
        None if topk is None else topk.numbers_after(slots, words),
        {
            "words": words,
            "weights": weights,
            "n_weighed": n_weighed,
            "ids": state.ids.renumbered(slots),
            "texts": state.texts.renumbered(slots),
            "movers": state.movers.renumbered(slots),
            "expires": state.expires[slots[slots < len(state.expires)]],
            "by_slot": {name: column[slots] for name, column in state.by_slot.items()},
        },
    )


def _kept_words(table: WordTable, is_used: NDArray[np.bool_]) -> tuple[WordTable, NDArray[np.int32]]:
    """Return a table of the words in use, in the same order, and the new number of each old one."""
    kept = np.flatnonzero(is_used)
    blob, start = table.arrays()
    words, term_of = WordTable(), np.zeros(len(is_used), np.int32)
    term_of[kept] = words.ids(blob, start[kept], (start[kept + 1] - start[kept]).astype(np.int32), add=True)
    return words, term_of
