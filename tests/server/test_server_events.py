"""Events over HTTP: pulled, waited for, streamed, resumed, acknowledged; too slow, outdated and future cursors."""

import json
import socket
import threading
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from support.http_server import circle, feature, running
from support.waiting import PATIENCE_S, join, wait_until

SERVER = {"limits": {"keep_alive_seconds": 0.05, "wait_seconds": 600.0}}


def subscribe(client, subscriber, **more):
    answer = client.post("/v1/subscriptions", json=circle(f"of-{subscriber}", subscriber=subscriber, **more))
    assert 201 == answer.status_code, answer.text


def publish(client, *ids, **more):
    answer = client.post("/v1/messages", json=[feature(each, **more) for each in ids])
    assert len(ids) == answer.json()["accepted"], answer.text


def pulled(client, subscriber, **params):
    answer = client.get(f"/v1/subscribers/{subscriber}/events", params=params)
    assert 200 == answer.status_code, answer.text
    return answer.json()


def subjects(events):
    return [each["subject"] for each in events]


def streamed(lines):
    """Yield the events of a stream as (id, event, data); comments are (None, "comment", text)."""
    event = {}
    for line in lines:
        if line.startswith(":"):
            yield None, "comment", line[1:].strip()
        elif line:
            name, _, value = line.partition(": ")
            event[name] = value
        elif "data" in event:
            yield event.get("id"), event["event"], json.loads(event["data"])
            event = {}
        else:
            event = {}


def test_events_wait_until_they_are_acknowledged(client):
    """A pull without a cursor begins after the last acknowledgement; the events are CloudEvents with the message."""
    subscribe(client, "anna")
    publish(client, "m1", "m2", "m3", mood="good")
    first = pulled(client, "anna", limit=2)
    assert ["m1", "m2"] == subjects(first["events"])
    assert pulled(client, "anna", limit=2) == first
    event = first["events"][0]
    assert {
        "specversion": "1.0",
        "type": "nearcast.match.v1",
        "source": "/v1/subscriptions/of-anna",
        "subject": "m1",
        "datacontenttype": "application/json",
    } == {name: event[name] for name in ("specversion", "type", "source", "subject", "datacontenttype")}
    assert ("good", [13.4, 52.5]) == (
        event["data"]["message"]["properties"]["mood"],
        event["data"]["message"]["geometry"]["coordinates"],
    )
    assert 204 == client.post("/v1/subscribers/anna/ack", json={"cursor": first["cursor"]}).status_code
    rest = pulled(client, "anna")
    assert ["m3"] == subjects(rest["events"])
    assert ["m1", "m2", "m3"] == subjects(pulled(client, "anna", cursor="0-0")["events"])
    assert first["cursor"] == client.get("/v1/subscribers/anna").json()["acked"]


def test_the_cursor_of_a_publish_is_after_its_events(client):
    """Reading on from the cursor of the 202 gives what was published later, and nothing else."""
    subscribe(client, "later")
    cursor = client.post("/v1/messages", json=feature("before")).json()["cursor"]
    assert [] == pulled(client, "later", cursor=cursor)["events"]
    publish(client, "after")
    assert ["after"] == subjects(pulled(client, "later", cursor=cursor)["events"])


def test_a_pull_waits_for_the_next_event(client, server):
    """With `wait` the answer comes when there is an event."""
    subscribe(client, "waiter")
    found = []
    thread = threading.Thread(target=lambda: found.append(pulled(client, "waiter", wait=600)))
    thread.start()
    wait_until(lambda: "waiter" in server.tenant().feeds._waiting)
    with server.client() as other:
        publish(other, "awaited")
    join(thread)
    assert ["awaited"] == subjects(found[0]["events"])


def test_a_stream_resumes_by_the_last_id(client):
    """Events come as they are released; Last-Event-ID goes on after that one, and comments keep it open."""
    subscribe(client, "sse")
    publish(client, "s1", "s2")
    seen, ids = [], []
    with client.stream("GET", "/v1/subscribers/sse/stream", params={"cursor": "0-0"}) as answer:
        assert "text/event-stream; charset=utf-8" == answer.headers["content-type"]
        for cursor, kind, data in streamed(answer.iter_lines()):
            if kind == "comment" and len(seen) == 2:
                with httpx2.Client(base_url=client.base_url, trust_env=False) as other:
                    publish(other, "s3")
            elif kind == "match":
                seen.append(data["subject"])
                ids.append(cursor)
            if len(seen) == 3:
                break
    assert ["s1", "s2", "s3"] == seen
    with client.stream("GET", "/v1/subscribers/sse/stream", headers={"Last-Event-ID": ids[0]}) as answer:
        again = []
        for _, kind, data in streamed(answer.iter_lines()):
            again += [data["subject"]] if kind == "match" else []
            if len(again) == 2:
                break
    assert ["s2", "s3"] == again


