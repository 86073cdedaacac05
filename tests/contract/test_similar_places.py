"""Named cases of where a message is to a similar subscription: rims, poles, the dateline, rectangles, any scale."""

import math
import random

import numpy as np
import pytest

from contract.scored import LEAST, Table, reached, similar
from contract.worlds import EARTH, PLANE, point
from nearcast.testing.plain import score

pytestmark = [pytest.mark.modes, pytest.mark.small]

NORTH = float(EARTH.distance(0, 0, 0, 1))
OVER_DATELINE = float(EARTH.distance(179.9, 0, -179.9, 0))


#: The place of a subscription, its reach, the place of a message, and how far that is, None where only the space can
#: tell. Those of a group are asked together, so that extents of all sizes occur.
NEAR = {
    "plane": [
        ((0, 0), 10, point(0, 0), 0),
        ((0, 0), 10, point(3, 4), 5),
        ((0, 0), 10, point(6, 8), 10),
        ((0, 0), 10, point(-10, 0), 10),
        ((0, 0), 10, point(9.999999, 0), 9.999999),
        ((0, 0), 10, point(10.000001, 0), 10.000001),
        ((2, 1), 10, (-5, -5, 5, 5), 0),
        ((5, 5), 10, (-5, -5, 5, 5), 0),
        ((0, 5), 10, (-5, -5, 5, 5), 0),
        ((0, 0), 10, (5, -1, 9, 1), 5),
        ((0, 0), 10, (3, 4, 9, 9), 5),
        ((0, 0), 10, (-9, -9, -6, -8), 10),
        ((0, 0), 10, (3, -2, 3, 2), 3),
        ((0, 0), 1e-6, point(5e-7, 0), 5e-7),
        ((0, 0), 1e-6, point(1e-6, 0), 1e-6),
        ((3e-7, 4e-7), 1e-6, point(0, 0), math.hypot(3e-7, 4e-7)),
        ((0, 0), 1e300, point(1e6, 0), 1e6),
        ((0, 0), 1e30, point(-3e29, 4e29), 5e29),
        ((0, 0), 1e30, (3e29, 4e29, 4e29, 4e29), 5e29),
        ((1e-6, 0), 1e12, point(3e11, -4e11), 5e11),
        ((0, 0), 1.7e308, point(-1e300, 1e300), math.hypot(1e300, 1e300)),
    ],
    "plane, a million": [
        ((1e6, -1e6), 1e6, point(1.5e6, -1e6), 5e5),
        ((1e6, -1e6), 1e6, point(-1e6, 1e6), math.hypot(2e6, 2e6)),
    ],
    "plane, huge": [
        ((1e300, -1e300), 1e300, point(5e299, -1e300), 5e299),
        ((1e300, -1e300), 1e300, point(-1e300, 1e300), math.hypot(2e300, 2e300)),
    ],
    "plane, no reach": [
        ((0, 0), LEAST, point(0, 0), 0),
    ],
    "plane, huge and no reach": [
        ((1e300, -1e300), 1e-300, point(1e300, -1e300), 0),
    ],
    "earth": [
        ((10, 10), 2 * NORTH, point(10, 11), None),
        ((0, 0), NORTH, point(0, 1), NORTH),
        ((0, 0), NORTH, point(0, 0.999), None),
        ((0, 0), NORTH, point(0, 1.001), None),
        ((179.9, 0), 1e5, point(-179.9, 0), OVER_DATELINE),
        ((-179.9, 0), 1e5, point(179.9, 0), OVER_DATELINE),
        ((179.9, 0), OVER_DATELINE, point(-179.9, 0), OVER_DATELINE),
        ((180, 5), 1, point(-180, 5), 0),
        ((-180, 5), 1, point(180, 5), 0),
        ((17, 90), 1, point(-120, 90), 0),
        ((17, -90), 1, point(163, -90), 0),
        ((0, 90), 2 * NORTH, point(50, 89), None),
        ((0, 89), 3 * NORTH, point(180, 89), None),
        ((0, -89.5), 2 * NORTH, point(180, -89.5), None),
        ((0, 0), 3e7, point(180, 0), None),
        ((0, 90), 3e7, point(0, -90), None),
        ((0, 0), 1e9, point(179, 3), None),
        ((180, 0), 1e5, (179, -1, -179, 1), 0),
        ((-180, 0), 1e5, (179, -1, -179, 1), 0),
        ((-179, 1), 1e5, (179, -1, -179, 1), 0),
        ((178, 0), 1e6, (179, 0, -179, 1), NORTH),
        ((-178, 0), 1e6, (179, 0, -179, 1), NORTH),
        ((-179.9, 0), 1e5, (170, -1, 179.9, 1), OVER_DATELINE),
        ((180, 0), 1e5, (-180, -1, -170, 1), 0),
        ((3, 4), 1e5, (-180, -90, 180, 90), 0),
        ((77, 90), 2 * NORTH, (0, 80, 10, 89), None),
        ((0, 0), 1e7, (20, 40, 30, 50), None),
        ((0, 60), 1e7, (90, 0, 100, 80), None),
    ],
}


def asked_nearby(at, max_distance, near):
    """Return subscriptions to a word, for a message that has it: by place alone, and by word and place."""
    given = {"place": at, "max_distance": max_distance}
    return [
        similar(text_weight=0.0, threshold=LEAST, **given),
        similar(text_weight=0.5, threshold=0.5, **given),
        similar(text_weight=0.5, threshold=0.5 + 0.5 * near, **given),
        similar(text_weight=0.5, threshold=math.nextafter(0.5, 1), **given),
    ]


