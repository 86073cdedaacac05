"""Puts what was read of a batch into one order: numbers its steps, registers its changes, writes both for workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast import engine
from nearcast.columns import NO_TIME
from nearcast.pipeline.batch.changes import BatchChanges, SourceChanges
from nearcast.pipeline.batch.event_clock import EventClock
from nearcast.pipeline.batch.order import AheadLimit, BatchOrder, MessageSequence, SourceTimes, put_in_order
from nearcast.pipeline.batch.router import NamedKeys
from nearcast.pipeline.driver.pending_changes import PendingChanges
from nearcast.pipeline.driver.registrar import Registrar
from nearcast.pipeline.store import pickles
from nearcast.pipeline.store.manifest_entries import BatchFiles
from nearcast.plans import Keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.pipeline.driver.state import DriverState
    from nearcast.pipeline.settings import PipelineSettings
    from nearcast.pipeline.worker.source_reader import ReadResult
    from nearcast.tables import Rejected


class MessageCount(NamedTuple):
    """How many messages of a batch were published, and how many of these came too late for the window."""

    published: int
    late: int


class SequencedBatch(NamedTuple):
    """The files of a batch that workers read, the changes that were accepted, and the keys of what these place."""

    files: BatchFiles
    changes: BatchChanges | None
    keys: Keys
    messages: MessageCount


class BatchSequencer:
    """Puts the sources of one batch in order; what cannot be is added to `rejected`."""

    def __init__(
        self, state: DriverState, batch: int, rejected: Rejected, limit: AheadLimit | None, *, by_time: bool = True
    ):
        self._state, self._settings, self._batch = state, state.settings, batch
        self._rejected, self._limit, self._by_time = rejected, limit, by_time

    def put_in_order(self, reads: Sequence[ReadResult], beat: int | None, vocabulary: str | None) -> SequencedBatch:
        """Number the steps of a batch; write the sequence of its messages and the changes that were accepted."""
        state = self._state
        reads = self._of_one_id_type(reads)
        messages = [each for each in reads if each.kind == "messages" and each.segment is not None]
        changes = [each for each in reads if each.changes is not None and len(each.changes)]
        order = put_in_order(_sources(messages), _sources(changes), by_time=self._by_time)
        clock = EventClock(order, state.now, self._limit, reports_move=self._settings.lifetime is not None)
        given = [each.changes for each in changes if each.changes]
        batch_changes, keys = self._register(given, order, clock)
        clock.finish()
        untimely, n_late = self._untimely(messages, order, clock)
        has_steps = self._settings.has_steps
        first_step = state.manifest.next_step + (vocabulary is not None and has_steps)
        kept = np.flatnonzero(~untimely)
        position = order.message_position[kept]
        message_step, change_step, next_step = _steps(position, batch_changes, first_step, self._settings)
        now = clock.now
        if beat is not None:
            now = max(now, beat)
            next_step += has_steps
        sequenced = MessageSequence(order.message[kept], position, message_step, clock.message_clock[kept])
        sequence = self._put("sequences", sequenced.write, ".npy") if len(kept) else None
        if batch_changes is not None:
            batch_changes = replace(batch_changes, step=change_step)
        files = BatchFiles(
            batch=self._batch,
            segments=tuple(str(each.segment) for each in messages) if len(kept) else (),
            sequence=sequence,
            changes=None
            if batch_changes is None
            else pickles.put(state.store, "changes", self._batch, None, batch_changes),
            growth=self._growth_of_copies(keys),
            next_step=next_step,
            now=now,
            beat=beat,
            vocabulary=vocabulary,
        )
        state.directory.forget_expired(now)
        return SequencedBatch(files, batch_changes, keys, MessageCount(len(kept), n_late))

    def _put(self, kind: str, write: Callable[[Path], object], suffix: str = ".pickle") -> str:
        store = self._state.store
        return store.put_summed(store.unique(kind, self._batch, suffix=suffix), write).name

    def _untimely(
        self, messages: Sequence[ReadResult], order: BatchOrder, clock: EventClock
    ) -> tuple[NDArray[np.bool_], int]:
        """Reject messages from the future, those that are over, and those without the time that a window needs.

        Return which these are, in order, and how many of the others come too late for the window.
        """
        window, time = self._settings.window, order.message_time
        late = np.zeros(len(time), np.bool_) if window is None else window.is_late(time, clock.message_clock)
        reasons = self._over(messages, order, clock)
        for i in np.flatnonzero(late & (time == NO_TIME)).tolist():
            assert window is not None
            reasons[i] = ("time", engine.why_untimed(window))
        for i in np.flatnonzero(clock.ahead).tolist():
            assert self._limit is not None
            reasons[i] = ("time", self._limit.why(int(time[i]), int(clock.message_clock[i])))
        untimely = np.zeros(len(time), np.bool_)
        untimely[list(reasons)] = True
        if reasons:
            source = [(each.source, int(row)) for each in messages for row in each.row]
            for i, (field, reason) in sorted(reasons.items()):
                self._rejected.add(*source[int(order.message[i])], None, field, reason)
        n_late = int(np.count_nonzero(late & ~untimely))
        if n_late and window is not None:
            self._rejected.warn(engine.about_late(window))
        return untimely, n_late

    def _over(self, messages: Sequence[ReadResult], order: BatchOrder, clock: EventClock) -> dict[int, tuple[str, str]]:
        """Return field and reason, by message in order, of those that are expired on arrival."""
        if self._settings.lifetime is None:
            return {}
        expires = np.concatenate([np.empty(0, np.int64), *(each.expires for each in messages)])[order.message]
        faults = self._settings.lifetime.faults_at(order.message_time, expires, clock.message_clock)
        return {row: (field, reason) for row, field, reason in faults}

    def _of_one_id_type(self, reads: Sequence[ReadResult]) -> list[ReadResult]:
        """Reject the rows of sources whose ids are not of the type of the first, which all ids of a stream have."""
        kept = []
        known = list(self._state.id_types)
        for each in reads:
            at = 0 if each.kind == "changes" else 1
            if not len(each.time):
                continue
            if known[at] is None:
                known[at] = each.id_type
            if known[at] != each.id_type:
                types = ("text", "an integer") if known[at] == "string" else ("integers", "text")
                reason = f"ids in this stream are {types[0]}, as the first ones were; this one is {types[1]}"
                for row in each.row.tolist():
                    self._rejected.add(each.source, row, None, "id", reason)
                continue
            kept.append(each)
        self._state.id_types = (known[0], known[1])
        return kept

    def _register(
        self, changes: list[SourceChanges], order: BatchOrder, clock: EventClock
    ) -> tuple[BatchChanges | None, Keys]:
        if not changes:
            return None, Keys.none()
        state = self._state
        pending = PendingChanges.of(changes, state.router.plan.words)
        registrar = Registrar(state.directory, state.router.plan, state.weights, self._rejected)
        batch_changes, keys = registrar.register(pending, order, clock, self._limit)
        return (batch_changes if len(batch_changes) else None), keys

    def _growth_of_copies(self, keys: Keys) -> str | None:
        """Write the keys of what this batch places, for plans with copies: whoever holds one must know the others'."""
        plan = self._state.router.plan
        if not plan.has_copies or not len(keys.word):
            return None
        return self._put("growth", NamedKeys.of(keys, plan).write)


def _sources(reads: Sequence[ReadResult]) -> list[SourceTimes]:
    return [SourceTimes(each.source, each.time, each.row) for each in reads]


def _steps(
    position: NDArray[np.int64], batch_changes: BatchChanges | None, first: int, settings: PipelineSettings
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the steps of messages and of changes, by position, and the next step after them.

    Where the clock that a report moves is a step of its own, it is the one before that of the report.
    """
    changes = np.empty(0, np.int64) if batch_changes is None else batch_changes.position
    if settings.has_steps:
        own = np.empty(0, np.int64)
        if batch_changes is not None and settings.has_clock_steps:
            own = changes[batch_changes.is_tick]
        merged = np.sort(np.concatenate([position, changes, own]))
        message_step, change_step = (np.searchsorted(merged, each, side="right") - 1 for each in (position, changes))
        return first + message_step, first + change_step, first + len(merged)
    numbers = first + np.arange(len(position))
    return numbers, first + np.searchsorted(position, changes), first + len(position)
