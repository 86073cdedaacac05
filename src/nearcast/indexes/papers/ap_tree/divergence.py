"""Kullback-Leibler divergence of a node from its build: decides which subtrees are rebuilt (paper, section 3.3.5).

A node was parted for the atoms it had and the messages that were expected. Both drift. Kullback and Leibler's
divergence tells how far, D = sum of P(B)·ln(P(B)/Q(B)) over the cuts or cells B, P being how it was and Q how it is:

- of atoms: P and Q are the shares of the node's atoms that each cut or cell had then, and has now (the paper's);
- of messages: the shares of all visits to cuts or cells that each had then, and has now.

A node whose D is above θKL is built anew, if it has a certain share of all atoms. What the paper leaves open:

- A cut that has become empty makes D infinite. So every count is half a unit higher than it is.
- Counts of n in k parts diverge by about k/2n by chance alone, even if nothing has changed; with n = 1,000 atoms in 200
  cuts that is a hundred times θKL. So D must be above θKL plus what chance explains: of two counts n and m of the same
  thing 2·D/(1/n + 1/m) is about chi-squared with k - 1 degrees of freedom, and three standard deviations above its mean
  count as chance.
- Messages are counted in a sample of those that were matched, which is sent through the tree once before a look at D.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import kernel
from nearcast.indexes.papers.ap_tree.layout import (
    FIRST,
    KIND,
    LEAF,
    NO_CHILD,
    NODES,
    ROOT,
    SIZE,
    SPACE,
    ApTreeArrays,
    n_slots,
)
from nearcast.indexes.papers.ap_tree.order import rank_message
from nearcast.indexes.papers.ap_tree.search import push_children
from nearcast.indexes.shared.kernel_message import KernelMessages, begin_message, end_message
from nearcast.indexes.shared.predicates import message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.papers.ap_tree.sample import MessageSample


def watched_nodes(tree: ApTreeArrays, share: float) -> NDArray[np.int64]:
    """Return the nodes that are parted and have at least this share of all atoms, parents before children."""
    node = tree.node[: int(tree.used[NODES])]
    is_parted = (node[:, KIND] > LEAF) & (node[:, KIND] <= SPACE)
    return np.flatnonzero(is_parted & (node[:, SIZE] >= max(share * node[ROOT, SIZE], 1.0)))


def diverging_by_atoms(tree: ApTreeArrays, share: float, threshold: float) -> NDArray[np.int64]:
    """Return the nodes whose atoms are spread otherwise than when they were parted."""
    watched = watched_nodes(tree, share)
    divergence = np.empty(len(watched))
    _divergence_of_atoms(tree, watched, divergence)
    return watched[divergence > threshold]


def diverging_by_messages(
    tree: ApTreeArrays, share: float, threshold: float, sample: MessageSample, rank: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return the nodes that messages like those of a sample leave otherwise than was expected."""
    watched = watched_nodes(tree, share)
    hits, divergence = hits_of(tree, share, sample, rank), np.empty(len(watched))
    _divergence_of_messages(tree, watched, hits, divergence)
    return watched[divergence > threshold]


def expect(tree: ApTreeArrays, share: float, sample: MessageSample, rank: NDArray[np.int32]) -> None:
    """Let the nodes expect messages like those of a sample from now on."""
    hits = hits_of(tree, share, sample, rank)
    for node in watched_nodes(tree, share).tolist():
        slots = slice(int(tree.node[node, FIRST]), int(tree.node[node, FIRST]) + int(n_slots(tree, node)) - 1)
        if total := int(hits[slots].sum()):
            tree.expected[slots] = hits[slots] / total


def hits_of(tree: ApTreeArrays, share: float, sample: MessageSample, rank: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return for every slot of the watched nodes how often messages of a sample go through it."""
    least = int(max(share * tree.node[ROOT, SIZE], 1.0))
    longest = int(np.diff(sample.term_start).max(initial=0))
    has, word = np.zeros(len(rank), np.uint8), np.empty(longest, np.int32)
    batch = KernelMessages(sample.term_start, sample.terms, sample.box, np.empty((0, 3)), has, word)
    hits = np.zeros(len(tree.child), np.int64)
    stack = np.empty((int(tree.used[NODES]) + 1, 2), np.int32)
    _count_hits(tree, batch, rank, least, stack, np.empty((2, 4)), np.empty(longest, np.int32), hits)
    return hits


@kernel
def _count_hits(tree, batch, rank, least, stack, place, ranks, hits):
    """Send messages through the nodes that have at least so many atoms, and count by slot."""
    slot_of = np.full(tree.node.shape[0], -1, np.int32)
    for node in range(tree.used[NODES]):
        if LEAF < tree.node[node, KIND] <= SPACE:
            for slot in range(tree.node[node, FIRST], tree.node[node, FIRST] + n_slots(tree, node)):
                if tree.child[slot] != NO_CHILD:
                    slot_of[tree.child[slot]] = slot
    for message in range(batch.term_start.size - 1):
        n_words = begin_message(batch, message)
        rank_message(batch.word, n_words, rank, ranks)
        for part in range(message_parts(batch.box, message, place)):
            stack[0, 0], stack[0, 1] = ROOT, 0
            depth = 1
            while depth > 0:
                depth -= 1
                node = stack[depth, 0]
                if slot_of[node] >= 0:
                    hits[slot_of[node]] += 1
                if tree.node[node, KIND] > LEAF and tree.node[node, SIZE] >= least:
                    depth = push_children(tree, node, ranks, n_words, place, part, stack, depth)
        end_message(batch, n_words)


@kernel
def _divergence_of_atoms(tree, watched, divergence):
    for i in range(watched.size):
        node = watched[i]
        k = n_slots(tree, node)
        before, now = np.empty(k), np.zeros(k)
        for s in range(k):
            slot = tree.node[node, FIRST] + s
            before[s] = tree.built[slot]
            if tree.child[slot] != NO_CHILD:
                now[s] = tree.node[tree.child[slot], SIZE]
        divergence[i] = beyond_chance(before, now)


@kernel
def _divergence_of_messages(tree, watched, hits, divergence):
    """The dummy is left out: every message goes there."""
    for i in range(watched.size):
        node = watched[i]
        k = n_slots(tree, node) - 1
        before, now = np.empty(k), np.empty(k)
        for s in range(k):
            slot = tree.node[node, FIRST] + s
            now[s] = hits[slot]
        total = now.sum()
        for s in range(k):
            before[s] = tree.expected[tree.node[node, FIRST] + s] * total
        divergence[i] = beyond_chance(before, now)


@kernel
def beyond_chance(before, now):
    """Return by how much the divergence of two counts exceeds what chance explains."""
    k = before.size
    n_before, n_now = before.sum() + 0.5 * k, now.sum() + 0.5 * k
    divergence = 0.0
    for s in range(k):
        p, q = (before[s] + 0.5) / n_before, (now[s] + 0.5) / n_now
        divergence += p * np.log(p / q)
    by_chance = (k - 1 + 3.0 * np.sqrt(2.0 * (k - 1))) / 2.0 * (1.0 / n_before + 1.0 / n_now)
    return divergence - by_chance
