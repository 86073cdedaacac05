"""The contract of a store of live messages: what is relevant to a subscription at the place where it is?

A *live* message has arrived and `now` < `expires`. It is relevant to a subscription if `indexes.scan` would match the
two: kinds `within` and `similar`. To rows of kind `topk`, which look at their window alone, nothing is relevant. A
store may only save work: `scan` is the definition, and every other store returns the same arrivals in the same order
with the same scores to the last bit.

The contract, in the order a life goes:

- Whoever encodes messages gives them `live_terms`, the ids of all their words in `word_table` (added there; -1 where a
  text ends and given terms begin), and `totals`. A word that no subscription has yet is kept as any other.
- `append(messages, arrival, expires)` stores messages. `arrival` is the number of each message's step: ascending, and
  above all numbers given before. A message that is already over may be appended, for `expired` to name it.
- `relevant(subscriptions, weights, now)` and `difference(before, after, weights, now)` take subscriptions as an index
  returns them, their words as terms of the table that `use_terms` named last, and `weights`, what these terms weigh
  (`Index.weights`). `now` is event time by row, since each row of a batch of moves is a step of its own: a message
  counts for row i if `now[i]` < `expires`.
- `difference` verifies with whole regions: `+` is what is in the new answer and not in the old one, `-` the reverse.
  Whoever compares answers from before and after a change of the store itself, as `reweigh` is, calls `relevant` twice
  and `answers.changes_between`.
- `safe_distance(subscriptions, weights, now)` is, by row, how far the centre of the region may go before its answer
  over the messages that count can be another: a lower bound, rounded so that every place up to that distance, that one
  included, gives the same answer. It is 0 where nothing is known (scored, polygons,
  nothing to carry), and infinite where no message has the words.
- `expired(now)` names the messages that are over, by `expires`, then arrival, until `drop(now)` forgets them. A dropped
  message is in no answer, not even for a row with an earlier `now`. Times never go back but by `rewind`.
- `messages(arrival)` returns stored messages as columns for `Index.match`, `ids(arrival)` their ids, `expires(arrival)`
  when they end. `IndexError` names an arrival that is not stored. `id_column(arrival)` is `ids` for arrivals that come
  from an answer of the store: it stays good whatever happens to the store, and costs nothing until it is read.
- `reweigh(weights)` works the totals out again, under another vocabulary. `use_terms(terms)` takes the subscriptions'
  words from another table from now on.
- `use_index(index)` names the index of the subscriptions in question, before anything else is asked, and again when
  another takes its place. Only a store that is part of an index cares.
- `tidy()` frees the memory of dropped messages, and of words that no message has. Words get other ids by that: to be
  called when no messages are encoded that are still to be appended.
- `save(folder)` and `open(folder, space, terms)`: any store opens what any other saved.

A call that raises has changed nothing: what a store holds is one value, replaced in one assignment. `mark()` returns
that value, and `rewind(mark)` puts it back, whatever was done since, `drop` and `tidy` included. Marks taken after the
one that was put back mean nothing any more. A mark keeps memory alive: forget it when the change is committed.

A store has no lock: whoever holds it lets no two calls run at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from nearcast._ids import StoredIds
    from nearcast.columns import Messages, Subscriptions
    from nearcast.geo import Space
    from nearcast.indexes import Index
    from nearcast.live.answers import RelevanceChanges, RelevantMessages
    from nearcast.text.weights import TermWeights
    from nearcast.text.words import WordTable


class LiveStore(ABC):
    """The contract of a store of live messages; the module's docstring says what each method promises."""

    #: What it is registered under.
    name: ClassVar[str]

    def __init__(self, space: Space, terms: WordTable):
        self.space = space

    @abstractmethod
    def __len__(self) -> int:
        """Return how many messages are stored and not dropped."""

    @property
    @abstractmethod
    def word_table(self) -> WordTable:
        """The words of the messages, by whose ids they give their `live_terms`."""

    @property
    @abstractmethod
    def next_expiry(self) -> int:
        """When the next message that is not dropped ends, or some time before; the largest int64 if there is none."""

    @abstractmethod
    def append(self, messages: Messages, arrival: NDArray[np.int64], expires: NDArray[np.int64]) -> None:
        """Store messages, which arrived at these steps and end at these times."""

    @abstractmethod
    def relevant(
        self, subscriptions: Subscriptions, weights: NDArray[np.float64], now: NDArray[np.int64]
    ) -> RelevantMessages:
        """Return the live messages that match each subscription."""

    @abstractmethod
    def difference(
        self, before: Subscriptions, after: Subscriptions, weights: NDArray[np.float64], now: NDArray[np.int64]
    ) -> RelevanceChanges:
        """Return by row what matches only `before` and what matches only `after`."""

    @abstractmethod
    def safe_distance(
        self, subscriptions: Subscriptions, weights: NDArray[np.float64], now: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return how far the centre of each region may go before what is relevant can change."""

    @abstractmethod
    def expired(self, now: int) -> NDArray[np.int64]:
        """Return the arrivals of the messages that are over and not dropped, by `expires`, then arrival."""

    @abstractmethod
    def drop(self, now: int) -> None:
        """Forget the messages that are over at this time."""

    @abstractmethod
    def messages(self, arrival: NDArray[np.int64]) -> Messages:
        """Return stored messages, their words as terms of subscriptions, -1 for words that none of these has."""

    @abstractmethod
    def ids(self, arrival: NDArray[np.int64]) -> NDArray[np.object_]:
        """Return the ids of stored messages."""

    def id_column(self, arrival: NDArray[np.int64]) -> NDArray[np.object_] | StoredIds:
        """Return the ids of messages that this store has named; a column of many may be decoded when it is read."""
        return self.ids(arrival)

    @abstractmethod
    def expires(self, arrival: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return when stored messages end."""

    @abstractmethod
    def reweigh(self, weights: TermWeights) -> None:
        """Work the totals of all messages out again."""

    @abstractmethod
    def use_terms(self, terms: WordTable) -> None:
        """Take the words of subscriptions from another table from now on; may be called again."""

    def use_index(self, index: Index) -> None:  # noqa: B027 - most stores look at no index
        """Stand on this index of the subscriptions from now on; may be called again."""

    @abstractmethod
    def tidy(self) -> None:
        """Free the memory of what is dropped, where that is worth it."""

    @abstractmethod
    def mark(self) -> Any:
        """Return what is held, to be put back by `rewind`."""

    @abstractmethod
    def rewind(self, mark: Any) -> None:
        """Hold again what was held when the mark was taken; may be called again."""

    @abstractmethod
    def stats(self) -> dict[str, Any]:
        """Return counts and sizes; `messages` and `bytes` are always among them."""

    @abstractmethod
    def save(self, folder: str | Path) -> None:
        """Write everything as plain arrays into a new folder."""

    @classmethod
    @abstractmethod
    def open(cls, folder: str | Path, space: Space, terms: WordTable) -> Self:
        """Read what a store of any name saved; `IncompatibleStore` if that is damaged."""
