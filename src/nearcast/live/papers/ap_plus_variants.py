"""The live stores `ap+k-tree` and `ap+s-tree`: messages apart from the tree, by words or by space first (section 5.2).

They stand on no index: the posting lists of `cell_postings` name candidates. The index of their name is the tree of
`ap+-tree` without messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nearcast.columns import SIMILAR
from nearcast.live.cells.store import CellLiveStore
from nearcast.live.papers.candidates import verified
from nearcast.live.papers.cell_postings import CellPostings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.live.cells.found import FoundMessages
    from nearcast.live.cells.queries import LiveQueries, QueryPlaces


class CellPostingLiveStore(CellLiveStore):
    """Keeps messages in posting lists by word and cell; scored subscriptions and safe distances are left to `cells`."""

    words_first: ClassVar[bool]
    _postings: CellPostings

    def append(self, messages: Messages, arrival: NDArray[np.int64], expires: NDArray[np.int64]) -> None:
        """Store messages, and file them at once."""
        super().append(messages, arrival, expires)
        state = self._state
        self._postings.file(state.table, state.n, len(self.word_table), state.now)

    def _rows_renumbered(self) -> None:
        super()._rows_renumbered()
        self._postings = CellPostings()

    def _structure_bytes(self) -> int:
        return super()._structure_bytes() + self._postings.nbytes

    def _found(self, queries: LiveQueries, before: QueryPlaces, after: QueryPlaces) -> FoundMessages:
        """Verify the messages that the posting lists name."""
        if (queries.kind == SIMILAR).any():
            return super()._found(queries, before, after)
        state, n_words = self._state, len(self.word_table)
        candidates = self._postings.candidates(
            state.table, state.n, n_words, state.now, queries, before, after, words_first=self.words_first
        )
        return verified(
            state.table, candidates, queries, before, after, state.now, self.space.is_earth, self._scratch.walk
        )


class APPlusKTreeLiveStore(CellPostingLiveStore):
    """Takes the rarest word of a clause, then the cells of its list that a move cuts otherwise."""

    name = "ap+k-tree"
    words_first = True


class APPlusSTreeLiveStore(CellPostingLiveStore):
    """Takes the cells that a move cuts otherwise, then the rarest word of a clause in each."""

    name = "ap+s-tree"
    words_first = False
