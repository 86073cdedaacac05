"""The plans that send every message everywhere: `hash` and `location`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.plans.base import ANY_CELL, ANY_WORD, Keys, Placement, Plan, PlanHead, PlanSample
from nearcast.plans.grid import Grid, cut_space, message_points, places_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions


def all_messages(partitions: NDArray[np.integer[Any]]) -> Keys:
    """Return the keys with which these partitions get every message."""
    parts = np.unique(partitions).astype(np.int32)
    return Keys(np.full(len(parts), ANY_WORD, np.int32), np.full(len(parts), ANY_CELL, np.int32), parts)


class HashPlan(Plan):
    """A subscription lives in the partition of its number modulo their number (Eq. 14 of the Skype paper)."""

    def place(
        self,
        subscriptions: Subscriptions,
        numbers: NDArray[np.int64],
        weights: NDArray[np.float64],
        thresholds: NDArray[np.float64] | None = None,
    ) -> Placement:
        """Spread subscriptions by their numbers."""
        home = (np.asarray(numbers, np.int64) % self.partitions).astype(np.int32)
        return Placement(home, None, all_messages(home), np.zeros(len(home)))

    def keys(
        self,
        subscriptions: Subscriptions,
        home: NDArray[np.int32],
        weights: NDArray[np.float64],
        thresholds: NDArray[np.float64] | None = None,
    ) -> Keys:
        """Return every message for every home."""
        return all_messages(home)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return nothing: nothing was learned."""
        return {}

    @classmethod
    def restored(cls, head: PlanHead, arrays: dict[str, NDArray[Any]]) -> HashPlan:
        """Return the plan."""
        del arrays  # nothing was learned
        return cls(head)


class LocationPlan(HashPlan):
    """A subscription lives in the cell of its place, one cell a partition; without a place, by its number.

    Messages go to all partitions, as in the Skype paper: neighbours in one partition let its index prune better.
    """

    def __init__(self, head: PlanHead, tree: Grid):
        super().__init__(head)
        self.tree = tree

    @classmethod
    def learned(cls, head: PlanHead, given: PlanSample) -> LocationPlan:
        """Cut space by the places of subscriptions and messages."""
        points, has_place = places_of(given.subscriptions)
        tree = cut_space(points[has_place], message_points(given.messages), head.partitions, head.space)
        return cls(head, tree)

    def place(
        self,
        subscriptions: Subscriptions,
        numbers: NDArray[np.int64],
        weights: NDArray[np.float64],
        thresholds: NDArray[np.float64] | None = None,
    ) -> Placement:
        """Spread subscriptions by their places."""
        home = homes_by_place(self.tree, subscriptions, numbers)
        return Placement(home, None, all_messages(np.arange(self.partitions)), np.zeros(len(home)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the tree."""
        return tree_arrays("tree", self.tree)

    @classmethod
    def restored(cls, head: PlanHead, arrays: dict[str, NDArray[Any]]) -> LocationPlan:
        """Return the plan with this tree."""
        return cls(head, tree_of("tree", arrays))


def homes_by_place(tree: Grid, subscriptions: Subscriptions, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the cell of each subscription's place; without one, of its number."""
    points, has_place = places_of(subscriptions)
    by_number = (np.asarray(numbers, np.int64) % tree.cells).astype(np.int32)
    return np.where(has_place, tree.cell_of(points), by_number).astype(np.int32)


def tree_arrays(name: str, tree: Grid) -> dict[str, NDArray[Any]]:
    """Return the columns of a tree under names of their own."""
    return {f"{name}_{column}": values for column, values in tree._asdict().items()}


def tree_of(name: str, arrays: dict[str, NDArray[Any]]) -> Grid:
    """Return the tree that gave these columns."""
    return Grid(*(np.ascontiguousarray(arrays[f"{name}_{column}"]) for column in Grid._fields))
