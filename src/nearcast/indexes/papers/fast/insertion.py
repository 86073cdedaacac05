"""Inserts atoms into the pyramid: a stack of small tasks, one after the other, until none is left.

A task brings an atom to the cells of one parent that it touches (OF_PARENT), to one cell (OF_CELL), or to a node of a
trie in a cell. It may leave further tasks: for the atoms of a list whose keyword becomes frequent, for those of a
list in a trie that becomes a node, and for those that go one level down. As tasks are kept in an array, the kernel can
stop between two of them when an array may become too small, and go on when it has grown.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.indexes.papers.fast.layout import (
    ATOM,
    BELOW,
    DEEPEST,
    HOLDS,
    KEY,
    MASK,
    N_CELLS,
    N_CHILDREN,
    N_FINAL,
    N_INLINE,
    NO_LIST,
    NODES,
    NOT_YET,
    ONE_ENTRY,
    OWN,
    ROWS,
    SHARED,
    SLOTS,
    STEP_BITS,
    TASKS,
    THRESHOLD,
    TRIE_LIST,
    USES,
    VACANT,
    WIDEST,
    WORD,
    X_MAX,
    X_MIN,
    Y_MAX,
    Y_MIN,
    ZERO,
    atom_at,
    cell_prefix,
    copy_entry,
    entry_touches,
    find_slot,
    first_of,
    length_of,
    lengthened,
    load_atom,
    occupy,
    release,
    row_of_atom,
    take_node,
    term_bit,
)
from nearcast.indexes.papers.fast.shared_lists import drop_strangers, is_shared_with, set_list
from nearcast.indexes.shared.predicates import NO_SHAPE

#: Columns of a task. NODE is the node of a trie, whose words up to the one at DEPTH are known, or one of these two.
T_ATOM, T_LEVEL, T_X, T_Y, T_NODE, T_DEPTH = range(6)
OF_PARENT, OF_CELL = np.int64(-2), np.int64(-1)


@hot_kernel
def insert_atoms(pyramid, atoms, chosen, done):
    """Insert the chosen atoms from `done` on; return how many are in or, if tasks are left, under way."""
    state = pyramid.state
    while has_room(pyramid):
        if state[TASKS] == 0:
            if done == chosen.size:
                return done
            _leave_task(pyramid, np.int64(chosen[done]), ZERO, ZERO, ZERO, OF_PARENT, ZERO)
            done += 1
        state[TASKS] -= 1
        task = pyramid.task[state[TASKS]]
        atom, level, x, y = task[T_ATOM], task[T_LEVEL], task[T_X], task[T_Y]
        node, depth = task[T_NODE], task[T_DEPTH]
        n_words = load_atom(pyramid, atoms, atom)
        if node == OF_PARENT:
            _to_parent(pyramid, atoms, atom, n_words, level, x, y)
        elif node == OF_CELL:
            _to_cell(pyramid, atoms, atom, n_words, level, x, y)
        else:
            _to_trie(pyramid, atoms, atom, n_words, level, x, y, node, depth)
    return done


@hot_kernel
def has_room(pyramid):
    """Tell whether every array has room for all that one task can ask for."""
    state, threshold, n_words = pyramid.state, pyramid.state[THRESHOLD], pyramid.word.size
    rows = state[ROWS] + (2 << state[WIDEST]) + 32 * state[TRIE_LIST] + 64
    return (
        rows <= pyramid.entry.shape[0]
        and state[NODES] + n_words + 2 <= pyramid.node.shape[0]
        and 5 * (state[SLOTS] + n_words + 8) <= 3 * pyramid.slot.shape[0]
        and state[TASKS] + (threshold + 4) * (n_words + 4) + state[TRIE_LIST] <= pyramid.task.shape[0]
    )


@hot_kernel
def _leave_task(pyramid, atom, level, x, y, node, depth):
    task, n = pyramid.task, pyramid.state[TASKS]
    task[n, T_ATOM], task[n, T_LEVEL], task[n, T_X], task[n, T_Y] = atom, level, x, y
    task[n, T_NODE], task[n, T_DEPTH] = node, depth
    pyramid.state[TASKS] = n + 1


@hot_kernel
def _write_entry(pyramid, atoms, atom, row, n_words, known_from, known_to):
    """Write the entry of the loaded atom, its words from `known_from` to `known_to` being known where it stands."""
    entry, n = pyramid.entry, 0
    for k in range(4):
        entry[row, k] = pyramid.rect[k]
    for k in range(N_INLINE):
        entry[row, WORD + k] = -1
    for i in range(n_words):
        if not known_from <= i < known_to:
            if n < N_INLINE:
                entry[row, WORD + n] = pyramid.word[i]
            n += 1
    is_all = atoms.code_start[atom] + atoms.n_words[atom] == atoms.code_start[atom + 1]
    is_plain = n <= N_INLINE and is_all and atoms.shape[atom] == NO_SHAPE
    entry[row, ATOM] = atom if is_plain else ~atom


@hot_kernel
def _rarest(pyramid, n_words):
    """Return which word of the loaded atom is needed by the fewest atoms now."""
    best = ZERO
    for i in range(1, n_words):
        if pyramid.wanted[pyramid.word[i]] < pyramid.wanted[pyramid.word[best]]:
            best = i
    return best


# --- lists of cells -----------------------------------------------------------------------------------------------


@hot_kernel
def _to_parent(pyramid, atoms, atom, n_words, level, x, y):
    """Put the loaded atom into the list of its rarest word in every cell it touches of those with the parent of (x, y).

    A cell without such a list shares that of the first cell, unless atoms in it that touch this cell have their place
    here already. Where the list is full or the word frequent, a task for the cell is left.
    """
    slot, entry, threshold = pyramid.slot, pyramid.entry, pyramid.state[THRESHOLD]
    best = _rarest(pyramid, n_words)
    term, shift = pyramid.word[best], STEP_BITS - level
    base_x, base_y = (x >> 1) << 1, (y >> 1) << 1
    first_x, first_y = NOT_YET, NOT_YET
    for cy in range(max(base_y, pyramid.rect[1] >> shift), min(base_y + 1, pyramid.rect[3] >> shift) + 1):
        for cx in range(max(base_x, pyramid.rect[0] >> shift), min(base_x + 1, pyramid.rect[2] >> shift) + 1):
            prefix = cell_prefix(level, cx, cy)
            at = find_slot(slot, prefix, term)
            if slot[at, KEY] == VACANT:
                if first_x >= 0 and _share(pyramid, atom, term, level, first_x, first_y, cx, cy):
                    continue
                occupy(slot, pyramid.state, at, prefix, term, NO_LIST)
                a_list = NO_LIST
            else:
                a_list = slot[at, HOLDS]
                if a_list < 0 or (length_of(a_list) >= threshold and row_of_atom(entry, a_list, atom) < 0):
                    _leave_task(pyramid, atom, level, cx, cy, OF_CELL, ZERO)
                    continue
            if a_list == NO_LIST or row_of_atom(entry, a_list, atom) < 0:
                _append(pyramid, atoms, atom, n_words, best, level, cx, cy, a_list)
            if first_x < 0:
                first_x, first_y = cx, cy


@hot_kernel
def _append(pyramid, atoms, atom, n_words, best, level, x, y, a_list):
    """Add the loaded atom to the list of its word `best` in a cell, and tell the cells that share it."""
    longer = lengthened(pyramid.entry, pyramid.free, pyramid.state, a_list)
    _write_entry(pyramid, atoms, atom, first_of(longer) + length_of(longer) - 1, n_words, best, best + 1)
    set_list(pyramid.slot, level, x, y, pyramid.word[best], a_list, longer)


@hot_kernel
def _share(pyramid, atom, term, level, from_x, from_y, x, y):
    """Let a cell have the list of a neighbour as well; False where another atom of it would be here twice."""
    slot, entry = pyramid.slot, pyramid.entry
    a_list = slot[find_slot(slot, cell_prefix(level, from_x, from_y), term), HOLDS]
    first = first_of(a_list)
    for row in range(first, first + length_of(a_list)):
        if atom_at(entry, row) != atom and entry_touches(entry, row, level, x, y):
            return False
    set_list(slot, level, from_x, from_y, term, a_list, a_list | SHARED)
    prefix = cell_prefix(level, x, y)
    occupy(slot, pyramid.state, find_slot(slot, prefix, term), prefix, term, a_list | SHARED)
    return True


@hot_kernel
def _to_cell(pyramid, atoms, atom, n_words, level, x, y):
    """Put the loaded atom into one cell: under its rarest word, or that with the shortest list, or into a trie."""
    slot, threshold, prefix = pyramid.slot, pyramid.state[THRESHOLD], cell_prefix(level, x, y)
    rarest, best, shortest = _rarest(pyramid, n_words), NOT_YET, threshold
    for i in range(n_words):
        at = find_slot(slot, prefix, pyramid.word[i])
        length = 0
        if slot[at, KEY] != VACANT:
            length = length_of(slot[at, HOLDS]) if slot[at, HOLDS] >= 0 else threshold
        if i == rarest and length < threshold:
            length = -1
        if length < shortest:
            best, shortest = i, length
    if best < 0:
        _make_frequent(pyramid, n_words, level, x, y)
        root = ~slot[find_slot(slot, prefix, pyramid.word[0]), HOLDS]
        _to_trie(pyramid, atoms, atom, n_words, level, x, y, root, ZERO)
        return
    at = find_slot(slot, prefix, pyramid.word[best])
    if slot[at, KEY] == VACANT:
        occupy(slot, pyramid.state, at, prefix, pyramid.word[best], NO_LIST)
    elif slot[at, HOLDS] & SHARED:
        _stop_sharing(pyramid, pyramid.word[best], level, x, y)
    _append(pyramid, atoms, atom, n_words, best, level, x, y, slot[at, HOLDS])


@hot_kernel
def _stop_sharing(pyramid, term, level, x, y):
    """Give a cell a list of its own, with those atoms of the shared one that touch it."""
    slot, entry, state = pyramid.slot, pyramid.entry, pyramid.state
    at = find_slot(slot, cell_prefix(level, x, y), term)
    shared = slot[at, HOLDS]
    if not is_shared_with(slot, level, x, y, term, shared):
        slot[at, HOLDS] = shared & ~SHARED
        return
    own, first = NO_LIST, first_of(shared)
    for row in range(first, first + length_of(shared)):
        if entry_touches(entry, row, level, x, y):
            own = lengthened(entry, pyramid.free, state, own)
            copy_entry(entry, row, first_of(own) + length_of(own) - 1)
    slot[at, HOLDS] = own
    drop_strangers(slot, entry, level, x, y, term, shared)


@hot_kernel
def _make_frequent(pyramid, n_words, level, x, y):
    """Make every word of the loaded atom frequent in a cell, and count one more that needs them all there.

    The atoms of lists that end so are left as tasks: they go under another word or into a trie.
    """
    slot, entry, node = pyramid.slot, pyramid.entry, pyramid.node
    for i in range(n_words):
        at = find_slot(slot, cell_prefix(level, x, y), pyramid.word[i])
        a_list = slot[at, HOLDS]
        if a_list >= 0:
            first = first_of(a_list)
            for row in range(first, first + length_of(a_list)):
                if entry_touches(entry, row, level, x, y):
                    _leave_task(pyramid, atom_at(entry, row), level, x, y, OF_CELL, ZERO)
            slot[at, HOLDS] = ~take_node(node, pyramid.free, pyramid.state)
            if a_list & SHARED and is_shared_with(slot, level, x, y, pyramid.word[i], a_list):
                drop_strangers(slot, entry, level, x, y, pyramid.word[i], a_list)
            else:
                release(entry, pyramid.free, a_list)
        node[~slot[at, HOLDS], USES] += 1


# --- tries --------------------------------------------------------------------------------------------------------


@hot_kernel
def _to_trie(pyramid, atoms, atom, n_words, level, x, y, node, depth):
    """Put the loaded atom under a node of a trie, whose words up to that at `depth` are the atom's first ones."""
    slot, entry, free, state = pyramid.slot, pyramid.entry, pyramid.free, pyramid.state
    while depth + 1 < n_words:
        prefix, term = state[N_CELLS] + node, pyramid.word[depth + 1]
        at = find_slot(slot, prefix, term)
        if slot[at, KEY] == VACANT:
            occupy(slot, state, at, prefix, term, NO_LIST)
            pyramid.node[node, MASK] |= term_bit(term)
            pyramid.node[node, N_CHILDREN] += 1
        holds = slot[at, HOLDS]
        if holds == NO_LIST or (holds >= 0 and length_of(holds) < state[TRIE_LIST]):
            holds = lengthened(entry, free, state, holds)
            _write_entry(pyramid, atoms, atom, first_of(holds) + length_of(holds) - 1, n_words, ZERO, depth + 2)
            slot[at, HOLDS] = holds
            return
        if holds >= 0:
            node = take_node(pyramid.node, free, state)
            slot[at, HOLDS] = ~node
            for row in range(first_of(holds), first_of(holds) + length_of(holds)):
                _leave_task(pyramid, atom_at(entry, row), level, x, y, node, depth + 1)
            release(entry, free, holds)
        else:
            node = ~holds
        depth += 1
    _to_end(pyramid, atoms, atom, n_words, level, x, y, node)


