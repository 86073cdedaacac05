"""Registers the changes of a batch: which are valid at their step, under which number, and in which partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.columns import NO_TIME, WITHIN, Subscriptions
from nearcast.engine.move_columns import are_points
from nearcast.engine.move_items import why_after_end
from nearcast.engine.move_times import why_late
from nearcast.engine.moves import NOWHERE, POLYGON_STAYS, does_not_fit
from nearcast.engine.state import NEVER
from nearcast.geo import ANYWHERE, BOX, POLYGON, Regions
from nearcast.pipeline.batch.changes import MOVE, SUBSCRIBE, UNSUBSCRIBE, BatchChanges, SourceChanges, runs_of_moves
from nearcast.pipeline.batch.portable_subscriptions import PortableSubscriptions
from nearcast.pipeline.driver.directory import described
from nearcast.plans import Keys, Placement, Plan
from nearcast.tables.moves import Moves
from nearcast.tables.rejected_rows import Rejected
from nearcast.tables.time_limits import why_expired
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.pipeline.batch.event_clock import EventClock
    from nearcast.pipeline.batch.order import AheadLimit, BatchOrder
    from nearcast.pipeline.driver.directory import Directory
    from nearcast.text.weights import TermWeights

_NEEDS_POINT = "it is scored by the distance to a point; move it to a point"


@dataclass(frozen=True)
class PendingChanges:
    """The changes of all sources of a batch, laid end to end."""

    op: NDArray[np.uint8]
    ids: pa.Array
    time: NDArray[np.int64]
    row: NDArray[np.int64]
    source: list[str]
    at: NDArray[np.int64]
    subscriptions: Subscriptions
    moves: Moves

    @classmethod
    def of(cls, changes: Sequence[SourceChanges], words: WordTable) -> PendingChanges:
        """Lay changes end to end; their words are added to the plan's."""
        subscriptions = [each.subscriptions.into(words) for each in changes]
        at = []
        first = {SUBSCRIBE: 0, MOVE: 0}
        for each, read in zip(changes, subscriptions, strict=True):
            shift = np.zeros(len(each), np.int64)
            for op, n in ((SUBSCRIBE, len(read)), (MOVE, len(each.moves))):
                shift[each.op == op] = first[op]
                first[op] += n
            at.append(each.at + shift)
        return cls(
            op=np.concatenate([each.op for each in changes]),
            ids=_joined([each.ids for each in changes]),
            time=np.concatenate([each.time for each in changes]),
            row=np.concatenate([each.row for each in changes]),
            source=[each.source for each in changes for _ in range(len(each))],
            at=np.concatenate(at),
            subscriptions=Subscriptions.concat([_same_ids(each, subscriptions) for each in subscriptions]),
            moves=_joined_moves([each.moves for each in changes]),
        )


def _same_ids(each: Subscriptions, among: list[Subscriptions]) -> Subscriptions:
    kinds = {other.ids.type for other in among if len(other)}
    if len(kinds) == 1:
        return replace(each, ids=each.ids.cast(next(iter(kinds))))
    return replace(each, ids=each.ids.cast(pa.string()))


def _joined(ids: list[pa.Array]) -> pa.Array:
    given = [each for each in ids if len(each)] or ids[:1]
    if len({each.type for each in given}) > 1:
        given = [each.cast(pa.string()) for each in given]
    return pa.concat_arrays(given)


