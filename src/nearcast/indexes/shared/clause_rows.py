"""Subscriptions taken apart: a row for each clause in each rectangle of the region.

A boolean expression is a choice of clauses, and a region a choice of rectangles. Whoever stores one row for each pair
needs to know conjunctions and rectangles only, as the papers do; a subscription found by two of its rows is one answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.columns import Subscriptions, gathered
from nearcast.geo import POLYGON, Regions
from nearcast.indexes.shared.predicates import NO_SHAPE

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ClauseRows(NamedTuple):
    """Row r is clause `clause[r]` of subscription `owner[r]` in its rectangle `side[r]`; owner None: r itself.

    It needs the clause `code[code_start[r]:code_start[r + 1]]`, its words first and ascending, and the rectangle
    `box[r]`. Arrays that are the same as those of the subscriptions are not copied.
    """

    owner: NDArray[np.int64] | None
    clause: NDArray[np.uint16]
    side: NDArray[np.uint8]
    code_start: NDArray[np.int64]
    code: NDArray[np.int32]
    box: NDArray[np.float64]


def expanded(subscriptions: Subscriptions) -> ClauseRows:
    """Return the rows of subscriptions, in their order."""
    regions = subscriptions.regions
    n_clauses, n_parts = np.diff(subscriptions.clause_start), np.diff(regions.part_start)
    if (n_clauses == 1).all() and (n_parts == 1).all():
        # By far the most common case: a subscription is a row.
        n = len(subscriptions)
        clause, side = np.zeros(n, np.uint16), np.zeros(n, np.uint8)
        return ClauseRows(None, clause, side, subscriptions.code_start, subscriptions.code, regions.part)
    count = n_clauses * n_parts
    owner = np.repeat(np.arange(len(subscriptions)), count)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    clause, side = nth // n_parts[owner], nth % n_parts[owner]
    code_start, positions = gathered(subscriptions.code_start, subscriptions.clause_start[owner] + clause)
    return ClauseRows(
        owner,
        clause.astype(np.uint16),
        side.astype(np.uint8),
        code_start,
        np.ascontiguousarray(subscriptions.code[positions]),
        np.ascontiguousarray(regions.part[regions.part_start[owner] + side]),
    )


def shape_codes(regions: Regions) -> NDArray[np.int32]:
    """Return for each region -1 where rectangles are all of it, 2·c for row c of `circle`, 2·g + 1 for polygon g."""
    doubled = regions.shape * 2 + (regions.kind == POLYGON)
    return np.where(regions.shape < 0, NO_SHAPE, doubled).astype(np.int32)
