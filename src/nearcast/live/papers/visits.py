"""Stores of live messages in posting lists of a paper's structure, which a move reads and verifies message by message.

A structure says which lists to read for each clause of a subscription that moves: `ListVisits`. Between them they hold
every message that satisfies the clause and that one of the two regions touches alone. What they hold besides does no
harm, for each message is verified with both whole regions: r minus the new r is no rectangle, and borders are inside.
A message in several lists, or found for several clauses, is one answer.

Cells that both regions cut in the same way need no visit (`is_cut_alike`): the increments of Algorithm 6 in the AP-Tree
paper (Wang, Zhang, Zhang, Lin, Wang: VLDB Journal 2015, section 4.2.5).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.columns import SIMILAR, TOPK, gathered
from nearcast.geo import ANYWHERE, BOX
from nearcast.indexes.papers.quad.cells import FIRST, LENGTH
from nearcast.indexes.papers.quad.tables import list_at
from nearcast.live.cells.found import FoundMessages, note
from nearcast.live.cells.queries import NO_WORD
from nearcast.live.cells.search import touched
from nearcast.live.cells.store import CellLiveStore
from nearcast.live.cells.verify import holds_clause
from nearcast.live.cells.walk import EITHER
from nearcast.query import NOT, PHRASE
from nearcast.text.message_words import distinct_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.live.cells.queries import LiveQueries, QueryPlaces
    from nearcast.live.table import LiveTable

#: The key of the list of all messages; the word w has the key w + 1.
EVERY_MESSAGE = 0
_LEAST_ROOM = 1 << 10


class MessageLists(NamedTuple):
    """Posting lists as kernels read them: row numbers of messages, in `number[:, 0]`.

    An owner has a hash table in `slots`, from keys to lists; without any slots it has one list.
    """

    owners: NDArray[np.int32]
    slots: NDArray[np.int32]
    number: NDArray[np.int32]


class ListVisits(NamedTuple):
    """Lists to read: the one of `owner[i]` and `key[i]` for a clause of the subscription in row `query[i]`."""

    query: NDArray[np.int32]
    clause: NDArray[np.int32]
    owner: NDArray[np.int32]
    key: NDArray[np.int32]

    @classmethod
    def room_for(cls, n: int) -> ListVisits:
        """Return columns for n visits."""
        return cls(*(np.empty(n, np.int32) for _ in cls._fields))

    def first(self, n: int) -> ListVisits:
        """Return the first n."""
        return ListVisits(*(column[:n] for column in self))


class ListLiveStore(CellLiveStore):
    """Keeps messages in the posting lists of a paper. A subclass has these methods:

    - `_file_rows_behind()`: file the rows behind those that are filed.
    - `_visits(queries, before, after)`: portions of the lists to read, of filed rows, for subscriptions of kind
      `within`.
    - `_lists()`: the lists.

    For scored subscriptions, and for safe distances, every message is tried: these papers have neither.
    """

    @abstractmethod
    def _file_rows_behind(self) -> None: ...

    @abstractmethod
    def _visits(self, queries: LiveQueries, before: QueryPlaces, after: QueryPlaces) -> Iterable[ListVisits]: ...

    @abstractmethod
    def _lists(self) -> MessageLists: ...

    def append(self, messages: Messages, arrival: NDArray[np.int64], expires: NDArray[np.int64]) -> None:
        """Store messages, and file them at once: that is part of what an arrival costs in the paper."""
        mark = self.mark()
        super().append(messages, arrival, expires)
        try:
            self._file_rows_behind()
        except BaseException:
            self.rewind(mark)
            raise

    def _file_rows(self, n_queries: int) -> None:
        """Leave all rows out of the segments of `cells`."""

    def _found(self, queries: LiveQueries, before: QueryPlaces, after: QueryPlaces) -> FoundMessages:
        """Read the lists, and verify what they hold."""
        self._file_rows_behind()
        pieces = [FoundMessages.room_for(0)]
        for visits in self._visits(queries, before, after):
            pieces += self._read(visits, queries, before, after)
        found = _joined(pieces)
        _, once = np.unique(found.query * (self._state.n + 1) + found.row, return_index=True)
        found = FoundMessages(found.query[once], found.row[once], found.where[once], found.score[once])
        is_scored = queries.kind == SIMILAR
        if not is_scored.any():
            return found
        scored = queries._replace(kind=np.where(is_scored, queries.kind, np.uint8(TOPK)))
        return _joined([found, super()._found(scored, before, after)])

    def _read(
        self, visits: ListVisits, queries: LiveQueries, before: QueryPlaces, after: QueryPlaces
    ) -> list[FoundMessages]:
        """Return the messages of some lists that change, with more room whenever there is too little."""
        lists, place, pieces = self._lists(), np.empty((2, 4)), []
        done, room = 0, max(_LEAST_ROOM, 2 * len(visits.query))
        while done < len(visits.query):
            found = FoundMessages.room_for(room)
            done, n = read_lists(
                self._state.table,
                lists,
                visits,
                queries,
                before,
                after,
                self._state.now,
                self.space.is_earth,
                done,
                place,
                found,
            )
            pieces.append(found.first(n))
            room = 4 * room
        return pieces


def _joined(pieces: list[FoundMessages]) -> FoundMessages:
    """Return what several searches have found."""
    return FoundMessages(*map(np.concatenate, zip(*pieces, strict=True)))


@hot_kernel
def read_lists(table, lists, visits, queries, before, after, dropped, is_earth, done, place, found):
    """Verify the messages of the lists from visit `done` on; return (next visit, how many were found).

    It stops before a list that `found` has no room for. Messages with `expires` <= `dropped` do not count.
    """
    n = 0
    rows = lists.slots if lists.slots.shape[0] > 0 else lists.owners
    for visit in range(done, visits.query.size):
        owner = visits.owner[visit]
        k = list_at(lists.owners, lists.slots, owner, visits.key[visit]) if owner < lists.owners.shape[0] else -1
        if k < 0:
            continue
        n_before, row, clause = n, np.int64(visits.query[visit]), visits.clause[visit]
        first, last = queries.code_start[clause], queries.code_start[clause + 1]
        now = max(queries.now[row], dropped)
        for i in range(rows[k, FIRST], rows[k, FIRST] + rows[k, LENGTH]):
            message = np.int64(lists.number[i, 0])
            if table.expires[message] > now:
                where = touched(table, message, before, after, row, EITHER, is_earth, place)
                if where != 0 and holds_clause(queries.code, first, last, table, message):
                    n = note(row, message, where, 1.0, n, found)
        if n > found.row.size:
            return visit, n_before
    return visits.query.size, n


@hot_kernel
def choose_keys(queries, count, key):
    """Write the key of every clause's rarest word, `count` being by key; -1 if it has a word that none counts."""
    for clause in range(key.size):
        i, end = queries.code_start[clause], queries.code_start[clause + 1]
        best = EVERY_MESSAGE
        while i < end and best >= 0:
            op, n = queries.code[i], 1
            if op < 0:
                i += 1
                if op != NOT:
                    n = queries.code[i]
                    i += 1
            if op >= 0 or op == PHRASE:
                for k in range(i, i + n):
                    word = queries.code[k]
                    if word == NO_WORD or word + 1 >= count.size or count[word + 1] == 0:
                        best = -1
                        break
                    if best == EVERY_MESSAGE or count[word + 1] < count[best]:
                        best = word + 1
            i += n
        key[clause] = best


