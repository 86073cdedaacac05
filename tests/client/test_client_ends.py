"""Clients at their ends: streams that break and lines that are hard to tell, answers that were lost, bad input."""

import asyncio
import json
from contextlib import contextmanager
from itertools import islice

import pytest

from nearcast import AsyncClient, Client
from nearcast.client import ServerProblem, ServerUnavailable
from nearcast.client.connection import OpenStream
from nearcast.client.events import EventStreamParser
from nearcast.client.retries import Retrying
from nearcast.errors import InvalidInput
from support.http_handler import QuietHandler, served
from support.http_server import circle, feature, running

STREAM = "text/event-stream; charset=utf-8"
#: A client that knows only seconds: what it must outlive takes longer in all.
BRIEF = {"retry_for": 0.3}


def _event(n):
    found = {"specversion": "1.0", "type": "nearcast.match.v1", "id": f"e{n}", "sequence": f"{n}-1", "data": {"n": n}}
    return b"id: %d-1\ndata: %s\n\n" % (n, json.dumps(found).encode())


@contextmanager
def answering(*answers):
    """Run a server that gives these answers, (status, type, body) or None to hang up, and then the last one again."""
    seen = []

    class Handler(QuietHandler):
        def do_GET(self):  # noqa: N802  the name is that of the library
            self.body()
            seen.append((self.command, self.path, dict(self.headers)))
            answer = answers[min(len(seen), len(answers)) - 1]
            if answer is None:
                self.hang_up()
            else:
                self.answer(*answer)

        do_DELETE = do_GET  # noqa: N815  the name is that of the library

    with served(Handler) as url:
        yield url, seen


def test_texts_with_other_line_ends(tmp_path):
    """Line and paragraph separators, form feeds: they stand in the text, and end no line of a stream."""
    text = "tea \u2028 and \u2029 with \x85 some \x0c more \x1e \u00fc"

    async def first(url):
        async with AsyncClient(url) as client:
            return await anext(client.stream("anna"))

    with running(tmp_path) as server, Client(server.url) as client:
        client.subscribe(circle("tea"), subscriber="anna")
        client.publish(feature("m0", text=text))
        (event,) = islice(client.stream("anna"), 1)
        assert text == event.data["message"]["properties"]["text"]
        assert event == asyncio.run(first(server.url))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_lines_cut_anywhere(end):
    """Whatever the network makes of a stream: bytes one by one give the same events."""
    data = (b": hello\n\n" + _event(1) + b"event: close\ndata: {}\n\n" + _event(2)).replace(b"\n", end) + b":\n"
    whole, cut = EventStreamParser(), EventStreamParser()
    assert ["e1", "e2"] == [event.id for event in whole.feed(data)]
    assert ["e1", "e2"] == [event.id for at in range(len(data)) for event in cut.feed(data[at : at + 1])]


def test_a_stream_without_events_may_break_as_often_as_it_likes():
    """A proxy closes idle connections; each was one that stood, so no patience is used up."""
    idle, event = (200, STREAM, b"retry: 2000\n\n: keep-alive\n\n"), (200, STREAM, _event(1))
    with answering(*[idle] * 12, event) as (url, seen), Client(url, **BRIEF) as client:
        (found,) = islice(client.stream("anna", after="0-7"), 1)
        assert ("e1", 13) == (found.id, len(seen))
        assert {"0-7"} == {headers["last-event-id"] for _, _, headers in seen}


def test_a_stream_that_is_ended_at_once_gives_up_with_the_reason():
    """Else a client would ask a hub that stopped again and again, for ever."""
    stopped = b'retry: 2000\n\nevent: close\ndata: {"reason":"HubStopped"}\n\n'

    async def read(url):
        async with AsyncClient(url, **BRIEF) as client:
            async for _ in client.stream("anna"):
                pass

    with answering((200, STREAM, stopped)) as (url, seen):
        with Client(url, **BRIEF) as client, pytest.raises(ServerUnavailable, match="HubStopped"):
            next(client.stream("anna"))
        n = len(seen)
        assert n > 1
        with pytest.raises(ServerUnavailable, match="HubStopped"):
            asyncio.run(read(url))
        assert len(seen) > n


