"""A partition: an engine over a share of the subscriptions, advanced batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import _arrow, engine
from nearcast.columns import TOPK, Messages
from nearcast.deliveries import ChangeDeliveries
from nearcast.engine.snapshot import open_files, save_files
from nearcast.indexes import create
from nearcast.pipeline.batch.changes import MOVE, SUBSCRIBE, UNSUBSCRIBE, BatchChanges, groups_at_ticks, own_changes
from nearcast.pipeline.batch.partition_deliveries import PartitionDeliveries
from nearcast.pipeline.copies.candidates import Candidates
from nearcast.pipeline.copies.detector import Detector
from nearcast.pipeline.divided_window.remote_window import RemoteWindow, use_remote_window
from nearcast.pipeline.host_window.host_window import HostWindow, use_host_window
from nearcast.pipeline.worker.batch_matcher import PartitionDelta, PartitionMatcher
from nearcast.pipeline.worker.carried_moves import CarriedMoves
from nearcast.pipeline.worker.needed_words import NeededWords
from nearcast.pipeline.worker.partition_keys import PLACED_BELOW, PartitionKeys
from nearcast.plans import Keys
from nearcast.text import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.deliveries import Piece
    from nearcast.pipeline.batch.inputs import BatchInputs
    from nearcast.pipeline.batch.router import Router
    from nearcast.pipeline.settings import PipelineSettings

_NEVER_PLACED = 0.0


@dataclass(frozen=True)
class BatchOutcome:
    """What a batch did in a partition: its deliveries, the delta that replays it, and the keys it needs from now on."""

    deliveries: list[PartitionDeliveries]
    delta: PartitionDelta
    keys: Keys
    routed: int
    #: Whether these keys are all that the partition needs, in place of those it had.
    has_all_keys: bool = False


class Partition:
    """The subscriptions of one partition.

    Beside what the engine keeps, each slot has the number its subscription registered under, the partitions that hold
    copies of it, and the threshold that its keys are good for. Copies of top-k subscriptions that have another home are
    no part of the engine: `detector` finds whom messages concern, and tells the partitions that own them.
    """

    def __init__(self, number: int, settings: PipelineSettings, state: engine.State, detector: Detector | None = None):
        self.number, self.settings, self.state = number, settings, state
        self.detector = Detector(settings.space, settings.index) if detector is None else detector
        self._words = NeededWords()

    @classmethod
    def empty(cls, number: int, settings: PipelineSettings, vocabulary: Vocabulary) -> Partition:
        """Return a partition without subscriptions."""
        state = engine.State(
            create(settings.index, settings.space),
            analyzer=settings.analyzer,
            vocabulary=vocabulary,
            window=settings.window,
            lifetime=settings.lifetime,
            tell_expiry=settings.tell_expiry,
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
        """Use a remote window where the settings divide it, or that of the host; return the partition."""
        if self.settings.window_by_host:
            use_host_window(self.state)
        elif self.settings.window_parts:
            use_remote_window(self.state)
        return self

    @property
    def host_window(self) -> HostWindow | None:
        """The window as this partition sees it, where the workers of a host share one."""
        topk = self.state.topk
        return topk.messages if topk is not None and isinstance(topk.messages, HostWindow) else None

    @property
    def remote_window(self) -> RemoteWindow | None:
        """The window as this partition sees it, where it is divided."""
        topk = self.state.topk
        return topk.messages if topk is not None and isinstance(topk.messages, RemoteWindow) else None

    @property
    def size(self) -> int:
        """How many subscriptions it has, and messages of the window: what saving it depends on."""
        topk = self.state.topk
        return self.state.index.n_slots + (0 if topk is None else topk.n_messages)

    def save(self, folder: Path) -> None:
        """Write everything into a new folder."""
        save_files(self.state, folder / "state")
        self.detector.save(folder / "detector")

    @classmethod
    def open(cls, number: int, settings: PipelineSettings, folder: Path) -> Partition:
        """Return what was saved; subscriptions are mapped, not copied."""
        state = open_files(folder / "state")
        state.renumbers, state.tell_expiry = False, settings.tell_expiry
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
        spare_keys: int = 0,
    ) -> BatchOutcome:
        """Apply the changes and match the messages of a batch, in order.

        With `recorded`, what an earlier run of the same batch noted, nobody is searched for and no delivery counts.
        `found` are top-k subscriptions that messages concern by what the detectors of other partitions say. When more
        than `spare_keys` are to be added to the routes, all that are needed are named instead.
        """
        state = self.state
        changes, mine = own_changes(inputs.changes, self.number)
        stored = None if changes is None else changes.subscriptions.into(state.words)
        needs = PartitionKeys(self.number, state, router, self._words)
        moves, own = None, Keys.none()
        if changes is not None and recorded is None:
            moves = needs.moves_of(changes, mine)
            own = needs.of_changes(changes, mine, moves)
        rows = np.empty(0, np.int64) if recorded is not None else inputs.routed(self.number, router, own)
        if state.topk is not None:
            state.topk.forget_words(state.weights)
        if state.live is not None:
            state.live.tidy()
        messages = (inputs.segment if state.has_steps else inputs.of_rows(rows)).messages_for(state)
        masks = inputs.masks(router) if router.plan.has_copies and recorded is None else None
        reach = self._reach(is_known_elsewhere=masks is not None) if recorded is None else None
        matcher = PartitionMatcher(self.number, state, rows, masks, recorded, found, len(inputs), reach)
        deliveries: list[PartitionDeliveries] = []
        done = 0
        for group in groups_at_ticks(changes, mine, inputs.position, self._ticks(inputs)):
            assert changes is not None
            last = int(np.searchsorted(inputs.position, changes.position[group.row]))
            deliveries += self._publish(messages, matcher, done, last)
            done = last
            if group.is_tick:
                deliveries += self._tick(changes, group.row)
            if len(group.rows):
                deliveries += self._change(changes, stored, group.rows, moves)
                moves = moves if changes.op[group.row] == MOVE else None
        deliveries += self._publish(messages, matcher, done, len(inputs))
        deliveries += self._end(inputs)
        keys = Keys.concat([own, self._keys_of_fallen(needs)])
        if inputs.vocabulary is not None:
            keys = Keys.concat([keys, needs.of_scored()])
        keys = needs.without_known(keys)
        has_all_keys = recorded is None and needs.can_shrink and len(keys.word) > spare_keys
        delta = matcher.delta(self._thresholds_of_copies(has_copies=router.plan.has_copies))
        if self.remote_window is not None:
            delta = replace(delta, answers=self.remote_window.used)
        if self.host_window is not None and recorded is None:
            delta = replace(delta, answers=self.host_window.records)
        return BatchOutcome(deliveries, delta, needs.of_all() if has_all_keys else keys, len(rows), has_all_keys)

    def _publish(
        self, messages: Messages, matcher: PartitionMatcher, first: int, last: int
    ) -> list[PartitionDeliveries]:
        """Publish the messages `first` to `last`; without window and lifetime, `messages` are those that come here."""
        if first == last:
            return []
        if self.state.has_steps:
            part = messages.part(first, last)
            return self._named_after_expiry(
                engine.step(self.state, engine.Publish(part, match=matcher.from_row(first)))
            )
        low, high = np.searchsorted(matcher.rows, [first, last]).tolist()
        if low == high:
            return []
        match = matcher.of_rows(matcher.rows[low:high])
        return self._named(engine.step(self.state, engine.Publish(messages.part(low, high), match=match)))

    def _named(self, pieces: list[Piece]) -> list[PartitionDeliveries]:
        if self.state.live is not None:
            pieces = [self._of_home(piece) for piece in pieces]
        number = self.state.by_slot["number"]
        return [PartitionDeliveries(piece, number[_slots(piece)]) for piece in pieces]

    def _named_after_expiry(self, pieces: list[Piece]) -> list[PartitionDeliveries]:
        """Return what messages or time delivered; in each step the expiry of messages goes before everything else."""
        named = self._named(pieces)
        if self.state.tell_expiry:
            for piece, number in named:
                if isinstance(piece, ChangeDeliveries):
                    expiry = np.flatnonzero((piece.ranks == 0) & ~_has_cause(piece))
                    number[expiry] = np.arange(len(expiry)) - len(expiry)
        return named

    def _of_home(self, piece: Piece) -> Piece:
        """Return deliveries without those of copies that no message caused: the home of each tells them."""
        if not isinstance(piece, ChangeDeliveries):
            return piece
        is_mine = self.state.by_slot["home"][piece.slots] == self.number
        if is_mine.all():
            return piece
        return piece.take(np.flatnonzero(is_mine | _has_cause(piece)))

    def _end(self, inputs: BatchInputs) -> list[PartitionDeliveries]:
        """Bring the clock to where the batch ends."""
        state, files = self.state, inputs.files
        deliveries: list[PartitionDeliveries] = []
        if files.beat is not None and state.has_steps:
            deliveries = self._advance(files.next_step - 1, files.beat)
        elif state.topk is None:
            self._bring_clock(files.next_step - 1, files.now)
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
        self,
        changes: BatchChanges,
        stored: Subscriptions | None,
        group: NDArray[np.int64],
        looked_up: CarriedMoves | None,
    ) -> list[PartitionDeliveries]:
        """Apply changes of one kind to subscriptions that differ; `looked_up` are moves, if only such went before."""
        op = int(changes.op[group[0]])
        if self.state.live is None or op != MOVE:
            self._bring_clock(int(changes.step[group[0]]), int(changes.clock[group[0]]))
        if op == SUBSCRIBE:
            assert stored is not None
            return self._subscribe(changes, stored, group)
        if op == UNSUBSCRIBE:
            self._unsubscribe(changes, group)
            return []
        return self._move(changes, group, looked_up)

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
        self._words.forget(slots[slots >= 0])
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

    def _move(
        self, changes: BatchChanges, group: NDArray[np.int64], looked_up: CarriedMoves | None
    ) -> list[PartitionDeliveries]:
        ids = changes.ids.take(_arrow.numbers(group))
        known = None if looked_up is None else looked_up.still_known(self.state, group)
        slots = self.state.ids.slots(ids) if known is None else known.slots
        if (slots < 0).any():
            here = np.flatnonzero(slots >= 0)
            group, ids = group[here], ids.take(_arrow.numbers(here))
        if not len(group):
            return []
        moves = changes.moves.take(changes.at[group])
        item = engine.Move(
            ids,
            moves.regions,
            changes.step[group],
            moves.points(),
            times=changes.time[group],
            clock=changes.clock[group],
            known=known,
        )
        return self._named(engine.step(self.state, item))

    # Time

    def _ticks(self, inputs: BatchInputs) -> NDArray[np.int64]:
        """Return the reports by which time tells something here: those that slide the window, or let a message end."""
        state, changes = self.state, inputs.changes
        if changes is None or state.live is None or not self.settings.tells_ticks:
            return np.empty(0, np.int64)
        ticks = np.flatnonzero(changes.is_tick)
        if self.settings.has_clock_steps:
            return ticks
        assert state.lifetime is not None
        given = inputs.segment.messages
        clock = given.time if given.clock is None else given.clock
        ends = np.sort(
            np.append(
                state.live.expires(state.live.expired(inputs.files.now)),
                state.lifetime.ends(given.time, given.expires, clock),
            )
        )
        n_over = np.searchsorted(ends, np.append(state.now, changes.clock[ticks]), side="right")
        return ticks[np.diff(n_over) > 0]

    def _tick(self, changes: BatchChanges, row: int) -> list[PartitionDeliveries]:
        """Move event time as a report does, which may be that of another partition's subscription."""
        step = int(changes.step[row]) - self.settings.has_clock_steps
        return self._advance(step, int(changes.clock[row]))

    def _advance(self, step: int, time: int) -> list[PartitionDeliveries]:
        """Move event time in the step of this number."""
        engine.step(self.state, engine.CountFrom(step))
        return self._named_after_expiry(engine.step(self.state, engine.Advance(time)))

    def catch_up(self, now: int) -> None:
        """Bring event time to where batches left it that are not replayed; for a partition without window and life."""
        if now > self.state.now:
            engine.step(self.state, engine.Advance(now))

    def _bring_clock(self, step: int, time: int) -> None:
        """Bring event time to where it is at a step, which tells nothing: what it tells was told when it moved."""
        state = self.state
        if state.live is None and state.topk is None:
            engine.step(state, engine.Advance(time))
        elif state.live is not None and time > state.now:
            self._advance(step, time)
            engine.step(state, engine.CountFrom(step))

    # Thresholds

    def _keys_of_fallen(self, needs: PartitionKeys) -> Keys:
        """Return the keys of top-k subscriptions whose threshold fell below the one they were placed with."""
        topk = self.state.topk
        if topk is None or not len(topk) or needs.has_everything:
            return Keys.none()
        fallen = topk.fallen_below(self.state.by_slot["placed"])
        if not len(fallen):
            return Keys.none()
        self.note(fallen, placed=PLACED_BELOW * topk.thresholds(fallen))
        return needs.of_slots(fallen)

    def _reach(self, *, is_known_elsewhere: bool) -> NDArray[np.float64] | None:
        """Return by holder the score from which matching messages are routed here, or detected by copies."""
        topk = self.state.topk
        if topk is None or not len(topk):
            return None
        return topk.by_holder(self.state.by_slot["placed"], raised=is_known_elsewhere)

    def _thresholds_of_copies(self, *, has_copies: bool) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the numbers and thresholds of the top-k subscriptions here that have copies elsewhere."""
        state = self.state
        if not has_copies or state.topk is None or not len(state.topk):
            return np.empty(0, np.int64), np.empty(0)
        slots = state.topk.slots()
        slots = (
            slots[state.by_slot["copies"][slots] & ~np.uint64(1 << self.number) != 0] if self.number < 64 else slots[:0]
        )
        return state.by_slot["number"][slots], state.topk.thresholds(slots)


def _has_cause(piece: ChangeDeliveries) -> NDArray[np.bool_]:
    """Tell which deliveries a message caused."""
    none: Any = None  # which NumPy's types do not allow for
    has_cause: NDArray[np.bool_] = np.not_equal(piece.cause_ids, none).astype(np.bool_)
    return has_cause


def _slots(piece: Piece) -> NDArray[np.int32]:
    return piece.slots if not hasattr(piece, "matches") else piece.matches.slots
