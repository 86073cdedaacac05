"""Events of top-k subscriptions, as columns: messages that entered a top-k, and messages that left one."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.topk.buffers.entries import row_at
from nearcast.topk.buffers.pool import entries_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.topk.buffers.holders import Holders, WindowRows
    from nearcast.topk.buffers.pool import Slabs


@dataclass(frozen=True)
class Events:
    """One row for each message that entered a top-k or left it, in the order of delivery.

    `step` is the number of the step within the call, `row` the message, `enters` 1 or 0.
    """

    step: NDArray[np.int64]
    slot: NDArray[np.int32]
    row: NDArray[np.int64]
    score: NDArray[np.float64]
    rank: NDArray[np.int32]
    enters: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.step)

    @classmethod
    def none(cls) -> Events:
        """Return no events."""
        return cls(
            np.empty(0, np.int64),
            np.empty(0, np.int32),
            np.empty(0, np.int64),
            np.empty(0),
            np.empty(0, np.int32),
            np.empty(0, np.uint8),
        )

    @classmethod
    def concat(cls, pieces: list[Events]) -> Events:
        """Return the events of all pieces, in order."""
        columns = [[getattr(piece, each.name) for piece in pieces] for each in fields(cls)]
        return cls(*map(np.concatenate, columns)) if pieces else cls.none()

    def take(self, which: NDArray[np.int64]) -> Events:
        """Return some of the events."""
        return Events(*(getattr(self, each.name)[which] for each in fields(self)))

    def at_steps(self, step: NDArray[np.int64]) -> Events:
        """Return the same events as events of other steps."""
        return replace(self, step=step)


class Tops(NamedTuple):
    """The first k of some buffers: those of holder i from `start[i]` on."""

    start: NDArray[np.int64]
    row: NDArray[np.int64]
    score: NDArray[np.float64]


def tops_of(holders: Holders, slabs: Slabs, rows: WindowRows, which: NDArray[np.int32]) -> Tops:
    """Return the first k of these buffers."""
    held = entries_of(holders, slabs, rows, which, np.minimum(holders.size[which], holders.k[which]))
    return Tops(held.start, held.row, held.score)


class HeldEntries(NamedTuple):
    """Entries of some buffers, one buffer after the other: those of holder i from `start[i]` on."""

    start: NDArray[np.int64]
    score: NDArray[np.float64]
    row: NDArray[np.int64]
    dominators: NDArray[np.int64]


def entries_of(
    holders: Holders, slabs: Slabs, rows: WindowRows, which: NDArray[np.int32], n: NDArray[np.int32]
) -> HeldEntries:
    """Return the first `n` entries of each of these buffers."""
    start = np.zeros(len(which) + 1, np.int64)
    np.cumsum(n, out=start[1:])
    held = HeldEntries(start, np.empty(start[-1]), np.empty(start[-1], np.int64), np.empty(start[-1], np.int64))
    _copy_entries(holders, slabs, rows, which, held)
    return held


@hot_kernel
def _copy_entries(holders, slabs, rows, which, held):
    for i in range(which.size):
        slab = holders.slab[which[i]]
        if slab < 0:
            continue
        entries, first = entries_at(slabs, slab, holders.size_class[which[i]]), held.start[i]
        for j in range(held.start[i + 1] - first):
            held.score[first + j], held.row[first + j] = entries.score[j], row_at(rows, entries, j)
            held.dominators[first + j] = entries.dominators[j]


def difference(old: Tops, new: Tops, slots: NDArray[np.int32]) -> Events:
    """Return what left and what entered between two states of the same holders, each a step of its own."""
    gone, entered = _missing(old, new), _missing(new, old)
    step = np.concatenate([_owners(old)[gone], _owners(new)[entered]])
    rank = np.concatenate([_ranks(old)[gone], _ranks(new)[entered]])
    enters = np.repeat(np.array([0, 1], np.uint8), [len(gone), len(entered)])
    order = np.lexsort((rank, enters, step))
    row = np.concatenate([old.row[gone], new.row[entered]])
    score = np.concatenate([old.score[gone], new.score[entered]])
    return Events(step[order], slots[step[order]], row[order], score[order], rank[order], enters[order])


def _owners(tops: Tops) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(tops.start) - 1), np.diff(tops.start))


def _ranks(tops: Tops) -> NDArray[np.int32]:
    return (np.arange(len(tops.row)) - tops.start[_owners(tops)] + 1).astype(np.int32)


def _missing(tops: Tops, others: Tops) -> NDArray[np.int64]:
    """Return which entries are not among the others of the same holder."""
    if not len(others.row) or not len(tops.row):
        return np.arange(len(tops.row))
    first = min(int(tops.row.min()), int(others.row.min()))
    span = max(int(tops.row.max()), int(others.row.max())) + 1 - first
    known = np.sort(_owners(others) * span + (others.row - first))
    keys = _owners(tops) * span + (tops.row - first)
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.flatnonzero(known[at] != keys)
