"""Inserts and removes single atoms in the AP-Tree (paper, section 3.3.5).

An atom goes to the leaves that its words and its rectangle lead to. Leaves that have grown beyond their limit, and
nodes that have fewer than θp atoms left, are noted; whoever calls builds them anew (`regrowth`).

A word between two cuts, which no atom had when the node was made, widens the cut before it, or the first one. Where
cuts must stay as they were made (`ApTreeSettings.widens_cuts`), an atom with such a word goes to the dummy cut instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.papers.ap_tree.layout import (
    AUX,
    COUNT,
    ENTRIES,
    FIRST,
    KEYWORD,
    KIND,
    LEAF,
    NO_CHILD,
    NODES,
    PLACE,
    REGIONS,
    ROOM,
    ROOT,
    SIZE,
    ApTreeArrays,
    copy_entry,
    covers,
    cut_index,
    describe_child,
    line_index,
    offset_of,
    with_room,
    write_entry,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.papers.ap_tree.construction import ApTreeSettings
    from nearcast.indexes.shared.atoms import Atoms

_FIRST_ROOM = 4
#: Stands for the slot and the parent of the root.
_NONE = -1


def inserted(
    tree: ApTreeArrays, atoms: Atoms, chosen: NDArray[np.int32], ranks: NDArray[np.int32], settings: ApTreeSettings
) -> tuple[ApTreeArrays, NDArray[np.int64]]:
    """Put atoms into the tree; return it and the leaves that are beyond their limit now."""
    full, done = [np.empty(0, np.int64)], 0
    while done < len(chosen):
        tree = with_room(tree)
        beyond = np.empty(len(tree.node), np.int64)
        done, n_full = _insert(tree, atoms, chosen, ranks, settings, done, empty_stack(tree), beyond)
        full.append(beyond[:n_full])
    return tree, np.concatenate(full)


def removed(
    tree: ApTreeArrays, atoms: Atoms, chosen: NDArray[np.int32], ranks: NDArray[np.int32], settings: ApTreeSettings
) -> NDArray[np.int64]:
    """Take atoms out of the tree; return the nodes that have become too small to be parted, each once."""
    small = np.empty(len(tree.node), np.int64)
    return small[: _remove(tree, atoms, chosen, ranks, settings, empty_stack(tree), small)]


def empty_stack(tree: ApTreeArrays) -> NDArray[np.int64]:
    """Return room for the slots that an atom goes to, each with its node."""
    return np.empty((len(tree.child) + 1, 2), np.int64)


@hot_kernel
def _insert(tree, atoms, chosen, ranks, settings, done, stack, full):
    """Insert the atoms from `done` on; return the first there is no room for, or their number, and how many are full.

    Every atom goes down twice: first to see what room it takes, then to stay.
    """
    n_full = 0
    for i in range(done, chosen.size):
        nodes, entries = _room_for(tree, atoms, chosen[i], ranks, settings, stack)
        fits = tree.used[NODES] + nodes <= tree.node.shape[0] and tree.used[REGIONS] + nodes <= tree.region.shape[0]
        if not fits or tree.used[ENTRIES] + entries > tree.atom.size:
            tree.need[NODES], tree.need[REGIONS], tree.need[ENTRIES] = nodes, nodes, entries
            return i, n_full
        n_full = _put_in(tree, atoms, chosen[i], ranks, settings, stack, full, n_full)
    return chosen.size, n_full


@inlined
def _room_for(tree, atoms, atom, ranks, settings, stack):
    """Return how many nodes and entries more an atom may need."""
    nodes, entries, depth = 0, 0, _begin(stack)
    while depth > 0:
        depth -= 1
        slot = stack[depth, 0]
        node = ROOT if slot == _NONE else tree.child[slot]
        if node == NO_CHILD:
            nodes, entries = nodes + 1, entries + _FIRST_ROOM
        elif tree.node[node, KIND] == LEAF:
            if tree.node[node, COUNT] == tree.node[node, ROOM]:
                entries += max(2 * tree.node[node, ROOM], _FIRST_ROOM)
        else:
            depth = _push_slots(tree, node, atoms, atom, ranks, settings, stack, depth)
    return nodes, entries


@inlined
def _put_in(tree, atoms, atom, ranks, settings, stack, full, n_full):
    """Enter an atom in its leaves; return how many are full, those that have become so being written to `full`."""
    depth = _begin(stack)
    while depth > 0:
        depth -= 1
        slot, parent = stack[depth, 0], stack[depth, 1]
        node = ROOT if slot == _NONE else tree.child[slot]
        if node == NO_CHILD:
            node = tree.used[NODES]
            tree.used[NODES] = node + 1
            tree.child[slot] = node
            describe_child(tree, parent, slot - tree.node[parent, FIRST], node, 1.0)
            tree.node[node, AUX] = settings.leaf
        tree.node[node, SIZE] += 1
        if tree.node[node, KIND] == LEAF:
            _append(tree, node, atoms, atom)
            if tree.node[node, COUNT] == tree.node[node, AUX] + 1:
                full[n_full] = node
                n_full += 1
        else:
            depth = _push_slots(tree, node, atoms, atom, ranks, settings, stack, depth)
    return n_full


@inlined
def _append(tree, node, atoms, atom):
    """Enter an atom at the end of a leaf, which moves to the end of all entries when it is full."""
    first, count = tree.node[node, FIRST], tree.node[node, COUNT]
    if count == tree.node[node, ROOM]:
        new = tree.used[ENTRIES]
        for i in range(count):
            copy_entry(tree, first + i, new + i)
        tree.node[node, FIRST], tree.node[node, ROOM] = new, max(2 * count, _FIRST_ROOM)
        tree.used[ENTRIES] = new + tree.node[node, ROOM]
        first = new
    write_entry(tree, first + count, atoms, atom)
    tree.node[node, COUNT] = count + 1


@hot_kernel
def _remove(tree, atoms, chosen, ranks, settings, stack, small):
    """Remove atoms; write the nodes that come to have too few for being parted, and return how many they are."""
    n_small = 0
    for atom in chosen:
        depth = _begin(stack)
        while depth > 0:
            depth -= 1
            slot = stack[depth, 0]
            node = ROOT if slot == _NONE else tree.child[slot]
            if node == NO_CHILD:
                continue
            tree.node[node, SIZE] -= 1
            if tree.node[node, KIND] == LEAF:
                _take_out(tree, node, atom)
                continue
            if tree.node[node, SIZE] == settings.leaf - 1:
                small[n_small] = node
                n_small += 1
            depth = _push_slots(tree, node, atoms, atom, ranks, settings, stack, depth)
    return n_small


@inlined
def _take_out(tree, node, atom):
    """Let the last entry of a leaf take the place of an atom."""
    first = tree.node[node, FIRST]
    last = first + tree.node[node, COUNT] - 1
    at = first
    while at < last and tree.atom[at] != atom:
        at += 1
    if at > last or tree.atom[at] != atom:
        return
    copy_entry(tree, last, at)
    tree.node[node, COUNT] -= 1


@inlined
def _begin(stack):
    stack[0, 0], stack[0, 1] = _NONE, _NONE
    return 1


@hot_kernel
def _push_slots(tree, node, atoms, atom, ranks, settings, stack, depth):
    """Put the slots on the stack through which an atom leaves a node; return the new depth."""
    row = tree.node[node]
    if row[KIND] == KEYWORD:
        offset = offset_of(tree, node)
        k = row[COUNT]
        if atoms.n_words[atom] > offset:
            k = _cut_for(tree, row[AUX], row[COUNT], ranks[atoms.code_start[atom] + offset], settings)
        stack[depth, 0], stack[depth, 1] = row[FIRST] + k, node
        return depth + 1
    if covers(atoms, atom, tree.region, row[PLACE]):
        stack[depth, 0], stack[depth, 1] = row[FIRST] + row[COUNT] * row[ROOM], node
        return depth + 1
    box, line, n_x, n_y = atoms.box, row[AUX], row[COUNT] - 1, row[ROOM] - 1
    top, bottom = line_index(tree, line + n_x, n_y, box[atom, 1]), line_index(tree, line + n_x, n_y, box[atom, 3])
    for i in range(line_index(tree, line, n_x, box[atom, 0]), line_index(tree, line, n_x, box[atom, 2]) + 1):
        for j in range(top, bottom + 1):
            stack[depth, 0], stack[depth, 1] = row[FIRST] + i * row[ROOM] + j, node
            depth += 1
    return depth


@inlined
def _cut_for(tree, first, n_cuts, rank, settings):
    """Return the cut that a rank falls into; one between two cuts widens the one before it, or has the dummy cut."""
    k = cut_index(tree, first, n_cuts, rank)
    if k < n_cuts and tree.cut[first + k, 0] <= rank:
        return k
    if not settings.widens_cuts:
        return n_cuts
    if k == 0:
        tree.cut[first, 0] = rank
        return 0
    tree.cut[first + k - 1, 1] = rank
    return k - 1
