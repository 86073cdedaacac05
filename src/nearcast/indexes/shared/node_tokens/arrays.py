"""The tokens of nodes as kernels read them, and what a node and a message share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The token of what has no word: every message has it.
NO_WORD = -1
#: Columns of `TokenArrays.list`: the last two are there where items are kept.
COUNT, FIRST, ROOM = 0, 1, 2
#: Fields of `TokenArrays.used`: how much of `token` and of `item` is taken, and how many items there are.
PAIRS, ITEMS, LIVE = 0, 1, 2
#: So many times as many tokens as the message has words, and a node is not gone through any more.
_WORTH_SEARCHING = 6


class TokenArrays(NamedTuple):
    """The tokens of node n are `token[first[n]:first[n] + length[n]]`, ascending, with room for `room[n]`.

    `list` says beside each how often it was added. Where items are kept, these are `item[FIRST:FIRST + COUNT]`, and
    `rect` has their rectangles, rounded outwards, if they have any.
    """

    first: NDArray[np.int64]
    length: NDArray[np.int32]
    room: NDArray[np.int32]
    token: NDArray[np.int32]
    list: NDArray[np.int32]
    item: NDArray[np.int32]
    rect: NDArray[np.float32]
    used: NDArray[np.int64]


class Triples(NamedTuple):
    """Tokens of nodes: `item[i]` is the item that `node[i]` has under `token[i]`; where only counts are kept, how many.

    `rect` has a row for each, or none.
    """

    node: NDArray[np.int32]
    token: NDArray[np.int32]
    item: NDArray[np.int32]
    rect: NDArray[np.float32]


NO_RECTS = np.empty((0, 4), np.float32)


@inlined
def find(tokens, node, token):
    """Return where in the pairs of a node a token stands, or would stand."""
    low, high = tokens.first[node], tokens.first[node] + tokens.length[node]
    while low < high:
        middle = (low + high) // 2
        if tokens.token[middle] < token:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def has_at(tokens, node, token, at):
    """Tell whether a node has a token where `find` says it would be."""
    return at < tokens.first[node] + tokens.length[node] and tokens.token[at] == token


@inlined
def shared_pairs(tokens, node, batch, n_words, n_most, shared):
    """Write the pairs of a node whose token a message has, up to so many, to `shared`; return how many."""
    first, last = tokens.first[node], tokens.first[node] + tokens.length[node]
    n = 0
    if first < last and tokens.token[first] == NO_WORD:
        shared[0], n = first, 1
        first += 1
    if last - first <= _WORTH_SEARCHING * n_words:
        while first < last and n < n_most:
            if batch.has[tokens.token[first]] == 1:
                shared[n] = first
                n += 1
            first += 1
        return n
    for w in range(n_words):
        if n == n_most:
            return n
        at = find(tokens, node, batch.word[w])
        if has_at(tokens, node, batch.word[w], at):
            shared[n] = at
            n += 1
    return n
