"""A partition: an engine over a share of the subscriptions, advanced batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import _arrow, engine
from nearcast.columns import TOPK, WITHIN, Messages
from nearcast.engine.moves import Extent, moved_row
from nearcast.engine.snapshot import open_files, save_files
from nearcast.geo import Regions
from nearcast.indexes import create
from nearcast.pipeline.batch.changes import MOVE, SUBSCRIBE, UNSUBSCRIBE, BatchChanges, groups_of
from nearcast.pipeline.batch.partition_deliveries import PartitionDeliveries
from nearcast.pipeline.batch.portable_subscriptions import PortableSubscriptions
from nearcast.pipeline.batch.router import Router, encoded
from nearcast.pipeline.copies.candidates import Candidates
from nearcast.pipeline.copies.detector import Detector
from nearcast.pipeline.divided_window.remote_window import RemoteWindow, use_remote_window
from nearcast.pipeline.worker.batch_matcher import PartitionDelta, PartitionMatcher
from nearcast.plans import Keys
from nearcast.plans.measure import count_pairs
from nearcast.text import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.deliveries import Piece
    from nearcast.pipeline.batch.inputs import BatchInputs
    from nearcast.pipeline.settings import PipelineSettings

#: A top-k subscription is placed as if its threshold were this much lower: it may fall so far before it needs more.
PLACED_BELOW = 0.8
_NEVER_PLACED = 0.0


@dataclass(frozen=True)
class BatchOutcome:
    """What a batch did in a partition: its deliveries, the delta that replays it, and the keys it needs from now on."""

    deliveries: list[PartitionDeliveries]
    delta: PartitionDelta
    keys: Keys
    routed: int


class Partition:
    """The subscriptions of one partition.

    Beside what the engine keeps, each slot has the number its subscription registered under, the partitions that hold
    copies of it, and the threshold that its keys are good for. Copies of top-k subscriptions that have another home are
    no part of the engine: `detector` finds whom messages concern, and tells the partitions that own them.
    """

    def __init__(self, number: int, settings: PipelineSettings, state: engine.State, detector: Detector | None = None):
        self.number, self.settings, self.state = number, settings, state
        self.detector = Detector(settings.space, settings.index) if detector is None else detector

    @classmethod
    def empty(cls, number: int, settings: PipelineSettings, vocabulary: Vocabulary) -> Partition:
        """Return a partition without subscriptions."""
        state = engine.State(
            create(settings.index, settings.space),
            analyzer=settings.analyzer,
            vocabulary=vocabulary,
            window=settings.window,
            renumbers=False,
        )
        state.by_slot = {
            "number": np.empty(0, np.int64),
            "home": np.empty(0, np.int32),
            "copies": np.empty(0, np.uint64),
            "placed": np.empty(0),
        }
        return cls(number, settings, state).with_window_elsewhere()

    def with_window_elsewhere(self) -> Partition:
        """Use a remote window where the settings divide it; return the partition."""
        if self.settings.window_parts:
            use_remote_window(self.state)
        return self

    @property
    def remote_window(self) -> RemoteWindow | None:
        """The window as this partition sees it, where it is divided."""
        topk = self.state.topk
        return topk.messages if topk is not None and isinstance(topk.messages, RemoteWindow) else None

    def save(self, folder: Path) -> None:
        """Write everything into a new folder."""
        save_files(self.state, folder / "state")
        self.detector.save(folder / "detector")

    @classmethod
    def open(cls, number: int, settings: PipelineSettings, folder: Path) -> Partition:
        """Return what was saved; subscriptions are mapped, not copied."""
        state = open_files(folder / "state")
        state.renumbers = False
        detector = Detector.open(folder / "detector", settings.space, settings.index)
        return cls(number, settings, state, detector).with_window_elsewhere()

    # A batch

    def run(
        self,
        inputs: BatchInputs,
        router: Router,
        *,
        recorded: PartitionDelta | None = None,
        found: Candidates | None = None,
    ) -> BatchOutcome:
        """Apply the changes and match the messages of a batch, in order.

        With `recorded`, what an earlier run of the same batch noted, nobody is searched for and no delivery counts.
        `found` are top-k subscriptions that messages concern by what the detectors of other partitions say.
        """
        state, changes = self.state, inputs.changes
        mine = np.empty(0, np.int64) if changes is None else changes.of_partition(self.number)
        stored = None if changes is None else changes.subscriptions.into(state.words)
        own = self._keys_of(changes, mine, router) if changes is not None else Keys.none()
        rows = np.empty(0, np.int64) if recorded is not None else inputs.routed(self.number, router, own)
        if state.topk is not None:
            state.topk.forget_words(state.weights)
        messages = inputs.segment.messages_for(state)
        masks = inputs.masks(router) if router.plan.has_copies and recorded is None else None
        reach = self._reach(is_known_elsewhere=masks is not None) if recorded is None else None
        matcher = PartitionMatcher(self.number, state, rows, masks, recorded, found, len(inputs), reach)
        deliveries: list[PartitionDeliveries] = []
        done = 0
        for group in groups_of(changes, mine, inputs.position):
            assert changes is not None
            last = int(np.searchsorted(inputs.position, changes.position[group[0]]))
            deliveries += self._publish(messages, matcher, done, last)
            done = last
            deliveries += self._change(changes, stored, group)
        deliveries += self._publish(messages, matcher, done, len(messages))
        deliveries += self._end(inputs)
        keys = Keys.concat([own, self._grown_keys(router)])
        if inputs.vocabulary is not None:
            keys = Keys.concat([keys, self._reweighed_keys(router)])
        delta = matcher.delta(self._thresholds_of_copies())
        if self.remote_window is not None:
            delta = replace(delta, answers=self.remote_window.used)
        return BatchOutcome(deliveries, delta, keys, len(rows))

    def _publish(
        self, messages: Messages, matcher: PartitionMatcher, first: int, last: int
    ) -> list[PartitionDeliveries]:
        """Publish the messages `first` to `last`: without a window, only those that come here."""
        if first == last:
            return []
        if self.state.topk is not None:
            part = messages.part(first, last)
            return self._named(engine.step(self.state, engine.Publish(part, match=matcher.from_row(first))))
        rows = matcher.rows[np.searchsorted(matcher.rows, first) : np.searchsorted(matcher.rows, last)]
        if not len(rows):
            return []
        part = messages if len(rows) == len(messages) else messages.take(rows)
        return self._named(engine.step(self.state, engine.Publish(part, match=matcher.of_rows(rows))))

    def _named(self, pieces: list[Piece]) -> list[PartitionDeliveries]:
        number = self.state.by_slot["number"]
        return [PartitionDeliveries(piece, number[_slots(piece)]) for piece in pieces]

    def _end(self, inputs: BatchInputs) -> list[PartitionDeliveries]:
        """Bring the clock to where the batch ends."""
        state, files = self.state, inputs.files
        deliveries: list[PartitionDeliveries] = []
        if files.beat is not None and state.topk is not None:
            engine.step(state, engine.CountFrom(files.next_step - 1))
            deliveries = self._named(engine.step(state, engine.Advance(files.beat)))
        elif state.topk is None:
            engine.step(state, engine.Advance(files.now))
        engine.step(state, engine.CountFrom(files.next_step))
        engine.renumber_if_sparse(state)
        return deliveries

    def use_vocabulary(self, vocabulary: Vocabulary) -> list[PartitionDeliveries]:
        """Weigh all words by another vocabulary from now on; return how the answers differ, in one step."""
        pieces = engine.step(self.state, engine.UseVocabulary(vocabulary))
        self.detector.reweigh(self.state.words, self.state.weights)
        return self._named(pieces)

    # Changes

    def _change(
        self, changes: BatchChanges, stored: Subscriptions | None, group: NDArray[np.int64]
    ) -> list[PartitionDeliveries]:
        """Apply changes of one kind to subscriptions that differ."""
        if self.state.topk is None:
            engine.step(self.state, engine.Advance(int(changes.clock[group[0]])))
        op = int(changes.op[group[0]])
        if op == SUBSCRIBE:
            assert stored is not None
            return self._subscribe(changes, stored, group)
        if op == UNSUBSCRIBE:
            self._unsubscribe(changes, group)
            return []
        return self._move(changes, group)

    def _subscribe(
        self, changes: BatchChanges, stored: Subscriptions, group: NDArray[np.int64]
    ) -> list[PartitionDeliveries]:
        subscriptions = stored.take(changes.at[group])
        is_home = changes.home[group] == self.number
        to_engine = is_home | ((subscriptions.kind != TOPK) & changes.has_copy(group, self.number))
        self._forget(changes.ids, group[~to_engine], changes)
        if not to_engine.any():
            return []
        part = np.flatnonzero(to_engine)
        return self._store(subscriptions.take(part), changes, group[part])

    def _store(
        self, subscriptions: Subscriptions, changes: BatchChanges, rows: NDArray[np.int64]
    ) -> list[PartitionDeliveries]:
        pieces = engine.step(self.state, engine.Subscribe(subscriptions, changes.step[rows]))
        slots = self.state.ids.slots(subscriptions.ids)
        alive = slots >= 0  # what had expired already is gone again
        copies = np.zeros(len(rows), np.uint64) if changes.copies is None else changes.copies[rows]
        rows = rows[alive]
        self.note(slots[alive], number=changes.number[rows], home=changes.home[rows], copies=copies[alive])
        return self._named(pieces)

    def note(self, slots: NDArray[np.int32], **columns: NDArray[Any]) -> None:
        """Write columns of slots that are kept beside the engine."""
        by_slot = self.state.by_slot
        for name, column in by_slot.items():
            if len(column) < self.state.index.n_slots:
                grown = np.zeros(self.state.index.n_slots * 3 // 2 + 16, column.dtype)
                grown[: len(column)] = column
                by_slot[name] = grown
        for name, values in {"placed": np.full(len(slots), _NEVER_PLACED), **columns}.items():
            by_slot[name][slots] = values

    def _unsubscribe(self, changes: BatchChanges, group: NDArray[np.int64]) -> None:
        self._forget(changes.ids, group, changes)

    def _forget(self, ids: pa.Array, rows: NDArray[np.int64], changes: BatchChanges) -> None:
        """Forget subscriptions as far as the engine has them."""
        if not len(rows):
            return
        gone = ids.take(_arrow.numbers(rows))
        known = np.flatnonzero(self.state.ids.slots(gone) >= 0)
        if len(known):
            engine.step(self.state, engine.Unsubscribe(gone.take(_arrow.numbers(known)), changes.step[rows[known]]))

    def _move(self, changes: BatchChanges, group: NDArray[np.int64]) -> list[PartitionDeliveries]:
        ids = changes.ids.take(_arrow.numbers(group))
        moves = changes.moves.take(changes.at[group])
        slots = self.state.ids.slots(ids)
        here = np.flatnonzero(slots >= 0)
        if not len(here):
            return []
        moves = moves.take(here)
        moved = ids.take(_arrow.numbers(here))
        item = engine.Move(moved, moves.regions, changes.step[group[here]], moves.points())
        return self._named(engine.step(self.state, item))

    # Keys and thresholds

    def _keys_of(self, changes: BatchChanges, mine: NDArray[np.int64], router: Router) -> Keys:
        """Return the routing keys of subscriptions that change here; with copies, the driver has added them."""
        rows = mine[changes.home[mine] == self.number]
        if router.plan.has_copies or router.routes.is_everywhere or not len(rows):
            return Keys.none()
        wanted = self._as_changed(changes, rows)
        return Keys.concat([self._placed_keys(each.into(router.plan.words), router, None) for each in wanted])

    def _as_changed(self, changes: BatchChanges, rows: NDArray[np.int64]) -> list[PortableSubscriptions]:
        """Return the subscriptions of these changes as each change leaves them."""
        stored = rows[changes.op[rows] == SUBSCRIBE]
        result = [changes.subscriptions.take(changes.at[stored])] if len(stored) else []
        latest: dict[int, PortableSubscriptions] = {}
        extents: dict[int, Extent | None] = {}
        moved = set(changes.number[rows[changes.op[rows] == MOVE]].tolist())
        for row in rows[np.isin(changes.number[rows], list(moved))].tolist():
            number, at = int(changes.number[row]), int(changes.at[row])
            if changes.op[row] == SUBSCRIBE:
                latest[number], extents[number] = changes.subscriptions.take(np.array([at])), None
                continue
            if number not in extents:
                extents[number] = self.state.movers.extent(self.state.ids.slot(changes.ids[row].as_py()))
            before = latest.get(number) or self._held(changes, row)
            if changes.op[row] != MOVE or before is None:
                continue
            shape, extent = changes.moves.regions.shape_of(at), None
            if changes.moves.is_point[at]:
                x, y = changes.moves.point[at].tolist()
                shape, extent = moved_row(before.subscriptions, 0, x, y, self.settings.space, extents[number])
            extents[number] = extent
            regions = Regions.from_shapes([shape], self.settings.space)
            latest[number] = replace(before, subscriptions=before.subscriptions.with_regions(regions))
            result.append(latest[number])
        return result

    def _held(self, changes: BatchChanges, row: int) -> PortableSubscriptions | None:
        """Return the stored version of the subscription that a change refers to."""
        slot = self.state.ids.slot(changes.ids[row].as_py())
        if slot < 0:
            return None
        return PortableSubscriptions.of(self.state.index.subscriptions(np.array([slot], np.int32)), self.state.words)

    def _placed_keys(
        self, subscriptions: Subscriptions, router: Router, thresholds: NDArray[np.float64] | None
    ) -> Keys:
        home = np.full(len(subscriptions), self.number, np.int32)
        weights = self.state.weights.of_table(router.plan.words, 0)
        return router.plan.keys(subscriptions, home, weights, thresholds)

    def _grown_keys(self, router: Router) -> Keys:
        """Return the keys of top-k subscriptions whose threshold fell below the one they were placed with."""
        state = self.state
        if state.topk is None or router.routes.is_everywhere or not len(state.topk):
            return Keys.none()
        slots = state.topk.slots()
        theta = state.topk.thresholds(slots)
        fallen = slots[theta < state.by_slot["placed"][slots]]
        if not len(fallen):
            return Keys.none()
        placed = PLACED_BELOW * state.topk.thresholds(fallen)
        self.note(fallen, placed=placed)
        subscriptions = PortableSubscriptions.of(state.index.subscriptions(fallen), state.words).into(router.plan.words)
        return self._placed_keys(subscriptions, router, placed)

    def count_needed(self, inputs: BatchInputs, router: Router) -> tuple[int, int]:
        """Count pairs of a message and a top-k subscription that keys bring together: as thresholds are, and as placed.

        Routes are made for the second; placed again, subscriptions would need the first.
        """
        state = self.state
        if state.topk is None or not len(state.topk):
            return 0, 0
        slots, messages = state.topk.slots(), encoded(inputs.segment, router.plan)
        carried = PortableSubscriptions.of(state.index.subscriptions(slots), state.words).into(router.plan.words)
        weights = self.state.weights.of_table(router.plan.words, 0)
        placed = state.by_slot["placed"][slots]
        risen = np.maximum(placed, PLACED_BELOW * state.topk.thresholds(slots))
        counts = [count_pairs(router.plan, carried, weights, messages, each) for each in (risen, placed)]
        return counts[0], counts[1]

    def _reweighed_keys(self, router: Router) -> Keys:
        """Return the keys of all scored subscriptions at home here, as words weigh now."""
        state = self.state
        if router.routes.is_everywhere or not state.n_weighed:
            return Keys.none()
        slots = state.ids.in_use()
        slots = slots[state.by_slot["home"][slots] == self.number]
        subscriptions = state.index.subscriptions(slots)
        scored = np.flatnonzero(subscriptions.kind != WITHIN)
        if not len(scored):
            return Keys.none()
        carried = PortableSubscriptions.of(subscriptions.take(scored), state.words)
        return self._placed_keys(carried.into(router.plan.words), router, state.by_slot["placed"][slots[scored]])

    def _reach(self, *, is_known_elsewhere: bool) -> NDArray[np.float64] | None:
        """Return by holder the score from which matching messages are routed here, or detected by copies."""
        topk = self.state.topk
        if topk is None or not len(topk):
            return None
        return topk.by_holder(self.state.by_slot["placed"], raised=is_known_elsewhere)

    def _thresholds_of_copies(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the numbers and thresholds of the top-k subscriptions here that have copies elsewhere."""
        state = self.state
        if state.topk is None or not len(state.topk):
            return np.empty(0, np.int64), np.empty(0)
        slots = state.topk.slots()
        slots = (
            slots[state.by_slot["copies"][slots] & ~np.uint64(1 << self.number) != 0] if self.number < 64 else slots[:0]
        )
        return state.by_slot["number"][slots], state.topk.thresholds(slots)


def _slots(piece: Piece) -> NDArray[np.int32]:
    return piece.slots if not hasattr(piece, "matches") else piece.matches.slots
