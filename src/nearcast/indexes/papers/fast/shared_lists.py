"""Lists that the cells of one parent share: what one cell does with its list, the others see in their slots."""

from __future__ import annotations

from nearcast._jit import hot_kernel
from nearcast.indexes.papers.fast.layout import (
    HOLDS,
    KEY,
    ONE_ENTRY,
    ROW_MASK,
    SHARED,
    VACANT,
    cell_prefix,
    copy_entry,
    entry_touches,
    find_slot,
    first_of,
    length_of,
)


@hot_kernel
def slot_of_neighbour(slot, level, x, y, k, term, a_list):
    """Return the slot in which neighbour k (1 to 3) of a cell has this very list of a term, or -1."""
    if level == 0:
        return -1
    at = find_slot(slot, cell_prefix(level, x ^ (k & 1), y ^ (k >> 1)), term)
    if slot[at, KEY] == VACANT or slot[at, HOLDS] < 0 or (slot[at, HOLDS] ^ a_list) & ROW_MASK:
        return -1
    return at


@hot_kernel
def is_shared_with(slot, level, x, y, term, a_list):
    """Tell whether another cell has this list of a term as well."""
    for k in range(1, 4):
        if slot_of_neighbour(slot, level, x, y, k, term, a_list) >= 0:
            return True
    return False


@hot_kernel
def set_list(slot, level, x, y, term, old, new):
    """Make a changed list known to its cell and to those that share it."""
    slot[find_slot(slot, cell_prefix(level, x, y), term), HOLDS] = new
    if old >= 0 and old & SHARED:
        _tell_neighbours(slot, level, x, y, term, old, new)


@hot_kernel
def _tell_neighbours(slot, level, x, y, term, old, new):
    for k in range(1, 4):
        at = slot_of_neighbour(slot, level, x, y, k, term, old)
        if at >= 0:
            slot[at, HOLDS] = new


@hot_kernel
def drop_strangers(slot, entry, level, x, y, term, a_list):
    """Take out of a list, which the cell (x, y) had and others still have, the atoms that touch none of those."""
    left, row = a_list, first_of(a_list)
    while row < first_of(left) + length_of(left):
        is_at_home = False
        for k in range(1, 4):
            at = slot_of_neighbour(slot, level, x, y, k, term, a_list)
            if at >= 0 and entry_touches(entry, row, level, x ^ (k & 1), y ^ (k >> 1)):
                is_at_home = True
        if is_at_home:
            row += 1
        else:
            left -= ONE_ENTRY
            copy_entry(entry, first_of(left) + length_of(left), row)
    _tell_neighbours(slot, level, x, y, term, a_list, left)
