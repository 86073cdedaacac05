"""The m-lists as an AP+-Tree has them: files messages, hands them on where the tree changes, finds those of a move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast.indexes.papers.ap_plus_tree.filing import FilingScratch, file_below, file_rows
from nearcast.indexes.papers.ap_plus_tree.layout import (
    FILED,
    LITTLE_WASTE,
    MEMBERS,
    NO_RANK,
    empty_lists,
    lists_of_nodes,
    packed,
    renumbered,
    taken_below,
    with_room,
)
from nearcast.indexes.papers.ap_plus_tree.search import DescentScratch, search_and_file
from nearcast.indexes.papers.ap_plus_tree.walk import CandidateMessages, TreeWalkScratch, find_candidates
from nearcast.indexes.papers.ap_tree.layout import DEAD, KIND, SLOTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.papers.ap_tree.layout import ApTreeArrays
    from nearcast.indexes.papers.ap_tree.search import ApTreeScratch
    from nearcast.indexes.shared.atoms import Atoms
    from nearcast.indexes.shared.boolean_index import BooleanBatch, FoundAtoms
    from nearcast.text.message_words import MessageWords

_LEAST_FOUND = 1 << 10
#: Room for members that a search makes for each message; one that needs more is filed after the search.
_USUAL_ROOM = 16


class LiveMessageRows(NamedTuple):
    """The live messages that a store holds: the first n rows of a table, without those of `expires` <= `dropped`.

    The table has the columns `term_start`, `term`, `box` and `expires`; `words` are the words of its terms.
    """

    table: Any
    n: int
    dropped: int
    words: MessageWords


class TreeMessageLists:
    """Live messages in the lists of an AP+-Tree, each in at most `limit` of them.

    It holds rows of the last `LiveMessageRows` that were announced. All of it is derived, and can be filed again.
    """

    def __init__(self, limit: int):
        self.limit = limit
        self.rows: LiveMessageRows | None = None
        #: The lists, and what the last question met, as `CandidateMessages` counts it.
        self.arrays, self.tally = empty_lists(), np.zeros(5, np.int64)
        self._rank_of_word, self._ranks_are_of = np.empty(0, np.int32), (0, 0, 0, 0)
        self._filing, self._walking = FilingScratch.new(64, limit), TreeWalkScratch.new(64, 64)
        self._descent = DescentScratch.new(64, limit)
        self._n_when_packed = 0

    @property
    def nbytes(self) -> int:
        """The bytes of the lists."""
        return sum(array.nbytes for array in self.arrays)

    def forget(self) -> None:
        """Leave all lists empty: rows, words or slots are others than before."""
        self.arrays, self._n_when_packed = empty_lists(), 0

    def file(self, tree: ApTreeArrays, rank: NDArray[np.int32]) -> None:
        """File the rows that are new."""
        rows, filed = self.rows, int(self.arrays.used[FILED])
        if rows is None or filed >= rows.n:
            return
        if len(self.arrays.copies) >= rows.n and self.arrays.copies[filed : rows.n].all():
            self.arrays.used[FILED] = rows.n  # the search has filed them
            self._pack()
            return
        by_word = self._ranks(rows.words, rank)
        self._make_room(tree, rows)
        while self.arrays.used[FILED] < rows.n:
            first = int(self.arrays.used[FILED])
            scratch = self._scratch_for(rows.table, np.arange(first, rows.n))
            file_rows(tree, self.arrays, rows.table, by_word, first, rows.n, rows.dropped, self.limit, scratch)
            self._make_room(tree, rows)
        self._pack()

    def _pack(self) -> None:
        """Drop waste, where lists have doubled since the last time."""
        if self.arrays.used[MEMBERS] > 2 * self._n_when_packed + LITTLE_WASTE:
            self.arrays = packed(self.arrays)
            self._n_when_packed = int(self.arrays.used[MEMBERS])

    def search(
        self,
        tree: ApTreeArrays,
        rank: NDArray[np.int32],
        atoms: Atoms,
        batch: BooleanBatch,
        first: int,
        found: FoundAtoms,
        scratch: ApTreeScratch,
        rows: NDArray[np.int64],
    ) -> int:
        """Search messages, and file them as these rows by the way; return the first that is not done."""
        assert self.rows is not None
        self.arrays.need[0] = _USUAL_ROOM * len(rows)
        self._make_room(tree, self.rows)
        if len(tree.child) >= len(self._descent.stack):
            self._descent = DescentScratch.new(len(tree.child) + len(tree.child) // 4, self.limit)
        return int(
            search_and_file(
                tree,
                rank,
                atoms,
                batch,
                first,
                found,
                scratch,
                self.arrays,
                self.rows.table,
                rows,
                self.rows.dropped,
                self.limit,
                self._descent,
            )
        )

    def _make_room(self, tree: ApTreeArrays, rows: LiveMessageRows) -> None:
        self.arrays = with_room(self.arrays, int(tree.used[SLOTS]) + 1, rows.n)

    def _scratch_for(self, table: Any, rows: NDArray[Any]) -> FilingScratch:
        """Return scratch for messages as long as these."""
        longest = int((table.term_start[rows + 1] - table.term_start[rows]).max(initial=0))
        if longest >= len(self._filing.rank):
            self._filing = FilingScratch.new(2 * longest, self.limit)
        return self._filing

    def _ranks(self, words: MessageWords, rank: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the rank of every word of the messages."""
        words.follow()
        # What decides: which words and ranks these are, and how many of both there are by now.
        state = (id(words), id(rank), len(words.table), len(words.known))
        if state != self._ranks_are_of:
            n = min(len(rank), len(words.known))
            by_word = np.full(len(words.table), NO_RANK, np.int32)
            word = words.by_term[:n]
            by_word[word[word >= 0]] = rank[:n][word >= 0]
            self._rank_of_word, self._ranks_are_of, self._kept = by_word, state, (words, rank)
        return self._rank_of_word

    # The tree changes

    def taken(self, tree: ApTreeArrays, nodes: NDArray[np.int64]) -> list[tuple[int, int, NDArray[np.int32]]]:
        """Empty the lists of nodes that are about to be built anew; return (node, list, rows) of each."""
        if self.rows is None or not self.arrays.used[MEMBERS]:
            return []
        live = np.unique(nodes[tree.node[nodes, KIND] != DEAD])
        self._make_room(tree, self.rows)
        at = lists_of_nodes(tree, live)
        return [
            (node, start, taken_below(tree, self.arrays, start))
            for node, start in zip(live.tolist(), at.tolist(), strict=True)
        ]

    def hand_on(
        self, tree: ApTreeArrays, rank: NDArray[np.int32], taken: list[tuple[int, int, NDArray[np.int32]]]
    ) -> None:
        """File rows below the nodes that they were taken from; what is below another of these was built with that."""
        for node, start, rows in taken:
            if self.rows is None or not len(rows) or tree.node[node, KIND] == DEAD:
                continue
            by_word, done = self._ranks(self.rows.words, rank), 0
            scratch = self._scratch_for(self.rows.table, rows)
            while done < len(rows):
                self._make_room(tree, self.rows)
                done = file_below(
                    tree,
                    self.arrays,
                    self.rows.table,
                    by_word,
                    rows,
                    done,
                    start,
                    self.rows.dropped,
                    self.limit,
                    scratch,
                )
        self._pack()

    def follow(self, before: ApTreeArrays, after: ApTreeArrays) -> None:
        """Keep the lists under the slots that a compacted tree has."""
        self.arrays = renumbered(self.arrays, before, after)

    # Questions

    def candidates(
        self, tree: ApTreeArrays, rank: NDArray[np.int32], queries: Any, before: Any, after: Any
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return pairs (query, row) that may change between two places, some of them twice, by query."""
        assert self.rows is not None
        self._make_room(tree, self.rows)
        by_word, most = self._ranks(self.rows.words, rank), int(np.diff(queries.code_start).max(initial=0))
        if most >= len(self._walking.rank) or len(tree.child) >= len(self._walking.stack):
            self._walking = TreeWalkScratch.new(max(64, 2 * most), len(tree.child) + len(tree.child) // 4)
        room, next_query, n_queries = max(_LEAST_FOUND, 2 * len(queries.kind)), 0, len(queries.kind)
        self.tally = np.zeros(5, np.int64)
        pieces = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        while next_query < n_queries:
            found = CandidateMessages(np.empty(room, np.int64), np.empty(room, np.int64), self.tally)
            next_query, n = find_candidates(
                tree,
                self.arrays,
                self.rows.table,
                by_word,
                queries,
                before,
                after,
                self.rows.dropped,
                next_query,
                self._walking,
                found,
            )
            pieces.append((found.query[:n], found.row[:n]))
            room = 4 * room
        query, row = (np.concatenate(column) for column in zip(*pieces, strict=True))
        return query, row
