"""Made-up places: clusters of unequal size, and noise between them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: The side of a generated plane, and of a region as a share of the extent.
PLANE_SIDE = 10_000.0
REGION_SHARE = (0.001, 0.02)
#: The half side of a generated region on the earth.
REGION_HALF_SIDE_KM = (0.5, 10.0)
KM_PER_DEGREE = 111.195
CLUSTERS = 200
NOISE_SHARE = 0.2

Floats = npt.NDArray[np.float64]


class PlanePlaces:
    """Gaussian clusters of unequal size on a square, and noise between them."""

    low, high = np.array([0.0, 0.0]), np.array([PLANE_SIDE, PLANE_SIDE])
    spread = (20.0, 150.0)

    def __init__(self, rng: np.random.Generator):
        self._centre = rng.uniform(self.low, self.high, (CLUSTERS, 2))
        self._share = rng.dirichlet(np.full(CLUSTERS, 0.5))
        self._spread = rng.uniform(*self.spread, CLUSTERS)

    def draw(self, rng: np.random.Generator, n: int) -> Floats:
        """Return `n` places."""
        cluster = rng.choice(CLUSTERS, n, p=self._share)
        places = self._centre[cluster] + rng.normal(size=(n, 2)) * self._spread[cluster][:, None]
        noise = rng.random(n) < NOISE_SHARE
        places[noise] = rng.uniform(self.low, self.high, (noise.sum(), 2))
        return np.clip(places, self.low, self.high)

    def half_sides(self, rng: np.random.Generator, places: Floats) -> Floats:
        """Return half the width and height of a region at each place."""
        side: Floats = (self.high - self.low) * rng.uniform(*REGION_SHARE, len(places))[:, None]
        return side / 2


class EarthPlaces(PlanePlaces):
    """The same in degrees: cities and the land between them, away from the poles."""

    low, high = np.array([-179.0, -56.0]), np.array([179.0, 70.0])
    spread = (0.02, 0.3)

    def half_sides(self, rng: np.random.Generator, places: Floats) -> Floats:
        """Return half the width and height in degrees of a square in kilometres."""
        height = rng.uniform(*REGION_HALF_SIDE_KM, len(places)) / KM_PER_DEGREE
        return np.column_stack([height / np.cos(np.radians(places[:, 1])), height])


def halves_of_area(rng: np.random.Generator, extent: Floats, area: tuple[float, float], n: int) -> Floats:
    """Return half the sides of `n` rectangles with the shape of the space and a share of its area.

    On the earth both are counted in square degrees.
    """
    half: Floats = extent / 2 * np.sqrt(rng.uniform(*area, n))[:, None]
    return half
