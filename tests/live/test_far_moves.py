"""Moves of regions in `cells` to places near and far: every answer is that of `scan`."""

import random

import pytest

from contract.worlds import EARTH, PLANE
from nearcast.geo import Box, Circle
from nearcast.live.cells.store import CellLiveStore
from nearcast.query import parse
from support.live_model import LiveModel

pytestmark = pytest.mark.modes

LONG = 1000
METRES = 111_195.0
QUERIES = [parse(text) for text in ("ramen", "ramen AND a", "a OR b", "NOT c", "ramen OR (b AND NOT a)")]


def town(space, n, around, spread, rng):
    """Return a store with n filed messages around a place; one in six is a rectangle, some of them very wide."""
    model, said = LiveModel("cells", space), []
    for i in range(n):
        x, y = around[0] + rng.uniform(-spread, spread), around[1] + rng.uniform(-spread, spread)
        size = 0.0 if i % 6 else rng.choice([0.01, 0.5, 2.0 * spread])
        place = (wrapped(x, space), y, wrapped(x + size, space), y + size / 4)
        said.append((("ramen", *rng.sample("abc", 2)), place))
    model.append(said, [LONG + i % 3 for i in range(n)])
    return model


def wrapped(x, space):
    return (x + 180.0) % 360.0 - 180.0 if space.is_earth else x


def region(kind, x, y, size, space):
    x = wrapped(x, space)
    if kind == "circle":
        return Circle(x, y, size * (METRES if space.is_earth else 1.0))
    return Box(wrapped(x - size, space), y - size, wrapped(x + size, space), y + size)


@pytest.mark.parametrize(
    ("space", "around"),
    [(PLANE, (5, 5)), (EARTH, (5, 48)), (EARTH, (179.5, 10)), (EARTH, (-179.9, -70))],
    ids=["plane", "earth", "dateline", "far south"],
)
def test_regions_that_go_near_and_far_as_scan_tells_them(space, around, monkeypatch):
    """Boxes, circles, and one that becomes the other; messages that touch both places tell nothing."""
    monkeypatch.setattr(CellLiveStore, "unfiled_rows", 0)
    rng = random.Random(9)
    model, n_changes = town(space, 400, around, 4, rng), 0
    for n in (6, 6, 6, 80):
        wanted, goals = [], []
        for _ in range(n):
            x, y, size = around[0] + rng.uniform(-4, 4), around[1] + rng.uniform(-4, 4), rng.choice([0.0, 0.3, 1.0])
            step = rng.choice([0.0, 0.01, 0.5, 3.0, 6.0])
            kind, goal = rng.choice(["box", "circle"]), rng.choice(["box", "circle"])
            wanted.append((rng.choice(QUERIES), region(kind, x, y, size, space)))
            goals.append(region(goal, x + step, y - step / 2, size, space))
        n_changes += sum(map(len, model.moved(wanted, goals, now=[LONG - 1 + i % 3 for i in range(n)])))

    assert n_changes > 100
