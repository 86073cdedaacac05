"""The plans that store a subscription with the owner of each word it needs: `keyword`, `prefix` and the two hybrids.

The home is the partition of the heaviest word needed, of equal ones that with the smaller id: among matching messages
most have it, so that few matches are found away from home. A subscription that needs no word lives once, by its
number, and its home gets every message.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast._jit import kernel
from nearcast.plans.base import ANY_CELL, ANY_WORD, Keys, Placement, Plan, PlanHead, PlanSample, checked_weights
from nearcast.plans.grid import Grid, cut_space, message_points, places_of
from nearcast.plans.needs import Needs, all_words_of, needs_of
from nearcast.plans.single import all_messages, homes_by_place, tree_arrays, tree_of
from nearcast.plans.words import Owners, Postings, cut_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions


class CopiesPlan(Plan):
    """A plan whose subclasses say which partition takes a subscription for a word it needs."""

    has_copies = True
    #: Every word of a scored subscription counts as needed, not only those of its loose prefix.
    takes_all_words = False

    def __init__(self, head: PlanHead, frequency: NDArray[np.int64]):
        super().__init__(head)
        self._frequency = frequency

    @abstractmethod
    def _takers(self, subscriptions: Subscriptions, numbers: NDArray[np.int64], needs: Needs) -> NDArray[np.int32]:
        """Return the partition that takes the row of each need; those of any word do not count."""

    def needs(
        self,
        subscriptions: Subscriptions,
        weights: NDArray[np.float64],
        thresholds: NDArray[np.float64] | None,
    ) -> Needs:
        """Return the words that subscriptions need under this plan."""
        frequency = frequency_by_word(self._frequency, len(self.words))
        if self.takes_all_words:
            return all_words_of(subscriptions, frequency)
        return needs_of(subscriptions, checked_weights(weights, self.words), thresholds, frequency)

    def place(
        self,
        subscriptions: Subscriptions,
        numbers: NDArray[np.int64],
        weights: NDArray[np.float64],
        thresholds: NDArray[np.float64] | None = None,
    ) -> Placement:
        """Store subscriptions with the owners of the words they need."""
        needs = self.needs(subscriptions, weights, thresholds)
        numbers = np.asarray(numbers, np.int64)
        home = (numbers % self.partitions).astype(np.int32)
        takers = self._takers(subscriptions, numbers, needs)
        copies, needs_any = np.zeros(len(home), np.uint64), np.zeros(len(home), np.uint8)
        weights = checked_weights(weights, self.words)
        _gather_copies(needs.row, needs.word, takers, weights, home, copies, needs_any)
        worded = np.flatnonzero(needs_any[needs.row] == 0)
        keys = Keys.distinct(needs.word[worded], ANY_CELL, takers[worded])
        keys = Keys.concat([all_messages(home[needs_any == 1]), keys])
        return Placement(home, copies, keys, needs.threshold)

    def keys(
        self,
        subscriptions: Subscriptions,
        home: NDArray[np.int32],
        weights: NDArray[np.float64],
        thresholds: NDArray[np.float64] | None = None,
    ) -> Keys:
        """Return the words that subscriptions need, each for the home."""
        needs = self.needs(subscriptions, weights, thresholds)
        return Keys.distinct(needs.word, ANY_CELL, np.asarray(home, np.int32)[needs.row])


@kernel
def _gather_copies(row, word, taker, weight, home, copies, needs_any):
    """Write the home and the copies of each subscription whose needs these are, sorted by row."""
    for i in range(row.size):
        if word[i] == ANY_WORD:
            needs_any[row[i]] = 1
    best = -1
    for i in range(row.size):
        r = row[i]
        if needs_any[r]:
            continue
        if i == 0 or row[i - 1] != r:
            best = -1
        if best < 0 or weight[word[i]] > weight[best] or (weight[word[i]] == weight[best] and word[i] < best):
            best = word[i]
            home[r] = taker[i]
        copies[r] |= np.uint64(1) << np.uint64(taker[i])
    for r in range(home.size):
        if copies[r] == np.uint64(0):
            copies[r] = np.uint64(1) << np.uint64(home[r])


def frequency_by_word(learned: NDArray[np.int64], words: int) -> NDArray[np.int64]:
    """Return how many messages of the sample had each word; a word that came later was in none."""
    return np.concatenate([learned, np.zeros(max(0, words - len(learned)), np.int64)])


class KeywordPlan(CopiesPlan):
    """Words have owners; a scored subscription goes to the owners of all its words (§7.3.3 of the Skype paper)."""

    takes_all_words = True

    def __init__(self, head: PlanHead, frequency: NDArray[np.int64], owner: NDArray[np.int32]):
        super().__init__(head, frequency)
        self._owners = Owners(head.words, owner, head.partitions)

    @classmethod
    def learned(cls, head: PlanHead, given: PlanSample) -> KeywordPlan:
        """Cut the words by Algorithm 4, with the words that subscriptions need under this plan."""
        said, words, partitions = Postings.of_messages(given.messages), head.words, head.partitions
        plan = cls(head, said.frequency(len(words)), np.zeros(len(words), np.int32))
        needs = plan.needs(given.subscriptions, given.weights, given.thresholds)
        wanted = Postings.of(needs.row, needs.word, len(given.subscriptions))
        plan._owners = Owners(words, cut_words(wanted, said, plan._frequency, partitions), partitions)
        return plan

    def _takers(self, subscriptions: Subscriptions, numbers: NDArray[np.int64], needs: Needs) -> NDArray[np.int32]:
        return _of_words(self._owners.by_word(), needs.word)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the owners of words and how frequent words were."""
        return {"frequency": self._frequency, "owner": self._owners.learned}

    @classmethod
    def restored(cls, head: PlanHead, arrays: dict[str, NDArray[Any]]) -> KeywordPlan:
        """Return the plan with these owners."""
        return cls(head, arrays["frequency"], arrays["owner"])


