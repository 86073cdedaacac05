"""Tools to test an index, ours or your own: scripts of changes and messages, their replay, an invariant walk.

An index of your own is right if it answers every script as `scan` does:

    from hypothesis import given
    from nearcast.indexes import create
    from nearcast.testing import check_index, replay, scripts

    @given(scripts())
    def test_mine_agrees_with_scan(script):
        mine = create("mine", script.space)
        assert replay(create("scan", script.space), script) == replay(mine, script)
        check_index(mine)

`scripts()` holds boolean subscriptions; for an index that matches others say so, as `scripts(kinds=("similar",))` or
`scripts(kinds=("within", "similar", "topk"))`.

Hypothesis is needed by `scripts` only, and imported when that is called.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nearcast.columns import Messages, Subscriptions
from nearcast.geo import Regions, Shape, Space
from nearcast.indexes import Index, Matches
from nearcast.model import TopK
from nearcast.testing.plain import Weights, topk_score
from nearcast.testing.script import Script, Step
from nearcast.testing.values import (
    Said,
    Wanted,
    is_scored,
    messages_of,
    moved,
    reads_whole_message,
    region_of,
    subscriptions_of,
)
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from nearcast.indexes.shared.stored_index import StoredIndex

__all__ = [
    "Actor",
    "IndexActor",
    "Said",
    "Script",
    "Step",
    "Wanted",
    "Weights",
    "check_index",
    "messages_of",
    "replay",
    "scripts",
    "subscriptions_of",
]


class Actor(Protocol):
    """What a script is replayed against: an index that takes values."""

    def insert(self, wanted: Sequence[Wanted]) -> list[int]:
        """Store subscriptions and return their slots."""

    def remove(self, slots: list[int]) -> None:
        """Forget slots."""

    def replace(self, slots: list[int], wanted: Sequence[Wanted]) -> None:
        """Put other subscriptions into slots."""

    def move(self, slots: list[int], regions: Sequence[Shape | None]) -> None:
        """Give slots other regions; those of scored slots are boxes of one point."""

    def set_thresholds(self, slots: list[int], values: list[float]) -> None:
        """Give slots of kind topk other thresholds."""

    def reweigh(self, weights: Weights) -> None:
        """Let words weigh something else."""

    def match(self, said: Sequence[Said]) -> Any:
        """Return the matches of messages."""

    def settle(self) -> None:
        """Finish what goes on in the background."""

    def renumber(self) -> list[int]:
        """Give the live slots new numbers; return the old ones."""


@dataclass
class IndexActor:
    """An index that takes values: it keeps the word table that turns them into columns, and what the words weigh.

    Messages come with `totals` once a subscription needs them. The first `n_weighed` words of the table have told the
    index their weight.
    """

    index: Index
    add_words: bool = False
    words: WordTable = field(default_factory=WordTable)
    weights: Weights = field(default_factory=dict)
    totals: bool = False
    n_weighed: int = 0

    def subscriptions(self, wanted: Sequence[Wanted]) -> Subscriptions:
        """Return the columns of these subscriptions, and let the index know what their words weigh."""
        columns = subscriptions_of(wanted, self.index.space, self.words)
        self.totals |= any(map(reads_whole_message, wanted))
        self._weigh_new_words()
        return columns

    def messages(self, said: Sequence[Said]) -> Messages:
        """Return the columns of these messages."""
        weights = self.weights if self.totals else None
        columns = messages_of(said, self.words, add_words=self.add_words, weights=weights)
        self._weigh_new_words()
        return columns

    def _weigh_new_words(self) -> None:
        first, last = self.n_weighed, len(self.words)
        if first < last:
            new = self.words.words().slice(first).to_pylist()
            self.index.set_weights(np.array([self.weights.get(word, 1.0) for word in new]), first)
            self.n_weighed = last

    def reweigh(self, weights: Weights) -> None:
        """Let all words weigh something else."""
        self.weights, self.n_weighed = dict(weights), 0
        self._weigh_new_words()

    def insert(self, wanted: Sequence[Wanted]) -> list[int]:
        """Store subscriptions and return their slots."""
        slots: list[int] = self.index.insert(self.subscriptions(wanted)).tolist()
        return slots

    def remove(self, slots: list[int]) -> None:
        """Forget slots."""
        self.index.remove(np.array(slots, np.int32))

    def replace(self, slots: list[int], wanted: Sequence[Wanted]) -> None:
        """Put other subscriptions into slots."""
        self.index.replace(np.array(slots, np.int32), self.subscriptions(wanted))

    def move(self, slots: list[int], regions: Sequence[Shape | None]) -> None:
        """Give slots other regions."""
        self.index.move(np.array(slots, np.int32), Regions.from_shapes(list(regions), self.index.space))

    def set_thresholds(self, slots: list[int], values: list[float]) -> None:
        """Give slots of kind topk other thresholds."""
        self.index.set_thresholds(np.array(slots, np.int32), np.array(values, np.float64))

    def match(self, said: Sequence[Said]) -> Matches:
        """Return the matches of messages."""
        return self.index.match(self.messages(said))

    def settle(self) -> None:
        """Wait for background work, where the index has any."""
        getattr(self.index, "settle", lambda: None)()

    def renumber(self) -> list[int]:
        """Give the live slots new numbers; return the old ones."""
        old: list[int] = self.index.renumber().tolist()
        return old


def replay(index: Index | Actor, script: Script) -> list[Any]:
    """Play a script and return what each of its `match` steps gave."""
    actor = IndexActor(index, script.add_words) if isinstance(index, Index) else index
    live: dict[int, Wanted] = {}
    weights: Weights = {}
    answers = []
    for step in script.steps:
        if step.verb == "insert":
            live |= zip(actor.insert(step.wanted), step.wanted, strict=True)
        elif step.verb == "match":
            answers.append(actor.match(step.said))
        elif step.verb == "reweigh":
            weights = dict(step.weights)
            actor.reweigh(weights)
        elif step.verb == "settle":
            actor.settle()
        elif step.verb == "renumber":
            assert actor.renumber() == list(live), "renumber() returned other slots than the live ones"
            live = dict(enumerate(live.values()))
        elif step.verb == "thresholds":
            _aim(actor, step, {slot: each for slot, each in live.items() if isinstance(each, TopK)}, script, weights)
        elif live:
            _change(actor, step, live)
    return answers


def _aim(actor: Actor, step: Step, live: dict[int, TopK], script: Script, weights: Weights) -> None:
    """Set thresholds; of top-k slots there may be none."""
    slots = list(dict.fromkeys(list(live)[pick % len(live)] for pick in step.picks)) if live else []
    aimed = list(zip(slots, step.said, step.aims, strict=False))
    values = [_aimed_at(aim, live[slot], said, script.space, weights) for slot, said, aim in aimed]
    actor.set_thresholds([slot for slot, _, _ in aimed], values)


def _aimed_at(aim: str | float, wanted: TopK, said: Said, space: Space, weights: Weights) -> float:
    if not isinstance(aim, str):
        return aim
    reached = topk_score(wanted, *said, space, weights)
    if reached is None:
        return 0.5
    return reached if aim == "met" else math.nextafter(reached, 0.0 if aim == "below" else 9.0)


def _change(actor: Actor, step: Step, live: dict[int, Wanted]) -> None:
    slots = list(dict.fromkeys(list(live)[pick % len(live)] for pick in step.picks))
    if step.verb == "remove":
        actor.remove(slots)
        for slot in slots:
            del live[slot]
        return
    pairs = list(zip(slots, step.wanted, strict=False))
    slots, wanted = [slot for slot, _ in pairs], [each for _, each in pairs]
    if step.verb == "replace":
        actor.replace(slots, wanted)
        live |= zip(slots, wanted, strict=True)
    else:
        regions = [region_of(each, scored=is_scored(live[slot])) for slot, each in pairs]
        actor.move(slots, regions)
        live |= {slot: moved(live[slot], region) for slot, region in zip(slots, regions, strict=True)}


def check_index(index: Index) -> None:
    """Raise AssertionError if what the index holds contradicts itself; costs a walk over everything in Python.

    Every index: its counts. One that keeps a table: its slots and rows. `skype`, `ipt`, `ciq` and `trigger`: every
    promise of their arrays, after `settle` or while nothing changes them.
    """
    from nearcast.indexes.shared.segmented_index import SegmentedIndex
    from nearcast.indexes.shared.stored_index import StoredIndex
    from nearcast.indexes.trigger import TriggerIndex
    from nearcast.testing.skype import check_segmented
    from nearcast.testing.trigger import check_trigger

    stats = index.stats()
    assert len(index) == stats["subscriptions"], "stats() counts other subscriptions than len()"
    assert stats["bytes"] >= 0, "stats() tells a negative size"
    if isinstance(index, StoredIndex):
        _check_stored(index)
    if isinstance(index, SegmentedIndex):
        check_segmented(index)
    if isinstance(index, TriggerIndex):
        check_trigger(index)


def _check_stored(index: StoredIndex) -> None:
    """Every live slot has a row of its own, all other rows count no longer, and every term has a weight."""
    live = np.flatnonzero(index._row_of >= 0)
    rows = index._row_of[live]
    slot_of = np.full(len(index._table()), -1)
    slot_of[rows] = live
    assert len(np.unique(rows)) == len(rows), "two slots share a row"
    assert slot_of.tolist() == index._slot_of.tolist(), "rows and slots do not name each other"
    assert index._table().code.max(initial=-1) < len(index._weights), "there are terms without a weight"


def scripts(
    space: Space | None = None, *, kinds: Sequence[str] = ("within",), max_steps: int = 10
) -> SearchStrategy[Script]:
    """Return a Hypothesis strategy of scripts with subscriptions of these kinds: any of `within`, `similar`, `topk`.

    Every kind of region, query and text function, many ties, points on borders and scores on thresholds.
    """
    from nearcast.testing.strategies import script_strategy

    return script_strategy(space, kinds, max_steps)
