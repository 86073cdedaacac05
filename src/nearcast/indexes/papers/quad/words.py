"""Keys that are words: every atom under its rarest, those without any under a word that every message has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import kernel
from nearcast.indexes.papers.quad.index import QuadIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The key of atoms without a word; term t has the key t + 1.
WORDLESS = 0


class RankedKeyIndex(QuadIndex):
    """Keeps every atom under its rarest word, as counted in the subscriptions there were when the index was built."""

    def _keys(self, atoms: NDArray[np.int32]) -> NDArray[np.int32]:
        key = np.empty(len(atoms), np.int32)
        _rarest_keys(self._atoms, atoms, self._count, key)
        return key

    def _chances(self, atoms: NDArray[np.int32], key: NDArray[np.int32]) -> NDArray[np.float64]:
        known = np.minimum(key, len(self._traffic.chance) - 1)
        as_rare_as_can_be = 1 / (self._n_counted + 1)
        return np.where(key < len(self._traffic.chance), self._traffic.chance[known], as_rare_as_can_be)


@kernel
def _rarest_keys(atoms, chosen, count, key):
    """Write the key of each chosen atom: its word that counts least, of equals the lowest; new words count nothing."""
    for k in range(chosen.size):
        first = atoms.code_start[chosen[k]]
        best, least = -1, 0
        for i in range(first, first + atoms.n_words[chosen[k]]):
            term = atoms.code[i]
            n = count[term] if term < count.size else 0
            if best < 0 or n < least:
                best, least = term, n
        key[k] = best + 1
