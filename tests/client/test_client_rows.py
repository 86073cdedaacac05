"""Batches and places of clients: one bad row stops no other, and places are read as by a hub."""

import asyncio

import numpy as np
import pyarrow as pa
import pytest
import shapely

from nearcast import AsyncClient, Box, Circle, Client, Hub, InvalidInput, Message, Within
from support.http_server import circle, feature, running

NAN = float("nan")
TRIANGLE = shapely.Polygon([(13.0, 52.0), (14.0, 52.0), (13.0, 53.0)])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Run a server on the earth."""
    with running(tmp_path_factory.mktemp("rows") / "data") as found:
        yield found


@pytest.fixture
def client(server):
    """Open a client."""
    with Client(server.url) as found:
        yield found


def _told(rejected):
    return [(row["row"], row["id"], row["field"]) for row in rejected]


def _mixed():
    """Return subscriptions: bad ones that cannot be sent, bad ones that the server finds, and good ones."""
    deep = []
    deep.append(deep)
    return [
        circle("r0"),
        circle("r1", lon=NAN),
        5,
        circle("r3", lat=91),
        Within("r4", "tea", Circle(13.4, 52.5, 800)),
        {"id": "r5", "query": "tea", "region": object()},
        circle("r6", query="half \ud800"),
        circle("r7", labels={"a": deep}),
        {"type": "Feature", "id": "r8", "geometry": None, "properties": 5},
        circle("r9"),
    ]


MIXED = [
    (1, "r1", "lon"),
    (2, None, None),
    (3, "r3", "lat"),
    (5, "r5", "region"),
    (6, "r6", "query"),
    (7, "r7", "labels"),
    (8, "r8", "properties"),
]


def test_one_bad_subscription_stops_no_other(client, server):
    """Rows that cannot be sent and rows that the server refuses are told alike, by the numbers of what was given."""
    found = client.subscribe_many(_mixed(), subscriber="anna")
    assert (3, MIXED) == (found.accepted, _told(found.rejected))
    assert "nan" in found.rejected[0]["reason"]
    assert {"r0", "r4", "r9"} == {each["id"] for each in client.subscriptions("anna")}

    async def act():
        async with AsyncClient(server.url) as other:
            return await other.subscribe_many(_mixed(), subscriber="anna")

    assert _told(found.rejected) == _told(asyncio.run(act()).rejected)


def test_a_hub_rejects_the_same_rows():
    """What a client calls bad, a hub does, too; it has no labels."""
    given = [each for each in _mixed() if not (isinstance(each, dict) and "labels" in each)]
    with Hub() as hub:
        assert [1, 2, 3, 5, 6, 7] == sorted(row.row for row in hub.subscribe_many(given))


def test_one_bad_move_stops_no_other(client):
    """Pointers are into what was given, too."""
    client.subscribe_many([circle("m0"), circle("m1"), {"id": "m2", "query": "tea", "region": TRIANGLE}])
    moves = [
        {"id": "m0", "lon": NAN, "lat": 1},
        "m0",
        {"id": "m0", "lon": 1, "lat": 2},
        {"id": "nobody", "lon": 1, "lat": 2},
        {"id": "m1", "lon": np.float64(3), "lat": 4},
        {"id": "m2", "region": Box(1, 2, 3, 4)},
        {"id": "m2", "region": b"\x00"},
    ]
    found = client.move_many(moves)
    assert 3 == found.accepted
    assert [(0, "m0", "lon"), (1, None, None), (3, "nobody", "id"), (6, "m2", "region")] == _told(found.rejected)
    assert ["/0/lon", "/1", "/3/id", "/6/region"] == [row["pointer"] for row in found.rejected]
    assert (1.0, 3.0) == (client.get("m0")["lon"], client.get("m1")["lon"])
    assert (1.0, 4.0) == (client.get("m2")["west"], client.get("m2")["north"])


def test_one_bad_message_stops_no_other(client):
    """In lists, of which each item is a line."""
    given = [feature("p0"), feature("p1", lon=NAN), "tea", feature("p3", lat=91), Message("p4", "tea", (13.4, 52.5))]
    found = client.publish_many(given)
    assert (2, [1, 2, 3]) == (found.accepted, [row["row"] for row in found.rejected])


@pytest.mark.parametrize("call", ["subscribe_many", "move_many", "publish_many"])
def test_nothing_but_bad_rows(client, call):
    """All are told, and nothing is done; what is no list at all is refused."""
    found = getattr(client, call)([5, {"id": "x", "lon": NAN}])
    assert (0, [0, 1]) == (found.accepted, [row["row"] for row in found.rejected])
    for given in ("tea", {"id": "x"}, 5):
        with pytest.raises(InvalidInput, match="expected a table or a list"):
            getattr(client, call)(given)


@pytest.mark.parametrize("column", ["region", "geometry"])
def test_regions_in_well_known_binary(client, column):
    """As a hub takes them: polygons are regions, points are centres, and what cannot be read is rejected."""
    rows = [shapely.to_wkb(TRIANGLE), b"no region", None, shapely.to_wkb(TRIANGLE)]
    ids = [f"{column}{n}" for n in range(4)]
    table = pa.table({"id": ids, "query": ["tea", "tea", "tea", "tea AND ("], column: pa.array(rows, pa.binary())})
    found = client.subscribe_many(table)
    assert [(1, ids[1], column), (3, ids[3], "query")] == _told(found.rejected)
    assert (2, TRIANGLE) == (found.accepted, shapely.geometry.shape(client.get(ids[0])["region"]))
    moved = pa.table({"id": ids[:2], column: pa.array([shapely.to_wkb(TRIANGLE.buffer(1)), b""], pa.binary())})
    assert [(1, ids[1], column)] == _told(client.move_many(moved).rejected)
    assert shapely.geometry.shape(client.get(ids[0])["region"]).area > TRIANGLE.area


def test_points_and_texts_as_geometries(client):
    """Points in binary with a radius; a row with two regions is rejected as by a hub."""
    text = shapely.to_geojson(TRIANGLE)
    points = pa.array([shapely.to_wkb(shapely.Point(13.4, 52.5))], pa.binary())
    table = pa.table({"id": ["g0"], "query": ["tea"], "geometry": points, "radius_m": [800.0]})
    assert 1 == client.subscribe_many(table).accepted
    assert (13.4, 800.0) == (client.get("g0")["lon"], client.get("g0")["radius_m"])
    table = pa.table({"id": ["g1", "g2"], "query": ["tea"] * 2, "geometry": [text, text], "region": [None, text]})
    found = client.subscribe_many(table)
    assert (1, [(1, "g2", "region")]) == (found.accepted, _told(found.rejected))


@pytest.mark.parametrize(
    "place",
    [(1, 2), [1.0, 2.0], np.array([1, 2]), shapely.Point(1, 2), {"type": "Point", "coordinates": [1, 2]}],
    ids=["tuple", "list", "array", "shapely", "geojson"],
)
def test_points_that_a_hub_takes(client, place):
    """A client takes them as well, for subscriptions and for subscribers."""
    for move in (lambda: client.move("here", place), lambda: client.move_subscriber("ben", place)):
        client.subscribe(circle("here"), subscriber="ben")
        move()
        assert (1.0, 2.0) == (client.get("here")["lon"], client.get("here")["lat"])


@pytest.mark.parametrize("place", ["12", b"12", ("1", "2"), (NAN, 1), (1, 2, 3), None, 5])
def test_what_is_no_point(client, place):
    """Text is none, whatever its characters."""
    client.subscribe(circle("there"), subscriber="cleo")
    for move in (lambda: client.move("there", place), lambda: client.move_subscriber("cleo", place)):
        with pytest.raises(InvalidInput):
            move()
    assert 13.4 == client.get("there")["lon"]


@pytest.mark.parametrize("place", ["12", b"12", bytearray(b"12")])
def test_a_hub_takes_no_text_for_a_point_either(place):
    """Bytes are numbers in Python, and still no place."""
    with Hub() as hub:
        hub.subscribe(circle("here"))
        with pytest.raises(InvalidInput):
            hub.move("here", place)
