"""The index `ir-tree`: an R-tree with an inverted file at every node, the message index of the Skype paper.

The IR-tree (Cong, Jensen, Wu: VLDB 2009) keeps with every node an inverted file of the words below it with the greatest
component any message has of each; text ≤ Σ over the words of the query, near follows from the rectangle, and nodes are
visited best bound first.

What differs from that paper: the window's messages are in segments, each with a tree of its own, packed along a Hilbert
curve (Kamel, Faloutsos: VLDB 1994) and never changed, with one search over all of them; and a leaf's messages are told
apart by a bit for each of their words, in place of the leaf's lists.

Time: where the words of the query are in every node, only space prunes. Space: 12 bytes for each word of a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearcast.topk.window.ir_tree.search import search_trees
from nearcast.topk.window.ir_tree.tree import WindowTrees, add_tree, new_trees
from nearcast.topk.window.segmented_index import SegmentedMessages

if TYPE_CHECKING:
    from collections.abc import Callable

    from nearcast.geo import Space

__all__ = ["IrTreeWindowIndex"]


class IrTreeWindowIndex(SegmentedMessages):
    """An index of a window's messages: one packed IR-tree for each segment."""

    def __init__(self, space: Space, by_time: bool = False):
        super().__init__(space, by_time, new_trees())

    def _add_segment(self, first: int, end: int) -> None:
        add_tree(self._columns, self._held(), first, end, self._weights(), self.space.is_earth)

    def _arrays(self) -> WindowTrees:
        return WindowTrees(self._segment_table(), *self._segment_arrays())

    def _n_groups(self) -> int:
        nodes, _ = self._columns
        return int(nodes.end - nodes.first)

    @property
    def _kernel(self) -> Callable[..., int]:
        return search_trees
