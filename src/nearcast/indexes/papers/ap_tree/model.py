"""The cost model: how many entries a message is expected to look at under a node (paper, section 3.3.1).

A node with n atoms costs n as a leaf. Parted into cuts or cells B it costs the sum of w(B)·p(B) (Eq. 1): the atoms in B
times the probability that a message which meets the node meets B. Dummies are met by every message, so p is 1 there.

With a sample of messages, p of a word is the share of the messages that have it, and p of a cell the share of those in
the node's region that are in the cell. Two things keep a small sample from being believed too much:

- Words: the share of all words that a next message brings and the sample does not have is about that of the words it
  has once (Good and Turing); so much is taken from the sample and given to words as subscriptions have them.
- Places: the messages in a region count beside `_PRIOR` ones that are spread evenly.

Without a sample p of a word is its share among the atoms of the node, and p of a cell its share of the area.
Probabilities of the words of a cut are added, as the paper does it: p of a cut is the expected number of its words that
a message has, which may be above 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined, kernel
from nearcast.indexes.papers.ap_tree.moving import no_motion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.papers.ap_tree.moving import Motion
    from nearcast.indexes.papers.ap_tree.sample import MessageSample

#: Messages that are spread evenly over a node's region, beside those of the sample.
_PRIOR = 16.0


class CostModel(NamedTuple):
    """What the cost model knows: `hit` is the probability of a word by rank, empty without a sample of messages.

    `point` are the centres of the messages of the sample. `counter` is room for a number by rank, 0 between uses.
    `motion` is how subscriptions move.
    """

    hit: NDArray[np.float64]
    point: NDArray[np.float64]
    counter: NDArray[np.int64]
    motion: Motion


def model_of(sample: MessageSample, rank: NDArray[np.int32], needed: NDArray[np.int64]) -> CostModel:
    """Return the model of a sample; `needed` says by rank how many atoms need a word."""
    box, n = sample.box, len(sample)
    point = np.ascontiguousarray(box[:, :2] / 2 + box[:, 2:] / 2)
    if not n:
        return CostModel(np.empty(0), point, np.zeros(len(rank), np.int64), no_motion())
    seen = np.zeros(len(rank), np.int64)
    count_messages(sample.term_start, sample.terms, rank, np.full(len(rank), -1), seen)
    n_seen, n_needed = int(seen.sum()), int(needed.sum())
    unseen = int((seen == 1).sum()) / n_seen if n_seen else 1.0
    assumed = needed * (max(n_seen / n, 1.0) / max(n_needed, 1))
    hit = (1.0 - unseen) * seen / n + unseen * assumed
    return CostModel(hit, point, np.zeros(len(rank), np.int64), no_motion())


@hot_kernel
def count_messages(term_start, terms, rank, last, seen):
    """Count by rank how many messages have a word; `last` is -1 by rank."""
    for message in range(term_start.size - 1):
        for i in range(term_start[message], term_start[message + 1]):
            if 0 <= terms[i] < rank.size:
                r = rank[terms[i]]
                if last[r] != message:
                    last[r] = message
                    seen[r] += 1


@kernel
def spread_evenly(n_messages, n_inside, share):
    """Return the probability of a part of a region: so many messages of the sample are in it, so many in the region."""
    return (n_inside + _PRIOR * share) / (n_messages + _PRIOR)


# --- parts of a line ----------------------------------------------------------------------------------------------
# Both partitions cut an ordered set of possible borders 0 to n into parts. What begins before border j is begun[j],
# what has ended before it ended[j], and met[j] is the probability of all before it. Words begin and end at once.


@inlined
def part_cost(begun, ended, met, i, j):
    """Return the cost of the part between two borders: what it holds times its probability."""
    return (begun[j] - ended[i]) * (met[j] - met[i])


@hot_kernel
def partition_cost(begun, ended, met, border):
    """Return the cost of the parts between ascending borders."""
    cost = 0.0
    for i in range(border.size - 1):
        cost += part_cost(begun, ended, met, border[i], border[i + 1])
    return cost


@hot_kernel
def move_borders(begun, ended, met, border):
    """Move each border in turn to where it costs least between its neighbours (Algorithm 3, lines 2 to 5)."""
    for k in range(1, border.size - 1):
        low, high = border[k - 1], border[k + 1]
        best = border[k]
        least = part_cost(begun, ended, met, low, best) + part_cost(begun, ended, met, best, high)
        for at in range(low + 1, high):
            cost = part_cost(begun, ended, met, low, at) + part_cost(begun, ended, met, at, high)
            if cost < least:
                best, least = at, cost
        border[k] = best
