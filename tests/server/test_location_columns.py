"""Batches of places of subscribers: plain ones go by columns, and mean what they mean item by item."""

import json
import re

import pytest

from support.http_server import circle, make_token, running

NAMES = ("anna", "ben", "cleo")


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    with running(data / "columns") as by_columns, running(data / "rows") as by_rows:
        for server in (by_columns, by_rows):
            with server.client() as client:
                for number, name in enumerate(NAMES):
                    for word in ("tea", "jam")[: 2 - number]:
                        client.put(f"/v1/subscriptions/{word}-{name}", json=circle(f"{word}-{name}", subscriber=name))
                client.put("/v1/subscriptions/any", json={"id": "any", "query": "tea", "subscriber": "ben"})
        yield by_columns, by_rows


BATCHES = {
    "points": [{"subscriber": name, "lon": 1 + at, "lat": 2.5} for at, name in enumerate(NAMES)],
    "twice": [{"subscriber": "anna", "lon": 1.0, "lat": 2.0}, {"subscriber": "anna", "lon": 3.0, "lat": 4.0}],
    "unknown": [{"subscriber": "nobody", "lon": 1.0, "lat": 2.0}, {"subscriber": "anna", "lon": 3.0, "lat": 4.0}],
    "beyond": [{"subscriber": "anna", "lon": 181.0, "lat": 2.0}, {"subscriber": "ben", "lon": 3.0, "lat": 91.0}],
    "times": [{"subscriber": "anna", "lon": 1.0, "lat": 2.0, "time": "2026-01-01T00:00:00Z"}],
    "one-time": [
        {"subscriber": "anna", "lon": 1.0, "lat": 2.0, "time": "2026-01-01T00:00:00+01:00"},
        {"subscriber": "ben", "lon": 3.0, "lat": 4.0},
    ],
    "bad-time": [
        {"subscriber": "anna", "lon": 1.0, "lat": 2.0, "time": "noon"},
        {"subscriber": "ben", "lon": 3.0, "lat": 4.0, "time": None},
    ],
    "future": [{"subscriber": "anna", "lon": 1.0, "lat": 2.0, "time": "2999-01-01T00:00:00Z"}],
    "empty-name": [{"subscriber": "", "lon": 1.0, "lat": 2.0}, {"subscriber": "ben", "lon": 3.0, "lat": 4.0}],
    "empty": [],
}


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("is_lines", [False, True], ids=["list", "lines"])
def test_a_batch_of_places_means_the_same_by_columns_and_by_rows(servers, name, is_lines):
    """Accepted, rejected and where subscriptions are: as after the same batch with an item that is not plain."""
    batch, found = BATCHES[name], []
    odd = {"id": "nothing", "lon": 1.0, "lat": 2.0}  # by its id: all items go by rows
    for server, given in zip(servers, (batch, [*batch, odd]), strict=True):
        hub, activity = server.tenant().hub, server.tenant().activity
        before = activity.counts["moves"] + len(given) - len(batch)
        with server.client() as client:
            kind = "application/x-ndjson" if is_lines else "application/json"
            body = "\n".join(map(json.dumps, given)) if is_lines else json.dumps(given)
            answer = client.post("/v1/locations", content=body, headers={"Content-Type": kind})
            rejected = [each for each in answer.json()["rejected"] if each["id"] != "nothing"]
        places = {id_: hub.get(id_).region for id_ in sorted(hub)}
        n_moves = activity.counts["moves"] - before
        found.append((answer.status_code, answer.json()["accepted"], _without_now(rejected), places, n_moves))
    assert found[1] == found[0]


def _without_now(rejected):
    """Return rejected rows without the times that reasons name: those of receipt differ."""
    return [{**each, "reason": re.sub(r"\d{4}-\d\d-\d\d[ T][\d:.]+", "then", each["reason"])} for each in rejected]


def test_a_bound_token_moves_its_own_subscriber_alone(tmp_path):
    """Its batch goes item by item: one of another subscriber is rejected."""
    token = make_token(tmp_path, scopes=("location",), subscriber="anna")
    with running(tmp_path) as server, server.client() as client:
        client.put("/v1/subscriptions/tea", json=circle("tea", subscriber="anna"))
        client.put("/v1/subscriptions/jam", json=circle("jam", subscriber="ben"))
        answer = client.post(
            "/v1/locations",
            json=[{"subscriber": "ben", "lon": 1.0, "lat": 2.0}, {"subscriber": "anna", "lon": 3.0, "lat": 4.0}],
            headers={"Authorization": f"Bearer {token}"},
        ).json()
        assert (1, [0]) == (answer["accepted"], [each["row"] for each in answer["rejected"]])
        region = server.tenant().hub.get("tea").region
        assert (3.0, 4.0) == (region.x, region.y)
