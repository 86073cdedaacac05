"""An AP-Tree whose cost model follows subscriptions that move; where live messages are is left to who stands on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.indexes import Matches
from nearcast.indexes.papers.ap_plus_tree.observed_moves import ObservedMoves
from nearcast.indexes.papers.ap_tree.index import APTreeIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions
    from nearcast.geo import Space
    from nearcast.indexes.papers.ap_tree.model import CostModel
    from nearcast.indexes.papers.ap_tree.moving import Motion

#: The options of `ap-tree`, which all of these take.
TREE_OPTIONS = {name: value for name, value in APTreeIndex.info.options.items() if name != "live"}
SECTION = "AP-Tree (VLDB Journal 2015), section 4"


class MovingAPTreeIndex(APTreeIndex):
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

    def insert(self, subscriptions: Subscriptions) -> NDArray[np.int32]:
        """Store subscriptions in new slots."""
        with self._lock:
            slots = super().insert(subscriptions)
            self._moves.begin(slots, subscriptions.regions)
        return slots

    def replace(self, slots: NDArray[np.int32], subscriptions: Subscriptions) -> None:
        """Store other subscriptions under these slots, or the same at other places."""
        with self._lock:
            super().replace(slots, subscriptions)
            self._moves.report(slots, subscriptions.regions)

    def renumber(self) -> NDArray[np.int32]:
        """Number the live slots anew and return the old ones."""
        with self._lock:
            old = super().renumber()
            self._moves.renumber(old)
        return old

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
