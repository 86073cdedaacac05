"""The index `trigger`: (term, place) → subscriptions, as segments, a delta and the owners of slots."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._saved import is_writing_later, new_folder, save_array, save_later
from nearcast.columns import TOPK, Subscriptions
from nearcast.errors import UnknownIndex
from nearcast.geo import POLYGON
from nearcast.indexes import Matches, read_manifest, register, write_manifest
from nearcast.indexes.shared.saved_checks import check_weights
from nearcast.indexes.shared.scores import needs_totals, totals_for
from nearcast.indexes.shared.slot_checks import checked_slots, only_kinds, same_length
from nearcast.indexes.trigger.background_merge import MOVING, NOBODY, MergingIndex
from nearcast.indexes.trigger.batch_match import IndexView, TriggerMatcher
from nearcast.indexes.trigger.components import (
    Component,
    DeltaComponent,
    SegmentComponent,
    arrays_of,
    open_segment,
    save_segment,
)
from nearcast.indexes.trigger.delta import TRIGGERS_PER_ROW, TriggerDelta, Triggers, triggers_of
from nearcast.indexes.trigger.mobile.component import MOBILE, MobileComponent
from nearcast.indexes.trigger.rows import (
    SCORED,
    TriggerRows,
    count_terms,
    join_rows,
    one_row_each,
    rows_of,
    subscription_of_row,
    subscriptions_of,
    take_rows,
)
from nearcast.indexes.trigger.segment import TriggerSegment, build_segment
from nearcast.saved_files.arrays import SavedArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.geo import Regions, Space
    from nearcast.indexes.trigger.thresholds import ThresholdPart, ThresholdRows, ThresholdSegment

_NO_SHAPES = np.empty(0, object)
#: The type of slots, and the shape of an array of one.
_SLOT, _ONE = np.dtype(np.int32), (1,)
#: After so many moves it is looked at whether others are to be taken in, as many slots as have moved.
_LOOK_EVERY = 1024
#: Attributes that a change of subscriptions replaces.
_STATE = (
    *("_components", "_delta", "_mobile", "_moving", "_free_numbers", "_dead", "_next_slot", "_n_live", "_n_terms"),
    *("_needs_totals", "_weights", "_n_weights", "_popularity"),
)


class _StagedRows(NamedTuple):
    """Subscriptions as rows with their triggers, laid out as a segment if they are many; and those of kind `topk`.

    `slots` are the slots of the others: a subscription that contradicts itself has a slot and no rows.
    """

    slots: NDArray[np.int32]
    rows: TriggerRows | None
    geometry: NDArray[np.object_]
    triggers: Triggers | None
    segment: TriggerSegment | None
    moving: ThresholdRows | ThresholdSegment | None = None


@register(
    "trigger",
    kinds=("within", "similar", "topk"),
    paper="nearcast (rarest-term and prefix triggers by place)",
    options={"leaf_rows": 4000, "few": 8, "delta_rows": 4096},
)
class TriggerIndex(MergingIndex):
    """Triggers by term and place, for boolean and scored subscriptions.

    Every clause waits for its rarest term in the cells its region touches; a 64-bit signature of its other terms and a
    rectangle of 4 x 15 bits leave almost only true matches to verify. A scored subscription waits for each word of its
    prefix within a disc: how near a message must be whose first of these words is this one. A top-k subscription has a
    threshold that moves, and is held by a part of its own (`thresholds`).

    `owner[slot]` names the one component that holds a slot's present version: removing is one write, and whatever
    older components still list is skipped.

    Full deltas and segments of like size are merged by a background thread that works on immutable arrays and
    takes the lock only to put the result in place. `leaf_rows`: rectangles per cell; a group has
    four times as many scored rows. `few`: a term with no more triggers than this is not cut by place. `delta_rows`:
    rows collected before they become a segment.
    """

    def __init__(self, space: Space, *, leaf_rows: int = 4000, few: int = 8, delta_rows: int = 4096):
        super().__init__(space)
        self._options = {"leaf_rows": leaf_rows, "few": few, "delta_rows": delta_rows}
        for name, least in (("leaf_rows", 1), ("few", 0), ("delta_rows", 1)):
            if self._options[name] < least:
                raise UnknownIndex(
                    f"option {name} of the index 'trigger' is at least {least}, not {self._options[name]}"
                )
        self._owner = np.full(1024, NOBODY, np.uint8)
        self._next_slot = self._n_live = self._n_merges = self._numbering = 0
        self._popularity = np.zeros(1024, np.int32)
        #: How many have moved since others were last taken in, and the slot up to which these were looked at.
        self._n_moved = self._looked_at = 0
        self._n_terms = 0
        self._needs_totals = False
        self._free_numbers = list(range(MOBILE - 1, -1, -1))
        self._dead = np.zeros(NOBODY + 1, np.int64)
        self._components = []
        self._delta = None
        self._mobile = None
        self._moving = None
        self._matcher = TriggerMatcher(space, self._undo)
        self._merger = None
        self._merge_error = None

    def __len__(self) -> int:
        self._roll_back_if_torn()
        return self._n_live

    # Changes

    def insert(self, subscriptions: Subscriptions) -> NDArray[np.int32]:
        """Store subscriptions; more than a delta holds become a segment at once."""
        only_kinds(subscriptions, self.info)
        with self._lock:
            self._begin_change()
            first, last = self._next_slot, self._next_slot + len(subscriptions)
            slots = np.arange(first, last, dtype=np.int32)
            with self._undo:
                self._note_state()
                staged = self._staged(slots, subscriptions)
                self._needs_totals |= needs_totals(subscriptions)
                self._grow_owner(last)
                self._undo.fill(self._owner, slice(first, last), NOBODY)
                self._store(staged)
                self._next_slot = last
                self._n_live += len(subscriptions)
                self._merge_if_due()
        return slots

    def remove(self, slots: NDArray[np.int32]) -> None:
        """Forget these slots: one write each."""
        with self._lock:
            self._begin_change()
            slots = self._alive(slots)
            with self._undo:
                self._note_state()
                self._disown(slots)
                self._owner[slots] = NOBODY
                self._n_live -= len(slots)
                self._merge_if_due()

    def replace(self, slots: NDArray[np.int32], subscriptions: Subscriptions) -> None:
        """Store other subscriptions under these slots."""
        only_kinds(subscriptions, self.info)
        with self._lock:
            self._begin_change()
            slots = self._alive(slots)
            same_length(slots, subscriptions, "subscriptions")
            with self._undo:
                self._note_state()
                self._replace(slots, subscriptions)
                self._merge_if_due()

    def _replace(self, slots: NDArray[np.int32], subscriptions: Subscriptions) -> None:
        staged = self._staged(slots, subscriptions)
        self._needs_totals |= needs_totals(subscriptions)
        self._disown(slots)
        self._store(staged)

    def move(self, slots: NDArray[np.int32], regions: Regions) -> None:
        """Give these slots other regions: those of boolean subscriptions with boxes and circles in place."""
        same_length(slots, regions, "regions")
        with self._lock:
            self._begin_change()
            slots = self._alive(slots)
            mobile = self._mobile
            self._n_moved += len(slots)
            is_quick = mobile is not None and self._n_moved < _LOOK_EVERY and not len(regions.geometry)
            if mobile is not None and is_quick and self._are_mobile(slots):
                with self._undo:  # nothing but its rows changes, and no merge can be due
                    mobile.move(slots, regions, self._popularity, self._undo)
                return
            with self._undo:
                self._note_state()
                others = self._move_in_place(slots, regions)
                if len(others):
                    moved = self._held(slots[others]).with_regions(regions.take(others))
                    self._replace(slots[others], moved)
                if self._n_moved >= _LOOK_EVERY:
                    self._take_in()
                self._merge_if_due()

    def _are_mobile(self, slots: NDArray[np.int32]) -> bool:
        return bool(self._owner[slots[0]] == MOBILE if len(slots) == 1 else (self._owner[slots] == MOBILE).all())

    def _take_in(self) -> None:
        """Let some slots of segments be mobile where they stand, if most are mobile: one structure less to search.

        A few at a time, as many as have moved: nobody waits for all of them.
        """
        first, n = self._looked_at, self._n_moved
        self._n_moved, self._looked_at = 0, first + n if first + n < self._next_slot else 0
        if self._mobile is None or 2 * self._mobile.n_rows < self._n_live:
            return
        numbers = [c.number for c in self._components if isinstance(c, SegmentComponent)]
        slots = (first + np.flatnonzero(np.isin(self._owner[first : first + n], numbers))).astype(np.int32)
        rows = join_rows(self._pieces(slots))[0]
        is_other = (rows.shape <= SCORED) | ((rows.shape >= 0) & (rows.shape % 2 == 1))  # scored, or a polygon
        slots = slots[np.isin(slots, rows.slot) & ~np.isin(slots, rows.slot[is_other])]
        if len(slots):
            self._make_mobile(slots, take_rows(rows, np.flatnonzero(np.isin(rows.slot, slots))), None)

    def _move_in_place(self, slots: NDArray[np.int32], regions: Regions) -> NDArray[np.int64]:
        """Move what is mobile, or becomes so; return which slots do not."""
        owner, is_other = self._owner[slots], regions.kind == POLYGON
        is_other |= owner == MOVING
        here = np.flatnonzero(~is_other & (owner == MOBILE))
        if len(here):
            self._mobile_part().move(slots[here], regions.take(here), self._popularity, self._undo)
        standing = np.flatnonzero(~is_other & (owner != MOBILE))
        if len(standing):
            rows = join_rows(self._pieces(slots[standing]))[0]
            is_scored = np.isin(slots[standing], rows.slot[rows.shape <= SCORED])
            is_other[standing[is_scored]] = True
            which = standing[~is_scored]
            if len(which):
                clauses = take_rows(rows, np.flatnonzero(rows.shape > SCORED)) if is_scored.any() else rows
                self._make_mobile(slots[which], clauses, regions.take(which))
        return np.flatnonzero(is_other)

    def _make_mobile(self, slots: NDArray[np.int32], rows: TriggerRows, regions: Regions | None) -> None:
        """Let slots of these rows, all boolean, leave their components and be mobile, with other regions if given."""
        mobile = self._mobile_part()
        self._disown(slots)
        if regions is None:
            mobile.take_in(slots, rows, self._popularity, self._undo)
        else:
            mobile.enter(slots, rows, regions, self._popularity, self._undo)
        self._owner[slots] = MOBILE

    def _mobile_part(self) -> MobileComponent:
        """Return the component for subscriptions that have moved, made when the first one does."""
        if self._mobile is None:
            options = self._options
            self._mobile = MobileComponent(
                leaf_rows=options["leaf_rows"], few=options["few"], is_earth=self.space.is_earth
            )
            self._components = [*self._components, self._mobile]
        return self._mobile

    def _begin_change(self) -> None:
        """Undo a change that was cut short, tell of a merge that failed, and see to a free number for a component."""
        self._undo.roll_back()
        self._raise_merge_error()
        if not self._free_numbers:
            # 253 components at once: changes have outrun the merger, so this change waits for it.
            self._merge_all_due()

    def _note_state(self) -> None:
        """Note whatever a change of subscriptions replaces; what it writes into arrays it notes where it does."""
        self._undo.call(self._discard_merges)
        self._undo.attributes(self, *_STATE)
        if self._moving is not None:
            self._moving.note_state()

    def _alive(self, slots: NDArray[np.int32]) -> NDArray[np.int32]:
        if type(slots) is np.ndarray and slots.dtype is _SLOT and slots.shape == _ONE:
            slot = slots.item()
            if 0 <= slot < self._next_slot and self._owner[slot] != NOBODY:
                return slots  # that of a single change
        return checked_slots(slots, self._next_slot, lambda known: self._owner[known] != NOBODY)

    def _disown(self, slots: NDArray[np.int32]) -> None:
        """Prepare for these slots to leave their components."""
        owner = self._owner[slots]
        self._undo.items(self._owner, slots)
        self._dead = self._dead + np.bincount(owner, minlength=NOBODY + 1)
        self._dead[MOBILE] = 0
        if self._mobile is not None and len(mobile := slots[owner == MOBILE]):
            self._mobile.drop(mobile, self._undo)
        if self._delta is not None:
            # The same delta may take the slot again: its number alone would then revive the old rows.
            mine = slots[owner == self._delta.number]
            if len(mine):
                self._delta.delta.kill(mine, self._undo)
        if self._moving is not None:
            self._moving.drop(slots[owner == MOVING])

    def _staged(self, slots: NDArray[np.int32], subscriptions: Subscriptions) -> _StagedRows:
        """Do all of storing that takes long, before anything that is held changes."""
        n_terms = int(subscriptions.code.max(initial=-1)) + 1
        self._weights_up_to(n_terms)
        moving = None
        if subscriptions.scoring is not None and (subscriptions.kind == TOPK).any():
            is_moving = subscriptions.kind == TOPK
            asked = subscriptions if is_moving.all() else subscriptions.take(np.flatnonzero(is_moving))
            moving = self._moving_part().staged(slots[is_moving], asked, self._weights)
            slots, subscriptions = slots[~is_moving], subscriptions.take(np.flatnonzero(~is_moving))
            if not len(slots):
                return _StagedRows(slots, None, _NO_SHAPES, None, None, moving)
        self._popularity_up_to(n_terms)
        rows, geometry = rows_of(slots, subscriptions, self._weights)
        self._count_terms(rows)  # a ranking only: it does no harm if nothing comes of these rows
        most = self._options["delta_rows"]
        if len(rows.slot) <= most:
            triggers = triggers_of(rows, self._popularity, self._weights)
            if len(triggers.row) <= TRIGGERS_PER_ROW * most:
                return _StagedRows(slots, rows, geometry, triggers, None, moving)
        return _StagedRows(slots, rows, geometry, None, self._build(rows), moving)

    def _store(self, staged: _StagedRows) -> None:
        if staged.moving is not None:
            self._owner[self._moving_part().store(staged.moving)] = MOVING
        if staged.rows is None:
            return
        if staged.triggers is None:
            assert staged.segment is not None
            component: Component = SegmentComponent(self._new_number(), staged.segment, staged.geometry, self._weights)
            self._components = [*self._components, component]
        else:
            component = self._delta_with_room(staged.triggers)
            component.delta.append(staged.rows, staged.geometry, staged.triggers, self._undo)
        self._owner[staged.slots] = component.number

    def _moving_part(self) -> ThresholdPart:
        """Return the part for subscriptions of kind `topk`, made when the first one comes."""
        if self._moving is None:
            from nearcast.indexes.trigger.thresholds import ThresholdPart

            self._moving = ThresholdPart(self.space, self._options["delta_rows"], self._undo)
        return self._moving

    def set_thresholds(self, slots: NDArray[np.int32], values: NDArray[np.float64]) -> None:
        """Set the scores from which messages concern these slots, all of them of kind `topk`."""
        with self._lock:
            self._undo.roll_back()
            slots = self._alive(slots)
            same_length(slots, values, "thresholds")
            if (self._owner[slots] != MOVING).any():
                raise ValueError("only subscriptions of kind 'topk' have a threshold to set")
            if len(slots):
                with self._undo:
                    self._moving_part().set_thresholds(slots, np.asarray(values, np.float64))
                    self._merge_if_due()

    def _build(self, rows: TriggerRows, weights: NDArray[np.float64] | None = None) -> TriggerSegment:
        options, weights = self._options, self._weights if weights is None else weights
        return build_segment(
            rows, weights, is_earth=self.space.is_earth, leaf_rows=options["leaf_rows"], few=options["few"]
        )

    def _count_terms(self, rows: TriggerRows) -> None:
        self._n_terms = max(self._n_terms, int(rows.code.max(initial=-1)) + 1)
        count_terms(rows.code, self._popularity)

    def _popularity_up_to(self, n_terms: int) -> None:
        if n_terms > len(self._popularity):
            self._popularity = np.concatenate([self._popularity, np.zeros(n_terms, np.int32)])

    def _grow_owner(self, n_slots: int) -> None:
        if n_slots >= len(self._owner):  # one place stays spare
            more = max(n_slots + 1, 2 * len(self._owner)) - len(self._owner)
            self._owner = np.concatenate([self._owner, np.full(more, NOBODY, np.uint8)])

    def _delta_with_room(self, triggers: Triggers) -> DeltaComponent:
        """Return the delta, or a new one when rows with these triggers do not fit; a full one waits for the merger."""
        if self._delta is None or not self._delta.delta.has_room(triggers):
            segments = [c for c in self._components if isinstance(c, SegmentComponent)]
            like = max(segments, key=lambda c: c.n_rows).places if segments else None
            delta = TriggerDelta(self._options["delta_rows"], is_earth=self.space.is_earth, like=like)
            self._delta = DeltaComponent(self._new_number(), delta)
            self._components = [*self._components, self._delta]
        return self._delta

    def _new_number(self) -> int:
        """Take a free number: there is one, and a change needs no more."""
        *self._free_numbers, number = self._free_numbers
        self._dead = self._dead.copy()
        self._dead[number] = 0
        return number

    @property
    def n_slots(self) -> int:
        """Return one more than the highest slot ever used."""
        self._roll_back_if_torn()
        return self._next_slot

    def renumber(self) -> NDArray[np.int32]:
        """Number the live slots anew and return the old ones; a merge under way is thrown away."""
        with self._lock:
            self._undo.roll_back()
            old = np.flatnonzero(self._owner[: self._next_slot] != NOBODY).astype(np.int32)
            # Rows of dead slots stay in their segments under -1: the spare last place of `_owner`, always nobody's.
            number_of = np.full(self._next_slot + 1, -1, np.int32)
            number_of[old] = np.arange(len(old))
            with self._undo:
                self._undo.attributes(self, "_owner", "_next_slot")
                self._discard_merges()
                for component in self._components:
                    component.renumber(self._owner, number_of, self._undo)
                if self._moving is not None:
                    self._moving.renumber(old)
                self._owner = np.append(self._owner[old], np.full(1024, NOBODY, np.uint8))
                self._next_slot = len(old)
            return old

    # Matching

    def match(self, messages: Messages, *, threads: int = 1) -> Matches:
        """Return the matching slots of every message."""
        with self._lock:
            self._undo.roll_back()
            messages = messages.for_kernels()
            totals = totals_for(messages, needed=self._needs_totals)
            if self._moving is not None:
                return self._match_all_kinds(messages, totals, threads)
            return self._match_standing(messages, totals, threads)

    def _match_all_kinds(self, messages: Messages, totals: NDArray[np.float64], threads: int) -> Matches:
        from nearcast.indexes.trigger.thresholds import merged

        assert self._moving is not None
        moving = self._moving.match(messages, totals, self._weights, threads)
        if not self._components:
            return moving
        return merged(self._match_standing(messages, totals, threads), moving)

    def _match_standing(self, messages: Messages, totals: NDArray[np.float64], threads: int) -> Matches:
        components = [c for c in self._components if c.n_rows]
        is_scored = any(c.has_scored for c in components)
        held = IndexView(components, self._owner, self._next_slot, self._n_terms, self._weights, is_scored)
        return self._matcher.match(held, messages, totals, threads)

    def subscriptions(self, slots: NDArray[np.int32]) -> Subscriptions:
        """Put together what these slots hold from the rows of their components."""
        with self._lock:
            self._undo.roll_back()
            return self._held(self._alive(slots))

    def _held(self, slots: NDArray[np.int32]) -> Subscriptions:
        """Return what these live slots hold."""
        if self._moving is None:
            return self._standing(slots)
        is_moving = self._owner[slots] == MOVING
        if not is_moving.any():
            return self._standing(slots)
        moving = self._moving_part().subscriptions(slots[is_moving])
        if is_moving.all():
            return moving
        both = Subscriptions.concat([self._standing(slots[~is_moving]), moving])
        return both.take(np.argsort(np.append(np.flatnonzero(~is_moving), np.flatnonzero(is_moving))))

    def _standing(self, slots: NDArray[np.int32]) -> Subscriptions:
        """Return what these slots of other kinds hold."""
        if self._mobile is not None and len(slots) and self._are_mobile(slots):
            alone = self._mobile.subscriptions(slots)
        else:
            alone = self._alone(slots) if len(slots) == 1 else None
        if alone is not None:
            return alone
        rows, geometry = join_rows(self._pieces(slots))
        if (quick := one_row_each(rows, geometry, slots)) is not None:
            return quick
        ascending = np.sort(slots)
        return subscriptions_of(rows, geometry, ascending).take(np.searchsorted(ascending, slots))

    def _alone(self, slots: NDArray[np.int32]) -> Subscriptions | None:
        """Return what one slot holds that is not mobile, if that is a boolean subscription of one row."""
        holder = self._component_of(int(slots[0]))
        assert not isinstance(holder, MobileComponent)
        rows = holder.rows_of_slots(slots)
        return subscription_of_row(holder.rows, holder.geometry, int(rows[0]), slots) if len(rows) == 1 else None

    def _component_of(self, slot: int) -> Component:
        """Return the component that owns a live slot, which is of no moving subscription."""
        return next(c for c in self._components if c.number == self._owner[slot])

    def _pieces(self, slots: NDArray[np.int32]) -> list[tuple[TriggerRows, NDArray[np.object_]]]:
        """Return the rows of slots with their polygons, component by component."""
        owner = self._owner[slots]
        mine = [(component, slots[owner == component.number]) for component in self._components]
        pieces = [(c.taken(c.rows_of_slots(some)), c.geometry) for c, some in mine if len(some)]
        return pieces or [rows_of(slots[:0], _no_subscriptions(), self._weights)]

    # What is held

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes."""
        with self._lock:
            self._undo.roll_back()
            segments = [c for c in self._components if isinstance(c, SegmentComponent)]
            deltas = [c for c in self._components if isinstance(c, DeltaComponent)]
            arrays = [array for c in segments for array in (*arrays_of(c.segment).values(), *c.notes, c.sieve)]
            arrays += [a for c in deltas for a in (*c.delta.rows, *c.delta.chains, c.delta.sieve)]
            mobile = self._mobile
            moving = {} if self._moving is None else self._moving.stats()
            return {
                "index": self.info.name,
                "subscriptions": self._n_live,
                "slots": self._next_slot,
                "segments": len(segments),
                "segment_rows": sum(c.n_rows for c in segments),
                "delta_rows": sum(c.n_rows for c in deltas),
                "mobile_rows": 0 if mobile is None else mobile.n_rows,
                "entries": sum(len(c.segment.row) + len(c.segment.discs.scored) for c in segments),
                "cells": sum(c.n_cells for c in segments),
                "dead": int(sum(self._dead[c.number] for c in self._components)),
                "merges": self._n_merges,
                **{f"topk_{name}": count for name, count in moving.items()},
                "bytes": sum(array.nbytes for array in arrays)
                + (0 if mobile is None else mobile.nbytes)
                + self._owner.nbytes
                + self._popularity.nbytes
                + moving.get("bytes", 0),
            }

    def explain(self, messages: Messages, row: int, slot: int, word: Callable[[int], str] = str) -> list[str]:
        """Return lines that tell which triggers the slot has and what became of them for this message."""
        from nearcast.indexes.trigger.explain import disc_lines, is_scored, trigger_lines

        with self._lock:
            self._undo.roll_back()
            slots = self._alive(np.array([slot], np.int32))
            if self._owner[slot] == MOVING:
                assert self._moving is not None
                return self._moving.explain(slot, messages, row, self._weights, word)
            holder = self._component_of(slot)
            rows = holder.rows_of_slots(slots)
            if is_scored(holder, rows):
                is_earth = self.space.is_earth
                return disc_lines(holder, int(rows[0]), messages, row, self._weights, word, is_earth=is_earth)
            return trigger_lines(holder, rows, messages, row, self._popularity, word)

    def save(self, folder: str | Path) -> None:
        """Write all segments; a delta becomes a segment first, and what is mobile is written as one.

        No place that a subscription has moved away from is written. Where writing is put off, deltas and segments that
        hold such places are written as segments of their own, which are laid out later.
        """
        folder = new_folder(folder)
        with self._lock:
            self._undo.roll_back()
            if is_writing_later():
                self._flush_moving()
            else:
                self._flush()
                self._forget_left_places()
            numbers, owner = [], self._owner[: self._next_slot + 1]
            for component in self._components:
                if isinstance(component, SegmentComponent) or (owner == component.number).any():
                    number = self._free_numbers[-1] if component is self._mobile else component.number
                    save_later(partial(_save_form, self._standing_form(component), number, folder))
                    numbers.append(number)
            if (owner == MOBILE).any():
                owner = np.where(owner == MOBILE, self._free_numbers[-1], owner)
            save_array(folder / "owner.npy", owner)
            save_array(folder / "popularity.npy", self._popularity)
            save_array(folder / "weights.npy", self._weights[: self._n_weights])
            write_manifest(
                folder,
                self,
                self._options,
                segments=numbers,
                live=self._n_live,
                terms=self._n_terms,
                totals=self._needs_totals,
                topk=[] if self._moving is None else self._moving.save(folder),
            )

    def _standing_form(self, component: Component) -> Callable[[], tuple[TriggerSegment, NDArray[np.object_]]]:
        """Return what lays out a component as it is now, with its polygons: rows that change are taken at once."""
        if isinstance(component, SegmentComponent) and not self._holds_left_places(component):
            return lambda: (component.segment, component.geometry)
        rows, geometry = join_rows([(component.taken(component.live_rows(self._owner)), component.geometry)])
        build = partial(self._build, rows, self._weights)
        return lambda: (build(), geometry)

    def _flush(self) -> None:
        """Turn every delta into a segment, in this thread: whoever holds the lock cannot wait for another."""
        self._raise_merge_error()
        self._delta = None
        self._flush_moving()
        self._merge_all_due()

    def _flush_moving(self) -> None:
        """Turn the delta of top-k rows into lists."""
        if self._moving is not None:
            with self._undo:
                self._moving.note_state()
                self._moving.flush(self._weights)

    @classmethod
    def _open(cls, folder: Path, space: Space, options: dict[str, Any]) -> TriggerIndex:
        manifest, arrays = read_manifest(folder), SavedArrays(folder)
        index = cls(space, **options)
        owner, popularity = arrays.mapped("owner", np.uint8), arrays.mapped("popularity", np.int32)
        weights = arrays.mapped("weights", np.float64)
        n_slots, n_terms, numbers = len(owner) - 1, manifest["terms"], manifest["segments"]
        check_weights(arrays, weights)
        arrays.check("weights", len(weights) >= n_terms, "it lacks terms")
        opened = partial(open_segment, n_slots=n_slots, n_terms=n_terms, weight=weights, space=space)
        index._components = [opened(number, folder / f"segment-{number}") for number in numbers]
        if manifest["topk"]:
            with index._undo:
                index._moving_part().open(folder, manifest["topk"], n_slots=n_slots, n_terms=len(weights))
        moving = np.empty(0, np.int64) if index._moving is None else index._moving.slots()
        check_owners(arrays, owner, [*numbers, *([MOVING] if manifest["topk"] else [])], moving, manifest["live"])
        arrays.check("popularity", len(popularity) >= n_terms, "it lacks terms")
        index._free_numbers = [n for n in index._free_numbers if n not in numbers]
        index._owner, index._popularity = owner, popularity
        index.set_weights(weights)
        index._needs_totals = manifest["totals"]
        index._next_slot, index._n_live, index._n_terms = n_slots, manifest["live"], n_terms
        return index


def _save_form(form: Callable[[], tuple[TriggerSegment, NDArray[np.object_]]], number: int, folder: Path) -> None:
    """Write a component in the form of a segment under a number."""
    save_segment(*form(), folder / f"segment-{number}")


def check_owners(
    arrays: SavedArrays, owner: NDArray[np.uint8], numbers: list[int], moving: NDArray[np.int64], n_live: int
) -> None:
    """Check that slots belong to components there are, those of top-k subscriptions to the rows that name them."""
    arrays.check("owner", len(owner) and owner[-1] == NOBODY, "its last place is not spare")
    arrays.check("owner", np.isin(owner, [*numbers, NOBODY]).all(), "a slot belongs to a component that is not there")
    arrays.check("owner", int((owner != NOBODY).sum()) == n_live, f"it has not the {n_live:,} subscriptions there are")
    arrays.check("owner", np.array_equal(np.flatnonzero(owner == MOVING), moving), "it disagrees with top-k rows")


def _no_subscriptions() -> Subscriptions:
    from nearcast.geo import Regions

    zero = np.zeros(1, np.int64)
    return Subscriptions.of(zero, zero, np.empty(0, np.int32), Regions.anywhere(0))
