"""The live store `ap+-tree`: messages in the m-lists of the index of that name (paper, section 4.2).

The tree finds candidates, by the words of each clause and the rectangles of both places; they are verified here with
whole regions and whole clauses, since the old region less the new one is no rectangle. Scored subscriptions, which the
index cannot hold, and safe distances are left to `cells`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearcast.columns import SIMILAR
from nearcast.indexes.papers.ap_plus_tree import APPlusTreeIndex, LiveMessageRows
from nearcast.live.cells.store import CellLiveStore
from nearcast.live.papers.candidates import verified

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.geo import Space
    from nearcast.indexes import Index
    from nearcast.live.cells.found import FoundMessages
    from nearcast.live.cells.queries import LiveQueries, QueryPlaces
    from nearcast.text.words import WordTable


class APPlusTreeLiveStore(CellLiveStore):
    """Keeps live messages in an AP+-Tree; without its index, as `cells` does."""

    name = "ap+-tree"
    _index: APPlusTreeIndex | None = None

    def __init__(self, space: Space, terms: WordTable):
        super().__init__(space, terms)

    def use_index(self, index: Index) -> None:
        """Keep the messages in this index from now on."""
        if self._index is not None:
            self._index.forget_messages()
        assert isinstance(index, APPlusTreeIndex)
        self._index = index
        index.forget_messages()

    def use_terms(self, terms: WordTable) -> None:
        """Take the words of subscriptions from another table from now on."""
        self._rows_renumbered()  # the same words have other ranks
        super().use_terms(terms)

    def append(self, messages: Messages, arrival: NDArray[np.int64], expires: NDArray[np.int64]) -> None:
        """Store messages; the index files them with the batch in which they are matched."""
        super().append(messages, arrival, expires)
        if self._index is not None:
            self._index.announce(self._live_rows(), messages)

    def _rows_renumbered(self) -> None:
        super()._rows_renumbered()
        if self._index is not None:
            self._index.forget_messages()

    def _live_rows(self) -> LiveMessageRows:
        state = self._state
        return LiveMessageRows(state.table, state.n, state.now, state.words)

    def _found(self, queries: LiveQueries, before: QueryPlaces, after: QueryPlaces) -> FoundMessages:
        """Verify the messages that the tree names."""
        if self._index is None or (queries.kind == SIMILAR).any():
            return super()._found(queries, before, after)
        candidates = self._index.candidates(self._live_rows(), queries, before, after)
        state = self._state
        return verified(
            state.table, candidates, queries, before, after, state.now, self.space.is_earth, self._scratch.walk
        )
