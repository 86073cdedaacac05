"""Ids with characters that mean something in a path: whatever can be posted can be asked for."""

import asyncio
from urllib.parse import quote

import pytest

from nearcast import AsyncClient, Client
from nearcast.errors import InvalidInput
from support.http_server import circle, feature

#: Ids of messages may be any text without a zero byte, and whole numbers of 64 bits.
MESSAGE_IDS = [
    "a/b",
    "/",
    "//a//",
    "a%2Fb",
    "100%",
    "a b+c",
    "?id=x&y#z",
    "a\nb\r\n",
    "tea:pause",
    "x/stream",
    "{id}",
    "é/日本",
    "\\",
    "007",
    0,
    -5,
    2**63 - 1,
    -(2**63),
]
#: In a path these are taken for something else on the way.
QUERY_IDS = ["", ".", "..", "../..", "a/../b"]
#: Ids of subscriptions and subscribers are plain, and may look like parts of other routes.
NAMES = ["a.b-c_d", "...a", "-", "stream", "events", "current", "location", "x" * 100]


@pytest.fixture(scope="module")
def remote(server):
    """Return a client of the library."""
    with Client(server.url) as found:
        yield found


@pytest.mark.parametrize("id_", MESSAGE_IDS)
def test_a_message_is_found_by_its_path(client, id_):
    """The id is all after /v1/messages/, decoded once."""
    assert 202 == client.post("/v1/messages", json=feature(id_)).status_code
    found = client.get(f"/v1/messages/{quote(str(id_), safe='')}")
    assert (200, id_) == (found.status_code, found.json().get("id"))


@pytest.mark.parametrize("id_", [*MESSAGE_IDS, *QUERY_IDS])
def test_a_message_is_found_by_the_query_and_by_both_clients(client, server, remote, id_):
    """A query carries every id."""
    assert 202 == client.post("/v1/messages", json=feature(id_)).status_code
    assert id_ == client.get("/v1/messages", params={"id": str(id_)}).json()["id"]
    assert id_ == remote.kept_message(id_)["id"]

    async def kept():
        async with AsyncClient(server.url) as found:
            return await found.kept_message(id_)

    assert id_ == asyncio.run(kept())["id"]


def test_a_slash_may_be_written_as_it_is(client):
    """Also two of them, and one at the end."""
    for id_ in ("plain/slash", "plain//slash/"):
        client.post("/v1/messages", json=feature(id_))
        assert id_ == client.get(f"/v1/messages/{id_}").json()["id"]


def test_a_number_is_found_by_its_digits_alone(client):
    """Text and number are two ids; the text counts where both are kept."""
    client.post("/v1/messages", json=feature(42, text="a number"))
    assert 42 == client.get("/v1/messages/42").json()["id"]
    assert 404 == client.get("/v1/messages/042").status_code
    client.post("/v1/messages", json=feature("42", text="a text"))
    assert "42" == client.get("/v1/messages/42").json()["id"]
    assert 404 == client.get(f"/v1/messages/{2**63}").status_code


def test_what_no_message_can_be_called(client, remote):
    """A route without an id, other methods and other parameters are refused as ever; half characters are not sent."""
    refused = client.get("/v1/messages")
    assert (422, "?id") == (refused.status_code, refused.json()["errors"][0]["pointer"])
    assert 405 == client.delete("/v1/messages/a/b").status_code
    assert 404 == client.get("/v1/messages/%00").status_code
    for call in (remote.kept_message, remote.get, remote.erase):
        with pytest.raises(InvalidInput, match="id of a"):
            call("\ud800")


@pytest.mark.parametrize("name", NAMES)
def test_subscriptions_and_subscribers_of_any_name(client, remote, name):
    """All routes that have it in their path."""
    assert 201 == client.post("/v1/subscriptions", json=circle(name, subscriber=name)).status_code
    assert name == client.get(f"/v1/subscriptions/{name}").json()["id"]
    assert {"items": []} == client.get(f"/v1/subscriptions/{name}/current").json()
    remote.pause(name)
    assert remote.get(name)["paused"]
    remote.resume(name)
    assert 200 == client.patch(f"/v1/subscriptions/{name}", json={"labels": {"a": "b"}}).status_code
    assert 200 == client.post(f"/v1/subscriptions/{name}:test", json={"message": feature("m")}).status_code
    assert {"moved": 1, "stayed": []} == remote.move_subscriber(name, (13.4, 52.5))
    remote.publish(feature(f"to {name}", text="tea"))
    (event,) = remote.events(name).events
    with client.stream("GET", f"/v1/subscribers/{name}/stream") as stream:
        assert 200 == stream.status_code
    remote.ack(name, event.cursor)
    assert event.cursor == remote.acked(name)
    remote.unsubscribe(name)
    remote.erase(name)
    assert 404 == client.get(f"/v1/subscriptions/{name}").status_code


@pytest.mark.parametrize("name", ["a/b", "a:pause", "a b", "é", "x" * 101, ".", ".."])
def test_names_that_no_path_could_hold_are_refused_everywhere(client, name):
    """By those who make them and by those who ask for them."""
    for body in (circle(name), circle("plain", subscriber=name)):
        assert 422 == client.post("/v1/subscriptions", json=body).status_code
    encoded = quote(name, safe="").replace(".", "%2E")
    assert 404 == client.get(f"/v1/subscribers/{encoded}").status_code
    assert 404 == client.put(f"/v1/subscribers/{encoded}", json={}).status_code
    assert client.put(f"/v1/subscriptions/{encoded}", json=circle(name)).status_code in (404, 405, 422)
    assert 404 == client.get(f"/v1/subscriptions/{encoded}").status_code
