"""The tree of `rt++-similar` in flat arrays: nodes, and the words of subscriptions spread over the nodes above them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.indexes.shared.forest import Forest, build_forest, taken
from nearcast.indexes.shared.scores import ScoredColumns
from nearcast.indexes.shared.word_lists import amount_of, rounded
from nearcast.indexes.shared.word_order import comes_before
from nearcast.similarity import most_text, near_needed

if TYPE_CHECKING:
    from numpy.typing import NDArray


class NodeLists(NamedTuple):
    """The lists of all nodes, word by word; after the last word comes the dummy that every message has.

    Word t has the runs `start[t]` to `start[t + 1]`, by ascending node: run r is the list of node `node[r]`, the
    entries `first[r]` to `first[r + 1]`. An entry is a position and how near a message must be to match it if this is
    the first of its words that the message has: LSB(s|t), rounded down.
    """

    start: NDArray[np.int64]
    node: NDArray[np.int32]
    first: NDArray[np.int64]
    position: NDArray[np.int32]
    near: NDArray[np.float32]


class RtTree(NamedTuple):
    """A tree over positions; position p is row `row[p]` of the table, and `scored` holds its columns by position.

    By node: `near` is the least bound of an entry there or below, LSB(n); `max_distance` is the greatest below.
    """

    forest: Forest
    near: NDArray[np.float64]
    max_distance: NDArray[np.float64]
    lists: NodeLists
    row: NDArray[np.int64]
    scored: ScoredColumns


class _NodeEntries(NamedTuple):
    """Entries as they come, position by position."""

    word: NDArray[np.int32]
    node: NDArray[np.int32]
    position: NDArray[np.int32]
    near: NDArray[np.float64]


def build_rt_tree(scored: ScoredColumns, rows: NDArray[np.int64], fan_out: int, n_terms: int) -> RtTree:
    """Return the tree over these rows."""
    forest, order = build_forest(scored.point[rows], np.zeros(len(rows), np.int64), fan_out)
    row = rows[order]
    held = taken(scored, row)
    entries = _entries_of(forest, held, n_terms)
    near, max_distance = np.full(len(forest.box), np.inf), np.zeros(len(forest.box))
    _fill_nodes(forest, held, entries, near, max_distance)
    return RtTree(forest, near, max_distance, _lists_of(entries, n_terms), row, held)


def _entries_of(forest: Forest, scored: ScoredColumns, n_terms: int) -> _NodeEntries:
    n_most, longest = len(scored.term) + len(scored.own), int(np.diff(scored.term_start).max(initial=0))
    word, node, position = (np.empty(n_most, np.int32) for _ in range(3))
    entries = _NodeEntries(word, node, position, np.empty(n_most))
    path, ordered = np.empty(len(forest.box), np.int32), np.empty(longest, np.int32)
    n = _spread(forest, scored, n_terms, path, ordered, entries)
    return _NodeEntries(word[:n], node[:n], position[:n], entries.near[:n])


@kernel
def _spread(forest, scored, dummy, path, ordered, entries):
    """Write the entries of all positions; return how many there are."""
    n = 0
    for leaf in range(forest.box.shape[0]):
        if forest.is_leaf[leaf]:
            n_levels = _path_to(forest, leaf, path)
            for position in range(forest.first[leaf], forest.last[leaf]):
                n = _spread_words(scored, position, dummy, path, n_levels, ordered, entries, n)
    return n


@inlined
def _path_to(forest, leaf, path):
    """Write the nodes from the root's child down to a leaf; return how many. A root that is a leaf is its own."""
    n, node = 1, leaf
    while forest.parent[node] >= 0 and forest.parent[forest.parent[node]] >= 0:
        node = forest.parent[node]
        n += 1
    node = leaf
    for i in range(n - 1, -1, -1):
        path[i] = node
        node = forest.parent[node]
    return n


@inlined
def _spread_words(scored, position, dummy, path, n_levels, ordered, entries, n):
    """Write the entries of a position: its i-th word on the i-th level, the leaf taking all that are left."""
    weight, threshold = scored.text_weight[position], scored.threshold[position]
    n_words = _order_words(scored, position, ordered)
    rest = 0.0
    for i in range(n_words - 1, -1, -1):
        rest += amount_of(scored, position, ordered[i])
        share = min(rest / scored.own[position], 1.0) if scored.own[position] > 0.0 else 0.0
        text = most_text(scored.similarity[position], share)
        entries.word[n], entries.node[n] = ordered[i], path[min(i, n_levels - 1)]
        entries.position[n], entries.near[n] = position, near_needed(weight, threshold, text)
        n += 1
    near = near_needed(weight, threshold, 0.0)
    if near <= 1.0:
        entries.word[n], entries.node[n] = dummy, path[min(n_words, n_levels - 1)]
        entries.position[n], entries.near[n] = position, near
        n += 1
    return n


@inlined
def _order_words(scored, position, ordered):
    """Write the words of a position, the heaviest first and of equals the lowest term; return how many."""
    n = 0
    for i in range(scored.term_start[position], scored.term_start[position + 1]):
        term, at = scored.term[i], n
        while at > 0 and comes_before(scored.weight, term, ordered[at - 1]):
            ordered[at] = ordered[at - 1]
            at -= 1
        ordered[at] = term
        n += 1
    return n


@kernel
def _fill_nodes(forest, scored, entries, near, max_distance):
    """Fill in the bounds of nodes, from the leaves up."""
    for i in range(entries.node.size):
        near[entries.node[i]] = min(near[entries.node[i]], entries.near[i])
    for node in range(forest.box.shape[0] - 1, -1, -1):
        if forest.is_leaf[node]:
            for position in range(forest.first[node], forest.last[node]):
                max_distance[node] = max(max_distance[node], scored.max_distance[position])
        parent = forest.parent[node]
        if parent >= 0:
            near[parent] = min(near[parent], near[node])
            max_distance[parent] = max(max_distance[parent], max_distance[node])


def _lists_of(entries: _NodeEntries, n_terms: int) -> NodeLists:
    """Return entries sorted into lists."""
    key = entries.word.astype(np.int64) << 32 | entries.node
    order = np.argsort(key, kind="stable")
    key = key[order]
    is_first = np.append(True, key[1:] != key[:-1])[: len(key)]
    first = np.flatnonzero(is_first)
    return NodeLists(
        np.searchsorted(key[first] >> 32, np.arange(n_terms + 2)),
        (key[first] & 0xFFFFFFFF).astype(np.int32),
        np.append(first, len(key)),
        np.ascontiguousarray(entries.position[order]),
        rounded(entries.near[order], -np.inf),
    )
