"""The newest subscriptions: a small store that grows in place, triggers chained by term."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, step
from nearcast.indexes._verify import boxes_overlap, clause_holds, message_parts
from nearcast.indexes.trigger.rows import Rows, rarest_terms, take_rows
from nearcast.indexes.trigger.search import (
    FOUND,
    LOOKED_AT,
    MARKED,
    PENDING,
    VERIFIED,
    end_message,
    set_marks,
    tally_now,
    touches_shape,
)
from nearcast.indexes.trigger.segment import WILDCARD

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NONE = -1


class Chains(NamedTuple):
    """Rows by trigger term: `head[h]` is the newest row whose term is `key[h]`, `older[row]` the one before.

    `key` is an open-addressing table of a power of two places, never full; -1 is vacant.
    """

    key: NDArray[np.int32]
    head: NDArray[np.int32]
    older: NDArray[np.int32]
    signature: NDArray[np.uint64]
    is_alive: NDArray[np.uint8]
    earth: NDArray[np.uint8]


class Delta:
    """A store of at most `capacity` rows. `rows` holds room for all; the first `n_rows` are filled."""

    def __init__(self, capacity: int, *, is_earth: bool):
        places = 1 << (2 * capacity).bit_length()
        self.capacity = capacity
        self.n_rows = 0
        self.geometry: NDArray[np.object_] = np.empty(0, object)
        self.chains = Chains(
            np.full(places, _NONE, np.int32),
            np.full(places, _NONE, np.int32),
            np.empty(capacity, np.int32),
            np.empty(capacity, np.uint64),
            np.zeros(capacity, np.uint8),
            np.array([is_earth], np.uint8),
        )
        self.rows = Rows(
            np.empty(capacity, np.int32),
            np.zeros(capacity + 1, np.int64),
            np.empty(8 * capacity, np.int32),
            np.empty((capacity, 4)),
            np.empty(capacity, np.int32),
            np.empty(capacity, np.uint16),
            np.empty(capacity, np.uint8),
            np.empty((0, 3)),
        )

    def has_room(self, n_rows: int) -> bool:
        """Tell whether this many more rows fit."""
        return self.n_rows + n_rows <= self.capacity

    def append(self, rows: Rows, geometry: NDArray[np.object_], popularity: NDArray[np.int32]) -> None:
        """Add rows; `popularity` counts terms and decides which term of a row is its trigger."""
        first, n = self.n_rows, len(rows.slot)
        self._append_code(rows)
        mine = self.rows
        shape = rows.shape.copy()
        shape[shape >= 0] += np.where(shape[shape >= 0] % 2 == 0, 2 * len(mine.circle), 2 * len(self.geometry)).astype(
            np.int32
        )
        for column, values in (
            (mine.slot, rows.slot),
            (mine.part, rows.part),
            (mine.shape, shape),
            (mine.clause, rows.clause),
            (mine.side, rows.side),
        ):
            column[first : first + n] = values
        if len(rows.circle):
            self.rows = mine._replace(circle=np.concatenate([mine.circle, rows.circle]))
        if len(geometry):
            self.geometry = np.concatenate([self.geometry, geometry])
        trigger = np.empty(n, np.int32)
        rarest_terms(rows.code_start, rows.code, popularity, trigger, self.chains.signature[first : first + n])
        self.chains.is_alive[first : first + n] = 1
        _chain(self.chains, trigger, first)
        self.n_rows = first + n

    def _append_code(self, rows: Rows) -> None:
        mine, first, n = self.rows, self.n_rows, len(rows.slot)
        used = int(mine.code_start[first])
        needed = used + len(rows.code)
        if needed > len(mine.code):
            self.rows = mine = mine._replace(code=np.concatenate([mine.code, np.empty(needed, np.int32)]))
        mine.code[used:needed] = rows.code
        mine.code_start[first : first + n + 1] = rows.code_start + used

    def kill(self, slots: NDArray[np.int32]) -> None:
        """Make the present rows of these slots count no longer."""
        self.chains.is_alive[: self.n_rows][np.isin(self.rows.slot[: self.n_rows], slots)] = 0

    def live_rows(self) -> NDArray[np.int64]:
        """Return the rows that were not killed."""
        return np.flatnonzero(self.chains.is_alive[: self.n_rows])

    def taken(self, keep: NDArray[np.int64]) -> Rows:
        """Return these rows, packed."""
        return take_rows(self.rows, keep)


@step
def _place_of(key, term):
    at = ((np.int64(term) + 2) * 2654435769) & (key.size - 1)
    while key[at] != _NONE and key[at] != term:
        at = (at + 1) & (key.size - 1)
    return at


@hot_kernel
def _chain(chains, trigger, first):
    for i in range(trigger.size):
        at = _place_of(chains.key, trigger[i])
        chains.older[first + i] = chains.head[at]
        chains.key[at] = trigger[i]
        chains.head[at] = first + i


@hot_kernel
def search_delta(rows, chains, batch, first, last, owner, number, work, start):
    """Search messages `batch.order[first:last]` as `search_segment` does."""
    start[first] = work.tally[FOUND]
    for i in range(first, last):
        before = tally_now(work)
        fits = True
        for part in range(message_parts(batch.box, batch.order[i], work.parts)):
            for j in range(batch.distinct_start[i] - 1, batch.distinct_start[i + 1]):
                term = WILDCARD if j < batch.distinct_start[i] else batch.distinct[j]
                row = chains.head[_place_of(chains.key, term)]
                fits = fits and (row == _NONE or _walk(rows, chains, row, batch, i, part, owner, number, work))
        if not end_message(batch, i, fits, before, work, start):
            return i
    return last


@step
def _walk(rows, chains, row, batch, i, part, owner, number, work):
    """Verify one chain; False when room ran out."""
    tally, message, other = work.tally, batch.order[i], ~batch.bits[i]
    x_min, y_min, x_max, y_max = work.parts[part]
    m_first, m_last = batch.term_start[message], batch.term_start[message + 1]
    while row != _NONE:
        here, row = row, chains.older[row]
        tally[LOOKED_AT] += 1
        if (chains.signature[here] & other) != np.uint64(0):
            continue
        if not boxes_overlap(rows.part, here, x_min, y_min, x_max, y_max):
            continue
        slot = rows.slot[here]
        if not chains.is_alive[here] or owner[slot] != number:
            continue
        if tally[PENDING] == work.pending.shape[0] or tally[FOUND] == work.found.size:
            return False
        tally[VERIFIED] += 1
        if not tally[MARKED]:
            set_marks(batch, i, work, 1)
        code_first, code_last = rows.code_start[here], rows.code_start[here + 1]
        if not clause_holds(rows.code, code_first, code_last, batch.terms, m_first, m_last, work.has):
            continue
        if touches_shape(rows, here, chains.earth, message, x_min, y_min, x_max, y_max, work):
            work.found[tally[FOUND]] = slot
            tally[FOUND] += 1
    return True
