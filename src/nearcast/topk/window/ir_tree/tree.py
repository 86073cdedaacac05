"""Segments of `ir-tree`: a packed R-tree over the places, with an inverted file at every node."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.topk.window.bounds import N_COLUMNS
from nearcast.topk.window.column_queue import ColumnQueue
from nearcast.topk.window.scores import first_word, n_words_of
from nearcast.topk.window.summaries import summarise_groups, summarise_messages, unit_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.topk.window.scores import MessageCards

#: Messages in a leaf and children of a node, at most.
FAN_OUT = 32
#: Columns of the table of segments: where its messages, nodes and files begin, and its first row.
POSITIONS, NODES, FILES, ROWS = range(4)


class WindowTrees(NamedTuple):
    """All segments end to end; `segment[g]` says where those of segment g begin, `segment[g + 1]` where they end.

    Numbers count from where the segment begins. Node i has the children `first[i]` to `last[i]`: messages in a leaf,
    else nodes; the root is the last. Its file is `word[file_first[i]:file_last[i]]`, ascending, with the greatest `u`
    below.
    """

    segment: NDArray[np.int64]
    summary: NDArray[np.float64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    is_leaf: NDArray[np.uint8]
    file_first: NDArray[np.int32]
    file_last: NDArray[np.int32]
    word: NDArray[np.int32]
    u: NDArray[np.float64]


class WindowTreeColumns(NamedTuple):
    """The columns of `WindowTrees`, growing."""

    nodes: ColumnQueue
    files: ColumnQueue


def new_trees() -> WindowTreeColumns:
    """Return columns without a segment."""
    whole = np.zeros(0, np.int32)
    nodes = ColumnQueue(
        summary=np.zeros((0, N_COLUMNS)),
        first=whole,
        last=whole,
        is_leaf=np.zeros(0, np.uint8),
        file_first=whole,
        file_last=whole,
    )
    return WindowTreeColumns(nodes, ColumnQueue(word=whole, u=np.zeros(0)))


class _InvertedFiles(NamedTuple):
    """The words of each node of a level, node by node and ascending, with the greatest u."""

    node: NDArray[np.int64]
    word: NDArray[np.int64]
    u: NDArray[np.float64]


def add_tree(
    columns: WindowTreeColumns, held: MessageCards, first: int, end: int, weight: NDArray[np.float64], is_earth: bool
) -> None:
    """Make the tree of the messages at the positions `first` to `end`, which stand in the order of a curve."""
    n, below = end - first, 0
    files = _grouped(_message_words(held, first, end, weight))
    summary = np.empty((0, N_COLUMNS))
    n_nodes = n_files = 0
    while n_nodes == 0 or len(summary) > 1:
        start = np.append(np.arange(0, n, FAN_OUT), n)
        lower, summary = summary, np.empty((len(start) - 1, N_COLUMNS))
        if n_nodes == 0:
            summarise_messages(held, first, start, np.arange(n), np.zeros(n), is_earth, summary)
        else:
            summarise_groups(start, lower, summary)
        file = n_files + np.searchsorted(files.node, np.arange(len(start)))
        columns.nodes.add(
            summary=summary,
            first=below + start[:-1],
            last=below + start[1:],
            is_leaf=np.full(len(summary), n_nodes == 0, np.uint8),
            file_first=file[:-1],
            file_last=file[1:],
        )
        columns.files.add(word=files.word, u=files.u)
        below, n = n_nodes, len(summary)
        n_nodes, n_files = n_nodes + len(summary), n_files + len(files.word)
        files = _grouped(files)


def _grouped(files: _InvertedFiles) -> _InvertedFiles:
    """Return the files of the nodes above, each of `FAN_OUT` nodes."""
    node = files.node // FAN_OUT
    order = np.lexsort((files.word, node))
    node, word, u = node[order], files.word[order], files.u[order]
    if not len(node):
        return files
    begins = np.flatnonzero(np.append(True, (np.diff(node) != 0) | (np.diff(word) != 0)))
    return _InvertedFiles(node[begins], word[begins], np.maximum.reduceat(u, begins))


def _message_words(held: MessageCards, first: int, end: int, weight: NDArray[np.float64]) -> _InvertedFiles:
    total = first_word(held, end - 1) + n_words_of(held, end - 1) - first_word(held, first)
    files = _InvertedFiles(np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total))
    fill_words(held, first, end, weight, *files)
    is_word = files.word >= 0
    return _InvertedFiles(files.node[is_word], files.word[is_word], files.u[is_word])


@hot_kernel
def fill_words(held, first, end, weight, node, word, u):
    """Write the words of each message and their u; dropped words are -1."""
    to = 0
    for p in range(first, end):
        begin = first_word(held, p)
        for i in range(begin, begin + n_words_of(held, p)):
            node[to], word[to] = p - first, held.said[i, 0]
            u[to] = min(unit_of(held, p, i, weight), 1.0) if word[to] >= 0 else 0.0
            to += 1
