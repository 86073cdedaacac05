"""The arrays of `fast`: slots of one hash map, blocks of entries, nodes of tries.

A slot is found by (prefix, term). The prefix is the number of a cell, or, from `state[N_CELLS]` on, a node of a trie;
the term is a keyword, WORDLESS for atoms without one. It holds a list (0 or more) or a node (`~node`, below 0).

A list is one number: the first row of its block in bits 0 to 31, its length in bits 32 to 56, whether cells share it
in bit 57, and from bit 58 on c where the block has room for 2^c entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Coordinates count in steps of the frame, 0 to LAST_STEP; a cell of level l is the first l bits of a step.
STEP_BITS = 30
LAST_STEP = (1 << STEP_BITS) - 1
#: The keyword of atoms without one: every message has it.
WORDLESS = -1
#: Numbers that kernels pass on: a plain 0 would be a type of its own, and its kernel compiled once more.
ZERO, ONE, NOT_YET = np.int64(0), np.int64(1), np.int64(-1)

#: Columns of a slot, and the key of one that is free.
KEY, HOLDS = 0, 1
VACANT = -1
#: Columns of an entry: its rectangle in steps, up to three words that are not known yet (-1: none), and its atom,
#: `~atom` where these do not say it all. A free block has the next one of its size in FREE_LINK.
X_MIN, Y_MIN, X_MAX, Y_MAX, WORD, ATOM = 0, 1, 2, 3, 4, 7
N_INLINE = ATOM - WORD
FREE_LINK = 0
#: Columns of a node: the list of the atoms whose words end here (NO_LIST: none), how many at its front stay at this
#: level for good, bits of the children's terms and their number. Only of the root of a keyword: how many atoms with
#: this keyword are in tries of the cell or below it, and how many of them below.
OWN, N_FINAL, MASK, N_CHILDREN, USES, BELOW = range(6)
NO_LIST = np.int64(-1)
#: Fields of `state`: what of the arrays is taken, the widest block, tasks left; then what does not change, the longest
#: list of a cell and of a trie, the finest level, and the number of cells.
ROWS, NODES, SLOTS, WIDEST, TASKS, THRESHOLD, TRIE_LIST, DEEPEST, N_CELLS = range(9)
STATE_FIELDS = 9
#: `free` has the first free block of each size, and at the end the first free node.
FREE_NODE = 31

ROW_MASK = 0xFFFF_FFFF
ONE_ENTRY = 1 << 32
_LENGTH_MASK = (1 << 25) - 1
SHARED = 1 << 57
CLASS_SHIFT = 58


class Pyramid(NamedTuple):
    """The structure as kernels see it; `task`, `word` and `rect` are room for insertion and removal.

    `wanted` has the number of live atoms that need a term, `rank` what it was when the index was built: it orders the
    words of an atom, the rarest first. Row a of `frame` is the origin, the end and the steps per half unit of an axis.
    """

    slot: NDArray[np.int64]
    node: NDArray[np.int64]
    entry: NDArray[np.int32]
    free: NDArray[np.int64]
    state: NDArray[np.int64]
    wanted: NDArray[np.int64]
    rank: NDArray[np.int64]
    frame: NDArray[np.float64]
    task: NDArray[np.int64]
    word: NDArray[np.int32]
    rect: NDArray[np.int64]


# --- space --------------------------------------------------------------------------------------------------------


@hot_kernel
def step_of(frame, axis, value):
    """Return the step of a coordinate; never decreasing in `value`: all that exactness needs."""
    if value <= frame[axis, 0]:
        return 0
    if value >= frame[axis, 1]:
        return LAST_STEP
    step = (value / 2 - frame[axis, 0] / 2) * frame[axis, 2]  # halves, for two huge numbers may be too far apart
    return min(int(step), LAST_STEP)


@hot_kernel
def cell_prefix(level, x, y):
    """Return the number of a cell: those of coarser levels come first."""
    return ((1 << (2 * level)) - 1) // 3 + (y << level) + x


@hot_kernel
def entry_touches(entry, row, level, x, y):
    """Tell whether the rectangle of an entry shares a step with a cell."""
    shift = STEP_BITS - level
    return (
        (entry[row, X_MIN] >> shift) <= x <= (entry[row, X_MAX] >> shift)
        and (entry[row, Y_MIN] >> shift) <= y <= (entry[row, Y_MAX] >> shift)
    )  # fmt: skip


# --- slots --------------------------------------------------------------------------------------------------------


@hot_kernel
def home_of(prefix, term, n_slots):
    """Return where the search for a slot begins; no product here exceeds 63 bits."""
    mixed = np.int64(prefix) * 1013904223 + (np.int64(term) + 1) * 805306457
    mixed ^= mixed >> 31
    return (((mixed & 0x7FFF_FFFF) * 1103515245) >> 16) & (n_slots - 1)


@hot_kernel
def key_of(prefix, term):
    """Return the key of a slot."""
    return (np.int64(prefix) << 32) | (np.int64(term) + 1)


@hot_kernel
def find_slot(slot, prefix, term):
    """Return the slot of (prefix, term), or the vacant one where it would be."""
    key, n_slots = key_of(prefix, term), slot.shape[0]
    at = home_of(prefix, term, n_slots)
    while slot[at, KEY] != key and slot[at, KEY] != VACANT:
        at = (at + 1) & (n_slots - 1)
    return at


@hot_kernel
def occupy(slot, state, at, prefix, term, holds):
    """Make a vacant slot that of (prefix, term)."""
    slot[at, KEY], slot[at, HOLDS] = key_of(prefix, term), holds
    state[SLOTS] += 1


@hot_kernel
def vacate(slot, state, at):
    """Free a slot; those behind it that belong further ahead move up, so slots found before are no longer known."""
    last = slot.shape[0] - 1
    hole, i = at, (at + 1) & last
    while slot[i, KEY] != VACANT:
        home = home_of(slot[i, KEY] >> 32, (slot[i, KEY] & ROW_MASK) - 1, slot.shape[0])
        if ((i - home) & last) >= ((i - hole) & last):
            slot[hole, KEY], slot[hole, HOLDS] = slot[i, KEY], slot[i, HOLDS]
            hole = i
        i = (i + 1) & last
    slot[hole, KEY] = VACANT
    state[SLOTS] -= 1


@hot_kernel
def move_slots(old, new):
    """Put all slots into a larger, vacant table."""
    for i in range(old.shape[0]):
        if old[i, KEY] != VACANT:
            at = find_slot(new, old[i, KEY] >> 32, np.int32((old[i, KEY] & ROW_MASK) - 1))
            new[at, KEY], new[at, HOLDS] = old[i, KEY], old[i, HOLDS]


# --- lists --------------------------------------------------------------------------------------------------------


@hot_kernel
def first_of(a_list):
    """Return the first row of a list."""
    return a_list & ROW_MASK


@hot_kernel
def length_of(a_list):
    """Return the number of entries of a list."""
    return (a_list >> 32) & _LENGTH_MASK


@hot_kernel
def take_block(entry, free, state, size):
    """Return the first row of a block with room for 2^size entries; the caller has made sure that there is one."""
    state[WIDEST] = max(state[WIDEST], size)
    first = free[size]
    if first >= 0:
        free[size] = entry[first, FREE_LINK]
        return first
    first = state[ROWS]
    state[ROWS] += 1 << size
    return first


@hot_kernel
def release(entry, free, a_list):
    """Give the block of a list back."""
    size, first = a_list >> CLASS_SHIFT, first_of(a_list)
    entry[first, FREE_LINK] = free[size]
    free[size] = first


@hot_kernel
def lengthened(entry, free, state, a_list):
    """Return a list with one more entry, still to be written; NO_LIST begins a new one."""
    if a_list == NO_LIST:
        return take_block(entry, free, state, ZERO) | ONE_ENTRY
    size, length = a_list >> CLASS_SHIFT, length_of(a_list)
    if length < 1 << size:
        return a_list + ONE_ENTRY
    first, old = take_block(entry, free, state, size + 1), first_of(a_list)
    for i in range(length):
        copy_entry(entry, old + i, first + i)
    release(entry, free, a_list)
    return first | ((length + 1) << 32) | (a_list & SHARED) | ((size + 1) << CLASS_SHIFT)


@hot_kernel
def copy_entry(entry, source, target):
    """Copy a row of the entries to another."""
    for column in range(ATOM + 1):
        entry[target, column] = entry[source, column]


@hot_kernel
def row_of_atom(entry, a_list, atom):
    """Return the row of an atom in a list, or -1."""
    first = first_of(a_list)
    for row in range(first, first + length_of(a_list)):
        if entry[row, ATOM] == atom or entry[row, ATOM] == ~atom:
            return row
    return -1


@hot_kernel
def atom_at(entry, row):
    """Return the atom of an entry."""
    atom = entry[row, ATOM]
    return atom if atom >= 0 else ~atom


# --- nodes --------------------------------------------------------------------------------------------------------


@hot_kernel
def take_node(node, free, state):
    """Return a new node without entries and children; the caller has made sure that there is one."""
    new = free[FREE_NODE]
    if new >= 0:
        free[FREE_NODE] = node[new, OWN]
    else:
        new = state[NODES]
        state[NODES] += 1
    for column in range(BELOW + 1):
        node[new, column] = 0
    node[new, OWN] = NO_LIST
    return new


@hot_kernel
def release_node(node, free, old):
    """Give a node back."""
    node[old, OWN] = free[FREE_NODE]
    free[FREE_NODE] = old


@hot_kernel
def term_bit(term):
    """Return the bit of a term in the mask of a node."""
    return np.int64(1) << ((((np.int64(term) + 2) * 805306457) >> 23) % 62)


# --- atoms --------------------------------------------------------------------------------------------------------


@hot_kernel
def load_atom(pyramid, atoms, atom):
    """Write an atom's words, the rarest first, and its rectangle in steps; return how many words, 1 at least."""
    word, rank, n = pyramid.word, pyramid.rank, atoms.n_words[atom]
    for k in range(4):
        pyramid.rect[k] = step_of(pyramid.frame, k % 2, atoms.box[atom, k])
    if n == 0:
        word[0] = WORDLESS
        return 1
    first = atoms.code_start[atom]
    for i in range(n):
        term = atoms.code[first + i]
        at = i
        while at > 0 and rank[word[at - 1]] > rank[term]:
            word[at] = word[at - 1]
            at -= 1
        word[at] = term
    return n
