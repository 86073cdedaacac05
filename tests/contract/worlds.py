"""Seeded worlds of subscriptions and messages, larger than Hypothesis would draw them."""

import random

from nearcast.geo import Area, Box, Circle, Space, shape_from
from nearcast.query import parse

EARTH, PLANE = Space.earth(), Space.plane()

#: Small enough numbers that a few dozen rows walk through many cells, blocks, segments and merges.
SMALL = "trigger:leaf_rows=4,few=1,delta_rows=8"
LARGER_CELLS = "trigger:leaf_rows=64,few=0,delta_rows=64"

WORDS = [f"w{i}" for i in range(30)]
_HOLED = {
    "type": "Polygon",
    "coordinates": [
        [[-8, -8], [8, -8], [8, 8], [-8, 8], [-8, -8]],
        [[-3, -3], [3, -3], [3, 3], [-3, 3], [-3, -3]],
    ],
}
_OVER_DATELINE = {"type": "Polygon", "coordinates": [[[172, -9], [-171, -9], [-171, 9], [172, 9], [172, -9]]]}


def point(x, y):
    return (x, y, x, y)


def random_place(rng, space):
    """Half on a lattice, a third of them rectangles, on the earth some across the dateline."""
    if rng.random() < 0.5:
        x, y = float(rng.randint(-10, 10)), float(rng.randint(-10, 10))
    else:
        x, y = rng.uniform(-12, 12), rng.uniform(-12, 12)
    if space.is_earth and rng.random() < 0.3:
        x = x + 180.0 if x <= 0 else x - 180.0
    if rng.random() < 0.67:
        return point(x, y)
    x_max, y_max = x + rng.choice([0.0, 1.0, rng.uniform(0, 15)]), y + rng.choice([0.0, 1.0, rng.uniform(0, 15)])
    if space.is_earth and x_max > 180.0:
        x_max -= 360.0
    return (x, y, x_max, y_max)


def random_region(rng, space):
    kind = rng.random()
    if kind < 0.1:
        return None
    if kind < 0.7:
        return Box(*random_place(rng, space))
    if kind < 0.9:
        x, y, _, _ = random_place(rng, space)
        return Circle(x, y, rng.choice([0.0, 1.0, 5.0]) * (111_195.0 if space.is_earth else 1.0))
    return shape_from(rng.choice([_HOLED, _OVER_DATELINE]) if space.is_earth else _HOLED, space)


def random_query(rng):
    """Mostly plain AND, with words as unequal in frequency as they are in life."""
    some = [WORDS[min(int(rng.paretovariate(0.7)) - 1, len(WORDS) - 1)] for _ in range(4)]
    a, b, c, d = some
    forms = [a, f"{a} {b}", f"{a} {b} {c}", f"{a} OR {b}", f'"{a} {b}"', f"{a} NOT {b}", f"({a} OR {b}) ({c} OR {d})"]
    return parse(rng.choice([*forms[:3], *forms]))


def random_wanted(rng, space, n):
    return [(random_query(rng), random_region(rng, space)) for _ in range(n)]


def random_said(rng, space, n, longest=12):
    return [
        (
            [rng.choice([*WORDS[:10], *WORDS, "unknown"]) for _ in range(rng.randint(0, longest))],
            random_place(rng, space),
        )
        for _ in range(n)
    ]


def world(seed, space, n_subscriptions, n_messages):
    """Return (wanted, said) of a seed."""
    rng = random.Random(seed)
    return random_wanted(rng, space, n_subscriptions), random_said(rng, space, n_messages)


def area(*rings):
    return Area({"type": "Polygon", "coordinates": [list(map(list, ring)) for ring in rings]})
