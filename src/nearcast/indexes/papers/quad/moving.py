"""The indexes `iq+-tree` and `rq+-tree`: `iq-tree` and `rq-tree` for subscriptions that move.

The AP-Tree paper (Wang, Zhang, Zhang, Lin, Wang: VLDB Journal 2015, section 5.2.1) extends both by this: for each
report of a place the best cells that cover the subscription are found anew, and it is assigned to them; live messages
are kept in cells of the same trees (`nearcast.live.papers.quad`).

What the paper leaves open was decided so:

- A move is a removal and an insertion; both are applied before the next message or question.
- The trees are built anew, with another frame and expected distribution, when there are twice as many atoms as they
  were built of, or after ten moves of each and ten thousand more: all live messages are filed again by that.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.indexes import register
from nearcast.indexes.papers.quad.index import QUAD_OPTIONS
from nearcast.indexes.papers.quad.iq import IqTreeIndex
from nearcast.indexes.papers.quad.rq import RqTreeIndex
from nearcast.indexes.papers.quad.traffic import Traffic, steps_of
from nearcast.indexes.papers.quad.tree import WHOLE_FRAME, QuadItems, QuadTrees
from nearcast.indexes.papers.quad.words import RankedKeyIndex
from nearcast.indexes.shared.moving_atoms import MovingAtomsIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.shared.atoms import Atoms

#: Moves after which trees are built anew: so many of each atom, and so many more.
_MOVES_OF_EACH, _MOVES_AT_LEAST = 10, 10_000


class QuadLayout(NamedTuple):
    """Trees without what is in them, and their frame. Key k has the tree `root_of[k]`; None: one tree for all."""

    traffic: Traffic
    trees: QuadTrees
    root_of: NDArray[np.int32] | None


class MovingQuadIndex(MovingAtomsIndex, RankedKeyIndex):
    """Tells in which cells subscriptions are, or would be, for whoever keeps messages in the same cells."""

    @abstractmethod
    def _known_roots(self, key: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the tree of each key, -1 where there is none."""

    @abstractmethod
    def _root_of_keys(self) -> NDArray[np.int32] | None:
        """Return the tree of every key; None if there is one for all."""

    @property
    def traffic(self) -> Traffic:
        """The frame of the trees, up to date; another value when they have been built anew."""
        with self._lock:
            self._undo.roll_back()
            self._bring_up_to_date()
            return self._traffic

    def layout(self) -> QuadLayout:
        """Return a copy of the trees as they are now."""
        with self._lock:
            traffic, roots = self.traffic, self._root_of_keys()
            return QuadLayout(traffic, self._trees.without_lists(), None if roots is None else roots.copy())

    def frequencies(self, terms: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return in how many atoms terms were when the trees were built, 0 for those that came later."""
        with self._lock:
            known = np.flatnonzero(terms < len(self._count))
            found = np.zeros(len(terms), np.int64)
            found[known] = self._count[terms[known]]
            return found

    def covering_cells(
        self, key: NDArray[np.int32], box: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (item, cell): the best cells, as level, x and y, for rectangles under keys, whether held or not."""
        with self._lock:
            traffic, steps = self.traffic, np.empty((len(box), 4), np.int32)
            steps_of(traffic, box, steps)
            start = self._known_roots(key)
            has_tree, others = np.flatnonzero(start >= 0), np.flatnonzero(start < 0)
            items = QuadItems(steps[has_tree], key[has_tree], self._chances(key[has_tree], key[has_tree]))
            node, item = self._trees.assigned(start[has_tree], WHOLE_FRAME, items, traffic)
            cell = self._trees.cells(node)
        # A tree that is not there is one cell.
        cell = np.concatenate([cell, np.zeros((len(others), 3), np.int64)])
        return np.concatenate([has_tree[item], others]), cell

    def _renumber_atoms(self, number: NDArray[np.int32], atoms: Atoms) -> None:
        self._entries.renumber(number)

    def _is_outgrown(self, n_new: int) -> bool:
        n_gone = sum(map(len, self._gone))
        n_most = _MOVES_OF_EACH * self._n_when_built + _MOVES_AT_LEAST
        return self._n_in_structure + n_new - n_gone > 2 * self._n_when_built or self._n_come + n_new > n_most


@register(
    "iq+-tree",
    kinds=("within",),
    paper="AP-Tree (VLDB Journal 2015), section 5.2.1: IQ+-Tree, the IQ-Tree for moving subscriptions",
    options=QUAD_OPTIONS,
    has_live_store=True,
)
class IqPlusTreeIndex(MovingQuadIndex, IqTreeIndex):
    """A quadtree with an inverted file in each cell, of subscriptions and of live messages.

    >>> from nearcast.geo import Space
    >>> len(IqPlusTreeIndex(Space.plane()))
    0
    """

    def _known_roots(self, key: NDArray[np.int32]) -> NDArray[np.int32]:
        return self._roots(key)

    def _root_of_keys(self) -> None:
        return None


@register(
    "rq+-tree",
    kinds=("within",),
    paper="AP-Tree (VLDB Journal 2015), section 5.2.1: RQ+-Tree, the RQ-Tree for moving subscriptions",
    options=QUAD_OPTIONS,
    has_live_store=True,
)
class RqPlusTreeIndex(MovingQuadIndex, RqTreeIndex):
    """A quadtree for each word, of subscriptions and of live messages.

    >>> from nearcast.geo import Space
    >>> len(RqPlusTreeIndex(Space.plane()))
    0
    """

    def _known_roots(self, key: NDArray[np.int32]) -> NDArray[np.int32]:
        known = np.minimum(key, len(self._root_of) - 1)
        return np.where(key < len(self._root_of), self._root_of[known], np.int32(-1))

    def _root_of_keys(self) -> NDArray[np.int32]:
        return self._root_of
