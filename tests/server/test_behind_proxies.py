"""A proxy on the same machine reaches the server over loopback; who comes through it is not on this machine."""

import pytest

from support.http_server import make_token, running

HEADERS = [
    {"X-Forwarded-For": "203.0.113.9"},
    {"Forwarded": "for=203.0.113.9"},
    {"X-Real-IP": "203.0.113.9"},
    {"Via": "1.1 proxy.example"},
    {"X-Forwarded-Host": "nearcast.example"},
    {"X-Forwarded-Proto": "https"},
    {"X-Forwarded-For": ""},
]


@pytest.mark.parametrize("headers", HEADERS, ids=lambda each: "".join(*each.items()))
def test_who_comes_through_a_proxy_needs_a_token(server, client, headers):
    """On every kind of route, hot or not; with a token it is served as ever."""
    for method, path in (("GET", "/v1/subscriptions"), ("POST", "/v1/messages"), ("GET", "/v1/subscribers/a/stream")):
        refused = client.request(method, path, headers=headers)
        assert 401 == refused.status_code
        assert "proxy" in refused.json()["detail"]
    assert 200 == client.get("/healthz", headers=headers).status_code
    assert 200 == client.get("/v1/subscriptions").status_code
    with server.client(make_token(server.data)) as admin:
        assert 200 == admin.get("/v1/subscriptions", headers=headers).status_code


def test_whoever_runs_the_server_may_say_otherwise(tmp_path):
    """`require_tokens = false` is for a proxy that looks who comes."""
    with running(tmp_path, server={"require_tokens": False}) as server, server.client() as client:
        assert 200 == client.get("/v1/subscriptions", headers=HEADERS[0]).status_code
