"""The inverted files of cells: a small hash table for each, from a word to the list of its entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel, inlined, kernel
from nearcast.indexes.papers.quad.cells import FIRST, LENGTH, ROOM

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The first column of a slot of a table; the others are those of a list. -1: nothing is there.
KEY = 0
#: What the columns of a node mean if it has a table: where that begins, how many slots it has, and how many are taken.
_TABLE, _SIZE, _TAKEN = FIRST, LENGTH, ROOM


@inlined
def list_at(nodes, slots, node, key):
    """Return the row that has the list of a key in a cell, -1 if there is none.

    Without any slots cells have no tables: the node itself has its only list.
    """
    if slots.shape[0] == 0:
        return np.int64(node)
    size, first = np.int64(nodes[node, _SIZE]), np.int64(nodes[node, _TABLE])
    if size == 0:
        return np.int64(-1)
    at = ((np.int64(key) * 2654435769) >> 16) & (size - 1)
    while slots[first + at, KEY] != key:
        if slots[first + at, KEY] < 0:
            return np.int64(-1)
        at = (at + 1) & (size - 1)
    return first + at


class CellTables:
    """The tables of all cells in one array. One that is three quarters full moves to its end, with twice as many slots.

    The first slot of the array belongs to no table.
    """

    def __init__(self) -> None:
        self.slots = np.full((1, 4), -1, np.int32)
        self._used = 1

    def lay_out(self, nodes: NDArray[np.int32], node: NDArray[np.int32], key: NDArray[np.int32]) -> None:
        """Make the tables of all cells for entries in this order: ascending by node, equal keys of a node together."""
        is_first = np.ones(len(node), bool)
        is_first[1:] = (node[1:] != node[:-1]) | (key[1:] != key[:-1])
        begin = np.flatnonzero(is_first)
        n_lists = np.bincount(node[begin], minlength=len(nodes))
        # At least a quarter of the slots is free, and always one: where a search for what is not there ends.
        size = np.where(n_lists > 0, 2 ** np.ceil(np.log2(np.maximum(n_lists * 4 / 3, n_lists + 1))), 0).astype(
            np.int64
        )
        nodes[:, _TABLE] = 1 + np.cumsum(size) - size
        nodes[:, _SIZE], nodes[:, _TAKEN] = size, n_lists
        self._used = 1 + int(size.sum())
        self.slots = np.full((self._used, 4), -1, np.int32)
        _enter(nodes, self.slots, node, key, np.append(begin, len(node)))

    def lists(self, nodes: NDArray[np.int32], node: NDArray[np.int32], key: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the rows of these lists, made where there are none; they stay there until lists are made again."""
        done = 0
        while True:
            done, self._used = _make(nodes, self.slots, node, key, done, self._used)
            if done == len(node):
                break
            needed = self._used + 2 * int(nodes[node[done], _SIZE]) + 2
            more = np.full((needed + needed // 4, 4), -1, np.int32)
            more[: self._used] = self.slots[: self._used]
            self.slots = more
        found = np.empty(len(node), np.int32)
        _find(nodes, self.slots, node, key, found)
        return found

    def lists_of(self, nodes: NDArray[np.int32], node: int) -> NDArray[np.int32]:
        """Return the rows of all lists of a cell that are not empty."""
        first = int(nodes[node, _TABLE])
        rows = np.arange(first, first + int(nodes[node, _SIZE]), dtype=np.int32)
        is_one: NDArray[np.bool_] = (self.slots[rows, KEY] >= 0) & (self.slots[rows, LENGTH] > 0)
        return rows[is_one]

    def drop(self, nodes: NDArray[np.int32], node: int) -> None:
        """Leave a cell without lists."""
        nodes[node, _TABLE] = nodes[node, _SIZE] = nodes[node, _TAKEN] = 0


@kernel
def _enter(nodes, slots, node, key, begin):
    """Enter lists, number i being the entries from `begin[i]` on, into tables that have room."""
    for i in range(begin.size - 1):
        first = begin[i]
        k = _free_slot(nodes, slots, node[first], key[first])
        slots[k, KEY], slots[k, FIRST] = key[first], first
        slots[k, LENGTH] = slots[k, ROOM] = begin[i + 1] - first


@inlined
def _free_slot(nodes, slots, node, key):
    first, size = np.int64(nodes[node, _TABLE]), np.int64(nodes[node, _SIZE])
    at = ((np.int64(key) * 2654435769) >> 16) & (size - 1)
    while slots[first + at, KEY] >= 0:
        at = (at + 1) & (size - 1)
    return first + at


@hot_kernel
def _make(nodes, slots, node, key, done, used):
    """Make the lists from `done` on; return the first whose table lacks room, or their number, and the room used."""
    for i in range(done, node.size):
        if list_at(nodes, slots, node[i], key[i]) >= 0:
            continue
        first, size = np.int64(nodes[node[i], _TABLE]), np.int64(nodes[node[i], _SIZE])
        if 4 * (nodes[node[i], _TAKEN] + 1) > 3 * size or nodes[node[i], _TAKEN] + 1 >= size:
            larger = max(2 * size, 2)
            if used + larger > slots.shape[0]:
                return i, used
            nodes[node[i], _TABLE], nodes[node[i], _SIZE], nodes[node[i], _TAKEN] = used, larger, 0
            for k in range(first, first + size):
                if slots[k, KEY] >= 0:
                    to = _free_slot(nodes, slots, node[i], slots[k, KEY])
                    for c in range(4):
                        slots[to, c] = slots[k, c]
                    nodes[node[i], _TAKEN] += 1
            used += larger
        k = _free_slot(nodes, slots, node[i], key[i])
        slots[k, KEY], slots[k, FIRST], slots[k, LENGTH], slots[k, ROOM] = key[i], 0, 0, 0
        nodes[node[i], _TAKEN] += 1
    return node.size, used


@hot_kernel
def _find(nodes, slots, node, key, found):
    for i in range(node.size):
        found[i] = list_at(nodes, slots, node[i], key[i])
