"""A single move goes a shorter way than a table of moves, and to the same place."""

import random

import pytest

from nearcast import Hub, Message, Within, request_texts
from nearcast.errors import InvalidInput
from nearcast.geo import Box, Circle

pytestmark = pytest.mark.modes


def subscriptions(space):
    """Return boxes and circles with one clause and more, one around the earth, one that contradicts itself."""
    on_earth = space == "earth"
    near, metres = (179.0 if on_earth else 5.0), (50_000.0 if on_earth else 0.5)
    return [
        Within(0, "tea", region=Box(0, 0, 1, 1)),
        Within(1, "tea OR cake", region=Box(-0.3, 2, 0.7, 2.1)),
        Within(2, "tea", region=Circle(1, 1, metres)),
        Within(3, "tea NOT tea", region=Box(0, 0, 1, 1)),
        Within(4, "tea", region=Box(near, 0, -near if on_earth else near + 1, 1)),
        Within(5, "", region=Box(-180, -1, 180, 1)),
        Within(6, "cake", region=Box(3, 3, 3, 3)),
        Within(7, "cake"),
    ]


def goals(rng, space):
    """Yield places all over, at the dateline, at the pole and off the earth."""
    for _ in range(60):
        x, y = rng.uniform(-4, 4), rng.uniform(-4, 4)
        if space == "earth":
            x = rng.choice([x, x, 179.9, -180.0, rng.uniform(-180, 180), 181.0])
            y = rng.choice([y, y, y, y, 89.9, -90.0, 91.0])
        yield rng.randrange(8), (x, y)


@pytest.mark.parametrize("space", ["earth", "plane"])
def test_single_moves_and_tables_lead_to_the_same_places(space):
    """Regions, answers and refusals are the same."""
    one, many = Hub(space=space), Hub(space=space)
    for hub in (one, many):
        for each in subscriptions(space):
            hub.subscribe(each)
    n_refused = 0
    names = ("lon", "lat") if space == "earth" else ("x", "y")
    for i, place in goals(random.Random(4), space):
        told = many.move_many([{"id": i} | dict(zip(names, place, strict=True))])
        if told.rejected:
            n_refused += 1
            with pytest.raises(InvalidInput):
                one.move(i, place)
        else:
            one.move(i, place)

        assert [many.get(k) for k in range(8)] == [one.get(k) for k in range(8)]
        x, y = (max(-limit, min(limit, value)) for value, limit in zip(place, (180.0, 90.0), strict=True))
        message = Message(1, "tea", (x, y))
        assert list(many.publish(message)) == list(one.publish(message))

    assert n_refused > 3


def test_texts_that_hold_a_region_do_not_pile_up(monkeypatch):
    """What a subscription's text said before a move is forgotten, however often it moves."""
    monkeypatch.setattr(request_texts, "_SPARE_BYTES", 1000)
    hub = Hub()
    hub.subscribe(Within(0, "tea NOT tea", region=Box(0, 0, 1, 1)))
    for i in range(60):
        hub.move(0, (i / 60, 1.0))
        hub.move_many([{"id": 0, "lon": i / 60, "lat": 2.0}])

    assert hub.stats()["text_bytes"] < 4000
    assert Box(59 / 60 - 0.5, 1.5, 59 / 60 + 0.5, 2.5) == hub.get(0).region
