"""Clients of a server whose hub lies on a plane: places are (x, y)."""

import asyncio

import pytest

from nearcast import AsyncClient, Box, Circle, Client, InvalidInput, Message, Similar, Space, Within
from support.http_server import running


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Run a server on a plane."""
    with running(tmp_path_factory.mktemp("client") / "data", hub={"space": "plane"}) as found:
        yield found


def test_a_client_speaks_of_a_plane(server):
    """Subscriptions as values, moves, questions and messages."""
    with Client(server.url, space="plane") as client:
        client.subscribe(Within("circle", "tea", Circle(0, 0, 5)), subscriber="anna")
        client.subscribe(Within("box", "tea", Box(0, 0, 5, 5)), subscriber="ben")
        client.subscribe(Similar("near", "tea", (1, 2), threshold=0.5, max_distance=9), subscriber="cleo")
        assert (0.0, 0.0, 5.0) == tuple(client.get("circle")[name] for name in ("x", "y", "radius"))
        assert {"moved": 1, "stayed": []} == client.move_subscriber("anna", (1000, 2000))
        assert (1000.0, 2000.0) == tuple(client.get("circle")[name] for name in ("x", "y"))
        message = Message("m", "tea", (1001, 2000))
        assert client.explain(message, Within("other", "tea", Circle(1000, 2000, 5)))["matched"]
        client.publish(message)
        assert "per_day" in client.estimate(Within("other", "tea", Circle(1000, 2000, 5)))
        (event,) = client.events("anna").events
        assert [1001.0, 2000.0] == event.data["message"]["geometry"]["coordinates"]


def test_an_async_client_speaks_of_a_plane(server):
    """The same, awaited."""

    async def main():
        async with AsyncClient(server.url, space=Space("plane")) as client:
            await client.subscribe(Within("async", "tea", Circle(0, 0, 5)), subscriber="dora")
            assert 1 == (await client.move_subscriber("dora", (7, 8)))["moved"]
            return await client.get("async")

    assert (7.0, 8.0) == tuple(asyncio.run(main())[name] for name in ("x", "y"))


def test_a_space_that_there_is_not_is_refused():
    """As by a hub."""
    with pytest.raises(InvalidInput, match="moon"):
        Client("http://127.0.0.1:9", space="moon")
