"""Merging in the background: full deltas and segments of like size become one segment."""

from __future__ import annotations

import math
import threading
from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import kernel
from nearcast.indexes import Index
from nearcast.indexes.trigger.components import Component, DeltaComponent, SegmentComponent
from nearcast.indexes.trigger.mobile.component import MobileComponent
from nearcast.indexes.trigger.rows import TriggerRows, join_rows, weigh_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.trigger.segment import TriggerSegment
    from nearcast.indexes.trigger.thresholds import ThresholdPart

#: The owner of a slot that holds no subscription, and of one that the moving part holds; smaller ones are components,
#: and the largest of these, MOBILE, is the one for subscriptions that have moved.
NOBODY, MOVING = 255, 254
#: Segments of about one size that are merged into one.
_FANOUT = 4
#: Segments of up to this many deltas' rows are merged with the next full delta.
_SMALL = 8


class MergingIndex(Index):
    """Components, who owns each slot, and the thread that merges; changes and matching are for a subclass.

    The thread works on arrays that do not change and takes the lock only to put the result in place. A merge is thrown
    away if `_numbering` has changed since it was begun.
    """

    _options: dict[str, int]
    _owner: NDArray[np.uint8]
    _dead: NDArray[np.int64]
    _free_numbers: list[int]
    _components: list[Component]
    _delta: DeltaComponent | None
    _mobile: MobileComponent | None
    _moving: ThresholdPart | None
    _next_slot: int
    _n_merges: int
    _numbering: int
    _merger: threading.Thread | None
    _merge_error: BaseException | None

    @abstractmethod
    def _build(self, rows: TriggerRows) -> TriggerSegment:
        """Lay out rows as a segment."""

    def settle(self) -> None:
        """Wait until no merge is due."""
        while True:
            merger = self._merger
            if merger is not None and merger.is_alive():
                merger.join()
            with self._lock:
                self._undo.roll_back()
                self._raise_merge_error()
                if not self._is_merge_due():
                    return
                self._merge_if_due()

    def close(self) -> None:
        """Wait until no merge is due, and none runs."""
        self.settle()

    def abandon(self) -> None:
        """Leave the merging thread nothing to merge, and wait for its end; a merge under way is thrown away."""
        with self._lock:
            self._undo.roll_back()
            self._discard_merges()
            self._components, self._delta, self._mobile = [], None, None
        merger = self._merger
        if merger is not None and merger.is_alive():
            merger.join()

    def begin_child(self) -> None:
        """Forget the merging thread, which stayed in the parent process; the next change starts another."""
        self._merger = None
        if self._moving is not None:
            self._moving.begin_child()

    def _due(self) -> list[Component]:
        """Return the components to merge next: full deltas, a half-dead segment, or segments of like size."""
        full = [c for c in self._components if isinstance(c, DeltaComponent) and c is not self._delta]
        segments = [c for c in self._components if isinstance(c, SegmentComponent)]
        if full:
            # Small segments go along: every component costs every message a little.
            return [*full, *(c for c in segments if c.n_rows <= _SMALL * self._options["delta_rows"])]
        for component in segments:
            if 2 * self._dead[component.number] > component.n_rows:
                return [component]
        tiers: dict[int, list[Component]] = {}
        for component in segments:
            tier = int(math.log(max(1.0, component.n_rows / self._options["delta_rows"]), _FANOUT))
            tiers.setdefault(tier, []).append(component)
        return next((tier for _, tier in sorted(tiers.items()) if len(tier) >= _FANOUT), [])

    def _is_merge_due(self) -> bool:
        return bool(self._due()) or (self._moving is not None and bool(self._moving.due()))

    def _merge_if_due(self) -> None:
        """Start the merging thread, unless it runs. Called as the last step within a change.

        It waits for the lock, so it finds the change made or undone. Only an interrupt gets out of here, and undoes the
        change; without a thread or memory to be had the change is made all the same, and the next one tries again.
        """
        try:
            if (self._merger is None or not self._merger.is_alive()) and self._is_merge_due():
                self._merger = threading.Thread(target=self._merge_in_background, name="nearcast-merge", daemon=True)
                self._merger.start()
        except (RuntimeError, MemoryError):
            pass

    def _merge_in_background(self) -> None:
        try:
            self._merge_all_due()
        except BaseException as error:  # noqa: BLE001 - handed to the next caller: a thread has nobody to tell
            self._merge_error = error

    def _raise_merge_error(self) -> None:
        error, self._merge_error = self._merge_error, None
        if error is not None:
            raise error

    def _merge_all_due(self) -> None:
        while True:
            with self._lock:
                self._undo.roll_back()
                due = self._due()
                owner, numbering = self._owner, self._numbering
            if due:
                self._merge(due, owner, numbering)
            elif self._moving is None or not self._moving.merge(self._lock, lambda: self._weights):
                return

    def _forget_left_places(self) -> None:
        """Build those segments anew, in this thread, that hold places which a subscription has left for others.

        A mover leaves its segment once, so what one call has cleaned the next need not. Rows of subscriptions that are
        no more stay until the segment is merged.
        """
        for component in list(self._components):
            if isinstance(component, SegmentComponent) and self._holds_left_places(component):
                self._merge([component], self._owner, self._numbering)

    def _holds_left_places(self, component: SegmentComponent) -> bool:
        """Tell whether a segment has rows of subscriptions that are elsewhere now."""
        owner = self._owner[component.segment.rows.slot]
        return bool(((owner != component.number) & (owner != NOBODY)).any())

    def _discard_merges(self) -> None:
        """Let a merge under way be thrown away, since it may have seen slots without the owner they have again."""
        self._numbering += 1

    def _reweigh(self) -> None:
        """Lay out again every component that holds scored rows: their triggers hang on the weights."""
        self._discard_merges()  # one under way was begun with the old weights
        self._undo.attributes(self, "_delta", "_components", "_dead")
        self._delta, self._dead = None, self._dead.copy()
        self._components = [self._reweighed(component) for component in self._components]
        if self._moving is not None:
            self._moving.reweigh(self._weights)

    def _reweighed(self, component: Component) -> Component:
        if not component.has_scored:
            return component
        # Joining drops circles that no row uses: places that somebody has left, and the spare room of a delta.
        rows, geometry = join_rows([(component.taken(component.live_rows(self._owner)), component.geometry)])
        self._dead[component.number] = 0
        return SegmentComponent(component.number, self._build(weigh_rows(rows, self._weights)), geometry, self._weights)

    def _merge(self, old: list[Component], owner: NDArray[np.uint8], numbering: int) -> None:
        """Build one segment of the live rows of `old`; rows that die meanwhile are left out by their owner."""
        pieces = [(component.taken(component.live_rows(owner)), component.geometry) for component in old]
        rows, geometry = join_rows(pieces)
        # The new segment takes over the number of the first old one; it needs no number of its own.
        merged = SegmentComponent(old[0].number, self._build(rows), geometry, self._weights)
        with self._lock:
            self._undo.roll_back()
            if numbering != self._numbering or any(component not in self._components for component in old):
                return  # slots have new numbers, or somebody who ran out of components has merged these first
            is_old = np.zeros(NOBODY + 1, np.uint8)
            is_old[[component.number for component in old]] = 1
            components = [*(c for c in self._components if c not in old), merged]
            free_numbers = [*self._free_numbers, *(component.number for component in old[1:])]
            dead = self._dead.copy()
            dead[merged.number] = np.count_nonzero(is_old[self._owner[rows.slot]] == 0)
            with self._undo:
                # To keep the old owner of every slot would be expensive, so a merge that is cut short is completed.
                ending = (is_old, merged.number, components, free_numbers, dead, self._n_merges + 1)
                self._undo.call(self._put_in_place, *ending)
                self._put_in_place(*ending)

    def _put_in_place(
        self,
        is_old: NDArray[np.uint8],
        number: int,
        components: list[Component],
        free_numbers: list[int],
        dead: NDArray[np.int64],
        n_merges: int,
    ) -> None:
        """Let a merged segment take over from the old components; may run twice."""
        _hand_over(self._owner[: self._next_slot], is_old, number)
        self._components, self._free_numbers, self._dead, self._n_merges = components, free_numbers, dead, n_merges


@kernel
def _hand_over(owner, is_old, number):
    """Give every slot of the old components to `number`."""
    for slot in range(owner.size):
        if is_old[owner[slot]]:
            owner[slot] = number
