"""Trips over a road network: objects go to a place on the fastest path, then to another, in the manner of Brinkhoff.

What differs from his generator: all objects exist from the beginning to the end. They go to a few places only, drawn
once, so that a shortest-path tree for each of them serves everybody. A faster class of objects is faster on every road,
so that all classes take the same paths. Roads have no class in the data files: those that most paths use are main
roads. On a plane the unit is chosen so that its map is 10 km wide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.bench.data.movement.fastest_paths import Junctions, road_classes, seconds_of
from nearcast.bench.data.movement.movement import BEGIN, INTERVAL_S, Movement, Reports, timestamps_after
from nearcast.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.data.movement.roads import RoadNet
    from nearcast.bench.data.places import Floats

#: Classes of objects: how fast each is beside the middle one. An object has any of them.
OBJECT_CLASSES = (0.5, 0.75, 1.0, 1.25, 1.5)
#: Places that trips go to: as many as so many nodes of trees allow, within limits.
_TREE_NODES, _GOALS = 1_500_000, (16, 64)
_PLANE_METRES = 10_000.0
_NETWORK, _OBJECTS, _REPORTS = range(3)


class TripPlan:
    """The fastest paths of a road network to some places: by place and node the edge to take next."""

    def __init__(self, roads: RoadNet, seed: int):
        rng = np.random.default_rng([seed, _NETWORK])
        self.roads, junctions, n = roads, Junctions(roads), len(roads.nodes)
        metres = 1.0
        if not roads.space.is_earth:
            x_min, y_min, x_max, y_max = roads.bounds
            metres = _PLANE_METRES / max(x_max - x_min, y_max - y_min)
        self.seconds = seconds_of(roads, road_classes(roads, junctions, rng), metres)
        fewest, most = _GOALS
        count = min(max(_TREE_NODES // n, fewest), most, n)
        self.goals = rng.choice(n, count, replace=False).astype(np.int32)
        cost = self.seconds.tolist()
        self.next_edge = np.stack([junctions.tree_to(goal, cost).edge for goal in self.goals.tolist()])


class Trips:
    """Objects on their way: each between two nodes of an edge, so many seconds of the middle class before the next."""

    def __init__(self, plan: TripPlan, n: int, *, speed: float, seed: int):
        self._plan, self._rng = plan, np.random.default_rng([seed, _OBJECTS])
        self._pace = self._rng.choice(OBJECT_CLASSES, n) * speed
        self._behind = self._rng.integers(0, len(plan.roads.nodes), n).astype(np.int32)
        self._goal = self._rng.integers(0, len(plan.goals), n).astype(np.int32)
        self._edge, self._ahead = np.empty(n, np.int32), np.empty(n, np.int32)
        self._left = np.empty(n)
        self._turn_at(np.arange(n))
        self._left *= self._rng.random(n)

    def places(self, objects: NDArray[np.int64]) -> Floats:
        """Return where objects are."""
        nodes, edge = self._plan.roads.nodes, self._edge[objects]
        share = (self._left[objects] / self._plan.seconds[edge])[:, None]
        behind, ahead = nodes[self._behind[objects]], nodes[self._ahead[objects]]
        places: Floats = ahead + (behind - ahead) * share
        return places

    def travel(self, objects: NDArray[np.int64], seconds: float) -> None:
        """Let objects, each named once, travel for a while."""
        left_over = self._pace[objects] * seconds
        while len(objects):
            to_node = self._left[objects]
            passes = left_over >= to_node
            staying = objects[~passes]
            self._left[staying] -= left_over[~passes]
            objects, left_over = objects[passes], (left_over - to_node)[passes]
            self._behind[objects] = self._ahead[objects]
            self._turn_at(objects)

    def _turn_at(self, objects: NDArray[np.int64]) -> None:
        """Begin the next edge at the node behind; whoever has arrived goes to another place."""
        plan, node = self._plan, self._behind[objects]
        arrived = objects[plan.goals[self._goal[objects]] == node]
        if len(arrived):
            n = len(plan.goals)
            self._goal[arrived] = (self._goal[arrived] + self._rng.integers(1, n, len(arrived))) % n
        edge = plan.next_edge[self._goal[objects], node]
        self._edge[objects] = edge
        self._ahead[objects] = plan.roads.a[edge] + plan.roads.b[edge] - node
        self._left[objects] = plan.seconds[edge]


def trips_over(
    roads: RoadNet | TripPlan,
    n: int,
    *,
    timestamps: int,
    mobility: float = 0.2,
    speed: float = 1.0,
    interval_s: float = INTERVAL_S,
    seed: int = 1,
) -> Movement:
    """Return the movement of `n` objects: at each timestamp a share of them, drawn anew, travels on and reports.

    The others stand still. `speed` multiplies the speed of all. The same arguments give the same movement.
    """
    _check(n, timestamps, mobility, speed, interval_s)
    plan = roads if isinstance(roads, TripPlan) else TripPlan(roads, seed)
    trips, rng = Trips(plan, n, speed=speed, seed=seed), np.random.default_rng([seed, _REPORTS])
    first = trips.places(np.arange(n))
    times = timestamps_after(BEGIN, timestamps, interval_s)
    moving = max(1, round(n * mobility))
    objects, places = np.empty(moving * timestamps, np.int32), np.empty((moving * timestamps, 2))
    for timestamp in range(timestamps):
        rows = slice(timestamp * moving, (timestamp + 1) * moving)
        drawn = np.arange(n) if moving == n else np.sort(rng.choice(n, moving, replace=False))
        trips.travel(drawn, interval_s)
        objects[rows], places[rows] = drawn, trips.places(drawn)
    start = np.arange(timestamps + 1, dtype=np.int64) * moving
    reports = Reports(objects, places, np.repeat(times, moving))
    return Movement(
        name=plan.roads.name,
        space=plan.roads.space,
        bounds=plan.roads.bounds,
        begin=BEGIN,
        first=first,
        times=times,
        start=start,
        reports=reports,
    )


#: How many times as fast as usual objects may be: each road of a trip takes a pass, so that faster ones take for ever.
MOST_SPEED = 1000.0


def _check(n: int, timestamps: int, mobility: float, speed: float, interval_s: float) -> None:
    for name, count in (("subscriptions", n), ("timestamps", timestamps)):
        if count < 1:
            raise InvalidInput(f"{name} is {count}; expected 1 or more", field=name)
    if not 0 < mobility <= 1:
        raise InvalidInput(f"mobility is {mobility}; expected a share above 0 and up to 1", field="mobility")
    for name, value, most in (("speed", speed, MOST_SPEED), ("interval", interval_s, float("inf"))):
        if not 0 < value <= most or value == float("inf"):
            limit = "" if most == float("inf") else f" and up to {most:g}"
            raise InvalidInput(f"{name} is {value}; expected a number above 0{limit}", field=name)
