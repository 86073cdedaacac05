"""Changes of subscriptions that the hub refuses: what the server keeps beside the hub is as it was before."""

import pytest

from support.http_server import circle, feature, running


@pytest.fixture
def server(tmp_path):
    with running(tmp_path) as found:
        yield found


@pytest.fixture
def client(server):
    with server.client() as found:
        yield found


def subjects(client):
    return [each["subject"] for each in client.get("/v1/subscribers/anna/events?cursor=0-0").json()["events"]]


@pytest.mark.parametrize("way", ["put", "batch"])
def test_a_refused_change_does_not_touch_the_count_of_events(server, client, way):
    """A subscription that had two of three events has one left after a change that was refused."""
    client.put("/v1/subscriptions/few", json=circle("few", subscriber="anna", max_events=3))
    client.post("/v1/messages", json=[feature("m1"), feature("m2")])
    topk = {"id": "few", "kind": "topk", "query": "tea", "lon": 13.4, "lat": 52.5, "max_distance_m": 500}
    refused = {**topk, "subscriber": "anna"}  # without a window the hub has no such thing
    if way == "put":
        assert 422 == client.put("/v1/subscriptions/few", json=refused).status_code
    else:
        assert 1 == len(client.post("/v1/subscriptions", json=[refused]).json()["rejected"])
    client.post("/v1/messages", json=[feature("m3"), feature("m4")])
    assert ["m1", "m2", "m3"] == subjects(client)
