"""The driver's table of subscriptions: registration number, home and copies by id."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast._ids import IdTable
from nearcast._saved import save_array
from nearcast.columns import NO_TIME
from nearcast.geo import BOX, Regions
from nearcast.pipeline.batch.changes import MOVE, UNSUBSCRIBE, runs_of_moves
from nearcast.saved_files.arrays import SavedArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast._ids import Id
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


class Directory:
    """A table of all subscriptions in flat arrays, 78 bytes each.

    A place is the row of a subscription here; places of those that went are used again.
    """

    def __init__(self) -> None:
        self._ids = IdTable()
        self._columns: dict[str, NDArray[Any]] = {name: np.empty(0, kind) for name, kind in _COLUMNS.items()}
        self._free: list[int] = []
        self._n_places = 0
        self.next_number = 0
        self.next_expiry = np.iinfo(np.int64).max

    def __len__(self) -> int:
        return len(self._ids)

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name in _COLUMNS:
            column: NDArray[Any] = self._columns[name][: self._n_places]
            return column
        raise AttributeError(name)

    def place(self, subscription_id: Id, clock: int) -> int:
        """Return the place of a subscription, -1 if there is none, or none any more, at this event time."""
        place = self._ids.slot(subscription_id)
        if place >= 0 and self._has_expired(place, clock):
            self.remove(np.array([place]))
            return -1
        return place

    def _has_expired(self, place: int, clock: int) -> bool:
        expires = int(self._columns["expires"][place])
        return expires != NO_TIME and expires <= clock

    def places(self, ids: pa.Array) -> NDArray[np.int32]:
        """Return the places of a column of ids, -1 where there is none."""
        return self._ids.slots(ids)

    def places_of_keys(self, keys: pa.Array) -> NDArray[np.int32]:
        """Return the places of a column of keys of `_ids`, -1 where there is none."""
        return self._ids.slots_of_keys(keys)

    def add(self, ids: pa.Array, **columns: NDArray[Any]) -> NDArray[np.int64]:
        """Register new subscriptions in order; return their places."""
        n = len(ids)
        places = np.array([self._new_place() for _ in range(n)], np.int64) if self._free else self._new_places(n)
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
        self._ids.release(places.astype(np.int32))
        self._columns["expires"][places] = NO_TIME
        self._columns["number"][places] = -1
        self._free += places.tolist()

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
        for rows in runs_of_moves(changes.op):
            if changes.op[rows[0]] == MOVE:
                places = self.places(changes.ids.take(_arrow.numbers(rows))).astype(np.int64)
                self.note_moves(places, changes.moves.take(changes.at[rows]), changes.time[rows], changes.clock[rows])
            else:
                self._follow_one(changes, int(rows[0]))

    def _follow_one(self, changes: BatchChanges, row: int) -> None:
        """Replay a subscription that was stored or removed."""
        id_ = changes.ids[row].as_py()
        place = self.place(id_, int(changes.clock[row]))
        if changes.op[row] == UNSUBSCRIBE:
            self.remove(np.array([place]))
            return
        columns = described(changes.subscriptions.subscriptions.take(changes.at[row : row + 1]))
        columns["copies"] = np.zeros(1, np.uint64) if changes.copies is None else changes.copies[row : row + 1]
        if place < 0:
            self.add(pa.array([id_]), home=changes.home[row : row + 1], **columns)
        else:
            self.set(np.array([place]), **columns)

    def note_moves(
        self, places: NDArray[np.int64], moves: Moves, time: NDArray[np.int64], clock: NDArray[np.int64]
    ) -> None:
        """Note moves to other places at these event times, in order; without a time, one is of now."""
        np.maximum.at(self._columns["reported"], places, np.where(time == NO_TIME, clock, time))
        given = np.flatnonzero(~moves.is_point)
        if len(given):
            shape, height = shapes_of(moves.regions.take(given))
            self.set(places[given], shape=shape, height=height)

    def _new_place(self) -> int:
        if self._free:
            return self._free.pop()
        self._n_places += 1
        return self._n_places - 1

    def _new_places(self, n: int) -> NDArray[np.int64]:
        first, self._n_places = self._n_places, self._n_places + n
        return np.arange(first, self._n_places)

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
        directory._free = np.flatnonzero(directory._columns["number"] < 0)[::-1].tolist()
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
