"""An AP-Tree whose cost model follows subscriptions that move; where live messages are is left to who stands on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.indexes import Matches
from nearcast.indexes.papers.ap_plus_tree.observed_moves import ObservedMoves
from nearcast.indexes.papers.ap_tree.index import APTreeIndex
from nearcast.indexes.papers.ap_tree.regrowth import renumber_atoms
from nearcast.indexes.shared.moving_atoms import MovingAtomsIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.geo import Space
    from nearcast.indexes.papers.ap_tree.model import CostModel
    from nearcast.indexes.papers.ap_tree.moving import Motion
    from nearcast.indexes.shared.atoms import Atoms

#: The options of `ap-tree`, which all of these take.
TREE_OPTIONS = {name: value for name, value in APTreeIndex.info.options.items() if name != "live"}
SECTION = "AP-Tree (VLDB Journal 2015), section 4"


class MovingAPTreeIndex(MovingAtomsIndex, APTreeIndex):
    """A tree that parts subscriptions by words or by space, with penalties for grids in which these move."""

    def __init__(self, space: Space, **options: Any):
        self._moves = ObservedMoves(space)
        super().__init__(space, **options)

    def match(self, messages: Messages, *, threads: int = 1) -> Matches:
        """Search every message; one core whatever `threads` says."""
        with self._lock:
            found = super().match(messages, threads=threads)
            self._moves.see_messages(len(messages))
        return found

    def renumber(self) -> NDArray[np.int32]:
        """Number the live slots anew and return the old ones."""
        with self._lock:
            self._undo.roll_back()
            self._moves.renumber(np.flatnonzero(self._row_of >= 0))
            return super().renumber()

    def _is_outgrown(self, n_new: int) -> bool:
        """Tell whether there are twice as many atoms as the tree was built of; those that only move do not count."""
        n_gone = sum(len(atoms) for atoms in self._gone)
        return self._n_in_structure + n_new - n_gone >= 2 * self._n_when_built

    def _renumber_atoms(self, number: NDArray[np.int32], atoms: Atoms) -> None:
        renumber_atoms(self._tree, number, atoms)

    def _rows_added(self, first: int, last: int) -> None:
        super()._rows_added(first, last)
        self._moves.note(self._slot_of[first:last], self._pieces[-1].regions)

    def _model_of(self, rank: NDArray[np.int32]) -> CostModel:
        return super()._model_of(rank)._replace(motion=self._motion())

    def _motion(self) -> Motion:
        slot_of = np.require(self._slot_of, requirements=["C", "W"])
        return self._moves.motion(slot_of, len(self._rows_by_slot), float(self._divergence))

    def _rebuild(self, nodes: NDArray[np.int64]) -> None:
        self._model = self._model._replace(motion=self._motion())
        super()._rebuild(nodes)

    def _bytes(self) -> int:
        return super()._bytes() + self._moves.nbytes
