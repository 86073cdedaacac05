"""`Client` and `AsyncClient` against a real server: the names of a hub, and what goes wrong on the way."""

from __future__ import annotations

import asyncio
import socket
import threading

import pyarrow as pa
import pytest

from nearcast import AsyncClient, Circle, Client, InvalidInput, Message, Similar, TopK, Within
from nearcast.client import ServerProblem, ServerUnavailable
from support.http_server import circle, feature, make_token, running


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("client") / "data", hub={"window": "1000"}) as found:
        yield found


@pytest.fixture
def client(server):
    with Client(server.url) as found:
        yield found


def test_a_subscription_lives(client):
    """Stored, read, replaced, listed, forgotten; values of the model and dicts alike."""
    assert client.subscribe(circle("s1", labels=None), subscriber="anna", labels={"team": "a"}) == "s1"
    assert client.subscribe(Within("s1", "coffee", Circle(13.4, 52.5, 500))) == "s1"
    found = client.get("s1")
    assert (found["query"], found["radius_m"]) == ("coffee", 500)
    assert client.subscribe(Similar("s2", "ramen", (13.4, 52.5), threshold=0.5, max_distance=900)) == "s2"
    assert client.subscribe(TopK("s3", "ramen", (13.4, 52.5), k=3, max_distance=900)) == "s3"
    named = client.subscribe({"query": "tea"} | {"west": 1, "south": 1, "east": 2, "north": 2})
    assert {each["id"] for each in client.subscriptions()} == {"s1", "s2", "s3", named}
    client.unsubscribe("s1")
    with pytest.raises(ServerProblem) as caught:
        client.get("s1")
    assert caught.value.status == 404


def test_messages(client):
    """One, many, a table; what is rejected says why; a key publishes once."""
    assert client.publish(Message("m1", "tea", (13.4, 52.5))).accepted == 1
    many = client.publish_many([feature("m2"), feature("m3", lat=91.0), Message("m4", "tea", (13.4, 52.5))])
    assert (many.accepted, [row["row"] for row in many.rejected]) == (2, [1])
    table = pa.table({"id": ["m5", "m6"], "text": ["tea", "tea"], "lon": [13.4, 13.5], "lat": [52.5, 52.6]})
    assert client.publish_many(table).accepted == 2
    assert not client.publish(feature("m7"), key="once").repeated
    assert client.publish(feature("m7"), key="once").repeated
    with pytest.raises(ServerProblem, match="422"):
        client.publish(feature("m8"), key="once")


def test_questions(client):
    """Why it matched, and how many a day."""
    client.subscribe(circle("why"))
    assert client.explain(feature(1), "why")["matched"]
    assert not client.explain(feature(1, text="coffee"), "why")["matched"]
    client.publish(feature("judged"))
    assert "matches" in client.estimate(circle("new"))
    assert client.health()


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda client: client.subscribe(circle("bad", query="tea AND (")), "query"),
        (lambda client: client.subscribe(circle("bad", lat=91)), "lat"),
        (lambda client: client.publish({"text": "no place"}), "id"),
        (lambda client: client.unsubscribe("nobody"), "404"),
    ],
)
def test_what_the_server_refuses(client, call, reason):
    """The problem of the server, in one line."""
    with pytest.raises(ServerProblem, match=reason) as caught:
        call(client)
    assert not caught.value.may_pass


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.subscribe(5),
        lambda client: client.publish("tea"),
        lambda client: client.publish({"id": 1, "text": "tea", "lon": float("nan"), "lat": 1}),
        lambda client: client.publish({"id": 1, "text": "half \ud800", "lon": 1, "lat": 1}),
        lambda client: client.move_subscriber("anna", "here"),
    ],
)
def test_what_is_not_even_sent(client, call):
    """What can be no request is an `InvalidInput` here."""
    with pytest.raises(InvalidInput):
        call(client)


def test_ids_with_slashes_and_spaces(client):
    """Ids are part of a path, and are quoted there; the server says which ids it takes."""
    with pytest.raises(ServerProblem):
        client.get("a/b c?d#e")


def test_nobody_listens():
    """The error names the address; the call is given up after `retry_for`."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with Client(url, retry_for=0.2) as client, pytest.raises(ServerUnavailable, match=r"is the server running\?"):
            client.health()
        with Client(url, retry_for=0.2) as client, pytest.raises(ServerUnavailable):
            client.publish(feature(1))


def test_not_a_nearcast_server():
    """An answer of something else is an error that says so."""

    def answer(listening):
        connection, _ = listening.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer, args=(listening,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with Client(url, retry_for=0) as client, pytest.raises(ServerProblem, match="is this a nearcast server"):
            client.publish(feature(1))
        thread.join()


def test_tokens(tmp_path):
    """Without one a server that asks for it refuses; with it the client acts."""
    token = make_token(tmp_path)
    with running(tmp_path, server={"require_tokens": True}) as server:
        with Client(server.url, retry_for=0) as nobody, pytest.raises(ServerProblem, match="401"):
            nobody.publish(feature(1))
        with Client(server.url, token, retry_for=0) as client:
            assert client.publish(feature(1)).accepted == 1


def test_the_async_client(server):
    """The same methods, awaited."""

    async def act():
        async with AsyncClient(server.url) as client:
            await client.subscribe(circle("async"), subscriber="ben")
            assert (await client.get("async"))["subscriber"] == "ben"
            assert (await client.publish_many([feature("a1"), feature("a2")])).accepted == 2
            assert [each["id"] async for each in client.subscriptions("ben")] == ["async"]
            assert (await client.explain(feature("a1"), "async"))["matched"]
            await client.unsubscribe("async")
            with pytest.raises(ServerProblem, match="404"):
                await client.get("async")
            assert await client.health()

    asyncio.run(act())
