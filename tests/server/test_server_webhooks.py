"""Webhooks of a real server: from a published message to a receiver that verifies, across restarts and refusals."""

from __future__ import annotations

import pytest
from standardwebhooks import Webhook
from threaded_receiver import Receiver, receiving

from nearcast.server import deliveries
from nearcast.server.webhooks import schedule
from support.http_server import circle, feature, make_token, running
from support.waiting import wait_until

ALLOWED = {"webhooks": {"allow": ("127.0.0.0/8",)}}


def put_sink(client, receiver, **more):
    answer = client.put("/v1/subscribers/anna", json={"sink": {"url": receiver.url}, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["sink"]


def publish(client, *ids):
    body = {"type": "FeatureCollection", "features": [feature(each) for each in ids]}
    assert client.post("/v1/messages", json=body).json()["accepted"] == len(ids)


def test_a_match_reaches_its_receiver(tmp_path):
    """Signed by the secret that was shown once, a CloudEvent with the whole message, and in the list of attempts."""
    with receiving(Receiver()) as receiver, running(tmp_path, **ALLOWED) as server, server.client() as client:
        sink = put_sink(client, receiver)
        client.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
        publish(client, "m1")
        wait_until(lambda: receiver.requests)
        headers, body = receiver.requests[0]
        event = Webhook(sink["secrets"][0]).verify(body, headers)
        assert (event["type"], event["subject"]) == ("nearcast.match.v1", "m1")
        assert event["data"]["message"]["geometry"] == {"type": "Point", "coordinates": [13.4, 52.5]}
        assert "secrets" not in client.get("/v1/subscribers/anna").json()["sink"]
        wait_until(lambda: client.get("/v1/deliveries?message=m1").json()["items"])
        (attempt,) = client.get("/v1/deliveries?message=m1&status=accepted").json()["items"]
        assert (attempt["delivery_id"], attempt["status"]) == (event["id"], 204)
        assert client.get("/v1/deliveries?status=failed").json()["items"] == []
        wait_until(lambda: client.get("/v1/subscribers/anna").json()["acked"] == event["sequence"])
        assert 'nearcast_webhook_attempts_total{outcome="accepted"} 1.0' in client.get("/metrics").text


@pytest.fixture
def soon_again(monkeypatch):
    """Let what failed be tried again as soon as it may be."""
    monkeypatch.setattr(schedule, "DELAYS_S", (0,) * len(schedule.DELAYS_S))


def test_nothing_is_lost_while_receiver_and_server_are_away(tmp_path, soon_again):
    """Events of a receiver that is down reach it after a restart of the server, each at least once."""
    receiver = Receiver()
    with receiving(receiver):
        pass
    with running(tmp_path, **ALLOWED) as server, server.client() as client:
        put_sink(client, receiver)
        client.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
        publish(client, "m1", "m2", "m3")
        wait_until(lambda: client.get("/v1/deliveries?status=failed").json()["items"])
    with receiving(receiver), running(tmp_path, **ALLOWED) as server, server.client() as client:
        client.post("/v1/subscribers/anna:enable")
        wait_until(lambda: {each["subject"] for each in receiver.events()} == {"m1", "m2", "m3"})
        assert len({each["id"] for each in receiver.events()}) == 3


def test_gone_disables_until_enabled(tmp_path, soon_again):
    """410 is shown in the subscriber; enabled again, the events come."""
    with receiving(Receiver(status=410)) as receiver, running(tmp_path, **ALLOWED) as server, server.client() as client:
        put_sink(client, receiver)
        client.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
        publish(client, "m1")
        wait_until(lambda: client.get("/v1/subscribers/anna").json()["sink"]["disabled"])
        receiver.status = 204
        assert client.post("/v1/subscribers/anna:enable").status_code == 204
        wait_until(lambda: client.get("/v1/deliveries?status=accepted").json()["items"])


def test_sending_again(tmp_path):
    """One event by its delivery_id, a range by cursors, under the same ids; without a sink it is refused."""
    with receiving(Receiver()) as receiver, running(tmp_path, **ALLOWED) as server, server.client() as client:
        put_sink(client, receiver)
        client.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
        publish(client, "m1", "m2", "m3")
        wait_until(lambda: len(receiver.requests) == 3)
        first, second, third = receiver.ids
        wait_until(lambda: len(client.get("/v1/deliveries").json()["items"]) == 3)
        again = {"subscriber": "anna", "delivery_id": second}
        assert client.post("/v1/deliveries:resend", json=again).json() == {"resent": 1}
        wait_until(lambda: receiver.ids[3:] == [second])
        cursor = receiver.events()[0]["sequence"]
        assert client.post("/v1/replay", json={"subscriber": "anna", "from": cursor}).json() == {"resent": 2}
        wait_until(lambda: sorted(receiver.ids[4:]) == sorted([second, third]))
        for name in ("from", "to"):
            wrong = client.post("/v1/replay", json={"subscriber": "anna", name: 5})
            assert (422, f"/{name}") == (wrong.status_code, wrong.json()["errors"][0]["pointer"])
            assert wrong.json()["detail"].startswith(f"{name} is 5")
        refused = client.post("/v1/replay", json={"subscriber": "nobody"})
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:nearcast:problem:no-sink")
        assert client.post("/v1/deliveries:resend", json={**again, "delivery_id": "?"}).status_code == 404
        assert first not in receiver.ids[3:]


def test_sending_more_again_than_one_call_does(tmp_path, monkeypatch):
    """The answer says where the next call begins; the last one says nothing."""
    monkeypatch.setattr(deliveries, "_MOST_AGAIN", 2)
    monkeypatch.setattr(deliveries, "_PAGE", 2)
    with receiving(Receiver()) as receiver, running(tmp_path, **ALLOWED) as server, server.client() as client:
        put_sink(client, receiver)
        client.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
        publish(client, "m1", "m2", "m3")
        wait_until(lambda: len(receiver.requests) == 3)
        found = client.post("/v1/replay", json={"subscriber": "anna"}).json()
        assert found == {"resent": 2, "next": receiver.events()[1]["sequence"]}
        assert client.post("/v1/replay", json={"subscriber": "anna", "from": found["next"]}).json() == {"resent": 1}


def test_quiet(tmp_path):
    """One notice a message, though two subscriptions match."""
    with receiving(Receiver()) as receiver, running(tmp_path, **ALLOWED) as server, server.client() as client:
        put_sink(client, receiver, once_per_message=True)
        for each in ("a", "b"):
            client.post("/v1/subscriptions", json=circle(each, subscriber="anna"))
        publish(client, "m1", "m2")
        wait_until(lambda: len(receiver.requests) == 2)
        wait_until(lambda: client.get("/v1/subscribers/anna").json()["sink"]["held_back"] == 2)
        assert [each["subject"] for each in receiver.events()] == ["m1", "m2"]


def test_secrets_rotate(tmp_path):
    """A new secret is shown once and signs beside the old one; a PUT of the same URL keeps both."""
    with receiving(Receiver()) as receiver, running(tmp_path, **ALLOWED) as server, server.client() as client:
        (old,) = put_sink(client, receiver)["secrets"]
        (new,) = client.post("/v1/subscribers/anna:rotate").json()["sink"]["secrets"]
        assert put_sink(client, receiver)["n_secrets"] == 2
        client.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
        publish(client, "m1")
        wait_until(lambda: receiver.requests)
        headers, body = receiver.requests[0]
        assert Webhook(old).verify(body, headers) == Webhook(new).verify(body, headers)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"sink": {"url": "https://127.0.0.1/"}}, "/sink/url"),
        ({"sink": {"url": "http://hook.example/"}}, "/sink/url"),
        ({"sink": {"url": "https://hook.example/", "color": "red"}}, "/sink"),
        ({"sink": "https://hook.example/"}, "/sink"),
        ({"cooldown": 5}, "/cooldown"),
        ({"debounce": {"exit": "5s"}}, "/debounce"),
        ({"once_per_message": 1}, "/once_per_message"),
    ],
)
def test_settings_that_cannot_be_used(client, body, pointer):
    """A 422 whose pointer names the field; nothing is stored."""
    answer = client.put("/v1/subscribers/ben", json=body)
    assert answer.status_code == 422
    assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]
    assert client.get("/v1/subscribers/ben").json()["sink"] is None


def test_a_bound_token_sees_its_own(tmp_path):
    """Attempts and dead letters of another subscriber are refused, and so are those of all."""
    token = make_token(tmp_path, scopes=("subscribe",), subscriber="anna")
    with running(tmp_path, server={"require_tokens": True}) as server, server.client(token) as client:
        assert client.get("/v1/deliveries?subscriber=ben").status_code == 403
        assert client.get("/v1/dead-letters").json() == {"items": [], "next": None}
        assert client.post("/v1/dead-letters:resend", json={"subscriber": "ben"}).status_code == 403


def test_nothing_is_left_of_an_erased_subscriber(tmp_path):
    """Its attempts go with it."""
    with receiving(Receiver()) as receiver, running(tmp_path, **ALLOWED) as server, server.client() as client:
        put_sink(client, receiver)
        client.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
        publish(client, "m1")
        wait_until(lambda: client.get("/v1/deliveries?subscriber=anna").json()["items"])
        assert client.delete("/v1/subscribers/anna").status_code == 204
        assert client.get("/v1/deliveries?subscriber=anna").json()["items"] == []
        assert client.get("/v1/subscribers/anna").json()["sink"] is None
