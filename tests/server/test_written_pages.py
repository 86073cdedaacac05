"""Pages that a stream writes when they are read, without being woken; and a client that must be waited for."""

import asyncio
import json
import socket
from itertools import takewhile

import httpx2
import pytest

from nearcast.durable import Cursor
from nearcast.server.feeds import EventFollower, EventPage
from support.http_server import circle, feature, running
from support.waiting import wait_until

#: The id of the message after those that a client reads late.
LAST = 200


class OpenFeeds:
    """Feeds that note who asks."""

    def __init__(self):
        self.asked = []

    def ask(self, follower):
        self.asked.append(follower)


def page(n, *, is_full=False):
    return EventPage([None] * n, "0-0", "0-0", 0, is_full=is_full, read_to=Cursor(n, n))


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


def test_pages_are_written_while_the_stream_waits_until_one_is_not_taken():
    """Whoever waits is woken by that one alone, and hears what the writing raises."""

    async def test():
        written, answers = [], [True, True, False]

        def write(found):
            written.append(len(found.events))
            return answers.pop(0)

        feeds = OpenFeeds()
        follower = EventFollower(feeds, "anna", "0-0", 100, 600, write)
        waiting = asyncio.create_task(follower.next())
        await settled()
        for n, is_full in ((1, False), (100, True)):
            follower.begin_read()
            feeds.asked.clear()
            follower.take(page(n, is_full=is_full))
        await settled()
        assert ([1, 100], False, [follower]) == (written, waiting.done(), feeds.asked), "there are more"
        follower.begin_read()
        follower.take(page(3))
        assert (await waiting) is None
        assert ([1, 100, 3], Cursor(3, 3)) == (written, follower.after)
        waiting = asyncio.create_task(follower.next())
        await settled()
        follower.wake()
        follower.begin_read()
        follower.take(page(4))
        with pytest.raises(IndexError):  # there is no answer left
            await waiting
        follower.close()

    asyncio.run(test())


def test_a_client_that_reads_late_gets_every_event_once_and_in_order(tmp_path):
    """More than sockets hold waits for it; what was begun is written to its end, and the rest follows."""
    small = httpx2.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)])
    limits = {"stall_seconds": 6_000.0}
    with running(tmp_path, send_buffer=65_536, limits=limits) as server, server.client(transport=small) as client:
        client.post("/v1/subscriptions", json=circle("tea", subscriber="late"))
        with client.stream("GET", "/v1/subscribers/late/stream") as stream:
            for first in range(0, LAST, 50):
                body = [feature(number, padding="x" * 10_000) for number in range(first, first + 50)]
                with server.client() as other:
                    assert 202 == other.post("/v1/messages", json=body).status_code
            wait_until(lambda: server.tenant().stalls._until)  # somebody waits for the client
            with server.client() as other:
                assert 202 == other.post("/v1/messages", json=[feature(LAST)]).status_code
            lines = (line for line in stream.iter_lines() if line.startswith("data: "))
            ids = (json.loads(line.removeprefix("data: "))["data"]["message_id"] for line in lines)
            found = list(takewhile(lambda id_: id_ != LAST, ids))  # it ends also where one is missing
    assert list(range(LAST)) == found


@pytest.mark.parametrize("name", ["cursor", "lastEventId"])
def test_a_stream_goes_on_after_the_cursor_in_its_query(client, name):
    """`lastEventId` is what clients send that cannot set a header when they connect again."""
    refused = client.get("/v1/subscribers/late/stream", params={name: "noon"})
    assert (422, True) == (refused.status_code, "noon" in refused.json()["detail"])


def test_paths_that_are_like_that_of_a_stream_are_answered_as_ever(client):
    """Another method, no id, one with a slash, and some that no subscriber can have, the placeholder among them."""
    assert 405 == client.post("/v1/subscribers/late/stream").status_code
    assert 200 == client.head("/v1/subscribers/late/stream").status_code
    for name in ("", "a%2Fb", "%20", "%7Bid%7D"):
        refused = client.get(f"/v1/subscribers/{name}/stream")
        assert (404, "application/problem+json") == (refused.status_code, refused.headers["content-type"])
    bad = client.get("/v1/subscribers/late/stream", headers={"Last-Event-ID": "noon"})
    assert (422, "application/problem+json") == (bad.status_code, bad.headers["content-type"])
