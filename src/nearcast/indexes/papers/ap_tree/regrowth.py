"""Rebuilds subtrees of an AP-Tree, and frees the nodes and entries that they leave behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import hot_kernel, inlined, kernel
from nearcast.indexes.papers.ap_tree.construction import ApTreeSettings, grown, tasks_of
from nearcast.indexes.papers.ap_tree.layout import (
    AUX,
    COUNT,
    CUTS,
    DEAD,
    ENTRIES,
    FIRST,
    KEYWORD,
    KIND,
    LEAF,
    LINES,
    NO_CHILD,
    NODES,
    PLACE,
    REGIONS,
    ROOM,
    SLOTS,
    SOURCE_SHIFT,
    ApTreeArrays,
    n_slots,
    without_room,
)
from nearcast.indexes.papers.ap_tree.order import ranked_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.papers.ap_tree.model import CostModel
    from nearcast.indexes.shared.atoms import Atoms


def regrown(
    tree: ApTreeArrays,
    nodes: NDArray[np.int64],
    atoms: Atoms,
    rank: NDArray[np.int32],
    model: CostModel,
    settings: ApTreeSettings,
) -> ApTreeArrays:
    """Build these nodes anew from the atoms they hold; one that is below another of them is built with that."""
    roots, members, said = [], [], []
    queue = np.empty(int(tree.used[NODES]), np.int64)
    for node in np.unique(nodes).tolist():  # ascending, so that parents come before their children
        if tree.node[node, KIND] != DEAD:
            roots.append(node)
            members.append(np.unique(_cleared(tree, node, queue)))
            said.append(messages_in(model.point, tree.region[tree.node[node, PLACE], :4]))
    if not roots:
        return tree
    ranks = ranked_words(atoms, np.concatenate(members), rank)
    return grown(tree, tasks_of(np.array(roots), members, said), atoms, ranks, model, settings)


def messages_in(point: NDArray[np.float64], region: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the messages of a sample that are in a region."""
    said = np.empty(len(point), np.int32)
    return said[: _write_messages_in(point, region, said)].copy()


@hot_kernel
def _write_messages_in(point, region, said):
    n = 0
    for i in range(point.shape[0]):
        if region[0] <= point[i, 0] <= region[2] and region[1] <= point[i, 1] <= region[3]:
            said[n] = i
            n += 1
    return n


@kernel
def _cleared(tree, root, queue):
    """Return the atoms at and below a node, some twice; leave the node an empty leaf and those below dead."""
    queue[0] = root
    done, last, n = 0, 1, 0
    while done < last:
        node = queue[done]
        done += 1
        if tree.node[node, KIND] == LEAF:
            n += tree.node[node, COUNT]
            continue
        for slot in range(tree.node[node, FIRST], tree.node[node, FIRST] + n_slots(tree, node)):
            if tree.child[slot] != NO_CHILD:
                queue[last] = tree.child[slot]
                last += 1
    held = np.empty(n, np.int32)
    n = 0
    for i in range(last):
        node = queue[i]
        if tree.node[node, KIND] == LEAF:
            first = tree.node[node, FIRST]
            for entry in range(first, first + tree.node[node, COUNT]):
                held[n] = tree.atom[entry]
                n += 1
        tree.node[node, KIND] = DEAD
    tree.node[root, KIND], tree.node[root, COUNT], tree.node[root, ROOM] = LEAF, 0, 0
    return held


def renumber_atoms(tree: ApTreeArrays, number: NDArray[np.int32], atoms: Atoms) -> None:
    """Give the atoms of all entries new numbers; `atoms` has them in the new order, their words perhaps elsewhere."""
    used = int(tree.used[ENTRIES])
    atom = number[tree.atom[:used]]
    tree.atom[:used] = atom
    tree.source[:used] = (atoms.code_start[atom] << SOURCE_SHIFT) | (tree.source[:used] & ((1 << SOURCE_SHIFT) - 1))


def compacted(tree: ApTreeArrays) -> ApTreeArrays:
    """Return the same tree without dead nodes and what belonged to them."""
    node = tree.node[: int(tree.used[NODES])]
    live = np.flatnonzero(node[:, KIND] != DEAD)
    places, place = np.unique(node[live, PLACE], return_inverse=True)
    fresh = ApTreeArrays(**{name: np.zeros_like(getattr(tree, name)) for name in ApTreeArrays._fields})
    fresh.region[: len(places)] = tree.region[places]
    number = np.full(len(node), NO_CHILD, np.int32)
    number[live] = np.arange(len(live), dtype=np.int32)
    fresh.used[NODES], fresh.used[REGIONS] = len(live), len(places)
    _copy(tree, fresh, live, number)
    fresh.node[: len(live), PLACE] = place
    return without_room(fresh)


@hot_kernel
def _copy(tree, fresh, live, number):
    """Copy the live nodes with all that is theirs."""
    for i in range(live.size):
        row, old = fresh.node[i], tree.node[live[i]]
        for k in range(row.size):
            row[k] = old[k]
        if row[KIND] == LEAF:
            _copy_entries(tree, fresh, row)
            continue
        _copy_slots(tree, fresh, row, n_slots(tree, live[i]), number)
        if row[KIND] == KEYWORD:
            row[AUX] = fresh.used[CUTS]
            for k in range(row[COUNT]):
                for end in range(2):
                    fresh.cut[row[AUX] + k, end] = tree.cut[old[AUX] + k, end]
            fresh.used[CUTS] += row[COUNT]
        else:
            row[AUX], n_lines = fresh.used[LINES], row[COUNT] + row[ROOM] - 2
            for k in range(n_lines):
                fresh.line[row[AUX] + k] = tree.line[old[AUX] + k]
            fresh.used[LINES] += n_lines


@inlined
def _copy_entries(tree, fresh, row):
    first, at = row[FIRST], fresh.used[ENTRIES]
    for k in range(row[COUNT]):
        fresh.atom[at + k], fresh.signature[at + k] = tree.atom[first + k], tree.signature[first + k]
        fresh.source[at + k] = tree.source[first + k]
        for side in range(4):
            fresh.rectangle[at + k, side] = tree.rectangle[first + k, side]
    row[FIRST], row[ROOM] = at, row[COUNT]
    fresh.used[ENTRIES] = at + row[COUNT]


@inlined
def _copy_slots(tree, fresh, row, n, number):
    first, at = row[FIRST], fresh.used[SLOTS]
    for k in range(n):
        child = tree.child[first + k]
        fresh.child[at + k] = NO_CHILD if child == NO_CHILD else number[child]
        fresh.built[at + k], fresh.expected[at + k] = tree.built[first + k], tree.expected[first + k]
    row[FIRST] = at
    fresh.used[SLOTS] = at + n
