"""Ranked keys: every atom is listed under its rarest word, those without any under a word that every message has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.indexes.papers.keyword_first import rarest_words
from nearcast.indexes.papers.quad.index import QuadIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The key of atoms without a word; term t has the key t + 1.
WORDLESS = 0


class RankedKeyIndex(QuadIndex):
    """Keeps every atom under its rarest word, as counted in the subscriptions there were when the index was built."""

    def _keys(self, atoms: NDArray[np.int32]) -> NDArray[np.int32]:
        return rarest_words(self._atoms, atoms, self._count) + np.int32(1)

    def _chances(self, atoms: NDArray[np.int32], key: NDArray[np.int32]) -> NDArray[np.float64]:
        known = np.minimum(key, len(self._traffic.chance) - 1)
        as_rare_as_can_be = 1 / (self._n_counted + 1)
        return np.where(key < len(self._traffic.chance), self._traffic.chance[known], as_rare_as_can_be)
