"""The map of a server that holds more than can be drawn: nothing in view is missing, and the answer is bounded."""

import pyarrow as pa
import pytest

from nearcast.server.map_cells import cell_counts
from nearcast.server.newest_messages import NEWEST
from support.http_server import circle, feature, running


@pytest.fixture
def server(tmp_path):
    with running(tmp_path / "data", limits={"batch": 20_000, "body_bytes": 1 << 24}) as found:
        yield found


@pytest.fixture
def client(server):
    with server.client() as found:
        yield found


def seen(client, bbox, zoom=12):
    answer = client.get("/v1/map", params={"bbox": bbox, "zoom": zoom})
    assert 200 == answer.status_code, answer.text
    return answer.json()


def test_many_subscriptions_are_counted_by_cell(client):
    """Up to 500 are drawn one by one; beyond that cells count all of them, and zooming in shows each again."""
    town = [circle(f"s{n}", lon=13.0 + n % 25 / 50, lat=52.4 + n // 25 / 100, radius_m=100) for n in range(500)]
    assert 500 == client.post("/v1/subscriptions", json=town).json()["accepted"]
    found = seen(client, "12,52,15,53")
    assert (500, 500, []) == (found["counts"]["subscriptions"], len(found["features"]), found["cells"])
    client.post("/v1/subscriptions", json=[circle("one-more"), {"id": "anywhere", "query": "tea"}])
    found = seen(client, "12,52,15,53")
    assert (501, []) == (found["counts"]["subscriptions"], found["features"])
    assert 501 == sum(count for *_, count in found["cells"])
    assert 1 < len(found["cells"]) <= 1024
    near = seen(client, "13.35,52.45,13.45,52.55")
    assert near["counts"]["subscriptions"] == len(near["features"]) < 501


def test_messages_come_in_columns_the_newest_first(client):
    """Values and tables alike, while they live and lie in the rectangle; times are seconds from now."""
    client.post("/v1/messages", json=feature("first", text="tea"))
    client.post("/v1/messages", json=feature("far", lon=20.0))
    client.post("/v1/messages", json=[feature("second", expires="2100-01-01T00:00:00Z"), feature("bad", lat=91.0)])
    wide = {"id": "wide", "text": "tea", "lon": 13.3, "lat": 52.4, "lon_max": 13.5, "lat_max": 52.6}
    assert 202 == client.post("/v1/messages", json=wide).status_code
    table = pa.table({"id": ["row"], "text": ["tea"], "lon": [13.41], "lat": [52.51]})
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    assert 202 == client.post("/v1/messages", content=out.getvalue().to_pybytes(), headers=headers).status_code
    messages = seen(client, "13,52,14,53")["messages"]
    assert ["row", "wide", "second", "first"] == messages["id"]
    assert ([13.41, 13.4, 13.4, 13.4], [52.51, 52.5, 52.5, 52.5]) == (messages["lon"], messages["lat"])
    assert [[1, 13.3, 52.4, 13.5, 52.6]] == messages["boxes"]
    assert [True, True, False, True] == [left is None for left in messages["left_s"]]
    assert all(0 <= age < 3600 for age in messages["age_s"])
    for id_ in messages["id"]:
        assert "tea" == client.get(f"/v1/messages/{id_}").json()["properties"]["text"]


def test_ten_thousand_messages_are_on_the_map(client):
    """The newest of more than that, in order, whatever way they came; ids of any length keep the answer bounded."""
    for first in range(0, NEWEST + 2000, 6000):
        batch = [feature(f"m{n}", lon=13.0 + n / 100_000) for n in range(first, first + 6000)]
        body = {"type": "FeatureCollection", "features": batch}
        assert 6000 == client.post("/v1/messages", json=body).json()["accepted"]
    found = seen(client, "12,52,15,53")
    assert [f"m{n}" for n in range(NEWEST + 1999, 1999, -1)] == found["messages"]["id"]
    assert {"subscriptions": 0, "messages": NEWEST} == found["counts"]
    long = [feature(f"{n}-" + "x" * 9000, lon=13.0) for n in range(200)]
    assert 200 == client.post("/v1/messages", json=long).json()["accepted"]
    found = seen(client, "12,52,15,53")
    assert sum(map(len, found["messages"]["id"])) <= 1 << 20
    assert NEWEST == found["counts"]["messages"] > len(found["messages"]["id"]) > 0


def test_cells_across_the_dateline_add_up(client):
    """A place beyond 180 degrees has its own cell, and a coarse zoom has few of them."""
    import numpy as np

    points = np.array([[179.9, -17.0], [180.1, -17.0], [180.1, -17.01]])
    cells = cell_counts(points, (170.0, -20.0, -170.0, -10.0), 8)
    assert [1, 2] == [count for *_, count in cells]
    assert cells[0][2] <= 180.0 <= cells[1][0]
    world = cell_counts(points, (-180.0, -90.0, 180.0, 90.0), None)
    assert 3 == sum(count for *_, count in world)
    for bad in ("x", "-1", "31", "nan"):
        assert 422 == client.get("/v1/map", params={"zoom": bad}).status_code
