"""Reads the files of a batch: its messages in order, its changes, new keys and a new vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nearcast.columns import gathered, joined
from nearcast.pipeline.batch.changes import BatchChanges
from nearcast.pipeline.batch.order import MessageSequence
from nearcast.pipeline.batch.router import NamedKeys, Router, encoded
from nearcast.pipeline.batch.segments import MessageSegment, concat, taken
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
    """The messages of a batch as its sources have them, their order, and all its changes.

    What is made of them is made when it is asked for: a partition that needs only its own messages copies no others.
    """

    files: BatchFiles
    sources: tuple[MessageSegment, ...]
    sequence: MessageSequence
    changes: BatchChanges | None
    growth: NamedKeys | None
    vocabulary: Vocabulary | None = None

    def __len__(self) -> int:
        return len(self.sequence)

    @property
    def position(self) -> NDArray[np.int64]:
        """The place of each message among all messages and changes of the batch."""
        return self.sequence.position

    @cached_property
    def segment(self) -> MessageSegment:
        """All messages in order, their words as strings."""
        segment = concat(self.sources)
        if not self._is_as_laid:
            segment = taken(segment, self.sequence.rows)
        return _timed(segment, self.sequence.step, self.sequence.clock)

    @cached_property
    def _is_as_laid(self) -> bool:
        return self.sequence.is_as_laid and len(self) == sum(map(len, self.sources))

    @cached_property
    def _routes(self) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """The partitions each message goes to, in order, as a column of lists; None for all of them."""
        starts = [each.route_start for each in self.sources if each.route_start is not None]
        routes = [each.route for each in self.sources if each.route is not None]
        if len(starts) < len(self.sources) or not starts:
            return None
        start, route = joined(starts), np.concatenate(routes)
        if self._is_as_laid:
            return start, route
        start, positions = gathered(start, self.sequence.rows)
        return start, route[positions]

    def routed(self, partition: int, router: Router, own: Keys | None) -> NDArray[np.int64]:
        """Return the rows of the messages routed to a partition; `own` are keys it has from this batch on."""
        if self._routes is None:
            return np.arange(len(self))
        start, route = self._routes
        rows: NDArray[np.int64] = np.repeat(np.arange(len(self)), np.diff(start))[route == partition]
        if len(rows) == len(self):
            return rows
        for more in (self._grown(router), own):
            if more is not None and len(more.word):
                rows = np.union1d(rows, self._with_keys(router, more)[partition])
        return rows

    def of_rows(self, rows: NDArray[np.int64]) -> MessageSegment:
        """Return the messages of these rows, which ascend, with their words alone."""
        if len(rows) == len(self):
            return self.segment
        laid = self.sequence.rows[rows]
        ends = np.cumsum([0, *map(len, self.sources)])
        order = np.argsort(laid, kind="stable")
        cuts = np.searchsorted(laid[order], ends)
        found = [
            taken(source, laid[order[low:high]] - end).with_used_words()
            for source, end, low, high in zip(self.sources, ends[:-1], cuts[:-1], cuts[1:], strict=True)
            if low < high
        ]
        segment = concat(found)
        if (np.diff(laid) < 0).any():
            segment = taken(segment, np.argsort(order))
        return _timed(segment, self.sequence.step[rows], self.sequence.clock[rows])

    def masks(self, router: Router) -> NDArray[np.uint64]:
        """Return for each message a bit mask of the partitions it is routed to."""
        everyone = np.uint64((1 << router.plan.partitions) - 1)
        if self._routes is None:
            return np.full(len(self), everyone, np.uint64)
        start, route = self._routes
        mask = np.zeros(len(self), np.uint64)
        np.bitwise_or.at(mask, np.repeat(np.arange(len(self)), np.diff(start)), np.uint64(1) << route.astype(np.uint64))
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
    sources = tuple(MessageSegment.read(store.local(name)) for name in files.segments)
    sequence = MessageSequence.none() if files.sequence is None else MessageSequence.read(store.local(files.sequence))
    changes = None if files.changes is None else pickles.read(store.local(files.changes))
    assert changes is None or isinstance(changes, BatchChanges)
    growth = None if files.growth is None else NamedKeys.read(store.local(files.growth))
    vocabulary = None if files.vocabulary is None else Vocabulary.open(store.local(files.vocabulary))
    return BatchInputs(files, sources, sequence, changes, growth, vocabulary)


def _timed(segment: MessageSegment, step: NDArray[np.int64], clock: NDArray[np.int64]) -> MessageSegment:
    return replace(segment, messages=replace(segment.messages, steps=step, clock=clock))