def test_cursors_of_the_future_and_nonsense_are_problems(client):
    """A cursor after the end of the log is FutureCursor; what is no cursor points at it."""
    for path in ("events", "stream"):
        future = client.get(f"/v1/subscribers/anna/{path}", params={"cursor": "999999-1"})
        assert (422, "urn:nearcast:problem:future-cursor") == (future.status_code, future.json()["type"])
        assert 422 == client.get(f"/v1/subscribers/anna/{path}", params={"cursor": "nonsense"}).status_code
    assert 422 == client.post("/v1/subscribers/anna/ack", json={"cursor": "999999-1"}).status_code
    assert 422 == client.post("/v1/subscribers/anna/ack", json={}).status_code


def test_a_socket_gives_events_and_takes_acks_and_locations(client, server):
    """Over a WebSocket the same events come, acks are stored, and a location moves the subscriptions."""
    subscribe(client, "ws")
    publish(client, "w1")
    url = f"{server.url.replace('http', 'ws')}/v1/subscribers/ws/ws?cursor=0-0"
    patient = {"proxy": None, "ping_interval": None, "open_timeout": PATIENCE_S, "close_timeout": PATIENCE_S}
    with connect(url, **patient) as opened:
        event = json.loads(opened.recv(PATIENCE_S))
        assert "w1" == event["subject"]
        opened.send(json.dumps({"ack": event["sequence"]}))
        assert {"acked": event["sequence"]} == json.loads(opened.recv(PATIENCE_S))
        opened.send(json.dumps({"location": {"lon": 0.0, "lat": 0.0}}))
        assert {"moved": 1, "stayed": []} == json.loads(opened.recv(PATIENCE_S))
        publish(client, "w2", lon=0.0, lat=0.0)
        assert "w2" == json.loads(opened.recv(PATIENCE_S))["subject"]
        for bad in ("{", "[]", '{"ack": 1}', '{"location": {"lon": 500, "lat": 0}}', '{"ack": "999999-9"}'):
            opened.send(bad)
            assert json.loads(opened.recv(PATIENCE_S))["problem"]["status"] in (400, 422), bad
    assert event["sequence"] == client.get("/v1/subscribers/ws").json()["acked"]
    with connect(url.replace("0-0", "999999-1"), **patient) as opened, pytest.raises(ConnectionClosed) as closed:
        opened.recv(PATIENCE_S)
    assert "FutureCursor" == closed.value.rcvd.reason


def test_a_location_moves_what_can_follow_a_point(client):
    """PUT location moves all subscriptions of the subscriber, and lists those that cannot follow."""
    subscribe(client, "walker")
    client.post("/v1/subscriptions", json={"id": "anywhere", "query": "tea", "subscriber": "walker"})
    answer = client.put("/v1/subscribers/walker/location", json={"lon": 20.0, "lat": 10.0}).json()
    assert (1, ["anywhere"]) == (answer["moved"], [each["id"] for each in answer["stayed"]])
    assert 20.0 == client.get("/v1/subscriptions/of-walker").json()["lon"]
    given = [
        {"subscriber": "walker", "lon": 21.0, "lat": 10.0},
        {"id": "of-walker", "lon": 22.0, "lat": 10.0},
        {"id": "nobody", "lon": 22.0, "lat": 10.0},
        {"id": "of-walker", "lon": 222.0, "lat": 10.0},
        {"lon": 1, "lat": 1},
        7,
    ]
    many = client.post("/v1/locations", json=given)
    assert 202 == many.status_code
    assert [0, 2, 3, 4, 5] == [each["row"] for each in many.json()["rejected"]]
    assert 22.0 == client.get("/v1/subscriptions/of-walker").json()["lon"]


def test_an_erased_subscriber_leaves_nothing(client, server):
    """DELETE takes subscriptions, events and settings away."""
    subscribe(client, "gone")
    client.post("/v1/subscriptions", json=circle("gone-paused", subscriber="gone", paused=True))
    client.put("/v1/subscribers/gone", json={"paused": True, "sink": {"url": "https://example.com/hook"}})
    publish(client, "g1")
    sink = client.get("/v1/subscribers/gone").json()["sink"]
    assert ("https://example.com/hook", 1, False) == (sink["url"], sink["n_secrets"], "secrets" in sink)
    assert 204 == client.delete("/v1/subscribers/gone").status_code
    assert [] == pulled(client, "gone", cursor="0-0")["events"]
    assert [404, 404] == [client.get(f"/v1/subscriptions/{each}").status_code for each in ("of-gone", "gone-paused")]
    assert client.get("/v1/subscribers/gone").json()["sink"] is None
    assert "of-gone" not in server.tenant().hub


