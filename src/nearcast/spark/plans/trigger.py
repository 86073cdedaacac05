"""The plan `trigger`: one copy, and messages go only where a needed word meets the cells it is needed in.

A subscription whose shapes are all small lives in the partition of its place, as its messages do. The others live with
the owner of the most frequent word they need: that word, which brings the most messages, then leads to one partition,
and the rarer ones, which may lead to several, bring few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast._jit import kernel
from nearcast.spark.plans.base import ANY_CELL, ANY_WORD, Keys, Placement, Plan, topk_thresholds
from nearcast.spark.plans.copies import frequency_by_word
from nearcast.spark.plans.grid import Grid, cut_space, message_points, places_of
from nearcast.spark.plans.needs import Needs, needs_of, shapes_of
from nearcast.spark.plans.single import homes_by_place, tree_arrays, tree_of
from nearcast.spark.plans.words import Owners, Postings, cut_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions
    from nearcast.geo import Space
    from nearcast.text.words import WordTable

#: Cells of the grid, a multiple of the partitions.
_CELLS = 256
#: A shape that touches more cells than this counts as everywhere.
_MOST_CELLS = 32


class TriggerPlan(Plan):
    """Subscriptions by place or word, one copy each, with keys of word and cell."""

    def __init__(
        self,
        name: str,
        partitions: int,
        space: Space,
        words: WordTable,
        frequency: NDArray[np.int64],
        grid: Grid,
        tree: Grid,
        owner: NDArray[np.int32],
    ):
        super().__init__(name, partitions, space, words)
        self.grid: Grid = grid
        self._frequency, self._tree = frequency, tree
        self._owners = Owners(words, owner, partitions)

    @classmethod
    def learned(
        cls,
        name: str,
        partitions: int,
        space: Space,
        words: WordTable,
        subscriptions: Subscriptions,
        sample: Messages,
        weights: NDArray[np.float64],
        thresholds: NDArray[np.float64] | None,
    ) -> TriggerPlan:
        """Cut space for the subscriptions of small shapes, and the words of the others."""
        said, where = Postings.of_messages(sample), message_points(sample)
        points, has_place = places_of(subscriptions)
        grid = cut_space(points[has_place], where, _CELLS, space)
        nothing = np.zeros(len(words), np.int32)
        plan = cls(name, partitions, space, words, said.frequency(len(words)), grid, grid, nothing)
        needs = plan._needs(subscriptions, weights, thresholds)
        _, cell, need = plan._cells(subscriptions, needs)
        is_wide = _wide_rows(needs, need, cell, len(subscriptions))
        plan._tree = cut_space(points[has_place & ~is_wide], where, partitions, space)
        hottest = _hottest(needs, frequency_by_word(plan._frequency, len(words)), len(subscriptions))
        wide = np.flatnonzero(is_wide)
        wanted = Postings.of(wide, hottest[wide], len(subscriptions))
        plan._owners = Owners(words, cut_words(wanted, said, len(words), partitions), partitions)
        return plan

    def _needs(
        self, subscriptions: Subscriptions, weights: NDArray[np.float64], thresholds: NDArray[np.float64] | None
    ) -> Needs:
        return needs_of(subscriptions, weights, thresholds, frequency_by_word(self._frequency, len(self.words)))

    def _cells(
        self, subscriptions: Subscriptions, needs: Needs
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """Return the word, the cell and the need of every key."""
        shapes = shapes_of(subscriptions, needs, self.space)
        start, cell = self.grid.cells_of(shapes.box, _MOST_CELLS)
        need = np.repeat(shapes.need, np.diff(start))
        return needs.word[need], cell, need

    def place(
        self,
        subscriptions: Subscriptions,
        numbers: NDArray[np.int64],
        weights: NDArray[np.float64],
        thresholds: NDArray[np.float64] | None = None,
    ) -> Placement:
        """Give each subscription one home: by place if its shapes are small, else by its most frequent word."""
        needs = self._needs(subscriptions, weights, thresholds)
        word, cell, need = self._cells(subscriptions, needs)
        home = homes_by_place(self._tree, subscriptions, numbers)
        frequency = frequency_by_word(self._frequency, len(self.words))
        hottest = _hottest(needs, frequency, len(subscriptions))
        by_word = np.flatnonzero(_wide_rows(needs, need, cell, len(subscriptions)) & (hottest >= 0))
        home[by_word] = self._owners.by_word()[hottest[by_word]]
        keys = Keys.distinct(word, cell, home[needs.row[need]])
        return Placement(home, None, keys, topk_thresholds(subscriptions, thresholds))

    def keys(
        self,
        subscriptions: Subscriptions,
        home: NDArray[np.int32],
        weights: NDArray[np.float64],
        thresholds: NDArray[np.float64] | None = None,
    ) -> Keys:
        """Return the words and cells of subscriptions, each for the home."""
        needs = self._needs(subscriptions, weights, thresholds)
        word, cell, need = self._cells(subscriptions, needs)
        return Keys.distinct(word, cell, np.asarray(home, np.int32)[needs.row[need]])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the grid, the tree of homes, the owners of words and how frequent words were."""
        learned = {"frequency": self._frequency, "owner": self._owners.learned}
        return {**learned, **tree_arrays("grid", self.grid), **tree_arrays("tree", self._tree)}

    @classmethod
    def restored(
        cls, name: str, partitions: int, space: Space, words: WordTable, arrays: dict[str, NDArray[Any]]
    ) -> TriggerPlan:
        """Return the plan with these cells and owners."""
        trees = tree_of("grid", arrays), tree_of("tree", arrays)
        return cls(name, partitions, space, words, arrays["frequency"], *trees, arrays["owner"])


def _wide_rows(needs: Needs, need: NDArray[np.int64], cell: NDArray[np.int32], rows: int) -> NDArray[np.bool_]:
    """Tell which subscriptions have a shape that counts as everywhere."""
    is_wide = np.zeros(rows, np.bool_)
    is_wide[needs.row[need[cell == ANY_CELL]]] = True
    return is_wide


def _hottest(needs: Needs, frequency: NDArray[np.int64], rows: int) -> NDArray[np.int32]:
    """Return the most frequent word that each subscription needs; ANY_WORD for one that needs none."""
    hottest = np.full(rows, ANY_WORD, np.int32)
    _choose_hottest(needs.row, needs.word, frequency, hottest)
    return hottest


@kernel
def _choose_hottest(row, word, frequency, hottest):
    for i in range(row.size):
        best = hottest[row[i]]
        if word[i] != ANY_WORD and (best < 0 or frequency[word[i]] > frequency[best]):
            hottest[row[i]] = word[i]
