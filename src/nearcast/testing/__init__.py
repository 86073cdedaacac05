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

Hypothesis is needed by `scripts` only, and imported when that is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nearcast.columns import Messages, Subscriptions
from nearcast.geo import Regions, Shape, Space
from nearcast.indexes import Index, Matches
from nearcast.query import Query, compile_trees
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = [
    "Actor",
    "IndexActor",
    "Script",
    "Step",
    "check_index",
    "messages_of",
    "replay",
    "scripts",
    "subscriptions_of",
]

#: A query and a region, None: anywhere.
Wanted = tuple[Query, Shape | None]
#: The words of a message in order, and its place: x_min, y_min, x_max, y_max.
Said = tuple[Sequence[str], tuple[float, float, float, float]]


@dataclass(frozen=True)
class Step:
    """One step of a script: `verb` is insert, remove, replace, move, match, settle or renumber.

    `picks` choose among the live slots by their number, modulo how many there are, so that every step is possible.
    """

    verb: str
    picks: tuple[int, ...] = ()
    wanted: tuple[Wanted, ...] = ()
    said: tuple[Said, ...] = ()


@dataclass(frozen=True)
class Script:
    """Steps to play to an index in `space`; with `add_words` messages add words of their own to the table."""

    space: Space
    steps: tuple[Step, ...]
    add_words: bool = False


class Actor(Protocol):
    """Who a script is played to: an index that takes values."""

    def insert(self, wanted: Sequence[Wanted]) -> list[int]:
        """Store subscriptions and return their slots."""

    def remove(self, slots: list[int]) -> None:
        """Forget slots."""

    def replace(self, slots: list[int], wanted: Sequence[Wanted]) -> None:
        """Put other subscriptions into slots."""

    def move(self, slots: list[int], regions: Sequence[Shape | None]) -> None:
        """Give slots other regions."""

    def match(self, said: Sequence[Said]) -> Any:
        """Return the matches of messages."""

    def settle(self) -> None:
        """Finish what goes on in the background."""

    def renumber(self) -> list[int]:
        """Give the live slots new numbers; return the old ones."""


def subscriptions_of(wanted: Sequence[Wanted], space: Space, words: WordTable) -> Subscriptions:
    """Return columns of these queries and regions; raise for one that cannot be stored."""
    regions = Regions.from_shapes([region for _, region in wanted], space)
    has_region = np.array([region is not None for _, region in wanted], bool)
    compiled = compile_trees([query for query, _ in wanted], words, has_region=has_region)
    if compiled.errors:
        raise compiled.errors[0][1]
    return Subscriptions.of(compiled.clause_start, compiled.code_start, compiled.code, regions)


def messages_of(said: Sequence[Said], words: WordTable, *, add_words: bool = False) -> Messages:
    """Return columns of these messages; words that are not in the table are -1 unless `add_words`."""
    start = np.zeros(len(said) + 1, np.int64)
    np.cumsum([len(tokens) for tokens, _ in said], out=start[1:])
    terms = words.ids_of([token for tokens, _ in said for token in tokens], add=add_words)
    return Messages.of(start, terms, np.array([place for _, place in said], np.float64).reshape(-1, 4))


@dataclass
class IndexActor:
    """An index that takes values: it keeps the word table that turns them into columns."""

    index: Index
    add_words: bool = False
    words: WordTable = field(default_factory=WordTable)

    def subscriptions(self, wanted: Sequence[Wanted]) -> Subscriptions:
        """Return the columns of these subscriptions."""
        return subscriptions_of(wanted, self.index.space, self.words)

    def messages(self, said: Sequence[Said]) -> Messages:
        """Return the columns of these messages."""
        return messages_of(said, self.words, add_words=self.add_words)

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
    live: list[int] = []
    answers = []
    for step in script.steps:
        slots = list(dict.fromkeys(live[pick % len(live)] for pick in step.picks)) if live else []
        if step.verb == "insert":
            live += actor.insert(step.wanted)
        elif step.verb == "match":
            answers.append(actor.match(step.said))
        elif step.verb == "settle":
            actor.settle()
        elif step.verb == "renumber":
            assert actor.renumber() == sorted(live), "renumber() returned other slots than the live ones"
            live = list(range(len(live)))
        elif slots:
            _change(actor, step, slots, live)
    return answers


def _change(actor: Actor, step: Step, slots: list[int], live: list[int]) -> None:
    if step.verb == "remove":
        actor.remove(slots)
        for slot in slots:
            live.remove(slot)
    elif step.verb == "replace":
        slots = slots[: len(step.wanted)]
        actor.replace(slots, step.wanted[: len(slots)])
    else:
        slots = slots[: len(step.wanted)]
        actor.move(slots, [region for _, region in step.wanted[: len(slots)]])


def check_index(index: Index) -> None:
    """Raise AssertionError if what the index holds contradicts itself; costs a walk over everything in Python.

    Every index: its counts. `trigger`: every promise of its arrays, after `settle` or while nothing changes it.
    """
    from nearcast.indexes.trigger import TriggerIndex
    from nearcast.testing.trigger import check_trigger

    stats = index.stats()
    assert len(index) == stats["subscriptions"], "stats() counts other subscriptions than len()"
    assert stats["bytes"] >= 0, "stats() tells a negative size"
    if isinstance(index, TriggerIndex):
        check_trigger(index)


def scripts(space: Space | None = None, *, max_steps: int = 10) -> SearchStrategy[Script]:
    """Return a Hypothesis strategy of scripts: every kind of region and query, many ties and points on borders."""
    from nearcast.testing.strategies import script_strategy

    return script_strategy(space, max_steps)
