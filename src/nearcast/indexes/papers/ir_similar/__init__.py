"""The indexes `ir-tree-1` and `ir-tree-100`: R-trees with inverted files at their nodes, baselines of the STAMP paper.

The IR-tree (Cong, Jensen, Wu: VLDB 2009; Li and others: TKDE 2011) as the STAMP paper extends it (ICDE 2015, section
VII, "Baselines"): every node has an inverted file of the words below it and keeps the least and greatest text weight,
the least threshold and the least total weight of a subscription below. From these follows the best score that anything
below can have for a message; a node that misses its least threshold is left out. `ir-tree-1` is one tree;
`ir-tree-100` has up to 10 x 10, by text weight and threshold in steps of 0.1, whose bounds are that much tighter.

What differs from the paper, and why:

- `max_distance` is each subscription's own here, so nodes keep the greatest; the five text functions may be mixed, so
  nodes keep the least total of weights and of words apart, and the most generous function (`bounds`).
- Leaves use their inverted file too: what a subscription has in common with the message is added up from the lists,
  and only who has enough, and is near enough, is scored. Subscriptions that need no word stand in a list of their own,
  which is looked at where the bound with text 0 lets anything match. To score a whole leaf instead would be to scan.
- The nodes and positions of a word are one ascending list, of which the files of nodes are stretches; trees are
  searched level by level, so that a search goes through these lists once and forward.
- Trees are packed (sort-tile-recursive) and packed again when about a quarter of the subscriptions has changed;
  subscriptions added since are scored one by one.

Time: in the worst case that of `inverted`, and for every word of the message the nodes that have it. The bound of a
large node is loose: somebody below has a low threshold, somebody one short word, and most words of the message occur,
so that mostly space prunes. Space: 8 bytes for each word of a subscription, 4 for each word of a node, and a copy of
the subscriptions' columns in the order of the leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.indexes import register
from nearcast.indexes.papers.ir_similar.search import IrSimilarScratch, new_cursors, new_scratch, search_trees
from nearcast.indexes.papers.ir_similar.tree import IrTree, build_ir_tree
from nearcast.indexes.shared.forest import checked_fan_out
from nearcast.indexes.shared.kernel_message import KernelMessages
from nearcast.indexes.shared.one_by_one import Search
from nearcast.indexes.shared.rebuilt_index import RebuiltIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.indexes.shared.scores import ScoredColumns

_FAN_OUT = 200
#: Trees along each of text weight and threshold, for `ir-tree-100`.
_STEPS = 10

_PAPER = "STAMP (ICDE 2015), section VII: {}, after IR-tree (VLDB 2009)"


class _IrSimilarStructure(NamedTuple):
    tree: IrTree
    scratch: IrSimilarScratch


class _IrSimilarIndex(RebuiltIndex):
    def __init__(self, space: Space, *, fan_out: int = _FAN_OUT):
        super().__init__(space, **checked_fan_out(self.info.name, fan_out))
        self._fan_out = fan_out

    def _group(self, scored: ScoredColumns, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of the tree that each row belongs to."""
        return np.zeros(len(rows), np.int64)

    def _build(self, rows: NDArray[np.int64]) -> _IrSimilarStructure:
        scored = self._scored()
        tree = build_ir_tree(scored, rows, self._group(scored, rows), self._fan_out, self._n_weights)
        self._scored_rows = None  # the tree has a copy, in its own order
        return _IrSimilarStructure(tree, new_scratch(tree))

    def _searcher(self, built: _IrSimilarStructure, batch: KernelMessages) -> Search:
        slot_of, is_earth, cursors = self._slot_of, self.space.is_earth, new_cursors(len(batch.word))
        return lambda *call: int(
            search_trees(built.tree, slot_of, batch, is_earth, built.scratch, cursors, *call),
        )


@register("ir-tree-1", kinds=("similar",), paper=_PAPER.format("IRTREE-1"), options={"fan_out": _FAN_OUT})
class IrTree1Index(_IrSimilarIndex):
    """One IR-tree with bounds on everything a score depends on, for scored subscriptions.

    >>> from nearcast.geo import Space
    >>> len(IrTree1Index(Space.plane()))
    0
    """


@register("ir-tree-100", kinds=("similar",), paper=_PAPER.format("IRTREE-100"), options={"fan_out": _FAN_OUT})
class IrTree100Index(_IrSimilarIndex):
    """One IR-tree for each tenth of text weights and thresholds.

    >>> from nearcast.geo import Space
    >>> len(IrTree100Index(Space.plane()))
    0
    """

    def _group(self, scored: ScoredColumns, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return _tenth(scored.text_weight[rows]) * _STEPS + _tenth(scored.threshold[rows])


def _tenth(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return which of the steps up to 0.1, 0.2, ..., 1 each value belongs to."""
    return np.clip(np.ceil(values * _STEPS).astype(np.int64) - 1, 0, _STEPS - 1)
