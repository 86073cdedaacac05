"""The driver's table of subscriptions: registration number, home and copies by id."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast._ids import IdTable
from nearcast._saved import save_array
from nearcast.columns import NO_TIME, WITHIN
from nearcast.geo import BOX, Regions
from nearcast.pipeline.batch.changes import MOVE, SUBSCRIBE, UNSUBSCRIBE, codes_of, runs_without_repeats
from nearcast.saved_files.arrays import SavedArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.pipeline.batch.changes import BatchChanges
    from nearcast.tables.moves import Moves

_COLUMNS: dict[str, Any] = {
    "number": np.int64,
    "home": np.int32,
    "copies": np.uint64,
    "expires": np.int64,
    "kind": np.uint8,
    #: The kind of region, and how high a box is: that decides where its centre can go.
    "shape": np.uint8,
    "height": np.float64,
    #: The time of its last report of a place: an older one is late.
    "reported": np.int64,
}


class _PlaceStack:
    """A stack of places in one array that doubles."""

    def __init__(self) -> None:
        self._places = np.empty(16, np.int64)
        self._n = 0

    def push(self, places: NDArray[np.int64]) -> None:
        """Put places on top, the last one topmost."""
        n = self._n + len(places)
        if n > len(self._places):
            self._places = np.resize(self._places, max(n, 2 * len(self._places)))
        self._places[self._n : n] = places
        self._n = n

    def pop(self, n: int) -> NDArray[np.int64]:
        """Take up to n places off, the topmost first."""
        left = max(0, self._n - n)
        taken = self._places[left : self._n][::-1].copy()
        self._n = left
        return taken


class Directory:
    """A table of all subscriptions in flat arrays, 78 bytes each.

    A place is the row of a subscription here; places of those that went are used again.
    """

    def __init__(self) -> None:
        self._ids = IdTable()
        self._columns: dict[str, NDArray[Any]] = {name: np.empty(0, kind) for name, kind in _COLUMNS.items()}
        self._free = _PlaceStack()
        self._n_places = 0
        self.next_number = 0
        self.next_expiry = np.iinfo(np.int64).max
        #: How often subscriptions came or went: while it stays, places that were looked up hold.
        self.version = 0

    def __len__(self) -> int:
        return len(self._ids)

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name in _COLUMNS:
            column: NDArray[Any] = self._columns[name][: self._n_places]
            return column
        raise AttributeError(name)

    def places(self, ids: pa.Array) -> NDArray[np.int32]:
        """Return the places of a column of ids, -1 where there is none."""
        return self._ids.slots(ids)

    def places_of_numbers(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of subscriptions by registration number, -1 where there is none."""
        order = np.argsort(self.number)
        known = self.number[order]
        at = np.minimum(np.searchsorted(known, numbers), max(len(known) - 1, 0))
        if not len(known):
            return np.full(len(numbers), -1, np.int64)
        return np.where((known[at] == numbers) & (numbers >= 0), order[at], -1)

    def without_expired(self, places: NDArray[np.int64], clock: NDArray[np.int64]) -> NDArray[np.int64]:
        """Forget those of these subscriptions that expire by their event times; return the places, -1 for those."""
        known = np.flatnonzero(places >= 0)
        expires = self.expires[places[known]]
        over = known[(expires != NO_TIME) & (expires <= clock[known])]
        if not len(over):
            return places
        self.remove(places[over])
        left = places.copy()
        left[over] = -1
        return left

    def store(
        self, ids: pa.Array, places: NDArray[np.int64], *, home: NDArray[np.int32], **columns: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Store subscriptions in order: those that have a place there, at their old home, the others as new ones.

        Return the places of all.
        """
        known, new = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
        if len(known):
            self.set(places[known], **{name: values[known] for name, values in columns.items()})
        if not len(new):
            return places
        taken = {name: values[new] for name, values in columns.items()}
        result = places.copy()
        result[new] = self.add(ids.take(_arrow.numbers(new)), home=home[new], **taken)
        return result

    def add(self, ids: pa.Array, **columns: NDArray[Any]) -> NDArray[np.int64]:
        """Register new subscriptions in order; return their places."""
        self.version += 1
        n = len(ids)
        free = self._free.pop(n)
        places = np.concatenate([free, np.arange(self._n_places, self._n_places + n - len(free))])
        self._n_places += n - len(free)
        self._make_room(self._n_places)
        self._ids.bind(ids, places.astype(np.int32))
        numbers = np.arange(self.next_number, self.next_number + n)
        self.next_number += n
        self.set(places, number=numbers, **columns)
        return places

    def set(self, places: NDArray[np.int64], **columns: NDArray[Any]) -> None:
        """Write columns of these places."""
        for name, values in columns.items():
            self._columns[name][places] = values
        expires = columns.get("expires")
        if expires is not None:
            given = expires[expires != NO_TIME]
            self.next_expiry = min(self.next_expiry, int(given.min(initial=self.next_expiry)))

    def remove(self, places: NDArray[np.int64]) -> None:
        """Forget subscriptions."""
        self.version += 1
        self._ids.release(places.astype(np.int32))
        self._columns["expires"][places] = NO_TIME
        self._columns["number"][places] = -1
        self._columns["kind"][places] = WITHIN  # whoever asks for a kind asks all places
        self._free.push(places)

    def forget_expired(self, clock: int) -> None:
        """Forget the subscriptions that expire by this event time."""
        if clock < self.next_expiry:
            return
        expires = self._columns["expires"][: self._n_places]
        due = np.flatnonzero((expires != NO_TIME) & (expires <= clock))
        if len(due):
            self.remove(due)
        left = expires[expires != NO_TIME]
        self.next_expiry = int(left.min(initial=np.iinfo(np.int64).max))

    def follow(self, changes: BatchChanges) -> None:
        """Replay the changes of a batch that were registered before a restart."""
        for rows in runs_without_repeats(codes_of(changes.ids)):
            op = changes.op[rows]
            self._follow_moves(changes, rows[op == MOVE])
            gone = self._ids_of(changes, rows[op == UNSUBSCRIBE])
            if len(gone):
                self.remove(self.places(gone).astype(np.int64))
            self._follow_stored(changes, rows[op == SUBSCRIBE])

    def _ids_of(self, changes: BatchChanges, rows: NDArray[np.int64]) -> pa.Array:
        return changes.ids.take(_arrow.numbers(rows))

    def _follow_moves(self, changes: BatchChanges, rows: NDArray[np.int64]) -> None:
        if len(rows):
            places = self.places(self._ids_of(changes, rows)).astype(np.int64)
            self.note_moves(places, changes.moves.take(changes.at[rows]), changes.time[rows], changes.clock[rows])

    def _follow_stored(self, changes: BatchChanges, rows: NDArray[np.int64]) -> None:
        if not len(rows):
            return
        ids = self._ids_of(changes, rows)
        copies = np.zeros(len(rows), np.uint64) if changes.copies is None else changes.copies[rows]
        self.store(
            ids,
            self.without_expired(self.places(ids).astype(np.int64), changes.clock[rows]),
            home=changes.home[rows],
            copies=copies,
            **described(changes.subscriptions.subscriptions.take(changes.at[rows])),
        )

    def note_moves(
        self, places: NDArray[np.int64], moves: Moves, time: NDArray[np.int64], clock: NDArray[np.int64]
    ) -> None:
        """Note moves of subscriptions that differ at these event times; without a time, one is of now."""
        reported = np.where(time == NO_TIME, clock, time)
        self._columns["reported"][places] = np.maximum(self._columns["reported"][places], reported)
        given = np.flatnonzero(~moves.is_point)
        if len(given):
            shape, height = shapes_of(moves.regions.take(given))
            self.set(places[given], shape=shape, height=height)

    def _make_room(self, n: int) -> None:
        for name, column in self._columns.items():
            if len(column) < n:
                grown = np.full(max(n, len(column) * 3 // 2), -1 if name == "number" else 0, column.dtype)
                grown[: len(column)] = column
                self._columns[name] = grown

    def save(self, folder: Path) -> None:
        """Write everything into a new folder."""
        self._ids.save(folder)
        for name in _COLUMNS:
            save_array(folder / f"{name}.npy", self._columns[name][: self._n_places])
        save_array(folder / "about.npy", np.array([self.next_number, self.next_expiry], np.int64))

    @classmethod
    def open(cls, folder: Path) -> Directory:
        """Return what was saved."""
        arrays, directory = SavedArrays(folder), cls()
        directory._ids = IdTable.open(folder)
        columns = {name: arrays.loaded(name, kind) for name, kind in _COLUMNS.items()}
        n_places = len(columns["number"])
        for name, column in columns.items():
            arrays.length(name, column, n_places)
        places = directory._ids.in_use()
        arrays.numbers("slot_of_key", places, n_places)
        directory._columns, directory._n_places = columns, n_places
        about = arrays.loaded("about", np.int64)
        arrays.length("about", about, 2)
        directory.next_number, directory.next_expiry = map(int, about)
        directory._free.push(np.flatnonzero(directory._columns["number"] < 0)[::-1])
        return directory


def described(subscriptions: Subscriptions) -> dict[str, NDArray[Any]]:
    """Return the columns of a directory that follow from subscriptions alone."""
    shape, height = shapes_of(subscriptions.regions)
    return {
        "expires": subscriptions.expires,
        "kind": subscriptions.kind,
        "shape": shape,
        "height": height,
        "reported": np.full(len(subscriptions), NO_TIME),
    }


def shapes_of(regions: Regions) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Return the kind of each region, and how high it is if it is a box."""
    height = np.zeros(len(regions))
    is_box = regions.kind == BOX
    part = regions.part[regions.part_start[:-1][is_box]]
    height[is_box] = part[:, 3] - part[:, 1]
    return regions.kind, height
