"""Verifies the candidates that a paper's structure names: pairs of a query and a live message."""

from __future__ import annotations

from nearcast._jit import hot_kernel
from nearcast.live.cells.search import try_message


@hot_kernel
def try_candidates(table, query, row, queries, before, after, dropped, is_earth, walk, found):
    """Find the candidates that are relevant at one of two places only, with whole regions; return how many."""
    n = 0
    for i in range(query.size):
        now = max(queries.now[query[i]], dropped)
        n = try_message(table, row[i], queries, before, after, query[i], now, is_earth, walk, n, found)
    return n
