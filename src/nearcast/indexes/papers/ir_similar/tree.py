"""The IR-tree in flat arrays: nodes, their bounds, and for every word the nodes and positions that have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import kernel
from nearcast.indexes.papers.ir_similar.bounds import Bounds, bounds_of
from nearcast.indexes.shared.forest import Forest, build_forest, taken
from nearcast.indexes.shared.scores import ScoredColumns
from nearcast.indexes.shared.word_lists import NEEDS, WordPostings, ledger_of, lists_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TermNodes(NamedTuple):
    """The nodes with term t below are `node[start[t]:start[t + 1]]`, ascending, roots apart."""

    start: NDArray[np.int64]
    node: NDArray[np.int32]


class IrTree(NamedTuple):
    """Trees over positions; position p is row `row[p]` of the table, and `scored` holds its columns by position.

    The inverted file of a node is no array of its own: for a word it is the stretch of `term_nodes`, or in a leaf of
    its `lists`, that lies among the children of the node.

    `ledger` is by position. The positions of leaf i that need no word are
    `wordless[wordless_first[i]:wordless_last[i]]`.
    """

    forest: Forest
    bounds: Bounds
    term_nodes: TermNodes
    lists: WordPostings
    row: NDArray[np.int64]
    scored: ScoredColumns
    ledger: NDArray[np.float32]
    wordless: NDArray[np.int32]
    wordless_first: NDArray[np.int64]
    wordless_last: NDArray[np.int64]


def build_ir_tree(
    scored: ScoredColumns, rows: NDArray[np.int64], group: NDArray[np.int64], fan_out: int, n_terms: int
) -> IrTree:
    """Return a tree over each group of these rows."""
    forest, order = build_forest(scored.point[rows], group, fan_out)
    row = rows[order]
    held = taken(scored, row)
    ledger = ledger_of(held)
    wordless = np.flatnonzero(ledger[:, NEEDS] <= 0.0)
    lists = lists_of(held, np.arange(len(row)), n_terms)
    return IrTree(
        forest=forest,
        bounds=bounds_of(forest, held),
        term_nodes=_term_nodes(forest, lists),
        lists=lists,
        row=row,
        scored=held,
        ledger=ledger,
        wordless=wordless.astype(np.int32),
        wordless_first=np.searchsorted(wordless, forest.first),
        wordless_last=np.searchsorted(wordless, forest.last),
    )


def _term_nodes(forest: Forest, lists: WordPostings) -> TermNodes:
    """Return the nodes that have each word, but for roots."""
    n_nodes = len(forest.box)
    leaves = np.flatnonzero(forest.is_leaf)
    leaf_of = np.repeat(leaves, (forest.last - forest.first)[leaves]).astype(np.int32)
    seen = np.full(n_nodes, -1, np.int64)
    start = np.zeros(len(lists.start), np.int64)
    nothing = np.empty(0, np.int32)
    _walk_up(forest.parent, lists.start, lists.row, leaf_of, seen, start[1:], nothing)
    np.cumsum(start, out=start)
    node = np.empty(int(start[-1]), np.int32)
    seen[:] = -1
    _walk_up(forest.parent, lists.start, lists.row, leaf_of, seen, start[:-1].copy(), node)
    return TermNodes(start, node)


@kernel
def _walk_up(parent, list_start, listed, leaf_of, seen, at, nodes):
    """Count in `at` the nodes above the positions of each word, or if there is room write them from `at` on, sorted."""
    for term in range(list_start.size - 1):
        first = at[term]
        for i in range(list_start[term], list_start[term + 1]):
            node = leaf_of[listed[i]]
            while parent[node] >= 0 and seen[node] != term:
                seen[node] = term
                if nodes.size:
                    nodes[at[term]] = node
                at[term] += 1
                node = parent[node]
        if nodes.size:
            nodes[first : at[term]].sort()
