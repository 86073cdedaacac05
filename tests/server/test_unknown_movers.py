"""Places of subscribers that nobody knows, and places that are none: each is told by its item, whoever moves."""

import pytest

from support.http_server import circle, make_token, running

LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def known(client):
    """Return a client of a server where anna has two subscriptions, and ben one that is paused."""
    client.put("/v1/subscriptions/tea", json=circle("tea", subscriber="anna"))
    client.put("/v1/subscriptions/jam", json=circle("jam", subscriber="anna"))
    client.put("/v1/subscriptions/pause", json=circle("pause", subscriber="ben", paused=True))
    return client


ITEMS = [
    {"subscriber": "nobody", "lon": 1.0, "lat": 9999.0},
    {"subscriber": "nobody", "lon": -181.0, "lat": 1.0},
    {"subscriber": "anna", "lon": 1.0, "lat": 9999.0},
    {"subscriber": "nobody", "lon": 1.0, "lat": 2.0},
    {"subscriber": "ben", "lon": 1.0, "lat": 2.0},
    {"subscriber": "anna", "lon": 3.0, "lat": 4.0},
]
POINTERS = ["/0/lat", "/1/lon", "/2/lat", "/3/subscriber", "/4/subscriber"]
#: With it a batch goes item by item.
BY_ID = {"id": "tea", "lon": 3.0, "lat": 4.0}


@pytest.mark.parametrize("more", [[], [BY_ID]], ids=["columns", "rows"])
@pytest.mark.parametrize("is_lines", [False, True], ids=["list", "lines"])
def test_each_item_that_moves_nothing_is_told_once(known, more, is_lines):
    """With a pointer to its coordinate, else to its subscriber; the others are moved."""
    given = [*ITEMS, *more]
    if is_lines:
        body = "\n".join(str(each).replace("'", '"') for each in given)
        answer = known.post("/v1/locations", content=body, headers=LINES)
    else:
        answer = known.post("/v1/locations", json=given)
    found = answer.json()
    assert (202, 1 + len(more)) == (answer.status_code, found["accepted"])
    assert POINTERS == [each["pointer"] for each in found["rejected"]]
    assert ["lat", "lon", "lat", "subscriber", "subscriber"] == [each["field"] for each in found["rejected"]]
    assert all("beyond" in each["reason"] for each in found["rejected"][:3])
    assert [(3.0, 4.0)] * 2 == [
        tuple(known.get(f"/v1/subscriptions/{name}").json()[each] for each in ("lon", "lat")) for name in ("tea", "jam")
    ]


def test_a_single_place_is_checked_whoever_moves(known):
    """And one of somebody unknown moves nothing, which the answer says."""
    refused = known.put("/v1/subscribers/nobody/location", json={"lon": 1.0, "lat": 9999.0})
    assert (422, "/lat") == (refused.status_code, refused.json()["errors"][0]["pointer"])
    answer = known.put("/v1/subscribers/nobody/location", json={"lon": 1.0, "lat": 2.0})
    assert {"moved": 0, "stayed": []} == answer.json()


def test_a_bound_token_without_subscriptions_is_told_so(known, server):
    """As any other."""
    token = make_token(server.data, scopes=("location",), subscriber="cleo")
    with server.client(token) as cleo:
        found = cleo.post("/v1/locations", json=[{"subscriber": "cleo", "lon": 1.0, "lat": 2.0}]).json()
    assert (0, ["/0/subscriber"]) == (found["accepted"], [each["pointer"] for each in found["rejected"]])


def test_on_a_plane(tmp_path):
    """Any finite number is a place there; unknown subscribers are told as well."""
    with running(tmp_path, hub={"space": "plane"}) as server, server.client() as client:
        client.put("/v1/subscriptions/tea", json={"query": "tea", "x": 0, "y": 0, "radius": 5, "subscriber": "anna"})
        given = [{"subscriber": name, "x": 9999.0, "y": 1.0} for name in ("nobody", "anna")]
        found = client.post("/v1/locations", json=given).json()
        assert (1, ["/0/subscriber"]) == (found["accepted"], [each["pointer"] for each in found["rejected"]])
        assert 9999.0 == client.get("/v1/subscriptions/tea").json()["x"]
