"""Messages as the kernels of the papers' indexes read them, and the marks of one message's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages


class KernelMessages(NamedTuple):
    """A batch of messages as kernels read it, with scratch arrays for one message.

    `has[term]` is 1 for the terms of the present message, 0 between messages. `word` lists these terms, each once.
    """

    term_start: NDArray[np.int64]
    terms: NDArray[np.int32]
    box: NDArray[np.float64]
    totals: NDArray[np.float64]
    has: NDArray[np.uint8]
    word: NDArray[np.int32]


def kernel_messages(messages: Messages, totals: NDArray[np.float64], n_terms: int) -> KernelMessages:
    """Return messages for kernels; subscriptions have the terms below `n_terms`."""
    longest = int(np.diff(messages.term_start).max(initial=0))
    has, word = np.zeros(n_terms, np.uint8), np.empty(longest, np.int32)
    return KernelMessages(messages.term_start, messages.terms, messages.box, totals, has, word)


@inlined
def begin_message(batch, message):
    """Mark the known words of a message and list each once in `batch.word`; return how many there are."""
    n = 0
    for i in range(batch.term_start[message], batch.term_start[message + 1]):
        term = batch.terms[i]
        if 0 <= term < batch.has.size and batch.has[term] == 0:
            batch.has[term] = 1
            batch.word[n] = term
            n += 1
    return n


@inlined
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


@inlined
def end_message(batch, n_words):
    """Clear the marks of a message."""
    for i in range(n_words):
        batch.has[batch.word[i]] = 0
