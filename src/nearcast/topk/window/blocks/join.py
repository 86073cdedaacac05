"""Joins many queries with the window: cuts them into slices, and each slice into groups for every word of its plans.

A slice is one thread's work: the queries whose first words are neighbours in the order of words, and that are
neighbours in place. For the n-th words of its queries it is grouped again. A call of a kernel searches some groups, so
that a join can be interrupted in between.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast.topk.window.blocks.group_search import (
    LANES,
    PlannedQueries,
    new_lanes,
    new_planned,
    plan_queries,
    search_groups,
    write_answers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nearcast.topk.window.answers import SliceAnswers
    from nearcast.topk.window.scratch import ScratchLender
    from nearcast.topk.window.segment_search import SearchRequest

#: Groups that one call of a kernel searches.
_GROUPS = 64


class WindowJoin(NamedTuple):
    """What the slices of a join read: the request, the lists of the window, and how many groups and words they have."""

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
        lanes = new_lanes(self.n_words, most, int(request.keep[which].max(initial=0)))
        with self.lender.lent(most, self.n_groups, 0) as scratch:
            plan_queries(request, self.lists, planned, scratch.plan)
            for nth in range(most):
                members, group = _groups(planned, nth)
                for first in range(0, len(group) - 1, _GROUPS):
                    last = min(first + _GROUPS, len(group) - 1)
                    frontier = scratch.frontier
                    search_groups(
                        request, self.lists, planned, nth, members, group, first, last, lanes, frontier, self.work
                    )
        room.n[: len(which)] = planned.n_kept
        write_answers(planned, room.row, room.score)
        return len(which)


def _groups(planned: PlannedQueries, nth: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the queries that have an n-th word, those of one word together, and where each group of them begins."""
    has = np.flatnonzero(planned.n_words > nth)
    word = planned.word[planned.start[has] + nth]
    order = np.argsort(word, kind="stable")
    members, word = has[order], word[order]
    begins = np.flatnonzero(np.append(True, word[1:] != word[:-1])) if len(word) else np.zeros(0, np.int64)
    return members, np.fromiter(_cut(begins.tolist(), len(word)), np.int64)


def _cut(begins: list[int], end: int) -> Iterator[int]:
    """Yield where groups begin that have no more queries than lanes, and the end."""
    for first, last in pairwise([*begins, end]):
        yield from range(first, last, LANES)
    yield end
