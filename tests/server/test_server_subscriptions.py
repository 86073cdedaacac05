"""Subscriptions over HTTP: made, listed, replaced, patched, paused, and found again after a restart."""

import json

import pytest

from support.http_server import circle, feature, running

SERVER = {"hub": {"window": "100"}}


KINDS = {
    "within-circle": circle("c", expires="2999-01-01T00:00:00Z", min_move_m=10.0),
    "within-box": {"id": "b", "query": "tea OR coffee", "west": 13.0, "south": 52.0, "east": 14.0, "north": 53.0},
    "within-polygon": {
        "id": "p",
        "query": "tea",
        "region": {"type": "Polygon", "coordinates": [[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]},
    },
    "within-anywhere": {"id": "a", "query": '"green tea"'},
    "similar": {"id": "s", "kind": "similar", "query": "tea", "lon": 1.0, "lat": 2.0, "threshold": 0.4}
    | {"max_distance_m": 500.0, "similarity": "dice", "text_weight": 0.7},
    "topk": {"id": "t", "kind": "topk", "query": "tea", "lon": 1.0, "lat": 2.0, "k": 3, "max_distance_m": 500.0},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_stored_and_read_back_as_it_was_given(client, kind):
    """POST answers 201 with Location and ETag, GET returns all that was given, and DELETE takes it away."""
    given = {**KINDS[kind], "id": f"kind-{kind}", "labels": {"team": "a"}, "subscriber": "anna"}
    made = client.post("/v1/subscriptions", json=given)
    assert (201, f"/v1/subscriptions/{given['id']}", '"1"') == (
        made.status_code,
        made.headers["location"],
        made.headers["etag"],
    )
    found = client.get(made.headers["location"]).json()
    assert given == {name: found[name] for name in given}
    assert found == made.json()
    assert 204 == client.delete(made.headers["location"]).status_code
    assert 404 == client.get(made.headers["location"]).status_code


def test_a_subscription_without_an_id_gets_one(client):
    """The id is a UUID of version 7."""
    made = client.post("/v1/subscriptions", json={"query": "tea"}).json()
    assert "7" == made["id"][14]
    assert 204 == client.delete(f"/v1/subscriptions/{made['id']}").status_code


def test_lists_come_in_pages_by_subscriber_and_label(client):
    """Following `next` gives every subscription once, in order of registration."""
    for number in range(7):
        labels = {"parity": "even" if number % 2 == 0 else "odd"}
        client.post("/v1/subscriptions", json=circle(f"page-{number}", subscriber="lister", labels=labels))
    seen, cursor = [], ""
    for _ in range(10):
        page = client.get("/v1/subscriptions", params={"subscriber": "lister", "limit": 3, "cursor": cursor}).json()
        seen += [each["id"] for each in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert [f"page-{number}" for number in range(7)] == seen
    odd = client.get("/v1/subscriptions", params={"label": "parity:odd"}).json()["items"]
    assert ["page-1", "page-3", "page-5"] == [each["id"] for each in odd]
    shown = client.get("/v1/subscriptions", params={"subscriber": "lister", "f": "geojson"}).json()
    assert ("FeatureCollection", 7) == (shown["type"], len(shown["features"]))
    assert {"type": "Point", "coordinates": [13.4, 52.5]} == shown["features"][0]["geometry"]


def test_versions_guard_against_lost_updates(client):
    """Each change makes another ETag; If-Match of an older one is 412 and changes nothing."""
    url = "/v1/subscriptions/versioned"
    assert 201 == client.put(url, json=circle("versioned")).status_code
    patched = client.patch(url, json={"query": "coffee", "labels": {"a": "1"}}, headers={"If-Match": '"1"'})
    assert (200, '"2"', "coffee") == (patched.status_code, patched.headers["etag"], patched.json()["query"])
    refused = client.put(url, json=circle("versioned", "milk"), headers={"If-Match": '"1"'})
    assert 412 == refused.status_code
    assert 412 == client.delete(url, headers={"If-Match": '"1"'}).status_code
    assert 412 == client.put(url, json=circle("versioned"), headers={"If-None-Match": "*"}).status_code
    assert "coffee" == client.get(url).json()["query"]
    unlabelled = client.patch(url, json={"labels": None}, headers={"If-Match": '"2"'}).json()
    assert ({}, 3) == (unlabelled["labels"], unlabelled["version"])


def test_a_paused_subscription_is_out_of_the_index(client, server):
    """Paused it is not in the hub and can still be read; resumed it is registered anew."""
    url = "/v1/subscriptions/pausing"
    client.put(url, json=circle("pausing"))
    assert client.post(f"{url}:pause").json()["paused"]
    hub = server.tenant().hub
    assert "pausing" not in hub
    assert (True, 800.0) == (client.get(url).json()["paused"], client.get(url).json()["radius_m"])
    assert not client.post(f"{url}:resume").json()["paused"]
    assert "pausing" in hub


def test_a_dry_run_stores_nothing(client, server):
    """validateOnly answers as a POST would, errors included."""
    assert client.post("/v1/subscriptions?validateOnly=true", json=circle("dry")).json()["valid"]
    assert "dry" not in server.tenant().hub
    assert 422 == client.post("/v1/subscriptions?validateOnly=true", json=circle("dry", "a AND (")).status_code


def test_a_known_id_is_not_made_again(client):
    """POST of a known id is 409; PUT replaces it."""
    assert 201 == client.post("/v1/subscriptions", json=circle("twice")).status_code
    assert 409 == client.post("/v1/subscriptions", json=circle("twice")).status_code
    assert 200 == client.put("/v1/subscriptions/twice", json=circle("twice", "milk")).status_code


def test_explain_and_estimate(client):
    """A message is explained to a stored subscription, to one that is not stored, and by `:test`."""
    client.put("/v1/subscriptions/explained", json=circle("explained"))
    stored = client.post("/v1/explain", json={"message": feature(1, "coffee"), "subscription": "explained"}).json()
    assert (False, [False, True]) == (stored["matched"], [step["passed"] for step in stored["steps"][:2]])
    asked = {"message": feature(1), "subscription": circle("elsewhere", lon=0.0), "place": {"lon": 13.4, "lat": 52.5}}
    assert client.post("/v1/explain", json=asked).json()["matched"]
    assert client.post("/v1/subscriptions/explained:test", json={"message": feature(1)}).json()["matched"]
    client.put("/v1/subscriptions/nearby", json=circle("nearby", lon=13.42))
    both = client.post("/v1/explain", json={"message": feature(1)}).json()
    assert ("explained" in both["reached"], both["more"]) == (True, False)
    assert "nearby" in [each["subscription_id"] for each in both["nearly"]]
    assert all(not each["matched"] for each in both["nearly"])
    sample = [feature(number, "tea" if number < 3 else "milk") for number in range(10)]
    found = client.post("/v1/estimate", json={"subscription": circle("e"), "sample": sample, "messages_per_day": 100})
    assert (3, 30.0) == (found.json()["matches"], found.json()["per_day"])


def test_a_top_k_has_a_current_list(client):
    """`current` returns what a top-k holds now."""
    wanted = {"id": "best", "kind": "topk", "query": "jazz", "lon": 13.4, "lat": 52.5, "k": 2, "max_distance_m": 1000}
    client.post("/v1/subscriptions", json=wanted)
    for number in range(3):
        client.post("/v1/messages", json=feature(f"j{number}", "jazz", lon=13.4 + number / 1000))
    items = client.get("/v1/subscriptions/best/current").json()["items"]
    assert [("j0", 1), ("j1", 2)] == [(each["message_id"], each["rank"]) for each in items]


def test_many_subscriptions_are_stored_by_one_request(client, server):
    """A list or lines of them are one input of the hub; those that cannot be used are rejected with their rows."""
    client.put("/v1/subscriptions/many-1", json=circle("many-1", "milk"))
    inputs = server.tenant().hub.stats()["log"]["inputs"]
    given = [circle(f"many-{number}", subscriber="crowd", labels={"n": str(number)}) for number in range(5)]
    given += [circle("many-0"), circle("bad", "a AND ("), circle("sleeping", paused=True), 7]
    answer = client.post("/v1/subscriptions", json=given)
    assert (200, 5) == (answer.status_code, answer.json()["accepted"])
    rejected = [(each["row"], each["field"]) for each in answer.json()["rejected"]]
    assert [(5, "id"), (6, "query"), (7, "paused"), (8, None)] == rejected
    assert 1 == server.tenant().hub.stats()["log"]["inputs"] - inputs
    found = client.get("/v1/subscriptions/many-1").json()
    assert ("tea", 2, "crowd", {"n": "1"}) == (found["query"], found["version"], found["subscriber"], found["labels"])
    assert [f"many-{number}" for number in range(5)] == sorted(server.tenant().hub.subscriptions_of("crowd"))
    lines = "\n".join(map(json.dumps, given[:3]))
    headers = {"Content-Type": "application/x-ndjson"}
    assert 3 == client.post("/v1/subscriptions", content=lines, headers=headers).json()["accepted"]


def test_all_of_it_is_there_after_a_restart(tmp_path):
    """Labels, versions and pauses live beside the hub, and both are found again."""
    with running(tmp_path) as server, server.client() as client:
        client.put("/v1/subscriptions/kept", json=circle("kept", labels={"a": "b"}, subscriber="anna"))
        client.patch("/v1/subscriptions/kept", json={"max_events": 5})
        client.put("/v1/subscriptions/quiet", json=circle("quiet", paused=True))
        before = client.get("/v1/subscriptions").json()
    with running(tmp_path) as server, server.client() as client:
        assert before == client.get("/v1/subscriptions").json()
        assert [2, 1] == [each["version"] for each in before["items"]]
        assert ["kept"] == list(server.tenant().hub)


@pytest.mark.parametrize(
    ("intent", "is_there"), [("hold", True), ("release", False), ("forget", False)], ids=["hold", "release", "forget"]
)
def test_an_intent_that_a_crash_left_is_made_again(tmp_path, intent, is_there):
    """What server.db says the hub should hold is what it holds after a restart."""
    with running(tmp_path) as server, server.client() as client:
        client.put("/v1/subscriptions/torn", json=circle("torn"))
        tenant = server.tenant()
        row = tenant.rows.get("torn")
        if intent == "hold":  # the hub never heard of it
            tenant.hub.unsubscribe("torn")
        tenant.db.write(tenant.rows.intend(row, intent, row)).result()
    with running(tmp_path) as server, server.client() as client:
        assert is_there == ("torn" in server.tenant().hub)
        assert (404 if intent == "forget" or not is_there else 200) == client.get("/v1/subscriptions/torn").status_code


def test_a_look_at_a_subscription_that_is_being_made_does_not_forget_it(tmp_path):
    """Between the intent and the hub it is not there yet; reading it then takes nothing away."""
    with running(tmp_path) as server, server.client() as client:
        tenant = server.tenant()
        client.put("/v1/subscriptions/other", json=circle("other"))
        row = type(tenant.rows.get("other"))(id="coming", body=circle("coming"))
        tenant.db.write(tenant.rows.intend(row, "hold", None)).result()
        assert 404 == client.get("/v1/subscriptions/coming").status_code
        assert ["other"] == [each["id"] for each in client.get("/v1/subscriptions").json()["items"]]
        tenant.hold(row)
        tenant.db.write(tenant.rows.settle(row, "hold")).result()
        assert 200 == client.get("/v1/subscriptions/coming").status_code
        tenant.hub.unsubscribe("coming")
        assert 404 == client.get("/v1/subscriptions/coming").status_code
        tenant.db.write(lambda _: None).result()
        assert tenant.rows.get("coming") is None


def test_an_intent_that_the_hub_refuses_brings_back_the_row(tmp_path):
    """A change that nobody was told about, and that cannot be made, is as if it had never been asked for."""
    with running(tmp_path) as server, server.client() as client:
        client.put("/v1/subscriptions/torn", json=circle("torn"))
        tenant = server.tenant()
        row = tenant.rows.get("torn")
        bad = type(row)(id="torn", body={**row.body, "query": "a AND ("}, version=2)
        tenant.db.write(tenant.rows.intend(bad, "hold", row)).result()
    with running(tmp_path) as server, server.client() as client:
        found = client.get("/v1/subscriptions/torn").json()
        assert ("tea", 1) == (found["query"], found["version"])
