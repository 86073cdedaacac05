"""Larkhaven, a made-up city: its districts, what is posted there in an evening, and what its people wait for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

NAME = "Larkhaven"
#: Far out at sea: nobody lives there to object.
CENTRE_LON, CENTRE_LAT = -31.6, 42.4
METRES_PER_DEGREE = 111_195.0
EVENING = datetime(2026, 5, 1, 16, 0, tzinfo=UTC)


class District(NamedTuple):
    """A part of the city: how far it lies from the centre, how far it spreads, and how much goes on there."""

    name: str
    east_m: float
    north_m: float
    spread_m: float
    bustle: float
    topic: str  # what is posted here more than elsewhere

    @property
    def centre(self) -> tuple[float, float]:
        """The longitude and latitude of its middle."""
        return degrees(self.east_m, self.north_m)


DISTRICTS = (
    District("Old Town", 0, 0, 500, 3.0, "events"),
    District("Harbour", -1900, -900, 600, 2.2, "food"),
    District("Lantern Quarter", 900, -700, 400, 2.6, "food"),
    District("Stationside", 1500, 600, 450, 2.0, "traffic"),
    District("University Hill", -800, 1700, 700, 1.6, "events"),
    District("Tannery Row", 2300, -1600, 500, 1.0, "sales"),
    District("Glasshouse", -2600, 900, 650, 0.9, "sales"),
    District("Millbrook", 3600, 1900, 900, 0.7, "traffic"),
    District("Orchard Park", -1300, -2900, 900, 0.6, "sales"),
    District("Saltmarsh", -4200, -2300, 1200, 0.3, "traffic"),
)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


DISHES = _words("ramen pizza tacos burger falafel dumplings sushi curry waffles chowder paella pancakes")
STYLES = _words("vegan spicy homemade smoky fresh crispy vegetarian halal")
KITCHENS = ("The Copper Pot", "Nonna Bea", "Blue Anchor", "Golden Fern", "Little Pavilion", "Night Kitchen")
OFFERS = ("half price until nine", "two for one tonight", "free coffee with every order", "last portions", "now open")
THINGS = _words("ipad bicycle camera guitar sofa laptop stroller turntable lamp telescope bookshelf kayak")
STATES = ("like new", "small scratch", "box included", "pick up only", "must go today")
GENRES = _words("jazz folk techno blues choir swing salsa opera")
VENUES = ("the Boathouse", "Cellar Nine", "St Olave Hall", "the old cinema", "Rope Street stage", "the courtyard")
STREETS = _words("Rope Sailmaker Chandler Juniper Mill Lantern Foundry Orchard Tidewater Crescent")
PEOPLE = _words("ada ben cleo dario edda finn gita hugo ines jonas kira leo mira nils olga pia quinn rosa sami tove")

Pick = Callable[[Sequence[str]], str]


def _food(pick: Pick) -> str:
    style, dish, kitchen = pick(STYLES), pick(DISHES), pick(KITCHENS)
    return f"{style.capitalize()} {dish} at {kitchen}, {pick(OFFERS)}"


def _sales(pick: Pick) -> str:
    thing = pick(THINGS)
    return pick(
        (
            f"Selling my used {thing}, {pick(STATES)}",
            f"New {thing} on sale, {pick(('20', '30', '50'))} % discount this week",
            f"Giving away a {thing}, free, {pick(STATES)}",
            f"Wanted: {thing}, used is fine",
        )
    )


def _events(pick: Pick) -> str:
    genre, venue = pick(GENRES), pick(VENUES)
    return pick(
        (
            f"{genre.capitalize()} concert tonight at {venue}, free entry",
            f"{genre.capitalize()} concert at {venue}, sold out, try the waiting list",
            f"Open air {genre} festival starts now near {venue}",
            f"Flea market behind {venue}, {pick(THINGS)} and {pick(THINGS)} spotted",
            f"Free {genre} dance class at {venue}",
        )
    )


def _traffic(pick: Pick) -> str:
    street = pick(STREETS)
    return pick(
        (
            f"Accident on {street} Street, expect delays",
            f"Roadworks: {street} Street closed until Monday",
            f"Tram line {pick('2469')} delayed at {street} Street",
            f"{street} Street is open again after the accident",
        )
    )


POSTS = {"food": _food, "sales": _sales, "events": _events, "traffic": _traffic}


def _wish(pick: Pick) -> str:
    """Return a query as somebody in town would write it."""
    dish, thing, genre, street = pick(DISHES), pick(THINGS), pick(GENRES), pick(STREETS).lower()
    return pick(
        (
            f"{pick(STYLES)} {dish}",
            f"{dish} AND NOT spicy",
            f'{dish} "half price"',
            f"({dish} OR {pick(DISHES)}) AND (vegan OR vegetarian)",
            f"{thing} AND NOT used",
            f"used {thing} AND NOT wanted",
            f"{thing} (free OR discount)",
            f"{genre} concert AND NOT sold",
            f"free {genre}",
            f'"flea market" {thing}',
            f"{street} (accident OR closed)",
            f"tram delayed {street}",
        )
    )


class City(NamedTuple):
    """One evening in Larkhaven, as tables in interchange columns; messages also say their `district`."""

    subscriptions: pa.Table
    messages: pa.Table


def evening(subscriptions: int = 20_000, messages: int = 5_000, seed: int = 1) -> City:
    """Return the requests of its people and the messages of an evening; the same seed gives the same evening."""
    rng = np.random.default_rng(seed)
    return City(_subscriptions(rng, subscriptions), _messages(rng, messages))


def _messages(rng: np.random.Generator, n: int) -> pa.Table:
    pick = picker(rng)
    district, lon, lat = _scattered(rng, n)
    texts, topics = [], list(POSTS)
    for row in range(n):
        local = rng.random() < 0.4
        texts.append(POSTS[DISTRICTS[district[row]].topic if local else pick(topics)](pick))
    times = [EVENING + timedelta(seconds=round(6 * 3600 * row / n, 3)) for row in range(n)]
    columns = {
        "id": [f"post-{row:04d}" for row in range(n)],
        "text": texts,
        "lon": lon,
        "lat": lat,
        "time": pa.array(times, pa.timestamp("us", tz="UTC")),
        "district": [DISTRICTS[at].name for at in district],
    }
    return pa.table(columns)


def _subscriptions(rng: np.random.Generator, n: int) -> pa.Table:
    """Return people around their homes: most in a circle, some in a square, a few in the outline of their district."""
    pick = picker(rng)
    district, lon, lat = _scattered(rng, n)
    radius = rng.choice([300.0, 500.0, 800.0, 1200.0, 2500.0], n)
    form = rng.choice(["circle", "square", "district"], n, p=[0.8, 0.15, 0.05])
    outlines = [_outline(each) for each in DISTRICTS]
    rows: list[dict[str, Any]] = []
    for row in range(n):
        wish = {"id": f"{pick(PEOPLE)}-{row:05d}", "query": _wish(pick)}
        rows.append(wish | _region(form[row], lon[row], lat[row], radius[row], outlines[district[row]]))
    names = ("id", "query", "lon", "lat", "radius_m", "west", "south", "east", "north", "region")
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def _region(form: str, lon: float, lat: float, radius: float, outline: str) -> dict[str, Any]:
    if form == "circle":
        return {"lon": lon, "lat": lat, "radius_m": radius}
    if form == "district":
        return {"region": outline}
    tall = radius / METRES_PER_DEGREE
    wide = tall / np.cos(np.radians(lat))
    return {"west": lon - wide, "south": lat - tall, "east": lon + wide, "north": lat + tall}


def _outline(district: District) -> str:
    """Return a hexagon around a district as GeoJSON."""
    turn = np.radians(np.arange(0, 361, 60))
    corners = [
        degrees(district.east_m + 1.5 * district.spread_m * east, district.north_m + 1.5 * district.spread_m * north)
        for east, north in zip(np.cos(turn), np.sin(turn), strict=True)
    ]
    return json.dumps({"type": "Polygon", "coordinates": [[*corners[:-1], corners[0]]]})


def _scattered(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return district, longitude and latitude of n places; busy districts have more."""
    bustle = np.array([each.bustle for each in DISTRICTS])
    district = rng.choice(len(DISTRICTS), n, p=bustle / bustle.sum())
    middle = np.array([[each.east_m, each.north_m] for each in DISTRICTS])[district]
    spread = np.array([each.spread_m for each in DISTRICTS])[district]
    east, north = (middle + rng.normal(size=(n, 2)) * spread[:, None]).T
    return district, *degrees(east, north)


def degrees(east_m: Any, north_m: Any) -> tuple[Any, Any]:
    """Return the longitude and latitude of a place so far east and north of the centre."""
    lat = CENTRE_LAT + north_m / METRES_PER_DEGREE
    return CENTRE_LON + east_m / (METRES_PER_DEGREE * np.cos(np.radians(CENTRE_LAT))), lat


def picker(rng: np.random.Generator) -> Pick:
    """Return a function that picks one of some texts."""
    # One call of rng.choice takes some 10 µs; a block of numbers drawn ahead makes a pick nearly free.
    block: list[float] = []

    def pick(options: Sequence[str]) -> str:
        if not block:
            block.extend(rng.random(4096).tolist())
        return options[int(block.pop() * len(options))]

    return pick
