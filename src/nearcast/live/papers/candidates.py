"""Verifies the candidates that a paper's structure names: pairs of a query and a live message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.live.cells.found import FoundMessages
from nearcast.live.cells.search import try_message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.live.cells.queries import LiveQueries, QueryPlaces
    from nearcast.live.cells.walk import WalkScratch
    from nearcast.live.table import LiveTable


def verified(
    table: LiveTable,
    candidates: tuple[NDArray[np.int64], NDArray[np.int64]],
    queries: LiveQueries,
    before: QueryPlaces,
    after: QueryPlaces,
    dropped: int,
    is_earth: bool,
    walk: WalkScratch,
) -> FoundMessages:
    """Return the candidates that are relevant at one of two places only, each once however often it is named."""
    query, row = candidates
    found = FoundMessages.room_for(len(row))
    found = found.first(try_candidates(table, query, row, queries, before, after, dropped, is_earth, walk, found))
    _, once = np.unique(found.query * (len(table.expires) + 1) + found.row, return_index=True)
    return FoundMessages(found.query[once], found.row[once], found.where[once], found.score[once])


@hot_kernel
def try_candidates(table, query, row, queries, before, after, dropped, is_earth, walk, found):
    """Find the candidates that are relevant at one of two places only, with whole regions; return how many."""
    n = 0
    for i in range(query.size):
        now = max(queries.now[query[i]], dropped)
        n = try_message(table, row[i], queries, before, after, query[i], now, is_earth, walk, n, found)
    return n
