"""Search for the rows of slots in a segment, by interpolation and doubling steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel, inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray


def rows_of_slots(slot: NDArray[np.int32], by_slot: NDArray[np.int32], wanted: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the rows of these slots, slot by slot; `by_slot` has the rows in the order of their `slot`."""
    first, last = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.int64)
    bounds_of_slots(slot, by_slot, np.ascontiguousarray(wanted, np.int32), first, last)
    count = last - first
    positions = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
    found: NDArray[np.int64] = by_slot[positions].astype(np.int64)
    return found


@hot_kernel
def bounds_of_slots(slot, by_slot, wanted, first, last):
    """Write the first position in `by_slot` of each wanted slot, and the first behind it.

    Slots of a segment mostly follow each other: the search begins where the wanted one would be if they all did.
    """
    n = by_slot.size
    if n == 0:
        first[:] = 0
        last[:] = 0
        return
    lowest = np.int64(slot[by_slot[0]])
    extent = max(np.int64(slot[by_slot[n - 1]]) - lowest, 1)
    for i in range(wanted.size):
        share = min(max(np.int64(wanted[i]) - lowest, 0), extent)
        at = _first_from(slot, by_slot, wanted[i], share * (n - 1) // extent)
        first[i] = at
        while at < n and slot[by_slot[at]] == wanted[i]:
            at += 1
        last[i] = at


@inlined
def _first_from(slot, by_slot, wanted, guess):
    """Return the first position whose slot is the wanted one or a higher one, searched from a guess on."""
    low, high, step = guess - 1, guess, np.int64(1)  # what is at `low` or before is below, at `high` or behind is not
    if slot[by_slot[guess]] < wanted:
        low, high = guess, guess + 1
        while high < by_slot.size and slot[by_slot[high]] < wanted:
            low, step = high, 2 * step
            high = min(high + step, by_slot.size)
    else:
        while low >= 0 and slot[by_slot[low]] >= wanted:
            high, step = low, 2 * step
            low = max(low - step, -1)
    while high - low > 1:
        middle = (low + high) >> 1
        if slot[by_slot[middle]] < wanted:
            low = middle
        else:
            high = middle
    return high
