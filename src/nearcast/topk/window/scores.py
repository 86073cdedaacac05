"""The score of a window's message for a query: the one place where all indexes of a window compute it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nearcast._jit import inlined
from nearcast.columns import NO_TIME
from nearcast.geo import place_distance
from nearcast.similarity import near_of, score_of, tfidf_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Words share the bits of a mark, an int64; its sign is of no word but of messages that say one more than once.
MARK_BITS = 63
REPEATS = -(1 << 63)

#: Columns of a card after the four of the place; all are whole numbers but the length.
LENGTH, ROW, WORD_FIRST, N_WORDS = 4, 5, 6, 7
N_CARD = 8


class MessageCards(NamedTuple):
    """The messages of a window as kernels read them, by position.

    A card has the place of a message, its squared length, its row, and where its words begin and how many they are, so
    that all is in one line of the cache. Words are pairs in `said`, the word and how often, ascending; the first of
    message p is at `card[p, WORD_FIRST] - word_base`. `mark` has the bit of each of its words, and maybe `REPEATS`.
    """

    card: NDArray[np.float64]
    time: NDArray[np.int64]
    mark: NDArray[np.int64]
    said: NDArray[np.int32]
    word_base: int


@inlined
def row_of(held, position):
    """Return the row of the message at a position."""
    return int(held.card[position, ROW])


@inlined
def first_word(held, position):
    """Return where in `said` the words of a message begin."""
    return int(held.card[position, WORD_FIRST]) - held.word_base


@inlined
def n_words_of(held, position):
    """Return how many words a message has."""
    return int(held.card[position, N_WORDS])


@inlined
def mark_of(word):
    """Return the bit of a word."""
    return 1 << int(word % MARK_BITS)


@inlined
def is_alive(held, position, alive):
    """Tell whether the message at a position counts."""
    row = row_of(held, position)
    return alive.first <= row and row < alive.last and (alive.after == NO_TIME or held.time[position] > alive.after)


@inlined
def count_of(held, position, word):
    """Return how often the message at a position says a word."""
    low = first_word(held, position)
    end = low + n_words_of(held, position)
    high = end
    while low < high:
        middle = (low + high) >> 1
        if held.said[middle, 0] < word:
            low = middle + 1
        else:
            high = middle
    if low < end and held.said[low, 0] == word:
        return held.said[low, 1]
    return 0


@inlined
def common_with(queries, which, held, position):
    """Return the product of the tf-idf vectors of a query and a message, -1 without a common word."""
    common, shares = 0.0, False
    for i in range(queries.word_start[which], queries.word_start[which + 1]):
        word = queries.word[i]
        if word >= 0:
            count = count_of(held, position, word)
            if count > 0:
                shares = True
                common += queries.weight[i] * (count * queries.weight[i])
    return common if shares else -1.0


@inlined
def near_to(queries, which, held, position, is_earth):
    """Return the proximity of a message to a query."""
    distance = place_distance(
        is_earth,
        queries.point[which, 0],
        queries.point[which, 1],
        held.card[position, 0],
        held.card[position, 1],
        held.card[position, 2],
        held.card[position, 3],
    )
    return near_of(distance, queries.max_distance[which])


@inlined
def score_with(queries, which, held, position, near):
    """Return the score of a message at this proximity for a query, -1 without a common word."""
    common = common_with(queries, which, held, position)
    if common < 0.0:
        return -1.0
    text = tfidf_of(common, queries.own[which], held.card[position, LENGTH])
    return score_of(queries.text_weight[which], text, near)
