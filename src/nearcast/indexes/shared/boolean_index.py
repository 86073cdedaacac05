"""The base of the papers' boolean indexes: keeps a structure over atoms up to date and turns found atoms into slots.

An index over atoms is a structure and four methods (`BooleanIndex`); its search is one kernel that goes through a
batch of messages and writes the atoms that hold. From there on all of them are alike: polygons are tested, atoms become
slots, and slots are sorted and repeats dropped.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import inlined
from nearcast.columns import gathered
from nearcast.geo import polygons_touch
from nearcast.geo.hilbert import hilbert_keys
from nearcast.indexes import Matches
from nearcast.indexes.shared.atoms import Atoms, AtomStore, box_holds, rest_holds, words_hold
from nearcast.indexes.shared.gather import merge_found, place_in_message_order
from nearcast.indexes.shared.kernel_message import end_message
from nearcast.indexes.shared.stored_index import StoredIndex, table_arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.geo import Space

#: Fields of `FoundAtoms.tally`.
LOOKED_AT, VERIFIED = 0, 1
#: Messages that are searched and sorted at a time, and from how many on it pays to search neighbours together.
_CHUNK, _WORTH_ORDERING = 4096, 64
_FIRST_ROOM = 1 << 16


class BooleanBatch(NamedTuple):
    """A batch of messages as kernels read it, with scratch arrays for one message.

    `has[term]` is 1 for the terms of the present message, 0 between messages. `word` lists these terms, each once;
    `place` are its rectangles.
    """

    term_start: NDArray[np.int64]
    terms: NDArray[np.int32]
    box: NDArray[np.float64]
    has: NDArray[np.uint8]
    word: NDArray[np.int32]
    place: NDArray[np.float64]
    is_earth: bool


class FoundAtoms(NamedTuple):
    """Atoms that match: those of message i end at `end[i]`. `tally` counts entries looked at, and verified in full."""

    atom: NDArray[np.int32]
    end: NDArray[np.int64]
    tally: NDArray[np.int64]


class BooleanIndex(StoredIndex):
    """A boolean index that keeps a structure over atoms. A subclass has these methods, called under the lock:

    - `_build(atoms)`: make the structure anew, over these live atoms, at once.
    - `_insert_atoms(atoms)`: add atoms one by one.
    - `_remove_atoms(atoms)`: take out atoms that are in it.
    - `_search(batch, first, found)`: search the messages from `first` on; return the first that is not done, for want
      of room in `found.atom`, or the number of messages.

    `self._atoms` has the atoms. Changes wait until the next message: atoms are inserted, and once as many have come as
    there were when the structure was built, it is built anew, for it was laid out for those. An atom may be found
    twice; `found` may hold atoms that count no longer.
    """

    def __init__(self, space: Space, **options: Any):
        super().__init__(space, **options)
        self._store = AtomStore()
        self._is_store_whole = True
        self._n_when_built = self._n_come = 0  # atoms the structure was built of, and inserted since
        self._n_in_structure = 0
        self._n_seen = 0  # atoms before this one are in the structure, or were dropped before they came there
        self._is_built = False
        self._gone: list[NDArray[np.int32]] = []
        # Room that is lent to a search and comes back after it: one that is cut short leaves marks in it.
        self._marks: NDArray[np.uint8] | None = None
        self._room: NDArray[np.int32] | None = None

    @abstractmethod
    def _build(self, atoms: NDArray[np.int32]) -> None: ...

    @abstractmethod
    def _insert_atoms(self, atoms: NDArray[np.int32]) -> None: ...

    @abstractmethod
    def _remove_atoms(self, atoms: NDArray[np.int32]) -> None: ...

    @abstractmethod
    def _search(self, batch: BooleanBatch, first: int, found: FoundAtoms) -> int: ...

    @abstractmethod
    def _bytes(self) -> int:
        """Return the size of the structure."""

    @property
    def _atoms(self) -> Atoms:
        return self._store.arrays

    def match(self, messages: Messages, *, threads: int = 1) -> Matches:
        """Search every message, neighbours together; one core whatever `threads` says."""
        messages = messages.for_kernels()
        n = len(messages)
        with self._lock:
            self._undo.roll_back()
            self._bring_up_to_date()
            order = np.arange(n, dtype=np.int32)
            if n >= _WORTH_ORDERING:
                order = np.argsort(hilbert_keys(self.space, messages.box), kind="stable").astype(np.int32)
            chunks = [self._match_chunk(messages, order[first : first + _CHUNK]) for first in range(0, n, _CHUNK)]
        counts = np.concatenate([np.empty(0, np.int64), *(chunk.counts for chunk in chunks)])
        in_order = np.empty(n, np.int64)
        in_order[order] = counts
        start = np.zeros(n + 1, np.int64)
        np.cumsum(in_order, out=start[1:])
        slots = np.empty(int(start[-1]), np.int32)
        for at, chunk in enumerate(chunks):
            first = at * _CHUNK
            place_in_message_order(chunk.slots, order, counts, first, first + len(chunk.counts), start, slots)
        looked_at, verified = (sum(int(chunk.tally[field]) for chunk in chunks) for field in (LOOKED_AT, VERIFIED))
        return Matches(start, slots, np.ones(len(slots)), looked_at, verified)

    def _match_chunk(self, messages: Messages, rows: NDArray[np.int32]) -> _ChunkSlots:
        marks, self._marks = self._marks, None
        if marks is None or len(marks) < self._n_weights:
            marks = np.zeros(self._n_weights + self._n_weights // 4, np.uint8)
        batch = self._batch(messages, rows, marks[: self._n_weights])
        found = self._found(batch)
        self._marks, self._room = marks, found.atom
        slots, end = self._slots_of(found, batch.box)
        starts = np.zeros((1, len(rows) + 1), np.int64)
        starts[0, 1:] = end
        longest = int(np.diff(starts[0]).max(initial=0))
        spare, digits = np.empty(longest, np.int32), np.empty(256, np.int64)
        out, counts = np.empty(len(slots), np.int32), np.empty(len(rows), np.int64)
        n = merge_found(slots, starts, 0, len(rows), len(self._row_of).bit_length(), spare, digits, out, counts)
        return _ChunkSlots(out[:n], counts, found.tally)

    def _batch(self, messages: Messages, rows: NDArray[np.int32], has: NDArray[np.uint8] | None = None) -> BooleanBatch:
        """Return messages as kernels read them, with the given room for marks or some of its own."""
        has = np.zeros(self._n_weights, np.uint8) if has is None else has
        start, at = gathered(messages.term_start, rows.astype(np.int64))
        word = np.empty(int(np.diff(start).max(initial=0)), np.int32)
        box, terms = np.ascontiguousarray(messages.box[rows]), np.ascontiguousarray(messages.terms[at])
        return BooleanBatch(start, terms, box, has, word, np.empty((2, 4)), self.space.is_earth)

    def _found(self, batch: BooleanBatch) -> FoundAtoms:
        """Search a batch, with ever more room for what is found until it suffices."""
        n, room = len(batch.box), self._room
        self._room = None
        room = np.empty(_FIRST_ROOM, np.int32) if room is None else room
        found = FoundAtoms(room, np.zeros(n, np.int64), np.zeros(2, np.int64))
        done = self._search(batch, 0, found)
        while done < n:
            found = found._replace(atom=np.concatenate([found.atom, np.empty_like(found.atom)]))
            done = self._search(batch, done, found)
        return found

    def _slots_of(self, found: FoundAtoms, box: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the slots of what was found, less polygons that do not touch, and where those of each message end."""
        atoms = found.atom[: int(found.end[-1]) if len(found.end) else 0]
        columns = self._atoms
        slots = self._slot_of[columns.row[atoms]]
        wanted = slots >= 0
        if len(self._store.geometry):
            shape = columns.shape[atoms]
            asked = np.flatnonzero(wanted & (shape >= 0) & (shape % 2 == 1))
            message = np.searchsorted(found.end, asked, side="right")
            wanted[asked] = polygons_touch(self._store.geometry[shape[asked] // 2], box[message], self.space)
        if wanted.all():
            return slots, found.end
        kept = np.concatenate([np.zeros(1, np.int64), np.cumsum(wanted)])
        return slots[wanted], kept[found.end]

    # Changes

    def _rows_added(self, first: int, last: int) -> None:
        if self._is_store_whole:
            self._is_store_whole = False  # until it is: a change that is cut short is made up for by taking all anew
            self._store.add(self._pieces[-1])
            self._is_store_whole = True

    def _rows_dropped(self, rows: NDArray[np.int64]) -> None:
        if self._is_store_whole:
            self._gone.append(self._store.of_rows(rows))

    def _rows_renumbered(self) -> None:
        self._is_store_whole = False

    def _reweigh(self) -> None:
        pass  # what words weigh is nothing to boolean subscriptions

    def _bring_up_to_date(self) -> None:
        """Apply the changes since the last search to the structure, or build it anew."""
        if not self._is_store_whole:
            store = AtomStore()
            store.add(self._table())
            self._store, self._is_built, self._gone, self._n_seen = store, False, [], 0
            self._is_store_whole = True  # the last of all: whoever is cut short before takes all anew
        n, first = len(self._store), self._n_seen
        if self._is_built and first == n and not self._gone:
            return
        slot_of, row = self._slot_of, self._atoms.row
        if not self._is_built or self._is_outgrown(n - first):
            live = np.flatnonzero(slot_of[row[:n]] >= 0).astype(np.int32)
            self._is_built = False  # until it is: a change that is cut short is made up for by building anew
            self._build(live)
            self._n_when_built = self._n_in_structure = len(live)
            self._n_come = 0
        else:
            gone = np.concatenate([np.empty(0, np.int32), *self._gone])
            gone = gone[gone < first]
            new = np.arange(first, n, dtype=np.int32)
            new = new[slot_of[row[new]] >= 0]
            self._is_built = False
            self._change_atoms(gone, new)
            self._n_come += len(new)
            self._n_in_structure += len(new) - len(gone)
        self._gone, self._n_seen = [], n
        self._is_built = True  # the last of all

    def _change_atoms(self, gone: NDArray[np.int32], new: NDArray[np.int32]) -> None:
        """Take atoms out of the structure, and insert others."""
        if len(gone):
            self._remove_atoms(gone)
        if len(new):
            self._insert_atoms(new)

    def _is_outgrown(self, n_new: int) -> bool:
        """Tell whether as many atoms have come since the structure was built, with these, as it was built of."""
        return self._n_come + n_new >= self._n_when_built

    def _structure_bytes(self) -> int:
        with self._lock:
            self._bring_up_to_date()
            return self._bytes() + self._store.bytes_beside(list(table_arrays(self._table()).values()))


class _ChunkSlots(NamedTuple):
    """The slots of some messages end to end, how many each has, and the tally of their search."""

    slots: NDArray[np.int32]
    counts: NDArray[np.int64]
    tally: NDArray[np.int64]


@inlined
def enter(atom, found, at):
    """Enter an atom, all of which holds, as number `at`; return the next number.

    Beyond the room there is, atoms are counted only: a search that ends there begins with this message again.
    """
    if at < found.atom.size:
        found.atom[at] = atom
    return at + 1


@inlined
def keep(atoms, atom, batch, message, n_places, found, at):
    """Enter an atom, whose words and rectangle hold, if the rest of it holds too; return the next number."""
    if rest_holds(atoms, atom, batch, message, n_places):
        at = enter(atom, found, at)
    return at


@inlined
def verify(atoms, atom, batch, message, n_places, found, at):
    """Enter an atom of which nothing is known yet, if all of it holds; return the next number."""
    if box_holds(atoms, atom, batch.place, n_places) and words_hold(atoms, atom, batch.has):
        at = keep(atoms, atom, batch, message, n_places, found, at)
    return at


@inlined
def finish_message(batch, message, n_words, found, at, looked_at, verified):
    """End the search for a message: clear its marks, and note where its atoms end and what was counted up to it.

    Return whether there was room for all of them; if not, nothing is noted.
    """
    end_message(batch, n_words)
    if at > found.atom.size:
        return False
    found.end[message] = at
    found.tally[LOOKED_AT], found.tally[VERIFIED] = looked_at, verified
    return True
