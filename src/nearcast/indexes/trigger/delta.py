"""The newest subscriptions: a small store that grows in place, triggers chained by term.

A chain is walked as a list of a segment is: signature and rectangle stand beside the link and are compared without a
branch, and rows are looked at only for what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.geo import place_distance
from nearcast.indexes.shared.predicates import boxes_overlap, clause_holds, message_parts
from nearcast.indexes.trigger.disc_search import ELSEWHERE, text_here
from nearcast.indexes.trigger.places import EVERYWHERE, GUARD, message_word, rectangle_word
from nearcast.indexes.trigger.reach import WILDCARD, scored_triggers
from nearcast.indexes.trigger.rows import (
    MAX_DISTANCE,
    SCORE_COLUMNS,
    SCORED,
    TEXT_WEIGHT,
    THRESHOLD,
    TriggerRows,
    X,
    Y,
    rarest_terms,
    take_rows,
)
from nearcast.indexes.trigger.runs import note_run
from nearcast.indexes.trigger.scratch import (
    FOUND,
    HITS,
    LOOKED_AT,
    MARKED,
    PENDING,
    RUNS,
    VERIFIED,
    WAITING,
    end_message,
    set_marks,
    tally_now,
)
from nearcast.indexes.trigger.search import touches_shape
from nearcast.indexes.trigger.sieve import enter, lets_through, new_sieve
from nearcast.similarity import near_of, score_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.shared.undo import UndoLog
    from nearcast.indexes.trigger.places import Places

_NONE = -1
#: Triggers there is room for, for each row.
TRIGGERS_PER_ROW = 2


class Chains(NamedTuple):
    """Triggers by term: `head[h]` is the newest trigger whose term is `key[h]`, `older[t]` the one before t.

    Trigger t belongs to `row[t]`: a boolean row has one, a scored row one for each word of its prefix. It has the
    signature of its row, and as `rectangle` a `rectangle_word` in the grid of `origin` and `scale`, one cell that is
    everywhere. `key` is an open-addressing table of a power of two places, never full; -1 is vacant.
    """

    key: NDArray[np.int32]
    head: NDArray[np.int32]
    older: NDArray[np.int32]
    row: NDArray[np.int32]
    signature: NDArray[np.uint64]
    rectangle: NDArray[np.uint64]
    is_alive: NDArray[np.uint8]
    earth: NDArray[np.uint8]
    origin: NDArray[np.float64]
    scale: NDArray[np.float64]


class Triggers(NamedTuple):
    """The triggers of some rows: their term and row; and of every row the signature."""

    term: NDArray[np.int32]
    row: NDArray[np.int32]
    signature: NDArray[np.uint64]


def triggers_of(rows: TriggerRows, popularity: NDArray[np.int32], weight: NDArray[np.float64]) -> Triggers:
    """Return the triggers of rows; `popularity` counts terms and decides which term of a boolean row is its trigger."""
    n = len(rows.slot)
    rarest, signature = np.empty(n, np.int32), np.empty(n, np.uint64)
    rarest_terms(rows.code_start, rows.code, popularity, rarest, signature)
    if not len(rows.score):
        return Triggers(rarest, np.arange(n, dtype=np.int32), signature)
    boolean = np.flatnonzero(rows.shape > SCORED).astype(np.int32)
    scored_row, scored_term, _ = scored_triggers(rows, weight)
    return Triggers(np.append(rarest[boolean], scored_term), np.append(boolean, scored_row), signature)


class TriggerDelta:
    """A store of at most `capacity` rows with twice as many triggers; the first `n_rows` and `n_triggers` are there.

    `like` are places of other rows: rectangles are compared in the grid of all that. Without them, in full.
    """

    def __init__(self, capacity: int, *, is_earth: bool, like: Places | None = None):
        most_triggers = TRIGGERS_PER_ROW * capacity
        places = 1 << (2 * most_triggers).bit_length()
        self.capacity = capacity
        self.n_rows = self.n_triggers = self.n_circles = 0
        self.geometry: NDArray[np.object_] = np.empty(0, object)
        self.chains = Chains(
            key=np.full(places, _NONE, np.int32),
            head=np.full(places, _NONE, np.int32),
            older=np.empty(most_triggers, np.int32),
            row=np.empty(most_triggers, np.int32),
            signature=np.empty(most_triggers, np.uint64),
            rectangle=np.empty(most_triggers, np.uint64),
            is_alive=np.zeros(capacity, np.uint8),
            earth=np.array([is_earth], np.uint8),
            origin=np.zeros((1, 2)) if like is None else like.origin[:1].copy(),
            scale=np.zeros((1, 2)) if like is None else like.scale[:1].copy(),
        )
        #: Of boolean rows; what was entered stays, also if the rows are taken back.
        self.sieve = new_sieve(capacity)
        self.rows = TriggerRows(
            slot=np.empty(capacity, np.int32),
            code_start=np.zeros(capacity + 1, np.int64),
            code=np.empty(8 * capacity, np.int32),
            part=np.empty((capacity, 4)),
            shape=np.empty(capacity, np.int32),
            clause=np.empty(capacity, np.uint16),
            side=np.empty(capacity, np.uint8),
            circle=np.empty((0, 3)),
            score=np.empty((0, SCORE_COLUMNS)),
        )

    def has_room(self, triggers: Triggers) -> bool:
        """Tell whether rows with these triggers fit."""
        n_rows, n_triggers = len(triggers.signature), len(triggers.row)
        return self.n_rows + n_rows <= self.capacity and self.n_triggers + n_triggers <= len(self.chains.row)

    def append(self, rows: TriggerRows, geometry: NDArray[np.object_], triggers: Triggers, undo: UndoLog) -> None:
        """Add rows with their triggers.

        What is written behind the rows and triggers there are needs no note; the chains are cut back to them.
        """
        first, n = self.n_rows, len(rows.slot)
        undo.call(self._unchain, self.n_triggers)
        undo.attributes(self, "rows", "geometry", "n_rows", "n_triggers", "n_circles")
        shape = self._shapes_here(rows)
        self._append_code(rows)
        self._append_circles(rows.circle)
        mine = self.rows
        for column, values in (
            (mine.slot, rows.slot),
            (mine.part, rows.part),
            (mine.shape, shape),
            (mine.clause, rows.clause),
            (mine.side, rows.side),
        ):
            column[first : first + n] = values
        if len(rows.score):
            self.rows = mine._replace(score=np.concatenate([mine.score, rows.score]))
        if len(geometry):
            self.geometry = np.concatenate([self.geometry, geometry])
        self.chains.is_alive[first : first + n] = 1
        _chain(
            self.rows, self.chains, self.sieve, triggers.term, triggers.row, triggers.signature, self.n_triggers, first
        )
        self.n_rows = first + n
        self.n_triggers += len(triggers.row)

    def _shapes_here(self, rows: TriggerRows) -> NDArray[np.int32]:
        """Return the shapes of rows that are about to come, numbered behind those that are here."""
        shape, n_scored = rows.shape, len(self.rows.score)
        base = np.where(shape % 2 == 0, 2 * self.n_circles, 2 * len(self.geometry))
        return np.where(shape >= 0, shape + base, np.where(shape <= SCORED, shape - n_scored, shape)).astype(np.int32)

    def _append_circles(self, circles: NDArray[np.float64]) -> None:
        mine, needed = self.rows.circle, self.n_circles + len(circles)
        if needed > len(mine):
            grown = np.empty((max(needed, 2 * len(mine)), 3))
            grown[: self.n_circles] = mine[: self.n_circles]
            self.rows = self.rows._replace(circle=grown)
        self.rows.circle[self.n_circles : needed] = circles
        self.n_circles = needed

    def _append_code(self, rows: TriggerRows) -> None:
        mine, first, n = self.rows, self.n_rows, len(rows.slot)
        used = int(mine.code_start[first])
        needed = used + len(rows.code)
        if needed > len(mine.code):
            self.rows = mine = mine._replace(code=np.concatenate([mine.code, np.empty(needed, np.int32)]))
        mine.code[used:needed] = rows.code
        mine.code_start[first : first + n + 1] = rows.code_start + used

    def _unchain(self, n_triggers: int) -> None:
        """Take the triggers from the n-th on out of their chains, and terms without any out of the table."""
        chains, head = self.chains, self.chains.head.copy()
        if head.max() < n_triggers:
            return
        while (is_late := head >= n_triggers).any():
            head[is_late] = chains.older[head[is_late]]
        place = np.flatnonzero(head != _NONE)
        term, row, bits = chains.key[place], np.zeros(len(place), np.int32), np.zeros(len(place), np.uint64)
        # A table of the terms that are left, filled by the kernel that every insertion runs: their numbers as triggers.
        key, number = np.full_like(chains.key, _NONE), np.full_like(chains.head, _NONE)
        table = Chains(key, number, row.copy(), row.copy(), bits.copy(), bits.copy(), *chains[6:])
        _chain(self.rows, table, self.sieve, term, row, bits, 0, 0)
        taken = number != _NONE
        number[taken] = head[place[number[taken]]]
        self.chains = chains._replace(key=key, head=number)

    def kill(self, slots: NDArray[np.int32], undo: UndoLog) -> None:
        """Make the present rows of these slots count no longer."""
        held = self.rows.slot[: self.n_rows]
        rows = np.flatnonzero(held == slots[0] if len(slots) == 1 else np.isin(held, slots))
        undo.items(self.chains.is_alive, rows)
        self.chains.is_alive[rows] = 0

    def renumber(self, number_of: NDArray[np.int32], undo: UndoLog) -> None:
        """Give every row the new number of its slot."""
        slot = self.rows.slot.copy()
        slot[: self.n_rows] = number_of[slot[: self.n_rows]]
        undo.attributes(self, "rows")
        self.rows = self.rows._replace(slot=slot)

    def live_rows(self) -> NDArray[np.int64]:
        """Return the rows that were not killed."""
        return np.flatnonzero(self.chains.is_alive[: self.n_rows])

    def taken(self, keep: NDArray[np.int64]) -> TriggerRows:
        """Return these rows, packed."""
        return take_rows(self.rows._replace(circle=self.rows.circle[: self.n_circles]), keep)


@inlined
def _place_of(key, term):
    at = ((np.int64(term) + 2) * 2654435769) & (key.size - 1)
    while key[at] != _NONE and key[at] != term:
        at = (at + 1) & (key.size - 1)
    return at


@hot_kernel
def _chain(rows, chains, sieve, term, row, signature, first_trigger, first_row):
    """Put triggers at the heads of their chains; `row` counts from `first_row`, where the rows are stored already."""
    for i in range(term.size):
        at, trigger, r = _place_of(chains.key, term[i]), first_trigger + i, first_row + row[i]
        x_min, y_min, x_max, y_max = rows.part[r]
        chains.row[trigger] = r
        chains.signature[trigger] = signature[row[i]]
        rectangle = rectangle_word(chains, EVERYWHERE, x_min, y_min, x_max, y_max)
        chains.rectangle[trigger] = rectangle
        if rows.shape[r] > SCORED:
            enter(sieve, term[i], rectangle)
        chains.older[trigger] = chains.head[at]
        chains.key[at] = term[i]
        chains.head[at] = trigger


@hot_kernel
def search_delta(rows, chains, sieve, batch, first, last, owner, number, scratch, start):
    """Search messages `batch.order[first:last]` for boolean rows, as `search_segment` does."""
    start[first] = scratch.tally[FOUND]
    for i in range(first, last):
        before = tally_now(scratch)
        fits = True
        for part in range(message_parts(batch.box, batch.order[i], scratch.parts)):
            x_min, y_min, x_max, y_max = scratch.parts[part]
            word = message_word(chains, EVERYWHERE, x_min, y_min, x_max, y_max)
            for j in range(batch.distinct_start[i] - 1, batch.distinct_start[i + 1]):
                term = WILDCARD if j < batch.distinct_start[i] else batch.distinct[j]
                if not lets_through(sieve, term, word):
                    continue
                trigger = chains.head[_place_of(chains.key, term)]
                fits = fits and (
                    trigger == _NONE or _walk(rows, chains, trigger, word, batch, i, part, owner, number, scratch)
                )
        if not end_message(batch, i, fits, before, scratch, start):
            return i
    return last


@inlined
def _walk(rows, chains, trigger, word, batch, i, part, owner, number, scratch):
    """Filter one chain by signature and rectangle and verify what is left; False when room ran out."""
    waiting, n, looked = scratch.waiting, 0, 0
    other = ~batch.bits[i]
    while trigger != _NONE:
        # Each trigger is written and the cursor moves only on a hit: no branch to mispredict.
        waiting[n] = trigger
        n += ((chains.signature[trigger] & other) == np.uint64(0)) & (
            ((word - chains.rectangle[trigger]) & GUARD) == GUARD
        )
        trigger = chains.older[trigger]
        looked += 1
        if n == WAITING:
            if not _verify(rows, chains, n, batch, i, part, owner, number, scratch):
                return False
            n = 0
    scratch.tally[LOOKED_AT] += looked
    return n == 0 or _verify(rows, chains, n, batch, i, part, owner, number, scratch)


@inlined
def _verify(rows, chains, n, batch, i, part, owner, number, scratch):
    """Check the waiting triggers in full and write the slots of boolean rows that hold; False when room ran out."""
    tally = scratch.tally
    if tally[FOUND] + n > scratch.found.size or tally[PENDING] + n > scratch.pending.shape[0]:
        return False
    for k in range(n):
        row = chains.row[scratch.waiting[k]]
        slot = rows.slot[row]
        if rows.shape[row] <= SCORED or not chains.is_alive[row] or owner[slot] != number:
            continue
        if _holds(rows, chains, row, batch, i, part, scratch):
            scratch.found[tally[FOUND]] = slot
            tally[FOUND] += 1
    return True


@hot_kernel
def search_scored_delta(rows, chains, batch, owner, number, scratch):
    """Add the scored rows that the messages of a chunk satisfy to the hits, as `search_discs` does.

    A kernel of its own: who has boolean subscriptions alone need not wait until it is compiled.
    """
    is_earth = chains.earth[0] == 1
    for i in range(batch.order.size):
        for j in range(batch.distinct_start[i] - 1, batch.distinct_start[i + 1]):
            term = WILDCARD if j < batch.distinct_start[i] else batch.distinct[j]
            trigger = chains.head[_place_of(chains.key, term)]
            while trigger != _NONE:
                row, trigger = chains.row[trigger], chains.older[trigger]
                if rows.shape[row] > SCORED:
                    continue
                scratch.tally[LOOKED_AT] += 1
                slot = rows.slot[row]
                if not chains.is_alive[row] or owner[slot] != number:
                    continue
                if not _score(rows, row, slot, is_earth, term, batch, i, scratch):
                    return False
    return True


@inlined
def _score(rows, row, slot, is_earth, term, batch, i, scratch):
    """Add a row to the hits if it reaches its threshold; False when room ran out."""
    at = scratch.tally[HITS]
    if at == scratch.hit_slot.size or scratch.tally[RUNS] == len(scratch.run):
        return False
    scratch.tally[VERIFIED] += 1
    k = SCORED - rows.shape[row]
    text = text_here(rows, row, k, term, batch, i, scratch)
    if text == ELSEWHERE:
        return True
    box, message = batch.box, batch.order[i]
    x_min, y_min, x_max, y_max = box[message, 0], box[message, 1], box[message, 2], box[message, 3]
    distance = place_distance(is_earth, rows.score[k, X], rows.score[k, Y], x_min, y_min, x_max, y_max)
    score = score_of(rows.score[k, TEXT_WEIGHT], text, near_of(distance, rows.score[k, MAX_DISTANCE]))
    if score >= rows.score[k, THRESHOLD]:
        scratch.hit_slot[at], scratch.hit_score[at] = slot, score
        scratch.tally[HITS] = at + 1
        note_run(i, at, at + 1, scratch)
    return True


@inlined
def _holds(rows, chains, row, batch, i, part, scratch):
    """Tell whether a boolean row holds; a polygon is noted as pending instead."""
    x_min, y_min, x_max, y_max = scratch.parts[part]
    if not boxes_overlap(rows.part, row, x_min, y_min, x_max, y_max):
        return False
    scratch.tally[VERIFIED] += 1
    if not scratch.tally[MARKED]:
        set_marks(batch, i, scratch, 1)
    message = batch.order[i]
    first, last = rows.code_start[row], rows.code_start[row + 1]
    m_first, m_last = batch.term_start[message], batch.term_start[message + 1]
    if not clause_holds(rows.code, first, last, batch.terms, m_first, m_last, scratch.has):
        return False
    return touches_shape(rows, row, chains.earth, message, x_min, y_min, x_max, y_max, scratch)
