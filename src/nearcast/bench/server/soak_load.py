"""The traffic of a soak: each second messages, subscriptions that come and go, moves, and readers that acknowledge.

Every message has a word that no other has, as texts of people do.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from threading import Event
from typing import Any

import msgspec

from nearcast.bench.server.loopback_http import ARROW, JSON, LINES, HttpClient, SseReader, open_streams
from nearcast.bench.server.workload import WORDS, MessageMaker, ServerSizes, subscriber_name
from nearcast.errors import NearcastError

#: Of the messages of a second so many are published one by one; the rest are lines and Arrow, half and half.
_SINGLES = 10
#: Subscriptions that come and go each second, and those that are there at a time.
CHANGES_PER_S, _CHANGING = 20, 200
#: Places that are told each second, and the subscribers whose places they are: a subscription that moves for the first
#: time takes memory, so all of these must have moved before growth is looked for.
MOVES_PER_S, _MOVERS = 20, 1_000
#: Streams that are open, one of which is opened anew each second.
_STREAMS = 10
#: Subscribers that are read and acknowledged each second, and connections that share them, as acks share an fsync.
READ_PER_S, _READERS = 200, 8


#: What is done each second over a connection.
Work = Callable[[HttpClient], Awaitable[None]]


class SoakLoad:
    """What a server is asked for, second by second; `done` counts it."""

    #: What is done at the same time.
    LOOPS = 2 + _READERS

    def __init__(self, port: int, sizes: ServerSizes, messages_per_s: int, seed: int):
        self._port, self._sizes, self._rate = port, sizes, messages_per_s
        self._maker, self._numbers = MessageMaker(seed, 1), count()
        self._changing: deque[str] = deque()
        self._names = [subscriber_name(number) for number in range(sizes.subscribers)]
        self._rounds_s = [0] * _READERS
        self.failure: str | None = None
        #: Seconds' work that was done, of all loops.
        self.rounds = 0
        self.done = {"messages": 0, "changes": 0, "moves": 0, "acks": 0, "events": 0, "streamed": 0, "round_s": 0}

    def run(self, stopped: Event) -> None:
        """Ask until told to stop, or until the server answers no more: `failure` says how that was."""
        try:
            asyncio.run(self._run(stopped))
        except (OSError, EOFError, NearcastError) as error:
            self.failure = f"{type(error).__name__}: {error}"

    async def _run(self, stopped: Event) -> None:
        streams: deque[SseReader] = deque()

        async def reopen(client: HttpClient) -> None:
            await self._reopen(client, streams)

        works = [self._write, reopen, *map(self._reader, range(_READERS))]
        await asyncio.gather(*(self._each_second(each, stopped) for each in works))
        for stream in streams:
            stream.transport.abort()

    async def _each_second(self, work: Work, stopped: Event) -> None:
        """Do something once a second, each time over a new connection: the server closes those that are idle."""
        while not stopped.is_set():
            began = time.monotonic()
            async with HttpClient(self._port) as client:
                await work(client)
            self.rounds += 1
            await asyncio.sleep(max(0.0, began + 1 - time.monotonic()))

    async def _write(self, client: HttpClient) -> None:
        await self._publish(client)
        await self._change(client)
        await self._move(client)

    async def _publish(self, client: HttpClient) -> None:
        singles = min(_SINGLES, self._rate)
        for feature in self._features(singles):
            await client.publish(msgspec.json.encode(feature))
        rest = self._rate - singles
        for n, content_type in ((rest // 2, LINES), (rest - rest // 2, ARROW)):
            for first in range(0, n, self._sizes.batch):
                portion = min(self._sizes.batch, n - first)
                await client.publish(self._body(portion, content_type), content_type)
        self.done["messages"] += self._rate

    def _features(self, n: int) -> list[dict[str, Any]]:
        found = [msgspec.json.decode(each) for each in self._maker.features(n)]
        for each in found:
            each["properties"]["text"] += f" x{each['id']}"
        return found

    def _body(self, n: int, content_type: str) -> bytes:
        if content_type == ARROW:
            return self._maker.arrow(n)
        return b"\n".join(map(msgspec.json.encode, self._features(n)))

    async def _change(self, client: HttpClient) -> None:
        """Store some subscriptions, half one by one, and delete as many old ones."""
        made = [self._subscription() for _ in range(CHANGES_PER_S // 2)]
        half = len(made) // 2
        for each in made[:half]:
            await client.call("PUT", f"/v1/subscriptions/{each['id']}", msgspec.json.encode(each))
        await client.call("POST", "/v1/subscriptions", msgspec.json.encode(made[half:]))
        self._changing.extend(each["id"] for each in made)
        while len(self._changing) > _CHANGING:
            await client.call("DELETE", f"/v1/subscriptions/{self._changing.popleft()}")
        self.done["changes"] += CHANGES_PER_S

    def _subscription(self) -> dict[str, Any]:
        number = next(self._numbers)
        (lon,), (lat,) = self._maker.places(1)
        owner = self._names[number % len(self._names)]
        place = {"lon": float(lon), "lat": float(lat), "radius_m": 2_000}
        return {"id": f"soak-{number}", "query": f"w{number % WORDS} OR y{number}", "subscriber": owner, **place}

    async def _move(self, client: HttpClient) -> None:
        body = self._maker.locations(MOVES_PER_S, min(_MOVERS, self._sizes.subscribers))
        found = await client.call("POST", "/v1/locations", body, JSON)
        self.done["moves"] += found["accepted"]

    def _reader(self, number: int) -> Work:
        """Return what reads every `_READERS`-th subscriber in turn, and acknowledges what waited for it."""
        names = self._names[number::_READERS]
        turns, began = count(), time.monotonic()

        async def read(client: HttpClient) -> None:
            nonlocal began
            for _ in range(min(READ_PER_S // _READERS, len(names))):
                at = next(turns) % len(names)
                if not at:
                    now = time.monotonic()
                    self._rounds_s[number], began = round(now - began), now
                    self.done["round_s"] = max(self._rounds_s)
                await self._read(client, names[at])

        return read

    async def _read(self, client: HttpClient, name: str) -> None:
        path = f"/v1/subscribers/{name}"
        page = await client.call("GET", f"{path}/events?limit=1000")
        if page["events"]:
            await client.call("POST", f"{path}/ack", msgspec.json.encode({"cursor": page["cursor"]}))
            self.done["acks"] += 1
            self.done["events"] += len(page["events"])

    async def _reopen(self, client: HttpClient, streams: deque[SseReader]) -> None:
        """Close the oldest stream and open another."""
        if len(streams) >= _STREAMS:
            streams.popleft().transport.abort()
        name = self._names[next(self._numbers) % len(self._names)]
        acked = (await client.call("GET", f"/v1/subscribers/{name}"))["acked"]
        streams.extend(await open_streams(self._port, [name], acked, self._on_event))

    def _on_event(self, *_: object) -> None:
        self.done["streamed"] += 1
