"""Messages as the kernels of the papers' indexes read them, one message at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages


class KernelMessages(NamedTuple):
    """Messages as kernels read them, with room for the words of one: `has` by term, `word` those it has, each once."""

    term_start: NDArray[np.int64]
    terms: NDArray[np.int32]
    box: NDArray[np.float64]
    totals: NDArray[np.float64]
    has: NDArray[np.uint8]
    word: NDArray[np.int32]


def asked_of(messages: Messages, totals: NDArray[np.float64], n_terms: int) -> KernelMessages:
    """Return messages with room for one of them, subscriptions having the terms below `n_terms`."""
    longest = int(np.diff(messages.term_start).max(initial=0))
    has, word = np.zeros(n_terms, np.uint8), np.empty(longest, np.int32)
    return KernelMessages(messages.term_start, messages.terms, messages.box, totals, has, word)


@step
def begin_message(asked, message):
    """Mark the known words of a message and list each once in `asked.word`; return how many there are."""
    n = 0
    for i in range(asked.term_start[message], asked.term_start[message + 1]):
        term = asked.terms[i]
        if 0 <= term < asked.has.size and asked.has[term] == 0:
            asked.has[term] = 1
            asked.word[n] = term
            n += 1
    return n


@step
def sort_words(word, n, key):
    """Sort the first n words by their keys, of equals by term: by Shell's method, for there may be a thousand."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            moved, at = word[i], i
            while at >= gap and (key[word[at - gap]], word[at - gap]) > (key[moved], moved):
                word[at] = word[at - gap]
                at -= gap
            word[at] = moved
        gap //= 3


@step
def end_message(asked, n_words):
    """Take back the marks of a message."""
    for i in range(n_words):
        asked.has[asked.word[i]] = 0