class PrefixPlan(KeywordPlan):
    """Words have owners; a subscription goes to the owners of the words of its loose prefix (§7.3.4)."""

    takes_all_words = False


def _of_words(by_word: NDArray[np.int32], word: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the values of words, 0 for ANY_WORD."""
    found = np.zeros(len(word), np.int32)
    known = word >= 0
    found[known] = by_word[word[known]]
    return found


class SpaceFirstPlan(CopiesPlan):
    """Space is cut first, then the words in each cell anew: a subscription has copies within the group of its cell."""

    def __init__(self, head: PlanHead, frequency: NDArray[np.int64], tree: Grid, owner: NDArray[np.int32]):
        super().__init__(head, frequency)
        self.tree = tree
        self._second = head.partitions // tree.cells
        self._owners = [Owners(head.words, each, self._second) for each in owner]

    @classmethod
    def learned(cls, head: PlanHead, groups: tuple[int, int], given: PlanSample) -> SpaceFirstPlan:
        """Cut space by Algorithm 3, and in each cell the words that its subscriptions need by Algorithm 4."""
        (first, second), (subscriptions, sample, weights, thresholds, _) = groups, given
        points, has_place = places_of(subscriptions)
        tree = cut_space(points[has_place], message_points(sample), first, head.space)
        said, n = Postings.of_messages(sample), len(subscriptions)
        frequency = said.frequency(len(head.words))
        needs = needs_of(subscriptions, weights, thresholds, frequency)
        cell = homes_by_place(tree, subscriptions, np.arange(n))[needs.row]
        owner = np.zeros((first, len(head.words)), np.int32)
        for group in range(first):
            wanted = Postings.of(needs.row[cell == group], needs.word[cell == group], n)
            owner[group] = cut_words(wanted, said, frequency, second)
        return cls(head, frequency, tree, owner)

    def _takers(self, subscriptions: Subscriptions, numbers: NDArray[np.int64], needs: Needs) -> NDArray[np.int32]:
        cell = homes_by_place(self.tree, subscriptions, numbers)[needs.row]
        takers = np.zeros(len(cell), np.int32)
        for group, owners in enumerate(self._owners):
            here = np.flatnonzero(cell == group)
            takers[here] = group * self._second + _of_words(owners.by_word(), needs.word[here])
        return takers

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the tree, the owners by cell, and how frequent words were."""
        owner = np.array([each.learned for each in self._owners], np.int32)
        return {"frequency": self._frequency, "owner": owner, **tree_arrays("tree", self.tree)}

    @classmethod
    def restored(cls, head: PlanHead, arrays: dict[str, NDArray[Any]]) -> SpaceFirstPlan:
        """Return the plan with these cells and owners."""
        return cls(head, arrays["frequency"], tree_of("tree", arrays), arrays["owner"])


class KeywordFirstPlan(CopiesPlan):
    """Words are cut first, then space for each set of words: of a set one partition takes the subscription."""

    def __init__(self, head: PlanHead, frequency: NDArray[np.int64], owner: NDArray[np.int32], trees: list[Grid]):
        super().__init__(head, frequency)
        self._owners = Owners(head.words, owner, len(trees))
        self._trees = trees

    @classmethod
    def learned(cls, head: PlanHead, groups: tuple[int, int], given: PlanSample) -> KeywordFirstPlan:
        """Cut the words by Algorithm 4, and by Algorithm 3 space for the subscriptions that need words of each set."""
        (first, second), (subscriptions, sample, weights, thresholds, _) = groups, given
        said, n = Postings.of_messages(sample), len(subscriptions)
        frequency = said.frequency(len(head.words))
        needs = needs_of(subscriptions, weights, thresholds, frequency)
        owner = cut_words(Postings.of(needs.row, needs.word, n), said, frequency, first)
        points, has_place = places_of(subscriptions)
        where = message_points(sample)
        speaks_of = np.zeros((len(sample), first), np.bool_)
        speaks_of[np.repeat(np.arange(len(sample)), np.diff(said.start)), owner[said.word]] = True
        trees = []
        for group in range(first):
            mine = np.unique(needs.row[(needs.word >= 0) & (_of_words(owner, needs.word) == group)])
            trees.append(cut_space(points[mine][has_place[mine]], where[speaks_of[:, group]], second, head.space))
        return cls(head, frequency, owner, trees)

    def _takers(self, subscriptions: Subscriptions, numbers: NDArray[np.int64], needs: Needs) -> NDArray[np.int32]:
        group_of = _of_words(self._owners.by_word(), needs.word)
        takers = np.zeros(len(group_of), np.int32)
        for group, tree in enumerate(self._trees):
            cell = homes_by_place(tree, subscriptions, numbers)
            here = np.flatnonzero(group_of == group)
            takers[here] = group * tree.cells + cell[needs.row[here]]
        return takers

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the owners, a tree for each, and how frequent words were."""
        found: dict[str, NDArray[Any]] = {
            "frequency": self._frequency,
            "owner": self._owners.learned,
            "trees": np.array(len(self._trees)),
        }
        for group, tree in enumerate(self._trees):
            found |= tree_arrays(f"tree{group}", tree)
        return found

    @classmethod
    def restored(cls, head: PlanHead, arrays: dict[str, NDArray[Any]]) -> KeywordFirstPlan:
        """Return the plan with these owners and trees."""
        trees = [tree_of(f"tree{group}", arrays) for group in range(int(arrays["trees"]))]
        return cls(head, arrays["frequency"], arrays["owner"], trees)
