"""Who may call: tokens, scopes, tenants that never meet, and names of the server on loopback."""

import time

import pytest

from nearcast.errors import InvalidInput
from nearcast.server.run import make_server
from support.http_server import circle, feature, make_token, running, settings_for


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    data = tmp_path_factory.mktemp("server")
    make_token(data)
    with running(data, server={"require_tokens": True}) as found:
        yield found


def client_of(server, **options):
    return server.client(make_token(server.data, **options))


def test_who_has_no_token_is_told_nothing_else(server):
    """Not that the id of a message is missing either, which it must have, as the description says."""
    with server.client() as nobody, client_of(server) as admin:
        assert [401, 422] == [each.get("/v1/messages").status_code for each in (nobody, admin)]
        (described,) = admin.get("/openapi.json").json()["paths"]["/v1/messages"]["get"]["parameters"]
        assert ("id", True) == (described["name"], described["required"])


def test_a_token_is_needed_and_shown_once(server):
    """Without a token, with a wrong, revoked or expired one it is 401; a made one works until it is revoked."""
    with server.client() as nobody, server.client("nc_wrong") as wrong, client_of(server) as admin:
        assert [401, 401] == [each.get("/v1/subscriptions").status_code for each in (nobody, wrong)]
        assert "Bearer" in nobody.get("/v1/subscriptions").headers["www-authenticate"]
        assert 200 == nobody.get("/healthz").status_code
        made = admin.post("/v1/tokens", json={"scopes": ["publish"], "name": "sensor"})
        assert 201 == made.status_code
        secret = made.json()["token"]
        listed = admin.get("/v1/tokens")
        assert secret not in listed.text
        assert made.json()["id"] in [each["id"] for each in listed.json()["items"]]
        with server.client(secret) as sensor:
            assert 202 == sensor.post("/v1/messages", json=feature(1)).status_code
            assert 204 == admin.delete(f"/v1/tokens/{made.json()['id']}").status_code
            assert 401 == sensor.post("/v1/messages", json=feature(1)).status_code
        with client_of(server, expires=time.time() - 1) as expired:
            assert 401 == expired.get("/v1/subscriptions").status_code


def test_secrets_are_not_on_disk(server):
    """Only the SHA-256 of a token is kept."""
    secret = make_token(server.data)
    kept = b"".join(path.read_bytes() for path in server.data.glob("tokens.db*"))
    assert secret.encode() not in kept
    assert secret[3:].encode() not in kept


def test_keys_are_those_of_a_token(server):
    """Two tokens of a tenant may use the same Idempotency-Key: neither gets the other's answer."""
    with client_of(server) as one, client_of(server) as other:
        headers = {"Idempotency-Key": "same"}
        found = [each.post("/v1/messages", json=feature("k"), headers=headers).json() for each in (one, other, one)]
    assert [False, False, True] == [each["repeated"] for each in found]


SCOPED = [
    ("publish", "POST", "/v1/messages"),
    ("subscribe", "POST", "/v1/subscriptions"),
    ("subscribe", "GET", "/v1/subscribers/anna/events"),
    ("subscribe", "POST", "/v1/explain"),
    ("location", "PUT", "/v1/subscribers/anna/location"),
    ("location", "POST", "/v1/locations"),
    ("admin", "GET", "/v1/tokens"),
    ("admin", "GET", "/metrics"),
]


@pytest.mark.parametrize(("scope", "method", "path"), SCOPED, ids=lambda value: value.strip("/").replace("/", "-"))
def test_a_scope_opens_its_routes_and_no_others(server, scope, method, path):
    """Every other scope is 403; its own, and admin, are let in."""
    for each in ("publish", "subscribe", "location", "admin"):
        with client_of(server, scopes=(each,)) as client:
            status = client.request(method, path, json={}).status_code
            assert (status != 403) == (each in (scope, "admin")), (each, status)


def test_a_bound_token_sees_its_own_subscriber_only(server):
    """It lists, makes, reads and explains its own; all else is 403 or not there."""
    with client_of(server) as admin, client_of(server, scopes=("subscribe", "location"), subscriber="anna") as anna:
        admin.put("/v1/subscriptions/bens", json=circle("bens", subscriber="ben"))
        assert "anna" == anna.post("/v1/subscriptions", json=circle("annas")).json()["subscriber"]
        assert 403 == anna.post("/v1/subscriptions", json=circle("x", subscriber="ben")).status_code
        assert ["annas"] == [each["id"] for each in anna.get("/v1/subscriptions").json()["items"]]
        assert 403 == anna.get("/v1/subscriptions", params={"subscriber": "ben"}).status_code
        calls = [
            anna.get("/v1/subscriptions/bens"),
            anna.put("/v1/subscriptions/bens", json=circle("bens")),
            anna.patch("/v1/subscriptions/bens", json={}),
            anna.delete("/v1/subscriptions/bens"),
            anna.post("/v1/subscriptions/bens:pause"),
            anna.get("/v1/subscriptions/bens/current"),
            anna.post("/v1/subscriptions/bens:test", json={"message": feature(1)}),
            anna.post("/v1/explain", json={"message": feature(1), "subscription": "bens"}),
        ]
        assert [404] * 8 == [each.status_code for each in calls]
        for path in ("events", "stream", "ws"):
            assert 403 == anna.get(f"/v1/subscribers/ben/{path}").status_code or path == "ws"
        assert 403 == anna.put("/v1/subscribers/ben/location", json={"lon": 0, "lat": 0}).status_code
        assert 403 == anna.delete("/v1/subscribers/ben").status_code
        assert 403 == anna.get("/v1/messages/1").status_code
        moved = anna.post("/v1/locations", json=[{"id": "bens", "lon": 1, "lat": 1}, {"subscriber": "ben"} | PLACE])
        assert 0 == moved.json()["accepted"]
        assert 13.4 == admin.get("/v1/subscriptions/bens").json()["lon"]
        assert 403 == anna.post("/v1/explain", json={"message": feature(1)}).status_code


