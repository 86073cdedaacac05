"""`:test` of a subscription: an explanation, and an event for its sink that is marked as a test."""

from standardwebhooks import Webhook
from threaded_receiver import Receiver, receiving

from support.http_server import circle, feature, running

ALLOWED = {"webhooks": {"allow": ("127.0.0.0/8",)}}


def test_a_test_reaches_the_sink_and_changes_nothing(tmp_path):
    """Signed as all are, with a type of its own; no attempt is listed, no cursor moves, no failure counts."""
    with receiving(Receiver()) as receiver, running(tmp_path, **ALLOWED) as server, server.client() as client:
        client.put("/v1/subscriptions/tea", json=circle("tea", subscriber="anna", max_events=1))
        body = {"message": feature("m1")}
        assert client.post("/v1/subscriptions/tea:test", json=body).json()["sent"] is None
        sink = client.put("/v1/subscribers/anna", json={"sink": {"url": receiver.url}, "cooldown": "1h"}).json()["sink"]
        before = client.get("/v1/subscribers/anna").json()
        found = client.post("/v1/subscriptions/tea:test", json=body).json()
        assert (True, {"status": 204, "reason": "HTTP 204"}) == (found["matched"], found["sent"])
        headers, content = receiver.requests[0]
        event = Webhook(sink["secrets"][0]).verify(content, headers)
        assert ("nearcast.test.v1", "m1") == (event["type"], event["subject"])
        assert event["id"].startswith("test:")
        assert [13.4, 52.5] == event["data"]["message"]["geometry"]["coordinates"]
        receiver.status = 500
        assert 500 == client.post("/v1/subscriptions/tea:test", json=body).json()["sent"]["status"]
        assert before == client.get("/v1/subscribers/anna").json()
        assert [] == client.get("/v1/deliveries").json()["items"]
        assert [] == client.get("/v1/subscribers/anna/events?cursor=0-0").json()["events"]


def test_what_is_not_sent(tmp_path):
    """A message that does not match, one that is only to be explained, and to a subscriber that is paused."""
    with receiving(Receiver()) as receiver, running(tmp_path, **ALLOWED) as server, server.client() as client:
        client.put("/v1/subscriptions/tea", json=circle("tea", subscriber="anna"))
        client.put("/v1/subscribers/anna", json={"sink": {"url": receiver.url}})
        for body in ({"message": feature("m1", text="coffee")}, {"message": feature("m1"), "send": False}):
            assert client.post("/v1/subscriptions/tea:test", json=body).json()["sent"] is None
        client.patch("/v1/subscribers/anna", json={"paused": True})
        assert client.post("/v1/subscriptions/tea:test", json={"message": feature("m1")}).json()["sent"] is None
        assert [] == receiver.requests
        refused = client.post("/v1/subscriptions/tea:test", json={"message": feature("m1"), "send": "yes"})
        assert (422, "/send") == (refused.status_code, refused.json()["errors"][0]["pointer"])
