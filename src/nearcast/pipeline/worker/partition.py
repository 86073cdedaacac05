"""A partition: an engine over the subscriptions that live here, taken from one batch to the next."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import _arrow, engine
from nearcast.columns import TOPK, WITHIN, Messages
from nearcast.engine.moves import moved_row
from nearcast.engine.snapshot import open_files, save_files
from nearcast.geo import Regions
from nearcast.indexes import create
from nearcast.pipeline.batch.changes import MOVE, SUBSCRIBE, UNSUBSCRIBE, Registered, groups_of
from nearcast.pipeline.batch.partition_deliveries import Told
from nearcast.pipeline.batch.portable_subscriptions import Carried
from nearcast.pipeline.copies.candidates import Candidates
from nearcast.pipeline.copies.detector import Detector
from nearcast.pipeline.divided_window.remote_window import AskingIndex, let_ask
from nearcast.pipeline.worker.batch_matcher import Delta, Matcher
from nearcast.plans import Keys
from nearcast.text import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.deliveries import Piece
    from nearcast.pipeline.batch.inputs import Inputs
    from nearcast.pipeline.batch.router import Router
    from nearcast.pipeline.settings import Settings

#: A top-k subscription is placed as if its threshold were this much lower: it may fall so far before it needs more.
PLACED_BELOW = 0.8
_NEVER_PLACED = 0.0


@dataclass(frozen=True)
class Outcome:
    """What a batch did in a partition: what is told, what is needed to do it again, which keys it needs from now on."""

    told: list[Told]
    delta: Delta
    keys: Keys
    routed: int
    seconds: float


class Partition:
    """The subscriptions of one partition.

    Beside what the engine keeps, each slot has the number its subscription registered under, the partitions that hold
    copies of it, and the threshold that its keys are good for. Copies of top-k subscriptions that have another home are
    no part of the engine: `detector` finds whom messages concern, and their homes are told.
    """

    def __init__(self, number: int, settings: Settings, state: engine.State, detector: Detector | None = None):
        self.number, self.settings, self.state = number, settings, state
        self.detector = Detector(settings.space, settings.index) if detector is None else detector

    @classmethod
    def empty(cls, number: int, settings: Settings, vocabulary: Vocabulary) -> Partition:
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
        """Hold no messages of the window but ask for them, where the settings divide it; return the partition."""
        if self.settings.window_parts:
            let_ask(self.state)
        return self

    @property
    def asking(self) -> AskingIndex | None:
        """What asks for the window, where it is divided."""
        topk = self.state.topk
        return topk.messages if topk is not None and isinstance(topk.messages, AskingIndex) else None

    def save(self, folder: Path) -> None:
        """Write everything into a new folder."""
        save_files(self.state, folder / "state")
        self.detector.save(folder / "detector")

    @classmethod
    def open(cls, number: int, settings: Settings, folder: Path) -> Partition:
        """Return what was saved; subscriptions are mapped, not copied."""
        state = open_files(folder / "state")
        state.renumbers = False
        detector = Detector.open(folder / "detector", settings.space, settings.index)
        return cls(number, settings, state, detector).with_window_elsewhere()

    # A batch

    def run(
        self, inputs: Inputs, router: Router, *, recorded: Delta | None = None, found: Candidates | None = None
    ) -> Outcome:
        """Take a batch in: its changes and its messages, in order.

        With `recorded`, what an earlier run of the same batch noted, nobody is searched for and nothing told counts.
        `found` are top-k subscriptions that messages concern by what the detectors of other partitions say.
        """
        began = time.perf_counter()
        state, changes = self.state, inputs.changes
        mine = np.empty(0, np.int64) if changes is None else changes.of_partition(self.number)
        stored = None if changes is None else changes.subscriptions.into(state.words)
        own = self._keys_of(changes, mine, router) if changes is not None else Keys.none()
        rows = np.empty(0, np.int64) if recorded is not None else inputs.routed(self.number, router, own)
        if state.topk is not None:
            state.topk.forget_words(state.weights)
        messages = inputs.messages_for(state)
        masks = inputs.masks(router) if router.plan.has_copies and recorded is None else None
        reach = self._reach(is_known_elsewhere=masks is not None) if recorded is None else None
        matcher = Matcher(self.number, state, rows, masks, recorded, found, len(inputs), reach)
        told: list[Told] = []
        done = 0
        for group in groups_of(changes, mine, inputs.position):
            assert changes is not None
            last = int(np.searchsorted(inputs.position, changes.position[group[0]]))
            told += self._publish(messages, matcher, done, last)
            done = last
            told += self._change(changes, stored, group)
        told += self._publish(messages, matcher, done, len(messages))
        told += self._end(inputs)
        keys = Keys.concat([own, self._grown_keys(router)])
        if inputs.vocabulary is not None:
            keys = Keys.concat([keys, self._reweighed_keys(router)])
        seconds = time.perf_counter() - began
        delta = matcher.delta(self._thresholds_of_copies())
        if self.asking is not None:
            delta = replace(delta, answers=self.asking.used)
        return Outcome(told, delta, keys, len(rows), seconds)

    def _publish(self, messages: Messages, matcher: Matcher, first: int, last: int) -> list[Told]:
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

    def _named(self, pieces: list[Piece]) -> list[Told]:
        number = self.state.by_slot["number"]
        return [Told(piece, number[_slots(piece)]) for piece in pieces]

    def _end(self, inputs: Inputs) -> list[Told]:
        """Bring the clock to where the batch ends."""
        state, files = self.state, inputs.files
        told: list[Told] = []
        if files.beat is not None and state.topk is not None:
            engine.step(state, engine.CountFrom(files.next_step - 1))
            told = self._named(engine.step(state, engine.Advance(files.beat)))
        elif state.topk is None:
            engine.step(state, engine.Advance(files.now))
        engine.step(state, engine.CountFrom(files.next_step))
        engine.renumber_if_sparse(state)
        return told

    def use_vocabulary(self, vocabulary: Vocabulary) -> list[Told]:
        """Weigh all words by another vocabulary from now on; return how the answers differ, in one step."""
        pieces = engine.step(self.state, engine.UseVocabulary(vocabulary))
        self.detector.reweigh(self.state.words, self.state.weights)
        return self._named(pieces)

    # Changes

    def _change(self, changes: Registered, stored: Subscriptions | None, group: NDArray[np.int64]) -> list[Told]:
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

    def _subscribe(self, changes: Registered, stored: Subscriptions, group: NDArray[np.int64]) -> list[Told]:
        subscriptions = stored.take(changes.at[group])
        is_home = changes.home[group] == self.number
        to_engine = is_home | ((subscriptions.kind != TOPK) & changes.has_copy(group, self.number))
        self._forget(changes.ids, group[~to_engine], changes)
        if not to_engine.any():
            return []
        part = np.flatnonzero(to_engine)
        return self._store(subscriptions.take(part), changes, group[part])

    def _store(self, subscriptions: Subscriptions, changes: Registered, rows: NDArray[np.int64]) -> list[Told]:
        pieces = engine.step(self.state, engine.Subscribe(subscriptions, changes.step[rows]))
        slots = self.state.ids.slots(subscriptions.ids)
        alive = slots >= 0  # what had expired already is gone again
        copies = np.zeros(len(rows), np.uint64) if changes.copies is None else changes.copies[rows]
        rows = rows[alive]
        self.note(slots[alive], number=changes.number[rows], home=changes.home[rows], copies=copies[alive])
        return self._named(pieces)

    def note(self, slots: NDArray[np.int32], **columns: NDArray[Any]) -> None:
        """Write what is known of slots beside the engine."""
        by_slot = self.state.by_slot
        for name, column in by_slot.items():
            if len(column) < self.state.index.n_slots:
                grown = np.zeros(self.state.index.n_slots * 3 // 2 + 16, column.dtype)
                grown[: len(column)] = column
                by_slot[name] = grown
        for name, values in {"placed": np.full(len(slots), _NEVER_PLACED), **columns}.items():
            by_slot[name][slots] = values

    def _unsubscribe(self, changes: Registered, group: NDArray[np.int64]) -> None:
        self._forget(changes.ids, group, changes)

    def _forget(self, ids: pa.Array, rows: NDArray[np.int64], changes: Registered) -> None:
        """Forget subscriptions as far as the engine has them."""
        if not len(rows):
            return
        gone = ids.take(_arrow.numbers(rows))
        known = np.flatnonzero(self.state.ids.slots(gone) >= 0)
        if len(known):
            engine.step(self.state, engine.Unsubscribe(gone.take(_arrow.numbers(known)), changes.step[rows[known]]))

    def _move(self, changes: Registered, group: NDArray[np.int64]) -> list[Told]:
        ids = changes.ids.take(_arrow.numbers(group))
        moves = changes.moves.take(changes.at[group])
        slots = self.state.ids.slots(ids)
        here = np.flatnonzero(slots >= 0)
        if not len(here):
            return []
        held = self.state.index.subscriptions(slots[here])
        shapes = []
        for at, row in enumerate(here.tolist()):
            shape = moves.regions.shape_of(row)
            if moves.is_point[row]:
                x, y = moves.point[row].tolist()
                shape = moved_row(held, at, x, y, self.settings.space)
            shapes.append(shape)
        regions = Regions.from_shapes(shapes, self.settings.space)
        moved = ids.take(_arrow.numbers(here))
        return self._named(engine.step(self.state, engine.Move(moved, regions, changes.step[group[here]])))

    # Keys and thresholds

    def _keys_of(self, changes: Registered, mine: NDArray[np.int64], router: Router) -> Keys:
        """Return the keys that bring what changes here its messages; with copies, the plan has seen to them."""
        rows = mine[changes.home[mine] == self.number]
        if router.plan.has_copies or router.routes.is_everywhere or not len(rows):
            return Keys.none()
        wanted = self._as_changed(changes, rows)
        return Keys.concat([self._placed_keys(each.into(router.plan.words), router, None) for each in wanted])

    def _as_changed(self, changes: Registered, rows: NDArray[np.int64]) -> list[Carried]:
        """Return the subscriptions of these changes as each change leaves them."""
        stored = rows[changes.op[rows] == SUBSCRIBE]
        result = [changes.subscriptions.take(changes.at[stored])] if len(stored) else []
        latest: dict[int, Carried] = {}
        moved = set(changes.number[rows[changes.op[rows] == MOVE]].tolist())
        for row in rows[np.isin(changes.number[rows], list(moved))].tolist():
            number, at = int(changes.number[row]), int(changes.at[row])
            if changes.op[row] == SUBSCRIBE:
                latest[number] = changes.subscriptions.take(np.array([at]))
                continue
            before = latest.get(number) or self._held(changes, row)
            if changes.op[row] != MOVE or before is None:
                continue
            shape = changes.moves.regions.shape_of(at)
            if changes.moves.is_point[at]:
                x, y = changes.moves.point[at].tolist()
                shape = moved_row(before.subscriptions, 0, x, y, self.settings.space)
            regions = Regions.from_shapes([shape], self.settings.space)
            latest[number] = replace(before, subscriptions=before.subscriptions.with_regions(regions))
            result.append(latest[number])
        return result

    def _held(self, changes: Registered, row: int) -> Carried | None:
        """Return the subscription of a change as it is held at present."""
        slot = self.state.ids.slot(changes.ids[row].as_py())
        if slot < 0:
            return None
        return Carried.of(self.state.index.subscriptions(np.array([slot], np.int32)), self.state.words)

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
        subscriptions = Carried.of(state.index.subscriptions(fallen), state.words).into(router.plan.words)
        return self._placed_keys(subscriptions, router, placed)

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
        carried = Carried.of(subscriptions.take(scored), state.words)
        return self._placed_keys(carried.into(router.plan.words), router, state.by_slot["placed"][slots[scored]])

    def _reach(self, *, is_known_elsewhere: bool) -> NDArray[np.float64] | None:
        """Return by holder from which score on messages are brought here, or found elsewhere by copies."""
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
