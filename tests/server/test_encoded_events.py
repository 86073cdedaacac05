"""Events that are written from columns, and streams that follow them."""

import asyncio
import sys
from dataclasses import replace

import msgspec
import pytest

from nearcast import Circle, Similar, TopK, Within
from nearcast.durable import Cursor, DurableHub, EventsWanted, Retention
from nearcast.errors import HubStopped
from nearcast.server.cloud_events import cloud_event
from nearcast.server.encoded_events import EventEncoder
from nearcast.server.feeds import EventFollower, EventPage
from nearcast.server.stalls import StallWatch, TooSlow

ALL_KINDS = {"match", "enter", "exit", "expired", "topk.added", "topk.removed"}
encode = msgspec.json.Encoder(enc_hook=str).encode


def moment(second):
    return f"2026-01-01T00:00:{second:02d}{'.25' if second % 2 else ''}Z"


def test_events_are_written_as_cloud_events_byte_for_byte(tmp_path):
    """All kinds, ids of text and numbers, attributes, scores; from files and from memory."""
    subscriptions = [
        Within('a "quoted" \\ id\n\u00e9', "tea", Circle(0, 0, 1)),
        Within(7, "tea", Circle(1, 0, 1)),
        Similar("similar", "tea soup", (0.5, 0.0), threshold=0.1, max_distance=3),
        TopK("top", "tea", (0, 0), k=2, max_distance=3),
    ]
    with DurableHub(tmp_path / "hub", "plane", lifetime="5s", window=3, tell_expiry=True) as hub:
        for each in subscriptions:
            hub.subscribe(each, subscriber="anna")
        for number in range(12):
            message = {
                "id": number if number % 2 else f'm"{number}',
                "text": "tea \u2615",
                "x": number % 3 / 2,
                "y": 0.0,
            }
            hub.publish({**message, "time": moment(number), "price": 1e-7, "who": None if number % 3 else "\u00e9"})
            hub.move(7, (number % 3, 0.0), moment(number))
            if number == 6:
                hub._outbox.flush()
        hub.advance(moment(50))
        events = hub.events("anna", after="0-0")
        (written,) = hub.events_many([EventsWanted("anna", "0-0", 1000)], EventEncoder().events_of)

        assert ALL_KINDS == {each.kind for each in events}
        assert [encode(cloud_event(each)) for each in events] == [each.data for each in written]
        assert [(each.cursor, each.kind) for each in events] == [(each.cursor, each.kind) for each in written]
        assert [each.subscription_id for each in events] == [each.subscription_id for each in written]
        assert events.read_to == written.read_to >= events.cursor
        hub.publish({"id": "last", "text": "tea", "x": 0.0, "y": 0.0, "time": moment(55)})
        later = list(hub.events("anna", after=events.read_to))
        assert later == list(hub.events("anna", after=events.cursor)) != []


class AskedPages:
    """Feeds that note who asks, and read nothing."""

    def __init__(self):
        self.asked = []

    def ask(self, follower):
        self.asked.append(follower)

    def read(self, follower, meanwhile=lambda: None, found=None, n=0, is_full=False):
        """Read a page for the one who asked; something may happen meanwhile."""
        assert [follower] == self.asked
        self.asked.clear()
        follower.begin_read()
        meanwhile()
        page = EventPage([None] * n, "0-0", "0-0", 0, is_full=is_full, read_to=Cursor(9, 9))
        follower.take(page if found is None else found)


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_stream_is_woken_when_there_is_a_page():
    """It looks at once, then when there may be something; what comes while it is looked for is looked for again."""

    async def test():
        feeds = AskedPages()
        follower = EventFollower(feeds, "anna", "0-0", 100, 600)
        waiting = asyncio.create_task(follower.next())
        await settled()
        feeds.read(follower)
        await settled()
        assert ([], False) == (feeds.asked, waiting.done()), "there was nothing"
        assert Cursor(9, 9) == follower.after

        follower.wake()
        follower.wake()
        feeds.read(follower, follower.wake)
        assert [follower] == feeds.asked, "something came meanwhile"
        feeds.read(follower, n=2)
        assert 2 == len((await waiting).events)

        follower.wake()
        assert [] == feeds.asked, "it is still writing"
        waiting = asyncio.create_task(follower.next())
        await settled()
        feeds.read(follower, n=100, is_full=True)
        assert 100 == len((await waiting).events)
        waiting = asyncio.create_task(follower.next())
        await settled()
        feeds.read(follower, found=HubStopped("the hub stopped"))
        with pytest.raises(HubStopped):
            await waiting
        follower.close()

    asyncio.run(test())


