"""A slab allocator for the entries of buffers: slabs of a few sizes, cut from arrays that are never moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: A slab's address is (number of its array << ARRAY_SHIFT) | position.
ARRAY_SHIFT = 40
_PLACE = (1 << ARRAY_SHIFT) - 1
_N_ARRAYS = 12
_GROWTH = 4


def _slab_sizes() -> NDArray[np.int64]:
    """Return the lengths of slabs: close together where most buffers are, then each an eighth longer."""
    sizes = [*range(4, 64, 4), *range(64, 129, 8)]
    while sizes[-1] < 1 << 24:
        sizes.append((sizes[-1] * 9 // 8 + 7) // 8 * 8)
    return np.array(sizes, np.int64)


SLAB_SIZES = _slab_sizes()


class Slabs(NamedTuple):
    """Entries as kernels see them: `score` and `tag` = (row << 16) | dominators, in arrays of growing length.

    `free[c]` begins the list of free slabs of size class c, each naming the next in its first tag. `at` is the array
    that slabs are cut from and the position up to which it is used.
    """

    score: tuple[NDArray[np.float64], ...]
    tag: tuple[NDArray[np.int64], ...]
    free: NDArray[np.int64]
    at: NDArray[np.int64]
    sizes: NDArray[np.int64]


def new_slabs(first: int = 1 << 14) -> Slabs:
    """Return an empty pool whose first array has this many entries."""
    empty = tuple(np.empty(first if p == 0 else 0, np.float64) for p in range(_N_ARRAYS))
    return Slabs(
        empty,
        tuple(np.empty(len(each), np.int64) for each in empty),
        np.full(len(SLAB_SIZES), -1, np.int64),
        np.zeros(2, np.int64),
        SLAB_SIZES,
    )


def grown(slabs: Slabs, entries: int) -> Slabs:
    """Return the pool with another array, of this many entries at least; what is there stays where it is."""
    sizes = [len(each) for each in slabs.tag]
    new = sizes.index(0)
    size = max(sizes[new - 1] * _GROWTH, entries)
    score, tag = list(slabs.score), list(slabs.tag)
    score[new], tag[new] = np.empty(size, np.float64), np.empty(size, np.int64)
    return slabs._replace(score=tuple(score), tag=tuple(tag))


def bytes_cut(slabs: Slabs) -> int:
    """Return the memory that slabs were cut from, free ones included."""
    array, position = int(slabs.at[0]), int(slabs.at[1])
    return 16 * (sum(len(each) for each in slabs.tag[:array]) + position)


@inlined
def array_of(address):
    """Return which array a slab is in."""
    return address >> ARRAY_SHIFT


@inlined
def place_of(address):
    """Return where in its array a slab begins."""
    return address & _PLACE


@inlined
def class_for(slabs, entries):
    """Return the smallest size class that holds this many entries."""
    size_class = 0
    while slabs.sizes[size_class] < entries:
        size_class += 1
    return size_class


@inlined
def longer_class(slabs, size_class, target):
    """Return the size class to move to from a full slab of a buffer that is to be of length `target`.

    Slabs left behind serve only buffers of their own length, so there are few steps: doubling while short, then to the
    target and a little more, beyond it by a quarter.
    """
    size = slabs.sizes[size_class]
    if size < 16:
        return class_for(slabs, 2 * size)
    return class_for(slabs, target + 4 if size < target + 4 else size + size // 4)


@inlined
def room_left(slabs):
    """Return how many entries can still be cut, in slabs of any size up to half of that."""
    left = slabs.tag[slabs.at[0]].size - slabs.at[1]
    for array in range(slabs.at[0] + 1, len(slabs.tag)):
        left = max(left, slabs.tag[array].size)
    return left // 2


@inlined
def take_slab(slabs, size_class):
    """Return the address of a slab; there must be room for it."""
    address = slabs.free[size_class]
    if address >= 0:
        tag = slabs.tag[array_of(address)]
        slabs.free[size_class] = tag[place_of(address)]
        return address
    size = slabs.sizes[size_class]
    array = slabs.at[0]
    while slabs.at[1] + size > slabs.tag[array].size:
        array += 1
        slabs.at[0], slabs.at[1] = array, 0
    address = (array << ARRAY_SHIFT) | slabs.at[1]
    slabs.at[1] += size
    return address


@inlined
def give_slab(slabs, address, size_class):
    """Take a slab back."""
    tag = slabs.tag[array_of(address)]
    tag[place_of(address)] = slabs.free[size_class]
    slabs.free[size_class] = address
