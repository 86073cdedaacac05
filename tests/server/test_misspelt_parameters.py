"""Parameters that a route does not take: refused by name, with those that it takes."""

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from support.http_server import feature
from support.waiting import PATIENCE_S

PLACE = {"lon": 1.0, "lat": 2.0}
CALLS = [
    ("POST", "/v1/messages", feature("m"), "no parameters"),
    ("GET", "/v1/messages/m", None, "no parameters"),
    ("GET", "/v1/messages", None, "expected id"),
    ("POST", "/v1/locations", [], "no parameters"),
    ("PUT", "/v1/subscribers/anna/location", PLACE, "no parameters"),
    ("GET", "/v1/subscribers/anna/events", None, "did you mean cursor"),
    ("POST", "/v1/subscribers/anna/ack", {"cursor": "0-0"}, "no parameters"),
    ("GET", "/v1/subscribers/anna/stream", None, "cursor"),
    ("GET", "/v1/stream", None, "no parameters"),
    ("GET", "/v1/map", None, "bbox, zoom"),
    ("GET", "/v1/subscribers/anna", None, "no parameters"),
    ("DELETE", "/v1/subscribers/anna", None, "no parameters"),
    ("GET", "/v1/deliveries", None, "cursor"),
    ("GET", "/v1/dead-letters", None, "cursor"),
    ("POST", "/v1/replay", {"subscriber": "anna"}, "no parameters"),
    ("GET", "/v1/tokens", None, "no parameters"),
    ("POST", "/v1/backup", {"name": "a"}, "no parameters"),
    ("POST", "/v1/explain", {"message": feature("m")}, "no parameters"),
]


@pytest.mark.parametrize(("method", "path", "body", "instead"), CALLS, ids=[f"{call[0]} {call[1]}" for call in CALLS])
def test_a_parameter_that_means_nothing_is_refused(client, method, path, body, instead):
    """By 422 with a pointer to it, before anything is done."""
    refused = client.request(method, path, params={"cursr": "0-0"}, json=body)
    assert (422, "urn:nearcast:problem:invalid-parameter") == (refused.status_code, refused.json()["type"])
    (error,) = refused.json()["errors"]
    assert "?cursr" == error["pointer"]
    assert instead in error["message"].replace("'", "").replace("`", "")


def test_nothing_was_published_or_erased(client, server):
    """By any of them."""
    client.post("/v1/messages?cursr=1", json=feature("unheard"))
    assert 0 == server.tenant().activity.counts["messages"]


def test_a_socket_with_such_a_parameter_is_refused(server):
    """Before it is opened."""
    url = f"{server.url.replace('http', 'ws')}/v1/subscribers/anna/ws?cursr=0-0"
    with pytest.raises(InvalidStatus) as refused, connect(url, proxy=None, open_timeout=PATIENCE_S):
        pass
    assert 422 == refused.value.response.status_code


def test_known_parameters_are_described(client):
    """The description has those of the routes that read them by themselves."""
    paths = client.get("/openapi.json").json()["paths"]
    found = [each["name"] for each in paths["/v1/deliveries"]["get"]["parameters"]]
    assert ["message", "subscriber", "status", "cursor", "limit"] == found
    stream = paths["/v1/subscribers/{id}/stream"]["get"]["parameters"]
    assert ["id", "cursor", "lastEventId"] == [each["name"] for each in stream]


def test_whoever_watches_may_send_what_they_like(client):
    """Probes and scrapers add parameters of their own."""
    assert [200] * 3 == [client.get(f"{path}?probe=1").status_code for path in ("/healthz", "/readyz", "/metrics")]
