"""Safe distances: no place within one changes an answer, and just beyond a circle's something does."""

import math
import random

import pytest

from contract.worlds import EARTH, PLANE, random_said, random_wanted
from nearcast.engine.moves import moved_to
from nearcast.errors import InvalidRegion
from nearcast.geo import EARTH_RADIUS_M, Box, Circle, shape_from
from nearcast.model import Similar
from nearcast.query import parse
from support.live_model import LiveModel

pytestmark = pytest.mark.modes

LONG = 1000
RAMEN = parse("ramen")
ROUND_THE_COMPASS = [k * math.pi / 2 for k in range(4)] + [0.3, 1.2, 2.6, 4.4]


def destination(space, x, y, bearing, distance):
    """Return the place at a distance in a direction; on the earth not beyond a half circle."""
    if not space.is_earth:
        return x + distance * math.sin(bearing), y + distance * math.cos(bearing)
    angle, lat = min(distance / EARTH_RADIUS_M, math.pi), math.radians(y)
    sine = math.sin(lat) * math.cos(angle) + math.cos(lat) * math.sin(angle) * math.cos(bearing)
    to_lat = math.asin(max(-1.0, min(1.0, sine)))
    east = math.sin(bearing) * math.sin(angle) * math.cos(lat)
    lon = x + math.degrees(math.atan2(east, math.cos(angle) - math.sin(lat) * math.sin(to_lat)))
    return (lon + 540.0) % 360.0 - 180.0, math.degrees(to_lat)


def centre(shape):
    if isinstance(shape, Circle):
        return shape.x, shape.y
    width = (shape.x_max - shape.x_min) % 360.0 if shape.x_max < shape.x_min else shape.x_max - shape.x_min
    x = shape.x_min + width / 2
    return (x - 360.0 if x > 180.0 else x), (shape.y_min + shape.y_max) / 2


def carried(space, shape, distance):
    """Return a region carried that far in all directions, but where it does not fit."""
    for bearing in ROUND_THE_COMPASS:
        try:
            yield moved_to(shape, *destination(space, *centre(shape), bearing, distance), space)
        except InvalidRegion:
            continue


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
@pytest.mark.parametrize("seed", range(2))
def test_places_within_a_safe_distance_change_nothing(name, space, seed):
    rng = random.Random(seed)
    model = LiveModel(name, space)
    model.append([(tuple(tokens), place) for tokens, place in random_said(rng, space, 40)], [LONG] * 40)
    wanted = [each for each in random_wanted(rng, space, 40) if isinstance(each[1], Box | Circle)]
    moves = []
    for each, safe in zip(wanted, model.safe_distance(wanted), strict=True):
        reach = min(safe, 3e7)
        if reach > 0.0:
            moves += [(each, shape) for part in (1.0, 0.7) for shape in carried(space, each[1], part * reach)]
    assert len(moves) > 100
    expected = [[]] * len(moves)
    assert expected == model.moved([each for each, _ in moves], [shape for _, shape in moves])


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_stores_agree_on_safe_distances(space):
    """`cells` bounds as tightly as `scan`, but for the margins of rounding."""
    found = []
    for name in ("scan", "cells"):
        rng = random.Random(9)
        model = LiveModel(name, space)
        model.append([(tuple(tokens), place) for tokens, place in random_said(rng, space, 300)], [LONG] * 300)
        found.append(model.safe_distance(random_wanted(rng, space, 60, ("within", "similar"))))
    assert found[0] == pytest.approx(found[1], rel=1e-9, abs=1e-5)
    assert {0.0} < set(found[0])


def test_circle_goes_as_far_as_its_nearest_border(plane, earth):
    """The least |distance - radius|, for messages inside as well as outside (footnote 17 forgets those inside)."""
    plane.append([(("ramen",), (3.0, 0.0, 3.0, 0.0)), (("ramen",), (0.0, 12.0, 0.0, 12.0))], [LONG] * 2)
    assert [1.0] == pytest.approx(plane.safe_distance([(RAMEN, Circle(0, 0, 4))]))
    assert [2.0] == pytest.approx(plane.safe_distance([(RAMEN, Circle(0, 0, 10))]))
    assert [0.0] == plane.safe_distance([(RAMEN, Circle(0, 0, 3))])
    assert [("-", 0)] == [
        ("-+"[enters], arrival)
        for enters, arrival, _ in plane.moved([(RAMEN, Circle(0, 0, 4))], [Circle(-1.000001, 0, 4)])[0]
    ]
    earth.append([(("ramen",), (179.99, 0.0, 179.99, 0.0))], [LONG])
    metres = math.radians(0.02) * EARTH_RADIUS_M
    assert [metres - 1000.0] == pytest.approx(earth.safe_distance([(RAMEN, Circle(-179.99, 0, 1000))]))


def test_box_goes_as_far_as_its_nearest_side(plane, earth):
    plane.append([(("ramen",), (3.0, 0.0, 3.0, 0.0))], [LONG])
    inside, beside, at_a_corner = Box(0, -1, 5, 9), Box(4, -1, 5, 9), Box(6, 4, 9, 9)
    assert [1.0, 1.0, 5.0] == pytest.approx(
        plane.safe_distance([(RAMEN, inside), (RAMEN, beside), (RAMEN, at_a_corner)])
    )
    earth.append([(("ramen",), (-179.0, 60.0, -179.0, 60.0))], [LONG])
    degree = math.radians(1.0) * EARTH_RADIUS_M
    assert [degree / 2] == pytest.approx(earth.safe_distance([(RAMEN, Box(178, 55, 180, 65))]), rel=1e-3)
    assert [degree] == pytest.approx(earth.safe_distance([(RAMEN, Box(170, 59, -170, 80))]), rel=1e-3)


def test_only_messages_with_the_words_that_live_count(plane):
    plane.append([(("soup",), (1.0, 0.0, 1.0, 0.0)), (("ramen",), (7.0, 0.0, 7.0, 0.0))], [LONG, 10])
    circle = (RAMEN, Circle(0, 0, 2))
    assert [5.0, math.inf] == pytest.approx(plane.safe_distance([circle, circle], [9, 10]))


def test_nothing_is_known_of_scores_polygons_and_no_region(earth):
    earth.append([(("ramen",), (1.0, 0.0, 1.0, 0.0))], [LONG])
    similar = Similar(0, place=(0, 0), terms=("ramen",), threshold=0.5, max_distance=1e6)
    polygon = {"type": "Polygon", "coordinates": [[[0, 0], [9, 0], [0, 9], [0, 0]]]}
    assert [0.0, 0.0, 0.0] == earth.safe_distance([similar, (RAMEN, shape_from(polygon, EARTH)), (RAMEN, None)])
