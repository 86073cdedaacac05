"""Which rows of a column of ids repeat an earlier one."""

import secrets

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast import _arrow
from nearcast._jit import kernel
from nearcast.text.words import _hash, string_spans, writable

_EMPTY = -1
_ROW_MASK = (1 << 32) - 1


def repeated(ids: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the rows, ascending, whose id an earlier row has, and for each the first row that has it; null has none.

    Faster than a dictionary or `WordTable`: nothing is copied and the table is made at its final size.
    """
    if pa.types.is_integer(ids.type):
        return _repeated_integers(ids)
    (spans,) = string_spans(ids)
    n = len(spans)
    first = np.empty(n, np.int64)
    slots = np.full(1 << max(4, (2 * n).bit_length()), _EMPTY, np.int64)
    multiplier = (1 << 28) + secrets.randbelow(1 << 28)
    start, length = writable(spans.start, np.int64), writable(spans.length, np.int32)
    if _first_rows(spans.data, start, length, multiplier, slots, first) == 0:
        return first[:0], first[:0]
    rows = np.flatnonzero(first != np.arange(n))
    return rows, first[rows]


def why_repeated(id_: str | int, row: int) -> str:
    """Return why a subscription is refused whose id an earlier row has."""
    return f"id {id_!r} is taken by row {row}; give each subscription its own"


@kernel
def _first_rows(data, start, length, multiplier, slots, first):
    """Write for each row the first row with the same bytes; return how many rows have an earlier one."""
    n_repeated = 0
    mask = slots.size - 1
    for row in range(start.size):
        first[row] = row
        size = np.int64(length[row])
        if size < 0:
            continue
        hashed = _hash(data, start[row], size, multiplier)
        place = hashed & mask
        while slots[place] >= 0:
            if slots[place] >> 32 == hashed:
                other = slots[place] & _ROW_MASK
                if length[other] == size:
                    i = 0
                    while i < size and data[start[other] + i] == data[start[row] + i]:
                        i += 1
                    if i == size:
                        first[row] = other
                        n_repeated += 1
                        break
            place = (place + 1) & mask
        if first[row] == row:
            slots[place] = (hashed << 32) | row
    return n_repeated


def _repeated_integers(ids: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    rows = np.flatnonzero(_arrow.array_of(ids.is_valid()))
    values = _arrow.array_of(ids.drop_null())
    if (values[1:] > values[:-1]).all():
        return rows[:0], rows[:0]
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    first = order[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
    again = np.flatnonzero(~begins)
    again = again[np.argsort(order[again])]
    return rows[order[again]], rows[first[again]]
