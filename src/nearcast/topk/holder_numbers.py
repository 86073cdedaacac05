"""Numbers top-k subscriptions as holders, beside their slots; the number of one that goes is used again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.topk.buffers.fill import release
from nearcast.topk.buffers.holders import (
    BYTES_A_HOLDER,
    FEWEST,
    NOBODY,
    Holders,
    WindowRows,
    grown_holders,
    new_holders,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.topk.buffers.pool import Slabs


class HolderTable:
    """The columns of all holders, and the holder of every slot that is of kind `topk`."""

    def __init__(self) -> None:
        self.columns: Holders = new_holders(FEWEST)
        self._free: list[int] = [*range(FEWEST - 1, -1, -1)]
        self._of_slot = np.full(1024, NOBODY, np.int32)

    def __len__(self) -> int:
        return len(self.columns.slot) - len(self._free)

    @property
    def nbytes(self) -> int:
        """Return the memory taken by the numbers, that of the buffers apart."""
        return BYTES_A_HOLDER * len(self.columns.slot) + self._of_slot.nbytes

    def slots(self) -> NDArray[np.int32]:
        """Return the slots that have a holder, in the order of registration."""
        slots: NDArray[np.int32] = np.sort(self.columns.slot[self.columns.slot != NOBODY])
        return slots

    def of_slots(self, slots: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the holders of slots, NOBODY for those of other kinds."""
        holders = self._of_slot[np.minimum(slots, len(self._of_slot) - 1)]
        holders[slots >= len(self._of_slot)] = NOBODY
        return holders

    def take(self, slots: NDArray[np.int32]) -> None:
        """Give each slot a holder, that of before if it has one."""
        if len(slots) and int(slots.max()) >= len(self._of_slot):
            more = np.full(max(int(slots.max()) + 1, 2 * len(self._of_slot)), NOBODY, np.int32)
            more[: len(self._of_slot)] = self._of_slot
            self._of_slot = more
        new = slots[self._of_slot[slots] == NOBODY]
        self._make_room(len(new) - len(self._free))
        if len(new):
            numbers = np.array(self._free[-len(new) :][::-1], np.int32)
            del self._free[-len(new) :]
            self._of_slot[new] = numbers
            self.columns.slot[numbers] = new

    def _make_room(self, lacking: int) -> None:
        if lacking <= 0:
            return
        n = len(self.columns.slot)
        # Many at once are likely all there will be; a few are likely to be followed by more.
        room = max(n + lacking, n + n // 8, 64)
        self.columns = grown_holders(self.columns, room)
        self._free = [*range(room - 1, n - 1, -1), *self._free]

    def release(self, slots: NDArray[np.int32], slabs: Slabs, rows: WindowRows) -> None:
        """Take back the holders of these slots, as far as they have one, with their buffers."""
        held = slots[self.of_slots(slots) != NOBODY]
        if not len(held):
            return
        numbers = self._of_slot[held]
        release(self.columns, slabs, rows, numbers)
        self._of_slot[held] = NOBODY
        self._free += numbers.tolist()

    def release_again(self, slots: NDArray[np.int32], slabs: Slabs, rows: WindowRows) -> None:
        """Complete a `release`, or undo a `take` of slots new here, that was interrupted; may be called again."""
        held = slots[self.of_slots(slots) != NOBODY]
        release(self.columns, slabs, rows, self._of_slot[held])
        self._of_slot[held] = NOBODY
        self._free = np.flatnonzero(self.columns.slot == NOBODY)[::-1].tolist()

    def renumbered(self, old: NDArray[np.int32]) -> HolderTable:
        """Return the holders for an index that gave slot `old[i]` the number i; all but their slots is shared."""
        fresh = HolderTable()
        holders = self.of_slots(old)
        fresh._of_slot = np.append(holders, np.full(1024, NOBODY, np.int32))
        held = np.flatnonzero(holders != NOBODY)
        # With gaps, as the columns of a record have: for one without, kernels would be compiled once more.
        slot = np.full((len(self.columns.slot), 2), NOBODY, np.int32)[:, 0]
        slot[holders[held]] = held
        fresh.columns, fresh._free = self.columns._replace(slot=slot), self._free
        return fresh

    def restore(self, columns: dict[str, NDArray[Any]]) -> None:
        """Take in holders by their columns, where there are none yet; their buffers are still to be made."""
        n = len(columns["slot"])
        self.columns = new_holders(max(n, FEWEST))
        self._free = [*range(len(self.columns.slot) - 1, n - 1, -1)]
        for name, column in columns.items():
            getattr(self.columns, name)[:n] = column
        self._of_slot = np.full(int(columns["slot"].max(initial=-1)) + 1025, NOBODY, np.int32)
        self._of_slot[columns["slot"]] = np.arange(n)
