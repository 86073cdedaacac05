"""Sorts triples (node, token, item) by node and token, and sums those that are equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import kernel
from nearcast.indexes.shared.node_tokens.arrays import NO_RECTS, NO_WORD, Triples

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: From so many on, triples are sorted by counting.
_MANY = 1 << 12


def summed(counts: Triples) -> Triples:
    """Return one triple for each node and token, with the sum of the counts."""
    if not len(counts.node):
        return counts
    order, starts = grouped(counts)
    at = order[starts]
    return Triples(
        counts.node[at], counts.token[at], np.add.reduceat(counts.item[order], starts, dtype=np.int32), NO_RECTS
    )


def grouped(part: Triples) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the order of triples by node and token, and where in it each pair begins."""
    if len(part.node) < _MANY:
        order = np.lexsort((part.token, part.node)).astype(np.int32)
    else:
        by_token, order = np.empty(len(part.node), np.int32), np.empty(len(part.node), np.int32)
        shifted = part.token - np.int32(NO_WORD)
        _sort_by(shifted, np.arange(len(order), dtype=np.int32), np.zeros(int(shifted.max()) + 2, np.int64), by_token)
        shifted = part.node - part.node.min()
        _sort_by(shifted, by_token, np.zeros(int(shifted.max()) + 2, np.int64), order)
    node, token = part.node[order], part.token[order]
    return order, np.flatnonzero(np.append(True, (node[1:] != node[:-1]) | (token[1:] != token[:-1])))


@kernel
def _sort_by(keys, order, start, out):
    """Write an order to `out` sorted by small keys, equals as they were; `start` has room for two more."""
    for i in order:
        start[keys[i] + 1] += 1
    for k in range(1, start.size):
        start[k] += start[k - 1]
    for i in order:
        out[start[keys[i]]] = i
        start[keys[i]] += 1
