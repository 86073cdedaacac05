"""Whole numbers of 400 digits, which JSON may have and a float cannot hold, wherever a request has a number."""

import json

import pytest

from nearcast import Hub
from support.http_server import circle, feature

HUGE = 10**400


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/explain", {"message": feature("m"), "subscription": "tea", "place": [HUGE, 1]}),
        ("/v1/explain", {"message": feature("m"), "subscription": "tea", "place": {"lon": 1, "lat": HUGE}}),
        ("/v1/estimate", {"subscription": circle("a"), "messages_per_day": HUGE}),
    ],
)
def test_a_huge_number_is_refused(client, path, body):
    """By 422, as any other that is no place and no count."""
    client.put("/v1/subscriptions/tea", json=circle("tea", subscriber="anna"))
    assert 422 == client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"}).status_code


def test_a_huge_number_stops_no_other_location(client):
    """It is rejected with its row."""
    client.put("/v1/subscriptions/tea", json=circle("tea", subscriber="anna"))
    body = [{"id": "tea", "lon": HUGE, "lat": 52}, {"subscriber": "anna", "lon": 13.0, "lat": 52.0}]
    found = client.post("/v1/locations", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert (202, 1, [0]) == (
        found.status_code,
        found.json()["accepted"],
        [each["row"] for each in found.json()["rejected"]],
    )
    assert 13.0 == client.get("/v1/subscriptions/tea").json()["lon"]


@pytest.mark.parametrize("bad", [{"id": "tea", "lon": HUGE, "lat": 52.0}, {"id": "\ud800", "lon": 13.0, "lat": 52.0}])
def test_a_bad_move_stops_no_other_in_a_hub(bad):
    """As any row that cannot be used."""
    hub = Hub("earth")
    hub.subscribe(circle("tea"))
    found = hub.move_many([bad, {"id": "tea", "lon": 13.0, "lat": 52.0}])
    assert [0] == [each.row for each in found.rejected]
    assert 13.0 == hub.get("tea").region.x
