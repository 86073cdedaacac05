"""Movers: a table by slot of what an engine knows of subscriptions that report their places."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast._saved import load_array, save_array
from nearcast.columns import NO_TIME
from nearcast.errors import IncompatibleStore

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

#: `time` of the last report; `width` and `height` of the box that a point carries along, NaN: those of the region that
#: the index holds; `min_move`, how far a place must lie from the present one to count.
MOVER = np.dtype([("time", "<i8"), ("width", "<f8"), ("height", "<f8"), ("min_move", "<f8")])
_UNMOVED = np.array([(NO_TIME, np.nan, np.nan, 0.0)], MOVER)


def _highest(slots: NDArray[np.int32]) -> int:
    return int(slots.item()) if len(slots) == 1 else int(slots.max(initial=-1))


class Movers:
    """A row of type `MOVER` for each slot, as long as the highest slot that has moved; slots beyond have not."""

    def __init__(self) -> None:
        self._rows: NDArray[Any] = np.empty(0, MOVER)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Return the memory taken by the table."""
        return self._rows.nbytes

    def of(self, slots: NDArray[np.int32]) -> NDArray[Any]:
        """Return a copy of the rows of slots."""
        if len(slots) == 1 and (slot := slots.item()) < len(self._rows):
            return np.array([self._rows.item(slot)], MOVER)  # that of a single change
        if _highest(slots) < len(self._rows):
            return self._rows[slots]
        rows = np.repeat(_UNMOVED, len(slots))
        known = slots < len(self._rows)
        rows[known] = self._rows[slots[known]]
        return rows

    def extent(self, slot: int) -> tuple[float, float] | None:
        """Return width and height of the box that a slot carries along, None: those that the index holds."""
        if not 0 <= slot < len(self._rows):
            return None
        _, width, height, _ = self._rows.item(slot)
        return None if math.isnan(width) else (width, height)

    def put(self, slots: NDArray[np.int32], rows: NDArray[Any]) -> None:
        """Store rows of slots; may be called again."""
        n = _highest(slots) + 1
        if n > len(self._rows):
            grown = np.repeat(_UNMOVED, max(n, len(self._rows) * 3 // 2))
            grown[: len(self._rows)] = self._rows
            self._rows = grown
        if len(slots) == 1:
            self._rows[n - 1] = rows[0]
        else:
            self._rows[slots] = rows

    def begin(self, slots: NDArray[np.int32], min_move: NDArray[np.float64] | None) -> None:
        """Forget the reports of slots that were registered or replaced; they have these distances, None: no such."""
        if min_move is not None and min_move.any():
            rows = np.repeat(_UNMOVED, len(slots))
            rows["min_move"] = min_move
            self.put(slots, rows)
        elif len(self._rows):
            self._rows[slots[slots < len(self._rows)]] = _UNMOVED

    def renumbered(self, old: NDArray[np.int32]) -> Movers:
        """Return the table for an index that gave slot `old[i]` the number i."""
        fresh = Movers()
        fresh._rows = self._rows[old[old < len(self._rows)]]
        return fresh

    def save(self, folder: Path) -> None:
        """Write the table into a new folder, column by column."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in MOVER.names or ():
            save_array(folder / f"{name}.npy", np.ascontiguousarray(self._rows[name]))

    @classmethod
    def open(cls, folder: Path) -> Movers:
        """Return the table that was saved in a folder, an empty one where there is no such folder."""
        movers = cls()
        if folder.exists():
            columns = {name: load_array(folder / f"{name}.npy", MOVER[name]) for name in MOVER.names or ()}
            if len({len(column) for column in columns.values()}) != 1:
                raise IncompatibleStore(f"{folder} is damaged: its columns differ in length; save the hub again")
            movers._rows = np.repeat(_UNMOVED, len(columns["time"]))
            for name, column in columns.items():
                movers._rows[name] = column
        return movers
