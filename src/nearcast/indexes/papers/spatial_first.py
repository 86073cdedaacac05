"""The index `spatial-first`: places alone decide what is looked at, a baseline of the Rt-tree paper.

The spatial-first method of the Rt-tree paper (Li, Wang, Wang, Feng: KDD 2013, section 2.2): an R-tree over the
rectangles of all subscriptions. A message goes down wherever it touches the rectangle of a node, and of the
subscriptions whose own rectangle it touches, the words are tested last.

What the paper leaves open was decided so:

- The tree is packed (sort-tile-recursive), then grows and shrinks one by one; nodes have 25 to 50 entries, as in the
  paper's experiments.
- Overlap is of intervals, borders included. The paper asks for a vertex of one rectangle inside the other, which
  misses those that cross.
- A subscription without a region has an infinite rectangle. Packed, these share leaves, away from the others.

Time: the nodes a message touches times their entries. Space: 40 bytes for each atom and a few for the nodes above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.indexes import register
from nearcast.indexes.shared.atoms import words_hold
from nearcast.indexes.shared.boolean_index import (
    LOOKED_AT,
    VERIFIED,
    BooleanBatch,
    BooleanIndex,
    FoundAtoms,
    finish_message,
    keep,
)
from nearcast.indexes.shared.dynamic_rtree import ROOT, DynamicRTree, checked_entries, entry_touches
from nearcast.indexes.shared.kernel_message import begin_message
from nearcast.indexes.shared.predicates import message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space


@register(
    "spatial-first",
    kinds=("within",),
    paper="Rt-tree (KDD 2013), section 2.2: spatial-first (R-tree)",
    options={"min_entries": 25, "max_entries": 50},
)
class SpatialFirstIndex(BooleanIndex):
    """An R-tree over rectangles; words are tested last.

    >>> from nearcast.geo import Space
    >>> len(SpatialFirstIndex(Space.plane()))
    0
    """

    def __init__(self, space: Space, *, min_entries: int = 25, max_entries: int = 50):
        super().__init__(space, **checked_entries(self.info.name, min_entries, max_entries))
        self._tree = DynamicRTree(min_entries, max_entries)

    def _build(self, atoms: NDArray[np.int32]) -> None:
        self._tree.pack(atoms, self._atoms.box[atoms], len(self._store))

    def _insert_atoms(self, atoms: NDArray[np.int32]) -> None:
        self._tree.insert(atoms, self._atoms.box[atoms], len(self._store))

    def _remove_atoms(self, atoms: NDArray[np.int32]) -> None:
        self._tree.reinsert(self._tree.remove(atoms))

    def _search(self, batch: BooleanBatch, first: int, found: FoundAtoms) -> int:
        stack = np.empty(self._tree.n_levels * self._tree.arrays.entry.shape[1] + 1, np.int32)
        return int(_search_tree(self._tree.arrays, self._atoms, batch, first, found, stack))

    def _bytes(self) -> int:
        return self._tree.nbytes


@hot_kernel
def _search_tree(tree, atoms, batch, first, found, stack):
    """Search the messages from `first` on; return the first that is not done."""
    at = found.end[first - 1] if first > 0 else 0
    for message in range(first, found.end.size):
        looked_at, verified = found.tally[LOOKED_AT], found.tally[VERIFIED]
        n_words = begin_message(batch, message)
        n_places = message_parts(batch.box, message, batch.place)
        stack[0], n_waiting = tree.state[ROOT], 1
        while n_waiting > 0:
            n_waiting -= 1
            node = stack[n_waiting]
            looked_at += tree.n_entries[node]
            is_leaf = tree.level[node] == 0
            for slot in range(tree.n_entries[node]):
                if entry_touches(tree.box, node, slot, batch.place, n_places):
                    entry = tree.entry[node, slot]
                    if not is_leaf:
                        stack[n_waiting] = entry
                        n_waiting += 1
                    else:
                        verified += 1
                        if words_hold(atoms, entry, batch.has):
                            at = keep(atoms, entry, batch, message, n_places, found, at)
        if not finish_message(batch, message, n_words, found, at, looked_at, verified):
            return message
    return found.end.size
