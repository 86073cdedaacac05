"""Registers the changes of a batch: which are valid at their step, under which number, and in which partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.columns import NO_TIME, WITHIN, Subscriptions
from nearcast.engine.moves import moved_to
from nearcast.errors import InvalidInput, InvalidSubscription
from nearcast.geo import ANYWHERE, BOX, CIRCLE, POLYGON, Area, Box, Circle, Regions, Shape
from nearcast.pipeline.batch.changes import MOVE, SUBSCRIBE, UNSUBSCRIBE, BatchChanges, SourceChanges
from nearcast.pipeline.batch.portable_subscriptions import PortableSubscriptions
from nearcast.pipeline.driver.directory import described, shapes_of
from nearcast.plans import Keys, Placement, Plan
from nearcast.tables.moves import Moves
from nearcast.tables.rejected_rows import Rejected
from nearcast.tables.time_limits import why_expired
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.pipeline.batch.order import BatchOrder
    from nearcast.pipeline.driver.directory import Directory
    from nearcast.text.weights import TermWeights

_SOME_POLYGON = Area({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1], [0, 0]]]})


@dataclass(frozen=True)
class PendingChanges:
    """The changes of all sources of a batch, laid end to end."""

    op: NDArray[np.uint8]
    ids: pa.Array
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
            np.concatenate([each.op for each in changes]),
            _joined([each.ids for each in changes]),
            np.concatenate([each.row for each in changes]),
            [each.source for each in changes for _ in range(len(each))],
            np.concatenate(at),
            Subscriptions.concat([_same_ids(each, subscriptions) for each in subscriptions]),
            _joined_moves([each.moves for each in changes]),
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


class Registrar:
    """Applies the changes of a batch to the directory in order, and rejects those that cannot be."""

    def __init__(self, directory: Directory, plan: Plan, weights: TermWeights, rejected: Rejected):
        self.directory, self.plan, self.rejected = directory, plan, rejected
        self._weights = weights

    def register(self, pending: PendingChanges, order: BatchOrder) -> tuple[BatchChanges, Keys]:
        """Return the accepted changes in order, without their steps, and the keys of the subscriptions they place."""
        rows = order.change
        placed = self._placed(pending)
        n = len(rows)
        number, home = np.full(n, -1, np.int64), np.full(n, -1, np.int32)
        copies, held = np.zeros(n, np.uint64), np.zeros(n, np.uint64)
        stands = np.ones(n, np.bool_)
        ids = pending.ids.to_pylist()
        for i, row in enumerate(rows.tolist()):
            clock = int(order.change_clock[i])
            place = self.directory.place(ids[row], clock)
            op = int(pending.op[row])
            if op == SUBSCRIBE:
                at = int(pending.at[row])
                expires = int(pending.subscriptions.expires[at])
                if expires != NO_TIME and expires <= clock:
                    self._reject(pending, row, "expires", why_expired(expires, clock))
                    stands[i] = False
                    continue
                place, before = self._subscribe(ids[row], place, at, placed, pending)
                held[i] = before
            elif place < 0:
                self._reject(pending, row, "id", f"there is no subscription {ids[row]!r}")
                stands[i] = False
                continue
            elif op == MOVE and not self._can_move(pending, row, place):
                stands[i] = False
                continue
            number[i], home[i] = self.directory.number[place], self.directory.home[place]
            copies[i] = self.directory.copies[place]
            if op == UNSUBSCRIBE:
                held[i], copies[i] = copies[i], 0
                self.directory.remove(np.array([place]))
            elif op == MOVE:
                held[i] = copies[i]
        kept = np.flatnonzero(stands)
        chosen = rows[kept]
        has_copies = self.plan.has_copies
        registered = BatchChanges(
            op=pending.op[chosen],
            ids=pending.ids.take(_arrow.numbers(chosen)),
            row=pending.row[chosen],
            source=[pending.source[row] for row in chosen.tolist()],
            position=order.change_position[kept],
            step=np.zeros(len(kept), np.int64),
            clock=order.change_clock[kept],
            number=number[kept],
            home=home[kept],
            copies=copies[kept] if has_copies else None,
            held=held[kept] if has_copies else None,
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

    def _can_move(self, pending: PendingChanges, row: int, place: int) -> bool:
        """Reject a move that a subscription of its kind, or a region of its shape, cannot make."""
        at = int(pending.at[row])
        is_scored = self.directory.kind[place] != WITHIN
        try:
            if not pending.moves.is_point[at]:
                if is_scored:
                    raise InvalidSubscription(
                        "it is scored by the distance to a point; move it to a point", field="place"
                    )
                shape, height = shapes_of(pending.moves.regions.take([at]))
                self.directory.set(np.array([place]), shape=shape, height=height)
            elif not is_scored:
                x, y = pending.moves.point[at].tolist()
                moved_to(self._stand_in(place), x, y, self.plan.space)
        except InvalidInput as error:
            self._reject(pending, row, error.field or "place", str(error))
            return False
        return True

    def _stand_in(self, place: int) -> Shape | None:
        """Return a region that a move would accept or refuse as it would that of a subscription."""
        shape = int(self.directory.shape[place])
        if shape == BOX:
            return Box(0.0, 0.0, 0.0, float(self.directory.height[place]))
        return {ANYWHERE: None, CIRCLE: Circle(0.0, 0.0, 0.0), POLYGON: _SOME_POLYGON}[shape]

    def _reject(self, pending: PendingChanges, row: int, field: str, reason: str) -> None:
        self.rejected.add(pending.source[row], int(pending.row[row]), pending.ids[row].as_py(), field, reason)
