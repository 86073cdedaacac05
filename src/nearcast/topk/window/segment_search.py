"""The search that all segmented indexes of a window share: query after query, from the tail to the answers.

An index adds how it visits the messages of its segments, best bound first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nearcast._jit import inlined
from nearcast.topk.window.best_heap import write_in_rank
from nearcast.topk.window.single_messages import look_at_tail
from nearcast.topk.window.word_plan import make_plan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearcast.topk.window.contract import LiveRows, WindowQueries
    from nearcast.topk.window.scores import MessageCards


class SearchRequest(NamedTuple):
    """Queries to answer: query i gets its `keep[i]` best messages of a score of `floor[i]` or more.

    Only messages that are `alive` count. Those at the positions `tail[0]` to `tail[1]` of `held` are in no segment.
    """

    queries: WindowQueries
    keep: NDArray[np.int64]
    floor: NDArray[np.float64]
    alive: LiveRows
    held: MessageCards
    tail: NDArray[np.int64]
    by_time: bool
    is_earth: bool


@inlined
def answer_each(visit, request, index, these, scratch, answers, work):
    """Answer the queries `these`, one after the other; return how many were answered before the room was full.

    `visit`, inlined, offers the messages of the segments to those kept, and returns how many are kept then.
    """
    written = 0
    for i in range(these.size):
        which, n_kept = these[i], 0
        if request.keep[which] > 0:
            n_words, n_kept = begin_query(request, which, scratch.plan, scratch.kept)
            n_kept = visit(request, index, which, n_words, n_kept, scratch, work)
        if not _finish_query(scratch, n_kept, answers, i, written):
            return i
        written += n_kept
    return these.size


@inlined
def begin_query(request, which, plan, kept):
    """Plan the words of a query and keep the best messages of the tail; return how many words and messages."""
    n_words = make_plan(request.queries, which, plan)
    n_kept = look_at_tail(
        request.queries,
        which,
        request.held,
        request.tail,
        request.alive,
        request.floor[which],
        request.by_time,
        request.is_earth,
        plan,
        n_words,
        kept,
        request.keep[which],
    )
    return n_words, n_kept


@inlined
def _finish_query(scratch, n_kept, answers, number, written):
    """Write the messages kept as answer `number`, behind what is `written`; tell whether there was room for them."""
    if written + n_kept > answers.row.size:
        return False
    write_in_rank(scratch.kept, n_kept, answers.row, answers.score, written)
    answers.n[number] = n_kept
    return True
