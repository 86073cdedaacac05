"""Indexes of subscriptions in a folder, for workers to map into memory.

    words/, vocabulary/       as messages are encoded; the vocabulary only where somebody reads whole messages
    ids.arrow, expires.npy    of each subscription, by its number
    copies.npy, routes/       of a plan: which partitions hold it, and where messages go
    part-0/, part-1/, …       the index of a partition, and the number of the subscription in each of its slots

One folder of words and ids serves all partitions: a worker that sees many of them holds these once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast import engine
from nearcast._saved import mapped, save_array
from nearcast.columns import NO_TIME, Messages, Subscriptions
from nearcast.geo import Space
from nearcast.indexes import Index, create, open_index
from nearcast.pipeline.store.places import is_uri
from nearcast.pipeline.store.store import Store
from nearcast.tables import Rejected, read_messages
from nearcast.text import Analyzer, Vocabulary
from nearcast.text.weights import TermWeights
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.plans import Placement, Plan


#: The name of the folder of indexes in a place that is no path.
INDEXES = "indexes"


@dataclass(frozen=True)
class IndexFolder:
    """A folder of indexes, and what is needed to encode messages for them; small, for it travels with every task.

    `folder` is a path, or the URI of a place elsewhere that holds the folder under the name `INDEXES`.
    """

    folder: str
    space: Space
    analyzer: Analyzer
    version: str
    needs_totals: bool
    has_expiry: bool
    has_copies: bool
    partitions: int

    @property
    def path(self) -> Path:
        """The folder on this host: what lies elsewhere is downloaded once."""
        return Store(self.folder).local(INDEXES) if is_uri(self.folder) else Path(self.folder)


class PlanPlacement(NamedTuple):
    """A plan, and the placement of subscriptions by it."""

    plan: Plan
    placement: Placement

    def numbers(self, partition: int) -> NDArray[np.int64]:
        """Return the subscriptions that a partition holds."""
        if self.placement.copies is None:
            return np.flatnonzero(self.placement.home == partition)
        return np.flatnonzero((self.placement.copies >> np.uint64(partition)) & np.uint64(1))


class TermEncoding(NamedTuple):
    """How words become numbers and weights, the same for subscriptions and messages."""

    space: Space
    analyzer: Analyzer
    words: WordTable
    vocabulary: Vocabulary


def store(
    folder: Path, subscriptions: Subscriptions, encoding: TermEncoding, index: str, placed: PlanPlacement | None
) -> IndexFolder:
    """Write the indexes of all partitions, one without a plan, into an empty folder."""
    partitions = 1 if placed is None else placed.plan.partitions
    needs_totals = False
    for partition in range(partitions):
        numbers = np.arange(len(subscriptions)) if placed is None else placed.numbers(partition)
        state = _state(subscriptions, numbers, encoding, index)
        part = folder / f"part-{partition}"
        state.index.save(part / "index")
        save_array(part / "numbers.npy", numbers.astype(np.int32))
        needs_totals = needs_totals or state.needs_totals
    has_expiry = bool((subscriptions.expires != NO_TIME).any())
    has_copies = placed is not None and placed.placement.copies is not None
    encoding.words.save(folder / "words")
    if needs_totals:
        encoding.vocabulary.save(folder / "vocabulary")
    if has_expiry:
        save_array(folder / "expires.npy", subscriptions.expires)
    if placed is not None:
        _save_routes(folder, placed)
    _save_ids(folder, subscriptions.ids)
    version = encoding.vocabulary.version
    return IndexFolder(
        folder=str(folder),
        space=encoding.space,
        analyzer=encoding.analyzer,
        version=version,
        needs_totals=needs_totals,
        has_expiry=has_expiry,
        has_copies=has_copies,
        partitions=partitions,
    )


def _state(
    subscriptions: Subscriptions, numbers: NDArray[np.int64], encoding: TermEncoding, index: str
) -> engine.State:
    """Return an engine that holds these subscriptions, each in the slot of its rank among the numbers."""
    space, analyzer, words, vocabulary = encoding
    state = engine.State(create(index, space), words=words, analyzer=analyzer, vocabulary=vocabulary)
    stored = subscriptions if len(numbers) == len(subscriptions) else subscriptions.take(numbers)
    engine.step(state, engine.Subscribe(stored))
    return state


def _save_routes(folder: Path, placed: PlanPlacement) -> None:
    from nearcast.plans import Routes

    routes = Routes(placed.plan.partitions, placed.plan.grid)
    routes.add(placed.placement.keys)
    routes.save(folder / "routes")
    if placed.placement.copies is not None:
        save_array(folder / "copies.npy", placed.placement.copies)


def _save_ids(folder: Path, ids: pa.Array) -> None:
    schema = pa.schema([("id", ids.type)])
    with pa.OSFile(str(folder / "ids.arrow"), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(pa.record_batch([ids], schema=schema))


# What workers read.


class MessageEncoder:
    """Encodes tables of messages by the stored words and vocabulary."""

    def __init__(self, stored: IndexFolder):
        folder = stored.path
        self._space, self._analyzer = stored.space, stored.analyzer
        self._words, self._weights = WordTable.open(folder / "words"), None
        if stored.needs_totals:
            self._weights = TermWeights(self._words, Vocabulary.open(folder / "vocabulary"))

    def messages(self, table: pa.Table) -> Messages:
        """Return the good rows of a table of messages."""
        weights, rejected = self._weights, Rejected()
        return read_messages(table, self._space, self._words, self._analyzer, weights=weights, rejected=rejected)


class SubscriptionTable:
    """The ids, expiry times and copies of all subscriptions, by their numbers."""

    def __init__(self, stored: IndexFolder):
        folder = stored.path
        with pa.memory_map(str(folder / "ids.arrow")) as file:
            self.ids: pa.Array = pa.ipc.open_file(file).get_batch(0).column(0)
        self.expires = mapped(folder / "expires.npy", np.int64) if stored.has_expiry else None
        self.copies = mapped(folder / "copies.npy", np.uint64) if stored.has_copies else None


class IndexPart:
    """The index of one partition, and the numbers of the subscriptions in its slots."""

    def __init__(self, stored: IndexFolder, partition: int):
        folder = stored.path / f"part-{partition}"
        self.index: Index = open_index(folder / "index")
        self.numbers: NDArray[np.int32] = mapped(folder / "numbers.npy", np.int32)
