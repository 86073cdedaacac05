"""Moves of scored subscriptions in `cells`: what lies within reach is looked at, and every answer is that of `scan`."""

import random

import numba
import pytest

from contract.worlds import EARTH, PLANE
from nearcast.live.cells import scored
from nearcast.live.cells.store import CellLiveStore
from nearcast.model import Similar
from nearcast.testing.values import point_box
from support.live_model import LiveModel

pytestmark = pytest.mark.modes

LONG = 1000
METRES = 111_195.0


def town(space, n, around, spread, monkeypatch, seed=3):
    """Return a store with n messages around a place, all filed; one in eight is a small rectangle."""
    monkeypatch.setattr(CellLiveStore, "unfiled_rows", 0)
    rng, model, said = random.Random(seed), LiveModel("cells", space), []
    for i in range(n):
        x, y = around[0] + rng.uniform(-spread, spread), around[1] + rng.uniform(-spread, spread)
        if space.is_earth:
            x, y = (x + 180.0) % 360.0 - 180.0, min(max(y, -90.0), 90.0)
        size = 0.0 if i % 8 else 0.3
        place = (x, y, min(x + size, 180.0), min(y + size, 90.0)) if space.is_earth else (x, y, x + size, y + size)
        said.append((("ramen", *rng.sample("abcd", 2)), place))
    model.append(said, [LONG] * n)
    return model


@pytest.mark.skipif(not numba.config.DISABLE_JIT, reason="looks into kernels")
@pytest.mark.parametrize(
    ("threshold", "most"),
    [(0.3, 0), (0.5, 10), (0.7, 30), (0.9, 10)],
    ids=["words suffice", "words just suffice", "may be near", "must be near"],
)
def test_scored_move_looks_at_messages_whose_answer_may_change_only(threshold, most, monkeypatch):
    """Of 2,000 messages with the word, the words of those are read that are near to one place and surely not to both.

    Some 10 lie within reach of one place where words just suffice, at 4, and within the 2.4 of `may be near`.
    """
    model, tried = town(PLANE, 2000, (50, 50), 50, monkeypatch), []
    text = scored._text_found
    monkeypatch.setattr(scored, "_text_found", lambda *given: tried.append(given[1]) or text(*given))
    wanted = Similar(
        0,
        place=(50, 50),
        terms=("ramen",),
        text_weight=0.5,
        threshold=threshold,
        max_distance=4.0,
        similarity="overlap",
    )
    model.moved([wanted], [point_box(50.3, 50)])

    assert len(tried) <= most
    assert tried or threshold in (0.3, 0.9)  # where one must be near, nobody is near enough
    assert len(tried) == len(set(tried))


@pytest.mark.parametrize(
    ("space", "around"),
    [(PLANE, (5, 5)), (EARTH, (5, 48)), (EARTH, (179.5, 10)), (EARTH, (20, 88.5)), (EARTH, (-179.9, -89.5))],
    ids=["plane", "earth", "dateline", "pole", "both"],
)
def test_scored_moves_as_scan_tells_them(space, around, monkeypatch):
    """Short and long moves of any reach, over the dateline and at the poles; `moved` compares with `scan`."""
    model, rng = town(space, 300, around, 4, monkeypatch), random.Random(5)
    unit, n_changes = METRES if space.is_earth else 1.0, 0
    for _ in range(5):
        wanted, goals = [], []
        for i in range(8):
            x, y = around[0] + rng.uniform(-4, 4), around[1] + rng.uniform(-4, 4)
            step = rng.choice([0.0, 0.01, 0.3, 5.0])
            goal = (x + step, y - step / 2)
            if space.is_earth:
                (x, y), goal = (
                    ((at[0] + 180.0) % 360.0 - 180.0, min(max(at[1], -90.0), 90.0)) for at in ((x, y), goal)
                )
            wanted.append(
                Similar(
                    i,
                    place=(x, y),
                    terms=tuple(rng.sample(["ramen", *"abcd", "none"], rng.randint(1, 4))),
                    text_weight=rng.choice([0.0, 0.5, 0.9]),
                    threshold=rng.choice([0.2, 0.5, 0.8, rng.uniform(0.1, 1.0)]),
                    max_distance=rng.choice([0.2, 1.0, 3.0, 40.0]) * unit,
                    similarity=rng.choice(["overlap", "jaccard", "cosine"]),
                )
            )
            goals.append(point_box(*goal))
        n_changes += sum(map(len, model.moved(wanted, goals)))

    assert n_changes > 20
