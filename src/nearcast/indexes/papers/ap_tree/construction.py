"""Builds an AP-Tree, or a subtree of it, from the top down (paper, Algorithm 4).

A task is a node and the atoms that came there. It ends as a leaf, or the node is parted and every child that is not
empty becomes a task of its own. Tasks are a stack, and so are their atoms in one pool. A kernel that finds no room in
an array writes what it needs and gives up; the task is still there when it is called again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import kernel
from nearcast.indexes.papers.ap_tree.keywords import count_distinct, keyword_partition
from nearcast.indexes.papers.ap_tree.layout import (
    BY_SPACE,
    BY_WORDS,
    GRIDS,
    OFFSET_SHIFT,
    PLACE,
    STATE,
    ApTreeArrays,
    resized,
    with_room,
)
from nearcast.indexes.papers.ap_tree.model import spread_evenly
from nearcast.indexes.papers.ap_tree.moving import moving_penalty
from nearcast.indexes.papers.ap_tree.node_kinds import (
    NODE,
    POOL_FIRST,
    POOL_LAST,
    SAID_FIRST,
    SAID_LAST,
    TASKS,
    BuildTasks,
    make_leaf,
    make_small_leaves,
    part_by_space,
    part_by_words,
)
from nearcast.indexes.papers.ap_tree.space import share_of_length, space_partition

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.papers.ap_tree.model import CostModel
    from nearcast.indexes.shared.atoms import Atoms

#: Values of `ApTreeSettings.priority`.
ADAPTIVE, KEYWORDS_FIRST, SPACE_FIRST = range(3)
PRIORITIES = ("adaptive", "keyword", "space")
#: The share of all messages that comes to a region however small.
_LEAST_SHARE = 1e-6


class ApTreeSettings(NamedTuple):
    """What a tree is built with: f, θp, whether keyword partitions are optimal, and which partition is tried first.

    `widens_cuts` says whether a word between two cuts widens one of them.
    """

    fan_out: int
    leaf: int
    is_optimal: bool
    priority: int
    widens_cuts: bool


def tasks_of(nodes: NDArray[np.int64], members: list[NDArray[np.int32]], said: list[NDArray[np.int32]]) -> BuildTasks:
    """Return a task for each node, with these atoms and these messages of the sample."""
    task = np.zeros((len(nodes) + 64, 5), np.int64)
    task[: len(nodes), NODE] = nodes
    for column, lists in ((POOL_FIRST, members), (SAID_FIRST, said)):
        last = np.cumsum([len(each) for each in lists])
        task[: len(nodes), column + 1] = last
        task[1 : len(nodes), column] = last[:-1]
    nothing = np.empty(0, np.int32)
    pool, heard = np.concatenate([nothing, *members]), np.concatenate([nothing, *said])
    return BuildTasks(task, pool, heard, np.array([len(nodes), 0, 0]), np.zeros(3, np.int64))


def grown(
    tree: ApTreeArrays,
    tasks: BuildTasks,
    atoms: Atoms,
    ranks: NDArray[np.int32],
    model: CostModel,
    settings: ApTreeSettings,
) -> ApTreeArrays:
    """Do all tasks; return the tree, perhaps in larger arrays. The nodes of the tasks must be empty leaves."""
    while not _do_tasks(tree, tasks, atoms, ranks, model, settings):
        tree = with_room(tree)
        used, more = {"task": int(tasks.used[TASKS]), "pool": len(tasks.pool), "said": len(tasks.said)}, {}
        for kind, name in enumerate(("task", "pool", "said")):
            array = getattr(tasks, name)
            if tasks.need[kind] > len(array):
                more[name] = resized(array, int(tasks.need[kind]) + len(array) // 2, used[name])
        tasks = tasks._replace(**more)
    return tree


@kernel
def _do_tasks(tree, tasks, atoms, ranks, model, settings):
    """Do tasks until none is left; False when room ran out."""
    while tasks.used[TASKS] > 0:
        # Most tasks end here, where no reference is counted.
        if not make_small_leaves(tree, tasks, atoms, settings.leaf):
            return False
        if tasks.used[TASKS] > 0 and not _do_task(tree, tasks, atoms, ranks, model, settings):
            return False
    return True


@kernel
def _do_task(tree, tasks, atoms, ranks, model, settings):
    """Part the node of the last task, which has too many atoms for a leaf, by what costs less; or make a leaf of it."""
    task = tasks.task[tasks.used[TASKS] - 1]
    node, members = task[NODE], tasks.pool[task[POOL_FIRST] : task[POOL_LAST]].copy()
    state, as_leaf = tree.node[node, STATE], float(members.size)
    may_words = (state & BY_WORDS) != 0
    may_space = (state & BY_SPACE) != 0
    asks_words_first = may_words and not (may_space and settings.priority == SPACE_FIRST)
    cut, hit, cost = _by_words(asks_words_first, members, state, atoms, ranks, model, settings)
    if may_space and not (settings.priority == KEYWORDS_FIRST and cost < as_leaf):
        said = tasks.said[task[SAID_FIRST] : task[SAID_LAST]].copy()
        x_line, y_line, met, space_cost = space_partition(
            members, said, tree.node[node, PLACE], tree.region, atoms, model, settings.fan_out
        )
        if space_cost < as_leaf and space_cost <= cost:
            space_cost += _penalty(members, said.size, node, tree, atoms, ranks, model, settings)
        if space_cost < as_leaf and space_cost <= cost:
            return part_by_space(tree, tasks, atoms, members, x_line, y_line, met, model.point)
    if not asks_words_first:
        cut, hit, cost = _by_words(may_words, members, state, atoms, ranks, model, settings)
    if cost < as_leaf:
        return part_by_words(tree, tasks, atoms, ranks, members, cut, hit)
    return make_leaf(tree, tasks, atoms, settings.leaf)


@kernel
def _penalty(members, n_said, node, tree, atoms, ranks, model, settings):
    """Return what members that move add to the cost of a grid."""
    if model.motion.velocity.shape[0] == 0:
        return 0.0
    place = tree.node[node, PLACE]
    n_path = 1.0 + (tree.node[node, STATE] >> OFFSET_SHIFT) + tree.region[place, GRIDS]
    n_words = count_distinct(members, atoms, ranks, model.counter)
    region, motion, fan_out = tree.region[place], model.motion, settings.fan_out
    n_messages = max(motion.messages[0], 1.0) * _share_of_messages(n_said, region, tree.region[0], model)
    return moving_penalty(members, region, n_path, n_words, n_messages, atoms, motion, fan_out, settings.leaf)


@kernel
def _share_of_messages(n_said, region, whole, model):
    """Return the probability that a message comes to a region: so many of the sample are in it."""
    area = share_of_length(region[0], region[2], whole[0], whole[2])
    area *= share_of_length(region[1], region[3], whole[1], whole[3])
    return max(spread_evenly(model.point.shape[0], n_said, area), _LEAST_SHARE)


@kernel
def _by_words(may_words, members, state, atoms, ranks, model, settings):
    """Return the keyword partition and its cost, infinite where there may be none."""
    if not may_words:
        return np.empty((0, 2), np.int32), np.empty(0), np.inf
    offset = state >> OFFSET_SHIFT
    return keyword_partition(members, offset, atoms, ranks, model, settings.fan_out, settings.is_optimal)
