"""Seeded worlds of subscriptions and messages, larger than Hypothesis would draw them."""

import math
import random
from dataclasses import replace

from nearcast.geo import Area, Box, Circle, Space, shape_from
from nearcast.model import SIMILARITIES, Similar, TopK
from nearcast.query import parse
from nearcast.testing.plain import score, topk_score

EARTH, PLANE = Space.earth(), Space.plane()

#: Small enough numbers that a few dozen rows walk through many cells, blocks, segments and merges.
SMALL = "trigger:leaf_rows=4,few=1,delta_rows=8"
LARGER_CELLS = "trigger:leaf_rows=64,few=0,delta_rows=64"
STAMPS = [f"stamp:filters={each},fan_out=4" for each in ("sp", "sp+hi", "sp+rp+hi", "sp+st+hi", "sp+rp+st+hi")]
STAMPS_BETWEEN = STAMPS[1:-1]
#: Those whose index is registered and has these options are tested beside every index with its defaults.
VARIANTS = (
    SMALL,
    LARGER_CELLS,
    *STAMPS,
    *(f"{name}:fan_out=4" for name in ("ir-tree-1", "ir-tree-100", "rt++-similar")),
    "skype:leaf=4,groups=3",
    "ipt:leaf=4",
    "ciq:leaf=4,cells=7",
    "ap-tree:fan_out=4,leaf=2",
    "ap+-tree:fan_out=4,leaf=2",
    *(f"{name}:leaf=2,depth=5,update=0.0001" for name in ("iq-tree", "rq-tree", "trie-quad")),
    "fast:threshold=1,grid=16",
    *(f"{name}:min_entries=1,max_entries=3" for name in ("spatial-first", "ir-tree", "rt-tree", "rt+-tree")),
    "rt++-tree:min_entries=2,max_entries=4",
    *(f"{name}:leaf=2,depth=5,update=0.0001" for name in ("iq+-tree", "rq+-tree")),
    *(f"{name}:cells=5" for name in ("ss-index", "kk-index")),
)

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


def random_word(rng):
    """As unequal in frequency as words are in life."""
    return WORDS[min(int(rng.paretovariate(0.7)) - 1, len(WORDS) - 1)]


def random_query(rng):
    """Mostly plain AND."""
    a, b, c, d = (random_word(rng) for _ in range(4))
    forms = [a, f"{a} {b}", f"{a} {b} {c}", f"{a} OR {b}", f'"{a} {b}"', f"{a} NOT {b}", f"({a} OR {b}) ({c} OR {d})"]
    return parse(rng.choice([*forms[:3], *forms]))


def random_similar(rng, space, heard=(), weights=None):
    """Any text function, weights of 0 and 1 and between, thresholds from easy to out of reach.

    Of two, one is made to fit a message that was heard: at its place or `max_distance` from it, with some of its words,
    with its score for a threshold, or the float beside that.
    """
    text_weight = rng.choice([0.0, 1.0, 0.5, rng.random(), rng.random(), rng.random()])
    words = [random_word(rng) for _ in range(rng.randint(0 if text_weight == 0.0 else 1, 6))]
    x, y, _, _ = random_place(rng, space)
    wanted = Similar(
        0,
        place=(x, y),
        terms=tuple(words),
        text_weight=text_weight,
        threshold=rng.choice([1.0, 0.5, rng.uniform(0.05, 1.0), rng.uniform(0.3, 0.8)]),
        max_distance=rng.choice([1.0, 5.0, 20.0, rng.uniform(0.1, 30.0)]) * (111_195.0 if space.is_earth else 1.0),
        similarity=rng.choice(SIMILARITIES),
    )
    return _fitting(rng, space, wanted, rng.choice(heard), weights or {}) if heard and rng.random() < 0.5 else wanted


