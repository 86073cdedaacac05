"""Searches the window to refill buffers that are short: each policy says how much to look for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.topk.buffers.cost import plan_lengths
from nearcast.topk.buffers.fill import NO_BOUND
from nearcast.topk.buffers.holders import CSKYBAND, KMAX, SKYBAND
from nearcast.topk.window.registry import LiveRows, MessageIndex, WindowAnswers, WindowQueries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.shared.scores import ScoredColumns
    from nearcast.indexes.topk_options import TopKOptions
    from nearcast.text.message_words import MessageWords


#: Who moves is given k messages and this share of k more.
_SPARE = 4


class FoundRows(NamedTuple):
    """What a search found for holders: the fields of `buffers.fill.BufferFill`, the holders apart."""

    start: NDArray[np.int64]
    row: NDArray[np.int64]
    score: NDArray[np.float64]
    is_whole: NDArray[np.uint8]
    theta: NDArray[np.float64]
    bound_row: NDArray[np.int64]
    limit: NDArray[np.int32]
    target: NDArray[np.int32]


class KnownRows(NamedTuple):
    """Messages that holders had at another place, and may want here: those of holder i from `start[i]` on."""

    start: NDArray[np.int64]
    row: NDArray[np.int64]


class SearchResult(NamedTuple):
    """What was found, and how many postings it took for each holder."""

    filling: FoundRows
    work: NDArray[np.int64]


def window_queries(scored: ScoredColumns, words: MessageWords) -> WindowQueries:
    """Return scored subscriptions as queries to the index of messages."""
    return WindowQueries(
        scored.term_start,
        words.of_terms(scored.term),
        scored.weight[scored.term],
        scored.point,
        scored.text_weight,
        scored.max_distance,
        scored.own,
    )


class BufferSearcher:
    """Searches the window for as many messages as the buffer policy of some options wants."""

    def __init__(self, options: TopKOptions):
        self._options = options
        #: Which share of the k-th score the bound of a buffer that is too long becomes; 0: it is cut to its target.
        self.ratio = options.ratio if options.policy == SKYBAND else 0.0

    def search(
        self,
        messages: MessageIndex,
        queries: WindowQueries,
        k: NDArray[np.int32],
        work: NDArray[np.int32],
        alive: LiveRows,
        most: int,
        arriving: float,
        threads: int,
        known: KnownRows | None = None,
        more: int = 0,
    ) -> SearchResult:
        """Look for as much as the policy wants, and `more`; `most` messages are in the window.

        What is `known` are the lists of holders that have moved. With their scores at the new place a search knows from
        the beginning what a message must reach. It looks for little more than k: who moves is likely to move again.
        """
        if self._options.policy == SKYBAND:
            return self._by_ratio(messages, queries, k, more, alive, threads)
        if self._options.policy == KMAX:
            n = np.maximum(self._options.kmax, k * 3 // 2).astype(np.int32)
            limit = target = n
        else:
            assert self._options.policy == CSKYBAND
            n, target = np.empty(len(k), np.int32), np.empty(len(k), np.int32)
            plan_lengths(k, work, arriving, most, n, target)
            limit = target + np.maximum(target // 2, 8).astype(np.int32)
        floor = np.full(len(k), -1.0)
        if known is not None and self._options.policy == CSKYBAND:
            n, floor = _from_known(messages, queries, k, n, alive, known)
        n = n + np.int32(more)
        found = messages.best_above(queries, n, floor, alive, threads)
        # Fewer than wanted, above a floor: all from there on, and there may be others below.
        is_cut = (floor >= 0.0) & (np.diff(found.start) < n)
        wanted, least = np.where(is_cut, -1, n), np.where(is_cut, floor, 0.0)
        return SearchResult(_bounded(found, wanted, least, limit, target), found.work)

    def _by_ratio(
        self,
        messages: MessageIndex,
        queries: WindowQueries,
        k: NDArray[np.int32],
        more: int,
        alive: LiveRows,
        threads: int,
    ) -> SearchResult:
        """Look for the best k and `more`, and then for all down to a share of the score of the last of them."""
        n = k + np.int32(more)
        best = messages.best(queries, n, alive, threads)
        is_full = np.diff(best.start) == n
        least = np.zeros(len(k))
        least[is_full] = self._options.ratio * best.score[best.start[1:][is_full] - 1]
        # Without k there is nothing beyond them: a threshold of 0 finds the same again.
        found = messages.at_least(queries, least, alive, threads)
        wanted = np.where(is_full, -1, np.iinfo(np.int32).max)
        limit = (4 * k + 64).astype(np.int32)
        return SearchResult(_bounded(found, wanted, least, limit, k), best.work + found.work)


def _bounded(
    found: WindowAnswers,
    wanted: NDArray[np.int64],
    least: NDArray[np.float64],
    limit: NDArray[np.int32],
    target: NDArray[np.int32],
) -> FoundRows:
    """Return what was found with its bound: where as many were found as `wanted`, the last of them.

    Fewer are all there are. Where `wanted` is negative, all from `least` on were looked for.
    """
    n_found = np.diff(found.start)
    is_full = n_found == wanted
    last = found.start[1:][is_full] - 1
    theta, bound_row = least.copy(), np.full(len(wanted), NO_BOUND, np.int64)
    theta[is_full], bound_row[is_full] = found.score[last], found.row[last]
    is_whole = ((wanted >= 0) & ~is_full).astype(np.uint8)
    return FoundRows(
        start=found.start,
        row=found.row,
        score=found.score,
        is_whole=is_whole,
        theta=theta,
        bound_row=bound_row,
        limit=limit,
        target=target,
    )


def _from_known(
    messages: MessageIndex,
    queries: WindowQueries,
    k: NDArray[np.int32],
    n: NDArray[np.int32],
    alive: LiveRows,
    known: KnownRows,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return how many messages to look for and from which score on, -1 where fewer than k are known that count."""
    owner = np.repeat(np.arange(len(k)), np.diff(known.start))
    score = messages.scores(queries, known.start, known.row, alive)
    counts = np.bincount(owner[score >= 0.0], minlength=len(k))
    has_floor = counts >= k
    wanted = np.where(has_floor, np.minimum(n, k + np.maximum(k // _SPARE, 2)), n).astype(np.int32)
    floor = np.full(len(k), -1.0)
    ranked = score[np.lexsort((-score, owner))]
    last = known.start[:-1] + np.minimum(wanted, counts) - 1
    floor[has_floor] = ranked[last[has_floor]]
    return wanted, floor