def _joined_moves(moves: list[Moves]) -> Moves:
    return Moves(
        _joined([each.ids for each in moves]),
        np.concatenate([each.is_point for each in moves]),
        np.concatenate([each.point for each in moves]),
        Regions.concat([each.regions for each in moves]),
    )


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
        rows = order.change
        placed = self._placed(pending)
        done = RegisteredRows(len(rows))
        ids = pending.ids.to_pylist()
        for run in runs_of_moves(pending.op[rows]):
            at = int(run[0])
            if pending.op[rows[at]] == MOVE:
                self._move_run(pending, order, run, clock, limit, done)
            else:
                self._register_one(pending, order, at, ids[rows[at]], clock, placed, done)
        kept = np.flatnonzero(done.stands)
        chosen = rows[kept]
        has_copies = self.plan.has_copies
        registered = BatchChanges(
            op=pending.op[chosen],
            ids=pending.ids.take(_arrow.numbers(chosen)),
            row=pending.row[chosen],
            source=[pending.source[row] for row in chosen.tolist()],
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

    def _register_one(
        self,
        pending: PendingChanges,
        order: BatchOrder,
        at: int,
        id_: str | int,
        clock: EventClock,
        placed: Placement,
        done: RegisteredRows,
    ) -> None:
        """Store or remove one subscription, unless that cannot be."""
        row, now = int(order.change[at]), clock.at(int(order.change_position[at]))
        done.clock[at] = now
        place = self.directory.place(id_, now)
        if pending.op[row] == UNSUBSCRIBE:
            if place < 0:
                self._reject(pending, row, "id", _unknown(id_))
                return
            done.accept(np.array([at]), self.directory, np.array([place]))
            done.copies[at] = 0
            self.directory.remove(np.array([place]))
            return
        stored = int(pending.at[row])
        expires = int(pending.subscriptions.expires[stored])
        if expires != NO_TIME and expires <= now:
            self._reject(pending, row, "expires", why_expired(expires, now))
            return
        place, before = self._subscribe(id_, place, stored, placed, pending)
        done.accept(np.array([at]), self.directory, np.array([place]))
        done.held[at] = before

    def _placed(self, pending: PendingChanges) -> Placement:
        """Place all subscriptions that are to be stored, as if they were new."""
        subscriptions = pending.subscriptions
        first = self.directory.next_number
        numbers = np.arange(first, first + len(subscriptions))
        weights = self._weights.of_table(self.plan.words, 0)
        return self.plan.place(subscriptions, numbers, weights)

    def _subscribe(
        self, id_: str | int, place: int, at: int, placed: Placement, pending: PendingChanges
    ) -> tuple[int, int]:
        """Store one subscription, new or in place of another; return its place, and who held it before."""
        copies = 0 if placed.copies is None else int(placed.copies[at])
        columns = described(pending.subscriptions.take(np.array([at])))
        if place < 0:
            (new,) = self.directory.add(
                pa.array([id_]), home=placed.home[at : at + 1], copies=np.array([copies], np.uint64), **columns
            )
            return int(new), 0
        # The home stays, whatever the plan would say now; it sees to the keys it needs.
        before = int(self.directory.copies[place])
        home = int(self.directory.home[place])
        self.directory.set(
            np.array([place]), copies=np.array([copies | (1 << home if copies else 0)], np.uint64), **columns
        )
        return place, before

    # Moves

    def _move_run(
        self,
        pending: PendingChanges,
        order: BatchOrder,
        run: NDArray[np.int64],
        clock: EventClock,
        limit: AheadLimit | None,
        done: RegisteredRows,
    ) -> None:
        """Accept or reject moves that follow each other, those up to the next one that repeats an id at once."""
        places = self.directory.places(pending.ids.take(_arrow.numbers(order.change[run]))).astype(np.int64)
        for first, last in _without_repeats(places):
            self._move_many(pending, order, run[first:last], places[first:last], clock, limit, done)

    def _move_many(
        self,
        pending: PendingChanges,
        order: BatchOrder,
        at: NDArray[np.int64],
        places: NDArray[np.int64],
        clock: EventClock,
        limit: AheadLimit | None,
        done: RegisteredRows,
    ) -> None:
        """Accept or reject moves of subscriptions that differ."""
        rows = order.change[at]
        moves, time = pending.moves.take(pending.at[rows]), pending.time[rows]
        known = places >= 0
        reasons = {row: ("id", _unknown(pending.ids[rows[row]].as_py())) for row in np.flatnonzero(~known).tolist()}
        expires = np.full(len(at), NO_TIME)
        expires[known] = self.directory.expires[places[known]]
        reasons |= self._late(time, places, known) | self._misplaced(moves, places, known) | reasons
        is_bad = np.zeros(len(at), np.bool_)
        is_bad[list(reasons)] = True
        heard = clock.reports(
            order.change_position[at],
            np.where(is_bad, NO_TIME, time),
            np.where(is_bad | (expires == NO_TIME), NEVER, expires),
        )
        for row in np.flatnonzero(heard.is_ahead).tolist():
            assert limit is not None
            reasons[row] = ("time", limit.why(int(time[row]), int(heard.clock[row])))
        for row in np.flatnonzero(heard.is_over).tolist():
            is_gone = expires[row] <= heard.clock[row]
            id_ = pending.ids[rows[row]].as_py()
            reasons[row] = ("id", _unknown(id_)) if is_gone else ("time", why_after_end(int(time[row])))
        for row, (field, reason) in sorted(reasons.items()):
            self._reject(pending, int(rows[row]), field, reason)
        good = np.setdiff1d(np.arange(len(at)), list(reasons)).astype(np.int64)
        done.clock[at], done.is_tick[at] = heard.clock, heard.is_tick
        done.accept(at[good], self.directory, places[good])
        self.directory.note_moves(places[good], moves.take(good), time[good], heard.clock[good])

    def _late(
        self, time: NDArray[np.int64], places: NDArray[np.int64], known: NDArray[np.bool_]
    ) -> dict[int, tuple[str, str]]:
        """Return field and reason, by row, of reports that are older than the last of their subscription."""
        reported = np.full(len(places), NO_TIME)
        reported[known] = self.directory.reported[places[known]]
        late = np.flatnonzero((time != NO_TIME) & (time < reported)).tolist()
        return {row: ("time", why_late(int(time[row]), int(reported[row]))) for row in late}

    def _misplaced(
        self, moves: Moves, places: NDArray[np.int64], known: NDArray[np.bool_]
    ) -> dict[int, tuple[str, str]]:
        """Return field and reason, by row, of moves that a kind of subscription or a shape of region cannot make."""
        is_within, shape, height = (
            np.zeros(len(places), np.bool_),
            np.zeros(len(places), np.uint8),
            np.zeros(len(places)),
        )
        is_within[known] = self.directory.kind[places[known]] == WITHIN
        shape[known], height[known] = self.directory.shape[places[known]], self.directory.height[places[known]]
        carried = known & is_within & moves.is_point
        no_point = known & ~is_within & ~moves.is_point & ~are_points(moves.regions)
        found = dict.fromkeys(np.flatnonzero(no_point).tolist(), ("place", _NEEDS_POINT))
        found |= dict.fromkeys(np.flatnonzero(carried & (shape == ANYWHERE)).tolist(), ("region", NOWHERE))
        found |= dict.fromkeys(np.flatnonzero(carried & (shape == POLYGON)).tolist(), ("region", POLYGON_STAYS))
        if self.plan.space.is_earth:
            y = moves.point[:, 1]
            tall = carried & (shape == BOX) & ((y - height / 2 < -90.0) | (y + height / 2 > 90.0))
            found |= {
                row: ("lat", does_not_fit(float(height[row]), float(y[row]))) for row in np.flatnonzero(tall).tolist()
            }
        return found

    def _reject(self, pending: PendingChanges, row: int, field: str, reason: str) -> None:
        self.rejected.add(pending.source[row], int(pending.row[row]), pending.ids[row].as_py(), field, reason)


def _unknown(id_: str | int) -> str:
    return f"there is no subscription {id_!r}"


def _without_repeats(places: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield first and last of the longest runs of rows in which no place comes twice, -1 apart."""
    order = np.argsort(places, kind="stable")
    previous = np.full(len(places), -1, np.int64)
    same = (places[order[1:]] == places[order[:-1]]) & (places[order[1:]] >= 0)
    previous[order[1:][same]] = order[:-1][same]
    latest = np.maximum.accumulate(previous)
    first = 0
    while first < len(places):
        last = int(np.searchsorted(latest, first))
        yield first, last
        first = last
