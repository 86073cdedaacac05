"""The people of a living town: some walk, some stay at home, and each waits for something in several ways."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearcast.demo.city import DISHES, GENRES, METRES_PER_DEGREE, PEOPLE, STREETS, STYLES, THINGS, Pick, picker
from nearcast.demo.streets import COLUMNS, ROWS, Place, Streets

#: The one whose events go to a webhook as well.
HOOKED = PEOPLE[1]
_EACH = 6


@dataclass(frozen=True)
class Townsperson:
    """A subscriber: where it is at first, whether it walks, and its subscriptions."""

    name: str
    crossing: int
    walks: bool
    subscriptions: list[dict[str, Any]]


def townspeople(streets: Streets, rng: np.random.Generator) -> list[Townsperson]:
    """Return twenty people with six subscriptions each: every other one walks, and has what follows a point."""
    pick = picker(rng)
    people = []
    for at, name in enumerate(PEOPLE):
        crossing, walks = _home(at, rng), at % 2 == 0
        place = streets.crossings[crossing]
        if walks:
            wishes = [_walking(n, place, pick) for n in range(_EACH)]
        else:
            wishes = [_staying(n, place, pick) for n in range(_EACH)]
        numbered = [{"id": f"{name}-{n + 1}", **wish} for n, wish in enumerate(wishes)]
        people.append(Townsperson(name, crossing, walks, numbered))
    return people


def _home(at: int, rng: np.random.Generator) -> int:
    """Return a crossing in a quarter of one's own: the town has five of them from west to east, and four rows."""
    column, row = at % 5 + rng.random(), at // 5 % 4 + rng.random()
    return int(row * ROWS / 4) * COLUMNS + int(column * COLUMNS / 5)


def _walking(n: int, place: Place, pick: Pick) -> dict[str, Any]:
    """Return a subscription that can follow its subscriber: four circles, one by likeness, one list of the best."""
    here = {"lon": place[0], "lat": place[1]}
    if n == 4:
        return {"kind": "similar", "query": _words(pick), "text_weight": 0.6, "threshold": 0.6, **here}
    if n == 5:
        return {"kind": "topk", "query": _words(pick), "k": 3, **here}
    return {"query": _wish(pick), "radius_m": (200.0, 350.0, 500.0, 700.0)[n], **here}


def _staying(n: int, place: Place, pick: Pick) -> dict[str, Any]:
    """Return a subscription around a home: boxes, polygons, one of the whole town, and both other kinds."""
    lon, lat = place
    tall = (250.0 + 200.0 * n) / METRES_PER_DEGREE
    wide = tall / np.cos(np.radians(lat))
    if n < 2:
        return {"query": _wish(pick), "west": lon - wide, "south": lat - tall, "east": lon + wide, "north": lat + tall}
    if n == 2:
        corners = [
            (lon + wide * x, lat + tall * y) for x, y in ((0, 1), (1, 0.2), (0.6, -0.9), (-0.6, -0.9), (-1, 0.2))
        ]
        region = {"type": "Polygon", "coordinates": [[*corners, corners[0]]]}
        return {"query": _wish(pick), "region": json.dumps(region)}
    if n == 3:
        return {"query": f"{pick(GENRES)} concert AND NOT sold"}
    return _walking(n, (lon + (n - 4.5) * wide, lat), pick)


def _wish(pick: Pick) -> str:
    """Return a query that something satisfies every minute or so."""
    return pick(
        (
            f"{pick(DISHES)} OR {pick(DISHES)} OR {pick(DISHES)}",
            f"{pick(STYLES)} OR half",
            "free AND NOT wanted",
            "concert AND NOT sold",
            f"accident OR closed OR {pick(STREETS).lower()}",
            f"used OR {pick(THINGS)}",
            '"two for one" OR discount',
            "tram OR delayed OR roadworks",
        )
    )


def _words(pick: Pick) -> str:
    """Return words without operators, as likeness and top-k want them."""
    return pick(
        (
            f"{pick(STYLES)} {pick(DISHES)} tonight",
            f"free {pick(GENRES)} concert",
            f"used {pick(THINGS)} sale",
            f"accident {pick(STREETS).lower()} street delays",
        )
    )
