"""Hash tables from terms to lists, one for each cell: the directory of a segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import inlined, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

VACANT = -1


def by_cell_and_term(cell: NDArray[np.int32], term: NDArray[np.int32], n_terms: int) -> NDArray[np.int32]:
    """Return the stable order by (cell, term): two counting sorts, the less important key first."""
    first, second = np.empty(len(cell), np.int32), np.empty(len(cell), np.int32)
    _counting_sort(term.astype(np.int32), np.arange(len(cell), dtype=np.int32), np.zeros(n_terms + 1, np.int64), first)
    _counting_sort(cell, first, np.zeros(int(cell.max(initial=0)) + 2, np.int64), second)
    return second


@kernel
def _counting_sort(key, source, start, out):
    """Write `source` to `out` in stable order of `key[source]`; `start` is zeroed room for one more than the keys."""
    for i in range(key.size):
        start[key[i] + 1] += 1
    for k in range(1, start.size):
        start[k] += start[k - 1]
    for i in range(source.size):
        k = key[source[i]]
        out[start[k]] = source[i]
        start[k] += 1


def make_tables(
    cell: NDArray[np.int32], term: NDArray[np.int32], n_cells: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return `table_start` and `table` of entries sorted by cell and term: (term, first, last) for every list."""
    new_list = np.ones(len(cell), bool)
    new_list[1:] = (cell[1:] != cell[:-1]) | (term[1:] != term[:-1])
    first = np.flatnonzero(new_list)
    last = np.append(first[1:], len(cell))
    lists = np.bincount(cell[first], minlength=n_cells)
    # A third of the places stays vacant, one at least: that is what ends a search for an absent term.
    table_start = np.zeros(n_cells + 1, np.int64)
    np.cumsum(lists + lists // 2 + 1, out=table_start[1:])
    table = np.full((table_start[-1], 3), VACANT, np.int32)
    _fill_tables(cell[first], term[first], first.astype(np.int32), last.astype(np.int32), table_start, table)
    return table_start, table


@kernel
def _fill_tables(cell, term, first, last, table_start, table):
    for i in range(cell.size):
        at = find_list(table_start, table, cell[i], term[i])
        table[at, 0], table[at, 1], table[at, 2] = term[i], first[i], last[i]


@inlined
def find_list(table_start, table, cell, term):
    """Return the place of a term in its cell's table, or the vacant place where it would stand."""
    begin = table_start[cell]
    size = table_start[cell + 1] - begin
    at = ((((np.int64(term) + 2) * 2654435769) & 0xFFFFFFFF) * size) >> 32
    while table[begin + at, 0] != term and table[begin + at, 0] != VACANT:
        at += 1
        if at == size:
            at = 0
    return begin + at
