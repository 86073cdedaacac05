"""An index of the copies of top-k subscriptions whose home is another partition; it only detects candidates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast._ids import IdTable
from nearcast._saved import save_array
from nearcast.columns import NO_TIME
from nearcast.geo import BOX, Regions, Space
from nearcast.indexes import create, open_index
from nearcast.saved_files.arrays import SavedArrays
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions
    from nearcast.indexes import Matches
    from nearcast.tables.moves import Moves
    from nearcast.text.weights import TermWeights


#: Dead slots tolerated beside as many as are alive; every batch looks at all of them.
SPARE_SLOTS = 1 << 14


class Detector:
    """An index of copies, with the registration number and the home of each.

    Its thresholds are those that the homes had after the last batch: whatever a message of this batch could change is
    found, for a home whose threshold falls searches for itself.
    """

    def __init__(self, space: Space, index: str):
        self._space = space
        self.index = create(index, space)
        self.ids = IdTable()
        self._number = np.empty(0, np.int64)
        self._home = np.empty(0, np.int32)
        self._expires = np.empty(0, np.int64)
        self._n_weighed = 0

    def __len__(self) -> int:
        return len(self.index)

    def put(
        self,
        subscriptions: Subscriptions,
        words: WordTable,
        weights: TermWeights,
        number: NDArray[np.int64],
        home: NDArray[np.int32],
    ) -> None:
        """Store copies, in place of older ones of the same id."""
        if len(words) > self._n_weighed:
            self.index.set_weights(weights.of_table(words, self._n_weighed), self._n_weighed)
            self._n_weighed = len(words)
        self.remove(subscriptions.ids)
        self._renumber_if_sparse()
        slots = self.index.insert(subscriptions)
        self.ids.bind(subscriptions.ids, slots)
        grown = int(slots.max(initial=-1)) + 1
        self._number = _with_room(self._number, grown)
        self._home = _with_room(self._home, grown)
        self._expires = _with_room(self._expires, grown)
        self._number[slots], self._home[slots], self._expires[slots] = number, home, subscriptions.expires

    def _renumber_if_sparse(self) -> None:
        """Renumber the slots in use from 0 on when most are dead: a copy that is replaced leaves its slot behind."""
        if self.index.n_slots <= 2 * len(self.index) + SPARE_SLOTS:
            return
        old = self.index.renumber()
        self.ids = self.ids.renumbered(old)
        self._number, self._home, self._expires = self._number[old], self._home[old], self._expires[old]

    def remove(self, ids: pa.Array) -> None:
        """Remove the copies of these ids that are held here."""
        if not len(self) or not len(ids):
            return
        slots = self.ids.slots(ids)
        slots = slots[slots >= 0]
        if len(slots):
            self.index.remove(slots)
            self.ids.release(slots)
            self._number[slots] = -1

    def forget_expired(self, now: int) -> None:
        """Remove the copies of subscriptions that have expired by this event time."""
        due = np.flatnonzero((self._number >= 0) & (self._expires != NO_TIME) & (self._expires <= now))
        if len(due):
            slots = due.astype(np.int32)
            self.index.remove(slots)
            self.ids.release(slots)
            self._number[slots] = -1

    def move(self, ids: pa.Array, moves: Moves) -> None:
        """Move the copies of these ids that are held here."""
        if not len(self):
            return
        slots = self.ids.slots(ids)
        here = np.flatnonzero(slots >= 0)
        if len(here):
            moves = moves.take(here)
            point = np.where(
                moves.is_point[:, None], moves.point, moves.regions.part[moves.regions.part_start[:-1], :2]
            )
            boxes = np.column_stack([point, point])
            regions, _ = Regions.from_arrays(self._space, np.full(len(here), BOX, np.uint8), boxes)
            self.index.move(slots[here], regions)

    def reweigh(self, words: WordTable, weights: TermWeights) -> None:
        """Set the weights of all words, after a change of the vocabulary."""
        if self._n_weighed:
            self.index.set_weights(weights.of_table(words, 0))
            self._n_weighed = len(words)

    def set_thresholds(self, number: NDArray[np.int64], threshold: NDArray[np.float64]) -> None:
        """Set the thresholds of the subscriptions with these numbers, as their homes have them."""
        if not len(self) or not len(number):
            return
        order = np.argsort(self._number, kind="stable")
        at = np.searchsorted(self._number[order], number)
        at = np.minimum(at, len(order) - 1)
        slots = order[at]
        here = self._number[slots] == number
        self.index.set_thresholds(slots[here].astype(np.int32), threshold[here])

    def detect(self, messages: Messages) -> tuple[Matches, NDArray[np.int64], NDArray[np.int32]]:
        """Match messages; return with the matches the registration number and the home of each."""
        matches = self.index.match(messages)
        return matches, self._number[matches.slots], self._home[matches.slots]

    def save(self, folder: Path) -> None:
        """Write everything into a new folder."""
        folder.mkdir(parents=True)
        self.index.save(folder / "index")
        self.ids.save(folder / "ids")
        for name in ("number", "home", "expires"):
            save_array(folder / f"{name}.npy", getattr(self, f"_{name}"))
        save_array(folder / "about.npy", np.array([self._n_weighed]))

    @classmethod
    def open(cls, folder: Path, space: Space, index: str) -> Detector:
        """Return what was saved."""
        arrays, detector = SavedArrays(folder), cls(space, index)
        detector.index = open_index(folder / "index")
        detector.ids = IdTable.open(folder / "ids")
        columns = detector._number, detector._home, detector._expires = (
            arrays.mapped("number", np.int64),
            arrays.mapped("home", np.int32),
            arrays.mapped("expires", np.int64),
        )
        slots = int(detector.ids.in_use().max(initial=-1)) + 1
        for name, column in zip(("number", "home", "expires"), columns, strict=True):
            arrays.check(name, len(column) >= slots, "it lacks subscriptions")
        about = arrays.mapped("about", np.int64)
        arrays.length("about", about, 1)
        detector._n_weighed = int(about[0])
        return detector


def _with_room(column: NDArray[Any], n: int) -> NDArray[Any]:
    if n <= len(column):
        return column
    grown = np.full(max(n, len(column) * 3 // 2), -1, column.dtype)
    grown[: len(column)] = column
    return grown
