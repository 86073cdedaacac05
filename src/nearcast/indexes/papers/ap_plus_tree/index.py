"""The index `ap+-tree` as the registry knows it: an AP-Tree whose slots also hold live messages.

`ap+k-tree` and `ap+s-tree` are its tree of subscriptions alone. Their live messages are in stores of the same names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.indexes import Matches, register
from nearcast.indexes.papers.ap_plus_tree.message_lists import LiveMessageRows, TreeMessageLists
from nearcast.indexes.papers.ap_plus_tree.moving_tree import SECTION, TREE_OPTIONS, MovingAPTreeIndex
from nearcast.indexes.papers.ap_tree.index import at_least

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.geo import Space
    from nearcast.indexes.shared.boolean_index import BooleanBatch, FoundAtoms

_NO_ROW = -1


@register(
    "ap+-tree",
    kinds=("within",),
    paper=f"{SECTION}: moving subscriptions",
    options={**TREE_OPTIONS, "duplicates": 32},
    has_live_store=True,
)
class APPlusTreeIndex(MovingAPTreeIndex):
    """A tree that parts moving subscriptions by words or by space, and files live messages along the same paths.

    >>> from nearcast.geo import Space
    >>> len(APPlusTreeIndex(Space.plane()))
    0
    """

    #: Cuts stay as they were made: a message was filed by those that it met.
    widens_cuts = False

    def __init__(self, space: Space, duplicates: int = 32, **options: Any):
        at_least(self.info.name, "duplicates", duplicates, 1)
        self._lists = TreeMessageLists(duplicates)
        #: Messages that are to be filed when they are matched; the row of the first of those that are being matched.
        self._announced: Messages | None = None
        self._first_row = _NO_ROW
        super().__init__(space, **options)
        self._options = {**self._options, "duplicates": duplicates}

    # Live messages

    def announce(self, rows: LiveMessageRows, messages: Messages) -> None:
        """Take rows as those that live, the last of which are these messages, in their order.

        They are filed while these are matched, else after the next match or by the next question.
        """
        self._lists.rows = rows
        self._announced = messages

    def forget_messages(self) -> None:
        """Forget all rows that were filed; it may run at any time."""
        self._announced = self._lists.rows = None
        self._lists.forget()

    def candidates(
        self, rows: LiveMessageRows, queries: Any, before: Any, after: Any
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return pairs of a query and a row that may match at one of two places only, some of them twice.

        `queries` has the clauses, with words of the messages; `before` and `after` have rectangles by query.
        """
        with self._lock:
            self._undo.roll_back()
            self._bring_up_to_date()
            self._rank_later_words()
            self._lists.rows = rows
            self._lists.file(self._tree, self._rank)
            return self._lists.candidates(self._tree, self._rank, queries, before, after)

    def match(self, messages: Messages, *, threads: int = 1) -> Matches:
        """Search every message; one core whatever `threads` says. Messages that were announced are filed by the way."""
        with self._lock:
            rows = self._lists.rows
            is_announced = rows is not None and messages is self._announced
            self._first_row = rows.n - len(messages) if rows is not None and is_announced else _NO_ROW
            found = super().match(messages, threads=threads)
            self._announced, self._first_row = None, _NO_ROW
            self._lists.file(self._tree, self._rank)
        return found

    def _match_chunk(self, messages: Messages, rows: NDArray[np.int32]) -> Any:
        self._chunk_rows = rows + np.int64(self._first_row)
        return super()._match_chunk(messages, rows)

    def _search(self, batch: BooleanBatch, first: int, found: FoundAtoms) -> int:
        if self._first_row == _NO_ROW:
            return super()._search(batch, first, found)
        scratch = self._scratch_of(batch)
        return self._lists.search(self._tree, self._rank, self._atoms, batch, first, found, scratch, self._chunk_rows)

    # The structure

    def _build(self, atoms: NDArray[np.int32]) -> None:
        self._lists.forget()
        super()._build(atoms)

    def _rebuild(self, nodes: NDArray[np.int64]) -> None:
        taken = self._lists.taken(self._tree, nodes)
        super()._rebuild(nodes)
        self._lists.hand_on(self._tree, self._rank, taken)

    def _compact(self) -> None:
        before = self._tree
        super()._compact()
        self._lists.follow(before, self._tree)

    def _bytes(self) -> int:
        return super()._bytes() + self._lists.nbytes


@register(
    "ap+k-tree",
    kinds=("within",),
    paper=f"{SECTION}: live messages apart, by words first",
    options=TREE_OPTIONS,
    has_live_store=True,
)
class APPlusKTreeIndex(MovingAPTreeIndex):
    """The tree of `ap+-tree` without messages, for a store that parts these by words first."""


@register(
    "ap+s-tree",
    kinds=("within",),
    paper=f"{SECTION}: live messages apart, by space first",
    options=TREE_OPTIONS,
    has_live_store=True,
)
class APPlusSTreeIndex(MovingAPTreeIndex):
    """The tree of `ap+-tree` without messages, for a store that parts these by space first."""
