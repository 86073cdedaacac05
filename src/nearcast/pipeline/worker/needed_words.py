"""The words that the subscriptions of a partition need, in the numbers of its plan: what a move leaves as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.pipeline.batch.portable_subscriptions import PortableSubscriptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast._ids import IdTable
    from nearcast.columns import Subscriptions
    from nearcast.engine import State
    from nearcast.plans import Plan

_UNKNOWN = -3


class NeededWords:
    """A column by slot of the one word that a boolean subscription needs, filled as slots are asked for.

    It holds for one plan and one numbering of slots, and is begun anew for others.
    """

    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._ids: IdTable | None = None
        self._word = np.empty(0, np.int32)

    def of(self, state: State, plan: Plan, slots: NDArray[np.int32], held: Subscriptions) -> NDArray[np.int32]:
        """Return the words of slots, of which the index holds `held`; SEVERAL_WORDS where it is not one."""
        if self._plan is not plan or self._ids is not state.ids:  # slots that are renumbered have another table of ids
            self._plan, self._ids, self._word = plan, state.ids, np.empty(0, np.int32)
        if len(self._word) < state.index.n_slots:
            grown = np.full(state.index.n_slots * 3 // 2 + 16, _UNKNOWN, np.int32)
            grown[: len(self._word)] = self._word
            self._word = grown
        unknown = np.flatnonzero(self._word[slots] == _UNKNOWN)
        if len(unknown):
            asked = PortableSubscriptions.of(held.take(unknown), state.words).into(plan.words)
            self._word[slots[unknown]] = plan.single_words(asked)
        return self._word[slots]

    def forget(self, slots: NDArray[np.int32]) -> None:
        """Forget the words of slots that hold something else from now on."""
        self._word[slots[slots < len(self._word)]] = _UNKNOWN