@inlined
def is_cut_alike(before, after, row, reach_before, reach_after, cell):
    """Tell whether two regions certainly have the same part of a cell in common with it.

    `reach_before` and `reach_after` are the rectangles of the regions in whole numbers that never decrease with the
    coordinates. `cell` is (x, y, x, y) of its first and last number: what reaches beyond it binds nothing in it.
    """
    if not (_is_of_boxes(before, row) and _is_of_boxes(after, row)):
        return False
    one, other = before.part_start[row], after.part_start[row]
    if before.part_start[row + 1] - one == 1 and after.part_start[row + 1] - other == 1:
        for k in range(2):
            is_low = reach_before[one, k] < cell[k] and reach_after[other, k] < cell[k]
            is_high = reach_before[one, 2 + k] > cell[2 + k] and reach_after[other, 2 + k] > cell[2 + k]
            if not is_low and before.part[one, k] != after.part[other, k]:
                return False
            if not is_high and before.part[one, 2 + k] != after.part[other, 2 + k]:
                return False
        return True
    return _covers_cell(before, row, reach_before, cell) and _covers_cell(after, row, reach_after, cell)


@inlined
def _is_of_boxes(places, row):
    """Tell whether the rectangles of a region are all of it."""
    return places.kind[row] == BOX or places.kind[row] == ANYWHERE


@inlined
def _covers_cell(places, row, reach, cell):
    """Tell whether one rectangle of a region reaches beyond a cell on all sides."""
    for p in range(places.part_start[row], places.part_start[row + 1]):
        if reach[p, 0] < cell[0] and reach[p, 1] < cell[1] and reach[p, 2] > cell[2] and reach[p, 3] > cell[3]:
            return True
    return False


# --- rows to file -----------------------------------------------------------------------------------------------


class FiledWords(NamedTuple):
    """The keys under which rows are listed: `key[start[i]:start[i + 1]]` for `row[i]`, EVERY_MESSAGE among them."""

    row: NDArray[np.int64]
    start: NDArray[np.int64]
    key: NDArray[np.int32]


def words_to_file(table: LiveTable, first: int, last: int, now: int) -> FiledWords:
    """Return the rows from `first` to `last` that are not over, each with the keys of its words."""
    rows = first + np.flatnonzero(table.expires[first:last] > now)
    term_start, at = gathered(table.term_start, rows)
    start, word, _ = distinct_words(term_start, table.term[at])
    n = np.diff(start) + 1
    new_start = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(n, out=new_start[1:])
    key = np.full(int(new_start[-1]), EVERY_MESSAGE, np.int32)
    is_word = np.ones(len(key), np.bool_)
    is_word[new_start[:-1]] = False
    key[is_word] = word + 1
    return FiledWords(rows, new_start, key)


def rectangles_of(box: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return (place, rectangle) of places, of which those across the dateline have two."""
    crossing = np.flatnonzero(box[:, 0] > box[:, 2])
    item = np.concatenate([np.arange(len(box)), crossing])
    rectangle = box[item]
    rectangle[crossing, 2] = 180.0
    rectangle[len(box) :, 0] = -180.0
    return item, rectangle
