"""Score bounds of IR-tree nodes: what a node stores of the subscriptions below, and the best score they can have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.similarity import OVERLAP, counts_weights, most_text, near_of, score_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.shared.forest import Forest
    from nearcast.indexes.shared.scores import ScoredColumns


class Bounds(NamedTuple):
    """Score bounds by node, over all subscriptions below it.

    `own_weight` and `own_count` are the least amounts above 0 of those whose text function adds up weights and of
    those whose counts words, inf where there are none. Of the functions that count words, `counting` is the most
    generous: √share (cosine) ≥ 2·share / (1 + share) (dice) ≥ share (overlap).
    """

    least_weight: NDArray[np.float64]
    most_weight: NDArray[np.float64]
    threshold: NDArray[np.float64]
    max_distance: NDArray[np.float64]
    own_weight: NDArray[np.float64]
    own_count: NDArray[np.float64]
    counting: NDArray[np.uint8]


def bounds_of(forest: Forest, scored: ScoredColumns) -> Bounds:
    """Return the bounds of all nodes over subscriptions by position."""
    n = len(forest.box)
    bounds = Bounds(
        least_weight=np.full(n, np.inf),
        most_weight=np.full(n, -np.inf),
        threshold=np.full(n, np.inf),
        max_distance=np.zeros(n),
        own_weight=np.full(n, np.inf),
        own_count=np.full(n, np.inf),
        counting=np.full(n, OVERLAP, np.uint8),
    )
    _fill_bounds(forest, scored, bounds)
    return bounds


@kernel
def _fill_bounds(forest, scored, bounds):
    for node in range(forest.box.shape[0] - 1, -1, -1):
        if forest.is_leaf[node]:
            for row in range(forest.first[node], forest.last[node]):
                _take_in(bounds, node, scored, row)
        parent = forest.parent[node]
        if parent >= 0:
            bounds.least_weight[parent] = min(bounds.least_weight[parent], bounds.least_weight[node])
            bounds.most_weight[parent] = max(bounds.most_weight[parent], bounds.most_weight[node])
            bounds.threshold[parent] = min(bounds.threshold[parent], bounds.threshold[node])
            bounds.max_distance[parent] = max(bounds.max_distance[parent], bounds.max_distance[node])
            bounds.own_weight[parent] = min(bounds.own_weight[parent], bounds.own_weight[node])
            bounds.own_count[parent] = min(bounds.own_count[parent], bounds.own_count[node])
            bounds.counting[parent] = max(bounds.counting[parent], bounds.counting[node])


@inlined
def _take_in(bounds, node, scored, row):
    """Widen the bounds of a leaf to one of its rows."""
    bounds.least_weight[node] = min(bounds.least_weight[node], scored.text_weight[row])
    bounds.most_weight[node] = max(bounds.most_weight[node], scored.text_weight[row])
    bounds.threshold[node] = min(bounds.threshold[node], scored.threshold[row])
    bounds.max_distance[node] = max(bounds.max_distance[node], scored.max_distance[row])
    if scored.own[row] > 0.0:
        if counts_weights(scored.similarity[row]):
            bounds.own_weight[node] = min(bounds.own_weight[node], scored.own[row])
        else:
            bounds.own_count[node] = min(bounds.own_count[node], scored.own[row])
            bounds.counting[node] = max(bounds.counting[node], scored.similarity[row])


@inlined
def node_text(bounds, node, weight, count):
    """Return the best text score below a node for a message of whose words it has `count`, of this `weight`.

    A subscription s below has at most these words in common with the message, so its share of own words is at most
    weight / own(s) ≤ weight / least own; likewise with counts. The text functions grow with the share.
    """
    own = bounds.own_weight[node]
    by_weight = 1.0 if weight >= own else weight / own  # compared first: weights as small as there are overflow
    by_count = most_text(bounds.counting[node], min(count / bounds.own_count[node], 1.0))
    return max(by_weight, by_count)


@inlined
def node_near(bounds, node, gap):
    """Return how near the subscriptions below a node can be to a message at least `gap` away from them."""
    return near_of(gap, bounds.max_distance[node])


@inlined
def node_score(bounds, node, text, near):
    """Return the best score below a node, given the best text score and nearness there.

    w·text + (1 - w)·near is linear in w: its best over an interval is at an end.
    """
    least = score_of(bounds.least_weight[node], text, near)
    return max(least, score_of(bounds.most_weight[node], text, near))
