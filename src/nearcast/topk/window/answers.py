"""Runs many queries: cuts them into slices of neighbours, one thread each, and puts their answers in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.geo.hilbert import hilbert_keys
from nearcast.indexes.shared.threads import chunk_for, in_threads
from nearcast.topk.window.contract import WindowAnswers, WindowQueries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.indexes.shared.undo import UndoLog

#: Queries that one thread answers in one go, one by one or joined with the window: the more there are of these, the
#: more share a word. A slice of a join has room for so many messages, at 40 bytes, beyond its least size.
SLICE, JOIN_SLICE = 256, 1 << 15
_JOIN_ROOM, _LEAST_JOIN_SLICE = 1 << 21, 1 << 13
#: The fewest queries that a thread is worth starting for, and the least room for answers.
_FEWEST = 4
_LEAST_ROOM = 1 << 12


def join_slice(keep: int) -> int:
    """Return how many queries a slice of a join has, each of which keeps up to so many messages."""
    return min(JOIN_SLICE, max(_LEAST_JOIN_SLICE, _JOIN_ROOM // max(keep, 1)))


class SliceAnswers(NamedTuple):
    """Where a search writes the answers to a slice of queries, one query after the other, and how many each has."""

    row: NDArray[np.int64]
    score: NDArray[np.float64]
    n: NDArray[np.int64]


class SliceSearch(Protocol):
    """Answers a slice of queries into `room`; returns how many it answered before that was full."""

    def __call__(self, which: NDArray[np.int64], room: SliceAnswers) -> int:
        """Answer the queries `which`, in order; return how many."""


def answers(
    space: Space,
    queries: WindowQueries,
    most: NDArray[np.int64],
    work: NDArray[np.int64],
    answer: SliceSearch,
    threads: int,
    undo: UndoLog,
    size: int = SLICE,
) -> WindowAnswers:
    """Return what `answer` finds for all queries; `most` is how much to make room for at first.

    Each thread answers slices of `size` neighbours. `undo` is told of the threads, as `in_threads` says: whoever
    changes what they read rolls it back first.
    """
    order = _neighbours(space, queries) if len(queries.own) > 1 else np.zeros(len(queries.own), np.int64)
    size = chunk_for(len(order), size, _FEWEST, threads)
    starts = range(0, len(order), size)

    def run(first: int) -> SliceAnswers:
        which = order[first : first + size]
        return _answered(which, int(most[which].sum()), answer)

    if threads > 1 and len(starts) > 1:
        rooms = in_threads(run, starts, threads, undo)
    else:
        rooms = [run(first) for first in starts]
    return _in_order(order, rooms, work)


def _answered(which: NDArray[np.int64], capacity: int, answer: SliceSearch) -> SliceAnswers:
    """Answer one slice, with as much room as it takes."""
    n, done, parts = np.zeros(len(which), np.int64), 0, []
    capacity = max(capacity, _LEAST_ROOM)
    while done < len(which):
        room = SliceAnswers(np.empty(capacity, np.int64), np.empty(capacity), n[done:])
        answered = answer(which[done:], room)
        total = int(n[done : done + answered].sum())
        parts.append((room.row[:total].copy(), room.score[:total].copy()))
        done += answered
        capacity *= 2
    if len(parts) == 1:
        return SliceAnswers(*parts[0], n)
    rows, scores = zip(*parts, strict=True)
    return SliceAnswers(np.concatenate(rows), np.concatenate(scores), n)


def _in_order(order: NDArray[np.int64], rooms: list[SliceAnswers], work: NDArray[np.int64]) -> WindowAnswers:
    """Put the answers of slices into the order of the queries."""
    start = np.zeros(len(order) + 1, np.int64)
    if len(rooms) == 1 and len(order) == 1:
        start[1] = rooms[0].n[0]
        return WindowAnswers(start, rooms[0].row, rooms[0].score, work)
    n = np.concatenate([np.zeros(0, np.int64), *(room.n for room in rooms)])
    start[1:][order] = n
    np.cumsum(start, out=start)
    row, score = np.empty(start[-1], np.int64), np.empty(start[-1])
    done = 0
    for room in rooms:
        first = start[order[done : done + len(room.n)]]
        to = np.arange(len(room.row)) + np.repeat(first - (np.cumsum(room.n) - room.n), room.n)
        row[to], score[to] = room.row, room.score
        done += len(room.n)
    return WindowAnswers(start, row, score, work)


def _neighbours(space: Space, queries: WindowQueries) -> NDArray[np.int64]:
    """Return an order in which queries with the same weightiest word, and of these neighbours, stand together."""
    weightiest = np.empty(len(queries.own), np.int32)
    _fill_weightiest(queries, weightiest)
    return np.lexsort((hilbert_keys(space, np.hstack([queries.point, queries.point])), weightiest))


@hot_kernel
def _fill_weightiest(queries, weightiest):
    for which in range(weightiest.size):
        best, weight = -1, -1.0
        for i in range(queries.word_start[which], queries.word_start[which + 1]):
            if queries.word[i] >= 0 and queries.weight[i] > weight:
                best, weight = queries.word[i], queries.weight[i]
        weightiest[which] = best
