"""A slab allocator for the entries of buffers: slabs of a few sizes, cut from arrays that are never moved.

A slab of n entries has n scores, then n rows, then n numbers of dominators: 14 bytes an entry, all in one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import inlined, prefetch
from nearcast.topk.buffers.entries import Entries

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: A slab's address is (number of its array << ARRAY_SHIFT) | position, in words of eight bytes.
ARRAY_SHIFT = 40
_PLACE = (1 << ARRAY_SHIFT) - 1
_N_ARRAYS = 12
_GROWTH = 4
#: Lengths of slabs are multiples of this, for whole words; up to `_EVERY` there is a class for each multiple.
_STEP, _EVERY = 4, 128
#: A slab shorter than this doubles; others grow by so many entries.
_EARLY, _GROWN = 16, 8
#: A buffer moves away from a slab with more entries to spare than `_WASTE`, to one with `_SPARE`.
_WASTE, _SPARE = 12, 4
#: Words in a line of a processor's cache.
_LINE = 8


def _slab_sizes() -> NDArray[np.int64]:
    """Return the lengths of slabs: close together where most buffers are, then each an eighth longer."""
    sizes = [*range(_STEP, _EVERY + 1, _STEP)]
    while sizes[-1] < 1 << 24:
        sizes.append((sizes[-1] * 9 // 8 + 7) // 8 * 8)
    return np.array(sizes, np.int64)


SLAB_SIZES = _slab_sizes()


class Slabs(NamedTuple):
    """Entries as kernels see them, in arrays of growing length; all four fields are views of the same memory.

    `free[c]` begins the list of free slabs of size class c, each naming the next in its first word. `at` is the array
    that slabs are cut from and the position up to which it is used.
    """

    word: tuple[NDArray[np.int64], ...]
    score: tuple[NDArray[np.float64], ...]
    row: tuple[NDArray[np.uint32], ...]
    dominators: tuple[NDArray[np.uint16], ...]
    free: NDArray[np.int64]
    at: NDArray[np.int64]
    sizes: NDArray[np.int64]


def new_slabs(first: int = 1 << 14) -> Slabs:
    """Return an empty pool whose first array has this many words."""
    words = [np.empty(first if p == 0 else 0, np.int64) for p in range(_N_ARRAYS)]
    return Slabs(
        free=np.full(len(SLAB_SIZES), -1, np.int64), at=np.zeros(2, np.int64), sizes=SLAB_SIZES, **_views_of(words)
    )


def _views_of(words: list[NDArray[np.int64]]) -> dict[str, Any]:
    types = {"word": np.int64, "score": np.float64, "row": np.uint32, "dominators": np.uint16}
    return {name: tuple(each.view(type_) for each in words) for name, type_ in types.items()}


def grown(slabs: Slabs, words: int) -> Slabs:
    """Return the pool with another array, of this many words at least; what is there stays where it is."""
    arrays = list(slabs.word)
    new = [len(each) for each in arrays].index(0)
    arrays[new] = np.empty(max(len(arrays[new - 1]) * _GROWTH, words), np.int64)
    return slabs._replace(**_views_of(arrays))


def has_room(slabs: Slabs, words: int) -> bool:
    """Tell whether slabs of this many words in all can be cut from the array in use."""
    array, position = int(slabs.at[0]), int(slabs.at[1])
    return position + words <= len(slabs.word[array])


def bytes_cut(slabs: Slabs) -> int:
    """Return the memory that slabs were cut from, free ones included."""
    array, position = int(slabs.at[0]), int(slabs.at[1])
    return 8 * (sum(len(each) for each in slabs.word[:array]) + position)


@inlined
def array_of(address):
    """Return which array a slab is in."""
    return address >> ARRAY_SHIFT


@inlined
def place_of(address):
    """Return where in its array a slab begins."""
    return address & _PLACE


@inlined
def words_of(slabs, size_class):
    """Return how many words a slab has."""
    return slabs.sizes[size_class] * 7 // 4


@inlined
def entries_at(slabs, address, size_class):
    """Return the entries of a slab."""
    array, place, n = array_of(address), place_of(address), slabs.sizes[size_class]
    row, dominators = 2 * (place + n), 4 * place + 6 * n
    return Entries(
        slabs.score[array][place : place + n],
        slabs.row[array][row : row + n],
        slabs.dominators[array][dominators : dominators + n],
    )


@inlined
def fetch_slab(slabs, address, size_class):
    """Ask for every cache line of a slab, so that it is near when it is needed."""
    word, first = slabs.word[array_of(address)], place_of(address)
    for i in range(first, first + words_of(slabs, size_class), _LINE):
        prefetch(word, i)


@inlined
def class_for(slabs, entries):
    """Return the smallest size class that holds this many entries."""
    if entries <= _EVERY:
        return max(entries + _STEP - 1, _STEP) // _STEP - 1
    size_class = _EVERY // _STEP
    while slabs.sizes[size_class] < entries:
        size_class += 1
    return size_class


@inlined
def longer_class(slabs, size_class, target):
    """Return the size class to move to from a full slab of a buffer that is to be of length `target`.

    Slabs left behind serve only buffers of their own length, so there are few steps on the way to the target.
    """
    size = slabs.sizes[size_class]
    if size < _EARLY:
        return class_for(slabs, 2 * size)
    return class_for(slabs, max(size + _GROWN, target - target // 4))


@inlined
def shorter_class(slabs, size_class, size, target):
    """Return the size class to move to if a buffer has become much shorter than its slab, else that of the slab."""
    least = max(size, target - target // 4, _EARLY)
    if slabs.sizes[size_class] <= least + max(_WASTE, least // 4):
        return size_class
    return class_for(slabs, least + _SPARE)


@inlined
def room_left(slabs):
    """Return how many words can still be cut, in slabs of any size up to half of that."""
    left = slabs.word[slabs.at[0]].size - slabs.at[1]
    for array in range(slabs.at[0] + 1, len(slabs.word)):
        left = max(left, slabs.word[array].size)
    return left // 2


@inlined
def take_slab(slabs, size_class):
    """Return the address of a slab; there must be room for it."""
    address = slabs.free[size_class]
    if address >= 0:
        slabs.free[size_class] = slabs.word[array_of(address)][place_of(address)]
        return address
    words = words_of(slabs, size_class)
    array = slabs.at[0]
    while slabs.at[1] + words > slabs.word[array].size:
        array += 1
        slabs.at[0], slabs.at[1] = array, 0
    address = (array << ARRAY_SHIFT) | slabs.at[1]
    slabs.at[1] += words
    return address


@inlined
def give_slab(slabs, address, size_class):
    """Take a slab back."""
    slabs.word[array_of(address)][place_of(address)] = slabs.free[size_class]
    slabs.free[size_class] = address
