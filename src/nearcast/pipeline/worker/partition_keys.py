"""The routing keys of a partition: which messages its subscriptions need, wherever they are during a batch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.columns import WITHIN
from nearcast.engine.moves import Extent, moved_row
from nearcast.geo import Regions
from nearcast.pipeline.batch.changes import MOVE, SUBSCRIBE
from nearcast.pipeline.batch.portable_subscriptions import PortableSubscriptions
from nearcast.pipeline.batch.router import encoded
from nearcast.pipeline.worker.carried_moves import CarriedMoves
from nearcast.pipeline.worker.needed_words import NeededWords
from nearcast.plans import SEVERAL_WORDS, Keys
from nearcast.plans.measure import count_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.engine import State
    from nearcast.pipeline.batch.changes import BatchChanges
    from nearcast.pipeline.batch.inputs import BatchInputs
    from nearcast.pipeline.batch.router import Router

#: A top-k subscription is placed as if its threshold were this much lower: it may fall so far before it needs more.
PLACED_BELOW = 0.8


class _MovedKeys(NamedTuple):
    """The keys of subscriptions, by slots that ascend, at the places that a batch of nothing but moves takes them to.

    A key may come again.
    """

    slots: NDArray[np.int32]
    keys: Keys


class PartitionKeys:
    """Works out the keys of the subscriptions at home in a partition, as a plan has them.

    What is returned for changes is only what the routes do not hold yet. With copies the driver knows the keys.
    """

    def __init__(self, partition: int, state: State, router: Router, words: NeededWords | None = None):
        self._partition, self._state, self._router = partition, state, router
        self._words = NeededWords() if words is None else words
        self._all_moved: _MovedKeys | None = None
        self.has_everything = router.is_everywhere

    @property
    def can_shrink(self) -> bool:
        """Tell whether all keys that are needed may stand in place of those in the routes."""
        return not (self.has_everything or self._router.plan.has_copies)

    def count_needed(self, inputs: BatchInputs) -> tuple[int, int]:
        """Count pairs of a message and a top-k subscription that keys bring together: as thresholds are, and as placed.

        Routes are made for the second; placed again, subscriptions would need the first.
        """
        state, plan = self._state, self._router.plan
        if state.topk is None or not len(state.topk):
            return 0, 0
        slots, messages = state.topk.slots(), encoded(inputs.segment, plan)
        carried = PortableSubscriptions.of(state.index.subscriptions(slots), state.words).into(plan.words)
        weights, placed = state.weights.of_table(plan.words, 0), state.by_slot["placed"][slots]
        risen = np.maximum(placed, PLACED_BELOW * state.topk.thresholds(slots))
        needed, routed = (count_pairs(plan, carried, weights, messages, each) for each in (risen, placed))
        return needed, routed

    # Of subscriptions that are stored

    def of_slots(self, slots: NDArray[np.int32]) -> Keys:
        """Return the keys of stored subscriptions, of top-k ones down to the threshold they are placed with."""
        if self.has_everything or not len(slots):
            return Keys.none()
        held = self._state.index.subscriptions(slots)
        keys, others = self._of_held(slots, held)
        if len(others):
            carried = PortableSubscriptions.of(held.take(others), self._state.words).into(self._router.plan.words)
            placed = self._placed(carried, self._state.by_slot["placed"][slots[others]])
            keys = Keys.concat([keys, placed])
        return Keys.distinct(*keys)

    def _of_held(self, slots: NDArray[np.int32], held: Subscriptions) -> tuple[Keys, NDArray[np.int64]]:
        """Return the keys of those that need one word wherever they are, and the rows of the others.

        `held` is what slots hold, at whatever place. A key may come again.
        """
        word = self._words.of(self._state, self._router.plan, slots, held)
        is_single = word != SEVERAL_WORDS
        if not is_single.any():
            return Keys.none(), np.arange(len(slots))
        single = np.flatnonzero(is_single)
        regions = held.regions if is_single.all() else held.regions.take(single)
        return self._router.plan.keys_of_words(word[single], regions, self._partition), np.flatnonzero(~is_single)

    def of_scored(self) -> Keys:
        """Return the keys of all scored subscriptions at home here, as words weigh now."""
        if self.has_everything or not self._state.n_weighed:
            return Keys.none()
        slots = self._at_home()
        return self.of_slots(slots[self._state.index.subscriptions(slots).kind != WITHIN])

    def of_all(self) -> Keys:
        """Return the keys of all subscriptions at home here."""
        slots = self._at_home()
        if self._all_moved is not None and np.array_equal(self._all_moved.slots, slots):
            return Keys.distinct(*self._all_moved.keys)
        return self.of_slots(slots)

    def _at_home(self) -> NDArray[np.int32]:
        slots = self._state.ids.in_use()
        at_home: NDArray[np.int32] = slots[self._state.by_slot["home"][slots] == self._partition]
        return at_home

    def _placed(self, subscriptions: Subscriptions, thresholds: NDArray[np.float64] | None) -> Keys:
        home = np.full(len(subscriptions), self._partition, np.int32)
        weights = self._state.weights.of_table(self._router.plan.words, 0)
        return self._router.plan.keys(subscriptions, home, weights, thresholds)

    # Of subscriptions that change

    def moves_of(self, changes: BatchChanges, mine: NDArray[np.int64]) -> CarriedMoves | None:
        """Look up the moves of a batch that no other change of it precedes; None where keys do not depend on them."""
        rows = self._of_home(changes, mine)
        rows = rows[(changes.op[rows] == MOVE) & ~self._is_one_by_one(changes, rows)]
        return CarriedMoves.of(self._state, changes, rows) if len(rows) else None

    def of_changes(self, changes: BatchChanges, mine: NDArray[np.int64], moves: CarriedMoves | None) -> Keys:
        """Return the keys of subscriptions as each of these changes leaves them, before any is applied.

        `moves` is what `moves_of` found.
        """
        rows = self._of_home(changes, mine)
        if not len(rows):
            return Keys.none()
        is_one_by_one = self._is_one_by_one(changes, rows)
        stored = rows[changes.op[rows] == SUBSCRIBE]
        wanted = [changes.subscriptions.take(changes.at[stored])] if len(stored) else []
        wanted += self._one_by_one(changes, rows[is_one_by_one])
        keys = [Keys.none()]
        if moves is not None:
            after = moves.known.held.with_regions(moves.known.placement.regions)
            own, others = self._of_held(moves.known.slots, after)
            keys.append(own)
            if len(moves.rows) == len(mine) and not len(others) and moves.is_unconditional:
                self._all_moved = _MovedKeys(np.sort(moves.known.slots), own)
            wanted += [PortableSubscriptions.of(after.take(others), self._state.words)] if len(others) else []
        keys += [self._placed(each.into(self._router.plan.words), None) for each in wanted]
        return self.without_known(Keys.concat(keys))

    def _of_home(self, changes: BatchChanges, mine: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the changes of subscriptions at home here, none where the routes need not know of them."""
        return mine[changes.home[mine] == self._partition] if self.can_shrink else mine[:0]

    def without_known(self, keys: Keys) -> Keys:
        """Return the keys that the routes do not hold yet, each once."""
        return Keys.distinct(*self._router.routes.without_known(keys)) if len(keys.word) else keys

    def _is_one_by_one(self, changes: BatchChanges, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which changes depend on others of the batch: points carry what was stored or given before them."""
        op, number = changes.op[rows], changes.number[rows]
        is_given: NDArray[np.bool_] = op == SUBSCRIBE
        moves = np.flatnonzero(op == MOVE)
        is_given[moves] = ~changes.moves.is_point[changes.at[rows[moves]]]
        if not is_given.any():
            return is_given
        distinct, place, count = np.unique(number, return_inverse=True, return_counts=True)
        has_given = np.zeros(len(distinct), np.bool_)
        has_given[place[is_given]] = True
        has_move = np.zeros(len(distinct), np.bool_)
        has_move[place[moves]] = True
        found: NDArray[np.bool_] = ((count > 1) & has_given & has_move)[place]
        return found

    def _one_by_one(self, changes: BatchChanges, rows: NDArray[np.int64]) -> list[PortableSubscriptions]:
        """Return the subscriptions of moves among these changes as each move leaves them."""
        result: list[PortableSubscriptions] = []
        latest: dict[int, PortableSubscriptions] = {}
        extents: dict[int, Extent | None] = {}
        space = self._state.index.space
        for row in rows.tolist():
            number, at = int(changes.number[row]), int(changes.at[row])
            if changes.op[row] == SUBSCRIBE:
                latest[number], extents[number] = changes.subscriptions.take(np.array([at])), None
                continue
            if number not in extents:
                extents[number] = self._state.movers.extent(self._state.ids.slot(changes.ids[row].as_py()))
            before = latest.get(number) or self._held(changes, row)
            if changes.op[row] != MOVE or before is None:
                continue
            shape, extent = changes.moves.regions.shape_of(at), None
            if changes.moves.is_point[at]:
                x, y = changes.moves.point[at].tolist()
                shape, extent = moved_row(before.subscriptions, 0, x, y, space, extents[number])
            extents[number] = extent
            regions = Regions.from_shapes([shape], space)
            latest[number] = replace(before, subscriptions=before.subscriptions.with_regions(regions))
            result.append(latest[number])
        return result

    def _held(self, changes: BatchChanges, row: int) -> PortableSubscriptions | None:
        """Return the stored version of the subscription that a change refers to."""
        slot = self._state.ids.slot(changes.ids[row].as_py())
        if slot < 0:
            return None
        held = self._state.index.subscriptions(np.array([slot], np.int32))
        return PortableSubscriptions.of(held, self._state.words)
