"""The index `scan` of a window: scores every message for every query. It is the definition of all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.similarity import score_of, tfidf_of
from nearcast.topk.window.contract import LiveRows, WindowAnswers, WindowQueries
from nearcast.topk.window.scores import LENGTH, ROW, count_of, is_alive, near_to
from nearcast.topk.window.stored_messages import StoredMessages

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ScanWindowIndex(StoredMessages):
    """Keeps messages in order of arrival and scores all of them for every query, on one core."""

    def best(self, queries: WindowQueries, n: NDArray[np.int32], alive: LiveRows, threads: int = 1) -> WindowAnswers:
        """Return the `n` best messages for each query, fewer where there are not so many."""
        return self._found(queries, np.full(len(n), -np.inf), np.maximum(n, 0), alive)

    def at_least(
        self, queries: WindowQueries, threshold: NDArray[np.float64], alive: LiveRows, threads: int = 1
    ) -> WindowAnswers:
        """Return for each query all messages with a score of `threshold` or more."""
        return self._found(queries, threshold, np.full(len(threshold), self._rows.end - self._rows.first), alive)

    def _found(
        self, queries: WindowQueries, threshold: NDArray[np.float64], n: NDArray[np.int64], alive: LiveRows
    ) -> WindowAnswers:
        queries = queries.for_kernels()
        first, last = self._rows.first - self._rows.base, self._rows.end - self._rows.base
        alive = alive._replace(first=max(alive.first, self._floor))
        score = np.empty(last - first)
        rows, scores = [np.zeros(0, np.int64)], [np.zeros(0)]
        for which in range(len(n)):
            score_all(queries, which, self._held(), first, last, alive, self.space.is_earth, score)
            fits = np.flatnonzero((score >= 0.0) & (score >= threshold[which]))
            time = self._rows["time"][fits] if self.by_time else np.zeros(len(fits), np.int64)
            ranked = fits[np.lexsort((fits, time, score[fits]))[::-1]][: n[which]]
            rows.append(self._rows["card"][ranked, ROW].astype(np.int64))
            scores.append(score[ranked])
        start = np.cumsum([len(each) for each in rows])
        work = np.full(len(n), last - first)
        return WindowAnswers(start, np.concatenate(rows), np.concatenate(scores), work)


@hot_kernel
def score_all(queries, which, held, first, last, alive, is_earth, score):
    """Write the score of every message for a query, -1 where it does not count."""
    for position in range(first, last):
        score[position - first] = -1.0
        if not is_alive(held, position, alive):
            continue
        common, shares = 0.0, False
        for i in range(queries.word_start[which], queries.word_start[which + 1]):
            count = count_of(held, position, queries.word[i]) if queries.word[i] >= 0 else 0
            if count > 0:
                shares = True
                common += queries.weight[i] * (count * queries.weight[i])
        if shares:
            text = tfidf_of(common, queries.own[which], held.card[position, LENGTH])
            score[position - first] = score_of(
                queries.text_weight[which], text, near_to(queries, which, held, position, is_earth)
            )
