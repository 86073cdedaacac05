"""Subscriptions that are POSTed again under a key, because a crash took the answer after they were made."""

import uuid

import pytest

from support.http_server import circle


def _key(name):
    return {"Idempotency-Key": name}


def _lose_answers(server):
    """Forget the answers to keys, as a crash does that comes before they are stored."""
    server.tenant().db.execute("DELETE FROM answers").result()


def _listed(client, subscriber):
    return [each["id"] for each in client.get("/v1/subscriptions", params={"subscriber": subscriber}).json()["items"]]


@pytest.mark.parametrize("given_id", [None, "mine"])
def test_a_subscription_whose_answer_was_lost_is_made_once(server, client, given_id):
    """The same request is answered with the same subscription, whether or not it chose an id."""
    name = f"anna-{given_id}"
    body = circle(given_id, subscriber=name, labels={"a": "b"})
    first = client.post("/v1/subscriptions", json=body, headers=_key(name))
    _lose_answers(server)
    again = client.post("/v1/subscriptions", json=body, headers=_key(name))
    assert (201, 201) == (first.status_code, again.status_code)
    assert first.json() == again.json()
    assert [first.headers[each] for each in ("location", "etag")] == [
        again.headers[each] for each in ("location", "etag")
    ]
    assert [first.json()["id"]] == _listed(client, name)
    if given_id is None:
        assert 8 == uuid.UUID(first.json()["id"]).version


def test_many_subscriptions_whose_answer_was_lost_are_made_once(server, client):
    """Each item has an id of its own."""
    body = [circle(None, subscriber="ben"), circle(None, subscriber="ben"), circle("named", subscriber="ben")]
    for _ in range(2):
        assert {"accepted": 3, "rejected": []} == client.post(
            "/v1/subscriptions", json=body, headers=_key("ben")
        ).json()
        _lose_answers(server)
    assert 3 == len(_listed(client, "ben"))


def test_another_subscription_of_the_id_is_no_repeat(server, client):
    """Neither one that was changed since, nor another body, nor one without a key."""
    body = circle("c", subscriber="cleo")
    client.post("/v1/subscriptions", json=body, headers=_key("cleo"))
    assert 409 == client.post("/v1/subscriptions", json=body).status_code
    _lose_answers(server)
    assert 409 == client.post("/v1/subscriptions", json={**body, "query": "coffee"}, headers=_key("cleo")).status_code
    client.patch("/v1/subscriptions/c", json={"labels": {"a": "b"}})
    assert 409 == client.post("/v1/subscriptions", json=body, headers=_key("cleo")).status_code
    two = [client.post("/v1/subscriptions", json=circle(None), headers=_key(key)) for key in "ab"]
    assert two[0].json()["id"] != two[1].json()["id"]
