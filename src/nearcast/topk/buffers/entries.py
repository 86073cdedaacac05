"""Changes of one buffer: entries in rank order, with the number of dominators of each.

Loops that run through entries count in unsigned numbers: one that may be negative is no plain address to Numba, and
such a loop takes one entry at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The bits of a row that an entry has; `WindowRows.first` tells the others.
ROW_BITS = 32
LOW_ROW = (1 << ROW_BITS) - 1
#: Among so many entries counting those before is faster than halving, which the processor cannot foresee.
_FEW = 48


class Entries(NamedTuple):
    """The entries of one buffer: scores, the low bits of rows, and by how many others each is dominated."""

    score: NDArray[np.float64]
    row: NDArray[np.uint32]
    dominators: NDArray[np.uint16]


@inlined
def row_at(rows, entries, i):
    """Return the message of an entry."""
    return rows.first + ((np.int64(entries.row[i]) - rows.first) & LOW_ROW)


@inlined
def is_newer(rows, row, other):
    """Tell whether a message of the window is newer than another: by time where time counts, then by arrival."""
    if rows.by_time:
        time, other_time = rows.time[row & rows.mask], rows.time[other & rows.mask]
        if time != other_time:
            return time > other_time
    return row > other


@inlined
def ranks_before(rows, score, row, other_score, other):
    """Tell whether a message ranks before another: higher score, then newer."""
    if score != other_score:
        return score > other_score
    return is_newer(rows, row, other)


@inlined
def position_in(rows, entries, size, score, row):
    """Return at which position a message belongs."""
    low, high = 0, size
    while high - low > _FEW:
        middle = (low + high) >> 1
        if entries.score[middle] > score:
            low = middle + 1
        else:
            high = middle
    n_before = 0
    for i in range(np.uint64(low), np.uint64(high)):
        n_before += entries.score[i] > score
    low += n_before
    while low < size and entries.score[low] == score and not is_newer(rows, row, row_at(rows, entries, low)):
        low += 1
    return low


@inlined
def write(entries, position, score, row, dominators):
    """Write an entry over what is at a position."""
    entries.score[position] = score
    entries.row[position] = row & LOW_ROW
    entries.dominators[position] = dominators


@inlined
def copy(entries, position, others, other):
    """Copy an entry."""
    entries.score[position] = others.score[other]
    entries.row[position] = others.row[other]
    entries.dominators[position] = others.dominators[other]


@inlined
def open_gap(entries, position, last):
    """Move the entries from `position` to before `last` one further; what was at `last` is lost."""
    top, n, one = np.uint64(last), np.uint64(last - position), np.uint64(1)
    for back in range(n):
        entries.score[top - back] = entries.score[top - back - one]
    for back in range(n):
        entries.row[top - back] = entries.row[top - back - one]
    for back in range(n):
        entries.dominators[top - back] = entries.dominators[top - back - one]


@inlined
def drop_at(entries, size, position):
    """Remove the entry at a position; return the new size.

    An expiring message is older than all others and dominates none: no count changes.
    """
    first, last, one = np.uint64(position), np.uint64(size - 1), np.uint64(1)
    for i in range(first, last):
        entries.score[i] = entries.score[i + one]
    for i in range(first, last):
        entries.row[i] = entries.row[i + one]
    for i in range(first, last):
        entries.dominators[i] = entries.dominators[i + one]
    return size - 1


@inlined
def find_row(entries, size, row):
    """Return at which position a message is, `size` if it is not there."""
    low, found = np.uint32(row & LOW_ROW), size
    for i in range(size):  # to the end: without a way out it takes many at once
        found = min(found, i if entries.row[i] == low else size)
    return found


@inlined
def dominators_before(rows, entries, position, row):
    """Return how many of the entries before `position` are newer than a message, and so dominate it."""
    count = 0
    for i in range(position):
        if is_newer(rows, row_at(rows, entries, i), row):
            count += 1
    return count


@inlined
def dominate(rows, entries, position, size, row, k):
    """Count a message at `position` as a dominator of the older entries from there on.

    Returns the position of the first that has k now, `size` if there is none.
    """
    if rows.by_time:
        for i in range(position, size):
            if is_newer(rows, row, row_at(rows, entries, i)):
                entries.dominators[i] += 1
    else:  # nothing is newer than what arrives
        for i in range(np.uint64(position), np.uint64(size)):
            entries.dominators[i] += 1
    n_dropped = 0
    for i in range(np.uint64(position), np.uint64(size)):
        n_dropped += entries.dominators[i] >= k
    if n_dropped == 0:
        return size
    first = position
    while entries.dominators[first] < k:
        first += 1
    return first


@inlined
def drop_dominated(entries, first, size, k):
    """Remove the entries from `first` on that k others dominate; return the new size."""
    kept = first
    for i in range(first, size):
        if entries.dominators[i] < k:
            if kept < i:
                copy(entries, kept, entries, i)
            kept += 1
    return kept


@inlined
def oldest_of(rows, entries, size):
    """Return the oldest message of a buffer, -1 if it is empty."""
    if size == 0:
        return -1
    if not rows.by_time:
        least = np.int64(LOW_ROW)
        for i in range(size):
            least = min(least, (np.int64(entries.row[i]) - rows.first) & LOW_ROW)
        return rows.first + least
    oldest = row_at(rows, entries, 0)
    for i in range(1, size):
        row = row_at(rows, entries, i)
        if is_newer(rows, oldest, row):
            oldest = row
    return oldest
