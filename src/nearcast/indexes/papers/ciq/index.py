"""The class of the index `ciq`: inverted lists in covering cells, over segments of subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearcast.indexes import register
from nearcast.indexes.papers.ciq.lists import CiqSegment, build_segment, forget_members, set_least_text
from nearcast.indexes.papers.ciq.search import new_scratch, search_messages
from nearcast.indexes.shared.segmented_index import SegmentedIndex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.indexes.papers.ciq.search import CiqScratch
    from nearcast.indexes.shared.search_arrays import FoundSlots, MessageColumns

_LEAF, _CELLS = 1000, 13


@register(
    "ciq",
    kinds=("topk",),
    paper="Chen et al., ICDE 2015 (CIQ), as sketched in Skype, Section 2.2",
    options={"leaf": _LEAF, "cells": _CELLS},
)
class CiqIndex(SegmentedIndex):
    """Covering cells with textual bounds; the package's docstring tells what was decided.

    `leaf`: subscriptions a leaf of the quadtree holds at most. `cells`: cells that cover the space for a subscription
    at most.

    >>> from nearcast.geo import Space
    >>> len(CiqIndex(Space.plane(), cells=7))
    0
    """

    def __init__(self, space: Space, *, leaf: int = _LEAF, cells: int = _CELLS):
        super().__init__(space, leaf=leaf, cells=cells)

    def _build(self, rows: NDArray[np.int64]) -> CiqSegment:
        leaf, cells = self._options["leaf"], self._options["cells"]
        return build_segment(self._scored(), rows, self.space, leaf=leaf, cells=cells, n_terms=self._n_weights)

    def _new_scratch(self, segment: CiqSegment, n_weights: int, longest: int) -> CiqScratch:
        return new_scratch(segment, n_weights, longest)

    def _search(
        self,
        segment: CiqSegment,
        scratch: CiqScratch,
        batch: MessageColumns,
        found: FoundSlots,
        first: int,
        counts: NDArray[np.int64],
    ) -> int:
        scored, is_earth, n_bits = self._scored(), self.space.is_earth, len(self._row_of).bit_length()
        return int(search_messages(segment, scored, batch, scratch, found, is_earth, n_bits, first, counts))

    def _retune(self, segment: CiqSegment, members: NDArray[np.int32]) -> None:
        set_least_text(segment, self._scored(), members)

    def _forget(self, segment: CiqSegment, members: NDArray[np.int32]) -> None:
        forget_members(segment, members)
