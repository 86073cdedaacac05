"""Subscriptions that travel between processes: they carry their words as strings, independent of any word table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nearcast import _arrow
from nearcast.query.codes import mark_terms, translated

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.text.words import WordTable


@dataclass(frozen=True)
class PortableSubscriptions:
    """Subscriptions whose terms are row numbers of `words`, not ids of a word table."""

    subscriptions: Subscriptions
    words: pa.Array

    @classmethod
    def of(cls, subscriptions: Subscriptions, table: WordTable) -> PortableSubscriptions:
        """Translate subscriptions from the term ids of a word table, and collect the words they use."""
        return cls(subscriptions, table.words()).with_used_words()

    def into(self, table: WordTable) -> Subscriptions:
        """Translate subscriptions to the term ids of a word table, to which their words are added."""
        return translated(self.subscriptions, table.ids_of_column(self.words, add=True))

    def with_used_words(self) -> PortableSubscriptions:
        """Return the same subscriptions with no other words than theirs."""
        used = np.zeros(len(self.words), np.bool_)
        mark_terms(self.subscriptions.code_start, self.subscriptions.code, used)
        terms = np.flatnonzero(used)
        number_of = np.zeros(len(used), np.int32)
        number_of[terms] = np.arange(len(terms), dtype=np.int32)
        words = self.words.take(_arrow.numbers(terms))
        return PortableSubscriptions(translated(self.subscriptions, number_of), words)

    def take(self, rows: NDArray[np.int64]) -> PortableSubscriptions:
        """Return these rows; `words` stays whole."""
        return replace(self, subscriptions=self.subscriptions.take(rows))
