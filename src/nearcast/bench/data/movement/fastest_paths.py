"""Shortest-path trees of a road network (Dijkstra, binary heap), and classes of roads by how many paths use them.

The standard library's heap is enough: a tree of 100,000 nodes takes some tenths of a second, and a few trees serve any
number of objects.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.data.movement.roads import RoadNet
    from nearcast.bench.data.places import Floats

#: Main roads, middle ones and side streets: their share of all roads, the most used first, and their speeds in km/h.
CLASS_SHARES, CLASS_KM_PER_H = (0.05, 0.15, 0.8), (80.0, 50.0, 30.0)
#: Trees by which the use of roads is counted.
_COUNTED_TREES = 8


class PathTree(NamedTuple):
    """The cheapest paths from all nodes to one: by node the edge that its path begins with, -1 at the goal.

    `order` has the nodes from the goal outward.
    """

    edge: NDArray[np.int32]
    order: NDArray[np.int32]


class Junctions:
    """The edges at each node, as lists of (other node, edge)."""

    def __init__(self, roads: RoadNet):
        self.at: list[list[tuple[int, int]]] = [[] for _ in range(len(roads.nodes))]
        for edge, (a, b) in enumerate(zip(roads.a.tolist(), roads.b.tolist(), strict=True)):
            self.at[a].append((b, edge))
            self.at[b].append((a, edge))

    def tree_to(self, goal: int, cost: list[float]) -> PathTree:
        """Return the cheapest paths to a node; `cost` is that of each edge."""
        best, edge = [math.inf] * len(self.at), [-1] * len(self.at)
        best[goal] = 0.0
        order, heap = [], [(0.0, goal)]
        while heap:
            so_far, node = heappop(heap)
            if so_far > best[node]:
                continue
            order.append(node)
            for other, road in self.at[node]:
                through = so_far + cost[road]
                if through < best[other]:
                    best[other], edge[other] = through, road
                    heappush(heap, (through, other))
        return PathTree(np.array(edge, np.int32), np.array(order, np.int32))


def road_classes(roads: RoadNet, junctions: Junctions, rng: np.random.Generator) -> NDArray[np.int8]:
    """Return the class of each road, 0 for the main roads: those that most of the shortest paths to some nodes use."""
    use = np.zeros(len(roads.a), np.int64)
    cost = roads.length.tolist()
    for goal in rng.choice(len(roads.nodes), min(_COUNTED_TREES, len(roads.nodes)), replace=False).tolist():
        use += _use_of(roads, junctions.tree_to(goal, cost))
    rank = np.empty(len(use), np.int64)
    rank[np.argsort(-use, kind="stable")] = np.arange(len(use))
    return np.searchsorted(np.cumsum(CLASS_SHARES)[:-1] * len(use), rank, side="right").astype(np.int8)


def _use_of(roads: RoadNet, tree: PathTree) -> NDArray[np.int64]:
    """Return how many paths of a tree use each road."""
    paths = [1] * len(tree.edge)
    use, a, b, edge = np.zeros(len(roads.a), np.int64), roads.a.tolist(), roads.b.tolist(), tree.edge.tolist()
    for node in tree.order[:0:-1].tolist():
        road = edge[node]
        paths[b[road] if a[road] == node else a[road]] += paths[node]
        use[road] = paths[node]
    return use


def seconds_of(roads: RoadNet, classes: NDArray[np.int8], metres_per_unit: float) -> Floats:
    """Return how long an object of the middle class takes for each road; never 0."""
    km_per_h = np.array(CLASS_KM_PER_H)[classes]
    seconds: Floats = roads.length * metres_per_unit / (km_per_h / 3.6)
    return np.maximum(seconds, 1e-6)
