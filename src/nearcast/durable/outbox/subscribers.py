"""Subscribers of subscriptions: names under numbers, and the number of each slot's subscriber, in the engine's state.

A number is given once. Whoever is erased and comes back has another one, and nothing of what waited for the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast._ids import Id, IdTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.engine import State

#: The column by slot, and the table of names, in the state.
SUBSCRIBER = "subscriber"
NOBODY = -1


class Subscribers:
    """The subscribers in the state of an engine; there is none until the first one is named."""

    def __init__(self) -> None:
        self.next_number = 0
        self._slots_by_number: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]] | None = None
        self._changed: dict[int, list[int]] = {}

    def begin(self, state: State, next_number: int) -> None:
        """Go on from a state that was opened."""
        self.next_number = next_number
        if SUBSCRIBER in state.by_slot:
            state.by_slot[SUBSCRIBER] = np.array(state.by_slot[SUBSCRIBER], np.int32)
        self._forget_order()

    @staticmethod
    def are_in(state: State) -> bool:
        """Tell whether anybody was ever named."""
        return SUBSCRIBER in state.by_slot

    # Names and numbers

    def number(self, state: State, name: str) -> int:
        """Return the number of a subscriber, -1 for one that is not known."""
        return state.names[SUBSCRIBER].slot(name) if SUBSCRIBER in state.names else NOBODY

    def numbers_of(self, state: State, names: list[str]) -> list[int]:
        """Return the numbers of subscribers, -1 for those that are not known."""
        if SUBSCRIBER not in state.names:
            return [NOBODY] * len(names)
        found: list[int] = state.names[SUBSCRIBER].slots(pa.array(names, pa.string())).tolist()
        return found

    def names(self, state: State, numbers: NDArray[np.int32]) -> list[str]:
        """Return the names of subscribers by their numbers, all of which are known."""
        return [str(name) for name in state.names[SUBSCRIBER].snapshot().values(numbers)]

    def are_known(self, state: State, numbers: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Tell which numbers are those of a subscriber that was not erased."""
        in_use = state.names[SUBSCRIBER].in_use() if SUBSCRIBER in state.names else np.empty(0, np.int32)
        known = np.zeros(1 + max(int(in_use.max(initial=0)), int(numbers.max(initial=0))), np.bool_)
        known[in_use] = True
        found: NDArray[np.bool_] = known[numbers]
        return found

    def _numbers(self, state: State, names: pa.Array) -> NDArray[np.int32]:
        """Return the numbers of names, -1 for null; new ones get the next numbers, in their order."""
        table = state.names.setdefault(SUBSCRIBER, IdTable())
        given = names.drop_null()
        numbers = table.slots(given)
        fresh = pc.unique(given.take(_arrow.numbers(np.flatnonzero(numbers < 0))))
        if len(fresh):
            table.bind(fresh, np.arange(self.next_number, self.next_number + len(fresh), dtype=np.int32))
            self.next_number += len(fresh)
            numbers = table.slots(given)
        found = np.full(len(names), NOBODY, np.int32)
        found[np.flatnonzero(np.asarray(names.is_valid()))] = numbers
        return found

    def forget(self, state: State, number: int) -> None:
        """Forget the name of a number."""
        state.names[SUBSCRIBER].release(np.array([number], np.int32))

    # Slots

    def reserve(self, state: State, n: int) -> None:
        """Make room in the column by slot for this many new subscriptions: slots may be renumbered as they come."""
        column, wanted = state.by_slot.get(SUBSCRIBER), state.index.n_slots + n
        if column is None or len(column) < wanted:
            grown = np.full(wanted if column is None else max(wanted, len(column) * 3 // 2), NOBODY, np.int32)
            grown[: 0 if column is None else len(column)] = NOBODY if column is None else column
            state.by_slot[SUBSCRIBER] = grown

    def assign(self, state: State, slots: NDArray[np.int32], names: pa.Array) -> None:
        """Give slots, -1 where a row was not stored, these subscribers, null for none."""
        numbers, stored = self._numbers(state, names), slots >= 0
        slots, numbers = slots[stored], numbers[stored]
        state.by_slot[SUBSCRIBER][slots] = numbers
        if len(slots) > _FEW:
            self._forget_order()
            return
        for slot, number in zip(slots.tolist(), numbers.tolist(), strict=True):
            self._changed.setdefault(number, []).append(slot)
        if len(self._changed) > _FEW:
            self._forget_order()

    def of_slots(self, state: State, slots: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the numbers of the subscribers of slots, -1 for none."""
        found: NDArray[np.int32] = state.by_slot[SUBSCRIBER][slots]
        return found

    def of_slot(self, state: State, slot: int) -> str | None:
        """Return the name of a slot's subscriber."""
        number = int(state.by_slot[SUBSCRIBER][slot]) if SUBSCRIBER in state.by_slot else NOBODY
        return None if number == NOBODY else str(state.names[SUBSCRIBER].snapshot().value(number))

    def subscriptions(self, state: State, number: int) -> list[Id]:
        """Return the ids of a subscriber's subscriptions, in order of registration."""
        slots, _ = self.slots_of(state, np.array([number], np.int32))
        return state.ids.snapshot().values(slots) if len(slots) else []

    def slots_of(self, state: State, numbers: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the slots of subscribers one after the other, and how many each has; -1 has none."""
        if SUBSCRIBER not in state.by_slot:
            return np.empty(0, np.int32), np.zeros(len(numbers), np.int64)
        column = state.by_slot[SUBSCRIBER]
        slots, owner = self._candidates(column, numbers)
        is_own = column[slots] == numbers[owner]
        slots, owner = slots[is_own], owner[is_own]
        is_used = state.ids.are_in_use(slots)
        return slots[is_used], np.bincount(owner[is_used], minlength=len(numbers))

    def _candidates(
        self, column: NDArray[np.int32], numbers: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the slots that may be those of numbers, each once, and which number each may be of."""
        if self._slots_by_number is None or self._slots_by_number[0] is not column:
            self._forget_order()
            slots = np.argsort(column, kind="stable").astype(np.int32)
            self._slots_by_number = column, column[slots], slots
        _, ordered, slots = self._slots_by_number
        first, last = np.searchsorted(ordered, numbers), np.searchsorted(ordered, numbers, side="right")
        counts = np.where(numbers == NOBODY, 0, last - first)
        owner = np.repeat(np.arange(len(numbers)), counts)
        found = slots[np.arange(len(owner)) + np.repeat(first - np.cumsum(counts) + counts, counts)]
        if not self._changed:
            return found, owner
        given = enumerate(numbers.tolist())
        changed = [(at, slot) for at, each in given if each != NOBODY for slot in self._changed.get(each, ())]
        if changed:
            both = np.array(changed, np.int64).T
            pairs = np.unique(np.stack([np.append(owner, both[0]), np.append(found, both[1])]), axis=1)
            owner, found = pairs[0], pairs[1].astype(np.int32)
        return found, owner

    def _forget_order(self) -> None:
        self._slots_by_number, self._changed = None, {}


#: Changes that are remembered beside the order of slots by subscriber, before it is made again.
_FEW = 1000
