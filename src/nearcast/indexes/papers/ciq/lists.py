"""Inverted lists by word and covering cell, in order of subscriptions, and the text that each asks for in each cell."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined, kernel
from nearcast.indexes.papers.ciq.tree import CiqTree, build_tree, count_covers, place_covers
from nearcast.indexes.papers.skype.bounds import has_length
from nearcast.indexes.shared.packed_rtree import point_gap
from nearcast.similarity import near_of, text_needed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.indexes.shared.scores import ScoredColumns


class CiqSegment(NamedTuple):
    """Subscriptions, the cells that cover the space for each, and inverted lists over them.

    Member i is the table's row `row[i]`, ascending. Its covering cells are `cover[cover_start[i]:cover_start[i + 1]]`:
    cover c is a node of the tree for `member[c]`, who is at most `best[c]` near to a message in that node, and whom it
    does not concern with a text below `least_text[c]`: the paper's MinT, times the length of the member's vector.
    Covers are numbered node by node, so that what a search reads lies together, and by member in each node.

    Word t has the lists `term_start[t]:term_start[t + 1]`, list k is that of node `list_node[k]`, ascending, with the
    covers `entry[list_start[k]:list_start[k + 1]]`, ascending.
    `mark` is by member, `number` the mark of the last message.
    """

    tree: CiqTree
    row: NDArray[np.int64]
    cover_start: NDArray[np.int64]
    cover: NDArray[np.int32]
    member: NDArray[np.int32]
    best: NDArray[np.float32]
    least_text: NDArray[np.float64]
    term_start: NDArray[np.int64]
    list_node: NDArray[np.int32]
    list_start: NDArray[np.int64]
    entry: NDArray[np.int32]
    mark: NDArray[np.int32]
    number: NDArray[np.int64]


def build_segment(
    scored: ScoredColumns, rows: NDArray[np.int64], space: Space, *, leaf: int, cells: int, n_terms: int
) -> CiqSegment:
    """Build the lists of these rows, each of them covered by at most `cells` cells."""
    point = np.ascontiguousarray(scored.point[rows])
    tree = build_tree(point, space, leaf)
    n_covers = np.empty(len(rows), np.int64)
    count_covers(tree, point, cells, n_covers)
    cover_start = np.append(0, np.cumsum(n_covers))
    node = np.empty(int(cover_start[-1]), np.int32)
    place_covers(tree, point, cover_start, node)
    by_node = np.argsort(node, kind="stable")
    node, cover = node[by_node], np.empty(len(node), np.int32)
    cover[by_node] = np.arange(len(node), dtype=np.int32)
    member = np.repeat(np.arange(len(rows), dtype=np.int32), n_covers)[by_node]
    n_entries = np.zeros(n_terms + 1, np.int64)
    _count_entries(scored, rows, cover_start, n_entries)
    entry_start = np.cumsum(n_entries)
    entry, term = np.empty(int(entry_start[-1]), np.int32), np.empty(int(entry_start[-1]), np.int32)
    _place_entries(scored, rows, member, entry_start[:-1].copy(), entry, term)
    first = _list_starts(term, node[entry])
    segment = CiqSegment(
        tree=tree,
        row=rows,
        cover_start=cover_start,
        cover=cover,
        member=member,
        best=np.empty(len(node), np.float32),
        least_text=np.empty(len(node)),
        term_start=np.searchsorted(term[first], np.arange(n_terms + 1)).astype(np.int64),
        list_node=np.ascontiguousarray(node[entry[first]]),
        list_start=np.append(first, len(entry)),
        entry=entry,
        mark=np.full(len(rows), -1, np.int32),
        number=np.zeros(1, np.int64),
    )
    best = np.empty(len(node))
    _fill_best(segment, scored, node, space.is_earth, best)
    segment.best[:] = np.nextafter(best.astype(np.float32), np.float32(2.0))
    set_least_text(segment, scored, np.arange(len(rows), dtype=np.int32))
    return segment


def _list_starts(term: NDArray[np.int32], node: NDArray[np.int32]) -> NDArray[np.int64]:
    is_new = np.ones(len(term), bool)
    is_new[1:] = (term[1:] != term[:-1]) | (node[1:] != node[:-1])
    return np.flatnonzero(is_new)


@kernel
def _count_entries(scored, rows, cover_start, n_entries):
    for i in range(rows.size):
        for k in range(scored.term_start[rows[i]], scored.term_start[rows[i] + 1]):
            n_entries[scored.term[k] + 1] += cover_start[i + 1] - cover_start[i]


@kernel
def _place_entries(scored, rows, member, at, entry, term):
    """Go through the covers, node by node, and put each on the lists of its words: they come to be in order."""
    for c in range(member.size):
        row = rows[member[c]]
        for w in range(scored.term_start[row], scored.term_start[row + 1]):
            t = scored.term[w]
            entry[at[t]], term[at[t]] = c, t
            at[t] += 1


@kernel
def _fill_best(segment, scored, node, is_earth, best):
    """Fill in how near a message in the node of each cover can be."""
    for c in range(node.size):
        row = segment.row[segment.member[c]]
        gap = point_gap(is_earth, scored.point[row, 0], scored.point[row, 1], segment.tree.box, node[c])
        best[c] = near_of(gap, scored.max_distance[row])


@inlined
def _least_text(scored, row, best):
    """Return MinT, the text needed at this nearness, times the member's length; 0 where text cannot be bounded."""
    own = scored.own[row]
    if own > 0.0 and not has_length(own):
        return 0.0
    needed = text_needed(scored.text_weight[row], scored.threshold[row], best)
    # Who has no length has no text: what needs any is out of reach.
    return needed * math.sqrt(own) if own > 0.0 or needed == 0.0 else np.inf


@hot_kernel
def set_least_text(segment, scored, members):
    """Work out MinT of these members in all their cells."""
    for k in range(members.size):
        i = members[k]
        for at in range(segment.cover_start[i], segment.cover_start[i + 1]):
            c = segment.cover[at]
            segment.least_text[c] = _least_text(scored, segment.row[i], float(segment.best[c]))


@hot_kernel
def forget_members(segment, members):
    """Put these members out of reach of every message."""
    for k in range(members.size):
        for at in range(segment.cover_start[members[k]], segment.cover_start[members[k] + 1]):
            segment.least_text[segment.cover[at]] = np.inf
