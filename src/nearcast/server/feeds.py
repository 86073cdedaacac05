"""Feeds of events: pages of a subscriber's events as JSON, and a way to wait for the next one.

Nothing is pushed into queues: a stream reads its next page when it has sent the last one, so that a slow client costs
one page of memory and nobody else's time. Pages that are asked for together are read in one call of a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from nearcast.durable import EventsWanted
from nearcast.errors import NearcastError
from nearcast.server.cloud_events import cloud_event, gap_event, short_type
from nearcast.server.event_limits import EventLimits, HandedOver
from nearcast.server.metrics import TenantMetrics

#: Pages that one call of a thread reads.
_MOST_PAGES = 500
_encode = msgspec.json.Encoder(enc_hook=str).encode


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    """An event as it is sent: its cursor, its short type and its JSON."""

    cursor: str
    kind: str
    data: bytes


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events of a subscriber after `begin`; the next page begins at `cursor`, `gap` were dropped before this."""

    events: list[EncodedEvent]
    begin: str
    cursor: str
    gap: int = 0
    #: Whether there may be more.
    is_full: bool = False


@dataclass(eq=False)
class PageRequest:
    """A page that somebody waits for."""

    subscriber: str
    after: str | None
    limit: int
    answer: asyncio.Future[EventPage] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class EventFeeds:
    """The events of one tenant's hub, for all who read them."""

    def __init__(
        self,
        hub: Any,
        executor: Executor,
        loop: asyncio.AbstractEventLoop,
        metrics: TenantMetrics,
        limits: EventLimits,
    ):
        self._hub, self._executor, self._loop, self._metrics, self._limits = hub, executor, loop, metrics, limits
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._asked: list[PageRequest] = []
        self._reader: asyncio.Task[None] | None = None
        self._stop_listening = hub.on_release(self._released, self._wanted)

    def close(self) -> None:
        """Listen to the hub no more."""
        self._stop_listening()

    # Waiting

    def _wanted(self) -> list[str]:
        """Return whose events somebody waits for or counts; in the writing thread of the hub."""
        return [*self._waiting, *self._limits.counted()]

    def _released(self, names: list[str]) -> None:
        """Note who got something; in the writing thread of the hub."""
        woken = [name for name in names if name in self._waiting]
        if woken:
            self._loop.call_soon_threadsafe(self.wake, woken)
        self._limits.count_soon(names)

    def wake(self, names: list[str]) -> None:
        """Let those who wait for events of subscribers look for them."""
        for name in names:
            for waiter in self._waiting.get(name, ()):
                if not waiter.done():
                    waiter.set_result(None)

    @contextmanager
    def waiting(self, subscriber: str) -> Iterator[asyncio.Future[None]]:
        """Give a future that is done when a subscriber gets something; entered before looking whether it has."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiting.setdefault(subscriber, set()).add(waiter)
        try:
            yield waiter
        finally:
            others = self._waiting[subscriber]
            others.discard(waiter)
            if not others:
                del self._waiting[subscriber]

    # Reading

    async def page(self, subscriber: str, after: str | None, limit: int) -> EventPage:
        """Return the events of a subscriber after a cursor; None: after its last acknowledgement."""
        request = PageRequest(subscriber, after, limit)
        self._asked.append(request)
        if self._reader is None or self._reader.done():
            self._reader = self._loop.create_task(self._read_asked())
        return await request.answer

    async def _read_asked(self) -> None:
        while self._asked:
            batch, self._asked = self._asked[:_MOST_PAGES], self._asked[_MOST_PAGES:]
            found = await self._loop.run_in_executor(self._executor, self._read, batch)
            for request, page in zip(batch, found, strict=True):
                if request.answer.done():  # whoever asked has gone
                    continue
                if isinstance(page, BaseException):
                    request.answer.set_exception(page)
                else:
                    request.answer.set_result(page)

    def _read(self, batch: list[PageRequest]) -> list[EventPage | BaseException]:
        """Read pages; in a thread."""
        try:
            found = self._limits.pages([EventsWanted(each.subscriber, each.after, each.limit) for each in batch])
        except Exception as error:  # noqa: BLE001  told to all who asked
            return [error] * len(batch)
        return [page if isinstance(page, NearcastError) else self._encoded_page(page) for page in found]

    def _encoded_page(self, found: HandedOver) -> EventPage | BaseException:
        try:
            if found.gap:
                self._metrics.gaps.labels("retention").inc(found.gap)
            encoded = [_encoded(cloud_event(event)) for event in found.events]
            return EventPage(encoded, found.begin, found.cursor, found.gap, is_full=found.is_full)
        except Exception as error:  # noqa: BLE001  told to the one who asked
            return error


def _encoded(event: dict[str, Any]) -> EncodedEvent:
    return EncodedEvent(str(event["sequence"]), short_type(event), _encode(event))


def encoded_gap(subscriber: str, page: EventPage) -> EncodedEvent:
    """Return the event that stands for those that were dropped before a page."""
    return _encoded(gap_event(subscriber, page.begin, page.gap))
