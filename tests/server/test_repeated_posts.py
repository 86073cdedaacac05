"""`Idempotency-Key` on POSTs of places, tokens, backups and resends: a repeat does nothing; secrets are shown once."""

from support.http_server import circle, feature

SINK = {"sink": {"url": "https://hooks.invalid/tea"}}


def _key(name):
    return {"Idempotency-Key": name}


def _lon(client, name="tea"):
    return client.get(f"/v1/subscriptions/{name}").json()["lon"]


def _kept(server):
    """Return all bytes of the answers that are kept."""
    return b"\n".join(bytes(body) for (body,) in server.tenant().db.read("SELECT body FROM answers"))


def test_places_under_a_key_move_once(client):
    """A late repeat, after another report, does not bring the old place back; another body is refused."""
    client.put("/v1/subscriptions/tea", json=circle("tea", subscriber="anna"))
    first = [{"subscriber": "anna", "lon": 1.0, "lat": 2.0}, {"subscriber": "nobody", "lon": 1.0, "lat": 2.0}]
    answer = client.post("/v1/locations", json=first, headers=_key("walk"))
    client.post("/v1/locations", json=[{"subscriber": "anna", "lon": 5.0, "lat": 2.0}])
    again = client.post("/v1/locations", json=first, headers=_key("walk"))
    assert (202, answer.json(), 5.0) == (again.status_code, again.json(), _lon(client))
    other = client.post("/v1/locations", json=first[:1], headers=_key("walk"))
    assert (422, "urn:nearcast:problem:key-reused", 5.0) == (other.status_code, other.json()["type"], _lon(client))


def test_a_token_is_made_once_and_shown_once(client, server):
    """A repeat is 409, names the token and what to do; no file has the secret."""
    given = {"scopes": ["publish"], "name": "till"}
    made = client.post("/v1/tokens", json=given, headers=_key("till"))
    again = client.post("/v1/tokens", json=given, headers=_key("till"))
    assert (201, 409) == (made.status_code, again.status_code)
    assert "urn:nearcast:problem:shown-once" == again.json()["type"]
    assert made.json()["id"] in again.json()["detail"]
    assert made.json()["token"] not in again.text
    assert ["till"] == [each["name"] for each in client.get("/v1/tokens").json()["items"]]
    assert made.json()["token"].encode() not in _kept(server)
    assert 422 == client.post("/v1/tokens", json={"scopes": ["subscribe"]}, headers=_key("till")).status_code
    assert 204 == client.delete(f"/v1/tokens/{made.json()['id']}").status_code


def test_a_refused_token_may_be_made_under_its_key(client):
    """The mistake is not kept."""
    for _ in range(2):
        assert 422 == client.post("/v1/tokens", json={"scopes": []}, headers=_key("later")).status_code
    assert 201 == client.post("/v1/tokens", json={"scopes": ["publish"]}, headers=_key("later")).status_code


def test_a_secret_is_rotated_once(client, server):
    """A repeat would push the last one out."""
    client.put("/v1/subscribers/rota", json=SINK)
    made = client.post("/v1/subscribers/rota:rotate", headers=_key("r"))
    again = client.post("/v1/subscribers/rota:rotate", headers=_key("r"))
    assert (200, 409) == (made.status_code, again.status_code)
    (secret,) = made.json()["sink"]["secrets"]
    assert secret not in again.text
    assert secret.encode() not in _kept(server)
    assert 2 == client.get("/v1/subscribers/rota").json()["sink"]["n_secrets"]


def test_events_are_sent_again_once(client, server):
    """Under one key, whatever came meanwhile."""
    client.put("/v1/subscribers/again", json=SINK)
    client.put("/v1/subscriptions/again", json=circle("again", subscriber="again"))
    resent = []
    dispatcher = server.tenant().hooks.dispatcher
    resend = dispatcher.resend

    async def noted(subscriber, events):
        resent.append(len(events))
        await resend(subscriber, events)

    dispatcher.resend = noted
    client.post("/v1/messages", json=feature("m1"))
    for path in ("/v1/replay", "/v1/deliveries:resend"):
        body = {"subscriber": "again", "from": "0-0"}
        answers = [client.post(path, json=body, headers=_key(path)).json() for _ in range(2)]
        assert [{"resent": 1}] * 2 == answers
        assert 422 == client.post(path, json={**body, "to": "9-9"}, headers=_key(path)).status_code
    assert [1, 1] == resent
    answers = [
        client.post("/v1/dead-letters:resend", json={"subscriber": "again"}, headers=_key("dead")) for _ in range(2)
    ]
    assert [(202, {"resent": 0})] * 2 == [(each.status_code, each.json()) for each in answers]


def test_a_backup_is_made_once(client):
    """Without the key the name is taken."""
    given = {"name": "monday"}
    assert [201, 201] == [client.post("/v1/backup", json=given, headers=_key("b")).status_code for _ in range(2)]
    assert 409 == client.post("/v1/backup", json=given).status_code


def test_answers_with_ids_of_an_erased_subscriber_go_with_it(client, server):
    """A subscription that could not follow is a rejected row with its id."""
    name = "erased"
    client.put(f"/v1/subscriptions/{name}", json={"query": "tea", "subscriber": name})
    moves = [{"subscriber": name, "lon": 1.0, "lat": 2.0}]
    found = client.post("/v1/locations", json=moves, headers=_key(name))
    assert [name] == [each["id"] for each in found.json()["rejected"]]
    assert name.encode() in _kept(server)
    assert 204 == client.delete(f"/v1/subscribers/{name}").status_code
    assert name.encode() not in _kept(server)


def test_that_a_secret_was_shown_is_forgotten_with_its_subscriber(client, server):
    """What is kept of a rotation has the name of the subscriber; who comes under that name later has its own."""
    name, sink = "hidden", {"sink": {"url": "https://hook.invalid/"}}
    for _ in range(2):
        client.put(f"/v1/subscribers/{name}", json=sink)
        assert 200 == client.post(f"/v1/subscribers/{name}:rotate", headers=_key(name)).status_code
        assert 409 == client.post(f"/v1/subscribers/{name}:rotate", headers=_key(name)).status_code
        assert 204 == client.delete(f"/v1/subscribers/{name}").status_code
        assert name.encode() not in _kept(server)


def test_the_description_has_keys_where_they_count(client):
    """And not on what does the same again by itself."""
    paths = client.get("/openapi.json").json()["paths"]
    with_key = {
        path
        for path, methods in paths.items()
        if any(each["name"] == "Idempotency-Key" for each in methods.get("post", {}).get("parameters", []))
    }
    assert {"/v1/locations", "/v1/tokens", "/v1/replay", "/v1/messages", "/v1/subscriptions"} <= with_key
    assert "/v1/explain" not in with_key
