"""Routes that are answered without the layers of the framework: nobody shall see a difference."""

import pytest

from support.http_server import circle, feature

EVENTS, ACK, JSON = "/v1/subscribers/anna/events", "/v1/subscribers/anna/ack", {"Content-Type": "application/json"}

REQUESTS = {
    "events": ("GET", EVENTS, {}),
    "events-after": ("GET", f"{EVENTS}?cursor=0-0&limit=1", {}),
    "bad-cursor": ("GET", f"{EVENTS}?cursor=soon", {}),
    "future-cursor": ("GET", f"{EVENTS}?cursor=99999-0", {}),
    "unknown-parameter": ("GET", f"{EVENTS}?since=1", {}),
    "parameter-twice": ("GET", f"{EVENTS}?limit=1&limit=2", {}),
    "unknown-subscriber": ("GET", "/v1/subscribers/nobody/events", {}),
    "escaped-name": ("GET", "/v1/subscribers/b%20b/events", {}),
    "slash-in-name": ("GET", "/v1/subscribers/a%2Fb/events", {}),
    "no-name": ("GET", "/v1/subscribers//events", {}),
    "slash-at-the-end": ("GET", f"{EVENTS}/", {}),
    "other-origin": ("GET", EVENTS, {"headers": {"Origin": "http://elsewhere.example"}}),
    "other-host": ("GET", EVENTS, {"headers": {"Host": "elsewhere.example"}}),
    "bad-token": ("GET", EVENTS, {"headers": {"Authorization": "Bearer nonsense"}}),
    "other-method": ("DELETE", EVENTS, {}),
    "head": ("HEAD", EVENTS, {}),
    "ack": ("POST", ACK, {"json": {"cursor": "0-0"}}),
    "ack-of-no-cursor": ("POST", ACK, {"json": {}}),
    "ack-beyond": ("POST", ACK, {"json": {"cursor": "99999-0"}}),
    "ack-without-a-body": ("POST", ACK, {}),
    "ack-of-half-a-body": ("POST", ACK, {"content": b'{"cursor": ', "headers": JSON}),
    "ack-of-another-type": ("POST", ACK, {"content": b"0-0", "headers": {"Content-Type": "text/plain"}}),
    "ack-too-large": ("POST", ACK, {"content": b" " * (1 << 21), "headers": JSON}),
}


@pytest.fixture(scope="module")
def client(server):
    with server.client() as found:
        found.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
        found.post("/v1/messages", json=[feature("one"), feature("two")])
        yield found


@pytest.mark.parametrize("name", REQUESTS)
def test_a_hot_route_answers_as_the_framework_would(client, server, monkeypatch, name):
    """Status, headers and body, of what is refused as well."""
    method, path, options = REQUESTS[name]

    def answer():
        found = client.request(method, path, **options)
        headers = {name: value for name, value in found.headers.items() if name not in ("date", "x-request-id")}
        return found.status_code, headers, found.content

    hot = answer()
    monkeypatch.setattr(server.server.app, "_hot", {})
    assert answer() == hot
