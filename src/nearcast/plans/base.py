"""The contract of partition plans: where subscriptions live, and which messages a partition must see."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._saved import replace_file
from nearcast.columns import TOPK
from nearcast.errors import InvalidInput
from nearcast.geo import Space

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions
    from nearcast.geo import Regions
    from nearcast.plans.grid import Grid
    from nearcast.text.words import WordTable

#: In a key: whatever the message says, wherever it is.
ANY_WORD, ANY_CELL = -1, -1
#: In place of the one word that a subscription needs: it needs several, or that depends on more than its words.
SEVERAL_WORDS = -2
#: Copies are bits of one uint64.
MOST_PARTITIONS_WITH_COPIES = 64

PLAN_FILE = "plan.npz"
PLAN_FORMAT = 2


class Keys(NamedTuple):
    """Which messages a partition needs: those with the word, in the cell; one row for each.

    `word` is an id of the plan's words or ANY_WORD, `cell` one of the plan's grid or ANY_CELL.
    """

    word: NDArray[np.int32]
    cell: NDArray[np.int32]
    partition: NDArray[np.int32]

    @classmethod
    def none(cls) -> Keys:
        """Return no keys."""
        return cls(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int32))

    @classmethod
    def concat(cls, pieces: list[Keys]) -> Keys:
        """Return the keys of all pieces, in order."""
        if not pieces:
            return cls.none()
        return cls(*map(np.concatenate, zip(*pieces, strict=True)))

    @classmethod
    def distinct(
        cls, word: NDArray[np.integer[Any]], cell: NDArray[np.integer[Any]] | int, partition: NDArray[np.integer[Any]]
    ) -> Keys:
        """Return these keys in order, each once."""
        cell = np.broadcast_to(np.asarray(cell, np.int64), len(word))
        cells, parts = int(cell.max(initial=-1)) + 2, int(partition.max(initial=0)) + 1
        packed = np.sort(((word.astype(np.int64) + 1) * cells + (cell + 1)) * parts + partition)
        packed = packed[np.flatnonzero(np.diff(packed, prepend=packed[:1] - 1))]  # np.unique hashes, and is slower
        packed, part = np.divmod(packed, parts)
        found_word, found_cell = np.divmod(packed, cells)
        return cls((found_word - 1).astype(np.int32), (found_cell - 1).astype(np.int32), part.astype(np.int32))


def answers_here(copies: NDArray[np.uint64], routes: NDArray[np.uint64], partition: int) -> NDArray[np.bool_]:
    """Tell which pairs of subscription and message a partition delivers, so that each is delivered by one copy.

    Of the partitions that hold the subscription (bits of `copies`) and get the message (bits of `routes`), it is the
    lowest one.
    """
    both = copies & routes
    is_lowest: NDArray[np.bool_] = (both & (~both + np.uint64(1))) == np.uint64(1 << partition)
    return is_lowest


class Placement(NamedTuple):
    """Where subscriptions go, by subscription, and the keys that bring them their messages.

    Bit p of `copies` tells that partition p holds the subscription, the home among them; None where every subscription
    has one copy, at home. A top-k subscription that comes below its `threshold` needs more: place it again.
    """

    home: NDArray[np.int32]
    copies: NDArray[np.uint64] | None
    keys: Keys
    threshold: NDArray[np.float64]


class PlanHead(NamedTuple):
    """What every plan is made with: its spec, the number of partitions, the space and the words of its keys."""

    name: str
    partitions: int
    space: Space
    words: WordTable


class PlanSample(NamedTuple):
    """What a plan is learned from: subscriptions and messages, encoded with its words; `weights` are by word.

    `thresholds` are those of top-k subscriptions, None for 0. `window` is how many messages their window holds, None
    where that is not known.
    """

    subscriptions: Subscriptions
    messages: Messages
    weights: NDArray[np.float64]
    thresholds: NDArray[np.float64] | None
    window: int | None


class Plan(ABC):
    """A way to spread subscriptions over partitions such that a message need not go to all of them.

    For a message and a subscription it matches (of kind `topk`: with a word in common and a score of at least the
    threshold given) some partition that holds the subscription has a key of the message. Subscriptions and messages
    come encoded with `words`, which may grow after the plan was learned.
    """

    has_copies = False
    grid: Grid | None = None

    def __init__(self, head: PlanHead):
        self.name, self.partitions, self.space, self.words = head

    @abstractmethod
    def place(
        self,
        subscriptions: Subscriptions,
        numbers: NDArray[np.int64],
        weights: NDArray[np.float64],
        thresholds: NDArray[np.float64] | None = None,
    ) -> Placement:
        """Choose the home and the copies of subscriptions, and say which messages these need.

        `numbers` are their registration numbers; `weights` are by word. `thresholds` tell from which score a message
        concerns a subscription of kind `topk`; None stands for 0, any message with a word in common.
        """

    @abstractmethod
    def keys(
        self,
        subscriptions: Subscriptions,
        home: NDArray[np.int32],
        weights: NDArray[np.float64],
        thresholds: NDArray[np.float64] | None = None,
    ) -> Keys:
        """Return the keys that bring subscriptions everything they need at `home` itself, whatever the plan prefers."""

    def single_words(self, subscriptions: Subscriptions) -> NDArray[np.int32]:
        """Return the one word that each boolean subscription needs wherever it is; SEVERAL_WORDS if it is not one.

        A plan whose keys do not come of a word and a region alone has SEVERAL_WORDS for all.
        """
        return np.full(len(subscriptions), SEVERAL_WORDS, np.int32)

    def keys_of_words(self, word: NDArray[np.int32], regions: Regions, home: int) -> Keys:
        """Return the keys of subscriptions by the one word that each needs, and its region; a key may come again."""
        raise NotImplementedError(f"the plan {self.name} has no keys of single words")

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was learned, for `restored`."""

    @classmethod
    @abstractmethod
    def restored(cls, head: PlanHead, arrays: dict[str, NDArray[Any]]) -> Plan:
        """Return the plan that gave these `arrays`."""

    def save(self, folder: Path) -> None:
        """Write the plan and its words into a folder, each file replaced in one step."""
        folder = Path(folder)
        self.words.save(folder)
        about = {
            "format": PLAN_FORMAT,
            "name": self.name,
            "partitions": self.partitions,
            "space": self.space.kind,
            "bounds": self.space.bounds,
        }

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.savez(file, about=np.array(json.dumps(about)), **self.arrays())  # type: ignore[arg-type]

        replace_file(folder / PLAN_FILE, write)


def checked_weights(weights: NDArray[np.float64], words: WordTable) -> NDArray[np.float64]:
    """Return the weights for kernels; `InvalidInput` if there are fewer than words."""
    if len(weights) < len(words):
        raise InvalidInput(f"{len(weights)} weights for {len(words)} words; give one for each", field="weights")
    return np.ascontiguousarray(weights, np.float64)


def topk_thresholds(subscriptions: Subscriptions, given: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return the threshold of each subscription as the plans read it: that given for kind `topk`, 0 for the others."""
    if given is None:
        return np.zeros(len(subscriptions))
    return np.where(subscriptions.kind == TOPK, np.asarray(given, np.float64), 0.0)
