"""A walk along streets: from crossing to crossing, at random, turning back only where there is no other way."""

from __future__ import annotations

import math

import numpy as np

from nearcast.demo.city import METRES_PER_DEGREE
from nearcast.demo.streets import Place, Streets


class StreetWalk:
    """Somebody on the way from one crossing to the next."""

    def __init__(self, streets: Streets, start: int, rng: np.random.Generator):
        self._streets, self._rng = streets, rng
        self._from = self._to = start
        self._gone_m = self._length_m = 0.0

    @property
    def place(self) -> Place:
        """Longitude and latitude, on a street."""
        (x0, y0), (x1, y1) = (self._streets.crossings[each] for each in (self._from, self._to))
        share = self._gone_m / self._length_m if self._length_m else 0.0
        return x0 + share * (x1 - x0), y0 + share * (y1 - y0)

    def go(self, metres: float) -> Place:
        """Walk so far and return the place."""
        self._gone_m += metres
        while self._gone_m >= self._length_m:
            self._gone_m -= self._length_m
            self._turn()
        return self.place

    def _turn(self) -> None:
        """Choose a street at a crossing."""
        ways = self._streets.neighbours[self._to]
        others = [each for each in ways if each != self._from] or ways
        self._from, self._to = self._to, others[int(self._rng.integers(len(others)))]
        self._length_m = metres_between(self._streets.crossings[self._from], self._streets.crossings[self._to])


def metres_between(one: Place, other: Place) -> float:
    """Return the length of a street; over a few hundred metres the earth is flat."""
    (x0, y0), (x1, y1) = one, other
    return METRES_PER_DEGREE * math.hypot((x1 - x0) * math.cos(math.radians(y0)), y1 - y0)
