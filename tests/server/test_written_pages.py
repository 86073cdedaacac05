"""Pages that a stream writes when they are read, without being woken; and a client that must be waited for."""

import asyncio
import json

import pytest

from nearcast.durable import Cursor
from nearcast.server.feeds import EventFollower, EventPage
from support.http_server import circle, feature
from support.waiting import wait_until

SERVER = {"limits": {"text_chars": 100_000, "stall_seconds": 600.0}}


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


def test_a_client_that_reads_late_gets_every_event_once_and_in_order(server, client):
    """More than sockets hold waits for it; what was begun is written to its end, and the rest follows."""
    client.post("/v1/subscriptions", json=circle("tea", subscriber="late"))
    text = "tea " + "x" * 50_000
    with client.stream("GET", "/v1/subscribers/late/stream") as stream:
        for first in range(0, 400, 20):
            body = [feature(number, text) for number in range(first, first + 20)]
            assert 202 == client.post("/v1/messages", json=body).status_code
        wait_until(lambda: server.tenant().stalls._until)  # somebody waits for the client
        found = []
        for line in stream.iter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: "))["data"]["message_id"])
            if len(found) == 400:
                break
    assert list(range(400)) == found
