"""Builds one node of an AP-Tree: a leaf, a k-node with its cuts, or an s-node with its cells.

Each of these ends the last of the tasks, puts one for every child in its place, and returns True; or it finds no room,
changes nothing but `need`, and returns False.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined, kernel
from nearcast.indexes.papers.ap_tree.layout import (
    AUX,
    COUNT,
    CUTS,
    ENTRIES,
    FIRST,
    KEYWORD,
    KIND,
    LEAF,
    LINES,
    NO_CHILD,
    NODES,
    OFFSET_SHIFT,
    PLACE,
    REGIONS,
    ROOM,
    SIZE,
    SLOTS,
    SPACE,
    STATE,
    covers,
    describe_child,
    write_entry,
)
from nearcast.indexes.papers.ap_tree.space import strip_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Columns of `BuildTasks.task`, and of `BuildTasks.used` and `BuildTasks.need`.
NODE, POOL_FIRST, POOL_LAST, SAID_FIRST, SAID_LAST = range(5)
TASKS, POOL, SAID = range(3)


class BuildTasks(NamedTuple):
    """The stack of build tasks, with the atoms of each in `pool` and its sample messages in `said`."""

    task: NDArray[np.int64]
    pool: NDArray[np.int32]
    said: NDArray[np.int32]
    used: NDArray[np.int64]
    need: NDArray[np.int64]


@hot_kernel
def make_small_leaves(tree, tasks, atoms, most):
    """Make leaves of the nodes of the last tasks as far as they have at most so many atoms; False if room ran out."""
    while tasks.used[TASKS] > 0:
        task = tasks.task[tasks.used[TASKS] - 1]
        if task[POOL_LAST] - task[POOL_FIRST] > most:
            break
        if not make_leaf(tree, tasks, atoms, most):
            return False
    return True


@inlined
def make_leaf(tree, tasks, atoms, most):
    """Let the node of the last task hold its atoms; one that could not be parted is tried again with twice as many."""
    task = tasks.task[tasks.used[TASKS] - 1]
    first, n = task[POOL_FIRST], task[POOL_LAST] - task[POOL_FIRST]
    tree.need[ENTRIES] = n
    if not _has_room(tree, tasks):
        return False
    row = tree.node[task[NODE]]
    row[KIND], row[FIRST], row[COUNT], row[ROOM] = LEAF, tree.used[ENTRIES], n, n
    row[AUX] = most if n <= most else 2 * n
    row[SIZE] = n
    for i in range(n):
        write_entry(tree, row[FIRST] + i, atoms, tasks.pool[first + i])
    tree.used[ENTRIES] += n
    tasks.used[TASKS] -= 1
    return True


@kernel
def part_by_words(tree, tasks, atoms, ranks, members, cut, hit):
    """Make a k-node of the node of the last task, and tasks of its cuts."""
    task = tasks.task[tasks.used[TASKS] - 1].copy()
    node, n_cuts = task[NODE], cut.shape[0]
    offset = tree.node[node, STATE] >> OFFSET_SHIFT
    slot, count = np.empty(members.size, np.int32), np.zeros(n_cuts + 1, np.int32)
    for i in range(members.size):
        at = n_cuts
        if atoms.n_words[members[i]] > offset:
            at = _cut_of(cut, ranks[atoms.code_start[members[i]] + offset])
        slot[i] = at
        count[at] += 1
    tree.need[CUTS] = n_cuts
    tasks.need[POOL], tasks.need[SAID] = task[POOL_LAST], task[SAID_LAST]
    if not _open_node(tree, tasks, count, hit):
        return False
    row = tree.node[node]
    row[KIND], row[COUNT], row[AUX], row[ROOM] = KEYWORD, n_cuts, tree.used[CUTS], 0
    for k in range(n_cuts):
        tree.cut[row[AUX] + k, 0], tree.cut[row[AUX] + k, 1] = cut[k, 0], cut[k, 1]
    tree.used[CUTS] += n_cuts
    _describe_children(tree, node, count.size, 1.0)
    at = _starts(count, task[POOL_FIRST])
    said = np.empty((count.size, 2), np.int64)
    for k in range(count.size):
        said[k, 0], said[k, 1] = task[SAID_FIRST], task[SAID_LAST]
    _push_tasks(tree, tasks, node, at, said)
    for i in range(members.size):
        tasks.pool[at[slot[i]]] = members[i]
        at[slot[i]] += 1
    return True


@kernel
def part_by_space(tree, tasks, atoms, members, x_line, y_line, met, point):
    """Make an s-node of the node of the last task, and tasks of its cells."""
    task = tasks.task[tasks.used[TASKS] - 1].copy()
    node, rows = task[NODE], y_line.size + 1
    count = np.zeros(met.size + 1, np.int32)
    place = tree.node[node, PLACE]
    n_lists = _count_cells(members, atoms, tree.region, place, x_line, y_line, count)
    tree.need[LINES], tree.need[REGIONS] = x_line.size + y_line.size, met.size
    tasks.need[POOL] = task[POOL_FIRST] + n_lists
    tasks.need[SAID] = 2 * task[SAID_LAST] - task[SAID_FIRST]
    if not _open_node(tree, tasks, count, met):
        return False
    row = tree.node[node]
    row[KIND], row[COUNT], row[ROOM], row[AUX] = SPACE, x_line.size + 1, rows, tree.used[LINES]
    _write_lines(tree, x_line, y_line)
    n_dummy = count[met.size]
    _describe_children(tree, node, count.size, (n_lists - n_dummy) / (members.size - n_dummy))
    at = _starts(count, task[POOL_FIRST])
    said = _deal_out_messages(tasks, task, point, x_line, y_line)
    _push_tasks(tree, tasks, node, at, said)
    _deal_out_atoms(tasks.pool, members, atoms, tree.region, place, x_line, y_line, at)
    return True


@inlined
def _write_lines(tree, x_line, y_line):
    at = tree.used[LINES]
    for k in range(x_line.size):
        tree.line[at + k] = x_line[k]
    for k in range(y_line.size):
        tree.line[at + x_line.size + k] = y_line[k]
    tree.used[LINES] = at + x_line.size + y_line.size


@inlined
def _cut_of(cut, rank):
    """Return the cut that a rank falls into."""
    low, high = 0, cut.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if cut[middle, 1] < rank:
            low = middle + 1
        else:
            high = middle
    return low


@hot_kernel
def _open_node(tree, tasks, count, met):
    """Give the node of the last task slots, and a child to each that holds something; False when room ran out."""
    n_children, total = 0, 0.0
    for k in range(count.size):
        n_children += count[k] > 0
        total += met[k] if k < met.size else 0.0
    tree.need[NODES], tree.need[SLOTS] = n_children, count.size
    tasks.need[TASKS] = tasks.used[TASKS] + n_children
    if not _has_room(tree, tasks):
        return False
    row = tree.node[tasks.task[tasks.used[TASKS] - 1, NODE]]
    row[FIRST], row[SIZE] = tree.used[SLOTS], tasks.task[tasks.used[TASKS] - 1, POOL_LAST]
    row[SIZE] -= tasks.task[tasks.used[TASKS] - 1, POOL_FIRST]
    for k in range(count.size):
        slot = row[FIRST] + k
        tree.child[slot], tree.built[slot] = NO_CHILD, count[k]
        tree.expected[slot] = met[k] / total if k < met.size and total > 0.0 else 0.0
        if count[k] > 0:
            tree.child[slot] = tree.used[NODES]
            tree.used[NODES] += 1
    tree.used[SLOTS] += count.size
    return True


@inlined
def _has_room(tree, tasks):
    """Tell whether all that is needed is there; then nothing is needed any more."""
    need, used = tree.need, tree.used
    fits = used[NODES] + need[NODES] <= tree.node.shape[0] and used[SLOTS] + need[SLOTS] <= tree.child.size
    fits = fits and used[CUTS] + need[CUTS] <= tree.cut.shape[0] and used[LINES] + need[LINES] <= tree.line.size
    fits = fits and used[ENTRIES] + need[ENTRIES] <= tree.atom.size and tasks.need[TASKS] <= tasks.task.shape[0]
    fits = fits and tasks.need[POOL] <= tasks.pool.size and tasks.need[SAID] <= tasks.said.size
    fits = fits and used[REGIONS] + need[REGIONS] <= tree.region.shape[0]
    if fits:
        for k in range(need.size):
            need[k] = 0
        for k in range(tasks.need.size):
            tasks.need[k] = 0
    return fits


@kernel
def _starts(count, first):
    """Return where the list of each slot begins, lists of these lengths lying end to end from `first` on."""
    at = np.empty(count.size + 1, np.int64)
    at[0] = first
    for k in range(count.size):
        at[k + 1] = at[k] + count[k]
    return at


@hot_kernel
def _push_tasks(tree, tasks, node, at, said):
    """Replace the last task by one for each child, with its part of the pool and of the messages."""
    top = tasks.used[TASKS] - 1
    for k in range(said.shape[0]):
        child = tree.child[tree.node[node, FIRST] + k]
        if child != NO_CHILD:
            task = tasks.task[top]
            task[NODE], task[POOL_FIRST], task[POOL_LAST] = child, at[k], at[k + 1]
            task[SAID_FIRST], task[SAID_LAST] = said[k, 0], said[k, 1]
            top += 1
    tasks.used[TASKS] = top


@hot_kernel
def _count_cells(members, atoms, region, place, x_line, y_line, count):
    """Count the atoms of each cell and the dummy cell; return the sum."""
    rows, n = y_line.size + 1, 0
    for atom in members:
        if covers(atoms, atom, region, place):
            count[count.size - 1] += 1
            n += 1
            continue
        top, bottom = strip_of(y_line, atoms.box[atom, 1]), strip_of(y_line, atoms.box[atom, 3])
        for i in range(strip_of(x_line, atoms.box[atom, 0]), strip_of(x_line, atoms.box[atom, 2]) + 1):
            for j in range(top, bottom + 1):
                count[i * rows + j] += 1
                n += 1
    return n


@hot_kernel
def _deal_out_atoms(pool, members, atoms, region, place, x_line, y_line, at):
    """Write every atom into the list of each cell that it touches, or of the dummy cell."""
    rows, dummy = y_line.size + 1, at.size - 2
    for atom in members:
        if covers(atoms, atom, region, place):
            pool[at[dummy]] = atom
            at[dummy] += 1
            continue
        top, bottom = strip_of(y_line, atoms.box[atom, 1]), strip_of(y_line, atoms.box[atom, 3])
        for i in range(strip_of(x_line, atoms.box[atom, 0]), strip_of(x_line, atoms.box[atom, 2]) + 1):
            for j in range(top, bottom + 1):
                pool[at[i * rows + j]] = atom
                at[i * rows + j] += 1


@kernel
def _deal_out_messages(tasks, task, point, x_line, y_line):
    """Write the messages of a task into a list for each cell, behind its own; return where each begins and ends."""
    rows, n_cells = y_line.size + 1, (x_line.size + 1) * (y_line.size + 1)
    heard = tasks.said[task[SAID_FIRST] : task[SAID_LAST]]
    cell, count = np.empty(heard.size, np.int64), np.zeros(n_cells, np.int32)
    for i in range(heard.size):
        cell[i] = strip_of(x_line, point[heard[i], 0]) * rows + strip_of(y_line, point[heard[i], 1])
        count[cell[i]] += 1
    at = _starts(count, task[SAID_LAST])
    said = np.empty((n_cells + 1, 2), np.int64)
    for k in range(n_cells):
        said[k, 0], said[k, 1] = at[k], at[k + 1]
    said[n_cells, 0], said[n_cells, 1] = task[SAID_FIRST], task[SAID_LAST]
    for i in range(heard.size):
        tasks.said[at[cell[i]]] = heard[i]
        at[cell[i]] += 1
    return said


@hot_kernel
def _describe_children(tree, node, n_children, copies):
    for k in range(n_children):
        child = tree.child[tree.node[node, FIRST] + k]
        if child != NO_CHILD:
            describe_child(tree, node, k, child, copies)