PLACE = {"lon": 1.0, "lat": 1.0}


def test_tenants_never_meet_over_the_whole_api(server):
    """With another tenant's token no route of the OpenAPI tells anything of this one, or changes it."""
    with client_of(server, tenant="red") as red, client_of(server, tenant="blue") as blue:
        red.put(
            "/v1/subscriptions/secret", json=circle("secret", "crimson", subscriber="rose", labels={"a": "crimson"})
        )
        red.put("/v1/subscribers/rose", json={"paused": True, "sink": {"url": "https://crimson.example/hook"}})
        red.post("/v1/messages", json=feature("m-1", "crimson"))
        red.post("/v1/tokens", json={"scopes": ["publish"], "name": "crimson"})
        (token,) = [each["id"] for each in red.get("/v1/tokens").json()["items"] if each["name"] == "crimson"]
        before = _world(red)
        for path, methods in blue.get("/openapi.json").json()["paths"].items():
            for method in methods:
                for id_ in ("secret", "rose", "m-1", token):
                    url = path.replace("{id}", id_)
                    if url.endswith("/stream"):
                        continue  # it never ends; what it streams is what `events` gives
                    answer = blue.request(method.upper(), url, json=_body_for(method, path))
                    told = answer.text.replace(url, "")
                    assert "crimson" not in told, (method, url, told)
        assert [] == blue.get("/v1/subscribers/rose/events", params={"cursor": "0-0"}).json()["events"]
        assert before == _world(red)
        assert "nearcast_published_total 0.0" in blue.get("/metrics").text
        assert ["m-1"] == [each["subject"] for each in red.get("/v1/subscribers/rose/events").json()["events"]]


def _world(client):
    """Return all that a tenant can read of itself."""
    paths = ("/v1/subscriptions", "/v1/subscribers/rose", "/v1/subscribers/rose/events?cursor=0-0", "/v1/tokens")
    return [client.get(path).json() for path in paths]


def _body_for(method, path):
    if method in ("get", "delete"):
        return None
    if path.endswith("ack"):
        return {"cursor": "0-0"}
    if path.endswith("explain"):
        return {"message": feature(1, "crimson"), "subscription": "secret"}
    if path.endswith("locations"):
        return [{"subscriber": "rose", **PLACE}, {"id": "secret", **PLACE}]
    return PLACE if path.endswith("location") else {}


HEADERS = [
    ({"Host": "evil.example"}, 421),
    ({"Host": "127.0.0.1.evil.example:80"}, 421),
    ({"Host": ""}, 421),
    ({"Host": "localhost:1234"}, 200),
    ({"Host": "[::1]"}, 200),
    ({"Host": "city.lan"}, 200),
    ({"Origin": "https://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": "http://localhost:3000"}, 200),
]


def test_names_of_the_server_are_checked_on_loopback(tmp_path):
    """A page that has renamed itself to 127.0.0.1 sends its own Host or Origin, and is refused."""
    with running(tmp_path, server={"allowed_hosts": ["city.lan"]}) as server, server.client() as client:
        for headers, status in HEADERS:
            assert status == client.get("/v1/subscriptions", headers=headers).status_code, headers


def test_requests_of_a_token_are_limited(tmp_path):
    """More than the rate is 429 with Retry-After, for that token alone."""
    with running(tmp_path, limits={"rate": "2/hour"}) as server:
        with server.client() as client:
            assert [200, 200, 429] == [client.get("/v1/subscriptions").status_code for _ in range(3)]
            assert int(client.get("/v1/subscriptions").headers["retry-after"]) > 0
        with client_of(server) as other:
            assert 200 == other.get("/v1/subscriptions").status_code


def test_an_address_that_others_reach_needs_a_token_first(tmp_path):
    """Bound to all addresses without any token, the server says how to make one."""
    settings = settings_for(tmp_path, server={"host": "0.0.0.0"})
    with pytest.raises(InvalidInput, match="nearcast token create"):
        make_server(settings)
    make_token(tmp_path)
    make_server(settings)
