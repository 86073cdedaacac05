"""A boolean index for subscriptions that move: rows that moves leave behind are dropped without building anew."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from nearcast.indexes.shared.atoms import AtomStore
from nearcast.indexes.shared.boolean_index import BooleanIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.shared.atoms import Atoms


class MovingAtomsIndex(BooleanIndex):
    """Gives atoms other numbers in its structure as it is, where the rows that no longer count are dropped.

    Every move leaves a row behind. Building the structure anew each time would cost more than the moves, and where live
    messages are kept in it all of them would be filed again. A subclass has `_renumber_atoms(number, atoms)`: give the
    atoms in the structure the number that `number` has for each; `atoms` are their columns from then on.
    """

    @abstractmethod
    def _renumber_atoms(self, number: NDArray[np.int32], atoms: Atoms) -> None: ...

    def _pack(self) -> None:
        """Drop the rows that no longer count, when they are the majority."""
        if not self._is_sparse or not self._is_built or not self._is_store_whole:
            super()._pack()
            return
        self._bring_up_to_date()
        kept = self._store.of_rows(self._row_of[self._row_of >= 0])
        super()._pack()
        self._is_built = False  # until it is: a change that is cut short is made up for by building anew
        number, store = np.zeros(len(self._store), np.int32), AtomStore()
        number[kept] = np.arange(len(kept), dtype=np.int32)
        store.add(self._table())
        self._renumber_atoms(number, store.arrays)
        self._store, self._gone, self._n_seen = store, [], len(store)
        self._is_built = True
        self._is_store_whole = True  # the last of all
