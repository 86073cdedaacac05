"""Scenes for tests of protocols: random ones, and ones written by hand."""

import numpy as np

from nearcast.bench.moving.protocols.scene import Scene
from nearcast.columns import Messages, Subscriptions
from nearcast.geo import Regions, Space
from nearcast.text.words import WordTable

PLANE, EARTH = Space.plane(), Space.earth()
#: Between two timestamps.
STEP = 1000


def scene_of(walks, said, *, wants=None, radius=10.0, space=PLANE):
    """Return a scene: walks[i] are the places of client i, said[t] the (place, words, timestamps to live) of then."""
    words, steps = WordTable(), len(said)
    wants = wants or [["tea"]] * len(walks)
    clause = [words.ids_of(each, add=True) for each in wants]
    tokens = [text.split() for batch in said for _, text, _ in batch]
    terms = [words.ids_of(each, add=True) for each in tokens]
    places = np.array([place for batch in said for place, _, _ in batch], np.float64).reshape(-1, 2)
    ends = [t * STEP + round(life * STEP) for t, batch in enumerate(said) for _, _, life in batch]
    n = len(walks)
    walks = np.array(walks, np.float64).reshape(n, steps, 2)
    return Scene(
        space=space,
        words=words,
        clients=Subscriptions.of(np.arange(n + 1), _starts(clause), np.concatenate(clause), Regions.anywhere(n)),
        radius=np.full(n, float(radius)),
        times=STEP * np.arange(steps),
        x=np.ascontiguousarray(walks[:, :, 0].T),
        y=np.ascontiguousarray(walks[:, :, 1].T),
        messages=Messages.of(
            _starts(terms),
            np.concatenate([np.zeros(0, np.int32), *terms]),
            np.hstack([places, places]),
            expires=np.array(ends, np.int64),
        ),
        batch_start=_starts(said),
    )


def _starts(lists):
    return np.append(0, np.cumsum([len(each) for each in lists])).astype(np.int64)


def random_scene(seed, *, n=6, steps=7, initial=40, arrivals=8, words=3, radius=8.0, speed=3.0, space=PLANE):
    """Return clients that wander through a square of 100 (on the earth: 10 degrees over the dateline)."""
    rng = np.random.default_rng(seed)
    vocabulary = [f"w{i}" for i in range(words)]

    def places(count):
        at = rng.uniform(0, 100, (count, 2))
        return at if space is PLANE else np.column_stack([(at[:, 0] / 10 + 355) % 360 - 180, at[:, 1] / 10])

    walks = places(n)[:, None, :] + np.cumsum(rng.normal(0, speed, (n, steps, 2)), axis=1)
    if space is EARTH:
        walks[:, :, 0] = (walks[:, :, 0] + 180) % 360 - 180
    said = [
        [(place, " ".join(rng.choice(vocabulary, rng.integers(1, 4))), rng.integers(1, 5)) for place in places(count)]
        for count in [initial] + [arrivals] * (steps - 1)
    ]
    wants = [list(rng.choice(vocabulary, rng.integers(1, 3), replace=False)) for _ in range(n)]
    return scene_of(walks, said, wants=wants, radius=radius, space=space)
