"""Finds the slots of top-k subscriptions by registration number, while a batch adds and removes subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.engine import State

_NOWHERE = -1


class HomeSlots:
    """The subscriptions of a partition sorted by registration number: once, for one batch.

    A subscription that is replaced, maybe by one of another kind, keeps its number and its slot. One that is new gets
    a slot behind all others, and only these are sorted again. A slot counts while a top-k subscription has it.
    """

    def __init__(self, state: State):
        assert state.topk is not None
        self._state, self._topk = state, state.topk
        self._n_slots = state.index.n_slots
        self._number, self._slot = self._sorted(state.ids.in_use())

    def of(self, number: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the slots of the subscriptions with these numbers, -1 for those that are not held."""
        slot = self._found(number, self._number, self._slot)
        n_slots = self._state.index.n_slots
        if n_slots > self._n_slots:
            newer = np.arange(self._n_slots, n_slots, dtype=np.int32)
            missing = np.flatnonzero(slot == _NOWHERE)
            slot[missing] = self._found(number[missing], *self._sorted(newer[self._topk.is_held(newer)]))
        return slot

    def _sorted(self, slots: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        number = self._state.by_slot["number"][slots]
        order = np.argsort(number)
        return number[order], slots[order]

    def _found(
        self, wanted: NDArray[np.int64], number: NDArray[np.int64], slot: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        if not len(number):
            return np.full(len(wanted), _NOWHERE, np.int32)
        at = np.minimum(np.searchsorted(number, wanted), len(number) - 1)
        is_here = (number[at] == wanted) & self._topk.is_held(slot[at])
        return np.where(is_here, slot[at], np.int32(_NOWHERE))
