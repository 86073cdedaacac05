"""Polygons that subscriptions move to in bulk are read back as they were given, those over the dateline too."""

import json

import pyarrow as pa
import pytest

from nearcast import Hub
from nearcast.durable import DurableHub

TRIANGLE = {"type": "Polygon", "coordinates": [[[170, 0], [-170, 0], [-170, 10], [170, 0]]]}
INLAND = {"type": "Polygon", "coordinates": [[[0, 0], [10, 0], [0, 10], [0, 0]]]}
SUBSCRIPTIONS = [
    {"id": "circle", "query": "tea", "lon": 1, "lat": 2, "radius_m": 1000},
    {"id": "box", "query": "tea", "west": 1, "south": 2, "east": 3, "north": 4},
    {"id": "never", "query": "tea AND NOT tea", "region": INLAND},
    {"id": "polygon", "query": "tea", "region": TRIANGLE},
]


def read_back(hub):
    return {each["id"]: repr(hub.get(each["id"])) for each in SUBSCRIPTIONS}


@pytest.mark.parametrize("index", ["trigger", "ap+-tree"])
def test_many_moves_leave_what_single_ones_do(index):
    """A polygon over the dateline, then one inland, then the first again; rejected rows stand between."""
    single, many = (Hub("earth", index=index, lifetime="1h") for _ in range(2))
    for hub in (single, many):
        hub.subscribe_many(SUBSCRIPTIONS)
    for region in (TRIANGLE, INLAND, TRIANGLE):
        for each in SUBSCRIPTIONS:
            single.move(each["id"], region)
        bad = [{"id": "nobody", "region": region}, {"id": "box", "lon": 1000, "lat": 0}]
        told = many.move_many([bad[0], *({"id": each["id"], "region": region} for each in SUBSCRIPTIONS), bad[1]])
        assert 2 == len(told.rejected)
        assert read_back(single) == read_back(many)
    assert "MultiPolygon" not in str(many.get("box").region.to_geojson())


def test_a_table_and_a_save_have_them_as_well(tmp_path):
    """GeoJSON in a column; what is opened again has it as it was written."""
    hub = Hub("earth")
    hub.subscribe_many(SUBSCRIPTIONS)
    rows = {"id": ["polygon", "box"], "region": [json.dumps(INLAND), json.dumps(TRIANGLE)]}
    hub.move_many(pa.table(rows))
    hub.save(tmp_path / "hub")
    expected = Hub("earth")
    expected.subscribe_many(SUBSCRIPTIONS)
    expected.move("polygon", INLAND)
    expected.move("box", TRIANGLE)
    assert read_back(expected) == read_back(hub) == read_back(Hub.open(tmp_path / "hub"))


def test_a_log_has_them_as_well(tmp_path):
    """What is replayed is read back as it was given."""
    with DurableHub(tmp_path / "log", "earth") as hub:
        hub.subscribe_many(SUBSCRIPTIONS)
        hub.move_many([{"id": "box", "region": TRIANGLE}])
        known = read_back(hub)
    with DurableHub(tmp_path / "log") as again:
        assert known == read_back(again)
        assert "MultiPolygon" not in known["box"]
