"""Builds the token lists of `stamp` from the stored table, and adds later subscriptions to them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.indexes.papers.stamp.bounds import LEVELS
from nearcast.indexes.papers.stamp.lists import (
    ListSignature,
    chain_entries,
    count_levels,
    lists_of,
    merged_signature,
    no_late_entries,
    signature_of,
    sorted_draft,
    with_room,
)
from nearcast.indexes.papers.stamp.members import Members, in_order, members_of
from nearcast.indexes.papers.stamp.prefixes import EntryDraft, draft_entries, room_for_draft
from nearcast.indexes.papers.stamp.search_state import StampArrays
from nearcast.indexes.shared.packed_rtree import PackedRTree, add_points, build_rtree
from nearcast.indexes.shared.scores import scored_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.geo import Space

#: Members drafted at a time: what is sorted together stays small.
_PIECE = 200_000


class Filters(NamedTuple):
    """Which parts of the paper are used: regions (hi), region-aware prefixes (rp), spatio-textual prefixes (st)."""

    fan_out: int
    by_region: bool
    by_side: bool
    deeper: bool


def build(
    table: Subscriptions, rows: NDArray[np.int64], weight: NDArray[np.float64], filters: Filters, space: Space
) -> StampArrays:
    """Lay out these rows of a table; a sort of all entries, some microseconds a subscription."""
    scored = scored_of(table.take(rows), weight)
    tree = _regions(scored.point, filters)
    n_leaves = int(tree.level_start[1])
    members = members_of(in_order(scored, tree.row), rows[tree.row])
    leaf = np.repeat(np.arange(n_leaves, dtype=np.int32), tree.last[:n_leaves] - tree.first[:n_leaves])
    level_total = np.zeros((n_leaves, 2, LEVELS), np.int32)
    drafts: list[EntryDraft] = []
    inner = [ListSignature(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))]
    for first, last in _pieces(tree):
        draft = sorted_draft(_draft(members, tree, first, leaf[first:last], filters, space))
        n_in_leaves = int(np.searchsorted(draft.owner, n_leaves * LEVELS))
        drafts.append(draft.first(n_in_leaves))
        inner.append(signature_of(draft.take(np.arange(n_in_leaves, len(draft.owner))))[0])
    whole = EntryDraft(*map(np.concatenate, zip(*drafts, strict=True))) if drafts else room_for_draft(0)
    count_levels(whole, level_total)
    lists, entries = lists_of(whole, merged_signature(inner))
    return StampArrays(tree._replace(row=tree.row[:0]), lists, entries, no_late_entries(), members, level_total)


def extend(
    held: StampArrays,
    table: Subscriptions,
    rows: NDArray[np.int64],
    weight: NDArray[np.float64],
    filters: Filters,
    space: Space,
) -> StampArrays:
    """Insert further rows: each into the leaf that grows least, its entries into the chains of their lists."""
    first = held.members.n
    if not len(rows):
        return held
    members = members_of(scored_of(table.take(rows), weight), rows, held.members)
    leaf = np.empty(len(rows), np.int32)
    add_points(held.tree, np.ascontiguousarray(members.scored.point[first:-1]), leaf)
    draft = _draft(members, held.tree, first, leaf, filters, space)
    lists, late = with_room(held.lists, held.late, len(draft.owner))
    chain_entries(lists, late, held.level_total, draft)
    return held._replace(lists=lists, late=late, members=members)


def _regions(points: NDArray[np.float64], filters: Filters) -> PackedRTree:
    """Return the tree; without regions one leaf that is everywhere."""
    tree = build_rtree(points, filters.fan_out if filters.by_region else max(len(points), 2))
    if not filters.by_region:
        tree.box[:] = (-np.inf, -np.inf, np.inf, np.inf)
    return tree


def _draft(
    members: Members, tree: PackedRTree, first: int, leaf: NDArray[np.int32], filters: Filters, space: Space
) -> EntryDraft:
    return draft_entries(
        members, tree, first, leaf, is_earth=space.is_earth, by_region=filters.by_side, deeper=filters.deeper
    )


def _pieces(tree: PackedRTree) -> list[tuple[int, int]]:
    """Cut the members at borders of leaves into pieces of about `_PIECE`."""
    cuts, n_leaves = [0], int(tree.level_start[1])
    for last in tree.last[:n_leaves].tolist():
        if last - cuts[-1] >= _PIECE:
            cuts.append(last)
    n = int(tree.last[n_leaves - 1]) if n_leaves else 0
    if cuts[-1] < n:
        cuts.append(n)
    return list(itertools.pairwise(cuts))
