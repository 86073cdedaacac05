"""Items: the inputs of an engine, one value for each change and each batch of messages that `step` applies.

An item holds everything that its meaning depends on, so that a log of items, applied in order to a state that begins
the same way, gives the same deliveries and the same subscriptions. Words are numbers here: terms are those of
`State.words`, window terms those of the window's own table. Whoever writes items down writes the words with them.

Fields that only save work are hints. They change nothing about the result, and a log leaves them out:
`without_hints` says how an item looks there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nearcast.errors import InvalidInput
from nearcast.geo.shapes import shorten
from nearcast.text import Vocabulary

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from nearcast._ids import Id
    from nearcast.columns import Messages, Subscriptions
    from nearcast.engine.known_moves import KnownMove
    from nearcast.geo import Regions
    from nearcast.indexes import Matches

#: Returns the matches of some messages, given the row of the first of them in what is published.
MatchFunction = Callable[["Messages", int], "Matches"]


#: What marks a field as a hint.
_HINT = MappingProxyType({"is_hint": True})


@dataclass(frozen=True, eq=False)
class Subscribe:
    """Store subscriptions; a known id is replaced and keeps its place in the order of registration.

    Their request texts are a column of `subscriptions`. `steps`, here and below, are the numbers of the steps where
    changes were put in order elsewhere; without them the state counts. `threads` search the window for those of kind
    `topk`.
    """

    subscriptions: Subscriptions
    steps: NDArray[np.int64] | None = None
    threads: int = field(default=1, repr=False, metadata=_HINT)


@dataclass(frozen=True, eq=False)
class Unsubscribe:
    """Forget the subscriptions with these ids, all of which are known."""

    ids: pa.Array
    steps: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class Move:
    """Give the subscriptions with these ids, each named once, other places, all of them or none.

    The id of a single one may be given as it is: an Arrow column takes as long to make as the move takes in an index.
    A row with a point in `points` (n, 2) carries its region along; one whose point is NaN gets that of `regions`, a
    scored one a box of one point. `times` are those of the reports, NO_TIME for now; `clock` is event time at each
    where rows were put in order elsewhere. `text` is the new request text of
    a single subscription that gets a region which the index does not hold as it was given. `known` is what a caller
    has looked up already.
    """

    ids: pa.Array | tuple[Id]
    regions: Regions
    steps: NDArray[np.int64] | None = None
    points: NDArray[np.float64] | None = None
    times: NDArray[np.int64] | None = None
    clock: NDArray[np.int64] | None = None
    text: bytes | None = None
    known: KnownMove | None = field(default=None, repr=False, metadata=_HINT)


@dataclass(frozen=True, eq=False)
class Publish:
    """Match messages against the subscriptions as they are, one step each.

    The messages have `totals` where the state needs them, and `window_terms` where it has a window. `match` returns
    what the index would, from a caller that knows more about whom messages concern.
    """

    messages: Messages
    threads: int = field(default=1, repr=False, metadata=_HINT)
    match: MatchFunction | None = field(default=None, repr=False, metadata=_HINT)


@dataclass(frozen=True, eq=False)
class Advance:
    """Move event time to this many microseconds, unless it is there already."""

    time: int


@dataclass(frozen=True, eq=False)
class UseVocabulary:
    """Weigh all words by this vocabulary, as it is when the item is made."""

    vocabulary: Vocabulary
    threads: int = field(default=1, repr=False, metadata=_HINT)

    def __post_init__(self) -> None:
        check_vocabulary(self.vocabulary)
        object.__setattr__(self, "vocabulary", self.vocabulary.snapshot())


def check_vocabulary(given: Any) -> None:
    """Raise for what is no vocabulary, such as the path of one."""
    if not isinstance(given, Vocabulary):
        raise InvalidInput(
            f"vocabulary is {shorten(given)}; expected a Vocabulary, Vocabulary.from_parquet(path) for a file",
            field="vocabulary",
        )


@dataclass(frozen=True, eq=False)
class CountFrom:
    """Give the next step this number, where steps are counted elsewhere."""

    step: int


Item = Subscribe | Unsubscribe | Move | Publish | Advance | UseVocabulary | CountFrom


def without_hints(item: Item) -> Item:
    """Return the item with all that its meaning depends on, and nothing else."""
    hints: dict[str, Any] = {each.name: each.default for each in fields(item) if each.metadata.get("is_hint")}
    bare: Item = replace(item, **hints)
    return bare
