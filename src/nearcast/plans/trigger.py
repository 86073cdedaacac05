"""The plan `trigger`: one copy, and messages go only where a needed word meets the cells it is needed in.

Narrow subscriptions, whose shapes are all small, live by place, as their messages do: a k-d tree has a cell for each of
their partitions. Wide ones have partitions of their own. They are ordered by the words they need, the most frequent
first, and the order is cut into pieces (`pieces`): those that share the words of many messages are neighbours, and a
word that more subscriptions need than a partition can serve is cut by the next ones. What is alike to the last word is
cut by a hash of its number.

Partitions have like loads. The messages that its subscriptions take in cost a partition far more than those it looks
at in vain. The list of a top-k subscription takes in about twice k messages of a window, whatever its words, unless
fewer have one; of others it is the messages that meet their keys. A part of each load is the same for all.

What there was nothing to learn from, or too little for partitions of its own, is spread over all partitions: narrow
subscriptions by cell, wide ones by a hash of a word, those that need none by number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import kernel
from nearcast.columns import TOPK
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
from nearcast.plans.needs import Needs, needs_of, shapes_of, single_words
from nearcast.plans.pieces import cut_evenly, messages_of_keys, pieces_of, shared_out
from nearcast.plans.single import tree_arrays, tree_of
from nearcast.plans.words import FIRST_UNRANKED, Postings, WordRanks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions
    from nearcast.geo import Regions

#: Cells of the grid.
_CELLS = 256
#: A shape that touches more cells than this counts as everywhere.
_MOST_CELLS = 32
#: Messages that the list of a top-k subscription takes in while the window moves on by its length, as a multiple of k.
_LISTED = 2.0
#: The part of a load that is the same for all.
_ALIKE = 0.3
#: Subscriptions and messages that the order is cut by.
_TRIED_SUBSCRIPTIONS, _TRIED_MESSAGES = 20_000, 1_000
#: Words of a subscription that say where it stands in the order, and the rank of none.
_LEADING_WORDS, _NO_WORD = 3, 1 << 62
#: Of the number of a subscription: multiplied and cut off, numbers that follow each other lie far apart.
_SPREAD, _SPREAD_MASK = 0x9E3779B1, 0x7FFFFFFF


class _SubscriptionKeys(NamedTuple):
    """The keys of subscriptions but for the partition: row `row[i]` needs `word[i]` in `cell[i]`.

    `is_wide` is by subscription: it has a shape that counts as everywhere.
    """

    row: NDArray[np.int64]
    word: NDArray[np.int32]
    cell: NDArray[np.int32]
    is_wide: NDArray[np.bool_]


class _Layout(NamedTuple):
    """Which partitions take what: the first ones narrow subscriptions by the cells of `tree`, the others pieces.

    `narrow` is how many the first ones are. Wide subscriptions are ordered by the ranks of words, and all pieces but
    the first begin at the places `cuts`. `has_any` tells whether there were some that need no word.
    """

    tree: Grid
    narrow: int
    rank: NDArray[np.int64]
    cuts: NDArray[np.int64]
    has_any: bool

    @classmethod
    def unknown(cls, grid: Grid) -> _Layout:
        """Return the layout of what there was nothing to learn from."""
        return cls(grid, 0, np.empty(0, np.int64), np.empty((0, 1 + _LEADING_WORDS), np.int64), False)


class TriggerPlan(Plan):
    """Subscriptions by place or words, one copy each, with keys of word and cell."""

    def __init__(self, head: PlanHead, frequency: NDArray[np.int64], grid: Grid, layout: _Layout):
        super().__init__(head)
        self.grid: Grid = grid
        self._frequency = frequency
        self._use(layout)

    def _use(self, layout: _Layout) -> None:
        self._layout, self._ranks = layout, WordRanks(self.words, layout.rank)

    @classmethod
    def learned(cls, head: PlanHead, given: PlanSample) -> TriggerPlan:
        """Cut space into cells, and share partitions out between narrow and wide subscriptions by their loads."""
        (_, _, space, words), (subscriptions, sample, weights, thresholds, window) = head, given
        points, has_place = places_of(subscriptions)
        grid = cut_space(points[has_place], message_points(sample), _CELLS, space)
        plan = cls(head, Postings.of_messages(sample).frequency(len(words)), grid, _Layout.unknown(grid))
        some = np.arange(0, len(subscriptions), 1 + len(subscriptions) // _TRIED_SUBSCRIPTIONS)
        few = np.arange(0, len(sample), 1 + len(sample) // _TRIED_MESSAGES)
        if len(some):
            tried = subscriptions.take(some)
            needs = plan._needs(tried, weights, None if thresholds is None else thresholds[some])
            keyed = plan._keyed(tried, needs)
            repeated = np.inf if window is None or not len(sample) else window / len(sample)
            load = plan._loads(tried, needs, keyed, sample.take(few), repeated)
            plan._lay_out(tried, some, needs, keyed, load, message_points(sample))
        return plan

    def _loads(
        self, subscriptions: Subscriptions, needs: Needs, keyed: _SubscriptionKeys, sample: Messages, repeated: float
    ) -> NDArray[np.float64]:
        """Return the load of each subscription; the window is `repeated` times the sample that gave frequencies."""
        is_topk, load = subscriptions.kind == TOPK, np.empty(len(subscriptions))
        load[is_topk] = _even(self._listed(subscriptions, needs, repeated)[is_topk])
        met = messages_of_keys(keyed.word, keyed.cell, sample, self.grid)
        met_by_row = np.bincount(keyed.row, weights=met, minlength=len(load))
        load[~is_topk] = _even(np.minimum(met_by_row, len(sample))[~is_topk])
        return load

    def _lay_out(
        self,
        subscriptions: Subscriptions,
        numbers: NDArray[np.int64],
        needs: Needs,
        keyed: _SubscriptionKeys,
        load: NDArray[np.float64],
        said: NDArray[np.float64],
    ) -> None:
        """Cut space for narrow subscriptions and the order of wide ones, each into as many pieces as partitions."""
        points, is_narrow = self._narrow(subscriptions, keyed)
        loads = float(load[is_narrow].sum()), float(load[~is_narrow].sum())
        narrow, wide = shared_out(loads, self.partitions)
        # Without partitions of their own wide subscriptions are spread, as those of new words are.
        rank = _ranks(needs.word[~is_narrow[needs.row]], self._frequency) if wide else self._layout.rank
        tree = cut_space(points[is_narrow], said, max(narrow, 1), self.space)
        layout = _Layout(tree, narrow, rank, self._layout.cuts, False)
        self._use(layout)
        if wide:
            order = self._order(numbers, needs)[~is_narrow]
            has_any = bool((order[:, 0] == ANY_WORD).any())
            self._use(layout._replace(cuts=cut_evenly(order, load[~is_narrow], wide), has_any=has_any))

    def _listed(self, subscriptions: Subscriptions, needs: Needs, repeated: float) -> NDArray[np.float64]:
        """Return how many messages the list of each top-k subscription takes in while the window moves on once."""
        if subscriptions.scoring is None:
            return np.zeros(len(subscriptions))
        most = _LISTED * subscriptions.scoring.k
        frequency = np.append(frequency_by_word(self._frequency, len(self.words)), 0)
        # One more: what the sample has not shown may still be said.
        said = 1 + np.bincount(needs.row, weights=frequency[needs.word], minlength=len(subscriptions))
        listed: NDArray[np.float64] = np.minimum(most, said * repeated)
        return listed

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

    def _narrow(
        self, subscriptions: Subscriptions, keyed: _SubscriptionKeys
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the places of subscriptions, and which of them live by these."""
        points, has_place = places_of(subscriptions)
        return points, has_place & ~keyed.is_wide

    def _order(self, numbers: NDArray[np.int64], needs: Needs) -> NDArray[np.int64]:
        """Return the place of each subscription in the order of wide ones: the ranks of its words, and its number.

        The rank of ANY_WORD is the lowest, since it brings every message.
        """
        leading = np.full((len(numbers), _LEADING_WORDS), _NO_WORD, np.int64)
        _choose_leading(needs.row, needs.word, self._ranks.by_word(), leading)
        spread = ((np.asarray(numbers, np.int64) & _SPREAD_MASK) * _SPREAD) & _SPREAD_MASK
        return np.column_stack([leading, spread])

    def _homes(
        self, subscriptions: Subscriptions, numbers: NDArray[np.int64], needs: Needs, keyed: _SubscriptionKeys
    ) -> NDArray[np.int32]:
        """Return the cell or the piece of each subscription, or where it goes if there was none to learn from."""
        layout, numbers = self._layout, np.asarray(numbers, np.int64)
        order = self._order(numbers, needs)
        home = np.minimum(layout.narrow + pieces_of(order, layout.cuts), self.partitions - 1)
        word = order[:, 0]
        is_new = (word >= FIRST_UNRANKED) & (word < _NO_WORD)
        home[is_new] = (word[is_new] - FIRST_UNRANKED) % self.partitions
        is_of_none = (word == _NO_WORD) | ((word == ANY_WORD) & (not layout.has_any))
        home[is_of_none] = numbers[is_of_none] % self.partitions
        points, is_narrow = self._narrow(subscriptions, keyed)
        if layout.narrow:
            home[is_narrow] = layout.tree.cell_of(points[is_narrow])
        else:
            home[is_narrow] = self.grid.cell_of(points[is_narrow]).astype(np.int64) * self.partitions // self.grid.cells
        return home.astype(np.int32)

    def place(
        self,
        subscriptions: Subscriptions,
        numbers: NDArray[np.int64],
        weights: NDArray[np.float64],
        thresholds: NDArray[np.float64] | None = None,
    ) -> Placement:
        """Give each subscription one home: by place if its shapes are small, else by its most frequent words."""
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

    def single_words(self, subscriptions: Subscriptions) -> NDArray[np.int32]:
        """Return the rarest word of boolean subscriptions of one clause."""
        return single_words(subscriptions, frequency_by_word(self._frequency, len(self.words)))

    def keys_of_words(self, word: NDArray[np.int32], regions: Regions, home: int) -> Keys:
        """Return each word with the cells that its region touches."""
        word = np.repeat(word, np.diff(regions.part_start))
        start, cell = self.grid.cells_of(regions.part, _MOST_CELLS)
        return Keys(np.repeat(word, np.diff(start)), cell, np.full(len(cell), home, np.int32))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the grid, the layout, and how frequent words were."""
        layout = self._layout
        return {
            "frequency": self._frequency,
            "narrow": np.array(layout.narrow),
            "rank": layout.rank,
            "cuts": layout.cuts,
            "has_any": np.array(layout.has_any),
            **tree_arrays("grid", self.grid),
            **tree_arrays("tree", layout.tree),
        }

    @classmethod
    def restored(cls, head: PlanHead, arrays: dict[str, NDArray[Any]]) -> TriggerPlan:
        """Return the plan with these cells and cuts."""
        layout = _Layout(
            tree_of("tree", arrays),
            int(arrays["narrow"]),
            arrays["rank"],
            arrays["cuts"],
            bool(arrays["has_any"]),
        )
        return cls(head, arrays["frequency"], tree_of("grid", arrays), layout)


def _ranks(word: NDArray[np.int32], frequency: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rank the words that are needed: the most frequent first, of like ones that which more need; others get -1."""
    words = len(frequency)
    wanted = np.bincount(word[word >= 0], minlength=words)
    order = np.lexsort((np.arange(words), -wanted, -frequency, wanted == 0))
    rank = np.full(words, -1, np.int64)
    n = int(np.count_nonzero(wanted))
    rank[order[:n]] = np.arange(n)
    return rank


def _even(amount: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return loads of 1 on average, one share the same for each, the other in proportion to the amounts."""
    mean = float(amount.mean()) if len(amount) else 0.0
    return _ALIKE + (1.0 - _ALIKE) * amount / mean if mean > 0.0 else np.ones(len(amount))


@kernel
def _choose_leading(row, word, rank, leading):
    """Write the lowest ranks among the words that each row needs, ascending, each once."""
    for i in range(row.size):
        value = np.int64(ANY_WORD) if word[i] == ANY_WORD else rank[word[i]]
        for at in range(leading.shape[1]):
            held = leading[row[i], at]
            if value == held:
                break
            if value < held:
                leading[row[i], at] = value
                value = held
