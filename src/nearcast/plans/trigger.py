"""The plan `trigger`: one copy, and messages go only where a needed word meets the cells it is needed in.

A narrow subscription, whose shapes are all small, lives in the partition of its place, as its messages do. A wide one
lives with the owner of the most frequent word it needs: that word, which brings the most messages, then leads to one
partition, and the rarer ones, which may lead to several, bring few.

Wide subscriptions that are spread thinner than the most frequent word allows only make messages travel: the busiest
partition stays as busy. So words are cut into sets, no more than partitions, and where wide subscriptions are many the
narrow ones go by word too, since the messages are there already. Which of these a plan does is tried out on a sample:
it takes what sends messages to the fewest partitions, among all that leave the busiest at most `_SLACK` times as busy
as the best of them does. Without a sample of both there are as many sets as partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import kernel
from nearcast.plans.base import (
    ANY_CELL,
    ANY_WORD,
    Keys,
    Placement,
    Plan,
    PlanHead,
    PlanSample,
    checked_weights,
    topk_thresholds,
)
from nearcast.plans.copies import frequency_by_word
from nearcast.plans.grid import Grid, cut_space, message_points, places_of
from nearcast.plans.needs import Needs, needs_of, shapes_of
from nearcast.plans.routes import Routes
from nearcast.plans.single import homes_by_place, tree_arrays, tree_of
from nearcast.plans.words import Owners, Postings, cut_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions

#: Cells of the grid.
_CELLS = 256
#: A shape that touches more cells than this counts as everywhere.
_MOST_CELLS = 32
#: How much busier than under the best of cuts the busiest partition may be: more sends messages to fewer partitions.
_SLACK = 1.75
#: Subscriptions and messages of which cuts are tried.
_TRIED_SUBSCRIPTIONS, _TRIED_MESSAGES = 20_000, 1_000
_TRIED_CUTS = 20


class _SubscriptionKeys(NamedTuple):
    """The keys of subscriptions but for the partition: row `row[i]` needs `word[i]` in `cell[i]`.

    `is_wide` is by subscription: it has a shape that counts as everywhere.
    """

    row: NDArray[np.int64]
    word: NDArray[np.int32]
    cell: NDArray[np.int32]
    is_wide: NDArray[np.bool_]


class TriggerPlan(Plan):
    """Subscriptions by place or word, one copy each, with keys of word and cell."""

    def __init__(
        self,
        head: PlanHead,
        frequency: NDArray[np.int64],
        grid: Grid,
        tree: Grid,
        set_of: NDArray[np.int32],
        sets: int,
        is_by_place: bool,
    ):
        super().__init__(head)
        self.grid: Grid = grid
        self._frequency, self._tree = frequency, tree
        self._use(sets, set_of, is_by_place)

    @classmethod
    def learned(cls, head: PlanHead, given: PlanSample) -> TriggerPlan:
        """Cut space for the subscriptions of small shapes, and the words of the others."""
        (_, partitions, space, words), (subscriptions, sample, weights, thresholds) = head, given
        said, where = Postings.of_messages(sample), message_points(sample)
        points, has_place = places_of(subscriptions)
        grid = cut_space(points[has_place], where, _CELLS, space)
        plan = cls(head, said.frequency(len(words)), grid, grid, np.zeros(len(words), np.int32), 1, True)
        some = np.arange(0, len(subscriptions), 1 + len(subscriptions) // _TRIED_SUBSCRIPTIONS)
        few = np.arange(0, len(sample), 1 + len(sample) // _TRIED_MESSAGES)
        tried = subscriptions.take(some)
        needs = plan._needs(tried, weights, None if thresholds is None else thresholds[some])
        keyed = plan._keyed(tried, needs)
        points, has_place = places_of(tried)
        plan._tree = cut_space(points[has_place & ~keyed.is_wide], where, partitions, space)
        plan._choose_sets(tried, needs, keyed, sample.take(few))
        return plan

    def _needs(
        self, subscriptions: Subscriptions, weights: NDArray[np.float64], thresholds: NDArray[np.float64] | None
    ) -> Needs:
        frequency = frequency_by_word(self._frequency, len(self.words))
        return needs_of(subscriptions, checked_weights(weights, self.words), thresholds, frequency)

    def _keyed(self, subscriptions: Subscriptions, needs: Needs) -> _SubscriptionKeys:
        shapes = shapes_of(subscriptions, needs, self.space)
        start, cell = self.grid.cells_of(shapes.box, _MOST_CELLS)
        need = np.repeat(shapes.need, np.diff(start))
        row = needs.row[need]
        is_wide = np.zeros(len(subscriptions), np.bool_)
        is_wide[row[cell == ANY_CELL]] = True
        return _SubscriptionKeys(row, needs.word[need], cell, is_wide)

    def _choose_sets(
        self, subscriptions: Subscriptions, needs: Needs, keyed: _SubscriptionKeys, sample: Messages
    ) -> None:
        """Choose how many sets of words there are, and whether narrow subscriptions live by place."""
        hottest = self._hottest(needs, len(subscriptions))
        numbers = np.arange(len(subscriptions))
        counts = np.unique(np.geomspace(1, self.partitions, _TRIED_CUTS).round().astype(int)).tolist()
        if not len(subscriptions) or not len(sample):
            counts = [self.partitions]
        tried: list[tuple[float, int, int, bool, NDArray[np.int32]]] = []
        for is_by_place in (True, False):
            by_word = np.flatnonzero(keyed.is_wide) if is_by_place else numbers
            wanted = Postings.of(by_word, hottest[by_word], len(numbers))
            for sets in counts:
                set_of = cut_words(wanted, None, self._frequency, sets)
                self._use(sets, set_of, is_by_place)
                home = self._homes(subscriptions, numbers, needs, keyed)
                routes = Routes(self.partitions, self.grid)
                routes.add(Keys.distinct(keyed.word, keyed.cell, home[keyed.row]))
                got = np.bincount(routes.route(sample)[1], minlength=self.partitions)
                busiest = (np.bincount(home, minlength=self.partitions) * got).max(initial=0)
                tried.append((float(busiest), int(got.sum()), sets, is_by_place, set_of))
        most = _SLACK * min(busiest for busiest, *_ in tried)
        fewest = min((each for each in tried if each[0] <= most), key=lambda each: each[1])
        self._use(fewest[2], fewest[4], fewest[3])

    def _use(self, sets: int, set_of: NDArray[np.int32], is_by_place: bool) -> None:
        self._sets, self._set_of, self._is_by_place = sets, Owners(self.words, set_of, sets), is_by_place

    def _hottest(self, needs: Needs, rows: int) -> NDArray[np.int32]:
        """Return the most frequent word that each subscription needs; ANY_WORD for one that needs none."""
        hottest = np.full(rows, ANY_WORD, np.int32)
        _choose_hottest(needs.row, needs.word, frequency_by_word(self._frequency, len(self.words)), hottest)
        return hottest

    def _homes(
        self, subscriptions: Subscriptions, numbers: NDArray[np.int64], needs: Needs, keyed: _SubscriptionKeys
    ) -> NDArray[np.int32]:
        """Return the home of each subscription; sets of words lie evenly among the partitions."""
        home = homes_by_place(self._tree, subscriptions, numbers)
        by_word = np.flatnonzero(keyed.is_wide) if self._is_by_place else np.arange(len(home))
        hottest = self._hottest(needs, len(home))[by_word]
        set_of = np.asarray(numbers, np.int64)[by_word] % self._sets
        set_of[hottest >= 0] = self._set_of.by_word()[hottest[hottest >= 0]]
        home[by_word] = set_of * self.partitions // self._sets
        return home

    def place(
        self,
        subscriptions: Subscriptions,
        numbers: NDArray[np.int64],
        weights: NDArray[np.float64],
        thresholds: NDArray[np.float64] | None = None,
    ) -> Placement:
        """Give each subscription one home: by place if its shapes are small, else by its most frequent word."""
        needs = self._needs(subscriptions, weights, thresholds)
        keyed = self._keyed(subscriptions, needs)
        home = self._homes(subscriptions, numbers, needs, keyed)
        keys = Keys.distinct(keyed.word, keyed.cell, home[keyed.row])
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
        keyed = self._keyed(subscriptions, needs)
        return Keys.distinct(keyed.word, keyed.cell, np.asarray(home, np.int32)[keyed.row])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the grid, the tree of homes, the owners of words and how frequent words were."""
        return {
            "frequency": self._frequency,
            "set_of": self._set_of.learned,
            "sets": np.array(self._sets),
            "is_by_place": np.array(self._is_by_place),
            **tree_arrays("grid", self.grid),
            **tree_arrays("tree", self._tree),
        }

    @classmethod
    def restored(cls, head: PlanHead, arrays: dict[str, NDArray[Any]]) -> TriggerPlan:
        """Return the plan with these cells and owners."""
        trees = tree_of("grid", arrays), tree_of("tree", arrays)
        return cls(
            head,
            arrays["frequency"],
            *trees,
            arrays["set_of"],
            int(arrays["sets"]),
            bool(arrays["is_by_place"]),
        )


@kernel
def _choose_hottest(row, word, frequency, hottest):
    for i in range(row.size):
        best = hottest[row[i]]
        if word[i] != ANY_WORD and (best < 0 or frequency[word[i]] > frequency[best]):
            hottest[row[i]] = word[i]