@hot_kernel
def _to_end(pyramid, atoms, atom, n_words, level, x, y, node):
    """Put the loaded atom into the list of the node where its words end, those that stay for good at the front."""
    entry, nodes = pyramid.entry, pyramid.node
    own = lengthened(entry, pyramid.free, pyramid.state, nodes[node, OWN])
    nodes[node, OWN] = own
    row = first_of(own) + length_of(own) - 1
    if _is_final(pyramid, level):
        front = first_of(own) + nodes[node, N_FINAL]
        copy_entry(entry, front, row)
        row = front
        nodes[node, N_FINAL] += 1
    _write_entry(pyramid, atoms, atom, row, n_words, ZERO, n_words)
    n_small = length_of(own) - nodes[node, N_FINAL]
    if n_small > pyramid.state[THRESHOLD]:
        _send_down(pyramid, n_words, level, x, y, node, n_small // 2)


@hot_kernel
def _is_final(pyramid, level):
    """Tell whether the loaded atom stays at this level: it is the finest, or the atom wider than half a cell."""
    half = 1 << (STEP_BITS - level - 1)
    rect = pyramid.rect
    return level == pyramid.state[DEEPEST] or rect[2] - rect[0] > half or rect[3] - rect[1] > half


@hot_kernel
def _send_down(pyramid, n_words, level, x, y, node, n):
    """Leave tasks for the n atoms of a node that overlap its cell least: they go to the cells one level down."""
    slot, entry, nodes = pyramid.slot, pyramid.entry, pyramid.node
    own = nodes[node, OWN]
    for _ in range(n):
        last = first_of(own) + length_of(own) - 1
        least, chosen = -1, last
        for row in range(first_of(own) + nodes[node, N_FINAL], last + 1):
            area = _overlap(entry, row, level, x, y)
            if least < 0 or area < least:
                least, chosen = area, row
        _leave_task(pyramid, atom_at(entry, chosen), level + 1, 2 * x, 2 * y, OF_PARENT, ZERO)
        copy_entry(entry, last, chosen)
        own -= ONE_ENTRY
    nodes[node, OWN] = own
    for i in range(n_words):
        nodes[~slot[find_slot(slot, cell_prefix(level, x, y), pyramid.word[i]), HOLDS], BELOW] += n


@hot_kernel
def _overlap(entry, row, level, x, y):
    """Return how many steps an entry's rectangle has in common with a cell, a border counting as one."""
    shift = STEP_BITS - level
    wide = min(entry[row, X_MAX], ((x + 1) << shift) - 1) - max(entry[row, X_MIN], x << shift) + 1
    high = min(entry[row, Y_MAX], ((y + 1) << shift) - 1) - max(entry[row, Y_MIN], y << shift) + 1
    return np.int64(wide) * np.int64(high)
