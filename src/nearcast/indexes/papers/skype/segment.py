"""Inverted lists by word and leaf cell, cut into groups, in flat arrays: the layout and how it is built at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.indexes.papers.skype.bounds import alpha_of, has_length, is_place_alone, member_key
from nearcast.indexes.papers.skype.cells import leaf_cells
from nearcast.indexes.papers.skype.groups import (
    ALPHA,
    INNER,
    KEY,
    MOST,
    N_FIELDS,
    NORM,
    PART,
    REACH,
    SUFFIX_ALPHA,
    SUM,
    WORDS_SUM,
    settle_group,
    sort_entries,
)
from nearcast.indexes.shared.packed_rtree import gap_to_outside
from nearcast.indexes.shared.word_order import comes_before
from nearcast.similarity import near_needed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.indexes.shared.scores import ScoredColumns

#: A list is cut into fewer groups where they would have fewer entries than this.
_LEAST_GROUP = 8


class SkypeSegment(NamedTuple):
    """Subscriptions by leaf cell, and one list of entries for each word that a cell has.

    Member i is the table's row `row[i]`, in the cell `cell[i]`. Its words are `word_start[i]:word_start[i + 1]`, the
    heaviest first and of equals the lowest term: `term`, `word` with the columns named in `groups`, and `entry_of`,
    where the entry of that word is.

    Cell c is the rectangle `box[c]` with the members `cell_start[c]:cell_start[c + 1]`; none of them reaches farther
    than `reach[c]`, and none is concerned by a message less near than `need[c]`; `changed[c]` counts thresholds that
    changed since that was worked out.

    Word t has the lists `term_start[t]:term_start[t + 1]`, list l is that of cell `list_cell[l]` and has the groups
    `list_start[l]:list_start[l + 1]`, group g the entries `group_start[g]:group_start[g + 1]`; `head[g]` is what holds
    from the first of them on, `loose[g]` counts thresholds that changed since it was sorted. Entry e is the word
    `word_of[e]` of `member[e]`; `group_of[e]` is its group and `field[e]` has the columns named in `groups`.

    `mark`, `text` and `last` are working memory of a search, by member; `number` is the mark of the last message.
    """

    row: NDArray[np.int64]
    cell: NDArray[np.int32]
    word_start: NDArray[np.int64]
    term: NDArray[np.int32]
    word: NDArray[np.float64]
    entry_of: NDArray[np.int32]
    box: NDArray[np.float64]
    cell_start: NDArray[np.int64]
    reach: NDArray[np.float64]
    need: NDArray[np.float64]
    changed: NDArray[np.int32]
    term_start: NDArray[np.int64]
    list_cell: NDArray[np.int32]
    list_start: NDArray[np.int64]
    group_start: NDArray[np.int64]
    head: NDArray[np.float64]
    loose: NDArray[np.int32]
    member: NDArray[np.int32]
    word_of: NDArray[np.int32]
    group_of: NDArray[np.int32]
    field: NDArray[np.float64]
    mark: NDArray[np.int32]
    text: NDArray[np.float64]
    last: NDArray[np.int32]
    number: NDArray[np.int64]


def build_segment(
    scored: ScoredColumns, rows: NDArray[np.int64], space: Space, *, leaf: int, groups: int, n_terms: int
) -> SkypeSegment:
    """Build a segment over these rows; with `groups` 0 lists are neither cut nor sorted."""
    cells = leaf_cells(np.ascontiguousarray(scored.point[rows]), space, leaf)
    row = rows[cells.order]
    n = len(row)
    cell = np.repeat(np.arange(len(cells.box), dtype=np.int32), np.diff(cells.start))
    word_start = np.append(0, np.cumsum(scored.term_start[row + 1] - scored.term_start[row]))
    term, word = np.empty(int(word_start[-1]), np.int32), np.empty((int(word_start[-1]), 4))
    _fill_words(scored, row, word_start, term, word)
    owner = np.repeat(np.arange(n, dtype=np.int32), np.diff(word_start))
    order = np.argsort(term, kind="stable").astype(np.int32)
    first = _list_starts(term[order], cell[owner[order]])
    term_start = np.searchsorted(term[order[first]], np.arange(n_terms + 1)).astype(np.int64)
    segment = SkypeSegment(
        row=row,
        cell=cell,
        word_start=word_start,
        term=term,
        word=word,
        entry_of=np.empty(len(term), np.int32),
        box=cells.box,
        cell_start=cells.start,
        reach=np.zeros(len(cells.box)),
        need=np.full(len(cells.box), np.inf),
        changed=np.zeros(len(cells.box), np.int32),
        term_start=term_start,
        list_cell=np.ascontiguousarray(cell[owner[order[first]]]),
        list_start=np.arange(len(first) + 1),
        group_start=np.append(first, len(term)),
        head=np.zeros((len(first), 3)),
        loose=np.zeros(len(first), np.int32),
        member=np.ascontiguousarray(owner[order]),
        word_of=order,
        group_of=np.zeros(len(term), np.int32),
        field=np.zeros((len(term), N_FIELDS)),
        mark=np.full(n, -1, np.int32),
        text=np.zeros(n),
        last=np.zeros(n, np.int32),
        number=np.zeros(1, np.int64),
    )
    _fill_entries(segment, scored, space.is_earth)
    return _cut_into_groups(segment, groups) if groups else segment


def _list_starts(term: NDArray[np.int32], cell: NDArray[np.int32]) -> NDArray[np.int64]:
    is_new = np.ones(len(term), bool)
    is_new[1:] = (term[1:] != term[:-1]) | (cell[1:] != cell[:-1])
    return np.flatnonzero(is_new)


@kernel
def _fill_words(scored, row, word_start, term, word):
    """Fill in the words of every member in their order, and what the unit vector has from each of them on."""
    for i in range(row.size):
        begin, end = word_start[i], word_start[i + 1]
        own = scored.own[row[i]]
        is_plain = has_length(own) and not is_place_alone(scored.text_weight[row[i]])
        length = math.sqrt(own) if is_plain else 1.0
        for k in range(end - begin):
            t, at = scored.term[scored.term_start[row[i]] + k], begin + k
            while at > begin and comes_before(scored.weight, t, term[at - 1]):
                term[at] = term[at - 1]
                at -= 1
            term[at] = t
        total = most = square = 0.0
        for at in range(end - 1, begin - 1, -1):
            part = scored.weight[term[at]] / length if is_plain else 0.0
            total, most, square = total + part, max(most, part), square + part * part
            word[at, PART], word[at, SUM], word[at, MOST], word[at, NORM] = part, total, most, math.sqrt(square)


@kernel
def _fill_entries(segment, scored, is_earth):
    """Fill in the fields of entries but for the suffixes, where entries are, and what cells need and reach."""
    for i in range(segment.row.size):
        row, c = segment.row[i], segment.cell[i]
        segment.reach[c] = max(segment.reach[c], scored.max_distance[row])
        segment.need[c] = min(segment.need[c], near_needed(scored.text_weight[row], scored.threshold[row], 1.0))
    for e in range(segment.member.size):
        i, w = segment.member[e], segment.word_of[e]
        row = segment.row[i]
        segment.entry_of[w] = e
        segment.field[e, KEY] = member_key(scored, row)
        segment.field[e, ALPHA] = alpha_of(scored.text_weight[row])
        segment.field[e, WORDS_SUM] = segment.word[w, SUM]
        segment.field[e, REACH] = scored.max_distance[row]
        x, y = scored.point[row, 0], scored.point[row, 1]
        segment.field[e, INNER] = gap_to_outside(is_earth, x, y, segment.box, segment.cell[i])
        # Where the list will be cut: by α*, and those in the place-alone form behind all others.
        alone = is_place_alone(scored.text_weight[row])
        segment.field[e, SUFFIX_ALPHA] = np.inf if alone else segment.field[e, ALPHA]
    for g in range(segment.loose.size):
        for e in range(segment.group_start[g], segment.group_start[g + 1]):
            segment.group_of[e] = g


# --- groups -----------------------------------------------------------------------------------------------------


def _cut_into_groups(segment: SkypeSegment, groups: int) -> SkypeSegment:
    """Cut every list by quantiles of α* and sort the groups (Sections 5.2.1 and 5.2.2)."""
    n_lists = len(segment.list_cell)
    sizes = np.zeros(n_lists, np.int64)
    _count_groups(segment, groups, sizes)
    list_start = np.append(0, np.cumsum(sizes))
    n_groups = int(list_start[-1])
    group_start = np.full(n_groups + 1, len(segment.member))
    _place_groups(segment, groups, list_start, group_start)
    head, loose = np.zeros((n_groups, 3)), np.zeros(n_groups, np.int32)
    cut = segment._replace(list_start=list_start, group_start=group_start, head=head, loose=loose)
    _settle_all(cut)
    return cut


@inlined
def _pieces(n, groups):
    """Return how many groups n entries are cut into."""
    return min(groups, max(n // _LEAST_GROUP, 1)) if n > 0 else 0


@inlined
def _n_mixed(segment, first, last):
    """Return how many entries of a list, in the order in which it is cut, are not in the place-alone form."""
    n = 0
    while first + n < last and segment.field[first + n, SUFFIX_ALPHA] < np.inf:
        n += 1
    return n


@kernel
def _count_groups(segment, groups, sizes):
    """Sort every list by α* and count the groups it will have."""
    for k in range(sizes.size):
        first, last = segment.group_start[k], segment.group_start[k + 1]
        sort_entries(segment, first, last, SUFFIX_ALPHA)
        n = _n_mixed(segment, first, last)
        sizes[k] = _pieces(n, groups) + (1 if n < last - first else 0)


@kernel
def _place_groups(segment, groups, list_start, group_start):
    """Write where each group begins; pieces of a list differ by one entry at most."""
    for k in range(list_start.size - 1):
        first, last = segment.group_start[k], segment.group_start[k + 1]
        n = _n_mixed(segment, first, last)
        pieces = _pieces(n, groups)
        for p in range(pieces):
            group_start[list_start[k] + p] = first + n * p // pieces
        if n < last - first:
            group_start[list_start[k] + pieces] = first + n


@kernel
def _settle_all(segment):
    for g in range(segment.loose.size):
        settle_group(segment, g)
        for e in range(segment.group_start[g], segment.group_start[g + 1]):
            segment.group_of[e] = g
