"""Makes the list entries of subscriptions' prefixes, and the signatures of the regions they lie in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.indexes.papers.stamp.bounds import (
    ENDLESS,
    LEVELS,
    NO_LEVEL,
    fill_words,
    level_of,
    near_for_share,
    reach_for_share,
    reach_of,
    room_for_words,
)
from nearcast.indexes.shared.packed_rtree import NO_NODE, gap_to_outside

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.papers.stamp.members import Members
    from nearcast.indexes.shared.packed_rtree import PackedRTree

#: Who an entry is for: messages inside the leaf, messages beyond it, or both.
HERE, BEYOND = 1, 2
#: The member of an entry that is only there for its region's signature.
NOBODY = -1
#: The token of the dummy word `*`, which every message has; the token of a term is one more than the term.
DUMMY = 0
#: What `rest` says at most: as many words, or more, stand behind this one.
MOST_REST = 255


class EntryDraft(NamedTuple):
    """Entries in the order they were written: `owner` is node · LEVELS + level; `rest` words stand behind the token."""

    owner: NDArray[np.int32]
    token: NDArray[np.int32]
    member: NDArray[np.int32]
    reach: NDArray[np.float32]
    rest: NDArray[np.uint8]
    side: NDArray[np.uint8]

    def first(self, n: int) -> EntryDraft:
        """Return the first n entries."""
        columns: list[Any] = [column[:n] for column in self]
        return EntryDraft(*columns)

    def take(self, order: NDArray[np.int64]) -> EntryDraft:
        """Return entries in another order."""
        columns: list[Any] = [column[order] for column in self]
        return EntryDraft(*columns)


def room_for_draft(n: int) -> EntryDraft:
    """Return room for n entries."""
    return EntryDraft(
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.float32),
        np.empty(n, np.uint8),
        np.empty(n, np.uint8),
    )


def draft_entries(
    members: Members,
    tree: PackedRTree,
    first: int,
    leaf: NDArray[np.int32],
    *,
    is_earth: bool,
    by_region: bool,
    deeper: bool,
) -> EntryDraft:
    """Return the entries of the members from `first` on, which lie in these leaves, and fill in their `depth`.

    `by_region` tells prefixes of messages beyond the leaf apart (Section IV-B), `deeper` adds the spatio-textual
    prefixes (Section V-A).
    """
    last = first + len(leaf)
    n_words = np.diff(members.scored.term_start[first : last + 1])
    n_regions = len(tree.level_start) - 1
    size = int((n_words + 1).sum()) * (n_regions + 1)
    draft = room_for_draft(size)
    words = room_for_words(int(n_words.max(initial=0)))
    return draft.first(_draft(members, tree, first, leaf, is_earth, by_region, deeper, words, draft))


@kernel
def _draft(members, tree, first, leaf, is_earth, by_region, deeper, words, draft):
    scored, at = members.scored, 0
    for i in range(leaf.size):
        member = first + i
        n = fill_words(scored, member, words)
        x, y = scored.point[member, 0], scored.point[member, 1]
        gap = gap_to_outside(is_earth, x, y, tree.box, leaf[i]) if by_region else 0.0
        members.depth[member, 0] = _depth(scored, member, words, n, 0.0)
        members.depth[member, 1] = _depth(scored, member, words, n, gap)
        at = _draft_member(scored, member, words, n, leaf[i], gap, deeper, draft, at)
        node = tree.parent[leaf[i]]
        while node != NO_NODE:
            gap = gap_to_outside(is_earth, x, y, tree.box, node) if by_region else 0.0
            at = _draft_signature(scored, member, words, n, node, gap, draft, at)
            node = tree.parent[node]
    return at


@inlined
def _depth(scored, member, words, n, gap):
    """Return the level of a member's last word: once it was searched, all common words are known."""
    if n == 0:
        return 0
    level, _ = level_of(scored, member, words, n - 1, gap)
    return ENDLESS if level == NO_LEVEL else level


@inlined
def _write(draft, at, owner, token, member, reach, rest, side):
    draft.owner[at], draft.token[at], draft.member[at] = owner, token, member
    draft.reach[at], draft.rest[at], draft.side[at] = reach, min(rest, MOST_REST), side
    return at + 1


@inlined
def _draft_member(scored, member, words, n, leaf, gap, deeper, draft, at):
    """Write the entries of a member in its leaf: one a word, two where it is on another level for those beyond."""
    near_without = near_for_share(scored, member, 0.0)
    alone = reach_of(near_without, scored.max_distance[member])
    for j in range(n):
        if alone >= 0.0 and near_for_share(scored, member, words.tail[j]) >= near_without:
            break  # this word and those behind it add nothing to what the dummy word reaches
        here, reach_here = level_of(scored, member, words, j, 0.0)
        beyond, reach_beyond = level_of(scored, member, words, j, gap)
        token, rest = words.term[j] + 1, n - 1 - j
        is_here = here == 0 or (deeper and here > 0)
        is_beyond = beyond == 0 or (deeper and beyond > 0)
        if is_here:
            side = HERE + BEYOND if is_beyond and here == beyond else HERE
            at = _write(draft, at, leaf * LEVELS + here, token, member, reach_here, rest, side)
        if is_beyond and here != beyond:
            at = _write(draft, at, leaf * LEVELS + beyond, token, member, reach_beyond, rest, BEYOND)
    if alone >= 0.0:
        side = HERE + BEYOND if alone >= gap else HERE
        at = _write(draft, at, leaf * LEVELS, DUMMY, member, alone, 0, side)
    return at


@inlined
def _draft_signature(scored, member, words, n, node, gap, draft, at):
    """Write what a member adds to the signature of an inner region: the reaches of its prefix there."""
    near_without = near_for_share(scored, member, 0.0)
    alone = reach_of(near_without, scored.max_distance[member])
    for j in range(n):
        reach = reach_for_share(scored, member, words.tail[j])
        if reach < gap or (alone >= 0.0 and near_for_share(scored, member, words.tail[j]) >= near_without):
            break
        at = _write(draft, at, node * LEVELS, words.term[j] + 1, NOBODY, reach, 0, BEYOND)
    if alone >= 0.0 and alone >= gap:
        at = _write(draft, at, node * LEVELS, DUMMY, NOBODY, alone, 0, BEYOND)
    return at
