"""Registers the changes of a batch: which are valid at their step, under which number, and in which partitions.

In columns: a batch is cut where an id comes again, and within such a run no change depends on another but by event
time. Ids that occur once in a batch cut nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.columns import NO_TIME
from nearcast.engine.move_items import why_after_end
from nearcast.engine.state import NEVER
from nearcast.pipeline.batch.changes import (
    MOVE,
    SUBSCRIBE,
    UNSUBSCRIBE,
    BatchChanges,
    codes_of,
    runs_without_repeats,
)
from nearcast.pipeline.batch.portable_subscriptions import PortableSubscriptions
from nearcast.pipeline.driver.directory import described
from nearcast.pipeline.driver.move_checks import Faults, faults_of_moves
from nearcast.plans import Keys, Placement, Plan
from nearcast.tables.rejected_rows import Rejected
from nearcast.tables.time_limits import why_expired

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.pipeline.batch.event_clock import EventClock, ReportTimes
    from nearcast.pipeline.batch.order import AheadLimit, BatchOrder
    from nearcast.pipeline.driver.directory import Directory
    from nearcast.pipeline.driver.pending_changes import PendingChanges
    from nearcast.text.weights import TermWeights


class RegisteredRows:
    """What the registrar found out about each change of a batch, in order; `stands` tells which are accepted."""

    def __init__(self, n: int):
        self.stands = np.zeros(n, np.bool_)
        self.clock, self.is_tick = np.full(n, NO_TIME), np.zeros(n, np.bool_)
        self.number, self.home = np.full(n, -1, np.int64), np.full(n, -1, np.int32)
        self.copies, self.held = np.zeros(n, np.uint64), np.zeros(n, np.uint64)

    def accept(self, at: NDArray[np.int64], directory: Directory, places: NDArray[np.int64]) -> None:
        """Note that changes of the subscriptions at these places are accepted."""
        self.stands[at] = True
        self.number[at], self.home[at] = directory.number[places], directory.home[places]
        self.copies[at] = self.held[at] = directory.copies[places]


class ChangeRun(NamedTuple):
    """Changes of a batch that follow each other, of subscriptions that differ.

    `at` is where each stands among all changes in order, `row` its row in the pending ones, and `places` is where the
    directory has its subscription before the run, -1 for nowhere.
    """

    at: NDArray[np.int64]
    row: NDArray[np.int64]
    op: NDArray[np.uint8]
    ids: pa.Array
    places: NDArray[np.int64]


class Registrar:
    """Applies the changes of a batch to the directory in order, and rejects those that cannot be."""

    def __init__(self, directory: Directory, plan: Plan, weights: TermWeights, rejected: Rejected):
        self.directory, self.plan, self.rejected = directory, plan, rejected
        self._weights = weights

    def register(
        self, pending: PendingChanges, order: BatchOrder, clock: EventClock, limit: AheadLimit | None = None
    ) -> tuple[BatchChanges, Keys]:
        """Return the accepted changes in order, without their steps, and the keys of the subscriptions they place.

        `clock` is passed up to the last change; `limit` tells how it refuses reports from the future.
        """
        placed = self._placed(pending)
        known = _KnownPlaces(self.directory, pending.ids)
        batch = _BatchRegistration(self, pending, order, clock, limit, placed, known)
        for at in runs_without_repeats(known.codes(pending)[order.change]):
            batch.register_run(at)
        done = batch.done
        kept = np.flatnonzero(done.stands)
        chosen = order.change[kept]
        has_copies = self.plan.has_copies
        registered = BatchChanges(
            op=pending.op[chosen],
            ids=pending.ids.take(_arrow.numbers(chosen)),
            position=order.change_position[kept],
            step=np.zeros(len(kept), np.int64),
            time=pending.time[chosen],
            clock=done.clock[kept],
            is_tick=done.is_tick[kept],
            number=done.number[kept],
            home=done.home[kept],
            copies=done.copies[kept] if has_copies else None,
            held=done.held[kept] if has_copies else None,
            at=pending.at[chosen],
            subscriptions=PortableSubscriptions.of(pending.subscriptions, self.plan.words),
            moves=pending.moves,
        )
        return registered, placed.keys

    def _placed(self, pending: PendingChanges) -> Placement:
        """Place all subscriptions that are to be stored, as if they were new."""
        subscriptions = pending.subscriptions
        first = self.directory.next_number
        numbers = np.arange(first, first + len(subscriptions))
        weights = self._weights.of_table(self.plan.words, 0)
        return self.plan.place(subscriptions, numbers, weights)


class _KnownPlaces:
    """The places of a column of ids in a directory, looked up once and again when subscriptions came or went since."""

    def __init__(self, directory: Directory, ids: pa.Array):
        self._directory, self._ids = directory, ids
        self._places, self._version = directory.places(ids).astype(np.int64), directory.version

    def codes(self, pending: PendingChanges) -> NDArray[np.int64]:
        """Return a number for each id; -1 for one that does not exist, whatever comes before it in the batch."""
        is_new = pending.op == SUBSCRIBE
        if not is_new.any():
            return self._places
        codes = codes_of(self._ids)
        comes = np.zeros(int(codes.max(initial=-1)) + 1, np.bool_)
        comes[codes[is_new]] = True
        return np.where(comes[codes] | (self._places >= 0), codes, -1)

    def of(self, rows: NDArray[np.int64], ids: pa.Array) -> NDArray[np.int64]:
        """Return the places of these rows, whose ids are given, as the directory is now."""
        if self._version == self._directory.version:
            return self._places[rows]
        return self._directory.places(ids).astype(np.int64)


class _BatchRegistration:
    """The changes of one batch on their way into the directory, run by run."""

    def __init__(
        self,
        registrar: Registrar,
        pending: PendingChanges,
        order: BatchOrder,
        clock: EventClock,
        limit: AheadLimit | None,
        placed: Placement,
        known: _KnownPlaces,
    ):
        self._directory, self._rejected = registrar.directory, registrar.rejected
        self._space = registrar.plan.space
        self._pending, self._order, self._clock, self._limit = pending, order, clock, limit
        self._placed, self._known = placed, known
        self._described = described(pending.subscriptions)
        self.done = RegisteredRows(len(order.change))

    def register_run(self, at: NDArray[np.int64]) -> None:
        """Accept or reject changes of subscriptions that differ."""
        pending, row = self._pending, self._order.change[at]
        ids = pending.ids.take(_arrow.numbers(row))
        run = ChangeRun(at, row, pending.op[row], ids, self._known.of(row, ids))
        moving = np.flatnonzero(run.op == MOVE)
        faults = self._faults_of_moves(run, moving)
        heard = self._heard(run, moving, faults)
        self.done.clock[at], self.done.is_tick[at] = heard.clock, heard.is_tick
        self._move(run, _without(moving, faults), heard)
        faults |= self._unsubscribe(run, np.flatnonzero(run.op == UNSUBSCRIBE), heard)
        faults |= self._subscribe(run, np.flatnonzero(run.op == SUBSCRIBE), heard)
        for i, (field, reason) in sorted(faults.items()):
            at_row = int(row[i])
            source, number = pending.source_of(at_row), int(pending.row[at_row])
            self._rejected.add(source, number, ids[i].as_py(), field, reason)

    # Moves

    def _faults_of_moves(self, run: ChangeRun, moving: NDArray[np.int64]) -> Faults:
        """Return what is wrong with moves, whatever event time is."""
        if not len(moving):
            return {}
        faults = _of_unknown(run, moving[run.places[moving] < 0])
        known = moving[run.places[moving] >= 0]
        moves, time = self._pending.moves.take(self._pending.at[run.row[known]]), self._pending.time[run.row[known]]
        found = faults_of_moves(self._directory, self._space, run.places[known], moves, time)
        return faults | {int(known[i]): fault for i, fault in found.items()}

    def _heard(self, run: ChangeRun, moving: NDArray[np.int64], faults: Faults) -> ReportTimes:
        """Pass the clock over a run, and add to `faults` the moves that it refuses.

        A change that is no move, or is refused already, has no time of its own that counts.
        """
        time, end = np.full(len(run.at), NO_TIME), np.full(len(run.at), NEVER)
        good = _without(moving, faults)
        expires = self._directory.expires[run.places[good]]
        time[good] = self._pending.time[run.row[good]]
        end[good] = np.where(expires == NO_TIME, NEVER, expires)
        heard = self._clock.reports(self._order.change_position[run.at], time, end)
        for i in np.flatnonzero(heard.is_ahead).tolist():
            assert self._limit is not None
            faults[i] = ("time", self._limit.why(int(time[i]), int(heard.clock[i])))
        for i in np.flatnonzero(heard.is_over).tolist():
            is_gone = end[i] <= heard.clock[i]
            faults[i] = _unknown(run, i) if is_gone else ("time", why_after_end(int(time[i])))
        return heard

    def _move(self, run: ChangeRun, good: NDArray[np.int64], heard: ReportTimes) -> None:
        if not len(good):
            return
        places, rows = run.places[good], run.row[good]
        self.done.accept(run.at[good], self._directory, places)
        moves = self._pending.moves.take(self._pending.at[rows])
        self._directory.note_moves(places, moves, self._pending.time[rows], heard.clock[good])

    # Subscriptions that come and go

    def _unsubscribe(self, run: ChangeRun, which: NDArray[np.int64], heard: ReportTimes) -> Faults:
        """Remove subscriptions; return those that there are not."""
        if not len(which):
            return {}
        places = self._directory.without_expired(run.places[which], heard.clock[which])
        known = places >= 0
        at = run.at[which[known]]
        self.done.accept(at, self._directory, places[known])
        self.done.copies[at] = 0
        self._directory.remove(places[known])
        return _of_unknown(run, which[~known])

    def _subscribe(self, run: ChangeRun, which: NDArray[np.int64], heard: ReportTimes) -> Faults:
        """Store subscriptions, new or in place of others; return those that have expired already."""
        if not len(which):
            return {}
        places = self._directory.without_expired(run.places[which], heard.clock[which])
        expires, now = self._described["expires"][self._pending.at[run.row[which]]], heard.clock[which]
        over = (expires != NO_TIME) & (expires <= now)
        self._store(run, which[~over], places[~over])
        return {
            int(which[i]): ("expires", why_expired(int(expires[i]), int(now[i]))) for i in np.flatnonzero(over).tolist()
        }

    def _store(self, run: ChangeRun, which: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        """Store subscriptions at the places that they have; those that have none are new."""
        if not len(which):
            return
        directory, stored = self._directory, self._pending.at[run.row[which]]
        known = places >= 0
        held, home = np.zeros(len(which), np.uint64), self._placed.home[stored]
        # The home stays, whatever the plan would say now; it sees to the keys it needs.
        held[known], home[known] = directory.copies[places[known]], directory.home[places[known]]
        columns: dict[str, NDArray[Any]] = {name: values[stored] for name, values in self._described.items()}
        columns["copies"] = self._copies(stored, home, known)
        ids = run.ids.take(_arrow.numbers(which))
        places = directory.store(ids, places, home=home, **columns)
        self.done.accept(run.at[which], directory, places)
        self.done.held[run.at[which]] = held

    def _copies(
        self, stored: NDArray[np.int64], home: NDArray[np.int32], known: NDArray[np.bool_]
    ) -> NDArray[np.uint64]:
        """Return who holds copies; where there are some, an old home is always among them."""
        if self._placed.copies is None:
            return np.zeros(len(stored), np.uint64)
        copies = self._placed.copies[stored]
        at_home = np.left_shift(np.uint64(1), home.astype(np.uint64))
        return np.where(known & (copies != 0), copies | at_home, copies)


def _without(which: NDArray[np.int64], faults: Faults) -> NDArray[np.int64]:
    return which if not faults else np.setdiff1d(which, list(faults)).astype(np.int64)


def _unknown(run: ChangeRun, i: int) -> tuple[str, str]:
    return "id", f"there is no subscription {run.ids[i].as_py()!r}"


def _of_unknown(run: ChangeRun, which: NDArray[np.int64]) -> Faults:
    return {i: _unknown(run, i) for i in which.tolist()}
