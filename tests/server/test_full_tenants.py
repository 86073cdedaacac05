"""A tenant with as many subscriptions as it may have, bad lines among good ones, and heads of streams."""

import pytest

from support.http_server import circle, running
from support.waiting import wait_until

LINES = {"Content-Type": "application/x-ndjson"}


def test_a_full_tenant_changes_what_it_has_and_takes_no_more(tmp_path):
    """Neither one by one, nor many at a time, nor by resuming what was paused."""
    with running(tmp_path, limits={"subscriptions": 2}) as server, server.client() as client:

        def post(*ids):
            return client.post("/v1/subscriptions", json=[circle(each, subscriber="anna") for each in ids]).json()

        found = post("a", "b", "c")
        assert (2, [2]) == (found["accepted"], [each["row"] for each in found["rejected"]])
        assert 403 == client.post("/v1/subscriptions", json=circle("d")).status_code
        assert 403 == client.put("/v1/subscriptions/d", json=circle("d")).status_code
        assert 200 == client.put("/v1/subscriptions/a", json=circle("a", "coffee")).status_code
        assert 200 == client.patch("/v1/subscriptions/a", json={"labels": {"a": "b"}}).status_code
        found = post("e", "a", "b")
        assert (2, [0]) == (found["accepted"], [each["row"] for each in found["rejected"]])
        assert 0 == post("f", "g")["accepted"]
        assert 200 == client.post("/v1/subscriptions/a:pause").status_code
        assert 201 == client.post("/v1/subscriptions", json=circle("h")).status_code
        assert 403 == client.post("/v1/subscriptions/a:resume").status_code
        assert 403 == client.patch("/v1/subscriptions/a", json={"paused": False}).status_code
        assert 200 == client.patch("/v1/subscriptions/a", json={"labels": {}}).status_code
        assert 2 == len(server.tenant().hub)
        client.delete("/v1/subscriptions/h")
        assert 200 == client.post("/v1/subscriptions/a:resume").status_code
        assert {"a", "b"} == {each["id"] for each in client.get("/v1/subscriptions").json()["items"]}


@pytest.mark.parametrize("bad", [b"{", b'"\\ud800"', b"NaN", b"[" * 200 + b"]" * 200, b"7"])
def test_a_bad_line_stops_no_other(client, bad):
    """It is rejected with its row."""
    lines = b'{"id": "a", "query": "tea", "lon": 1, "lat": 2, "radius_m": 5}\n%s\n{"id": "b", "query": "tea"}\n' % bad
    found = client.post("/v1/subscriptions", content=lines, headers=LINES)
    assert (200, 2, [1]) == (
        found.status_code,
        found.json()["accepted"],
        [each["row"] for each in found.json()["rejected"]],
    )
    moves = b'%s\n{"id": "a", "lon": 3, "lat": 4}\n' % bad
    found = client.post("/v1/locations", content=moves, headers=LINES)
    assert (202, 1, [0]) == (
        found.status_code,
        found.json()["accepted"],
        [each["row"] for each in found.json()["rejected"]],
    )


@pytest.mark.parametrize("path", ["/v1/subscribers/anna/stream", "/v1/stream"])
def test_the_head_of_a_stream_is_no_stream(server, client, path):
    """The answer ends, and nothing is held for it."""
    assert "text/event-stream; charset=utf-8" == client.head(path).headers["content-type"]
    assert 200 == client.get("/healthz").status_code  # on the same connection
    wait_until(lambda: server.tenant().n_streams == 0)
