"""The index `blocks`: inverted lists cut into blocks of neighbours, searched best block first.

Every segment has a list for each word, its messages in the order of a Hilbert curve, cut into blocks of up to 32 and
these gathered into runs of up to 32. A block knows the box around its places and the least and greatest component of
its word in the unit vectors of its messages, from which follows the best score any of them can have. A search opens
the runs of its words, then always the block or run of the best bound, until that falls behind the last message kept.
A message stands in the lists of all its words and is scored only in that of the weightiest that the search asks for,
where the bound may leave out the words before. A posting has a bit for each word of its message, and one that tells
whether a word is said more than once: from these and its u follows what text can give, and most are ruled out without
a look at the message itself.

Many queries at once are joined with the window (`join`): those that share a word and are neighbours go through its
lists as a group (`group_search`), and a message that one of them looks at is read once for all.

Time: for each word and segment a binary search; then what the bounds cannot rule out. Space: 16 bytes for each word of
a message, 8 more for its word and count, 68 for each block, and 96 for the message itself; arrays grow by doubling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearcast.topk.window.blocks.join import WindowJoin
from nearcast.topk.window.blocks.lists import BlockLists, add_lists, new_lists
from nearcast.topk.window.blocks.search import search_lists
from nearcast.topk.window.segmented_index import SegmentedMessages

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.topk.window.answers import SliceSearch
    from nearcast.topk.window.segment_search import SearchRequest

__all__ = ["BlockIndex"]


class BlockIndex(SegmentedMessages):
    """An index of a window's messages: inverted lists in blocks with score bounds, for each segment."""

    def __init__(self, space: Space, by_time: bool = False):
        super().__init__(space, by_time, new_lists())

    def _add_segment(self, first: int, end: int) -> None:
        add_lists(self._columns, self._held(), first, end, self._weights(), self.space.is_earth)

    def _arrays(self) -> BlockLists:
        return BlockLists(self._segment_table(), *self._segment_arrays())

    def _n_groups(self) -> int:
        _, runs, blocks, _ = self._columns
        return int(runs.end - runs.first + blocks.end - blocks.first)

    def _joined(self, request: SearchRequest, work: NDArray[np.int64]) -> SliceSearch:
        n_words = max(self._n_words, int(request.queries.word.max(initial=-1)) + 1)
        return WindowJoin(self.space, request, self._as_read()[2], work, self._lender, self._n_groups(), n_words).answer

    @property
    def _kernel(self) -> Callable[..., int]:
        return search_lists
