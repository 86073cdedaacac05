"""Lists of entries by (term, cell), each in a slab of memory: append and remove in constant time.

A list in a cell is found by hashing, in a chain of lists; that of a term in the cell that is everywhere by the term
alone, since a message asks for it with each of its terms. The entries of a list lie side by side in a slab of 2^c
places of one arena; a list that outgrows its slab gets one of twice the size, one that shrinks to a quarter one of
half. Slabs that are free are chained by size. The last entry takes the place of one that is removed; entries know the
*link* that points to them, so that it can be told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.trigger.places import EVERYWHERE
from nearcast.indexes.trigger.reach import WILDCARD

if TYPE_CHECKING:
    from numpy.typing import NDArray

NONE = -1
#: Columns of `CellLists.head`. An unused list has the next unused one in NEXT.
TERM, CELL, FIRST, COUNT, SIZE_CLASS, NEXT = range(6)
_HEAD_COLUMNS = 6
#: Fields of `CellLists.tally`: lists there ever were, the first unused one, places of the arena that were ever used,
#: and the entries and lists there are.
N_HEADS, FREE_HEAD, N_PLACES, N_ENTRIES, N_LISTS = range(5)
_TALLY_FIELDS = 5
_SIZE_CLASSES = 32


class CellLists(NamedTuple):
    """The lists. `bucket` has the first list of each chain, `head` the lists, `free_slab` the first slab of each size.

    The lists of a cell are chained in a region of 2^`region_bits` buckets, so that a search of one cell finds them in
    the processor's cache. `everywhere[term - WILDCARD]` is the list of a term in the cell that is everywhere.

    Entry e has a rectangle and a signature as those of a segment, and belongs to `link[e]`, which is at `at[link[e]]`.
    A free slab has the next one of its size in `link`, at its first place.
    """

    bucket: NDArray[np.int32]
    region_bits: NDArray[np.int64]
    everywhere: NDArray[np.int32]
    head: NDArray[np.int32]
    rectangle: NDArray[np.uint64]
    signature: NDArray[np.uint64]
    link: NDArray[np.int32]
    at: NDArray[np.int32]
    free_slab: NDArray[np.int32]
    tally: NDArray[np.int64]

    @classmethod
    def room_for(cls, n_lists: int, n_places: int, n_links: int, n_cells: int) -> CellLists:
        """Return no lists in so many cells, with room for so many, for entries and for links to them."""
        tally = np.zeros(_TALLY_FIELDS, np.int64)
        tally[FREE_HEAD] = NONE
        return cls(
            **_buckets(n_lists, n_cells),
            everywhere=np.full(1, NONE, np.int32),
            head=np.zeros((n_lists, _HEAD_COLUMNS), np.int32),
            rectangle=np.zeros(n_places, np.uint64),
            signature=np.zeros(n_places, np.uint64),
            link=np.zeros(n_places, np.int32),
            at=np.zeros(n_links, np.int32),
            free_slab=np.full(_SIZE_CLASSES, NONE, np.int32),
            tally=tally,
        )

    def with_terms(self, n_terms: int) -> CellLists:
        """Return the same lists with room for the terms below this."""
        n, needed = len(self.everywhere), n_terms - WILDCARD
        if needed <= n:
            return self
        everywhere = longer(self.everywhere, needed)
        everywhere[n:] = NONE
        return self._replace(everywhere=everywhere)

    def with_room(self, n_lists: int, n_places: int, n_links: int) -> CellLists:
        """Return the same lists with room for at least so many, for entries and for links."""
        grown = self._replace(
            head=longer(self.head, n_lists),
            rectangle=longer(self.rectangle, n_places),
            signature=longer(self.signature, n_places),
            link=longer(self.link, n_places),
            at=longer(self.at, n_links),
        )
        if len(grown.head) <= len(self.bucket):
            return grown
        n_regions = len(self.bucket) >> int(self.region_bits[0])
        grown = grown._replace(**_buckets(len(grown.head), n_regions))
        chain_again(self.bucket, grown)
        return grown


def longer(column: NDArray, n: int) -> NDArray:
    """Return a column with room for n rows: this one, or a copy that is longer by a quarter at least."""
    if n <= len(column):
        return column
    grown = np.zeros((max(n, len(column) + len(column) // 4), *column.shape[1:]), column.dtype)
    grown[: len(column)] = column
    return grown


def _buckets(n_lists: int, n_cells: int) -> dict[str, NDArray]:
    """Return empty buckets for so many lists, in a region for each cell."""
    for_cells, for_lists = (n_cells - 1).bit_length(), max(4, (n_lists - 1).bit_length())
    bits = max(for_cells, for_lists)
    return {"bucket": np.full(1 << bits, NONE, np.int32), "region_bits": np.array([bits - for_cells])}


@inlined
def _bucket_of(lists, term, cell):
    mixed = ((np.int64(term) + 2) * 2654435769) >> 13
    bits = lists.region_bits[0]
    return (np.int64(cell) << bits) + (mixed & ((1 << bits) - 1))


@inlined
def list_of(lists, term, cell):
    """Return the list of a term in a cell, NONE if there is none."""
    if cell == EVERYWHERE:
        return np.int64(lists.everywhere[term - WILDCARD]) if term - WILDCARD < lists.everywhere.size else NONE
    found = np.int64(lists.bucket[_bucket_of(lists, term, cell)])
    while found != NONE and (lists.head[found, TERM] != term or lists.head[found, CELL] != cell):
        found = np.int64(lists.head[found, NEXT])
    return found


@hot_kernel
def chain_again(old_bucket, lists):
    """Enter every list that the old buckets lead to into the new ones."""
    for b in range(old_bucket.size):
        each = np.int64(old_bucket[b])
        while each != NONE:
            following = np.int64(lists.head[each, NEXT])
            new = _bucket_of(lists, lists.head[each, TERM], lists.head[each, CELL])
            lists.head[each, NEXT] = lists.bucket[new]
            lists.bucket[new] = each
            each = following


@inlined
def places_needed(lists, term, cell):
    """Return how many new places of the arena one more entry of a list may take."""
    each = list_of(lists, term, cell)
    if each == NONE:
        return 1
    return 2 << lists.head[each, SIZE_CLASS] if lists.head[each, COUNT] == 1 << lists.head[each, SIZE_CLASS] else 0


@inlined
def places_to_shrink(lists, each):
    """Return how many new places of the arena one entry less of a list may take: those of a smaller slab."""
    size_class, left = lists.head[each, SIZE_CLASS], lists.head[each, COUNT] - 1
    return 1 << (size_class - 1) if size_class > 1 and left <= 1 << (size_class - 2) else 0


@inlined
def append_entry(lists, term, cell, rectangle, signature, link):
    """Append an entry to the list of a term in a cell; return the list. There must be room."""
    head, each = lists.head, list_of(lists, term, cell)
    if each == NONE:
        each = _new_list(lists, term, cell)
    elif head[each, COUNT] == 1 << head[each, SIZE_CLASS]:
        _move_list(lists, each, head[each, SIZE_CLASS] + 1)
    place = head[each, FIRST] + head[each, COUNT]
    lists.rectangle[place], lists.signature[place], lists.link[place] = rectangle, signature, link
    lists.at[link] = place
    head[each, COUNT] += 1
    lists.tally[N_ENTRIES] += 1
    return each


@inlined
def remove_entry(lists, each, place):
    """Remove the entry at a place of a list."""
    head, tally = lists.head, lists.tally
    last = head[each, FIRST] + head[each, COUNT] - 1
    if place != last:
        _copy_entry(lists, last, place)
    head[each, COUNT] -= 1
    tally[N_ENTRIES] -= 1
    size_class = head[each, SIZE_CLASS]
    if head[each, COUNT] == 0:
        _free_slab(lists, head[each, FIRST], size_class)
        _free_list(lists, each)
    elif size_class > 1 and head[each, COUNT] <= 1 << (size_class - 2):
        has_room = tally[N_PLACES] + (1 << (size_class - 1)) <= lists.link.size
        if has_room or lists.free_slab[size_class - 1] != NONE:
            _move_list(lists, each, size_class - 1)


@inlined
def _copy_entry(lists, source, target):
    lists.rectangle[target], lists.signature[target] = lists.rectangle[source], lists.signature[source]
    lists.link[target] = lists.link[source]
    lists.at[lists.link[target]] = target


@inlined
def _move_list(lists, each, size_class):
    """Put a list into a slab of another size."""
    head = lists.head
    old, first = head[each, FIRST], _take_slab(lists, size_class)
    for k in range(head[each, COUNT]):
        _copy_entry(lists, old + k, first + k)
    _free_slab(lists, old, head[each, SIZE_CLASS])
    head[each, FIRST], head[each, SIZE_CLASS] = first, size_class


@inlined
def _take_slab(lists, size_class):
    first = np.int64(lists.free_slab[size_class])
    if first != NONE:
        lists.free_slab[size_class] = lists.link[first]
    else:
        first = lists.tally[N_PLACES]
        lists.tally[N_PLACES] = first + (1 << size_class)
    return first


@inlined
def _free_slab(lists, first, size_class):
    lists.link[first] = lists.free_slab[size_class]
    lists.free_slab[size_class] = first


@inlined
def _new_list(lists, term, cell):
    head, tally = lists.head, lists.tally
    each = tally[FREE_HEAD]
    if each != NONE:
        tally[FREE_HEAD] = head[each, NEXT]
    else:
        each = tally[N_HEADS]
        tally[N_HEADS] = each + 1
    head[each, TERM], head[each, CELL] = term, cell
    head[each, FIRST], head[each, COUNT], head[each, SIZE_CLASS] = _take_slab(lists, 0), 0, 0
    if cell == EVERYWHERE:
        lists.everywhere[term - WILDCARD] = each
    else:
        bucket = _bucket_of(lists, term, cell)
        head[each, NEXT] = lists.bucket[bucket]
        lists.bucket[bucket] = each
    tally[N_LISTS] += 1
    return each


@inlined
def _free_list(lists, each):
    head, tally = lists.head, lists.tally
    if head[each, CELL] == EVERYWHERE:
        lists.everywhere[head[each, TERM] - WILDCARD] = NONE
    else:
        _unchain(lists, each)
    head[each, NEXT] = tally[FREE_HEAD]
    tally[FREE_HEAD] = each
    tally[N_LISTS] -= 1


@inlined
def _unchain(lists, each):
    head, bucket = lists.head, _bucket_of(lists, lists.head[each, TERM], lists.head[each, CELL])
    before = np.int64(lists.bucket[bucket])
    if before == each:
        lists.bucket[bucket] = head[each, NEXT]
        return
    while head[before, NEXT] != each:
        before = np.int64(head[before, NEXT])
    head[before, NEXT] = head[each, NEXT]