def test_enter_and_exit_tell_of_live_messages(client):
    """A move out of reach of a message that lives is an exit, a move back an enter."""
    subscribe(client, "mover")
    publish(client, "lives", expires="2999-01-01T00:00:00Z")
    client.put("/v1/subscribers/mover/location", json={"lon": 0.0, "lat": 0.0})
    client.put("/v1/subscribers/mover/location", json={"lon": 13.4, "lat": 52.5})
    events = [each for each in pulled(client, "mover", cursor="0-0")["events"] if each["subject"] == "lives"]
    assert ["nearcast.match.v1", "nearcast.exit.v1", "nearcast.enter.v1"] == [each["type"] for each in events]
    assert 3 == len({each["id"] for each in events})
    kept = client.get("/v1/messages/lives")
    assert ("lives", "tea") == (kept.json()["id"], kept.json()["properties"]["text"])
    assert 404 == client.get("/v1/messages/never").status_code


def test_time_is_the_wall_clock(tmp_path):
    """Messages without a time have that of receipt, those from the future are rejected, and what expires ends."""
    with running(tmp_path, hub={"beat_seconds": 0.05}) as server, server.client() as client:
        begin = datetime.now(UTC)
        subscribe(client, "anna")
        publish(client, "now")
        (event,) = pulled(client, "anna")["events"]
        assert begin <= datetime.fromisoformat(event["time"]) <= datetime.now(UTC)
        ahead = client.post("/v1/messages", json=feature("ahead", time="2999-01-01T00:00:00Z"))
        assert (422, "/properties/time") == (ahead.status_code, ahead.json()["errors"][0]["pointer"])
        expires = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
        client.post("/v1/subscriptions", json=circle("brief", expires=expires))
        wait_until(lambda: client.get("/v1/subscriptions/brief").status_code == 404)
        assert "of-anna" in server.tenant().hub


def test_a_subscription_ends_after_max_events(tmp_path):
    """Exactly that many events are handed over, by every way; the end is an input of the hub and outlives a restart."""
    with running(tmp_path) as server, server.client() as client:
        subscribe(client, "few", max_events=3)
        client.post("/v1/subscriptions", json=circle("all", subscriber="few"))
        publish(client, "m0")
        publish(client, *[f"m{number}" for number in range(1, 10)])
        wait_until(lambda: "of-few" not in server.tenant().hub)
        assert 404 == client.get("/v1/subscriptions/of-few").status_code
        limited = [each for each in pulled(client, "few")["events"] if each["source"].endswith("of-few")]
        assert ["m0", "m1", "m2"] == subjects(limited)
        assert 13 == len(pulled(client, "few")["events"])
        assert 1 == len(pulled(client, "few", cursor=limited[-1]["sequence"], limit=1)["events"])
    with running(tmp_path) as server, server.client() as client:
        assert 13 == len(pulled(client, "few")["events"])
        subscribe(client, "few", max_events=1)
        publish(client, "m10", "m11")
        assert ["m10"] == [
            each["subject"]
            for each in pulled(client, "few", cursor=limited[-1]["sequence"])["events"]
            if each["source"].endswith("of-few") and each["subject"] in ("m10", "m11")
        ]


def test_a_client_that_does_not_read_is_closed_by_name_and_slows_nobody(tmp_path):
    """A stalled stream ends with ConsumerTooSlow; meanwhile others get their events, and it resumes where it was."""
    limits = {"stall_seconds": 1.0, "body_bytes": 20_000_000}
    small = httpx2.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)], trust_env=False)
    with running(tmp_path, send_buffer=65_536, limits=limits) as server, server.client() as other:
        for name in ("slow", "quick"):
            subscribe(other, name)
        wanted = [f"m{number}" for number in range(300)]
        url = "/v1/subscribers/slow/stream"
        with server.client(transport=small) as client, client.stream("GET", url, params={"cursor": "0-0"}) as stalled:
            publish(other, *wanted, padding="x" * 9_000)
            closed = server.tenant().metrics.closed.labels("ConsumerTooSlow")
            wait_until(lambda: closed._value.get() == 1)
            assert wanted == subjects(pulled(other, "quick", cursor="0-0", limit=1000)["events"])
            got = list(streamed(stalled.iter_lines()))
        matches = [(cursor, data["subject"]) for cursor, kind, data in got if kind == "match"]
        assert wanted[: len(matches)] == [subject for _, subject in matches]
        assert ("close", {"reason": "ConsumerTooSlow"}) == got[-1][1:]
        rest = pulled(other, "slow", cursor=matches[-1][0], limit=1000)["events"]
        assert wanted[len(matches) :] == subjects(rest)
        assert rest


def test_streams_end_when_the_server_stops_and_resume_after_a_restart(tmp_path):
    """A stop ends streams at once; after the restart events go on under the same cursors and ids."""
    with running(tmp_path) as server, server.client() as client:
        subscribe(client, "anna")
        publish(client, "m1", "m2")
        with client.stream("GET", "/v1/subscribers/anna/stream") as answer:
            events = streamed(answer.iter_lines())
            first = next(events)
            server.server.should_exit = True
            assert ["m2"] == [data["subject"] for _, kind, data in events if kind == "match"]
    with running(tmp_path) as server, server.client() as client:
        again = pulled(client, "anna", cursor="0-0")["events"]
        assert first[2] == again[0]
        assert ["m2"] == subjects(pulled(client, "anna", cursor=first[0])["events"])
