"""The life of a town on a server: people subscribe and walk, messages fall and die, events are read as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from nearcast.client import AsyncClient
from nearcast.demo.city import POSTS, Pick, picker
from nearcast.demo.event_tally import EventTally
from nearcast.demo.flaky_receiver import FlakyReceiver
from nearcast.demo.people import HOOKED, Townsperson, townspeople
from nearcast.demo.streets import Streets
from nearcast.demo.walk import StreetWalk

#: Seconds between two steps of all walkers, and how far a step goes: nobody would watch people who only walk.
_STEP_S, _STEP_M = 1.0, 25.0
#: Seconds between two messages.
_POST_S = 0.4
_LIVES = timedelta(minutes=2), timedelta(minutes=5)


class TownLife:
    """Everybody in the town, as clients of one server."""

    def __init__(self, client: AsyncClient, streets: Streets, receiver: FlakyReceiver, seed: int):
        self._client, self._streets, self._receiver = client, streets, receiver
        self._rng = np.random.default_rng([seed, 2])
        self._people = townspeople(streets, self._rng)
        self.tally = EventTally(receiver)

    @property
    def n_subscriptions(self) -> int:
        """How many subscriptions the people have."""
        return sum(len(each.subscriptions) for each in self._people)

    async def move_in(self) -> None:
        """Register everybody's subscriptions, and the webhook of one of them; then let everything happen once.

        Whatever is compiled by that is waited for here, and not under the eyes of who watches.
        """
        for person in self._people:
            for each in person.subscriptions:
                await self._client.subscribe(each, subscriber=person.name)
        await self._client.put_subscriber(HOOKED, sink={"url": self._receiver.url})
        pick, topics = picker(self._rng), list(POSTS)
        walker = next(each for each in self._people if each.walks)
        for step in range(3):  # a move, messages for who has moved, and a move of who has
            await self._post_one(pick, topics)
            await self._client.move_subscriber(walker.name, self._streets.crossings[walker.crossing + 3 * step])

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[asyncio.Future[Any]]:
        """Let people walk, post and listen; yields a future that is done only if one of them failed."""
        parts: list[Coroutine[Any, Any, None]] = [self._post(), self._walk()]
        together = asyncio.gather(*parts, *(self._listen(each) for each in self._people))
        try:
            yield together
        finally:
            together.cancel()
            await asyncio.gather(together, return_exceptions=True)

    async def _post(self) -> None:
        """Publish messages at street corners, without end."""
        pick, topics = picker(self._rng), list(POSTS)
        while True:
            await self._post_one(pick, topics)
            await asyncio.sleep(_POST_S)

    async def _post_one(self, pick: Pick, topics: list[str]) -> None:
        self.tally.n_published += 1
        lon, lat = StreetWalk(self._streets, self._corner(), self._rng).go(self._rng.uniform(0, 300))
        life = _LIVES[0] + self._rng.random() * (_LIVES[1] - _LIVES[0])
        post = {"id": f"post-{self.tally.n_published}", "text": POSTS[pick(topics)](pick), "lon": lon, "lat": lat}
        await self._client.publish(post | {"expires": datetime.now(UTC) + life})

    async def _walk(self) -> None:
        """Let all walkers take a step at a time, without end."""
        walks = {each.name: StreetWalk(self._streets, each.crossing, self._rng) for each in self._people if each.walks}
        while True:
            moves = (self._client.move_subscriber(name, walk.go(_STEP_M)) for name, walk in walks.items())
            await asyncio.gather(*moves)
            await asyncio.sleep(_STEP_S)

    async def _listen(self, person: Townsperson) -> None:
        """Count a subscriber's events as its stream brings them."""
        async for event in self._client.stream(person.name):
            self.tally.counts[event.type] += 1

    def _corner(self) -> int:
        """Return a crossing, more often one in the middle of the town."""
        n = len(self._streets.crossings)
        return int(np.clip(self._rng.normal(n / 2, n / 4), 0, n - 1))
