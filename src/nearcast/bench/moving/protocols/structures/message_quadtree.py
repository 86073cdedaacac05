"""Quadtrees of messages with word lists in their leaves: which messages in this rectangle have these words?

A tree is immutable: messages in Morton order, nodes over ranges of them with the rectangle of their places, and in each
leaf an inverted list for each word. Arrivals become a tree of their own; trees of like size are merged, and so is one
of which most messages are over, so that a message is filed a few times in its life.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.columns import gathered
from nearcast.text.message_words import distinct_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.moving.protocols.scene import Floats, Rows
    from nearcast.columns import Messages

#: The most messages of a leaf, unless it is as deep as the bits of a coordinate in the keys allow.
LEAF_MESSAGES, BITS = 64, 16
_STACK = 4 * BITS + 4
#: How many pairs a search finds at first, before it gets more room.
_PAIRS = 1 << 14


class MessageTree(NamedTuple):
    """One tree; messages are numbered by position, in the order of the leaves.

    Node i has four children from `child[i]` on, or is leaf `~child[i]`. Leaf i has the lists from `list_start[i]` to
    `list_start[i + 1]`, whose words ascend; list j names the positions `posting[posting_start[j]:posting_start[j+1]]`.
    The words of a message are `word[word_start[p]:word_start[p + 1]]`, ascending, each once.
    """

    child: NDArray[np.int64]
    box: Floats
    list_start: Rows
    list_word: Rows
    posting_start: Rows
    posting: Rows
    message: Rows
    expires: Rows
    x: Floats
    y: Floats
    word_start: Rows
    word: NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        """The bytes of all columns."""
        return sum(column.nbytes for column in self)


class WordQueries(NamedTuple):
    """Conjunctions of words, the one to look up first: `word[word_start[i]:word_start[i + 1]]`."""

    word_start: Rows
    word: NDArray[np.int32]

    def take(self, rows: Rows) -> WordQueries:
        """Return these rows, in this order."""
        start, at = gathered(self.word_start, rows)
        return WordQueries(start, self.word[at])


def tree_of(messages: Messages, rows: Rows, n_words: int, most: int = LEAF_MESSAGES) -> MessageTree:
    """Return the tree of some messages, which are points; leaves have at most so many."""
    x, y = messages.box[rows, 0], messages.box[rows, 1]
    key = _morton(x, y)
    order = np.argsort(key, kind="stable")
    rows, key, x, y = rows[order], key[order], x[order], y[order]
    some = messages.take(rows)
    word_start, word, _ = distinct_words(some.term_start, some.terms)
    child, box, leaf_start = _nodes(key, x, y, most)
    leaf = np.repeat(np.arange(len(leaf_start) - 1), np.diff(leaf_start))
    position = np.repeat(np.arange(len(rows)), np.diff(word_start))
    listed = leaf[position] * n_words + word
    by_list = np.argsort(listed, kind="stable")
    lists, posting_start = np.unique(listed[by_list], return_index=True)
    return MessageTree(
        child=child,
        box=box,
        list_start=np.searchsorted(lists, np.arange(len(leaf_start)) * n_words),
        list_word=lists % n_words,
        posting_start=np.append(posting_start, len(listed)),
        posting=position[by_list],
        message=rows,
        expires=messages.expires[rows],
        x=x,
        y=y,
        word_start=word_start,
        word=word,
    )


def _morton(x: Floats, y: Floats) -> Rows:
    """Return the Morton keys of places in the rectangle around all of them."""
    key = np.zeros(len(x), np.int64)
    for shift, place in ((0, x), (1, y)):
        low, high = place.min(), place.max()
        share = (place - low) / (high - low) if high > low else np.zeros(len(place))
        cell = np.minimum((share * (1 << BITS)).astype(np.int64), (1 << BITS) - 1)
        for bit in range(BITS):
            key |= ((cell >> bit) & 1) << (2 * bit + shift)
    return key


def _nodes(key: Rows, x: Floats, y: Floats, most: int) -> tuple[Rows, Floats, Rows]:
    """Return the children and the rectangle of each node, and where the messages of each leaf begin."""
    room = 4 * BITS * (len(key) // most + 1) + 1  # of the nodes of a level, so many have more messages, and children
    first, last, child, level = (np.zeros(room, np.int64) for _ in range(4))
    box, leaf_start, stack = np.empty((room, 4)), np.zeros(room + 1, np.int64), np.zeros(_STACK, np.int64)
    n = _split(key, x, y, most, first, last, level, child, box)
    n_leaves = _number_leaves(child, first, last, stack, leaf_start)
    return child[:n].copy(), box[:n].copy(), leaf_start[: n_leaves + 1].copy()


@kernel
def _split(key, x, y, most, first, last, level, child, box):
    """Write the nodes, children behind their parents; return how many there are."""
    n, at = 1, 0
    last[0] = key.size
    while at < n:
        if last[at] - first[at] > most and level[at] < BITS:
            child[at] = n
            shift = 2 * (BITS - 1 - level[at])
            begin = first[at]
            for part in range(4):
                end = begin
                while end < last[at] and (key[end] >> shift) & 3 == part:
                    end += 1
                first[n], last[n], level[n] = begin, end, level[at] + 1
                n += 1
                begin = end
        else:
            child[at] = -1
        at += 1
    for node in range(n - 1, -1, -1):
        box[node, 0], box[node, 1], box[node, 2], box[node, 3] = np.inf, np.inf, -np.inf, -np.inf
        if child[node] < 0:
            for i in range(first[node], last[node]):
                _widen(box, node, x[i], y[i], x[i], y[i])
        else:
            for part in range(child[node], child[node] + 4):
                _widen(box, node, box[part, 0], box[part, 1], box[part, 2], box[part, 3])
    return n


@inlined
def _widen(box, node, x_min, y_min, x_max, y_max):
    box[node, 0], box[node, 1] = min(box[node, 0], x_min), min(box[node, 1], y_min)
    box[node, 2], box[node, 3] = max(box[node, 2], x_max), max(box[node, 3], y_max)


@kernel
def _number_leaves(child, first, last, stack, leaf_start):
    """Number the leaves in the order of their messages; return how many there are."""
    depth, n_leaves = 1, 0
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if child[node] < 0:
            child[node] = ~n_leaves
            leaf_start[n_leaves] = first[node]
            n_leaves += 1
            leaf_start[n_leaves] = last[node]
            continue
        for part in range(3, -1, -1):
            stack[depth] = child[node] + part
            depth += 1
    return n_leaves


class MessageForest:
    """All messages that are not over, in a few trees."""

    def __init__(self, messages: Messages, n_words: int, leaf_messages: int = LEAF_MESSAGES):
        self._messages, self._n_words, self._leaf_messages = messages, max(n_words, 1), leaf_messages
        self._trees: list[MessageTree] = []
        self._now = np.iinfo(np.int64).min

    def __len__(self) -> int:
        return sum(int((tree.expires > self._now).sum()) for tree in self._trees)

    @property
    def nbytes(self) -> int:
        """The bytes of all trees."""
        return sum(tree.nbytes for tree in self._trees)

    def append(self, rows: Rows) -> None:
        """File new messages; trees that are not twice as large as the next become one with it."""
        if not len(rows):
            return
        groups = [rows]
        while self._trees and len(self._trees[-1].message) < 2 * sum(map(len, groups)):
            groups.append(self._trees.pop().message)
        self._add(np.concatenate(groups))

    def _add(self, rows: Rows) -> None:
        rows = rows[self._messages.expires[rows] > self._now]
        if len(rows):
            self._trees.append(tree_of(self._messages, rows, self._n_words, self._leaf_messages))

    def drop(self, now: int) -> None:
        """Forget the messages that are over at this time."""
        self._now = now
        trees, self._trees = self._trees, []
        for tree in trees:
            if 2 * int((tree.expires > now).sum()) >= len(tree.message):
                self._trees.append(tree)
            else:
                self._add(tree.message)

    def search(self, queries: WordQueries, box: Floats) -> tuple[Rows, Rows]:
        """Return the pairs (query, message) such that the message has the words and lies in the rectangle.

        They come by query.
        """
        found = [_pairs_of(tree, queries, box, self._now) for tree in self._trees]
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        query, message = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(query, kind="stable")
        return query[order], message[order]


def _pairs_of(tree: MessageTree, queries: WordQueries, box: Floats, now: int) -> tuple[Rows, Rows]:
    pieces, first, room = [], 0, _PAIRS
    stack = np.zeros(_STACK, np.int64)
    while first < len(box):
        query, message = np.empty(room, np.int64), np.empty(room, np.int64)
        done, n = _search(tree, queries, box, now, first, stack, query, message)
        pieces.append((query[:n], message[:n]))
        room = room if done > first else 2 * room  # a query that found more than there is room for is asked again
        first = done
    if not pieces:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    query, message = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return query, message


@kernel
def _search(tree, queries, box, now, first, stack, out_query, out_message):
    """Write pairs of the queries from `first` on while there is room; return the next query and how many there are."""
    n = 0
    for query in range(first, box.shape[0]):
        began, depth = n, 1
        stack[0] = 0
        while depth > 0:
            depth -= 1
            node = stack[depth]
            if not _overlaps(tree.box, node, box, query):
                continue
            if tree.child[node] >= 0:
                for part in range(4):
                    stack[depth] = tree.child[node] + part
                    depth += 1
                continue
            place = _list_of(tree, ~tree.child[node], queries.word[queries.word_start[query]])
            if place < 0:
                continue
            for i in range(tree.posting_start[place], tree.posting_start[place + 1]):
                position = tree.posting[i]
                if not _is_wanted(tree, position, queries, query, box, now):
                    continue
                if n == out_query.size:
                    return query, began
                out_query[n], out_message[n] = query, tree.message[position]
                n += 1
    return box.shape[0], n


@inlined
def _overlaps(tree_box, node, box, query):
    return (
        tree_box[node, 0] <= box[query, 2]
        and box[query, 0] <= tree_box[node, 2]
        and tree_box[node, 1] <= box[query, 3]
        and box[query, 1] <= tree_box[node, 3]
    )


@inlined
def _list_of(tree, leaf, word):
    """Return the list of a word in a leaf, -1 where there is none."""
    return _place_of(tree.list_word, tree.list_start[leaf], tree.list_start[leaf + 1], word)


@inlined
def _place_of(words, low, high, word):
    """Return where a word stands in ascending ones from `low` to `high`, -1 if it is not there."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low if low < end and words[low] == word else -1


@inlined
def _is_wanted(tree, position, queries, query, box, now):
    """Tell whether a message is not over, lies in the rectangle, and has all the words."""
    x, y = tree.x[position], tree.y[position]
    if tree.expires[position] <= now or x < box[query, 0] or x > box[query, 2]:
        return False
    if y < box[query, 1] or y > box[query, 3]:
        return False
    for i in range(queries.word_start[query] + 1, queries.word_start[query + 1]):
        if _place_of(tree.word, tree.word_start[position], tree.word_start[position + 1], queries.word[i]) < 0:
            return False
    return True
