"""Matches the messages of a batch in a partition: by its index, by candidates of copies, or from a recorded delta."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nearcast.indexes import Matches
from nearcast.pipeline.copies.candidates import Candidates
from nearcast.pipeline.copies.home_slots import HomeSlots
from nearcast.pipeline.store import pickles
from nearcast.plans.base import answers_here

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.engine import State
    from nearcast.pipeline.divided_window.remote_window import AnswersByQuestion
    from nearcast.pipeline.host_window.host_window import SearchRecord


@dataclass(frozen=True)
class PartitionDelta:
    """A record that replays a batch without searching: the top-k subscriptions that each message matched.

    `copy_number` and `copy_threshold` are the thresholds after it of those that have copies in other partitions.
    """

    start: NDArray[np.int64]
    slot: NDArray[np.int32]
    score: NDArray[np.float64]
    copy_number: NDArray[np.int64]
    copy_threshold: NDArray[np.float64]
    #: What message partitions answered, where the window is divided; where hosts share it, what searches found.
    answers: AnswersByQuestion | list[SearchRecord] | None = None

    @classmethod
    def read(cls, path: Path) -> PartitionDelta:
        """Return what was written; `IncompatibleStore` if it is damaged."""
        found = pickles.read(path)
        assert isinstance(found, cls)
        return found


class PartitionMatcher:
    """Matches the messages of one batch, and records the matches of top-k subscriptions for the delta.

    `rows` are the messages that come to this partition. With `masks`, the partitions each message goes to, a
    subscription that has copies is answered for by the first partition that both have in common.

    What comes here, and what copies elsewhere find, is all that scores at least the thresholds `reach`, by holder: once
    a top-k subscription falls below its own, all messages are searched.
    """

    def __init__(
        self,
        partition: int,
        state: State,
        rows: NDArray[np.int64],
        masks: NDArray[np.uint64] | None,
        recorded: PartitionDelta | None,
        found: Candidates | None,
        n_messages: int,
        reach: NDArray[np.float64] | None = None,
    ):
        self.rows = rows
        self._partition, self._state, self._masks = partition, state, masks
        self._recorded, self._found = recorded, found
        self._n_messages = n_messages
        self._reach = reach if len(rows) < n_messages else None
        self._noted: list[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]] = []

    def from_row(self, first: int) -> Callable[[Messages, int], Matches]:
        """Return the search for messages that begin at row `first` of the batch."""
        return lambda messages, at: self._window_matches(messages, first + at)

    def of_rows(self, rows: NDArray[np.int64]) -> Callable[[Messages, int], Matches]:
        """Return the search for these rows of the batch, where there is no window."""
        return lambda messages, _: self._answered(messages, rows)

    def _answered(self, messages: Messages, rows: NDArray[np.int64]) -> Matches:
        if self._recorded is not None:
            return _none(len(messages))
        matches = self._state.index.match(messages)
        return matches if self._masks is None else self._first_in_common(matches, self._masks[rows])

    def _window_matches(self, messages: Messages, first: int) -> Matches:
        last = first + len(messages)
        if self._recorded is not None:
            return _part(self._recorded.start, self._recorded.slot, self._recorded.score, first, last)
        rows = self.rows[np.searchsorted(self.rows, first) : np.searchsorted(self.rows, last)]
        if self._has_fallen():
            rows = np.arange(first, last)
        if len(rows) == len(messages):
            matches = self._answered(messages, rows)
        elif len(rows):
            matches = _spread(self._answered(messages.take(rows - first), rows), rows - first, len(messages))
        else:
            matches = _none(len(messages))
        if self._found is not None:
            assert self._state.topk is not None
            matches = _united(matches, self._found.for_state(self._state.topk, self._homes, first, last))
        self._note(matches, first)
        return matches

    @cached_property
    def _homes(self) -> HomeSlots:
        return HomeSlots(self._state)

    def _has_fallen(self) -> bool:
        """Tell whether a top-k threshold fell so low that messages may match which are not routed here."""
        if self._reach is None:
            return False
        assert self._state.topk is not None
        return self._state.topk.has_fallen_below(self._reach)  # later holders are new, and get all they need

    def _first_in_common(self, matches: Matches, masks: NDArray[np.uint64]) -> Matches:
        """Leave out what another partition answers for; top-k subscriptions are kept, for they are at home here."""
        copies = self._state.by_slot["copies"][matches.slots]
        routes = np.repeat(masks, np.diff(matches.start))
        kept = (copies == 0) | answers_here(copies, routes, self._partition) | self._is_topk(matches.slots)
        return _filtered(matches, kept)

    def _is_topk(self, slots: NDArray[np.int32]) -> NDArray[np.bool_]:
        topk = self._state.topk
        return np.zeros(len(slots), np.bool_) if topk is None else topk.is_held(slots)

    def _note(self, matches: Matches, first: int) -> None:
        held = np.flatnonzero(self._is_topk(matches.slots))
        self._noted.append((first + matches.rows()[held], matches.slots[held], matches.score[held]))

    def delta(self, copies: tuple[NDArray[np.int64], NDArray[np.float64]]) -> PartitionDelta:
        """Return what was answered about top-k subscriptions."""
        if self._recorded is not None:
            return self._recorded
        rows = np.concatenate([np.empty(0, np.int64), *(noted[0] for noted in self._noted)])
        start = np.zeros(self._n_messages + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=self._n_messages), out=start[1:])
        slots = np.concatenate([np.empty(0, np.int32), *(noted[1] for noted in self._noted)])
        scores = np.concatenate([np.empty(0), *(noted[2] for noted in self._noted)])
        return PartitionDelta(start, slots, scores, *copies)


def _none(n: int) -> Matches:
    return Matches(np.zeros(n + 1, np.int64), np.empty(0, np.int32), np.empty(0), 0, 0)


def _part(
    start: NDArray[np.int64], slots: NDArray[np.int32], score: NDArray[np.float64], first: int, last: int
) -> Matches:
    """Return the answers for messages `first` to `last`."""
    low, high = int(start[first]), int(start[last])
    return Matches(start[first : last + 1] - low, slots[low:high], score[low:high], 0, 0)


def _spread(matches: Matches, rows: NDArray[np.int64], n: int) -> Matches:
    """Return matches of some rows of n as matches of all n."""
    length = np.zeros(n, np.int64)
    length[rows] = np.diff(matches.start)
    start = np.zeros(n + 1, np.int64)
    np.cumsum(length, out=start[1:])
    return Matches(start, matches.slots, matches.score, matches.candidates, matches.verified)


def _filtered(matches: Matches, kept: NDArray[np.bool_]) -> Matches:
    start = np.append(0, np.cumsum(kept))[matches.start]
    return Matches(start, matches.slots[kept], matches.score[kept], matches.candidates, matches.verified)


def _united(one: Matches, other: Matches) -> Matches:
    """Return the answers of both, each slot once for a message, slots ascending."""
    if not len(other.slots):
        return one
    rows = np.concatenate([one.rows(), other.rows()])
    slots, score = np.concatenate([one.slots, other.slots]), np.concatenate([one.score, other.score])
    order = np.lexsort((slots, rows))
    rows, slots, score = rows[order], slots[order], score[order]
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = (rows[1:] != rows[:-1]) | (slots[1:] != slots[:-1])
    start = np.zeros(len(one.start), np.int64)
    np.cumsum(np.bincount(rows[is_new], minlength=len(start) - 1), out=start[1:])
    return Matches(start, slots[is_new], score[is_new], one.candidates, one.verified)
