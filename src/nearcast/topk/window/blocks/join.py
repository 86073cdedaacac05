"""Joins many queries with the window: cuts them into slices, and each slice into groups for every word of its plans.

A slice is one thread's work: the queries whose first words are neighbours in the order of words, and that are
neighbours in place. For the n-th words of its queries it is grouped again, by word and then by place: neighbours look
at the same blocks. Who has found so much through the words before that no message without these can be good enough is
left out. A call of a kernel searches some groups, so that a join can be interrupted in between.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast.geo.hilbert import hilbert_keys
from nearcast.similarity import MARGIN
from nearcast.topk.window.blocks.group_lanes import LANES, new_lanes
from nearcast.topk.window.blocks.group_search import search_groups
from nearcast.topk.window.blocks.planned_queries import PlannedQueries, new_planned, plan_queries, write_answers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.topk.window.answers import SliceAnswers
    from nearcast.topk.window.scratch import ScratchLender
    from nearcast.topk.window.segment_search import SearchRequest

#: Groups that one call of a kernel searches.
_GROUPS = 64


class WindowJoin(NamedTuple):
    """What the slices of a join read: the request, the lists of the window, and how many groups and words they have."""

    space: Space
    request: SearchRequest
    lists: Any
    work: NDArray[np.int64]
    lender: ScratchLender
    n_groups: int
    n_words: int

    def answer(self, which: NDArray[np.int64], room: SliceAnswers) -> int:
        """Answer a slice of queries, which stand in the order of neighbours, into room for all that they keep."""
        request = self.request
        words = request.queries.word_start
        n_words = words[which + 1] - words[which]
        most = int(n_words.max(initial=0))
        planned = new_planned(which, n_words, request.keep[which])
        most_kept = int(request.keep[which].max(initial=0))
        lanes = new_lanes(self.n_words, most, most_kept, len(self.lists.block_summary))
        with self.lender.lent(most, self.n_groups, 0) as scratch:
            plan_queries(request, self.lists, planned, scratch.plan)
            place = self._place_keys(which)
            for nth in range(most):
                members, group = _groups(planned, nth, self._unfinished_queries(planned, nth), place)
                for first in range(0, len(group) - 1, _GROUPS):
                    last = min(first + _GROUPS, len(group) - 1)
                    frontier = scratch.frontier
                    search_groups(
                        request, self.lists, planned, nth, members, group, first, last, lanes, frontier, self.work
                    )
        room.n[: len(which)] = planned.n_kept
        write_answers(planned, room.row, room.score)
        return len(which)

    def _place_keys(self, which: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where the queries are along a Hilbert curve."""
        point = self.request.queries.point[which]
        return hilbert_keys(self.space, np.hstack([point, point]))

    def _unfinished_queries(self, planned: PlannedQueries, nth: int) -> NDArray[np.int64]:
        """Return the queries that have an n-th word, and for which a message with no word before it may be enough."""
        has = np.flatnonzero(planned.n_words > nth)
        if nth == 0:
            return has
        request, first, which = self.request, planned.first[has], planned.which[has]
        is_full = planned.n_kept[has] == planned.first[has + 1] - first
        bar = np.maximum(request.floor[which], np.where(is_full, planned.kept.score[first], -1.0))
        text, weight = np.minimum(planned.most[planned.start[has] + nth - 1], 1.0), request.queries.text_weight[which]
        can_gain: NDArray[np.bool_] = weight * text + (1.0 - weight) >= bar - MARGIN  # the nearest of all is at 1
        return has[can_gain]


def _groups(
    planned: PlannedQueries, nth: int, members: NDArray[np.int64], place: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the queries with those of one n-th word together, neighbours in place, and where their groups begin."""
    word = planned.word[planned.start[members] + nth]
    order = np.lexsort((place[members], word))
    members, word = members[order], word[order]
    begins = np.flatnonzero(np.append(True, word[1:] != word[:-1])) if len(word) else np.zeros(0, np.int64)
    return members, np.fromiter(_cut(begins.tolist(), len(word)), np.int64)


def _cut(begins: list[int], end: int) -> Iterator[int]:
    """Yield where groups begin that have no more queries than lanes, and the end."""
    for first, last in pairwise([*begins, end]):
        yield from range(first, last, LANES)
    yield end
