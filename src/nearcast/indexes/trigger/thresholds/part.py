"""The part of the trigger index that holds top-k subscriptions, whose thresholds move."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.indexes.trigger.thresholds.batch_match import ThresholdMatcher
from nearcast.indexes.trigger.thresholds.components import (
    Component,
    ThresholdDelta,
    ThresholdSegment,
    copy_changes,
    note_thresholds,
)
from nearcast.indexes.trigger.thresholds.layout import build_lists, bundles_of
from nearcast.indexes.trigger.thresholds.list_checks import check_lists, map_lists
from nearcast.indexes.trigger.thresholds.rows import (
    ThresholdRows,
    enter_slots,
    join_rows,
    rows_of,
    subscriptions_of,
    take_rows,
    weigh,
)
from nearcast.indexes.trigger.thresholds.scratch import ThresholdBatch
from nearcast.saved_files.arrays import SavedArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions
    from nearcast.geo import Space
    from nearcast.indexes import Matches
    from nearcast.indexes.shared.undo import UndoLog

#: Lists are merged with all smaller ones that together have at least one row for so many of theirs, so that two thirds
#: of all rows are in one. A message tries several lists longer than one of the same rows: its triggers are more alike.
_ROWS_FOR_ONE = 2
#: The rows of a delta of other kinds for one of this delta.
_SMALLER = 4
#: New rows are laid out before a search of the window gives them thresholds. Lists of so many rows, of which this share
#: has got one, are laid out again: by thresholds triggers are more alike, and fewer are looked at.
_LAID_OUT_AGAIN, _LEARNED_SHARE = 1 << 14, 8
#: Changes during a merge that are worth another round outside the lock, and how many rounds.
_FEW_CHANGES, _ROUNDS = 1000, 10
_NOWHERE = -1
_ROW_BITS = 32
_ROW = (1 << _ROW_BITS) - 1


class ThresholdPart:
    """Top-k rows under the slots of an index, which calls everything here under its lock unless told otherwise.

    Changes run within a change of the index and note in its undo log what they overwrite.

    `_where[slot]` is the component of a slot and the row it has there, in one number. Components are lists of triggers
    that keep their layout, and a delta that grows until it becomes lists, within the change that finds it full: every
    message looks at all of a delta, so it is smaller than those of other kinds.
    """

    def __init__(self, space: Space, delta_rows: int, undo: UndoLog):
        self._undo = undo
        self._space, self._delta_rows = space, max(1, delta_rows // _SMALLER)
        self._earth = np.array([space.is_earth], np.uint8)
        self._where = np.full(1024, _NOWHERE, np.int64)
        self._components: dict[int, Component] = {}
        self._delta: ThresholdDelta | None = None
        self._numbers = itertools.count()
        self._n_terms = self._layout = 0
        self.n_merges = 0
        #: The thread that merges.
        self._merger: threading.Thread | None = None
        self._matcher = ThresholdMatcher(undo)

    def begin_child(self) -> None:
        """Forget, in a forked process, the merge that a thread of the parent is at."""
        self._end_merge()

    # Changes

    def note_state(self) -> None:
        """Note what a change of rows replaces."""
        if self._merger is threading.current_thread():
            self._end_merge()  # a merge of this thread was cut short, and so was its end
        self._undo.attributes(self, "_components", "_delta", "_n_terms")

    def staged(
        self, slots: NDArray[np.int32], subscriptions: Subscriptions, weight: NDArray[np.float64]
    ) -> ThresholdRows | ThresholdSegment:
        """Do all of storing that takes long: rows for the delta, or a component if they are many."""
        rows = rows_of(slots, subscriptions, weight)
        if len(slots) > self._delta_rows:
            return self._built(rows, weight)
        if self._delta is None or not self._delta.has_room(len(slots)):
            self.flush(weight)
            self._delta = ThresholdDelta(next(self._numbers), self._delta_rows, is_earth=self._space.is_earth)
            self._components = {**self._components, self._delta.number: self._delta}
        return rows

    def store(self, staged: ThresholdRows | ThresholdSegment) -> NDArray[np.int32]:
        """Put in place what was staged; return its slots."""
        rows = staged if isinstance(staged, ThresholdRows) else staged.rows
        self._n_terms = max(self._n_terms, int(rows.term.max(initial=-1)) + 1)
        self._grow(int(rows.slot.max(initial=-1)) + 1)
        self._undo.fill(self._where, rows.slot, _NOWHERE)
        if isinstance(staged, ThresholdSegment):
            self._components = {**self._components, staged.number: staged}
            enter_slots(rows.slot, self._where, staged.number)
            return rows.slot
        assert self._delta is not None
        self._where[rows.slot] = (self._delta.number << _ROW_BITS) | self._delta.append(rows, self._undo)
        return rows.slot

    def drop(self, slots: NDArray[np.int32]) -> None:
        """Forget these slots."""
        for component, _, rows in self._held_by(slots):
            component.kill(rows, self._undo)
        self._undo.items(self._where, slots)
        self._where[slots] = _NOWHERE

    def set_thresholds(self, slots: NDArray[np.int32], values: NDArray[np.float64]) -> None:
        """Set the scores from which messages concern these slots."""
        for component, which, rows in self._held_by(slots):
            note_thresholds(component, rows, self._undo)
            component.set_thresholds(rows, values[which])

    def renumber(self, old: NDArray[np.int32]) -> None:
        """Give the slots `old`, those of other parts among them, the numbers 0, 1, ... instead."""
        self._layout += 1
        self._grow(int(old[-1]) + 1 if len(old) else 0)
        self._undo.attributes(self, "_where")
        self._where = np.append(self._where[old], np.full(1024, _NOWHERE, np.int64))
        for component in self._components.values():
            self._undo.attributes(component, "rows")
            component.rows = component.rows._replace(slot=np.full_like(component.rows.slot, _NOWHERE))
        live = np.flatnonzero(self._where >= 0)
        for component, which, rows in self._held_by(live):
            component.rows.slot[rows] = live[which]

    def reweigh(self, weight: NDArray[np.float64]) -> None:
        """Lay out everything again: triggers hang on the weights of words."""
        self._layout += 1
        self.note_state()
        self._undo.attributes(self, "_where")
        self._delta, self._where = None, self._where.copy()
        old, self._components = self._components, {}
        for component in old.values():
            rows = component.taken(component.live_rows())
            if len(rows.slot):
                weigh(rows, weight)
                self.store(self._built(rows, weight))

    def _built(self, rows: ThresholdRows, weight: NDArray[np.float64]) -> ThresholdSegment:
        return ThresholdSegment(next(self._numbers), rows, build_lists(rows, weight, is_earth=self._space.is_earth))

    def _grow(self, n_slots: int) -> None:
        if n_slots > len(self._where):
            more = max(n_slots, 2 * len(self._where)) - len(self._where)
            self._where = np.append(self._where, np.full(more, _NOWHERE, np.int64))

    def _held_by(self, slots: NDArray[Any]) -> list[tuple[Component, NDArray[np.int64], NDArray[np.int64]]]:
        """Return each component that holds some of these slots: which of them, and the rows they have there."""
        where = self._where[slots]
        number, rows = where >> _ROW_BITS, where & _ROW
        found = []
        for each in np.unique(number).tolist():
            which = np.flatnonzero(number == each)
            found.append((self._components[each], which, rows[which]))
        return found

    # Matching

    def match(
        self, messages: Messages, totals: NDArray[np.float64], weight: NDArray[np.float64], threads: int
    ) -> Matches:
        """Return the slots that each message concerns."""
        batch = ThresholdBatch(messages.term_start, messages.terms, messages.box, totals, weight, self._earth)
        components = [c for c in self._components.values() if c.n_rows > c.n_dead]
        return self._matcher.match(components, batch, self._n_terms, len(self._where), threads)

    def place_of(self, slot: int) -> tuple[Component, int]:
        """Return the component that holds a slot, and its row there."""
        component, _, rows = self._held_by(np.array([slot]))[0]
        return component, int(rows[0])

    def subscriptions(self, slots: NDArray[np.int32]) -> Subscriptions:
        """Return the subscriptions of these slots; ids are the slots."""
        pieces, places = [], [np.empty(0, np.int64)]
        for component, which, rows in self._held_by(slots):
            pieces.append(component.taken(rows))
            places.append(which)
        joined = join_rows(pieces) if pieces else _no_rows()
        return subscriptions_of(take_rows(joined, np.argsort(np.concatenate(places))))

    # Merging

    def due(self) -> list[ThresholdSegment]:
        """Return the lists to merge next: those half dead, small ones with larger ones, or those to lay out again."""
        segments = [each for each in self._components.values() if isinstance(each, ThresholdSegment)]
        half_dead = next(([each] for each in segments if 2 * each.n_dead > each.n_rows), [])
        return half_dead or _with_smaller(segments) or [each for each in segments if _is_worth_laying_out_again(each)]

    def merge(self, lock: AbstractContextManager[Any], weights: Callable[[], NDArray[np.float64]]) -> bool:
        """Merge what is due, outside the lock but for its beginning and end.

        False if nothing is due, or another thread is at it.
        """
        me = threading.current_thread()
        try:
            with lock:
                if self._merger is not None and self._merger is not me and self._merger.is_alive():
                    return False
                self._merger = me
            return self._merge_due(lock, weights)
        finally:
            with lock:
                if self._merger is me:
                    self._end_merge()

    def _merge_due(self, lock: AbstractContextManager[Any], weights: Callable[[], NDArray[np.float64]]) -> bool:
        with lock:
            self._undo.roll_back()
            old, layout, weight = self.due(), self._layout, weights()
            kept = [component.live_rows() for component in old]
            for component in old:
                component.changed = []
        if not old:
            return False
        rows = join_rows([component.taken(live) for component, live in zip(old, kept, strict=True)])
        merged = self._built(rows, weight)
        # Most of what has changed meanwhile is copied outside the lock, the last of it inside.
        for _ in range(_ROUNDS):
            if self._catch_up(merged, old, kept, lock) < _FEW_CHANGES:
                break
        with lock:
            self._undo.roll_back()
            if layout == self._layout:
                self._catch_up(merged, old, kept, lock)
                self._replace_with(merged, old)
        return True

    def _end_merge(self) -> None:
        """Let others merge, and collect changes no longer."""
        for component in self._components.values():
            if isinstance(component, ThresholdSegment):
                component.changed = None
        self._merger = None

    def _catch_up(
        self,
        merged: ThresholdSegment,
        old: list[ThresholdSegment],
        kept: list[NDArray[np.int64]],
        lock: AbstractContextManager[Any],
    ) -> int:
        """Copy to a component not yet in place what has changed since it was begun, or since the last call."""
        with lock:
            self._undo.roll_back()
            changed = [component.taken_changes() for component in old]
        first = n_changes = 0
        for component, rows, live in zip(old, changed, kept, strict=True):
            n_changes += copy_changes(component, rows, live, merged, first)
            first += len(live)
        return n_changes

    def _replace_with(self, merged: ThresholdSegment, old: list[ThresholdSegment]) -> None:
        """Put a merged component in the place of the old ones. What is cut short is completed, not undone."""
        merged.n_dead = int((merged.rows.slot < 0).sum())
        components = {number: each for number, each in self._components.items() if each not in old}
        if merged.n_rows:
            components[merged.number] = merged
        ending = (merged, components, self.n_merges + 1)
        with self._undo:
            self._undo.call(self._put_in_place, *ending)
            self._put_in_place(*ending)

    def _put_in_place(self, merged: ThresholdSegment, components: dict[int, Component], n_merges: int) -> None:
        """Let a merged component hold its slots; may run twice."""
        enter_slots(merged.rows.slot, self._where, merged.number)
        self._components, self.n_merges = components, n_merges

    def flush(self, weight: NDArray[np.float64]) -> None:
        """Make lists of the delta, within a change."""
        delta = self._delta
        if delta is not None:
            rows = delta.taken(delta.live_rows())
            built = self._built(rows, weight) if len(rows.slot) else None
            self._undo.items(self._where, rows.slot)
            self._components = {number: each for number, each in self._components.items() if each is not delta}
            self._delta = None
            if built is not None:
                self.store(built)

    # What is held

    def stats(self) -> dict[str, int]:
        """Return counts and sizes."""
        held = list(self._components.values())
        lists = [c for c in held if isinstance(c, ThresholdSegment)]
        return {
            "lists": len(lists),
            "rows": sum(c.n_rows for c in held),
            "entries": sum(len(c.rows.term) for c in lists),
            "blocks": sum(len(c.lists.blocks.steep) for c in lists),
            "dead": sum(c.n_dead for c in held),
            "merges": self.n_merges,
            "bytes": self._where.nbytes + sum(c.n_bytes for c in held),
        }

    def explain(
        self, slot: int, messages: Messages, message: int, weight: NDArray[np.float64], word: Callable[[int], str]
    ) -> list[str]:
        """Return lines that tell through which word a message meets a slot, and how far the bounds let it."""
        from nearcast.indexes.trigger.thresholds.explain import trigger_lines

        component, row = self.place_of(slot)
        return trigger_lines(component, row, messages, message, weight, word, is_earth=self._space.is_earth)

    def save(self, folder: Path) -> list[int]:
        """Write all lists, every delta having been merged; return their numbers."""
        for number, component in self._components.items():
            assert isinstance(component, ThresholdSegment)
            component.save(folder / f"moving-{number}")
        return list(self._components)

    def open(self, folder: Path, numbers: list[int], *, n_slots: int, n_terms: int) -> None:
        """Map what `save` wrote, within a change; its slots and terms must be below these numbers."""
        self._numbers = itertools.count(1 + max(numbers))
        for number in numbers:
            arrays = SavedArrays(folder / f"moving-{number}")
            rows, lists = map_lists(arrays)
            check_lists(arrays, rows, lists, n_slots, n_terms, self._space)
            bundles, first_bundle = bundles_of(lists.blocks, lists.first_block)
            lists = lists._replace(bundles=bundles, first_bundle=first_bundle)
            live = rows.slot[rows.slot >= 0]
            arrays.check("rows.slot", len(np.unique(live)) == len(live), "two rows have the same slot")
            self._grow(n_slots)
            arrays.check("rows.slot", (self._where[live] == _NOWHERE).all(), "a slot is in two components")
            self.store(ThresholdSegment(number, rows, lists, len(rows.slot) - len(live)))

    def slots(self) -> NDArray[np.int64]:
        """Return the slots that are held here, ascending."""
        return np.flatnonzero(self._where >= 0)


def _with_smaller(segments: list[ThresholdSegment]) -> list[ThresholdSegment]:
    """Return the largest lists that are to be merged with all smaller ones, and these; none if there are no such."""
    by_size = sorted(segments, key=lambda each: each.n_rows)
    n_smaller = n_merged = 0
    for i, each in enumerate(by_size):
        if i and _ROWS_FOR_ONE * n_smaller >= each.n_rows:
            n_merged = i + 1
        n_smaller += each.n_rows
    return by_size[:n_merged]


def _is_worth_laying_out_again(segment: ThresholdSegment) -> bool:
    return segment.n_rows >= _LAID_OUT_AGAIN and _LEARNED_SHARE * segment.n_learned > segment.n_rows


def _no_rows() -> ThresholdRows:
    return ThresholdRows(np.empty(0, np.int32), np.empty((0, 8)), np.empty(0, np.int32), np.empty(0, np.int32))
