"""Reads the files of a batch: its messages in order, its changes, new keys and a new vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nearcast.columns import gathered
from nearcast.pipeline.batch.changes import BatchChanges
from nearcast.pipeline.batch.order import MessageSequence
from nearcast.pipeline.batch.router import NamedKeys, Router, encoded
from nearcast.pipeline.batch.segments import MessageSegment, concat
from nearcast.pipeline.store import pickles
from nearcast.pipeline.store.manifest_entries import BatchFiles
from nearcast.pipeline.store.state_cache import RecentByStore
from nearcast.pipeline.store.store import Store
from nearcast.text import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.plans import Keys


@dataclass(frozen=True)
class BatchInputs:
    """The messages of a batch in order, their words as strings, and all its changes."""

    files: BatchFiles
    segment: MessageSegment
    position: NDArray[np.int64]
    changes: BatchChanges | None
    growth: NamedKeys | None
    vocabulary: Vocabulary | None = None

    def __len__(self) -> int:
        return len(self.segment)

    def routed(self, partition: int, router: Router, own: Keys | None) -> NDArray[np.int64]:
        """Return the rows of the messages routed to a partition; `own` are keys it has from this batch on."""
        rows = self.segment.rows_of(partition)
        if len(rows) == len(self):
            return rows
        for more in (self._grown(router), own):
            if more is not None and len(more.word):
                rows = np.union1d(rows, self._with_keys(router, more)[partition])
        return rows

    def masks(self, router: Router) -> NDArray[np.uint64]:
        """Return for each message a bit mask of the partitions it is routed to."""
        everyone = np.uint64((1 << router.plan.partitions) - 1)
        if self.segment.route is None or self.segment.route_start is None:
            return np.full(len(self), everyone, np.uint64)
        mask = np.zeros(len(self), np.uint64)
        rows = np.repeat(np.arange(len(self)), np.diff(self.segment.route_start))
        np.bitwise_or.at(mask, rows, np.uint64(1) << self.segment.route.astype(np.uint64))
        grown = self._grown(router)
        if grown is not None:
            for partition, reached in enumerate(self._with_keys(router, grown)):
                mask[reached] |= np.uint64(1 << partition)
        return mask

    def _grown(self, router: Router) -> Keys | None:
        return None if self.growth is None else self.growth.into(router.plan)

    def _with_keys(self, router: Router, keys: Keys) -> list[NDArray[np.int64]]:
        """Return for each partition the messages that have one of its keys."""
        routes = type(router.routes)(router.plan.partitions, router.plan.grid)
        routes.add(keys)
        start, partition = routes.route(encoded(self.segment, router.plan))
        rows = np.repeat(np.arange(len(self)), np.diff(start))
        return [rows[partition == each] for each in range(router.plan.partitions)]


def read_inputs(store: Store, files: BatchFiles) -> BatchInputs:
    """Read the files of a batch; the last few batches stay in memory, for the other partitions of this process."""
    return _kept.get(store, files, lambda: _read(store, files))


#: The batch under way and the one before, which a worker may have to replay first.
_kept: RecentByStore[BatchInputs] = RecentByStore(2)


def _read(store: Store, files: BatchFiles) -> BatchInputs:
    segment = concat([MessageSegment.read(store.local(name)) for name in files.segments])
    position = np.empty(0, np.int64)
    if files.sequence is not None:
        sequence = MessageSequence.read(store.local(files.sequence))
        if not (sequence.is_as_laid and len(sequence) == len(segment)):
            segment = _reordered(segment, sequence.rows)
        position = sequence.position
        segment = replace(segment, messages=replace(segment.messages, steps=sequence.step, clock=sequence.clock))
    changes = None if files.changes is None else pickles.read(store.local(files.changes))
    assert changes is None or isinstance(changes, BatchChanges)
    growth = None if files.growth is None else NamedKeys.read(store.local(files.growth))
    vocabulary = None if files.vocabulary is None else Vocabulary.open(store.local(files.vocabulary))
    return BatchInputs(files, segment, position, changes, growth, vocabulary)


def _reordered(segment: MessageSegment, rows: NDArray[np.int64]) -> MessageSegment:
    if segment.route is None or segment.route_start is None:
        return replace(segment, messages=segment.messages.take(rows))
    start, positions = gathered(segment.route_start, rows)
    return MessageSegment(segment.messages.take(rows), segment.words, start, segment.route[positions])
