"""Encodes a workload into the columns an index reads, and makes indexes for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.columns import KIND_NAMES
from nearcast.errors import InvalidColumns
from nearcast.indexes import Index, create

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from nearcast.bench.data.workloads import Workload
    from nearcast.columns import Messages, Subscriptions
    from nearcast.geo import Space
    from nearcast.text import Analyzer, Vocabulary
    from nearcast.text.words import WordTable


class EncodedWorkload(NamedTuple):
    """A workload in columns; there are a `vocabulary` and the `weights` of its words if subscriptions are scored.

    `history` are messages of the past, for indexes that can learn from some what others will be like.
    """

    space: Space
    words: WordTable
    subscriptions: Subscriptions
    messages: Messages
    vocabulary: Vocabulary | None = None
    weights: NDArray[np.float64] | None = None
    history: Messages | None = None

    def new_index(self, spec: str) -> Index:
        """Return an empty index that knows what the words weigh, and what messages were like."""
        index = create(spec, self.space)
        if self.weights is not None:
            index.set_weights(self.weights)
        if self.history is not None:
            index.learn(self.history)
        return index

    def with_history(self, n: int) -> EncodedWorkload:
        """Return the same with the first `n` messages as those of the past."""
        rows = np.arange(len(self.messages))
        return self._replace(history=self.messages.take(rows[:n]), messages=self.messages.take(rows[n:]))

    def with_messages(self, rows: NDArray[np.int64]) -> EncodedWorkload:
        """Return the same with these messages only; words keep their weights."""
        return self._replace(messages=self.messages.take(rows))


def encoded(workload: Workload, space: str | None = None) -> EncodedWorkload:
    """Return the columns of a workload; raise `InvalidColumns` if a row cannot be used.

    Scored subscriptions are weighed by the document frequencies of the workload's messages.
    """
    from nearcast.tables import Rejected, read_messages, read_subscriptions, space_of
    from nearcast.text import Analyzer
    from nearcast.text.weights import TermWeights
    from nearcast.text.words import WordTable

    words, analyzer, rejected = WordTable(), Analyzer(), Rejected()
    found = space_of([*workload.subscriptions.column_names, *workload.messages.column_names], space)
    subscriptions = read_subscriptions(workload.subscriptions, found, words, analyzer, rejected=rejected)
    weights = None
    if subscriptions.scoring is not None:
        weights = TermWeights(words, learned(workload.messages, found, analyzer))
    messages = read_messages(workload.messages, found, words, analyzer, weights=weights, rejected=rejected)
    for row in rejected:
        raise InvalidColumns(f"the workload cannot be used: {row.source} row {row.row}, {row.field}: {row.reason}")
    columns = EncodedWorkload(found, words, subscriptions, messages)
    if weights is None:
        return columns
    return columns._replace(vocabulary=weights.vocabulary, weights=weights.from_term(0))


def learned(messages: pa.Table, space: Space, analyzer: Analyzer) -> Vocabulary:
    """Return the words of all messages, with the number of messages that have each."""
    from nearcast.tables import Rejected, read_messages
    from nearcast.text import Vocabulary

    vocabulary = Vocabulary()
    said = read_messages(messages, space, vocabulary.table, analyzer, add_words=True, rejected=Rejected())
    vocabulary.learn(said.term_start, said.terms)
    return vocabulary


def must_be_of_kind(subscriptions: Subscriptions, kind: str) -> None:
    """Raise `InvalidColumns` unless all subscriptions are of one kind."""
    other = np.flatnonzero(subscriptions.kind != KIND_NAMES.index(kind))
    if len(other):
        is_now = KIND_NAMES[subscriptions.kind[other[0]]]
        raise InvalidColumns(f"the workload cannot be used: row {other[0]} is of kind {is_now}, all must be {kind}")
