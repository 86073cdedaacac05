"""The index `rt++-similar`: words spread over the levels of an R-tree, a baseline of the STAMP paper.

The Rt++-tree (Li, Wang, Wang, Feng: KDD 2013) as the STAMP paper extends it (ICDE 2015, section VII, "Baselines"): the
words of a subscription go to the nodes above its leaf, one word a level, and every node has an inverted list for each
of its words. An entry keeps how near a message must be, LSB(s|t), if t is the first word of s that it has: the words
after t are then the most it can share, UTB(s|t). A node keeps the least LSB there or below, LSB(n).

A search goes down from the root wherever the box of a node may be as near as LSB(n) asks, and at every node reads the
lists of the message's words. What the two papers leave open was decided so:

- Words are taken in STAMP's order, the heaviest first (of equals the lowest term). The entries of the root are level
  1, as in the Rt-tree paper's examples; the leaf takes all words that are left. A root that is a leaf is level 1.
- A missing word does not drop a subscription, as it does where all words are needed: a similar subscription may match
  without it. Nothing is counted from level to level; only the bounds prune.
- A subscription that needs no word has, after its words, a dummy word with UTB 0 that every message has.
- An entry whose bound lets it pass is verified at once, by its own distance and then in full, and once per message.
  LSB grows from word to word, so a subscription that fails at the first word in common fails at every later one.
- All words are kept, as in Rt++, also those that no message can be near enough for: leaving those out is the prefix
  that STAMP adds. UTB is kept only as the LSB that follows from it, for the text function of the subscription.
- `max_distance` is each subscription's own, so a node's nearness is worked out with the greatest below it.
- The tree is packed (sort-tile-recursive), and packed again when about a quarter of the subscriptions has changed;
  subscriptions added since are scored one by one.

Time: the nodes in reach times the words of the message, and the lengths of those lists. Who can match a message from
anywhere (text_weight ≥ threshold) keeps the nodes above its first words in reach of every message. Space: 8 bytes for
each word of a subscription, 12 for each list, and a copy of the subscriptions' columns in the order of the leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nearcast.indexes import register
from nearcast.indexes.papers.rt_similar.search import RtSimilarScratch, new_cursors, new_scratch, search_tree
from nearcast.indexes.papers.rt_similar.tree import RtTree, build_rt_tree
from nearcast.indexes.shared.forest import checked_fan_out
from nearcast.indexes.shared.kernel_message import KernelMessages
from nearcast.indexes.shared.one_by_one import Search
from nearcast.indexes.shared.rebuilt_index import RebuiltIndex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearcast.geo import Space

#: The greatest number of entries of a node in the Rt-tree paper.
_FAN_OUT = 50


class _RtSimilarStructure(NamedTuple):
    tree: RtTree
    scratch: RtSimilarScratch


@register(
    "rt++-similar",
    kinds=("similar",),
    paper="STAMP (ICDE 2015), section VII: extended Rt++, after Rt-tree (KDD 2013)",
    options={"fan_out": _FAN_OUT},
)
class RtSimilarIndex(RebuiltIndex):
    """An R-tree with one word of a subscription on each level, for scored subscriptions.

    >>> from nearcast.geo import Space
    >>> len(RtSimilarIndex(Space.plane()))
    0
    """

    def __init__(self, space: Space, *, fan_out: int = _FAN_OUT):
        super().__init__(space, **checked_fan_out(self.info.name, fan_out))
        self._fan_out = fan_out

    def _build(self, rows: NDArray[np.int64]) -> _RtSimilarStructure:
        tree = build_rt_tree(self._scored(), rows, self._fan_out, self._n_weights)
        self._scored_rows = None  # the tree has a copy, in its own order
        return _RtSimilarStructure(tree, new_scratch(tree))

    def _searcher(self, built: _RtSimilarStructure, batch: KernelMessages) -> Search:
        slot_of, is_earth, cursors = self._slot_of, self.space.is_earth, new_cursors(len(batch.word))
        return lambda *call: int(search_tree(built.tree, slot_of, batch, is_earth, built.scratch, cursors, *call))
