"""What a page shows: the map, the stream of admins, and metrics without ids or places."""

import json

from support.http_server import circle, feature, make_token
from support.waiting import wait_until


def test_the_map_has_what_lies_in_the_rectangle(client):
    """Subscriptions and messages of the box come; the box may cross the dateline."""
    client.put("/v1/subscriptions/berlin", json=circle("berlin"))
    client.put("/v1/subscriptions/fiji", json=circle("fiji", lon=179.9, lat=-17.0))
    client.put("/v1/subscriptions/anywhere", json={"id": "anywhere", "query": "tea"})
    client.post("/v1/messages", json=[feature("b"), feature("f", lon=-179.9, lat=-17.0), feature("bad", lat=91)])
    for box, subscriptions, messages in [
        ("13,52,14,53", ["berlin"], ["b"]),
        ("170,-20,-170,-10", ["fiji"], ["f"]),
        ("", ["berlin", "fiji"], ["b", "f"]),
    ]:
        found = client.get("/v1/map", params={"bbox": box} if box else {}).json()
        assert (subscriptions, messages) == (
            [each["id"] for each in found["features"]],
            sorted(found["messages"]["id"]),
        )
    for bad in ("1,2,3", "a,b,c,d", "0,10,10,0", "0,0,500,1", "nan,0,1,1"):
        assert 422 == client.get("/v1/map", params={"bbox": bad}).status_code, bad


def test_admins_see_counts_and_samples(client, server):
    """The stream has counts of all, and samples of messages, deliveries and moves."""
    client.put("/v1/subscriptions/seen", json=circle("seen", "jazz", subscriber="anna"))
    seen = {}
    with client.stream("GET", "/v1/stream") as answer:
        wait_until(lambda: server.tenant().activity.n_watchers == 1)
        with server.client() as other:
            other.post("/v1/messages", json=feature("j", "jazz"))
            other.put("/v1/subscribers/anna/location", json={"lon": 1.0, "lat": 1.0})
        kind = None
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                seen[kind] = json.loads(value)
            if {"message", "delivery", "move"} <= set(seen):
                break
    assert ("j", "seen", "anna") == (
        seen["message"]["id"],
        seen["delivery"]["subscription_id"],
        seen["move"]["subscriber"],
    )
    assert {"messages", "deliveries", "moves", "cursor"} == set(seen["counts"])
    assert {"window": None, "lifetime": "expires", "max_distance": None} == seen["hub"]
    wait_until(lambda: server.tenant().activity.n_watchers == 0)
    with server.client(make_token(server.data, scopes=("subscribe",))) as other:
        assert [403, 403] == [other.get(path).status_code for path in ("/v1/stream", "/v1/map")]


def test_metrics_count_without_ids_or_places(client):
    """Routes and outcomes are labels; no id, name or coordinate is."""
    client.put("/v1/subscriptions/hidden-name", json=circle("hidden-name", "secretword", subscriber="hidden-person"))
    client.get("/v1/subscribers/hidden-person/events")
    text = client.get("/metrics").text
    assert 'nearcast_requests_total{route="put_subscription",status="201"}' in text
    assert "nearcast_request_seconds_bucket" in text
    for name in ("hidden", "secretword", "13.4", "127.0.0.1"):
        assert name not in text
