"""R-trees over scored subscriptions, numbered so that a search from the roots down meets nodes in ascending order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import inlined
from nearcast.columns import gathered
from nearcast.errors import UnknownIndex
from nearcast.indexes.shared.packed_rtree import PackedRTree, build_rtree
from nearcast.indexes.shared.scores import ScoredColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Forest(NamedTuple):
    """Trees one after the other; in a tree the root comes first, then level by level, the leaves last.

    Node i has the rectangle `box[i]`. A leaf owns the positions `first[i]` to `last[i]`, an inner node the nodes
    `first[i]` to `last[i]`, both ascending with i among the nodes of a level. `parent` of a root is -1.
    """

    box: NDArray[np.float64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    is_leaf: NDArray[np.uint8]
    parent: NDArray[np.int32]
    root: NDArray[np.int64]


def build_forest(
    point: NDArray[np.float64], group: NDArray[np.int64], fan_out: int
) -> tuple[Forest, NDArray[np.int64]]:
    """Return a tree for each group of points, and the point at every position."""
    trees, orders = [], []
    n_nodes = n_points = 0
    for number in np.unique(group) if len(group) else np.zeros(1, np.int64):
        members = np.flatnonzero(group == number)
        tree, row = _from_the_root(build_rtree(point[members], fan_out), n_nodes, n_points)
        trees.append(tree)
        orders.append(members[row])
        n_nodes, n_points = n_nodes + len(tree.box), n_points + len(members)
    columns = [np.ascontiguousarray(np.concatenate(column)) for column in zip(*trees, strict=True)]
    return Forest(*columns), np.concatenate(orders)


def _from_the_root(tree: PackedRTree, first_node: int, first_point: int) -> tuple[Forest, NDArray[np.int32]]:
    """Number the nodes of a tree from the root down, from these on; return them and the row at every position."""
    n_nodes, n_leaves = len(tree.box), int(tree.level_start[1])
    levels = [np.arange(n_nodes - 1, n_nodes)] if n_nodes else [np.zeros(0, np.int64)]
    while len(levels[-1]) and levels[-1][0] >= n_leaves:
        levels.append(_laid_out(tree.first[levels[-1]], tree.last[levels[-1]]))
    order = np.concatenate(levels)
    is_leaf = order < n_leaves
    length = (tree.last - tree.first)[order]
    # Whoever is taken level by level has the children in that same order, right after the root.
    last = np.where(is_leaf, first_point + np.cumsum(length * is_leaf), first_node + 1 + np.cumsum(length * ~is_leaf))
    parent = np.append(np.full(min(n_nodes, 1), -1), np.repeat(first_node + np.flatnonzero(~is_leaf), length[~is_leaf]))
    root = np.full(min(n_nodes, 1), first_node)
    row = tree.row[_laid_out(tree.first[order[is_leaf]], tree.last[order[is_leaf]])]
    return Forest(tree.box[order], last - length, last, is_leaf.astype(np.uint8), parent.astype(np.int32), root), row


def _laid_out(first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from first to last of every pair, one after the other."""
    length = last - first
    shift: NDArray[np.int64] = np.repeat(first - (np.cumsum(length) - length), length)
    return np.arange(len(shift)) + shift


def taken(scored: ScoredColumns, rows: NDArray[np.int64]) -> ScoredColumns:
    """Return these rows, in this order: neighbours in a tree become neighbours in memory."""
    start, positions = gathered(scored.term_start, rows)
    return scored._replace(
        term_start=start,
        term=np.ascontiguousarray(scored.term[positions]),
        point=np.ascontiguousarray(scored.point[rows]),
        text_weight=np.ascontiguousarray(scored.text_weight[rows]),
        threshold=np.ascontiguousarray(scored.threshold[rows]),
        max_distance=np.ascontiguousarray(scored.max_distance[rows]),
        similarity=np.ascontiguousarray(scored.similarity[rows]),
        own=np.ascontiguousarray(scored.own[rows]),
    )


def checked_fan_out(name: str, fan_out: int) -> dict[str, Any]:
    """Return the option by name; `UnknownIndex` where no tree can be built with it."""
    if fan_out < 2:
        raise UnknownIndex(f"option fan_out of the index {name!r} is at least 2, not {fan_out}")
    return {"fan_out": fan_out}


@inlined
def skip_to(values, at, end, least):
    """Return the first of the ascending `values[at:end]` that is not below `least`, in steps that double, or end."""
    size = 1
    while at + size < end and values[at + size] < least:
        at += size
        size *= 2
    last = min(at + size, end)
    while at < last:
        middle = (at + last) // 2
        if values[middle] < least:
            at = middle + 1
        else:
            last = middle
    return at