@pytest.mark.parametrize(
    ("kind", "body"),
    [("text/html", b"<html>"), (STREAM, b"data: {half\n\n"), (STREAM, b'data: {"specversion": "1.0"}\n\n')],
    ids=["page", "half", "empty"],
)
def test_what_is_no_stream_of_events(kind, body):
    """A proxy's page with status 200, and events that are none: told at once, without asking again."""
    with answering((200, kind, body)) as (url, seen), Client(url) as client:
        with pytest.raises(ServerProblem, match="is this a nearcast server"):
            next(client.stream("anna"))
        assert 1 == len(seen)


def test_a_stream_waits_longer_than_a_request_may():
    """Servers say something every 15 s: a short timeout of requests must not cut streams."""
    short, long = (OpenStream("anna", None, timeout).request["timeout"] for timeout in (2.0, 90.0))
    assert (2.0, 60.0, 90.0) == (short.connect, short.read, long.read)


def test_a_deletion_whose_answer_was_lost():
    """It was made, and finds nothing when it is made again: that is success. Without a loss it is an error."""
    unknown = (404, "application/problem+json", b'{"title": "unknown-subscription"}')

    async def act(url):
        async with AsyncClient(url) as client:
            await client.erase("anna")

    with answering(None, unknown) as (url, seen), Client(url) as client:
        assert client.unsubscribe("tea") is None
        assert ["DELETE", "DELETE"] == [method for method, *_ in seen]
        with pytest.raises(ServerProblem, match="404"):
            client.unsubscribe("tea")
    with answering(None, unknown) as (url, _):
        asyncio.run(act(url))


def test_patience_is_time_and_not_only_pauses():
    """Attempts that take long count: a call is made again for so long, and no longer."""
    now = [100.0]
    retrying = Retrying(60.0, _clock=lambda: now[0])
    error = ServerUnavailable("it hangs")
    for _ in range(3):
        assert 0 < retrying.pause_s(error) < 1
        now[0] += 29.0
    with pytest.raises(ServerUnavailable):
        retrying.pause_s(error)


def test_a_feature_has_its_subscriber_and_id(tmp_path):
    """As properties: it is replaced under its id, and its events are those of the subscriber."""
    given = {
        "type": "Feature",
        "geometry": {"type": "Point", "coordinates": [13.4, 52.5]},
        "properties": {"id": "tea", "query": "tea", "radius_m": 800},
    }
    with running(tmp_path) as server, Client(server.url) as client:
        for _ in range(2):
            assert "tea" == client.subscribe(given, subscriber="anna", labels={"team": "a"}, max_events=3)
        found = client.get("tea")
        assert ("anna", {"team": "a"}, 3) == (found["subscriber"], found["labels"], found["max_events"])
        client.publish(feature("m0"))
        assert ["m0"] == [event.data["message_id"] for event in client.events("anna").events]
        assert {"type", "geometry", "properties"} == set(given)
        assert "subscriber" not in given["properties"]


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Client("127.0.0.1:8080"), "url"),
        (lambda: Client("ws://127.0.0.1:8080"), "url"),
        (lambda: AsyncClient(None), "url"),
        (lambda: Client("http://127.0.0.1:8080", "nc_secret\n"), "token"),
        (lambda: AsyncClient("http://127.0.0.1:8080", "geheim\u00fc"), "token"),
        (lambda: Client("http://127.0.0.1:1").publish(feature(1), key="a\nb"), "key"),
        (lambda: Client("http://127.0.0.1:1").publish(feature(1), key="\u00fc"), "key"),
        (lambda: Client("http://127.0.0.1:1").publish(feature(1), key=""), "key"),
    ],
    ids=["no-scheme", "socket", "none", "line-end", "letters", "key-line-end", "key-letters", "key-empty"],
)
def test_what_could_never_be_sent(make, field):
    """It is told at once, and not after a minute of trying; no secret is repeated."""
    with pytest.raises(InvalidInput) as caught:
        make()
    assert field == caught.value.field
    assert "secret" not in str(caught.value)
