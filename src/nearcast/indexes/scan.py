"""The index `scan`: tests every live subscription against every message. Slow, and the definition of all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.columns import SIMILAR, TOPK, WITHIN
from nearcast.geo import ANYWHERE, CIRCLE, POLYGON, circle_holds, polygons_touch
from nearcast.indexes import Matches, register
from nearcast.indexes.shared.predicates import boxes_overlap, clause_holds, mark_terms, message_parts
from nearcast.indexes.shared.scores import count_words, forget_words, full_score, topk_score, totals_for
from nearcast.indexes.shared.search_arrays import MessageColumns
from nearcast.indexes.shared.stored_index import StoredIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions
    from nearcast.indexes.shared.scores import ScoredColumns


class _BooleanColumns(NamedTuple):
    """The clauses and regions of boolean subscriptions as kernels read them, by row of the table."""

    clause_start: NDArray[np.int64]
    code_start: NDArray[np.int64]
    code: NDArray[np.int32]
    kind: NDArray[np.uint8]
    part_start: NDArray[np.int64]
    part: NDArray[np.float64]
    shape: NDArray[np.int32]
    circle: NDArray[np.float64]


class _ScanTable(NamedTuple):
    """All live subscriptions: the table, its scored rows, and the live rows of all kinds with their slots."""

    held: Subscriptions
    scored: ScoredColumns
    slots: NDArray[np.int32]
    rows: NDArray[np.int64]
    kind: NDArray[np.uint8]


@register("scan", kinds=("within", "similar", "topk"), paper="none: brute force, the definition", options={})
class ScanIndex(StoredIndex):
    """Tries every live subscription on every message.

    >>> from nearcast.geo import Space
    >>> len(ScanIndex(Space.plane()))
    0
    """

    def match(self, messages: Messages, *, threads: int = 1) -> Matches:
        """Try every live subscription on every message; one core whatever `threads` says."""
        messages = messages.for_kernels()
        with self._lock:
            self._undo.roll_back()
            table = self._live()
            totals = totals_for(messages, needed=self._needs_totals)
        batch = MessageColumns(messages.term_start, messages.terms, messages.box, totals)
        slots, scores, counts = [], [], np.zeros(len(messages), np.int64)
        has = np.zeros(max(int(table.held.code.max(initial=0)), 0) + 1, np.uint8)
        count = np.zeros(len(table.scored.weight))
        for message in range(len(messages)) if len(table.slots) else ():
            score = np.full(len(table.rows), np.nan)
            self._try_within(table, batch, message, has, score)
            self._try_scored(table, SIMILAR, batch, message, has, score)
            self._try_scored(table, TOPK, batch, message, count, score)
            found = np.flatnonzero(~np.isnan(score))
            slots.append(table.slots[found])
            scores.append(score[found])
            counts[message] = len(found)
        start = np.zeros(len(messages) + 1, np.int64)
        np.cumsum(counts, out=start[1:])
        tried = len(table.slots) * len(messages)
        every_slot = np.concatenate(slots) if slots else np.empty(0, np.int32)
        every_score = np.concatenate(scores) if scores else np.empty(0)
        return Matches(start, every_slot, every_score, candidates=tried, verified=tried)

    def _live(self) -> _ScanTable:
        slots = np.flatnonzero(self._row_of >= 0).astype(np.int32)
        rows = self._row_of[slots]
        held = self._table()
        return _ScanTable(held, self._scored(), slots, rows, held.kind[rows])

    def _try_within(
        self, table: _ScanTable, batch: MessageColumns, message: int, has: NDArray[np.uint8], score: NDArray[np.float64]
    ) -> None:
        """Write 1 for the boolean subscriptions that want the message."""
        here = np.flatnonzero(table.kind == WITHIN)
        if not len(here):
            return
        held, regions, rows = table.held, table.held.regions, table.rows[here]
        wanted = np.zeros(len(rows), np.uint8)
        columns = _BooleanColumns(
            clause_start=held.clause_start,
            code_start=held.code_start,
            code=held.code,
            kind=regions.kind,
            part_start=regions.part_start,
            part=regions.part,
            shape=regions.shape,
            circle=regions.circle,
        )
        _try_clauses(columns, rows, batch, message, self.space.is_earth, has, np.empty((2, 4)), wanted)
        many_sided = np.flatnonzero(wanted & (regions.kind[rows] == POLYGON))
        if len(many_sided):
            geometry = regions.geometry[regions.shape[rows[many_sided]]]
            box = np.repeat(batch.box[message : message + 1], len(many_sided), axis=0)
            wanted[many_sided] = polygons_touch(geometry, box, self.space)
        score[here[wanted.astype(bool)]] = 1.0

    def _try_scored(
        self,
        table: _ScanTable,
        kind: int,
        batch: MessageColumns,
        message: int,
        said: NDArray[Any],
        score: NDArray[np.float64],
    ) -> None:
        """Write the scores of the subscriptions of a scored kind that the message concerns.

        `said` is scratch by term: where a message's words are marked for `similar`, counted for `topk`.
        """
        here = np.flatnonzero(table.kind == kind)
        if not len(here):
            return
        reached = np.full(len(here), np.nan)
        score_rows = _score_rows if kind == SIMILAR else _score_topk_rows
        score_rows(table.scored, table.rows[here], batch, message, self.space.is_earth, said, reached)
        score[here] = reached


@hot_kernel
def _score_topk_rows(scored, rows, batch, message, is_earth, count, reached):
    """Write the score of every row that the message concerns: a word in common, and the threshold reached."""
    terms, first, last = batch.terms, batch.term_start[message], batch.term_start[message + 1]
    count_words(terms, first, last, count)
    for i in range(rows.size):
        score = topk_score(scored, rows[i], count, batch.totals, is_earth, batch.box, message)
        if score >= 0.0 and score >= scored.threshold[rows[i]]:
            reached[i] = score
    forget_words(terms, first, last, count)


@hot_kernel
def _score_rows(scored, rows, batch, message, is_earth, has, reached):
    """Write the score of every row that reaches its threshold."""
    terms, first, last = batch.terms, batch.term_start[message], batch.term_start[message + 1]
    mark_terms(terms, first, last, has, 1)
    for i in range(rows.size):
        score = full_score(scored, rows[i], has, batch.totals, is_earth, batch.box, message)
        if score >= scored.threshold[rows[i]]:
            reached[i] = score
    mark_terms(terms, first, last, has, 0)


@hot_kernel
def _try_clauses(columns, rows, batch, message, is_earth, has, place, wanted):
    """Set `wanted` for the rows that want a message; of polygons only the rectangle around them is tested here."""
    terms, first, last = batch.terms, batch.term_start[message], batch.term_start[message + 1]
    n_places = message_parts(batch.box, message, place)
    mark_terms(terms, first, last, has, 1)
    for i in range(rows.size):
        row = rows[i]
        near = columns.kind[row] == ANYWHERE
        for p in range(n_places):
            x_min, y_min, x_max, y_max = place[p, 0], place[p, 1], place[p, 2], place[p, 3]
            if columns.kind[row] == CIRCLE:
                circle = columns.circle[columns.shape[row]]
                near = near or circle_holds(is_earth, circle[0], circle[1], circle[2], x_min, y_min, x_max, y_max)
            else:
                for k in range(columns.part_start[row], columns.part_start[row + 1]):
                    near = near or boxes_overlap(columns.part, k, x_min, y_min, x_max, y_max)
        if near:
            for c in range(columns.clause_start[row], columns.clause_start[row + 1]):
                begin, end = columns.code_start[c], columns.code_start[c + 1]
                if clause_holds(columns.code, begin, end, terms, first, last, has):
                    wanted[i] = 1
                    break
    mark_terms(terms, first, last, has, 0)
