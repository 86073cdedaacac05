"""A Bloom filter over (term, square): a message looks up in a small component only what may be there.

Each component costs a message a look-up for each of its words, whether much or little is in it. A sieve of some
kilobytes, which stays in the processor's cache, spares it nearly all of those in vain. Squares are 32 by 32 over the
grid of the cell that is everywhere; a row that touches many of them is entered once, as wide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.trigger.places import EVERYWHERE, rectangle_word
from nearcast.indexes.trigger.tables import VACANT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.trigger.segment import TriggerSegment

#: A segment of more boolean rows has no sieve: it would not stay in the cache, and such segments are few.
MOST_ROWS = 1 << 15
_BITS_A_ROW = 32
#: Squares in a row of the grid are the five highest of the fifteen bits of a step.
_SIDE, _STEP_SHIFT = 32, 10
_WIDE = _SIDE * _SIDE
#: A row or message that touches more squares is wide.
_MOST_SQUARES = 16
_NO_SIEVE = np.empty(0, np.uint64)


def new_sieve(n_rows: int) -> NDArray[np.uint64]:
    """Make a sieve for so many rows that lets nothing through yet; one without any words lets everything through."""
    return np.zeros(max(1, (1 << (_BITS_A_ROW * n_rows - 1).bit_length()) >> 6), np.uint64)


def sieve_of(segment: TriggerSegment) -> NDArray[np.uint64]:
    """Return the sieve of a segment's boolean rows, without words where they are too many."""
    n = len(segment.rows.slot) - len(segment.rows.score)
    if not 0 < n <= MOST_ROWS:
        return _NO_SIEVE
    sieve = new_sieve(n)
    _fill(segment, sieve)
    return sieve


@hot_kernel
def _fill(segment, sieve):
    """Enter the terms of all lists, at the places of their rows."""
    for at in range(segment.table.shape[0]):
        term = segment.table[at, 0]
        if term == VACANT:
            continue
        for entry in range(segment.table[at, 1], segment.table[at, 2]):
            x_min, y_min, x_max, y_max = segment.rows.part[segment.row[entry]]
            enter(sieve, term, rectangle_word(segment.places, EVERYWHERE, x_min, y_min, x_max, y_max))


@inlined
def enter(sieve, term, rectangle):
    """Let a term through at the squares of a `rectangle_word`, or everywhere if it is wide."""
    left, bottom = _square(rectangle, 0), _square(rectangle, 16)
    right, top = _SIDE - 1 - _square(rectangle, 32), _SIDE - 1 - _square(rectangle, 48)
    if (right - left + 1) * (top - bottom + 1) > _MOST_SQUARES:
        _set(sieve, term, _WIDE)
        return
    for y in range(bottom, top + 1):
        for x in range(left, right + 1):
            _set(sieve, term, y * _SIDE + x)


@inlined
def lets_through(sieve, term, message):
    """Tell whether a row may wait for a term where a `message_word` says that the message is."""
    if sieve.size == 0 or _is_set(sieve, term, _WIDE):
        return True
    right, top = _square(message, 0), _square(message, 16)
    left, bottom = _SIDE - 1 - _square(message, 32), _SIDE - 1 - _square(message, 48)
    if (right - left + 1) * (top - bottom + 1) > _MOST_SQUARES:
        return True
    for y in range(bottom, top + 1):
        for x in range(left, right + 1):
            if _is_set(sieve, term, y * _SIDE + x):
                return True
    return False


@inlined
def _square(word, shift):
    """Return the square of one of the four steps of a word."""
    return np.int64(word >> np.uint64(shift + _STEP_SHIFT)) & (_SIDE - 1)


@inlined
def _bit_of(sieve, term, square):
    """Return the number of the bit of a term in a square."""
    mixed = (((np.int64(term) + 2) * 2654435769) >> 9) ^ ((np.int64(square) * 2246822519) >> 5)
    return mixed & (64 * sieve.size - 1)


@inlined
def _set(sieve, term, square):
    at = _bit_of(sieve, term, square)
    sieve[at >> 6] |= np.uint64(1) << np.uint64(at & 63)


@inlined
def _is_set(sieve, term, square):
    at = _bit_of(sieve, term, square)
    return sieve[at >> 6] & (np.uint64(1) << np.uint64(at & 63)) != 0
