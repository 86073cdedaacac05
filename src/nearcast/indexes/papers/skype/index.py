"""The classes of the indexes `skype` and `ipt`: inverted lists by cell, over segments of subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nearcast.indexes import register
from nearcast.indexes.papers.skype.groups import drop_members, set_keys
from nearcast.indexes.papers.skype.search import new_scratch, search_messages
from nearcast.indexes.papers.skype.segment import SkypeSegment, build_segment
from nearcast.indexes.shared.segmented_index import SegmentedIndex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.indexes.papers.skype.search import SkypeScratch
    from nearcast.indexes.shared.search_arrays import FoundSlots, MessageColumns

#: The paper's defaults (Section 8.1).
_LEAF, _GROUPS = 1000, 10
_PAPER = "Wang et al., VLDB Journal 2017 (Skype)"


class _PrefixIndex(SegmentedIndex):
    """The base of both: prefix lists by word and leaf cell; the package's docstring tells the parts."""

    _by_groups: ClassVar[bool]

    def _build(self, rows: NDArray[np.int64]) -> SkypeSegment:
        leaf, groups = self._options["leaf"], self._options.get("groups", 0)
        return build_segment(self._scored(), rows, self.space, leaf=leaf, groups=groups, n_terms=self._n_weights)

    def _new_scratch(self, segment: SkypeSegment, n_weights: int, longest: int) -> SkypeScratch:
        return new_scratch(segment, n_weights, longest)

    def _search(
        self,
        segment: SkypeSegment,
        scratch: SkypeScratch,
        batch: MessageColumns,
        found: FoundSlots,
        first: int,
        counts: NDArray[np.int64],
    ) -> int:
        scored, by_groups = self._scored(), self._by_groups
        is_earth, n_bits = self.space.is_earth, len(self._row_of).bit_length()
        return int(search_messages(segment, scored, batch, scratch, found, by_groups, is_earth, n_bits, first, counts))

    def _retune(self, segment: SkypeSegment, members: NDArray[np.int32]) -> None:
        set_keys(segment, self._scored(), members, self._by_groups)

    def _forget(self, segment: SkypeSegment, members: NDArray[np.int32]) -> None:
        drop_members(segment, members, self._by_groups)

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes; `cells`, `lists`, `groups` and `entries` are those of all segments."""
        with self._lock:
            found = super().stats()
            return {
                **found,
                "cells": sum(len(each.box) for each in self._segments),
                "lists": sum(len(each.list_cell) for each in self._segments),
                "groups": sum(len(each.loose) for each in self._segments),
                "entries": sum(len(each.member) for each in self._segments),
            }


@register("skype", kinds=("topk",), paper=_PAPER, options={"leaf": _LEAF, "groups": _GROUPS})
class SkypeIndex(_PrefixIndex):
    """IGPT: individual and group pruning. `leaf`: subscriptions a cell holds at most; `groups`: of a list at most.

    >>> from nearcast.geo import Space
    >>> len(SkypeIndex(Space.plane(), leaf=100))
    0
    """

    _by_groups = True

    def __init__(self, space: Space, *, leaf: int = _LEAF, groups: int = _GROUPS):
        super().__init__(space, leaf=leaf, groups=groups)


@register("ipt", kinds=("topk",), paper=f"{_PAPER}, without group pruning", options={"leaf": _LEAF})
class IptIndex(_PrefixIndex):
    """IPT: individual pruning alone. `leaf`: subscriptions a cell holds at most.

    >>> from nearcast.geo import Space
    >>> len(IptIndex(Space.plane()))
    0
    """

    _by_groups = False

    def __init__(self, space: Space, *, leaf: int = _LEAF):
        super().__init__(space, leaf=leaf)