def nearness(space, at, max_distance, place):
    return max(0.0, 1.0 - float(space.distance_to_box(*at, place)) / max_distance)


def near_table(group):
    space = EARTH if group.startswith("earth") else PLANE
    cases = [
        (asked_nearby(at, reach, nearness(space, at, reach, place)), (["a"], place))
        for at, reach, place, _ in NEAR[group]
    ]
    return Table(space, cases)


NEAR_TABLES = {group: near_table(group) for group in NEAR}


@pytest.mark.parametrize("group", NEAR)
def test_how_near_a_message_is(scored_spec, group):
    """Near is 1 - distance / max_distance, to the nearest point of a rectangle, over the dateline and the poles.

    It is scored alone, and as half of a score to which all words are the other half.
    """
    space = EARTH if group.startswith("earth") else PLANE
    for number, (at, max_distance, place, distance) in enumerate(NEAR[group]):
        assert distance is None or distance == pytest.approx(float(space.distance_to_box(*at, place)), rel=1e-12)
        near = nearness(space, at, max_distance, place)
        both = 0.5 + 0.5 * near
        expected = {0: near} if near > 0.0 else {}
        expected |= {1: both, 2: both} | ({3: both} if both > 0.5 else {})
        assert (at, place, expected) == (at, place, NEAR_TABLES[group].found(scored_spec, number))


def test_a_message_at_max_distance_to_the_last_bit(new_scored):
    """The rim itself is not near: there and beyond only words count; a step inside, place counts too."""
    reach = float(PLANE.distance(0, 0, 7, 3))
    wanted = [similar(text_weight=0.5, threshold=threshold, max_distance=reach) for threshold in (0.5, 0.5 + 1e-12)]
    inside = point(math.nextafter(7.0, 0.0) - 1e-9, 3.0)
    said = [(["a"], point(7, 3)), (["a"], point(7.1, 3)), (["a"], inside)]
    on_rim, beyond, within = reached(new_scored(PLANE), wanted, said)
    assert [{0: 0.5}, {0: 0.5}] == [on_rim, beyond]
    assert [0, 1] == list(within)


def ring(space, at, reach):
    """Return points around a place on both sides of a distance from it, without much care for exactness."""
    x, y = at
    for step in range(6):
        angle = math.tau * step / 6
        for share in (0.99, 1.01):
            if not space.is_earth:
                yield x + share * reach * math.cos(angle), y + share * reach * math.sin(angle)
                continue
            degrees = share * reach / NORTH
            lat = max(-90.0, min(90.0, y + degrees * math.sin(angle)))
            lon = x + degrees * math.cos(angle) / max(math.cos(math.radians(lat)), 0.01)
            yield (lon + 540.0) % 360.0 - 180.0, lat


def ring_cases(space):
    """Return subscriptions for which half a score in words is lost beyond half their reach, and rings around them."""
    reach = 5e5 if space.is_earth else 5.0
    places = ((0, 0), (179, -60), (30, 89))
    wanted = [similar("a b", place=at, threshold=0.5, max_distance=2 * reach) for at in places]
    return reach, [([each], (["a"], point(*at))) for each in wanted for at in ring(space, each.place, reach)]


RINGS = {space.kind: (space, *ring_cases(space)) for space in (EARTH, PLANE)}
RING_TABLES = {kind: Table(space, cases) for kind, (space, _, cases) in RINGS.items()}


@pytest.mark.parametrize("kind", ["earth", "plane"])
def test_a_ring_of_messages_around_a_place(scored_spec, kind):
    """Messages in all directions, just inside and just outside the distance at which a score is lost."""
    space, reach, cases = RINGS[kind]
    found = [bool(RING_TABLES[kind].found(scored_spec, number)) for number in range(len(cases))]
    assert [space.distance(*each.place, *place[:2]) <= reach for (each,), (_, place) in cases] == found
    assert 9 <= sum(found) < len(cases) - 9


def lost_in_24_bits(distance):
    """Return what is left of a squared distance when float32 squares it, after rounding it up."""
    short = np.float32(distance)
    short = short if float(short) >= distance else np.nextafter(short, np.float32(np.inf))
    return float(short * short) / distance**2


def tie_cases(space):
    """Return subscriptions that a message just reaches, at distances that suffer most from float32."""
    rng = random.Random(4)
    pairs = [[rng.uniform(-10, 10) for _ in range(4)] for _ in range(2000)]
    for x, y, *there in sorted(pairs, key=lambda pair: lost_in_24_bits(space.distance(*pair)))[:30]:
        text_weight, place = rng.choice([0.0, 0.5, 0.9]), point(*there)
        reach = rng.choice([1.5, 2.0, 4.0]) * space.distance(x, y, *there)
        given = {"place": (x, y), "text_weight": text_weight, "max_distance": reach}
        words = rng.choice(["a", "a b"])
        exact = score(similar(words, **given), ["a"], place, space, {})
        yield [similar(words, threshold=exact, **given)], (["a"], place)


TIES = {space.kind: list(tie_cases(space)) for space in (EARTH, PLANE)}
TIE_TABLES = {space.kind: Table(space, TIES[space.kind]) for space in (EARTH, PLANE)}


@pytest.mark.parametrize("kind", ["earth", "plane"])
def test_bounds_are_not_rounded_inward(scored_spec, kind):
    """A message that just reaches the threshold is found at any distance: 24 bits are not enough to leave it out."""
    expected = [{0: wanted.threshold} for (wanted,), _ in TIES[kind]]
    assert expected == [TIE_TABLES[kind].found(scored_spec, number) for number in range(len(TIES[kind]))]
