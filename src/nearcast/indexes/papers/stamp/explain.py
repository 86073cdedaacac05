"""Explains `stamp`: which bound pruned a subscription for a message, if one did."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.geo import place_distance
from nearcast.indexes.papers.stamp.bounds import LEVELS, Prefix, amount_of, prefix_of, reach_of
from nearcast.indexes.papers.stamp.lists import END, NO_LIST, find_list
from nearcast.indexes.papers.stamp.prefixes import DUMMY
from nearcast.indexes.shared.packed_rtree import NO_NODE, gap_to_outside, place_gap, place_touches
from nearcast.indexes.shared.predicates import message_parts
from nearcast.similarity import MARGIN, most_text, near_of, score_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.geo import Space
    from nearcast.indexes.papers.stamp.construction import Filters
    from nearcast.indexes.papers.stamp.search_state import StampArrays


class _Case(NamedTuple):
    """One subscription and one message."""

    held: StampArrays
    member: int
    has: set[int]
    place: NDArray[np.float64]
    n_places: int
    is_earth: bool
    near: float
    distance: float
    word: Callable[[int], str]

    def named(self, term: int) -> str:
        return "'*'" if term < 0 else repr(self.word(term))

    def has_token(self, term: int) -> bool:
        return term < 0 or term in self.has


def stamp_lines(
    held: StampArrays,
    member: int,
    messages: Messages,
    row: int,
    filters: Filters,
    space: Space,
    word: Callable[[int], str],
) -> list[str]:
    """Return the prefix of a member, and what became of it for one message."""
    place = np.empty((2, 4))
    n_places = int(message_parts(messages.box, row, place))
    scored = held.members.scored
    distance = place_distance(space.is_earth, *scored.point[member].tolist(), *messages.box[row].tolist())
    near = near_of(distance, scored.max_distance[member])
    case = _Case(
        held=held,
        member=member,
        has=set(messages.terms_of(row).tolist()),
        place=place,
        n_places=n_places,
        is_earth=space.is_earth,
        near=near,
        distance=distance,
        word=word,
    )
    prefix = prefix_of(scored, member)
    dropped = _by_region(case, filters) or _by_prefix(case, prefix)
    if dropped is None and filters.deeper:
        dropped = _by_words(case, prefix, filters)
    return [_prefix_line(case, prefix), dropped or "a candidate, verified in full"]


def _prefix_line(case: _Case, prefix: Prefix) -> str:
    listed = [
        f"{case.named(term)} from near {max(near, 0.0):.3g}"
        for term, near, level in zip(prefix.term.tolist(), prefix.near.tolist(), prefix.level.tolist(), strict=True)
        if level == 0
    ]
    return f"prefix: {', '.join(listed)}" if listed else "prefix: none, no message can ever score enough"


def _by_prefix(case: _Case, prefix: Prefix) -> str | None:
    """Return how the spatial-oriented prefix and its bounds drop the member, if they do."""
    common = [
        (term, near, reach_of(near, case.held.members.scored.max_distance[case.member]))
        for term, near, level in zip(prefix.term.tolist(), prefix.near.tolist(), prefix.level.tolist(), strict=True)
        if level == 0 and case.has_token(term)
    ]
    if not common:
        return "dropped by the prefix: the message has no word of it"
    term, near, reach = common[0]
    if case.distance > reach:
        return f"dropped by the bound of {case.named(term)}: near {near:.3g} is needed, it is {case.near:.3g}"
    return None


def _by_region(case: _Case, filters: Filters) -> str | None:
    """Return which region of the member is skipped for this message, the largest if one is."""
    skipped = None
    node = _leaf_of(case.held, case.member) if filters.by_region else NO_NODE
    while node != NO_NODE:
        if not place_touches(case.place, case.n_places, case.held.tree.box, node):
            gap = place_gap(case.is_earth, case.place, case.n_places, case.held.tree.box, node)
            tokens = [DUMMY, *(term + 1 for term in case.has if term >= 0)]
            numbers = [int(find_list(case.held.lists, node, 0, token)) for token in tokens]
            if not any(number != NO_LIST and float(case.held.lists.reach[number]) >= gap for number in numbers):
                x_min, y_min, x_max, y_max = case.held.tree.box[node]
                skipped = (
                    f"dropped with the region ({x_min:g}, {y_min:g}) to ({x_max:g}, {y_max:g}):"
                    f" at distance {gap:.6g} no word of the message reaches anybody there"
                )
        node = int(case.held.tree.parent[node])
    return skipped


def _by_words(case: _Case, prefix: Prefix, filters: Filters) -> str | None:
    """Return how the spatio-textual prefixes drop the member, if they do."""
    scored, tree, member = case.held.members.scored, case.held.tree, case.member
    leaf = _leaf_of(case.held, member)
    if filters.by_side and not place_touches(case.place, case.n_places, tree.box, leaf):
        x, y = scored.point[member].tolist()
        gap = gap_to_outside(case.is_earth, x, y, tree.box, leaf)
        prefix = prefix_of(scored, member, gap)
    weight, function, own = scored.weight, int(scored.similarity[member]), float(scored.own[member])
    levels = list(zip(prefix.term[:-1].tolist(), prefix.level[:-1].tolist(), strict=True))
    for k in range(max((level for _, level in levels), default=0) + 1):
        known = [term for term, level in levels if level <= k]
        common = [term for term in known if term in case.has]
        amount = sum(amount_of(weight, function, term) for term in common)
        most = most_text(function, min(amount / own, 1.0) if own > 0 else 0.0)
        if score_of(scored.text_weight[member], most, case.near) >= scored.threshold[member] - MARGIN:
            return None
        if len(common) <= k or len(known) == len(levels):
            names = ", ".join(map(case.named, common)) or "none"
            return f"dropped by spatio-textual prefix {k}, or verified where that costs less: {names} in common so far"
    return None


def _leaf_of(held: StampArrays, member: int) -> int:
    """Return the leaf a member is listed in."""
    n_leaves = int(held.tree.level_start[1])
    if member < held.tree.last[n_leaves - 1]:
        return int(np.searchsorted(held.tree.last[:n_leaves], member, side="right"))
    for number in np.flatnonzero(held.lists.head != END).tolist():
        at = int(held.lists.head[number])
        while at != END:
            if held.late.member[at] == member:
                return int(held.lists.owner[number]) // LEVELS
            at = int(held.late.next[at])
    return n_leaves - 1  # it is listed nowhere, having no prefix