def test_a_page_that_comes_after_an_interruption_is_read_again():
    """The stream was told to look elsewhere: nothing is lost, and the cursor stays."""

    async def test():
        feeds = AskedPages()
        follower = EventFollower(feeds, "anna", "0-0", 100, 600)
        waiting = asyncio.create_task(follower.next())
        await settled()
        follower.interrupt()
        assert (await waiting) is None
        feeds.read(follower, n=3)
        assert "0-0" == follower.after
        waiting = asyncio.create_task(follower.next())
        await settled()
        feeds.read(follower, n=3)
        assert 3 == len((await waiting).events)
        follower.close()
        impatient = EventFollower(AskedPages(), "anna", "0-0", 100, 0.01)
        assert [None, None] == [await impatient.next(), await impatient.next()], "the time is over"

    asyncio.run(test())


def test_a_write_that_takes_too_long_is_cut_off_and_others_go_on():
    """Also one after the other in the same task; who is cancelled by others is not called slow."""

    async def test():
        watch, never = StallWatch(), asyncio.get_running_loop().create_future()
        other = asyncio.create_task(watch.limited(never, 6_000))
        for _ in range(2):
            await watch.limited(asyncio.sleep(0), 6_000)
        with pytest.raises(TooSlow):
            await watch.limited(asyncio.get_running_loop().create_future(), 0.05)
        await watch.limited(asyncio.sleep(0), 6_000)
        assert not other.done()
        other.cancel()
        with pytest.raises(asyncio.CancelledError):
            await other
        assert {} == watch._until

    asyncio.run(test())


@pytest.mark.parametrize(("limit", "value"), [("_MOST_HELD", 2_000), ("_LONGEST_HELD", 100)])
def test_messages_are_encoded_once_and_held_within_bounds(tmp_path, monkeypatch, limit, value):
    """A second subscriber's events are written without reading their messages; what is not held is read again."""
    with DurableHub(tmp_path / "hub", "plane") as hub:
        for name in ("anna", "ben"):
            hub.subscribe(Within(name, "tea", Circle(0, 0, 1)), subscriber=name)
        hub.publish_many([{"id": number, "text": "tea", "x": 0.0, "y": 0.0} for number in range(20)])
        read = []

        def noted(columns):
            read_messages = columns.read_messages
            counted = replace(
                columns, read_messages=lambda arrivals: read.append(len(arrivals)) or read_messages(arrivals)
            )
            return encoder.events_of(counted)

        def events_of(name):
            return [each.data for each in hub.events_many([EventsWanted(name, "0-0", 1000)], noted)[0]]

        encoder = EventEncoder()
        first, second = events_of("anna"), events_of("ben")
        assert [20] == read
        messages = [[msgspec.json.decode(each)["data"]["message"] for each in events] for events in (first, second)]
        assert messages[0] == messages[1]
        assert list(range(20)) == [each["id"] for each in messages[0]]

        monkeypatch.setattr(f"nearcast.server.encoded_events.{limit}", value)
        encoder = EventEncoder()
        assert first == events_of("anna")
        n_held = len(encoder._features)
        assert second == events_of("ben")
        assert [20, 20, 20 - n_held] == read
        held = sum(sys.getsizeof(each) + 200 for each in encoder._features.values())
        assert encoder._bytes_held == held <= 2_000


def test_a_message_that_is_not_kept_any_more_is_not_sent_although_it_is_held(tmp_path):
    """What comes of it later has none, as after a restart; a later message that is kept is sent."""
    options = {"lifetime": "expires", "tell_expiry": True, "retention": Retention(age=None, bytes=1)}
    with DurableHub(tmp_path / "hub", "plane", **options) as hub:
        encoder = EventEncoder()

        def sent(after):
            for page in hub.events_many([EventsWanted("anna", after, 1000)], encoder.events_of):
                for each in page:
                    event = msgspec.json.decode(each.data)
                    yield event["type"].split(".")[1], event["data"]["message_id"], event["data"]["message"] is None

        def publish(number, **times):
            hub.publish_many([{"id": number, "text": "tea", "x": 0.0, "y": 0.0, **times}])

        hub.subscribe(Within("tea", "tea", Circle(0, 0, 1)), subscriber="anna")
        publish(1, time=moment(0), expires=moment(50))
        assert [("match", 1, False)] == list(sent("0-0"))
        assert 1 == len(hub.events("anna", after="0-0"))
        hub._outbox.flush()
        hub.advance(moment(50))
        hub._outbox.tidy(0)
        assert [("expired", 1, True)] == list(sent("0-0"))
        assert [None] == [each.message for each in hub.events("anna", after="0-0")]
        publish(2, time=moment(51))
        assert [("expired", 1, True), ("match", 2, False)] == list(sent("0-0"))
