"""Streams of a client: events as they come, again after a restart of the server, and acknowledged."""

from __future__ import annotations

import asyncio
import json
from itertools import islice

from nearcast import AsyncClient, Client
from support.http_server import circle, feature, running


def ids(events):
    return [event.data["message_id"] for event in events]


def test_events_are_pulled_and_acknowledged(tmp_path):
    """A page after a cursor; after an acknowledgement the next page begins there."""
    with running(tmp_path) as server, Client(server.url) as client:
        client.subscribe(circle("tea"), subscriber="anna")
        client.publish_many([feature(f"m{n}") for n in range(5)])
        page = client.events("anna", limit=2)
        assert (ids(page.events), page.gap) == (["m0", "m1"], 0)
        assert ids(client.events("anna", after=page.cursor).events) == ["m2", "m3", "m4"]
        client.ack("anna", page.cursor)
        assert ids(client.events("anna").events) == ["m2", "m3", "m4"]
        assert client.events("nobody", wait=0.01).events == []


def test_a_stream_goes_on_after_a_restart(tmp_path):
    """The server stops under an open stream and comes back at the same port: no event is missing, none comes twice."""
    with running(tmp_path) as server:
        url = server.url
        client = Client(url, retry_for=600)
        client.subscribe(circle("tea"), subscriber="anna")
        client.publish_many([feature("m0"), feature("m1")])
        stream = client.stream("anna")
        assert ids(islice(stream, 2)) == ["m0", "m1"]
    with running(tmp_path, port=int(url.rpartition(":")[2])), client:
        client.publish(feature("m2"))
        assert ids(islice(stream, 1)) == ["m2"]
        stream.close()


def test_the_async_stream(tmp_path):
    """As they come, while others publish."""

    async def act(url):
        async with AsyncClient(url) as client:
            await client.subscribe(circle("tea"), subscriber="anna")
            await client.publish(feature("m0"))
            found = []
            async for event in client.stream("anna"):
                found.append(event.data["message_id"])
                await client.ack("anna", event.cursor)
                if len(found) == 3:
                    break
                await client.publish(feature(f"m{len(found)}"))
            return found

    with running(tmp_path) as server:
        assert asyncio.run(act(server.url)) == ["m0", "m1", "m2"]
        with Client(server.url) as client:
            assert client.events("anna").events == []


def test_a_move_enters_and_leaves(tmp_path):
    """A subscriber that walks to a living message gets `enter`, and `exit` when it goes."""
    with running(tmp_path, hub={"lifetime": "1h"}) as server, Client(server.url) as client:
        client.subscribe(circle("tea", lon=0.0, lat=0.0), subscriber="anna")
        client.publish(feature("m0"))
        assert client.move_subscriber("anna", (13.4, 52.5)) == {"moved": 1, "stayed": []}
        client.move_subscriber("anna", (0.0, 0.0))
        page = client.events("anna")
        assert [(event.type, event.data["message_id"]) for event in page.events] == [("enter", "m0"), ("exit", "m0")]
        client.erase("anna")
        assert list(client.subscriptions("anna")) == []


def test_tail(nearcast, tmp_path):
    """`nearcast tail` prints events, and acknowledges them when it is told to."""
    with running(tmp_path) as server, Client(server.url) as client:
        client.subscribe(circle("tea"), subscriber="anna")
        client.publish_many([feature("m0"), feature("m1")])
        done = nearcast("tail", "anna", "--ack", "--limit", 2, "--url", server.url)
        assert (0, ["m0", "m1"]) == (done.status, [json.loads(line)["subject"] for line in done.out.splitlines()])
        assert client.events("anna").events == []
