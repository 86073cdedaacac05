"""An order of subscriptions cut into consecutive pieces of like load, one for a partition.

A place in the order is a row of numbers, compared column by column. A piece is known by the place where it begins, so
that whoever comes later finds the piece of its own place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import kernel
from nearcast.plans.base import ANY_CELL, ANY_WORD
from nearcast.plans.grid import message_points
from nearcast.plans.words import Postings

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.plans.grid import Grid


#: How much more than the mean a partition may have because two kinds of load do not share partitions.
_UNEVEN = 1.1


def cut_evenly(places: NDArray[np.int64], load: NDArray[np.float64], pieces: int) -> NDArray[np.int64]:
    """Return the places where all pieces but the first begin: at most `pieces` of about the same load."""
    order = np.lexsort(places.T[::-1])
    until = np.cumsum(load[order])
    if not len(order) or until[-1] <= 0.0:
        return places[:0]
    piece = ((until - load[order] / 2) * (pieces / until[-1])).astype(np.int64)
    return places[order[1 + np.flatnonzero(np.diff(piece))]]


def shared_out(loads: tuple[float, float], partitions: int) -> tuple[int, int]:
    """Share partitions out between two loads, each with its own; where that cannot be even, the larger load has all."""
    first = np.arange(1, partitions)
    busiest = np.maximum(loads[0] / first, loads[1] / (partitions - first))
    if min(loads) <= 0.0 or not len(first) or busiest.min() > _UNEVEN * sum(loads) / partitions:
        return (partitions, 0) if loads[0] > loads[1] else (0, partitions)
    chosen = int(first[busiest.argmin()])
    return chosen, partitions - chosen


def pieces_of(places: NDArray[np.int64], cuts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the piece of each place: how many cuts are not behind it."""
    found = np.empty(len(places), np.int32)
    _find_pieces(np.ascontiguousarray(places), np.ascontiguousarray(cuts), found)
    return found


@kernel
def _find_pieces(places, cuts, found):
    for i in range(found.size):
        low, high = 0, cuts.shape[0]
        while low < high:
            middle = (low + high) // 2
            is_before = False
            for column in range(places.shape[1]):
                if places[i, column] != cuts[middle, column]:
                    is_before = places[i, column] < cuts[middle, column]
                    break
            if is_before:
                high = middle
            else:
                low = middle + 1
        found[i] = low


def messages_of_keys(
    word: NDArray[np.int32], cell: NDArray[np.int32], messages: Messages, grid: Grid
) -> NDArray[np.int64]:
    """Return how many messages meet each key of a word and a cell, each message in the cell of its centre."""
    said, at = Postings.of_messages(messages), grid.cell_of(message_points(messages))
    row = np.repeat(np.arange(len(messages)), np.diff(said.start))
    anything, everywhere = np.full(len(at), ANY_WORD), np.full(len(row), ANY_CELL)
    packed = [
        _packed(said.word, at[row]),
        _packed(said.word, everywhere),
        _packed(anything, at),
        _packed(anything, np.full(len(at), ANY_CELL)),
    ]
    known, count = np.unique(np.concatenate(packed), return_counts=True)
    asked = _packed(word, cell)
    place = np.searchsorted(known, asked)
    is_known = np.append(known, -1)[place] == asked
    return np.where(is_known, np.append(count, 0)[place], 0)


def _packed(word: NDArray[np.integer[Any]], cell: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    packed: NDArray[np.int64] = ((word.astype(np.int64) + 1) << 32) | (cell.astype(np.int64) + 1)
    return packed