def _fitting(rng, space, wanted, said, weights):
    tokens, place = said
    if rng.random() < 0.2:
        wanted = replace(wanted, place=place[:2])
    if rng.random() < 0.3 and (away := float(space.distance_to_box(*wanted.place, place))):
        wanted = replace(wanted, max_distance=away * rng.choice([1.0, 1.0, 1.5, 2.0]))
    if tokens and wanted.terms:
        wanted = replace(wanted, terms=(*wanted.terms[1:], *rng.sample(tokens, rng.randint(1, min(len(tokens), 4)))))
    reached = score(wanted, tokens, place, space, weights)
    threshold = rng.choice([reached, reached, math.nextafter(reached, 0.0), math.nextafter(reached, 2.0)])
    edges = [1.0 - wanted.text_weight, wanted.text_weight, wanted.threshold]
    usable = [value for value in (threshold, threshold, threshold, rng.choice(edges)) if 0.0 < value <= 1.0]
    most = 1.0 if wanted.terms else 1.0 - wanted.text_weight
    return replace(wanted, threshold=min(rng.choice(usable or [1.0]), most))


def random_topk(rng, space, heard=()):
    """Any text weight; of two, one has words of a message that was heard, and is at its place or in reach of it."""
    words = [random_word(rng) for _ in range(rng.randint(1, 6))]
    x, y, _, _ = random_place(rng, space)
    reach = rng.choice([1.0, 5.0, 20.0, rng.uniform(0.1, 30.0)]) * (111_195.0 if space.is_earth else 1.0)
    text_weight = rng.choice([0.0, 1.0, 0.5, rng.random(), rng.random(), rng.random()])
    wanted = TopK(0, place=(x, y), terms=tuple(words), text_weight=text_weight, max_distance=reach)
    if heard and rng.random() < 0.5:
        tokens, place = rng.choice(heard)
        if rng.random() < 0.4:
            wanted = replace(wanted, place=place[:2])
        elif away := float(space.distance_to_box(x, y, place)):
            wanted = replace(wanted, max_distance=away * rng.choice([1.0, 1.0, 1.5, 2.0]))
        if tokens:
            wanted = replace(wanted, terms=(*words[1:], *rng.sample(tokens, rng.randint(1, min(len(tokens), 4)))))
    return wanted


def random_thresholds(rng, space, wanted, said, weights):
    """Return a threshold for each top-k subscription: the score of a message, the float beside it, an edge, or any."""
    values = []
    for each in wanted:
        tokens, place = rng.choice(said)
        reached = topk_score(each, tokens, place, space, weights)
        exact = [0.5] if reached is None else [reached, math.nextafter(reached, 0.0), math.nextafter(reached, 9.0)]
        values.append(rng.choice([exact[0], *exact, 0.0, 1.0, rng.random(), rng.uniform(0.3, 0.8)]))
    return values


def random_weights(rng):
    """What words weigh: some nothing, some alike, one word far more than the rest."""
    weights = {word: rng.choice([0.0, 1.0, 2.0, rng.uniform(0.1, 9.0), rng.uniform(0.1, 9.0)]) for word in WORDS}
    return weights | {rng.choice(WORDS): 1e4, "unknown": rng.choice([0.0, 1.5])}


def random_wanted(rng, space, n, kinds=("within",), heard=(), weights=None):
    """Return n subscriptions, of any of these kinds with equal chance."""

    def one(kind):
        if kind == "similar":
            return random_similar(rng, space, heard, weights)
        if kind == "topk":
            return random_topk(rng, space, heard)
        return random_query(rng), random_region(rng, space)

    return [one(kinds[0] if len(kinds) == 1 else rng.choice(kinds)) for _ in range(n)]


def random_said(rng, space, n, longest=12):
    return [
        (
            [rng.choice([*WORDS[:10], *WORDS, "unknown"]) for _ in range(rng.randint(0, longest))],
            random_place(rng, space),
        )
        for _ in range(n)
    ]


def world(seed, space, n_subscriptions, n_messages, kinds=("within",)):
    """Return (wanted, said) of a seed."""
    rng = random.Random(seed)
    if kinds == ("within",):
        return random_wanted(rng, space, n_subscriptions), random_said(rng, space, n_messages)
    said = random_said(rng, space, n_messages)
    return random_wanted(rng, space, n_subscriptions, kinds, said), said


def area(*rings):
    return Area({"type": "Polygon", "coordinates": [list(map(list, ring)) for ring in rings]})
